package onceward

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// backlog holds the events that the journal failed to record. They are tried
// until they are written; who asks for such an operation meanwhile is served
// from here.
type backlog struct {
	mu      sync.Mutex
	unsaved map[Ref][]*unsavedEvent
	retries bool // a goroutine is at it
}

type unsavedEvent struct {
	event journal.Event
	op    journal.Operation // as the event leaves it
}

// keepUnsaved takes an event that could not be recorded because of err.
func (c *Client) keepUnsaved(ctx context.Context, ev journal.Event, op journal.Operation, err error) {
	c.backlog.add(c, ev, op) // before any hook, which may panic
	c.journalFailed(ctx, &op, ev.Kind, "the journal failed; the event is kept in memory and tried again", err)
}

// journalFailed tells the world that an event could not be recorded.
func (c *Client) journalFailed(ctx context.Context, op *journal.Operation, event journal.EventKind, msg string, err error) {
	c.note(ctx, slog.LevelError, logJournalFailed, msg, op, "journal_event", event.String(), "error", err)
	if c.trace.JournalFailed != nil {
		c.trace.JournalFailed(ctx, operationOf(op), event.String(), err)
	}
}

func (b *backlog) add(c *Client, ev journal.Event, op journal.Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unsaved == nil {
		b.unsaved = map[Ref][]*unsavedEvent{}
	}
	b.unsaved[ev.Ref] = append(b.unsaved[ev.Ref], &unsavedEvent{ev, op})
	if !b.retries {
		b.retries = true
		go c.retryBacklog()
	}
}

// follow keeps a delivery behind the events of its operation that are not recorded yet; false: there are none.
func (b *backlog) follow(ev journal.Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.unsaved[ev.Ref]
	if len(events) == 0 {
		return false
	}
	last := events[len(events)-1]
	if e := &last.event; e.Kind == ev.Kind && e.Outcome == ev.Outcome && e.Generation == ev.Generation {
		return true // who asks all the time makes no queue
	}
	op := last.op
	if op.State == ev.Outcome && op.Generation == ev.Generation {
		op.Delivered = true // nobody is told of it again meanwhile
	}
	b.unsaved[ev.Ref] = append(events, &unsavedEvent{ev, op})
	return true
}

// retryBacklog ends with the backlog, or the journal, or at Shutdown, which flushes what is left.
func (c *Client) retryBacklog() {
	delays := cenkalti.NewExponentialBackOff(
		cenkalti.WithInitialInterval(50*time.Millisecond), cenkalti.WithMaxInterval(10*time.Second), cenkalti.WithMaxElapsedTime(0))
	for {
		select {
		case <-time.After(delays.NextBackOff()):
		case <-c.lifecycle.closing:
			return
		}
		err := c.backlog.try(context.Background(), c)
		if err == nil && c.backlog.rest() || errors.Is(err, journal.ErrClosed) {
			return
		}
	}
}

// rest tells whether there is nothing left to do, and then lets the goroutine go.
func (b *backlog) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retries = len(b.unsaved) != 0
	return !b.retries
}

// try records what it can and returns the first error.
func (b *backlog) try(ctx context.Context, c *Client) error {
	b.mu.Lock()
	refs := make([]Ref, 0, len(b.unsaved))
	for ref := range b.unsaved {
		refs = append(refs, ref)
	}
	b.mu.Unlock()
	for _, ref := range refs {
		if err := b.tryOne(ctx, c, ref); err != nil {
			return err
		}
	}
	return nil
}

// tryOne records what is kept of ref, in order.
func (b *backlog) tryOne(ctx context.Context, c *Client, ref Ref) error {
	for {
		b.mu.Lock()
		events := b.unsaved[ref]
		b.mu.Unlock()
		if len(events) == 0 {
			return nil
		}
		res, err := c.journal.Apply(ctx, events[0].event)
		// A refused event does not become a better one: its claim is gone, or the
		// intent whose cancel it is never landed.
		if err != nil && !errors.Is(err, journal.ErrInvalidEvent) && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		b.recorded(ref, events[0])
		if op := &res.Operation; err == nil && op.Unwanted != nil && !seam.IsOfFlow(op.Parent) && b.dropDelivery(ref) {
			c.offers.add(op) // a commit that had landed has this process hold it, so that no pass offers it
		}
		c.wake()
	}
}

// dropDelivery drops the caller's delivery of what nobody wants any more by now: whoever does not want it is not who asked.
func (b *backlog) dropDelivery(ref Ref) bool {
	b.mu.Lock()
	events := b.unsaved[ref]
	b.mu.Unlock()
	if len(events) == 0 || events[0].event.Kind != journal.EventDeliver {
		return false
	}
	b.recorded(ref, events[0])
	return true
}

// recorded drops what was recorded of ref. Several goroutines may have been at the same event: the next one is not
// dropped for it.
func (b *backlog) recorded(ref Ref, event *unsavedEvent) {
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

// flush tries until all is recorded, the journal is closed, or ctx ends. The error then
// wraps the journal's, too.
func (b *backlog) flush(ctx context.Context, c *Client) error {
	delays := cenkalti.NewExponentialBackOff(
		cenkalti.WithInitialInterval(20*time.Millisecond), cenkalti.WithMaxInterval(time.Second), cenkalti.WithMaxElapsedTime(0))
	for {
		err := b.try(ctx, c)
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

// catchUp makes sure that nothing is kept of ref, or returns what is known of the
// operation better than the journal knows it, with the journal's error.
func (b *backlog) catchUp(ctx context.Context, c *Client, ref Ref) (*journal.Operation, error) {
	b.mu.Lock()
	events := b.unsaved[ref]
	b.mu.Unlock()
	if len(events) == 0 {
		return nil, nil
	}
	err := b.tryOne(ctx, c, ref)
	if err == nil {
		return nil, nil
	}
	return &events[len(events)-1].op, err
}
