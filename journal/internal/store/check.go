package store

import (
	"slices"

	"github.com/onceward/onceward/journal"
)

// CheckApply refuses an event that Apply can't take, with a *journal.EventError.
func CheckApply(ev journal.Event) error {
	if ev.At.IsZero() {
		return &journal.EventError{Kind: ev.Kind, Reason: "needs the caller's clock"}
	}
	return nil
}

// CheckClaim does so for Claim.
func CheckClaim(ev journal.Event) error {
	if ev.Kind != journal.EventClaim || ev.At.IsZero() {
		return &journal.EventError{Kind: ev.Kind, Reason: "Claim needs a claim and the caller's clock"}
	}
	return nil
}

// CheckReap does so for Reap.
func CheckReap(ev journal.Event) error {
	if ev.Kind != journal.EventReap || ev.At.IsZero() {
		return &journal.EventError{Kind: ev.Kind, Reason: "Reap needs a reap and the caller's clock"}
	}
	return nil
}

// CheckEnqueue does so for EnqueueTx.
func CheckEnqueue(ev journal.Event) error {
	if ev.Kind != journal.EventEnqueue || ev.At.IsZero() {
		return &journal.EventError{Kind: ev.Kind, Reason: "EnqueueTx needs an enqueue and the caller's clock"}
	}
	return nil
}

// CheckDeliver does so for DeliverTx.
func CheckDeliver(ev journal.Event) error {
	if ev.Kind != journal.EventDeliver || ev.At.IsZero() {
		return &journal.EventError{Kind: ev.Kind, Reason: "DeliverTx needs a delivery and the caller's clock"}
	}
	return nil
}

// CheckApplyFlow refuses an event that ApplyFlow can't take, with a *journal.FlowEventError.
func CheckApplyFlow(ev journal.FlowEvent) error {
	if ev.At.IsZero() {
		return &journal.FlowEventError{Kind: ev.Kind, Reason: "needs the caller's clock"}
	}
	return nil
}

// CheckApplyFlowTx does so for ApplyFlowTx.
func CheckApplyFlowTx(ev journal.FlowEvent) error {
	if ev.Kind != journal.FlowEventRecord && ev.Kind != journal.FlowEventEnqueue || ev.At.IsZero() {
		return &journal.FlowEventError{Kind: ev.Kind, Reason: "ApplyFlowTx needs a record or an enqueue, and the caller's clock"}
	}
	return nil
}

// CheckClaimFlows does so for ClaimFlows.
func CheckClaimFlows(ev journal.FlowEvent) error {
	if ev.Kind != journal.FlowEventClaim || ev.At.IsZero() {
		return &journal.FlowEventError{Kind: ev.Kind, Reason: "ClaimFlows needs a claim and the caller's clock"}
	}
	return nil
}

// CheckReapFlows does so for ReapFlows.
func CheckReapFlows(ev journal.FlowEvent) error {
	if ev.Kind != journal.FlowEventReap || ev.At.IsZero() {
		return &journal.FlowEventError{Kind: ev.Kind, Reason: "ReapFlows needs a reap and the caller's clock"}
	}
	return nil
}

// NeedsSession tells whether who applies an event of this kind has to be alive.
func NeedsSession(kind journal.EventKind) bool {
	return kind == journal.EventBegin || kind == journal.EventClaim
}

// TakesRequest reports whether the operation takes its request and terms from the event's intent. It does only if
// nothing may have run of the earlier request.
func TakesRequest(kind journal.EventKind, decision journal.Decision, next *journal.Operation) bool {
	switch kind {
	case journal.EventBegin:
		return decision == journal.Execute && !next.Found.MayHaveRun
	case journal.EventEnqueue:
		return decision == journal.Recorded
	}
	return false
}

// NeedsTrust reports whether an event of this kind sends, decides or forgets by the journal's records. A journal that
// may have a gap refuses such an event.
func NeedsTrust(kind journal.EventKind) bool {
	switch kind {
	case journal.EventBegin, journal.EventEnqueue, journal.EventClaim, journal.EventResolve, journal.EventReap,
		journal.EventLook, journal.EventHint, journal.EventEvidence:
		return true
	}
	return false
}

// IsNamed tells whether an operation is found by this name: its own, or its second one.
func IsNamed(op *journal.Operation, ref journal.Ref) bool {
	return op.Ref == ref || op.Alias == ref && ref != (journal.Ref{})
}

// Undelivered reports whether an outcome has not been handed over yet.
func Undelivered(op *journal.Operation) bool {
	return op.State > journal.StateInFlight && !op.Delivered
}

// Selects tells whether List yields the operation, for a limit that it does not reach.
func Selects(f *journal.Filter, op *journal.Operation) bool {
	switch {
	case f.ByWake && (op.State != journal.StatePending || op.Attention != ""),
		len(f.States) > 0 && !slices.Contains(f.States, op.State),
		f.Scope != nil && *f.Scope != op.Scope,
		f.Provider != "" && f.Provider != op.Provider,
		!f.WakeBefore.IsZero() && (op.State != journal.StatePending || !op.WakeAt.Before(f.WakeBefore)),
		!f.WakeAfter.IsZero() && (op.State != journal.StatePending || !op.WakeAt.After(f.WakeAfter)),
		f.Undelivered && !Undelivered(op),
		!f.NeedsAttention.IsZero() && op.NeedsAttention(f.NeedsAttention) == "",
		op.Handle <= f.After && f.After > 0,
		op.Handle >= f.Before && f.Before > 0:
		return false
	}
	return true
}
