package sqlite

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// openFiles are the journal, its WAL and what the locks are in, as they were when they were
// opened. What is written to the first two after they were removed, or others were put in
// their place, nobody will ever find; without the third, two write at a time.
type openFiles struct {
	path  string
	names [3]string
	files [3]osfile.ID
	wal   *os.File // SQLite has no locks on it that would be dropped

	mu    sync.Mutex
	stamp osfile.Stamp // of the file, when it was last read alone
	filed int64        // the epoch that it had come to then
	older bool         // it is not what it was any more: see notOlder
	begun bool         // the WAL was seen to begin as one
	cut   bool         // and does no more: see notCut
}

// opened is for a file that is open and was read.
func opened(path string) (*openFiles, error) {
	o := &openFiles{path: path, names: [3]string{path, path + "-wal", path + "-shm"}}
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

// stillInPlace is inPlace for what was just committed, which may be in the file that is
// put back: that nothing was recorded, as journal.ErrRestored says, is not certain.
func (o *openFiles) stillInPlace() error {
	if err := o.inPlace(); err != nil {
		return fmt.Errorf("it may have been recorded or not: %v", err)
	}
	return nil
}

// inPlace returns journal.ErrRestored where a path does not lead to the open file any
// more, which goes by itself once that file is put back, or where an older copy was written
// over the file, or the WAL was cut short.
func (o *openFiles) inPlace() error {
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

func (o *openFiles) replaced(i int) error {
	return fmt.Errorf("%w: journal %s: %s was removed or replaced while it was open; nothing is recorded any more; "+
		"put it back, or close the journal and open what is there now", journal.ErrRestored, o.path, o.names[i])
}

func (o *openFiles) leadsTo(i int) bool {
	file, err := osfile.Identify(o.names[i])
	return err == nil && file.Same(o.files[i])
}

// notOlder reads the file alone where it was written since it was last asked, as its stamp
// tells: by a checkpoint, as a rule.
func (o *openFiles) notOlder(stamp osfile.Stamp) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if stamp != o.stamp {
		epoch, err := fileAlone(o.path)
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

// notCut looks whether the WAL still begins as one. One that was cut short, and written to
// since, has zeros there: SQLite goes by the -shm, takes them for pages, and moves them into
// the file. An empty one may have been moved whole, and what else was there at first is what a
// crash left.
func (o *openFiles) notCut() error {
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

// wentBack is for what the file had, and has no more. Nothing brings that back: what
// this process knows, and what the WAL has, are of another file.
func (o *openFiles) wentBack() error {
	return fmt.Errorf("%w: journal %s: an older copy was written over it while it was open; nothing is recorded any more; "+
		"close the journal and open what is there now", journal.ErrRestored, o.path)
}

// lost has notOlder say so from now on.
func (o *openFiles) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.older = true
	return o.wentBack()
}

// wasFiled is the epoch that the file alone had come to, where it has gone back; else 0.
func (o *openFiles) wasFiled() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.older {
		return 0
	}
	return o.filed
}

// mixed tells whether what the WAL has may not be the file's any more: it was cut short, an
// older one was written over the file, or others, who lock elsewhere, have written either since.
func (o *openFiles) mixed() bool {
	_, stamp, err := osfile.Look(o.path)
	older := err == nil && o.notOlder(stamp) != nil
	return older || o.notCut() != nil || !o.leadsTo(2)
}
