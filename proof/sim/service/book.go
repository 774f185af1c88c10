package service

import (
	"context"
	"iter"
	"sync"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

var (
	_ machine.Receipts = (*book)(nil)
	_ machine.Outbox   = (*book)(nil)
)

// book is the journal as one process of the service sees it. A kill cuts the process off.
type book struct {
	*severed.Journal
	whole   *sqlite.Journal
	process *process
	open    sync.Map // transactions
}

// cutTx is a transaction that ends with the process.
type cutTx struct {
	journal.Tx
	book *book
}

func (t *cutTx) Commit(ctx context.Context) error {
	t.book.process.step()
	if err := t.book.Journal.Alive(); err != nil {
		return err
	}
	defer t.book.open.Delete(t.Tx)
	if err := t.Tx.Commit(ctx); err != nil {
		return err
	}
	t.book.process.step()
	return t.book.Journal.Alive()
}

func (t *cutTx) Rollback(ctx context.Context) error {
	t.book.open.Delete(t.Tx)
	return t.Tx.Rollback(ctx)
}

func (b *book) BeginTx(ctx context.Context) (journal.Tx, error) {
	b.process.step()
	if err := b.Alive(); err != nil {
		return nil, err
	}
	tx, err := b.whole.BeginTx(ctx)
	if err != nil {
		return nil, err
	}
	b.open.Store(tx, true)
	if err := b.Alive(); err != nil {
		_ = tx.Rollback(context.Background())
		return nil, err
	}
	return &cutTx{tx, b}, nil
}

func (b *book) EnqueueTx(ctx context.Context, tx journal.Tx, ev machine.Event) (machine.Result, error) {
	if err := b.Alive(); err != nil {
		return machine.Result{}, err
	}
	return b.whole.EnqueueTx(ctx, tx.(*cutTx).Tx, ev)
}

func (b *book) DeliverTx(ctx context.Context, ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	if err := b.Alive(); err != nil {
		return machine.Result{}, err
	}
	return b.whole.DeliverTx(ctx, ev, f)
}

func (b *book) MakeReceipts(ctx context.Context, naming string) error {
	return b.whole.MakeReceipts(ctx, naming)
}

// keyed gives each process receipts of its own, if the life is to fail.
func (b *book) keyed(ev machine.ReceiptEvent) machine.ReceiptEvent {
	if b.process.forgetful {
		ev.Key += " at " + b.process.name
	}
	return ev
}

func (b *book) ReceiveTx(ctx context.Context, tx journal.Tx, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
	b.process.step()
	if err := b.Alive(); err != nil {
		return machine.ReceiptResult{}, err
	}
	return b.whole.ReceiveTx(ctx, tx.(*cutTx).Tx, b.keyed(ev))
}

func (b *book) ReserveTx(ctx context.Context, tx journal.Tx, evs []machine.ReceiptEvent) ([]machine.ReceiptResult, error) {
	b.process.step()
	if err := b.Alive(); err != nil {
		return nil, err
	}
	keyed := make([]machine.ReceiptEvent, len(evs))
	for i, ev := range evs {
		keyed[i] = b.keyed(ev)
	}
	return b.whole.ReserveTx(ctx, tx.(*cutTx).Tx, keyed)
}

func (b *book) LookReceipt(ctx context.Context, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
	if err := b.Alive(); err != nil {
		return machine.ReceiptResult{}, err
	}
	return b.whole.LookReceipt(ctx, b.keyed(ev))
}

func (b *book) GetReceipt(ctx context.Context, key journal.ReceiptKey) (journal.Receipt, error) {
	return b.whole.GetReceipt(ctx, key)
}

func (b *book) ListReceipts(ctx context.Context, f journal.ReceiptFilter) iter.Seq2[journal.Receipt, error] {
	return b.whole.ListReceipts(ctx, f)
}

func (b *book) ReapReceipts(ctx context.Context, ev machine.ReceiptEvent, limit int) (int, error) {
	if err := b.Alive(); err != nil {
		return 0, err
	}
	return b.whole.ReapReceipts(ctx, ev, limit)
}

func (b *book) AdvanceTx(ctx context.Context, tx journal.Tx, source, entity string, seq int64) (bool, error) {
	return b.whole.AdvanceTx(ctx, tx.(*cutTx).Tx, source, entity, seq)
}
