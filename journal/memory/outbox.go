package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

var (
	_ journal.Outbox     = (*Journal)(nil)
	_ journal.LocalFlows = (*Journal)(nil)
)

// transaction is a journal.Tx of a Journal in memory, whose mutex guards it. Its changes are staged, and
// invisible to others before Commit.
type transaction struct {
	journal *Journal
	over    chan struct{} // closed once it is committed or rolled back
	staged  []journal.Operation
	flows   []journal.Flow
	newest  int64 // handle
	ended   bool
}

// BeginTx starts a transaction. There is no database, so its Driver is nil: it is for the unit tests of
// programs that enqueue. As in a journal in an SQLite file, nothing else is recorded until it ends. Other
// calls wait meanwhile.
func (j *Journal) BeginTx(ctx context.Context) (journal.Tx, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return nil, err
	}
	j.writing = &transaction{journal: j, over: make(chan struct{}), newest: int64(len(j.rows))}
	return j.writing, nil
}

// openToWrite is open for methods that record: it waits for the end of an open transaction. The caller holds
// j.mu, which is released meanwhile.
func (j *Journal) openToWrite(ctx context.Context) error {
	for {
		if err := j.open(ctx); err != nil || j.writing == nil {
			return err
		}
		over := j.writing.over
		j.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
		}
		j.mu.Lock()
	}
}

// Driver returns nil: there is no database.
func (t *transaction) Driver() any { return nil }

// Commit records the staged changes.
func (t *transaction) Commit(ctx context.Context) error {
	j := t.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	switch err := ctx.Err(); {
	case j.closed:
		return journal.ErrClosed
	case t.ended:
		return errEnded
	case err != nil:
		t.end()
		return err
	}
	for i := range t.staged {
		j.put(&t.staged[i])
	}
	for _, f := range t.flows {
		j.putFlow(f)
	}
	t.end()
	return nil
}

// Rollback discards the staged changes.
func (t *transaction) Rollback(context.Context) error {
	t.journal.mu.Lock()
	defer t.journal.mu.Unlock()
	if !t.ended {
		t.end()
	}
	return nil
}

var errEnded = errors.New("memory: the transaction was committed or rolled back before: begin another")

// end lets others go on.
func (t *transaction) end() {
	t.ended, t.journal.writing = true, nil
	close(t.over)
}

// find returns the operation that ev names as the transaction sees it.
func (t *transaction) find(ev *journal.Event) journal.Operation {
	for i := range t.staged {
		if store.IsNamed(&t.staged[i], ev.Ref) {
			return t.staged[i]
		}
	}
	return t.journal.row(t.journal.find(ev))
}

// stage records the new state of an operation, which gets its handle.
func (t *transaction) stage(op *journal.Operation) {
	if op.Handle == 0 {
		t.newest++
		op.Handle = t.newest
	}
	for i := range t.staged {
		if t.staged[i].Handle == op.Handle {
			t.staged[i] = *op
			return
		}
	}
	t.staged = append(t.staged, *op)
}

// in is the open transaction that tx is.
func (j *Journal) in(ctx context.Context, tx journal.Tx) (*transaction, error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	t, ok := tx.(*transaction)
	switch {
	case !ok || t == nil || t.journal != j:
		return nil, fmt.Errorf("memory: the transaction is a %T, and not one of this journal's BeginTx", tx)
	case t.ended:
		return nil, errEnded
	}
	return t, nil
}

// EnqueueTx stages ev, of kind EventEnqueue, in tx, a transaction of BeginTx.
func (j *Journal) EnqueueTx(ctx context.Context, tx journal.Tx, ev journal.Event) (journal.Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := store.CheckEnqueue(ev); err != nil {
		return journal.Result{}, err
	}
	t, err := j.in(ctx, tx)
	if err != nil {
		return journal.Result{}, err
	}
	op := t.find(&ev)
	if ev.Intent != nil {
		for _, name := range ev.Intent.Rivals(&op) {
			if holder := t.find(&journal.Event{Ref: name}); holder.State != journal.StateAbsent && op.YieldsTo(&holder) {
				return j.misuse(holder, &ev), nil
			}
		}
	}
	return j.applyTo(t, &op, &ev)
}

// DeliverTx applies ev, of kind EventDeliver, and calls f in the same transaction.
func (j *Journal) DeliverTx(ctx context.Context, ev journal.Event, f func(context.Context, journal.Tx) error) (journal.Result, error) {
	if err := store.CheckDeliver(ev); err != nil {
		return journal.Result{}, err
	}
	tx, err := j.BeginTx(ctx)
	if err != nil {
		return journal.Result{}, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	result, err := j.deliverIn(tx.(*transaction), ev)
	if err != nil || result.Decision != journal.Recorded {
		return result, err
	}
	if err := f(ctx, tx); err != nil {
		return journal.Result{}, err
	}
	if err := tx.Commit(ctx); err != nil {
		return journal.Result{}, err
	}
	return result, nil
}

func (j *Journal) deliverIn(t *transaction, ev journal.Event) (journal.Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return journal.Result{}, journal.ErrClosed
	}
	op := j.row(j.find(&ev))
	return j.applyTo(t, &op, &ev)
}

// ApplyFlowTx stages ev, of kind FlowEventRecord or FlowEventEnqueue, in tx, a transaction of BeginTx.
func (j *Journal) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev journal.FlowEvent) (journal.FlowResult, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := store.CheckApplyFlowTx(ev); err != nil {
		return journal.FlowResult{}, err
	}
	t, err := j.in(ctx, tx)
	if err != nil {
		return journal.FlowResult{}, err
	}
	f, at := t.flow(&ev)
	ev.Input, ev.Steps = bytes.Clone(ev.Input), copySteps(ev.Steps)
	next, decision, err := journal.NextFlow(f, false, ev)
	if err == nil && decision == journal.Recorded {
		if ev.Claim != 0 {
			next.Steps = appendSteps(next.Steps, ev.Steps)
		}
		if at < 0 {
			t.flows = append(t.flows, next)
		} else {
			t.flows[at] = next
		}
	}
	return journal.FlowResult{Flow: copyFlow(next), Decision: decision}, err
}

// flow returns the flow that ev names as the transaction sees it, and its place among the staged ones, or -1.
func (t *transaction) flow(ev *journal.FlowEvent) (f journal.Flow, at int) {
	rows := &t.journal.flows
	handle := ev.Handle
	if handle == 0 {
		handle = rows.byRef[ev.Ref]
	}
	if handle > 0 && handle <= int64(len(rows.rows)) {
		f = rows.rows[handle-1]
	}
	at = slices.IndexFunc(t.flows, func(other journal.Flow) bool {
		return f.Handle != 0 && other.Handle == f.Handle || f.Handle == 0 && other.Ref == ev.Ref
	})
	if at >= 0 {
		f = t.flows[at]
	}
	return f, at
}
