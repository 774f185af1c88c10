package location

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// ErrSecondName is sqlite.ErrSecondName.
var ErrSecondName = errors.New("sqlite: a file with a second name")

// OneName rejects a file with another name. A process that opens the file by the other name gets a separate WAL, and
// neither process sees the other's records (https://sqlite.org/howtocorrupt.html, "Multiple links to the same file").
// The files beside the journal belong to the journal, and must be the same for all processes.
func OneName(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", sidecar.Path(path)} {
		links, mount, err := osfile.NamesOf(name)
		switch {
		case err != nil:
			return fmt.Errorf("journal %s: %w", path, err)
		case mount:
			return fmt.Errorf("%w: %s is a mount point itself, such as a single file mounted into a container, "+
				"so each container would have a -wal of its own; mount the folder that it is in", ErrSecondName, name)
		case links > 1:
			return fmt.Errorf("%w: %s has %d links, and each name would have a -wal of its own: "+
				"remove the others (find -samefile finds them), or, to keep a copy, call Backup", ErrSecondName, name, links)
		}
	}
	return nil
}
