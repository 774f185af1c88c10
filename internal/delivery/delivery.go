package delivery

import (
	"context"
	"log/slog"
	"sync"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Hooks take outcomes. Package onceward documents them. A nil hook is not called.
type Hooks struct {
	Handle    func(context.Context, *journal.Operation) error
	HandleTx  func(context.Context, journal.Tx, *journal.Operation) error
	OnUnknown func(context.Context, *journal.Operation) error

	Heard bool // Handle gets what its caller has too
	Steps bool // HandleTx gets the steps of flows too

	Printed func(*journal.Operation) string // what logs call an operation whose hook has panicked
}

// Settles reports whether a hook takes operations' outcomes.
func (h *Hooks) Settles() bool { return h.Handle != nil || h.HandleTx != nil }

// Tells reports whether any hook gets operations.
func (h *Hooks) Tells() bool { return h.Settles() || h.OnUnknown != nil }

// Deliveries are one client's operation outcomes on their way to their recipients. They may be used
// concurrently.
type Deliveries struct {
	*core.Core
	Hooks
	finder *reconcile.Finder

	mu      sync.Mutex
	waiting map[journal.Ref]*Delivery
	inDoubt []int64 // the askers for claims that failed and may have landed all the same, and then got outcomes
	again   int64   // the one of them that the next claim has too; 0 means none
}

// New returns a client's Deliveries.
func New(c *core.Core, f *reconcile.Finder, h Hooks) *Deliveries {
	return &Deliveries{Core: c, finder: f, Hooks: h}
}

// OnClose returns a function that notes the delivery. Call the function once a caller has read the response with the
// outcome. It returns nil if no delivery is to be noted.
func (d *Deliveries) OnClose(op *journal.Operation) func() {
	switch {
	case !d.Settles() || op.Delivered || !op.State.Settled() || op.Attention != "": // or it is queued
		return nil
	case d.settlesAlso(op), op.Withdrawn != nil && !seam.IsOfFlow(op.Parent): // the person who does not want it is not its caller
		d.Add(op)
		d.Wake()
		return nil
	}
	ev, opens := delivered(op), opensItsFlow(op)
	var its journal.Operation
	if opens {
		its = *op
	}
	return func() {
		if !opens || d.isForward(context.Background(), &its) {
			_ = d.note(ev)
		}
	}
}

// OnReturn takes an outcome whose caller gets an error. The error says what became of an unknown or cancelled operation. Of a
// completed one the caller lacks the response, and so it has no outcome.
func (d *Deliveries) OnReturn(op *journal.Operation) {
	switch {
	case op.State == journal.StateCompleted:
		d.OnLost(op)
	case !d.Settles() || op.Delivered || op.State != journal.StateUnknown && op.State != journal.StateCancelled:
	case d.needsPerson(op), d.settlesAlso(op) && d.finder.StillLooks(op):
	case d.settlesAlso(op):
		d.Add(op)
		d.Wake()
	default:
		_ = d.note(delivered(op))
	}
}

// OnLost takes an outcome that the process recorded and no caller gets. Outcomes without a session are left to the next
// claim, and another session's outcomes to its process.
func (d *Deliveries) OnLost(op *journal.Operation) {
	if d.Tells() && !op.Delivered && op.State > journal.StateInFlight && !d.finder.StillLooks(op) && d.Session.Holds(op.Holder) {
		d.Add(op)
		d.Wake()
	}
}

// Offer takes an outcome that no caller is known to have, unless another program's hook should get the outcome. It
// reports whether the outcome waits in the queue now.
func (d *Deliveries) Offer(ctx context.Context, op *journal.Operation) (queued bool) {
	switch {
	case op.Delivered, d.Hook.Elsewhere(ctx):
		return false
	case !opensItsFlow(op) && !d.hasSubscriber(op) && d.note(delivered(op)) == nil: // no hook gets it
		return false
	}
	d.Add(op)
	return true
}

// needsPerson reports whether OnUnknown gets an operation, whichever other hooks get it.
func (d *Deliveries) needsPerson(op *journal.Operation) bool {
	return op.Attention != "" && d.OnUnknown != nil
}

// settlesAlso reports whether Handle, or HandleTx, also gets an outcome that the caller has.
func (d *Deliveries) settlesAlso(op *journal.Operation) bool {
	if d.HandleTx != nil {
		return d.Steps || !seam.IsOfFlow(op.Parent)
	}
	return d.Heard && op.Naming == journal.Named
}

// hasSubscriber reports whether a hook gets an outcome that reached no caller.
func (d *Deliveries) hasSubscriber(op *journal.Operation) bool {
	return d.Settles() || op.Attention != "" && d.Tells()
}

// delivered returns the event that notes a delivery.
func delivered(op *journal.Operation) machine.Event {
	return machine.Event{Kind: machine.EventDeliver, Ref: op.Ref, Handle: op.Handle, Outcome: op.State, Generation: op.Generation, Attention: op.Attention}
}

// note records a delivery with the journal's next commit. If the record is lost, the next process offers the outcome again,
// unless the caller of note does.
func (d *Deliveries) note(ev machine.Event) error {
	ev.At = d.Now()
	if d.Backlog.Follow(ev) {
		return nil // the delivery for an outcome that is not recorded can't be noted
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace.Period)
	defer cancel()
	_, err := d.Journal.Apply(ctx, ev)
	if err != nil {
		d.Say(ctx, slog.LevelWarn, core.LogJournalFailed, "a delivery could not be recorded; the outcome will be delivered again", "journal_event", ev.Kind.String(), "error", err)
	}
	return err
}
