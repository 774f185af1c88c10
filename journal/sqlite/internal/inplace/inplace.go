// Package inplace proves that a process's open files are still the files at their paths.
//
// It knows the identities of the journal's file, the WAL and the -shm, and commits as numbers. The writer asks before
// and after each commit, and the checkpointer before it moves the WAL.
package inplace

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// Files are the journal, its WAL and the file with the locks, as they were opened. Writes to the first
// two after they were removed or replaced are lost. Without the third, two processes write at a time.
type Files struct {
	path  string
	names [3]string
	files [3]osfile.ID
	wal   *os.File // SQLite has no locks on it that would be dropped

	moves atomic.Int32 // of the WAL into the file, by this process, that are under way

	mu    sync.Mutex
	stamp osfile.Stamp // of the file, when it was last read alone; zero: it was not, or is to be read again
	alone int64        // the latest commit that the file had then, without its WAL
	older bool         // it lost pages: see notOlder
	salts [8]byte      // of the WAL when Base last looked
	last  int64        // the latest commit then
	base  int64        // the latest commit that was in the file before this WAL began
}

// Open returns the files of a journal that is open and was read.
func Open(path string) (o *Files, err error) {
	o = &Files{path: path, names: [3]string{path, path + "-wal", path + "-shm"}}
	for i, name := range o.names {
		if o.files[i], err = osfile.Identify(name); err != nil {
			return nil, err
		}
	}
	if o.wal, err = os.Open(o.names[1]); err != nil {
		return nil, err
	}
	return o, nil
}

// StillInPlace is InPlace after a commit. The commit may be in a restored file, so journal.ErrRestored cannot promise
// that nothing was recorded.
func (o *Files) StillInPlace() error {
	if err := o.InPlace(); err != nil {
		return fmt.Errorf("it may have been recorded or not: %v", err)
	}
	return nil
}

// InPlace returns journal.ErrRestored if a path does not lead to the open file any more, until that file is
// back. It also does if an older copy was written over the file, or the WAL was emptied.
func (o *Files) InPlace() error {
	file, stamp, err := osfile.Look(o.path)
	if err != nil || !file.Same(o.files[0]) {
		return o.replaced(0)
	}
	for i := 1; i < len(o.names); i++ {
		if !o.leadsTo(i) {
			return o.replaced(i)
		}
	}
	return o.notOlder(stamp)
}

func (o *Files) replaced(i int) error {
	return fmt.Errorf("%w: journal %s: %s was removed or replaced while it was open; nothing is recorded any more; "+
		"put it back, or close the journal and open what is there now", journal.ErrRestored, o.path, o.names[i])
}

func (o *Files) leadsTo(i int) bool {
	file, err := osfile.Identify(o.names[i])
	return err == nil && file.Same(o.files[i])
}

// Move calls move, which moves the WAL into the file. Each page changes the stamp, and a growing file can't be read
// alone before the last page is there. So InPlace reads it only afterwards.
func (o *Files) Move(move func()) {
	o.moves.Add(1)
	defer o.moves.Add(-1)
	move()
}

// notOlder reads the file alone if its stamp shows a write since the last call, usually by a checkpoint.
func (o *Files) notOlder(stamp osfile.Stamp) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if stamp != o.stamp && o.moves.Load() == 0 {
		alone, err := Alone(o.path)
		switch {
		case err == nil && alone < max(o.alone, o.base):
			o.older = true
		case err == nil:
			o.alone = alone
			fallthrough
		case o.alone == 0:
			o.stamp = stamp
		}
	}
	if o.older {
		return o.wentBack()
	}
	return nil
}

// Base returns the latest commit in the file before the WAL began, to the knowledge of the process or the head. The
// caller has the write lock, and gives the latest commit and the head's base.
//
// If the WAL has other salts than at the last call, it began anew. All commits of that call are then in the file, and synced
// (https://sqlite.org/fileformat2.html, section 4.1). If it is empty, all commits are.
func (o *Files) Base(commits, known int64) int64 {
	salts := o.saltsNow()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.base = max(o.base, known)
	switch salts {
	case [8]byte{}:
		o.base = max(o.base, commits)
		o.stamp = osfile.Stamp{} // if it was emptied, the file shows that
	case o.salts:
	default:
		o.base = max(o.base, o.last)
	}
	o.salts, o.last = salts, commits
	return o.base
}

func (o *Files) saltsNow() [8]byte {
	var header [32]byte
	_, _ = o.wal.ReadAt(header[:], 0)
	return [8]byte(header[16:24])
}

// BeganAnew reports whether a WAL that was not empty began anew since the last call of Base. The head has the base of the former
// one then.
func (o *Files) BeganAnew() bool {
	salts := o.saltsNow()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.salts != [8]byte{} && o.salts != salts
}

// wentBack records that the file lost pages. They never come back: this process's knowledge and the WAL
// belong to another file.
func (o *Files) wentBack() error {
	return fmt.Errorf("%w: journal %s: an older copy was written over it while it was open; nothing is recorded any more; "+
		"close the journal and open what is there now", journal.ErrRestored, o.path)
}

// Lost has notOlder say so from now on.
func (o *Files) Lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.older = true
	return o.wentBack()
}

// Mixed reports whether the WAL may not belong to the file any more: an older copy was written over the file, or processes
// with other locks have written either since.
func (o *Files) Mixed() bool {
	_, stamp, err := osfile.Look(o.path)
	older := err == nil && o.notOlder(stamp) != nil
	return older || !o.leadsTo(2)
}

// Rewritten is called with the name of a WAL that Rewrite has synced. It is for tests.
var Rewritten = func(name string) {}

// Rewrite writes the WAL once more, unchanged, and syncs the WAL. After a failed sync, the kernel still shows the data
// that it could not write. A process that opens the journal then takes the data for recorded, and a later sync leaves
// the data out. The caller has the journal's write lock, so that no process writes or cuts the WAL meanwhile.
func (o *Files) Rewrite() error {
	wal, err := os.OpenFile(o.names[1], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer wal.Close()
	if size, err := io.Copy(io.NewOffsetWriter(wal, 0), io.NewSectionReader(wal, 0, math.MaxInt64)); err != nil || size == 0 {
		return err
	}
	if err := wal.Sync(); err != nil {
		return err
	}
	Rewritten(o.names[1])
	return o.InPlace()
}

// Close closes the WAL.
func (o *Files) Close() error { return o.wal.Close() }
