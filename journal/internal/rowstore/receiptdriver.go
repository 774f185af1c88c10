package rowstore

import (
	"context"

	"github.com/onceward/onceward/journal"
)

// Receipt is a receipt in the database's form: the columns for indexes and conditions, and encoded parts that no driver
// reads.
type Receipt struct {
	Handle        int64
	Key           journal.ReceiptKey
	Place         string
	State         uint8
	Ends          int64  // milliseconds since 1970, by which something of it is to be reaped; the greatest number means never
	Facts, Answer []byte // Facts have a checksum of all but the body
	Body          []byte

	Own bool // this transaction has written it, as far as the database can tell

	box []byte // in Facts, once they were decoded; nil: none
}

// FoundReceipt is what a key has.
type FoundReceipt struct {
	Receipt *Receipt // nil means none
	// Held means, in a writing transaction, that another transaction works on the key. Else the key is locked.
	Held bool
}

// ReceiptScan selects a page of receipts, without bodies.
type ReceiptScan struct {
	ByEnd    bool // those with Ends at or before By, by Ends and handle; else by handle
	By       int64
	Reserved bool     // only these
	After    Position // exclusive
	Before   int64    // handle, exclusive; 0 means none
	Newest   bool
	Limit    int
}

// ReceiptCount is how many receipts a database has.
type ReceiptCount struct {
	All, Reserved int64
	NextEnd       int64 // of those that are not reserved; 0 means none
}

// ReceiptReader reads receipts.
type ReceiptReader interface {
	Receipt(ctx context.Context, key journal.ReceiptKey) (FoundReceipt, error)
	Receipts(ctx context.Context, scan ReceiptScan) ([]*Receipt, error)
	CountReceipts(ctx context.Context) (ReceiptCount, error)
}

// ReceiptWriter writes receipts whose keys its transaction has locked. The first two methods write receipts unread, to
// spare round trips. They say which receipts were written. A driver that spares nothing writes none. Nor does a driver
// write a receipt if the stored receipt is not the expected one, or another transaction works on the key.
type ReceiptWriter interface {
	// ReserveReceipts locks n keys, which have no receipts, and writes a receipt for each. made returns the key's receipt for
	// a new handle. Written is nil if there is none.
	ReserveReceipts(ctx context.Context, n int, made func(i int, handle int64) *Receipt) (written []bool, err error)
	// CompleteReceipt replaces a receipt that the transaction has reserved, maybe only at the commit.
	CompleteReceipt(ctx context.Context, was, is *Receipt) (bool, error)

	// ReceiptHandle returns a handle for a new receipt.
	ReceiptHandle(ctx context.Context) (int64, error)
	InsertReceipt(ctx context.Context, r *Receipt) error
	UpdateReceipt(ctx context.Context, r *Receipt) error
	RemoveReceipt(ctx context.Context, handle int64) error
	// Advance raises the number of an entity, and reports whether it was lower. It waits for other transactions.
	Advance(ctx context.Context, source, entity string, seq int64) (bool, error)
}
