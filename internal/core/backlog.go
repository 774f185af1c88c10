package core

import (
	"context"
	"errors"
	"sync"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Backlog holds the events that the journal failed to record, and retries each event until the journal records it.
// Meanwhile Backlog answers callers that ask for such an operation.
type Backlog struct {
	journal machine.Store
	closing <-chan struct{}
	deliver func(*journal.Operation)
	wake    func()

	mu      sync.Mutex
	unsaved map[journal.Ref][]*unsavedEvent
	retries bool // a goroutine is at it
}

// NewBacklog returns a backlog that retries events until closing is closed. It calls wake after each recorded event,
// and deliver with an outcome after dropping the outcome's delivery.
func NewBacklog(j machine.Store, closing <-chan struct{}, deliver func(*journal.Operation), wake func()) *Backlog {
	return &Backlog{journal: j, closing: closing, deliver: deliver, wake: wake}
}

type unsavedEvent struct {
	event machine.Event
	op    journal.Operation // as the event leaves it
}

// Add keeps an event that could not be recorded, and the operation after the event.
func (b *Backlog) Add(ev machine.Event, op journal.Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unsaved == nil {
		b.unsaved = map[journal.Ref][]*unsavedEvent{}
	}
	b.unsaved[ev.Ref] = append(b.unsaved[ev.Ref], &unsavedEvent{ev, op})
	if !b.retries {
		b.retries = true
		go b.retry()
	}
}

// Follow keeps a delivery behind the operation's unrecorded events. It returns false if there are none.
func (b *Backlog) Follow(ev machine.Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.unsaved[ev.Ref]
	if len(events) == 0 {
		return false
	}
	last := events[len(events)-1]
	if e := &last.event; e.Kind == ev.Kind && e.Outcome == ev.Outcome && e.Generation == ev.Generation {
		return true // a caller that asks all the time makes no queue
	}
	op := last.op
	if op.State == ev.Outcome && op.Generation == ev.Generation {
		op.Delivered = true // it is not delivered again meanwhile
	}
	b.unsaved[ev.Ref] = append(events, &unsavedEvent{ev, op})
	return true
}

// retry ends with the backlog, or the journal, or at Shutdown, which flushes what is left.
func (b *Backlog) retry() {
	delays := cenkalti.NewExponentialBackOff(
		cenkalti.WithInitialInterval(50*time.Millisecond), cenkalti.WithMaxInterval(10*time.Second), cenkalti.WithMaxElapsedTime(0))
	for {
		select {
		case <-time.After(delays.NextBackOff()):
		case <-b.closing:
			return
		}
		err := b.try(context.Background())
		if err == nil && b.stopIfEmpty() || errors.Is(err, journal.ErrClosed) {
			return
		}
	}
}

// stopIfEmpty reports whether no event is left. If so, it lets the goroutine end.
func (b *Backlog) stopIfEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retries = len(b.unsaved) != 0
	return !b.retries
}

// try records what it can and returns the first error.
func (b *Backlog) try(ctx context.Context) error {
	b.mu.Lock()
	refs := make([]journal.Ref, 0, len(b.unsaved))
	for ref := range b.unsaved {
		refs = append(refs, ref)
	}
	b.mu.Unlock()
	for _, ref := range refs {
		if err := b.tryOne(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// tryOne records what is kept of ref, in order.
func (b *Backlog) tryOne(ctx context.Context, ref journal.Ref) error {
	for {
		b.mu.Lock()
		events := b.unsaved[ref]
		b.mu.Unlock()
		if len(events) == 0 {
			return nil
		}
		res, err := b.journal.Apply(ctx, events[0].event)
		// A refused event does not become a better one: the claim is gone, or the cancelled intent never landed.
		if err != nil && !errors.Is(err, journal.ErrInvalidEvent) && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		b.recorded(ref, events[0])
		if op := &res.Operation; err == nil && op.Withdrawn != nil && !seam.IsOfFlow(op.Parent) && b.dropDelivery(ref) {
			b.deliver(op) // a commit that had landed has this process hold it, so that no pass offers it
		}
		b.wake()
	}
}

// dropDelivery drops the unsaved delivery to the caller for an operation that was withdrawn meanwhile, and reports
// whether there was one. The withdrawing process is not the caller.
func (b *Backlog) dropDelivery(ref journal.Ref) bool {
	b.mu.Lock()
	events := b.unsaved[ref]
	b.mu.Unlock()
	if len(events) == 0 || events[0].event.Kind != machine.EventDeliver {
		return false
	}
	b.recorded(ref, events[0])
	return true
}

// recorded drops what was recorded of ref. Several goroutines may have been at the same event: the next one is not
// dropped for it.
func (b *Backlog) recorded(ref journal.Ref, event *unsavedEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch left := b.unsaved[ref]; {
	case len(left) == 0 || left[0] != event:
	case len(left) == 1:
		delete(b.unsaved, ref)
	default:
		b.unsaved[ref] = left[1:]
	}
}

// Flush tries until all is recorded, the journal is closed, or ctx ends. The error then
// wraps the journal's, too.
func (b *Backlog) Flush(ctx context.Context) error {
	delays := cenkalti.NewExponentialBackOff(
		cenkalti.WithInitialInterval(20*time.Millisecond), cenkalti.WithMaxInterval(time.Second), cenkalti.WithMaxElapsedTime(0))
	for {
		err := b.try(ctx)
		if err == nil || errors.Is(err, journal.ErrClosed) {
			return err
		}
		select {
		case <-time.After(delays.NextBackOff()):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// CatchUp tries to record the events kept for ref. On failure, it returns the journal's error and the operation as the
// process knows it, with more facts than the journal's.
func (b *Backlog) CatchUp(ctx context.Context, ref journal.Ref) (*journal.Operation, error) {
	b.mu.Lock()
	events := b.unsaved[ref]
	b.mu.Unlock()
	if len(events) == 0 {
		return nil, nil
	}
	err := b.tryOne(ctx, ref)
	if err == nil {
		return nil, nil
	}
	return &events[len(events)-1].op, err
}

// Len returns how many events are kept.
func (b *Backlog) Len() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, events := range b.unsaved {
		n += len(events)
	}
	return n
}
