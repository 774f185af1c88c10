package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// flowsTurn is how long an outcome waits for the operation's flow. If a step asks for the operation meanwhile, it gets
// the outcome as a response, and no hook does.
const flowsTurn = 30 * time.Second

var errFlowsTurn = errors.New("it is left to its flow for now")

// leaveToFlow leaves an outcome to the operation's flow, once, and reports whether the flow gets the outcome.
func (d *Deliveries) leaveToFlow(o *Delivery) bool {
	if o.left || !seam.IsOfFlow(o.op.Parent) || !o.op.State.Settled() || o.op.Attention != "" || d.Heard || d.Steps {
		return false
	}
	now := d.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	o.due, o.busy, o.waited, o.left = now.Add(flowsTurn), false, true, true
	return true
}

// EndFlowsTurn makes the outcomes due that were left to their flows.
func (d *Deliveries) EndFlowsTurn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.waiting {
		if o.left && o.delays == nil {
			o.due = time.Time{}
		}
	}
}

// isForward reports whether an operation's flow runs, and does not undo its steps. If such a flow is undone later, it undoes
// the operation too.
func (d *Deliveries) isForward(ctx context.Context, op *journal.Operation) bool {
	store, ok := d.Journal.(machine.Flows)
	if !ok {
		return false
	}
	for f, err := range core.FlowsOf(ctx, store, op.Ref, op.Flow, journal.FlowStateRunning) {
		if err == nil && seam.ParentOf(&f) == op.Parent {
			return f.State == journal.FlowStateRunning && !f.Undoing
		}
	}
	return false
}

// opensItsFlow reports whether an outcome that reached no caller may have come after the flow was given up. Such an
// operation had no effect by a person's word or by a look-up, or was found to have had one. The outcome is delivered
// only once the flow knows, whichever process informs the flow.
func opensItsFlow(op *journal.Operation) bool {
	a := op.Answer
	return seam.IsOfFlow(op.Parent) && !seam.IsUndo(op) && op.State == journal.StateCompleted && a != nil && !a.Refused &&
		(a.Found || a.ByHand || op.Resolved != nil || a.Generation < op.Generation)
}

var errBeingUndone = errors.New("its flow is being undone just now, and may have passed it over")

// reopenFlowOf makes a flow that was given up undo an operation in the flow that took effect after all. A flow that has
// forgotten its steps, or ended otherwise, stays unchanged, and Outcomes.Handle gets the operation. After an error the
// caller tries again.
func (d *Deliveries) reopenFlowOf(ctx context.Context, op *journal.Operation) error {
	store, ok := d.Journal.(machine.Flows)
	if !ok || !opensItsFlow(op) {
		return nil
	}
	for f, err := range core.FlowsOf(ctx, store, op.Ref, op.Flow, journal.FlowStateGivenUp, journal.FlowStateRunning) {
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return nil
		case err != nil:
			d.Say(ctx, slog.LevelError, core.LogNotWoken, "a flow could not be reopened after a late effect of one of its operations; it is tried again",
				"operation", op.ID, "error", err)
			return err
		case seam.ParentOf(&f) != op.Parent:
		case f.State == journal.FlowStateRunning && f.Undoing:
			return errBeingUndone
		case f.State == journal.FlowStateGivenUp && !f.Tombstone:
			return d.reopen(ctx, store, op, &f)
		}
	}
	return nil
}

func (d *Deliveries) reopen(ctx context.Context, store machine.Flows, op *journal.Operation, f *journal.Flow) error {
	ending, cancel := grace.After(ctx)
	defer cancel()
	res, err := store.ApplyFlow(ending, machine.FlowEvent{Kind: machine.FlowEventRetry, Ref: f.Ref, At: d.Now(), Found: true})
	switch {
	case err != nil:
		d.Say(ctx, slog.LevelError, core.LogNotWoken, "a flow could not be reopened after a late effect of one of its operations; it is tried again",
			"operation", op.ID, "flow", f.ID, "error", err)
		return err
	case res.Decision != machine.Recorded:
		return nil // another process was faster
	}
	d.Say(ctx, slog.LevelWarn, core.LogReopened, "a flow that was given up is undone once more, because one of its operations took effect after all",
		"operation", op.ID, "flow", f.ID)
	d.Flows.Wake()
	return nil
}
