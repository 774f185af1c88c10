package mapdb

import (
	"context"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

func (v *view) Receipt(ctx context.Context, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	defer v.db.lock()()
	if v.tx != nil {
		locked, err := v.db.take(ctx, v.tx, key, rowstore.TryLock)
		if err != nil {
			return found, err
		}
		found.Held = !locked
	}
	if r := get(v.changed.receipts, v.db.receipts, key); r != nil {
		own := *r
		_, own.Own = v.changed.receipts[key]
		found.Receipt = &own
	}
	return found, nil
}

func (v *view) Receipts(_ context.Context, scan rowstore.ReceiptScan) (found []*rowstore.Receipt, err error) {
	defer v.db.lock()()
	place := func(r *rowstore.Receipt) (at rowstore.Position, is bool) {
		at.Handle = r.Handle
		if scan.ByEnd {
			at.Key = r.Ends
		}
		return at, (scan.Before == 0 || r.Handle < scan.Before) && (!scan.ByEnd || r.Ends <= scan.By) &&
			(!scan.Reserved || journal.ReceiptState(r.State) == journal.ReceiptReserved)
	}
	for _, p := range page(all(v.changed.receipts, v.db.receipts), place, scan.After, scan.Newest, scan.Limit) {
		own := *p.row
		own.Body = nil
		found = append(found, &own)
	}
	return found, nil
}

func (v *view) CountReceipts(context.Context) (n rowstore.ReceiptCount, err error) {
	defer v.db.lock()()
	for _, r := range v.db.receipts {
		n.All++
		if journal.ReceiptState(r.State) == journal.ReceiptReserved {
			n.Reserved++
		} else {
			n.NextEnd = least(n.NextEnd, r.Ends)
		}
	}
	return n, nil
}

func (t *tx) ReserveReceipts(context.Context, int, func(int, int64) *rowstore.Receipt) ([]bool, error) {
	return nil, nil // there are no round trips to spare
}

func (t *tx) CompleteReceipt(context.Context, *rowstore.Receipt, *rowstore.Receipt) (bool, error) {
	return false, nil
}

func (t *tx) ReceiptHandle(context.Context) (int64, error) {
	defer t.db.lock()()
	t.db.latestReceipt++ // as a sequence
	return t.db.latestReceipt, nil
}

func (t *tx) InsertReceipt(ctx context.Context, r *rowstore.Receipt) error {
	return t.UpdateReceipt(ctx, r)
}

func (t *tx) UpdateReceipt(_ context.Context, r *rowstore.Receipt) error {
	defer t.db.lock()()
	set(&t.changed.receipts, r.Key, r)
	return nil
}

func (t *tx) RemoveReceipt(_ context.Context, handle int64) error {
	defer t.db.lock()()
	for key, r := range t.db.receipts {
		if r.Handle == handle {
			set(&t.changed.receipts, key, nil)
		}
	}
	return nil
}

func (t *tx) Advance(ctx context.Context, source, name string, seq int64) (bool, error) {
	return t.number(ctx, entity{source, name}, seq, func(was int64) bool { return seq > was })
}
