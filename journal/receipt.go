package journal

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/words"
)

// A receipt is the record of one request or message received under a key. The receipt is written in the transaction with
// the request's effect, so both are committed or neither is.

// ReceiptKey names a receipt. Two receipts in one scope never have the same key.
type ReceiptKey struct {
	Scope string // the keys' owner: a tenant, or a consumer
	Key   string // from the request, or the message's identity
}

// ReceiptState is a receipt's state.
type ReceiptState uint8

// A receipt's states.
const (
	// ReceiptAbsent: there is no receipt. The zero value.
	ReceiptAbsent ReceiptState = iota
	// ReceiptReserved: a transaction has reserved the key. Other transactions see a reserved receipt only if a handler has
	// committed the transaction by itself. The effect is then unknown, and the key is not served again until Resolve.
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
	Place       string // name of the receiving endpoint or consumer
	State       ReceiptState
	Claim       int64  // counts how often the key was reserved, from 1
	Fingerprint string // tells another request under the key: the caller within the scope counts

	CreatedAt    time.Time
	SettledAt    time.Time // when the answer was recorded; the zero time while the key is reserved
	ExpiresAt    time.Time // the answer is given until then
	RefusedUntil time.Time // the key is refused from ExpiresAt until then, and is new afterwards

	// Answer has only Status, Header and Body. A message's Status is 0, and the Body is the function's return value. Nil
	// means: there is no answer, or the answer has expired and was reaped.
	Answer *Answer
	Cause  string // who resolved the receipt, and why; else ""

	// SealedBy names the key that the process lacks. Fingerprint, and the header and body of Answer, are then zero.
	// Empty means that no key is missing.
	SealedBy string
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

// ReceiptCounter is a Journal with a count of its receipts. This module's stores implement this optional interface.
type ReceiptCounter interface {
	// CountReceipts counts the committed receipts. The counts are zero if the journal has no tables for receipts.
	// CountReceipts reads an index entry or a row for each receipt.
	CountReceipts(ctx context.Context) (ReceiptCounts, error)
}

// ReceiptCounts counts a journal's receipts. A time is zero if the time's count is zero.
type ReceiptCounts struct {
	Completed int64
	Reserved  int64 // with an unknown outcome: Receipt.NeedsAttention

	OldestReserved time.Time // when the first reserved receipt was created

	// NextEnd is when the first completed receipt, or a receipt's answer, is to be reaped. If NextEnd is long past, no
	// process reaps: package server's Server.Run is not running.
	NextEnd time.Time
}
