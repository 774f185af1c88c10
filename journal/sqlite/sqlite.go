package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/location"
	"github.com/onceward/onceward/journal/sqlite/internal/osfile"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
	"github.com/onceward/onceward/seal"
)

var (
	// ErrNotJournal: the file is no journal, and no journal can be made there.
	ErrNotJournal = location.ErrNotJournal
	// ErrNetworkFilesystem: the file is on a network file system, and WAL does not work there
	// (https://sqlite.org/wal.html, "Overview").
	ErrNetworkFilesystem = osfile.ErrNetwork
	// ErrSecondName: the journal's file, or one beside it, has another name: the file has several links, or is mounted as
	// a single file. Each name would have another WAL, and neither would see the other's records.
	ErrSecondName = location.ErrSecondName
	// ErrDeployment: the journal belongs to another deployment than Options.Deployment, as in a staging
	// system started with a snapshot of production's volume. Nothing was recorded or sent.
	ErrDeployment = rows.ErrDeployment
	// ErrReadOnly: the journal was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("sqlite: opened read-only")
)

// Options configure Open. The zero value is recommended.
type Options struct {
	// Deployment names the journal's owner, such as "prod", or "prod/payments-0" for a replica with a file of
	// its own. The first Open with a name records the name in the file, and Backup copies the name. From then on Open
	// with another name, or with none, returns ErrDeployment, because a copy of the whole folder looks like
	// the journal itself and would send the same operations. Empty means that no name is recorded or
	// required, and a file without a name opens. With ReadOnly or Existing any deployment's file opens
	// without a name, and then Join returns ErrDeployment. To change the name, see AdoptAs.
	Deployment string

	// Existing stops Open from making anything. Open returns fs.ErrNotExist if no file exists, and
	// ErrNotJournal if the file has no journal. Without Existing, a mistyped path becomes a new, empty journal.
	Existing bool

	// ReadOnly opens the journal for reading programs, whether or not the service runs. Get, List, GetFlow, ListFlows,
	// FindBy, Bookmark, ListBookmarks, Stats, Verify and Backup work. All other methods return ErrReadOnly. ReadOnly implies Existing. A read-only
	// journal makes no file, changes no owner, does not move the WAL, does not write the sidecar, and starts or ends no
	// session. No process waits for a reader. Other options but Seal have no effect. A reader needs the permission to read the
	// file, and the -shm if there is one.
	//
	// A dead process's file is read in the last state. A file with a -wal but no -shm is rejected, because only a writer
	// can make the -shm again.
	ReadOnly bool

	// Seal seals the payloads: requests, answers, fingerprints, flows' inputs and steps' results. Names, keys, hosts,
	// states, times and sizes stay in clear. A sealed journal opens only with one of its keys. Otherwise Open returns
	// journal.ErrSealed, which names the key. ReadOnly and Existing open without keys. A journal that was in clear
	// before opens with what Ring.ReadClear returns. Nil means that payloads are in clear.
	Seal *seal.Ring

	// Committed, if not nil, is called after every commit with a write, with the number of requests and the time until
	// the commit was durable. The writing goroutine calls Committed and waits, so return at once.
	Committed func(requests int, took time.Duration)

	// Logger receives a warning if the file's file system may not outlive the machine's run or the container (tmpfs,
	// ramfs, or a container's overlayfs). Only Linux can detect such a file system. Default: slog.Default().
	Logger *slog.Logger
	// Volatile accepts such a file system without a warning, as in tests, and changes nothing else.
	Volatile bool

	// ExternalCheckpointer lets another program, such as Litestream, move the -wal file into the journal.
	// This package then never moves or removes the -wal file, not even on Close. The -wal file grows until the other
	// program moves it (Stats.WALBytes).
	ExternalCheckpointer bool
}

