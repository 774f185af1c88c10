package rowstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// Digest is a keyed hash of a name. It is long enough that two names never share one.
type Digest [16]byte

// Row is an operation as a database has it: the columns that an index or a condition needs, and encoded parts that no
// driver reads.
type Row struct {
	Handle   int64
	State    uint8  // journal.State
	Holder   string // session; "" means none
	HasWake  bool
	Wake     int64 // milliseconds since 1970 if HasWake; 0 or less means that it needs attention
	Settled  int64 // milliseconds since 1970; 0 means not settled
	Told     bool  // its outcome was delivered
	Reaped   bool  // it is a tombstone
	Provider string
	Record   []byte // all but the parts, with a checksum

	// Locked says that another transaction holds the row. Only Handle is set then.
	Locked bool

	Whole           bool  // Request and Answer were read
	Request, Answer *Part // nil means none
}

// Part is an encoded request or answer, and its body.
type Part struct{ Head, Body []byte }

// Change is a row to be written. Exactly one row is changed by it, or the transaction fails with ErrMissed.
type Change struct {
	Row    *Row
	Insert bool // the handle and the names are new; a name that exists is ErrMissed
	Remove bool // the row and its parts go

	Request, Answer bool // the part of Row is new; nil removes it

	AddNames, RemoveNames []Digest
	AddMarks, RemoveMarks []int64
	// LeaveMarks are kept without a row. They are found with handle 0.
	LeaveMarks []int64
}

// Lock is how a read treats rows that another transaction holds.
type Lock uint8

const (
	// NoLock reads committed rows, and locks none.
	NoLock Lock = iota
	// TryLock locks each row that it returns. It does not wait: a row that is held comes back with Row.Locked.
	TryLock
	// WaitLock locks each row that it returns, and waits for each that is held.
	WaitLock
	// ShareLock is a WaitLock for FlowReader.Flow that several transactions may hold at once, if the driver can.
	ShareLock
)

// Keys selects rows one by one.
type Keys struct {
	Names   []Digest // rows found by name come with their parts
	Handles []int64
	Marks   []int64 // in a Tx, each mark is locked until it ends, so that no other transaction adds it
	Whole   bool    // rows found by handle come with their parts too
	Heads   bool    // all rows come with the heads of their parts alone, without bodies
	Lock    Lock
}

// Found is what Keys selected. A key that selects nothing is left out.
type Found struct {
	Names map[Digest]int64  // the handle of each name
	Rows  []*Row            // each row once, in any order
	Marks map[int64][]int64 // the handles of each mark
}

// Index is an order in which rows are found without their names.
type Index uint8

const (
	// ByHandle has all rows.
	ByHandle Index = iota
	// Pending has pending operations with Wake from -By to By, by handle.
	Pending
	// PendingByWake has pending operations with a positive Wake, by Wake and handle.
	PendingByWake
	// HeldBy has the rows that Holder holds, by handle.
	HeldBy
	// Undelivered has outcomes that are not delivered and that no session holds, by handle.
	Undelivered
	// LookDue has unknown operations with a positive Wake at or before By, by Wake and handle.
	LookDue
	// Unanswered has operations that are not completed, by handle.
	Unanswered
	// InFlight has operations in flight, by handle.
	InFlight
	// Settled has delivered rows that were settled at or before By and not reaped, by Settled and handle.
	Settled
	// Unknown has unknown operations, by handle.
	Unknown
	// Sought has unknown operations with a Wake after By and after Settled, by handle.
	Sought
	// Cancelled has cancelled operations, by handle.
	Cancelled
	// InFlightSince has operations in flight with Wake at or before By, by handle.
	InFlightSince
	// Untold has the rows with an outcome that is not delivered, held or not, by handle. Sought ones at 0 have none.
	Untold
	// Flagged has completed and cancelled operations with a Wake of 0, by handle.
	Flagged
)

// Scan selects a page of an index.
type Scan struct {
	Index     Index
	By        int64
	Holder    string
	Providers []string // only unsent operations of these; nil means all. Pending and HeldBy
	After     Position // exclusive
	Before    int64    // handle, exclusive; 0 means none. ByHandle
	Newest    bool     // handles in descending order. ByHandle
	Limit     int
}

