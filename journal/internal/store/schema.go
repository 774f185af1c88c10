package store

import (
	"fmt"
	"io/fs"
	"regexp"

	"github.com/onceward/onceward/journal"
)

// Schema says which tables of a database server a store can use.
type Schema struct {
	Store  string // the store's package, with which errors begin
	Needed int    // the version that this release needs at least
	Writer int    // this release's number among the releases that write. A migration that breaks older ones raises journal.least_writer
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// CheckName rejects a name that would need quotes.
func (s Schema) CheckName(name string) error {
	if !plainName.MatchString(name) {
		return fmt.Errorf("%s: schema %q: a name of a-z, 0-9 and _ is needed, of at most 63 characters, that begins with no digit", s.Store, name)
	}
	return nil
}

// Check rejects tables that this release can't use.
func (s Schema) Check(version, leastWriter int) error {
	switch {
	case version < s.Needed:
		return fmt.Errorf("%w: the schema has version %d, and this release needs version %d: run %s.Migrate, or set Options.Migrate", journal.ErrVersion, version, s.Needed, s.Store)
	case leastWriter > s.Writer:
		return fmt.Errorf("%w: it needs a release that writes with version %d, and this one writes with version %d: upgrade", journal.ErrVersion, leastWriter, s.Writer)
	}
	return nil
}

// NoJournal is a journal.ErrVersion that does not mention versions, and a fs.ErrNotExist, as if a file were missing.
type NoJournal string

func (e NoJournal) Error() string { return string(e) }

func (NoJournal) Is(target error) bool {
	return target == journal.ErrVersion || target == fs.ErrNotExist
}
