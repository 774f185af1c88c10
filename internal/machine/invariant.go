package machine

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
)

// Violations returns the invariants of the state machine that op breaks. op has the form that a store keeps between
// two events, and last is the latest time seen by the store. No result of Next breaks an invariant, from nothing and
// by any events. A violation means that the store or the medium changed or lost something. Request and Answer need no
// bodies.
func Violations(op journal.Operation, last time.Time) []string {
	var v violations
	v.must(op.State > journal.StateAbsent && op.State <= journal.StateCancelled, "its state is one of the states")
	v.must(op.Naming <= journal.Generated, "its naming is one of the namings")
	v.must(op.Terms.Remembers.Valid(), "its terms are readable")
	v.must(op.Claim >= 1 || op.Claim == 0 && op.Enqueued, "it was claimed when it was begun, unless it was enqueued")
	v.must(op.Claim >= 1 || op.State != journal.StateInFlight && op.Attempts == 0 && op.Found == (journal.Found{}), "an operation that was never claimed was not sent")
	v.must(!op.Enqueued || op.Naming == journal.Named, "an enqueued operation has a name")
	v.must(op.Generation >= 0 && op.Attempts >= 0 && op.SecondEffects >= 0, "nothing is counted below zero")
	v.must(op.SecondEffects == 0 || op.Generation > 0 || len(op.Evidence) > 0 || op.Object != "", "a second effect is of an earlier generation, or another object")
	v.must(!op.CreatedAt.IsZero() && !op.UpdatedAt.IsZero(), "it says when it was begun and changed")
	// The other times are the caller's, whose clock may not have been confirmed. A reset closes no window by no more than the margin.
	v.must(op.State == journal.StateCompleted || op.WindowClosed || op.Terms.Window() == 0 || !sentSince(&op).After(last.Add(leapMargin(op.Terms))), "it was not first sent after the journal's latest time")
	v.must(op.SentSince.IsZero() || op.SentSince.Before(op.FirstSentAt), "it was not first sent before it may have been")
	v.must(!op.WindowClosed || !op.FirstSentAt.IsZero(), "a window that was closed had begun")
	v.must(!op.Found.MayHaveRun || op.MayHaveRun || op.ByHand, "only an operator's decision clears that a claim found it to have run")
	v.must(op.Alias == (journal.Ref{}) || op.Alias != op.Ref, "its second name is another")
	v.must(!op.ByHand || op.State.Settled(), "an operation cancelled by hand is settled")
	v.must((op.Answer != nil) == (op.State == journal.StateCompleted && !op.Tombstone), "it has an answer if and only if it is completed and not reaped")
	v.must(!op.Tombstone || op.State == journal.StateCompleted && op.Delivered && op.Naming == journal.Named && op.Request.Method == "",
		"a tombstone is of a completed, delivered, named operation, and has no request")
	v.must(!op.Tombstone || op.Fingerprint == "", "a tombstone has no digest of a request")

	v.must(op.Looks >= 0 && len(op.Evidence) <= maxEvidence && len(op.Rounds) <= maxRounds, "its evidence is bounded")
	v.must(op.LookAt.IsZero() || op.State == journal.StateUnknown && op.Attention == "", "an operation with a next look-up is unknown, and needs no attention")
	v.must(!op.Disputed || op.State == journal.StateUnknown && op.Attention != "", "a disputed operation is unknown, and needs attention")
	v.must(op.LeftFor >= 0 && (op.LeftFor == 0 || op.State == journal.StateUnknown), "only an unknown operation is left to other processes")
	v.must(op.Attention == "" || op.State > journal.StateInFlight || op.State == journal.StatePending && !op.ParkedSince.IsZero(),
		"an operation that needs attention has an outcome, or was parked")
	v.must(op.ParkedSince.IsZero() || op.State <= journal.StateInFlight || op.State > journal.StateCancelled, "an operation with an outcome is not parked")
	v.must(op.Object == "" || op.State == journal.StateCompleted, "only a completed operation has an object that proves it")
	v.must(op.Withdrawn == nil || op.State > journal.StateInFlight, "a withdrawn operation is neither sent nor due")
	for _, e := range op.Evidence {
		v.must(e.Generation >= 0 && e.Generation <= op.Generation && e.Finding > 0 && e.Finding <= journal.FindingReversed && e.Basis <= journal.BasisKey,
			"evidence is of one of its generations")
		v.must(e.Answer == nil || op.State == journal.StateInFlight, "an answer is kept with evidence only while a claim is out")
	}
	for i, r := range op.Rounds {
		v.must(r.Generation >= 0 && r.Generation < op.Generation && (i == 0 || r.Generation > op.Rounds[i-1].Generation), "its rounds are earlier generations")
	}

	switch outcome := op.State > journal.StateInFlight; {
	case outcome:
		v.must(!op.SettledAt.IsZero(), "an outcome says when it came")
		v.must((op.DueAt.IsZero() || op.State == journal.StateUnknown) && op.WakeAt.IsZero(), "an outcome is not due")
		v.must(!op.Delivered || op.Holder == "" || !op.LookAt.IsZero(), "a delivered outcome has no holder, unless a session looks for it")
	default:
		v.must(op.SettledAt.IsZero() && !op.Delivered, "an operation without an outcome is neither settled nor delivered")
	}
	switch op.State {
	case journal.StatePending:
		v.must(op.Holder == "", "a pending operation has no holder")
		v.must(!op.DueAt.IsZero() && !op.WakeAt.IsZero(), "a pending operation is due, and woken, at some time")
		v.must(!op.MayHaveRun || op.Terms.Window() > 0 && !op.FirstSentAt.IsZero(), "a pending operation that may have run has a window that has begun")
	case journal.StateInFlight:
		v.must(op.Holder != "", "an operation in flight is held by a session")
		v.must(op.MayHaveRun && !op.FirstSentAt.IsZero(), "an operation in flight counts as sent")
		v.must(op.DueAt.IsZero() && op.WakeAt.IsZero(), "an operation in flight is not due")
	case journal.StateCompleted:
		v.must(op.MayHaveRun, "a completed operation has run")
		if a := op.Answer; a != nil {
			v.must(a.Generation >= 0 && a.Generation <= op.Generation, "an answer is of one of its generations")
			v.must(!a.Refused || a.ByHand || !op.Found.MayHaveRun || remembersRefusal(&op, a),
				"a refusal is an answer only if nothing else may have run, or the provider remembers refusals")
		}
	case journal.StateUnknown:
		v.must(op.MayHaveRun || op.OnHold() || len(op.Evidence) > 0 || op.SecondEffects > 0, "an unknown operation may have run, is on hold, or has evidence")
	case journal.StateCancelled:
		v.must(!op.MayHaveRun, "a cancelled operation has not run")
	}
	return v
}

