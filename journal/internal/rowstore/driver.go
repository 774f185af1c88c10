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

// Digest is a keyed hash of a name, long enough that two names never share a digest.
type Digest [16]byte

// Row is an operation as a database stores the operation: columns for indexes and conditions, and encoded parts. No
// driver reads the parts.
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
	// TryLock locks each returned row and never waits. A row with another holder comes back with Row.Locked.
	TryLock
	// WaitLock locks each returned row, and waits for each holder.
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
	// Undelivered has the undelivered outcomes without a holding session, by handle.
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

// Name is a row's name.
type Name struct {
	Digest Digest
	Handle int64
}

// Mark is a row's mark. Handle 0 stands for removed rows.
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

	// Leaps is the text of the clock's latest leaps, which some operations don't know yet. Commit records a text that
	// differs from Begin's. If another transaction has changed the text meanwhile, the commit returns ErrMissed, except
	// in Within.
	Leaps string

	// Restored says why the journal may have a gap. Either this process, or a witness beside the database, knows
	// commits that the database lacks, or the database is a copy. "" means that the database has all commits. A driver
	// that finds a gap records the reason here, for all processes and for good, before Begin, Within or Reader.Head
	// returns.
	//
	// Commit records a text that differs from Begin's, for all processes. Commit returns ErrMissed if another
	// transaction has changed the text meanwhile. A new text begins an adoption: the driver may end sessions then, and
	// proves that no commit from an earlier epoch follows the adoption. "" ends the adoption. In the same commit the
	// driver gives the journal a new identity, skips handles that the gap may contain, and ends sessions from the copy.
	Restored   string
	Epoch      int64  // of adoptions: raised with each; Commit records it as it does Restored
	Deployment string // whose journal it is, likewise; "" means that no one has said it

	// Sealed has the marks for the keys that have sealed payloads (format.Codec.Mark), in the order of first use, with
	// a space between. "" means that all payloads are in clear. Commit records a text that differs from Begin's. Commit
	// returns ErrMissed if another transaction has changed the text meanwhile. Releases that know no seal refuse a
	// journal with a text. Within may return the text known to the process.
	Sealed string
}

// trusted returns ErrRestored if the journal may have a gap.
func (h *Head) trusted() error {
	if h.Restored == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; nothing is sent until it is adopted: make sure that no other copy of it is in use, and call Adopt", journal.ErrRestored, h.Restored)
}

// trusted calls Head.trusted on the reader's head.
func trusted(ctx context.Context, r Reader) error {
	restored, err := r.Restored(ctx)
	return cmp.Or(err, (&Head{Restored: restored}).trusted())
}

// Source is a readable database. The methods are safe for concurrent use.
type Source interface {
	// Read calls f with a reader of committed rows. Nothing stays open after f. Read may call f again if rows changed
	// while f read them.
	Read(ctx context.Context, f func(Reader) error) error
	// Snapshot is Read with the rows of one moment.
	Snapshot(ctx context.Context, f func(Reader) error) error
	// Check calls found for each damage beside the rows: in the indexes, and for parts and steps without a row. Check
	// may take long.
	Check(ctx context.Context, found func(journal.Violation)) error

	Close() error
}

// Driver is a database. Its methods are safe for concurrent use.
type Driver interface {
	Source

	// Begin starts a transaction for writing, and returns the head and the rows that keys select. A driver may have
	// several transactions at once, or let the next one wait until ctx ends.
	//
	// Begin also proves that the process may still write, even if the transaction writes nothing. After ErrUndecided,
	// Begin first finds out whether the undecided commit landed.
	Begin(ctx context.Context, keys Keys) (Tx, Head, Found, error)

	// BeginTx starts a transaction for the application. The transaction writes an outcome if delivery is true. If a
	// driver limits the open transactions, deliveries and other transactions have separate limits.
	BeginTx(ctx context.Context, delivery bool) (journal.Tx, error)
	// Within returns the journal's part of the application's transaction, with the head and the selected rows as the
	// application's transaction sees them. Within locks the rows, and waits for each. Commit writes all changes, the
	// newest handle and the least margin, or nothing. The application commits the transaction.
	Within(ctx context.Context, theirs journal.Tx, keys Keys) (Tx, Head, Found, error)

	// Now returns the database's time, as far as this process knows the time. The time never goes back. The zero time
	// means that the database has no clock. Now does no I/O.
	Now() time.Time

	// Join starts a session.
	Join(ctx context.Context) (id string, err error)
	// Lost reports whether another process may have taken over this process's session id. Lost does no I/O.
	Lost(id string) bool
	// Rank returns the position, from 0, of this process's session among all living sessions, and their number. Zero
	// means not known yet. Rank does no I/O.
	Rank(id string) (rank, of int)
	// Leave ends this process's session id.
	Leave(ctx context.Context, id string) error
	// Alive reports for each session whether the session's process lives. Alive does not wait.
	Alive(ids []string) []Life
}

