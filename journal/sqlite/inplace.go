package sqlite

import (
	"fmt"

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
}

// opened is for a file that is open and was read.
func opened(path string) (*openFiles, error) {
	o := &openFiles{path: path, names: [3]string{path, path + "-wal", path + "-shm"}}
	for i, name := range o.names {
		var err error
		if o.files[i], err = osfile.Identify(name); err != nil {
			return nil, err
		}
	}
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
// more. It goes by itself once that file is put back.
func (o *openFiles) inPlace() error {
	for i, name := range o.names {
		if !o.leadsTo(i) {
			return fmt.Errorf("%w: journal %s: %s was removed or replaced while it was open; nothing is recorded any more; "+
				"put it back, or close the journal and open what is there now", journal.ErrRestored, o.path, name)
		}
	}
	return nil
}

func (o *openFiles) leadsTo(i int) bool {
	file, err := osfile.Identify(o.names[i])
	return err == nil && file.Same(o.files[i])
}

// mixed tells whether what the WAL has may not be the file's any more: others that lock
// elsewhere have written either since.
func (o *openFiles) mixed() bool { return !o.leadsTo(2) }
