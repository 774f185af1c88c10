package mapdb

import (
	"bytes"
	"context"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// entity is an entity of a source.
type entity struct{ source, name string }

func (v *view) receipt(key journal.ReceiptKey) *rowstore.Receipt {
	if v.t != nil {
		if r, staged := v.t.receipts[key]; staged {
			return r
		}
	}
	return v.db.receipts[key]
}

// Receipt implements rowstore.Reader.
func (v *view) Receipt(ctx context.Context, key journal.ReceiptKey) (found rowstore.FoundReceipt, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	if v.t != nil {
		locked, err := v.db.take(ctx, v.t, key, rowstore.TryLock)
		if err != nil {
			return found, err
		}
		found.Held = !locked
	}
	if r := v.receipt(key); r != nil {
		own := *r
		if v.t != nil {
			_, own.Own = v.t.receipts[key]
		}
		found.Receipt = &own
	}
	return found, nil
}

// Receipts implements rowstore.Reader.
func (v *view) Receipts(_ context.Context, scan rowstore.ReceiptScan) (page []*rowstore.Receipt, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	place := func(r *rowstore.Receipt) rowstore.Position {
		if scan.ByEnd {
			return rowstore.Position{Key: r.Ends, Handle: r.Handle}
		}
		return rowstore.Position{Handle: r.Handle}
	}
	for key := range v.db.receipts {
		r := v.receipt(key)
		if r == nil || !after(place(r), scan.After) || scan.Before != 0 && r.Handle >= scan.Before ||
			scan.ByEnd && r.Ends > scan.By || scan.Reserved && journal.ReceiptState(r.State) != journal.ReceiptReserved {
			continue
		}
		own := *r
		own.Body = nil
		page = append(page, &own)
	}
	slices.SortFunc(page, func(a, b *rowstore.Receipt) int { return compare(place(a), place(b)) })
	if scan.Newest {
		slices.Reverse(page)
	}
	return page[:min(len(page), scan.Limit)], nil
}

// CountReceipts implements rowstore.Reader.
func (v *view) CountReceipts(context.Context) (n rowstore.ReceiptCount, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	for _, r := range v.db.receipts {
		n.All++
		if journal.ReceiptState(r.State) == journal.ReceiptReserved {
			n.Reserved++
		} else if n.NextEnd == 0 || r.Ends < n.NextEnd {
			n.NextEnd = r.Ends
		}
	}
	return n, nil
}

// ReserveReceipt implements rowstore.Tx.
func (t *tx) ReserveReceipt(ctx context.Context, made func(int64) *rowstore.Receipt) (bool, error) {
	handle, _ := t.ReceiptHandle(ctx)
	r := made(handle)
	found, err := t.Receipt(ctx, r.Key)
	if err != nil || found.Held || found.Receipt != nil {
		return false, err
	}
	return true, t.putReceipt(r.Key, r)
}

// CompleteReceipt implements rowstore.Tx.
func (t *tx) CompleteReceipt(ctx context.Context, was, is *rowstore.Receipt) (bool, error) {
	found, err := t.Receipt(ctx, was.Key)
	if err != nil || found.Receipt == nil || !found.Receipt.Own || !bytes.Equal(found.Receipt.Facts, was.Facts) {
		return false, err
	}
	return true, t.putReceipt(is.Key, is)
}

// ReceiptHandle implements rowstore.Tx.
func (t *tx) ReceiptHandle(context.Context) (int64, error) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.db.receipt++ // as a sequence
	return t.db.receipt, nil
}

// InsertReceipt implements rowstore.Tx.
func (t *tx) InsertReceipt(_ context.Context, r *rowstore.Receipt) error {
	return t.putReceipt(r.Key, r)
}

// UpdateReceipt implements rowstore.Tx.
func (t *tx) UpdateReceipt(_ context.Context, r *rowstore.Receipt) error {
	return t.putReceipt(r.Key, r)
}

// RemoveReceipt implements rowstore.Tx.
func (t *tx) RemoveReceipt(_ context.Context, handle int64) error {
	t.db.mu.Lock()
	var key journal.ReceiptKey
	for is, r := range t.db.receipts {
		if r.Handle == handle {
			key = is
		}
	}
	t.db.mu.Unlock()
	return t.putReceipt(key, nil)
}

func (t *tx) putReceipt(key journal.ReceiptKey, r *rowstore.Receipt) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if t.receipts == nil {
		t.receipts = make(map[journal.ReceiptKey]*rowstore.Receipt)
	}
	t.receipts[key] = r
	return nil
}

// Advance implements rowstore.Tx.
func (t *tx) Advance(ctx context.Context, source, name string, seq int64) (bool, error) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	of := entity{source, name}
	if _, err := t.db.take(ctx, t, of, rowstore.WaitLock); err != nil {
		return false, err
	}
	for _, seqs := range []map[entity]int64{t.db.heads, t.heads} {
		if is, known := seqs[of]; known && seq <= is {
			return false, nil
		}
	}
	if t.heads == nil {
		t.heads = make(map[entity]int64)
	}
	t.heads[of] = seq
	return true, nil
}
