package location

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/sessions"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// ErrSecondName is sqlite.ErrSecondName.
var ErrSecondName = errors.New("sqlite: a file with a second name")

// BelongsBeside returns an error for a path whose name SQLite or the journal gives to a file beside another
// existing one. The next process that opens the other one would replay such a file into it, or remove it
// (https://sqlite.org/tempfiles.html).
func BelongsBeside(path string) error {
	dir, base := filepath.Split(path)
	for _, suffix := range []string{"-journal", "-wal", "-shm", "-sidecar", "-session-"} {
		name, rest, found := strings.Cut(base, suffix)
		for at := len(name); found; at += len(suffix) + len(name) { // each possible start
			if rest == "" || suffix[1] == 's' && suffix != "-shm" {
				if info, err := os.Stat(dir + base[:at]); err == nil && info.Mode().IsRegular() {
					return fmt.Errorf("%w: %s is the name of a file that belongs to %s, and that may be removed with it; give another path", fs.ErrInvalid, path, dir+base[:at])
				}
			}
			name, rest, found = strings.Cut(rest, suffix)
		}
	}
	return nil
}

// fits returns an error if path is too long for a session file beside it. Such a journal would open, and no session could
// begin.
func fits(path string) error {
	dir, base := filepath.Split(path)
	if longest := osfile.NameMax(dir) - len(sessions.Path("", sessions.NewID())); len(base) > longest {
		return fmt.Errorf("the name of %s has %d bytes, and may have %d: the names of the files beside it are longer; give a shorter one", path, len(base), longest)
	}
	return nil
}

// OneName rejects a file with another name. A process that opens it by that name gets a WAL of its own, and
// neither sees the other's records (https://sqlite.org/howtocorrupt.html, "Multiple links to the same file").
// The files beside it belong to it, and must be the same for all processes.
func OneName(path string) error {
	if err := cmp.Or(BelongsBeside(path), fits(path)); err != nil {
		return fmt.Errorf("%w: %w", ErrNotJournal, err)
	}
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
