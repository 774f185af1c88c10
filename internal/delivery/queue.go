package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// Delivery is an outcome that Outcomes.Handle, or Outcomes.HandleTx, has still to take. Each delivery has a separate
// backoff, so a failing delivery delays no other.
type Delivery struct {
	op     journal.Operation
	due    time.Time
	busy   bool
	delays *retry.Delays
	// anew: another outcome for the operation came up meanwhile, or the same once more. The journal says which.
	anew     bool
	waited   bool // since it was queued, so that the journal may say otherwise by now
	left     bool // to its flow, which had its turn
	notified bool // OnUnknown took it
	opened   bool // its flow was opened again, or need not be
}

// Add queues an outcome, once. A queued delivery is looked at again after its turn.
func (d *Deliveries) Add(op *journal.Operation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[journal.Ref]*Delivery{}
	}
	if o, there := d.waiting[op.Ref]; there {
		o.anew = true
	} else {
		d.waiting[op.Ref] = &Delivery{op: *op}
	}
}

// Len returns how many outcomes are queued.
func (d *Deliveries) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

// Asker returns the asker for a claim. If inDoubt is set, an earlier claim with the asker failed and may have landed. The
// caller then passes the asker to AddInDoubt, even after a success. So the claims of an outage have one asker.
func (d *Deliveries) Asker() (asker int64, inDoubt bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.again == 0 {
		return d.NextAsker(), false
	}
	asker, d.again = d.again, 0
	d.inDoubt = slices.DeleteFunc(d.inDoubt, func(a int64) bool { return a == asker }) // what is resolved now would lack this claim
	return asker, true
}

// AddInDoubt takes the asker for a claim that failed and may have landed all the same. If again is set, the next claim
// may have the asker too: no cancel names the asker.
func (d *Deliveries) AddInDoubt(asker int64, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inDoubt = append(d.inDoubt, asker)
	if again {
		d.again = asker
	}
}

// InDoubt returns the askers that AddInDoubt took.
func (d *Deliveries) InDoubt() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.inDoubt)
}

// ResolveInDoubt drops the askers for claims whose outcomes are all known now.
func (d *Deliveries) ResolveInDoubt(askers []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inDoubt = slices.DeleteFunc(d.inDoubt, func(a int64) bool { return slices.Contains(askers, a) })
	if slices.Contains(askers, d.again) {
		d.again = 0
	}
}

// Take returns the due deliveries, and the caller calls Make for each.
func (d *Deliveries) Take() (due []*Delivery) {
	now := d.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.waiting {
		if !o.busy && !o.due.After(now) {
			o.busy = true
			due = append(due, o)
		}
	}
	return due
}

// Next returns when the next delivery is due, if there is any.
func (d *Deliveries) Next() (due time.Time, any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.waiting {
		if !o.busy && (!any || o.due.Before(due)) {
			due, any = o.due, true
		}
	}
	return due, any
}

// done ends a delivery that was made. It reports whether there is another one of the operation.
func (d *Deliveries) done(o *Delivery) (again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.anew {
		o.anew, o.busy, o.due, o.delays = false, false, time.Time{}, nil
		o.waited = true // the journal says what of it was delivered: see stillWaits
		return true
	}
	delete(d.waiting, o.op.Ref)
	return false
}

// longestDelay is a failed delivery's longest wait.
const longestDelay = 10 * time.Minute

// later puts a failed delivery back into the queue.
func (d *Deliveries) later(o *Delivery) {
	now := d.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.delays == nil {
		o.delays = retry.NewDelays(backoff.Policy{Max: longestDelay})
	}
	o.due, o.busy, o.waited = now.Add(o.delays.Next()), false, true
}

