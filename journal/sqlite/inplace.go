package sqlite

import (
	"fmt"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// openFiles are the journal and its WAL, as they were when they were opened. What is
// written to them after they were removed, or others were put in their place, nobody
// will ever find.
type openFiles struct {
	path  string
	names [2]string
	files [2]osfile.ID
}

// opened is for a file that is open and was read.
func opened(path string) (*openFiles, error) {
	o := &openFiles{path: path, names: [2]string{path, path + "-wal"}}
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
		if file, err := osfile.Identify(name); err != nil || !file.Same(o.files[i]) {
			return fmt.Errorf("%w: journal %s: %s was removed or replaced while it was open; nothing is recorded any more; "+
				"put it back, or close the journal and open what is there now", journal.ErrRestored, o.path, name)
		}
	}
	return nil
}
