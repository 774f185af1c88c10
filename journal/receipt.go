package journal

import (
	"context"
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

// ReceiptCounter is a Journal that counts its receipts. It is optional. This module's stores have it.
type ReceiptCounter interface {
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
