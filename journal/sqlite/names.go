package sqlite

import (
	"fmt"

	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
)

// oneName refuses a file that may be reached by another name: whoever opens it by that
// gets a WAL of its own, and neither sees what the other records
// (https://sqlite.org/howtocorrupt.html, "Multiple links to the same file"). What lies
// beside it belongs to it, and must be what others find there.
func oneName(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm", sidecarFile(path)} {
		links, mount, err := osfile.NamesOf(name)
		switch {
		case err != nil:
			return fmt.Errorf("journal %s: %w", path, err)
		case mount:
			return fmt.Errorf("%w: %s is a mount point itself, as a single file that is mounted into a container is: "+
				"what lies beside it is not shared, and its -wal would be another one for everybody; mount the folder that it is in", ErrSecondName, name)
		case links > 1:
			return fmt.Errorf("%w: %s has %d links: who opens it by another would have another -wal; "+
				"remove the others (find -samefile finds them), or, to keep a copy, call Backup", ErrSecondName, name, links)
		}
	}
	return nil
}
