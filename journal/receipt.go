package journal

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/internal/words"
)

// A receipt is the record of one request or message that was received under a key. It is written in the transaction that
// holds the effect of the request, so that both are committed or neither is.

// ReceiptKey names a receipt. Two receipts of one scope never have the same key.
type ReceiptKey struct {
	Scope string // whose keys these are: a tenant's, or a consumer's
	Key   string // from the request, or the identity of the message
}

// ReceiptState is the state of a receipt.
type ReceiptState uint8

// The states of a receipt.
const (
	// ReceiptAbsent: there is no receipt. The zero value.
	ReceiptAbsent ReceiptState = iota
	// ReceiptReserved: a transaction has reserved the key. Other transactions see a reserved receipt only if a handler has
	// committed the transaction by itself. Its effect is then unknown, and the key is not served again until Resolve.
	ReceiptReserved
	// ReceiptCompleted: the answer is recorded.
	ReceiptCompleted
)

var receiptStateNames = [...]string{"absent", "reserved", "completed"}

func (s ReceiptState) String() string { return words.Of("ReceiptState", receiptStateNames[:], s) }

// Receipt is the record of a request or a message. Times are UTC with a resolution of one millisecond.
type Receipt struct {
	Handle int64 // the store's own; 0 before the receipt was written
	ReceiptKey
	Place       string // name of the endpoint or consumer that received it
	State       ReceiptState
	Claim       int64  // counts how often the key was reserved, from 1
	Fingerprint string // tells another request under the key: the caller within the scope counts

	CreatedAt    time.Time
	SettledAt    time.Time // when the answer was recorded; the zero time while it is reserved
	ExpiresAt    time.Time // the answer is given until then
	RefusedUntil time.Time // the key is refused from ExpiresAt until then, and is new afterwards

	// Answer has only Status, Header and Body. A message's Status is 0, and its Body is the return value of its
	// function. Nil means that there is none, or that it has expired and was reaped.
	Answer *Answer
	Cause  string // who resolved it, and why; else ""
}

// ReceiptEventKind says what happens to a receipt.
type ReceiptEventKind uint8

// The kinds of receipt events.
const (
	// ReceiptReserve: a request begins. It needs Place, Fingerprint, Same and Keep.
	ReceiptReserve ReceiptEventKind = iota + 1
	// ReceiptComplete: the transaction that has reserved the key records the answer. It needs Claim and Answer.
	ReceiptComplete
	// ReceiptRecord: an answer is recorded under a key without a reservation. It needs the fields of ReceiptReserve, and
	// Answer.
	ReceiptRecord
	// ReceiptResolve: a person says what became of a reserved receipt. It needs Resolution, and By or Why. With Executed it
	// needs Answer, whose Status is 0 or from 200 to 599. If Claim is not zero, Handle and Claim are those of the receipt that the person looked at.
	ReceiptResolve
	// ReceiptReap: an expired answer is removed, and later the receipt.
	ReceiptReap
)

// ReceiptEvent is something that happens to a receipt.
type ReceiptEvent struct {
	Kind ReceiptEventKind
	ReceiptKey

	At          time.Time // the caller's clock
	Last        time.Time // the latest time that the journal has seen; a store sets it
	Unconfirmed time.Time // as Event.Unconfirmed; a store sets it

	Place       string
	Fingerprint string
	// Same reports whether a recorded receipt is of the event's request. It returns an error if this release can't compare
	// the two. It is called within the store's transaction, and must not ask the journal for anything.
	Same func(*Receipt) (bool, error)

	Keep   time.Duration // how long the answer is given, from CreatedAt
	Refuse time.Duration // how long the key is refused after that; zero means not at all

	Claim  int64
	Answer *Answer
	// Reserved is the receipt that ReceiptReserve returned to the transaction. It is optional, for ReceiptComplete: by it a
	// store need not read the row before it changes it.
	Reserved *Receipt
	// Decided is optional, for ReceiptReserve. The caller sets it only if LookReceipt has just shown no receipt. A store may then
	// return Execute, and write the reservation with the next statement in tx. If it can't, it calls Decided with the decision or the
	// error that ReceiveTx would have returned. If that is Execute, and Decided returns nil, the statement goes on. Else it fails, with
	// the error of Decided if there is one, and so does every later statement in tx.
	Decided func(ReceiptResult, error) error

	Resolution Resolution // Executed or NotExecuted
	By, Why    string
	Handle     int64
}