// FlowViolations returns the invariants of the flows' state machine that f breaks, steps included. f needs neither
// input nor results.
func FlowViolations(f journal.Flow) []string {
	var v violations
	v.must(f.State > journal.FlowStateAbsent && f.State <= journal.FlowStateSetAside, "its state is one of the states")
	v.must(f.Claim >= 1 || f.Claim == 0 && f.State == journal.FlowStateWaiting && len(f.Steps) == 0, "a flow that was never claimed waits, and has no step")
	v.must(f.InputDigest != "" || f.Tombstone, "it has its input's digest")
	v.must(!f.CreatedAt.IsZero() && !f.UpdatedAt.IsZero(), "it says when it was begun and changed")
	v.must(f.Failures >= 0 && len(f.History) <= maxFlowHistory, "its failures are counted")
	v.must((f.State == journal.FlowStateRunning) == (f.Holder != ""), "it is held by a session if and only if it runs")
	v.must((f.State == journal.FlowStateWaiting) == !f.DueAt.IsZero(), "it is due at some time if and only if it waits")
	v.must(f.ParkedSince.IsZero() || f.State == journal.FlowStateWaiting || f.State == journal.FlowStateRunning, "a flow that ended or is set aside is not parked")
	v.must(f.State.Ended() == !f.EndedAt.IsZero(), "it says when it ended if and only if it did")
	v.must(f.State != journal.FlowStateFinished || !f.Undoing, "an undone flow is not finished")
	v.must(f.State != journal.FlowStateGivenUp || f.Undoing, "a flow that was given up was undone")
	v.must(!f.Tombstone || f.State.Ended() && len(f.Steps) == 0, "a tombstone is of an ended flow, and has no steps")
	for i, step := range f.Steps {
		v.must(step.Kind > 0 && step.Kind <= journal.StepByHand, "step %d is of one of the kinds", step.Seq)
		v.must(step.Seq > 0 && (i == 0 || step.Seq > f.Steps[i-1].Seq), "step %d follows upon the one before it", step.Seq)
	}
	return v
}

// ReceiptViolations returns the invariants of the receipts' state machine that r breaks. No result of NextReceipt
// breaks one. The answer needs no body.
func ReceiptViolations(r journal.Receipt) []string {
	var v violations
	v.must(r.State == journal.ReceiptReserved || r.State == journal.ReceiptCompleted, "its state is one of the states")
	v.must(r.Place != "" && r.Fingerprint != "", "it says where it was received, and which request")
	v.must(r.Claim >= 1, "it was reserved or recorded")
	v.must(!r.CreatedAt.IsZero(), "it says when it was created")
	v.must(!r.ExpiresAt.Before(r.CreatedAt) && !r.RefusedUntil.Before(r.ExpiresAt), "it is created, then expires, and then is not refused any more")
	v.must((r.State == journal.ReceiptCompleted) == !r.SettledAt.IsZero(), "it says when its answer was recorded if and only if it is completed")
	v.must(r.State == journal.ReceiptCompleted || r.Answer == nil && r.Cause == "", "a reserved receipt has no answer, and was not resolved")
	return v
}

// violations are the invariants that don't hold.
type violations []string

func (v *violations) must(holds bool, format string, args ...any) {
	if !holds {
		*v = append(*v, fmt.Sprintf(format, args...))
	}
}