// Life says whether a session's process lives.
type Life struct {
	Lives bool
	// Err means that no process can know. Err is a journal.ErrRestored if the session was copied or restored with the
	// journal.
	Err error
}

// Reader reads rows.
type Reader interface {
	Head(ctx context.Context) (Head, error)
	// Restored returns Head.Restored.
	Restored(ctx context.Context) (string, error)
	// Find returns the rows that keys select. Outside a transaction, Find sees one state of the database.
	Find(ctx context.Context, keys Keys) (Found, error)
	// Scan returns a page from an index. Scan locks nothing.
	Scan(ctx context.Context, scan Scan) ([]Position, error)
	// Count counts the rows that each scan selects without a limit, all at one time.
	Count(ctx context.Context, scans []Scan) ([]Count, error)
	Totals(ctx context.Context) (Totals, error)
	// Names returns names in ascending order with their handles, after the name after unless after is empty.
	Names(ctx context.Context, after []byte, limit int) ([]Name, error)
	// Marks returns marks with their handles in ascending order, after one.
	Marks(ctx context.Context, after Mark, limit int) ([]Mark, error)
	// Holders returns the sessions that hold anything.
	Holders(ctx context.Context) ([]string, error)
	ReceiptReader
	FlowReader
	BookmarkReader
}

// Tx is a writing transaction for one goroutine. A Tx sees its own changes.
type Tx interface {
	Reader

	// Handle returns a new handle, higher than all handles seen by the process. No handle is returned twice.
	Handle(ctx context.Context) (int64, error)
	// RecordEvent remembers an event by the event's digest, and reports whether the event is new. RecordEvent waits
	// for another transaction that is about to remember the same event.
	RecordEvent(ctx context.Context, digest []byte, at int64) (first bool, err error)
	// Forget forgets at most limit events that were heard before.
	Forget(ctx context.Context, before int64, limit int) error
	ReceiptWriter
	FlowWriter
	BookmarkWriter
	// Put writes changes, removals first.
	Put(ctx context.Context, changes []*Change) error
	// Commit puts the last changes and the head, and makes the transaction durable. The transaction has ended then,
	// even after an error.
	Commit(ctx context.Context, head Head, changes []*Change) error
	// Rollback undoes the transaction. After Commit it does nothing.
	Rollback()
}

var (
	// ErrMissed means that another transaction changed rows after the transaction's read. Decide anew.
	ErrMissed = errors.New("rowstore: another transaction has changed a row or taken a name")
	// ErrLocked means that another transaction held a row or a name for longer than the driver waits.
	ErrLocked = errors.New("rowstore: another transaction holds a row or a name")
	// ErrRefused means that the database refused one row. The database may accept the other rows alone.
	ErrRefused = errors.New("rowstore: the database refuses a row")
	// ErrUndecided means that no one knows yet whether the commit landed.
	ErrUndecided = errors.New("rowstore: it is not known whether the commit landed")
	// ErrClockAhead means that the caller's clock is more than a minute ahead of the database's clock.
	ErrClockAhead = errors.New("the caller's clock is ahead of the database's")
	// ErrFenced means that the process may not write again until the driver has found the reason.
	ErrFenced = errors.New("rowstore: another process, or a restored database, has fenced this one off")
)
