package delivery

import (
	"context"
	"errors"
	"log/slog"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// afterItsFlow reports whether an operation was found only after its flow had ended, or was given up. The flow does
// not ask for it any more. A flow that ends after the operation was found has seen the outcome, however soon it ends.
func (d *Deliveries) afterItsFlow(ctx context.Context, op *journal.Operation) bool {
	store, ok := d.Journal.(journal.Flows)
	if !ok || op.Answer == nil || !op.Answer.Found {
		return false
	}
	for f, err := range core.FlowsOf(ctx, store, op.Ref, op.Flow) {
		if err == nil && seam.ParentOf(&f) == op.Parent {
			return f.Undoing || f.State.Ended() && op.SettledAt.After(f.EndedAt)
		}
	}
	return true
}

// opensItsFlow reports whether an outcome that reached no caller may have come after its flow was given up. Such an operation
// had no effect by a person's word or by a look-up, or was found to have had one. It is delivered only once the flow knows,
// whichever process that falls to.
func opensItsFlow(op *journal.Operation) bool {
	a := op.Answer
	return seam.IsOfFlow(op.Parent) && !seam.IsUndo(op) && op.State == journal.StateCompleted && a != nil && !a.Refused &&
		(a.Found || a.ByHand || op.Resolved != nil || a.Generation < op.Generation)
}

var errBeingUndone = errors.New("its flow is being undone just now, and may have passed it over")

// reopenFlowOf makes a flow that was given up undo an operation of its own that took effect after all. A flow whose
// steps are forgotten, or that ended otherwise, stays as it is, and OnSettled gets the operation. After an error the
// caller tries again.
func (d *Deliveries) reopenFlowOf(ctx context.Context, op *journal.Operation) error {
	store, ok := d.Journal.(journal.Flows)
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

func (d *Deliveries) reopen(ctx context.Context, store journal.Flows, op *journal.Operation, f *journal.Flow) error {
	ending, cancel := grace.After(ctx)
	defer cancel()
	res, err := store.ApplyFlow(ending, journal.FlowEvent{Kind: journal.FlowEventRetry, Ref: f.Ref, At: d.Now(), Found: true})
	switch {
	case err != nil:
		d.Say(ctx, slog.LevelError, core.LogNotWoken, "a flow could not be reopened after a late effect of one of its operations; it is tried again",
			"operation", op.ID, "flow", f.ID, "error", err)
		return err
	case res.Decision != journal.Recorded:
		return nil // another process was faster
	}
	d.Say(ctx, slog.LevelWarn, core.LogReopened, "a flow that was given up is undone once more, because one of its operations took effect after all",
		"operation", op.ID, "flow", f.ID)
	d.Flows.Wake()
	return nil
}
