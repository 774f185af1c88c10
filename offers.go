package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// offers are the outcomes that OnSettled, or OnSettledTx, has still to take. Each has a backoff of
// its own, so that one which fails delays no other.
type offers struct {
	mu      sync.Mutex
	waiting map[Ref]*offer
	askers  []int64 // of claims that failed, and may have got outcomes all the same
}

type offer struct {
	op     journal.Operation
	due    time.Time
	busy   bool
	delays *retry.Delays
	// anew: another outcome of the operation came up meanwhile, or the same once more. The journal tells.
	anew   bool
	told   bool // OnUnknown took it
	opened bool // its flow was opened again, or need not be
}

// add puts an outcome into line, once. What is in line is looked at again after its turn.
func (os *offers) add(op *journal.Operation) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.waiting == nil {
		os.waiting = map[Ref]*offer{}
	}
	if o, there := os.waiting[op.Ref]; there {
		o.anew = true
	} else {
		os.waiting[op.Ref] = &offer{op: *op}
	}
}

// doubt takes note of a claim that failed, and may have landed all the same.
func (os *offers) doubt(asker int64) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.askers = append(os.askers, asker)
}

func (os *offers) doubted() []int64 {
	os.mu.Lock()
	defer os.mu.Unlock()
	return slices.Clone(os.askers)
}

// sure is for claims that were doubted, of which all is known now.
func (os *offers) sure(askers []int64) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.askers = slices.DeleteFunc(os.askers, func(a int64) bool { return slices.Contains(askers, a) })
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

// done is for an offer that was taken. It tells whether there is another one of the operation.
func (os *offers) done(o *offer) (again bool) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if o.anew {
		o.anew, o.busy, o.due = false, false, time.Time{} // what of it was told is asked of the journal: see stillWaits
		o.delays = retry.NewDelays(backoff.Policy{Max: longestOfferDelay})
		return true
	}
	delete(os.waiting, o.op.Ref)
	return false
}

// longestOfferDelay is how long a failed offer waits at most.
const longestOfferDelay = 10 * time.Minute

// later puts a failed offer back in line.
func (os *offers) later(o *offer, now time.Time) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if o.delays == nil {
		o.delays = retry.NewDelays(backoff.Policy{Max: longestOfferDelay})
	}
	o.due, o.busy = now.Add(o.delays.Next()), false
}

// isTold tells whether somebody is told of an outcome that reached nobody. Who asks in a flow is the flow
// itself, as long as it does.
func (c *Client) isTold(ctx context.Context, op *journal.Operation) bool {
	switch {
	case !c.tells():
		return false
	case op.Attention != "":
		return true
	case !c.settles():
		return false
	}
	return !seam.IsOfFlow(op.Parent) || op.State == journal.StateUnknown || c.cfg.SettleAll || c.afterItsFlow(ctx, op)
}

// makeOffer gives one outcome to its flow, where that was given up before it came, and to OnSettled. told says
// that somebody is told of it. A failure, a panic included, puts it back in line.
func (c *Client) makeOffer(ctx context.Context, o *offer) (told bool, err error) {
	returned := false
	defer func() {
		switch {
		case !returned: // a hook has ended its goroutine
			c.offers.later(o, c.core.Now())
		case err == nil && c.offers.done(o):
			c.core.Wake()
		}
	}()
	told, err = c.handOver(ctx, o)
	returned = true
	return told, err
}

func (c *Client) handOver(ctx context.Context, o *offer) (told bool, err error) {
	if o.delays != nil && !c.stillWaits(ctx, o) {
		return false, nil
	}
	told = c.isTold(ctx, &o.op)
	if !o.opened {
		if err = c.reopenFlowOf(ctx, &o.op); err != nil {
			c.offers.later(o, c.core.Now())
			return false, err
		}
		o.opened = true
	}
	if !told {
		if err = c.delivered(delivery(&o.op)); err != nil {
			c.offers.later(o, c.core.Now())
		}
		return false, err
	}
	hook := "Reconcile.OnUnknown"
	if !o.told {
		err = c.callOnUnknown(ctx, &o.op)
		o.told = err == nil
	}
	switch {
	case err != nil:
	case c.cfg.OnSettledTx != nil:
		err, hook = c.settleInTx(ctx, &o.op), "OnSettledTx"
	case c.cfg.OnSettled != nil:
		err, hook = c.callOnSettled(ctx, operationOf(&o.op)), "OnSettled"
	}
	if err != nil {
		c.offers.later(o, c.core.Now())
		c.core.Note(ctx, slog.LevelError, core.LogSettleFailed, hook+" failed; it is called again later", &o.op, "error", secret.Text(err.Error()))
	} else if c.cfg.OnSettledTx == nil {
		_ = c.delivered(delivery(&o.op))
	}
	c.core.Settled(ctx, &o.op, err)
	return true, err
}

// stillWaits looks again at an outcome that has waited since it was refused:
// somebody may have resolved, completed or delivered it meanwhile.
func (c *Client) stillWaits(ctx context.Context, o *offer) bool {
	if _, err := c.core.Backlog.CatchUp(ctx, o.op.Ref); err != nil {
		return true // the journal does not have it yet
	}
	op, err := c.core.Journal.Get(ctx, o.op.Ref)
	if err != nil {
		return !errors.Is(err, journal.ErrNotFound)
	}
	if op.Generation != o.op.Generation || op.State != o.op.State || op.Attention != o.op.Attention {
		o.told, o.opened = false, false
	}
	o.op = op
	return !op.Delivered && op.State != journal.StatePending && op.State != journal.StateInFlight
}

// callOnUnknown tells of an operation that nothing is looked for any more.
func (c *Client) callOnUnknown(ctx context.Context, op *journal.Operation) (err error) {
	r := c.cfg.Reconcile
	if r == nil || r.OnUnknown == nil || op.Attention == "" {
		return nil
	}
	told := operationOf(op)
	defer func() {
		if p := recover(); p != nil {
			c.core.Say(ctx, slog.LevelError, core.LogHookPanicked, "Reconcile.OnUnknown panicked", "operation", told.printed(), "stack", string(debug.Stack()))
			err = fmt.Errorf("Reconcile.OnUnknown panicked: %v", p)
		}
	}()
	return r.OnUnknown(ctx, told, lookedOf(op))
}

func (c *Client) callOnSettled(ctx context.Context, op Operation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.core.Say(ctx, slog.LevelError, core.LogHookPanicked, "OnSettled panicked", "operation", op.printed(), "stack", string(debug.Stack()))
			err = fmt.Errorf("OnSettled panicked: %v", p)
		}
	}()
	return c.cfg.OnSettled(ctx, op)
}
