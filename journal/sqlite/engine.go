package sqlite

import (
	"context"
	"database/sql"

	"github.com/onceward/onceward/journal"
)

// Journal is a journal in a SQLite file. Open makes one. Its methods are safe for concurrent use.
type Journal struct{ engine }

// engine is what a Journal does, by either of the two layouts of a file.
type engine interface {
	journal.Journal
	journal.ClockResetter
	journal.HookKeeper
	journal.StatsReader
	journal.LocalFlows
	journal.Outbox
	journal.Receipts
	journal.ReceiptCounter
	journal.Reconciler

	Adopt(ctx context.Context) error
	AdoptAs(ctx context.Context, deployment string) error
	Backup(ctx context.Context, path string) error
	BeginSQL(ctx context.Context) (*sql.Tx, error)
	Stats(ctx context.Context) (Stats, error)
	Verify(ctx context.Context) ([]Violation, error)
}

var _ journal.Journal = (*Journal)(nil)

// openEngine is openLog. Tests open the other one, too.
var openEngine = func(path string, opts Options) (engine, error) { return openLog(path, opts) }

// Open opens the journal in the file at path, or makes it. Its directory must exist. In an application's
// SQLite database it makes the journal beside the existing tables. A file that is already open in this
// process is shared, with the options of its first Open. The caller closes the Journal.
//
// A restored or copied journal opens, and sends nothing until it is adopted: see Adopt.
//
// On a full disk Open fails, and leaves nothing that prevents a later Open.
//
// Errors say what to do. errors.Is finds journal.ErrVersion for a file of a newer release,
// journal.ErrRestored for an older file beside a newer -wal, ErrNotJournal, ErrNetworkFilesystem,
// ErrSecondName, ErrDeployment, and the errors of package os.
func Open(path string, opts Options) (*Journal, error) {
	e, err := openEngine(path, opts)
	if err != nil {
		return nil, err
	}
	return &Journal{e}, nil
}