// Count is how many rows a scan selects.
type Count struct {
	Rows    int64
	Settled int64 // the earliest of them that is not 0; 0 means none
}

// Totals are what a database has as a whole.
type Totals struct {
	Begun               int64 // operations, as far as handles tell
	Sessions            int64 // that were begun and not ended
	Last                time.Time
	FileBytes, WALBytes int64
}

// Name is the name of a row.
type Name struct {
	Digest Digest
	Handle int64
}

// Mark is a mark of a row. Handle 0 is of rows that were removed.
type Mark struct{ Mark, Handle int64 }

// Position is a row's place in an index.
type Position struct {
	Key    int64 // Wake or Settled of an index that is ordered by it; else 0
	Handle int64
	Bytes  int64 // of the bodies of Settled rows; not part of the place
}

// Head is what a journal has once.
type Head struct {
	Identity string
	Key      format.HashKey
	Newest   int64 // the latest handle
	Number   int64 // rises with each commit whose clock others may not know
	Clock    store.Clock
	Hook     bool   // see machine.HookKeeper. Commit records it if it differs from what Begin returned
	Naming   string // of receipts' keys, likewise; "" means that none was made
	Reset    bool   // Commit: the clock was set back, and replaces what other transactions have recorded

	// Leaps is the text of the clock's latest leaps, which some operations don't know yet. Commit records it if it differs
	// from what Begin returned. A commit, other than of Within, returns ErrMissed if another transaction has changed it
	// meanwhile.
	Leaps string

	// Restored says why the journal may have a gap: this process, or a witness beside the database, knows of commits that
	// the database lacks, or the database is a copy. "" means that it has all. A driver that finds a gap records it here
	// before Begin, Within or Reader.Head returns, for all processes and for good.
	//
	// Commit records it, for all processes, if it differs from what Begin returned. It returns ErrMissed if another
	// transaction has changed it meanwhile. A new text begins an adoption: the driver
	// may end sessions then, and proves that no commit of an earlier epoch comes after it. "" ends the adoption. In the same
	// commit the driver gives the journal a new identity, skips handles that the gap may have, and ends sessions that came
	// with the copy.
	Restored   string
	Epoch      int64  // of adoptions: raised with each; Commit records it as it does Restored
	Deployment string // whose journal it is, likewise; "" means that no one has said it
}

// trusted returns ErrRestored if the journal may have a gap.
func (h *Head) trusted() error {
	if h.Restored == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; nothing is sent until it is adopted: make sure that no other copy of it is in use, and call Adopt", journal.ErrRestored, h.Restored)
}

// trusted is Head.trusted of the head that a reader sees.
func trusted(ctx context.Context, r Reader) error {
	restored, err := r.Restored(ctx)
	return cmp.Or(err, (&Head{Restored: restored}).trusted())
}

// Source is a database that can be read. Its methods are safe for concurrent use.
type Source interface {
	// Read calls f with a reader of committed rows. Nothing stays open after f, which may be called again if it has read
	// rows while they changed.
	Read(ctx context.Context, f func(Reader) error) error
	// Snapshot is Read with the rows of one moment.
	Snapshot(ctx context.Context, f func(Reader) error) error
	// Check calls found for each damage that it finds beside the rows: in the indexes, and of parts and steps without
	// their row. It may take long.
	Check(ctx context.Context, found func(journal.Violation)) error

	Close() error
}

