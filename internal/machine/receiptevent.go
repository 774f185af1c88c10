package machine

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
)

// ReceiptEventKind says what happens to a receipt.
type ReceiptEventKind uint8

// The receipt event kinds.
const (
	// ReceiptReserve: a request begins. It needs Place, Fingerprint, Same and Keep.
	ReceiptReserve ReceiptEventKind = iota + 1
	// ReceiptComplete: the transaction that has reserved the key records the answer. It needs Claim and Answer.
	ReceiptComplete
	// ReceiptRecord: an answer is recorded under a key without a reservation. It needs the fields of ReceiptReserve, and
	// Answer.
	ReceiptRecord
	// ReceiptResolve: a person says what became of a reserved receipt. It needs Resolution, and By or Why. With
	// Executed it needs Answer, with a Status of 0 or from 200 to 599. A Claim other than zero, and Handle, belong to
	// the receipt that the person saw.
	ReceiptResolve
	// ReceiptReap: an expired answer is removed, and later the receipt.
	ReceiptReap
)

// ReceiptEvent is something that happens to a receipt.
type ReceiptEvent struct {
	Kind ReceiptEventKind
	journal.ReceiptKey

	At          time.Time // the caller's clock
	Last        time.Time // the latest time that the journal has seen; a store sets it
	Unconfirmed time.Time // as Event.Unconfirmed; a store sets it

	Place       string
	Fingerprint string
	// Same reports whether a recorded receipt is of the event's request. It returns an error if this release can't
	// compare the two. It is called within the store's transaction, and must not ask the journal for anything.
	Same func(*journal.Receipt) (bool, error)

	Keep   time.Duration // how long the answer is given, from CreatedAt
	Refuse time.Duration // how long the key is refused after that; zero means not at all

	Claim  int64
	Answer *journal.Answer
	// Reserved is the receipt that ReceiptReserve returned to the transaction. It is optional, for ReceiptComplete, and
	// saves the store a row read.
	Reserved *journal.Receipt

	Resolution journal.Resolution // Executed or NotExecuted
	By, Why    string
	Handle     int64
}

// ReceiptResult is what became of a receipt.
type ReceiptResult struct {
	Receipt  journal.Receipt
	Decision Decision
	// Again: the key was used before, and was reserved anew since its earlier life is past RefusedUntil.
	Again bool
}

// ReceiptEventError says that an event can't happen to a receipt, and wraps ErrInvalidEvent.
type ReceiptEventError struct {
	Kind   ReceiptEventKind
	State  journal.ReceiptState
	Reason string
}

func (e *ReceiptEventError) Error() string {
	return fmt.Sprintf("journal: receipt event %d of a receipt that is %s: %s", e.Kind, e.State, e.Reason)
}

// Unwrap returns ErrInvalidEvent.
func (e *ReceiptEventError) Unwrap() error { return journal.ErrInvalidEvent }