// Make gives an outcome to the flow, if the flow was given up before the outcome came, and to the hooks. Make reports
// whether a hook gets the outcome. A failure, a panic included, puts it back into the queue.
func (d *Deliveries) Make(ctx context.Context, o *Delivery) (notifies bool, err error) {
	returned := false
	defer func() {
		switch {
		case !returned: // a hook has ended its goroutine
			d.later(o)
		case err == nil && d.done(o):
			d.Wake()
		}
	}()
	notifies, err = d.handOver(ctx, o)
	returned = true
	return notifies, err
}

func (d *Deliveries) handOver(ctx context.Context, o *Delivery) (notifies bool, err error) {
	if o.waited && !d.stillWaits(ctx, o) {
		return false, nil
	}
	notifies = d.hasSubscriber(&o.op)
	if !o.opened {
		if err = d.reopenFlowOf(ctx, &o.op); err != nil {
			d.later(o)
			return false, err
		}
		o.opened = true
	}
	if !notifies {
		if err = d.note(delivered(&o.op)); err != nil {
			d.later(o)
		}
		return false, err
	}
	if d.leaveToFlow(o) {
		return false, errFlowsTurn
	}
	hook := "Reconcile.OnUnknown"
	if !o.notified && d.needsPerson(&o.op) {
		err = d.call(ctx, hook, &o.op, func() error { return d.OnUnknown(ctx, &o.op) })
	}
	o.notified = err == nil
	switch {
	case err != nil:
	case d.HandleTx != nil:
		hook, err = "Outcomes.HandleTx", d.settleInTx(ctx, &o.op)
	case d.Handle != nil:
		hook = "Outcomes.Handle"
		err = d.call(ctx, hook, &o.op, func() error { return d.Handle(ctx, &o.op) })
	}
	if err != nil {
		d.later(o)
		d.Note(ctx, slog.LevelError, core.LogSettleFailed, hook+" failed; it is called again later", &o.op, "error", secret.Text(err.Error()))
	} else if d.HandleTx == nil {
		_ = d.note(delivered(&o.op))
	}
	d.Settled(ctx, &o.op, err)
	return true, err
}

// settleInTx gives an outcome to Outcomes.HandleTx, in the transaction that notes the delivery. The hook does not get
// an outcome that was delivered meanwhile, or is not the operation's any more.
func (d *Deliveries) settleInTx(ctx context.Context, op *journal.Operation) error {
	if _, err := d.Backlog.CatchUp(ctx, op.Ref); err != nil {
		return fmt.Errorf("the outcome is not recorded yet: %w", err)
	}
	ev := delivered(op)
	ev.At, ev.Session = d.Now(), op.Holder
	_, err := d.Journal.(machine.Outbox).DeliverTx(ctx, ev, func(ctx context.Context, tx journal.Tx) error {
		return d.call(ctx, "Outcomes.HandleTx", op, func() error { return d.HandleTx(seam.InTransaction(ctx), tx, op) })
	})
	return err
}

// call calls a hook. A panic in the hook is an error.
func (d *Deliveries) call(ctx context.Context, name string, op *journal.Operation, hook func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.Say(ctx, slog.LevelError, core.LogHookPanicked, name+" panicked", "operation", d.Printed(op), "stack", string(debug.Stack()))
			err = fmt.Errorf("%s panicked: %v", name, p)
		}
	}()
	return hook()
}

// stillWaits reads again an outcome that has waited since a hook failed. It may have been resolved, completed or
// delivered meanwhile.
func (d *Deliveries) stillWaits(ctx context.Context, o *Delivery) bool {
	if _, err := d.Backlog.CatchUp(ctx, o.op.Ref); err != nil {
		return true // the journal does not have it yet
	}
	op, err := d.Journal.Get(ctx, o.op.Ref)
	if err != nil {
		return !errors.Is(err, journal.ErrNotFound)
	}
	if op.Generation != o.op.Generation || op.State != o.op.State || op.Attention != o.op.Attention {
		o.notified, o.opened = false, false
	}
	o.op = op
	return !op.Delivered && op.State != journal.StatePending && op.State != journal.StateInFlight
}