// Journal is a journal in a SQLite file. Open makes a Journal. The methods are safe for concurrent use.
//
// It is a machine.Outbox, machine.LocalFlows, machine.Receipts, machine.Reconciler, journal.StatsReader, journal.Bookmarks,
// machine.ClockResetter and machine.HookKeeper. These document the methods without a comment here. A journal.Tx comes from
// BeginTx, or from Tx for the application's own transaction on the journal's file. Such a transaction needs the file's write
// lock, as for EnqueueTx, and no process records anything until the transaction ends.
type Journal struct {
	engine
	store   *rowstore.Store // the engine
	file    *rows.File
	driver  *rows.Driver // nil: the file is only read
	commits *commits
	path    string
}

// engine has a Journal's methods.
type engine interface {
	machine.Store
	machine.ClockResetter
	machine.HookKeeper
	journal.StatsReader
	machine.Reconciler
	machine.Outbox
	machine.LocalFlows
	machine.Receipts
	journal.ReceiptCounter
	journal.Bookmarks
}

// Open opens the journal in the file at path, or makes a journal there. The directory must exist. In an application's
// SQLite database, Open makes the journal beside the existing tables. A process may open a file more than once: each
// Journal works like another process's. The caller closes the Journal.
//
// A restored or copied journal opens, and sends nothing until the journal is adopted: see Adopt.
//
// On a full disk Open fails, and leaves nothing in a later Open's way.
//
// Errors say what to do. errors.Is finds journal.ErrVersion for a newer release's file,
// journal.ErrRestored for an older file beside a newer -wal, ErrNotJournal, ErrNetworkFilesystem,
// ErrSecondName, ErrDeployment, journal.ErrSealed, and the errors of package os.
func Open(path string, opts Options) (*Journal, error) {
	if opts.ReadOnly {
		return openToRead(path, opts)
	}
	return open(path, opts)
}

// Join starts a session, which lives until its end or the process's death.
func (j *Journal) Join(ctx context.Context) (machine.Session, error) { return j.store.Join(ctx) }

// Apply runs machine.Next on the operation named by ev, and returns once the result is durable. EventDeliver is only
// noted: this process's next commit, the end of a session, or Close records the delivery, and the Result has no
// Operation. Apply returns a *machine.EventError for an event without the caller's clock. If the context ends first, the
// event may be recorded.
func (j *Journal) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	result, err := j.store.Apply(ctx, ev)
	return result, j.explain("apply an event", err)
}

// Claim applies ev, of kind EventClaim, to at most limit claimable operations, oldest first. Claim skips damaged
// operations, and operations of a session without a file. If Claim finds nothing else, Claim returns one such error.
func (j *Journal) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	result, err := j.store.Claim(ctx, ev, limit)
	return result, j.explain("claim", err)
}

// Looks applies ev, of kind EventLook, in one commit to at most limit unknown operations whose look-up is
// due, the longest due first. Looks skips damaged operations, and returns their error once nothing else is due.
func (j *Journal) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	result, err := j.store.Looks(ctx, ev, limit)
	return result, j.explain("claim look-ups", err)
}

// Get returns the whole operation, or journal.ErrNotFound.
func (j *Journal) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	result, err := j.store.Get(ctx, ref)
	return result, j.explain("read an operation", err)
}

// SealStatus counts sealed and clear payloads. SealStatus reads all records, needs no key, passes over damaged records, and
// returns the error of one too.
func (j *Journal) SealStatus(ctx context.Context) (journal.SealStatus, error) {
	status, err := j.store.SealStatus(ctx)
	return status, j.explain("read", err)
}

// explain adds the file, and what to do, to a damaged row's error.
func (j *Journal) explain(doing string, err error) error {
	if errors.Is(err, format.ErrDamaged) {
		return conn.Explain(j.path, doing, err)
	}
	return err
}

// Close records the noted events. The file's last Journal, in any process, moves the WAL into the file, and removes the
// WAL. Unended sessions count as dead.
func (j *Journal) Close() error { return j.store.Close() }