// ReceiptResult is what became of a receipt.
type ReceiptResult struct {
	Receipt  Receipt
	Decision Decision
	// Again: the key was used before, and was reserved anew since its earlier life is past RefusedUntil.
	Again bool
}

// ReceiptEventError says that an event can't happen to a receipt. It wraps ErrInvalidEvent.
type ReceiptEventError struct {
	Kind   ReceiptEventKind
	State  ReceiptState
	Reason string
}

func (e *ReceiptEventError) Error() string {
	return fmt.Sprintf("journal: receipt event %d of a receipt that is %s: %s", e.Kind, e.State, e.Reason)
}

// Unwrap returns ErrInvalidEvent.
func (e *ReceiptEventError) Unwrap() error { return ErrInvalidEvent }

// ReceiptFilter selects receipts. The zero value selects all.
type ReceiptFilter struct {
	Scope  string         // "": of all scopes
	Place  string         // "": of all places
	States []ReceiptState // nil: of all states
	Limit  int            // at most so many; zero means all

	// After and Before are exclusive bounds of the Handle. Zero means none. Newest puts receipts created last first. The next
	// page then begins Before the last handle of this one.
	After, Before int64
	Newest        bool
}

// Receipts is a Journal that keeps receipts in its database too. It is optional. Its methods are safe for concurrent use as
// the Journal's are, and refuse with ErrRestored as it does.
//
// This interface does not grow.
type Receipts interface {
	Journal

	// MakeReceipts makes the tables of receipts, if they are missing. It is called before the other methods. naming says how
	// the keys of requests are made. The first that is not empty is recorded, and another one is an error from then on. The
	// error wraps ErrVersion if a newer release has made the tables in a way that this one can't write.
	MakeReceipts(ctx context.Context, naming string) error

	// BeginTx starts a transaction of the journal's database that will write, durable once it is committed.
	BeginTx(ctx context.Context) (Tx, error)

	// ReceiveTx applies ev, of any kind but ReceiptReap, within tx. After the decision Wait, roll tx back and ask later:
	// another transaction works on the receipt, or has settled it after the snapshot of tx. ReceiveTx returns an error, and
	// records nothing, if tx was ended or broken off without the caller's knowledge.
	ReceiveTx(ctx context.Context, tx Tx, ev ReceiptEvent) (ReceiptResult, error)

	// LookReceipt returns the decision that ReceiveTx would make by the committed receipt, and changes nothing. In a restored journal it
	// refuses only to decide Execute.
	LookReceipt(ctx context.Context, ev ReceiptEvent) (ReceiptResult, error)

	// GetReceipt returns a receipt that is committed, or an error that wraps ErrNotFound.
	GetReceipt(ctx context.Context, key ReceiptKey) (Receipt, error)

	// ListReceipts yields receipts in the order of their creation, or against it, without the bodies of their answers.
	ListReceipts(ctx context.Context, f ReceiptFilter) iter.Seq2[Receipt, error]

	// ReapReceipts applies ev, of kind ReceiptReap, to at most limit receipts in a transaction of its own, and returns how
	// many of them changed. It passes over damaged ones, and returns their error too if fewer than limit changed.
	ReapReceipts(ctx context.Context, ev ReceiptEvent, limit int) (int, error)

	// AdvanceTx raises the number that is recorded of an entity of a source, within tx. It reports whether seq is higher than
	// that was.
	AdvanceTx(ctx context.Context, tx Tx, source, entity string, seq int64) (later bool, err error)
}

// ReceiptCounter is a Receipts that counts its receipts. It is optional. This module's stores have it.
type ReceiptCounter interface {
	Receipts

	// CountReceipts counts what is committed. The counts are zero if the journal has no tables of receipts. It reads an index
	// entry or a row of each receipt.
	CountReceipts(ctx context.Context) (ReceiptCounts, error)
}

// ReceiptCounts counts the receipts of a journal. A time is zero if its count is zero.
type ReceiptCounts struct {
	Completed int64
	Reserved  int64 // their outcome is unknown: Receipt.NeedsAttention

	OldestReserved time.Time // when the first of the reserved receipts was created

	// NextEnd is when the first of the completed receipts is to be reaped, as a whole or its answer. If it is long past, no
	// process reaps: Server.Run of package server is not running.
	NextEnd time.Time
}
