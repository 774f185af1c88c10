package rowstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// BeginTx implements machine.Outbox.
func (s *Store) BeginTx(ctx context.Context) (journal.Tx, error) {
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	return s.driver.BeginTx(ctx, false)
}

// EnqueueTx implements machine.Outbox.
func (s *Store) EnqueueTx(ctx context.Context, tx journal.Tx, ev machine.Event) (machine.Result, error) {
	if err := s.writable(ctx); err != nil {
		return machine.Result{}, err
	}
	if err := store.CheckEnqueue(ev); err != nil {
		return machine.Result{}, err
	}
	return s.applyIn(ctx, tx, ev)
}

// DeliverTx implements machine.Outbox.
func (s *Store) DeliverTx(ctx context.Context, ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	if err := s.writable(ctx); err != nil {
		return machine.Result{}, err
	}
	if err := store.CheckDeliver(ev); err != nil {
		return machine.Result{}, err
	}
	tx, err := s.driver.BeginTx(ctx, true)
	if err != nil {
		return machine.Result{}, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after Commit it does nothing
	result, err := s.applyIn(ctx, tx, ev)
	if err != nil || result.Decision != machine.Recorded {
		return result, err
	}
	if err := f(ctx, tx); err != nil {
		return machine.Result{}, err
	}
	if err := tx.Commit(ctx); err != nil {
		return machine.Result{}, err
	}
	return result, nil
}

// applyIn applies an event in the application's transaction. After an error from Next nothing was written.
func (s *Store) applyIn(ctx context.Context, theirs journal.Tx, ev machine.Event) (machine.Result, error) {
	p := s.prepare(ev)
	defer s.notes(ev.At)
	var out *outcome
	err := s.decideIn(ctx, theirs, p, func(b *batch) (err error) {
		out, err = b.apply(p)
		return err
	})
	if err != nil {
		return machine.Result{}, err
	}
	return out.result(s.codec)
}

// notes shows the journal a caller's clock that came with the application's transaction. The transaction moves no
// clock, since the application may roll back.
func (s *Store) notes(at time.Time) {
	if !s.clock.isFar(at) || !s.noting.CompareAndSwap(false, true) {
		return
	}
	if !s.aside.enter() {
		s.noting.Store(false)
		return
	}
	go func() {
		defer s.aside.running.Done()
		defer s.noting.Store(false)
		_ = s.do(s.life, &request{run: func(b *batch) error { return b.see(at) }})
	}()
}

// decideIn decides in the application's transaction, and decides anew if another transaction was faster. p, or nil,
// has the names to read.
func (s *Store) decideIn(ctx context.Context, theirs journal.Tx, p *prepared, run func(*batch) error) error {
	keys := Keys{Lock: WaitLock}
	if p != nil {
		p.keys(&s.key, true, &keys)
	}
	for try := 0; ; try++ {
		if err := s.tryIn(ctx, theirs, keys, run); !errors.Is(err, ErrMissed) || try == tries {
			return err
		}
	}
}

func (s *Store) tryIn(ctx context.Context, theirs journal.Tx, keys Keys, run func(*batch) error) error {
	tx, head, found, err := s.driver.Within(ctx, theirs, keys)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	b := newBatch(ctx, s, tx, head, WaitLock, true)
	if err := b.maySend(); err != nil {
		return err
	}
	b.clock = s.clock.glance(&head)
	if b.leaps, err = decodeLeaps(head.Leaps); err != nil {
		return err
	}
	b.take(keys, found)
	if err := run(b); err != nil || b.broken != nil {
		return cmp.Or(b.broken, err)
	}
	changes := b.changes()
	if len(changes) == 0 {
		return nil
	}
	// Otherwise, a journal into which the application only enqueues would not notice a clock that is set back.
	b.head.Clock.LeastMargin = b.clock.kept().LeastMargin
	return tx.Commit(ctx, b.head, changes)
}
