// Package inplace proves that the files that a process has open are still the ones at their paths.
//
// It knows the journal's file, its WAL and its -shm by their identity, and the epoch that the file had when it was last
// read alone. It must not know what a commit is. The writer asks before and after each, and the checkpointer before it
// moves the WAL.
package inplace

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
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
	stamp osfile.Stamp // of the file, when it was last read alone
	filed int64        // the epoch that it had come to then
	older bool         // it lost pages: see notOlder
	begun bool         // the WAL was seen to begin as one
	cut   bool         // and does no more: see notCut
}

// Open returns the files of a journal that is open and was read.
func Open(path string) (*Files, error) {
	o := &Files{path: path, names: [3]string{path, path + "-wal", path + "-shm"}}
	file, stamp, err := osfile.Look(path)
	if err != nil {
		return nil, err
	}
	o.files[0] = file
	for i := 1; i < len(o.names); i++ {
		if o.files[i], err = osfile.Identify(o.names[i]); err != nil {
			return nil, err
		}
	}
	if o.wal, err = os.Open(o.names[1]); err != nil {
		return nil, err
	}
	// There is nothing yet that they could have gone back from.
	_, _ = o.notCut(), o.notOlder(stamp)
	return o, nil
}

// StillInPlace is InPlace after a commit. The commit may be in the file if that is restored, so
// journal.ErrRestored cannot promise that nothing was recorded.
func (o *Files) StillInPlace() error {
	if err := o.InPlace(); err != nil {
		return fmt.Errorf("it may have been recorded or not: %v", err)
	}
	return nil
}

// InPlace returns journal.ErrRestored if a path does not lead to the open file any more, until that file is
// back. It also does if an older copy was written over the file, or the WAL was cut short.
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
	if err := o.notCut(); err != nil {
		return err
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

// Move calls move, which moves the WAL into the file. Each page changes the stamp, and a file that grows can't be read
// alone before its last page is there. So InPlace reads it only afterwards.
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
		epoch, err := sidecar.EpochAlone(o.path)
		switch {
		case err == nil && epoch < o.filed:
			o.older = true
		case err == nil:
			o.filed = epoch
			fallthrough
		case o.filed == 0:
			o.stamp = stamp
		}
	}
	if o.older {
		return o.wentBack()
	}
	return nil
}

// notCut checks that the WAL still begins as one. A WAL that was cut short and then written has zeros there.
// SQLite follows the -shm, takes them for pages, and moves them into the file. An empty WAL may have been
// moved completely. Other content at the start is from a crash.
func (o *Files) notCut() error {
	var header [32]byte
	_, err := o.wal.ReadAt(header[:], 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		// https://sqlite.org/fileformat2.html, section 4.1; the last bit is the sums' byte order.
		is := binary.BigEndian.Uint32(header[:])&^1 == 0x377f0682
		o.begun, o.cut = o.begun || is, o.cut || o.begun && !is
	}
	if !o.cut {
		return nil
	}
	return fmt.Errorf("%w: journal %s: %s was cut short or written over while it was open; nothing is recorded any more; "+
		"close the journal and open what is there now", journal.ErrRestored, o.path, o.names[1])
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

// WasFiled returns the former epoch of the file alone if it went back, otherwise 0.
func (o *Files) WasFiled() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.older {
		return 0
	}
	return o.filed
}

// Mixed reports whether the WAL may not belong to the file any more: it was cut short, an older copy was
// written over the file, or processes with other locks have written either since.
func (o *Files) Mixed() bool {
	_, stamp, err := osfile.Look(o.path)
	older := err == nil && o.notOlder(stamp) != nil
	return older || o.notCut() != nil || !o.leadsTo(2)
}

// Rewritten is called with the name of a WAL that Rewrite has synced. It is for tests.
var Rewritten = func(name string) {}

// Rewrite writes the WAL once more as it is, and syncs it. After a sync that failed, the kernel still shows what it could
// not write. A process that opens the journal then takes it for recorded, and a later sync leaves it out. The caller has
// the journal's write lock, so that no process writes or cuts the WAL meanwhile.
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
