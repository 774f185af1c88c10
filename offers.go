package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// offers are the outcomes that OnSettled has still to take. Each has a backoff of
// its own, so that one which fails delays no other.
type offers struct {
	mu      sync.Mutex
	waiting map[Ref]*offer
}

type offer struct {
	op     journal.Operation
	due    time.Time
	busy   bool
	delays *retry.Delays
}

// add puts an outcome into line, once.
func (os *offers) add(op *journal.Operation) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.waiting == nil {
		os.waiting = map[Ref]*offer{}
	}
	if _, there := os.waiting[op.Ref]; !there {
		os.waiting[op.Ref] = &offer{op: *op}
	}
}

// take returns those that are due, marked busy.
func (os *offers) take(now time.Time) (due []*offer) {
	os.mu.Lock()
	defer os.mu.Unlock()
	for _, o := range os.waiting {
		if !o.busy && !o.due.After(now) {
			o.busy = true
			due = append(due, o)
		}
	}
	return due
}

// next returns when the next one is due, if there is any.
func (os *offers) next() (due time.Time, any bool) {
	os.mu.Lock()
	defer os.mu.Unlock()
	for _, o := range os.waiting {
		if !o.busy && (!any || o.due.Before(due)) {
			due, any = o.due, true
		}
	}
	return due, any
}

func (os *offers) done(o *offer) {
	os.mu.Lock()
	defer os.mu.Unlock()
	delete(os.waiting, o.op.Ref)
}

// later puts a failed offer back in line. Its delays run up to ten minutes.
func (os *offers) later(o *offer, now time.Time) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if o.delays == nil {
		o.delays = retry.NewDelays(backoff.Policy{Max: 10 * time.Minute})
	}
	o.due, o.busy = now.Add(o.delays.Next()), false
}

// makeOffer gives one outcome to OnSettled. A failure, a panic included, puts it back
// in line.
func (c *Client) makeOffer(ctx context.Context, o *offer) error {
	if o.delays != nil && !c.stillWaits(ctx, o) {
		c.offers.done(o)
		return nil
	}
	err := c.callOnUnknown(ctx, &o.op)
	hook := "Reconcile.OnUnknown"
	if err == nil && c.cfg.OnSettled != nil {
		err, hook = c.callOnSettled(ctx, operationOf(&o.op)), "OnSettled"
	}
	if err != nil {
		c.offers.later(o, c.now())
		c.note(slog.LevelError, hook+" failed; it is called again later", &o.op, "error", secret.Text(err.Error()))
		return err
	}
	c.delivered(delivery(&o.op))
	c.offers.done(o)
	return nil
}

// stillWaits looks again at an outcome that has waited since it was refused:
// somebody may have resolved, completed or delivered it meanwhile.
func (c *Client) stillWaits(ctx context.Context, o *offer) bool {
	op, err := c.journal.Get(ctx, o.op.Ref)
	if err != nil {
		return !errors.Is(err, journal.ErrNotFound)
	}
	o.op = op
	return !op.Delivered && op.State != journal.StatePending && op.State != journal.StateInFlight
}

// callOnUnknown tells of an operation that nothing is looked for any more.
func (c *Client) callOnUnknown(ctx context.Context, op *journal.Operation) (err error) {
	r := c.cfg.Reconcile
	if r == nil || r.OnUnknown == nil || op.Dead == "" {
		return nil
	}
	told := operationOf(op)
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("Reconcile.OnUnknown panicked", "operation", told.printed(), "stack", string(debug.Stack()))
			err = fmt.Errorf("Reconcile.OnUnknown panicked: %v", p)
		}
	}()
	return r.OnUnknown(ctx, told, lookedOf(op))
}

func (c *Client) callOnSettled(ctx context.Context, op Operation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("OnSettled panicked", "operation", op.printed(), "stack", string(debug.Stack()))
			err = fmt.Errorf("OnSettled panicked: %v", p)
		}
	}()
	return c.cfg.OnSettled(ctx, op)
}