// Driver is a database. Its methods are safe for concurrent use.
type Driver interface {
	Source

	// Begin starts a transaction that writes, and returns the head and what keys select. A driver may have several
	// transactions at once, or let the next one wait until ctx ends.
	//
	// Begin also proves that this process may still write, even if the transaction writes nothing. After ErrUndecided,
	// it first finds out whether that commit landed.
	Begin(ctx context.Context, keys Keys) (Tx, Head, Found, error)

	// BeginTx starts a transaction for the application, which writes an outcome in it if it is a delivery. If a driver limits
	// how many are open, deliveries and other transactions have limits of their own.
	BeginTx(ctx context.Context, delivery bool) (journal.Tx, error)
	// Within returns the journal's part of a transaction of the application's, and the head and what keys select as that
	// transaction sees them. It locks the rows, and waits for each. Commit writes all of the changes, the newest handle
	// and the least margin, or nothing. The application commits them.
	Within(ctx context.Context, theirs journal.Tx, keys Keys) (Tx, Head, Found, error)

	// Now returns the database's time, as far as this process knows it. It never goes back. The zero time means that the
	// database has no clock of its own. It does no I/O.
	Now() time.Time

	// Join starts a session.
	Join(ctx context.Context) (id string, err error)
	// Lost reports whether another process may have taken over a session of this process. It does no I/O.
	Lost(id string) bool
	// Rank returns the position of a session of this process among all living ones, from 0, and their number. Zero means
	// not known yet. It does no I/O.
	Rank(id string) (rank, of int)
	// Leave ends a session of this process.
	Leave(ctx context.Context, id string) error
	// Alive reports for each of some sessions whether its process lives. It does not wait.
	Alive(ids []string) []Life
}

// Life says whether a session's process lives.
type Life struct {
	Lives bool
	// Err means that no one can know. It is a journal.ErrRestored if the session was copied or restored with the journal.
	Err error
}

// Reader reads rows.
type Reader interface {
	Head(ctx context.Context) (Head, error)
	// Restored returns Head.Restored.
	Restored(ctx context.Context) (string, error)
	// Find returns what keys select. Outside of a transaction it sees one state of the database.
	Find(ctx context.Context, keys Keys) (Found, error)
	// Scan returns a page of an index. It locks nothing.
	Scan(ctx context.Context, scan Scan) ([]Position, error)
	// Count counts what each scan selects without its limit, all of them at one time.
	Count(ctx context.Context, scans []Scan) ([]Count, error)
	Totals(ctx context.Context) (Totals, error)
	// Names returns names in ascending order, after one if it is not empty, and the handle of each.
	Names(ctx context.Context, after []byte, limit int) ([]Name, error)
	// Marks returns marks with their handles in ascending order, after one.
	Marks(ctx context.Context, after Mark, limit int) ([]Mark, error)
	// Holders returns the sessions that hold anything.
	Holders(ctx context.Context) ([]string, error)
	ReceiptReader
	FlowReader
	BookmarkReader
}

// Tx is a transaction that writes. One goroutine uses it. It sees its own changes.
type Tx interface {
	Reader

	// Handle returns a new handle, higher than all that this process has seen. No handle is returned twice.
	Handle(ctx context.Context) (int64, error)
	// RecordEvent remembers an event by its digest, and reports whether it was not remembered yet. It waits for another
	// transaction that is about to remember it.
	RecordEvent(ctx context.Context, digest []byte, at int64) (first bool, err error)
	// Forget forgets at most limit events that were heard before.
	Forget(ctx context.Context, before int64, limit int) error
	ReceiptWriter
	FlowWriter
	BookmarkWriter
	// Put writes changes, those that remove a row first.
	Put(ctx context.Context, changes []*Change) error
	// Commit puts the last changes and the head, and makes the transaction durable. The transaction has ended then,
	// even after an error.
	Commit(ctx context.Context, head Head, changes []*Change) error
	// Rollback undoes the transaction. After Commit it does nothing.
	Rollback()
}

var (
	// ErrMissed means that another transaction changed what this one has read. Decide anew.
	ErrMissed = errors.New("rowstore: another transaction has changed a row or taken a name")
	// ErrLocked means that another transaction held a row or a name for longer than the driver waits.
	ErrLocked = errors.New("rowstore: another transaction holds a row or a name")
	// ErrRefused means that the database refused one of the rows. The others may be accepted without it.
	ErrRefused = errors.New("rowstore: the database refuses a row")
	// ErrUndecided means that no one knows yet whether the commit landed.
	ErrUndecided = errors.New("rowstore: it is not known whether the commit landed")
	// ErrClockAhead means that the caller's clock is more than a minute ahead of the database's.
	ErrClockAhead = errors.New("the caller's clock is ahead of the database's")
	// ErrFenced means that this process may not write any more until the driver has found out why.
	ErrFenced = errors.New("rowstore: another process, or a restored database, has fenced this one off")
)
