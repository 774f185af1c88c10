package store

import (
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// CheckApply refuses an event that Apply can't take, with a *machine.EventError.
func CheckApply(ev machine.Event) error {
	if ev.At.IsZero() {
		return &machine.EventError{Kind: ev.Kind, Reason: "needs the caller's clock"}
	}
	return nil
}

// CheckClaim does so for Claim.
func CheckClaim(ev machine.Event) error {
	if ev.Kind != machine.EventClaim || ev.At.IsZero() {
		return &machine.EventError{Kind: ev.Kind, Reason: "Claim needs a claim and the caller's clock"}
	}
	return nil
}

// CheckReap does so for Reap.
func CheckReap(ev machine.Event) error {
	if ev.Kind != machine.EventReap || ev.At.IsZero() {
		return &machine.EventError{Kind: ev.Kind, Reason: "Reap needs a reap and the caller's clock"}
	}
	return nil
}

// CheckEnqueue does so for EnqueueTx.
func CheckEnqueue(ev machine.Event) error {
	if ev.Kind != machine.EventEnqueue || ev.At.IsZero() {
		return &machine.EventError{Kind: ev.Kind, Reason: "EnqueueTx needs an enqueue and the caller's clock"}
	}
	return nil
}

// CheckDeliver does so for DeliverTx.
func CheckDeliver(ev machine.Event) error {
	if ev.Kind != machine.EventDeliver || ev.At.IsZero() {
		return &machine.EventError{Kind: ev.Kind, Reason: "DeliverTx needs a delivery and the caller's clock"}
	}
	return nil
}

// CheckApplyFlow refuses an event that ApplyFlow can't take, with a *machine.FlowEventError.
func CheckApplyFlow(ev machine.FlowEvent) error {
	if ev.At.IsZero() {
		return &machine.FlowEventError{Kind: ev.Kind, Reason: "needs the caller's clock"}
	}
	return nil
}

// CheckApplyFlowTx does so for ApplyFlowTx.
func CheckApplyFlowTx(ev machine.FlowEvent) error {
	if ev.Kind != machine.FlowEventRecord && ev.Kind != machine.FlowEventEnqueue || ev.At.IsZero() {
		return &machine.FlowEventError{Kind: ev.Kind, Reason: "ApplyFlowTx needs a record or an enqueue, and the caller's clock"}
	}
	return nil
}

// CheckClaimFlows does so for ClaimFlows.
func CheckClaimFlows(ev machine.FlowEvent) error {
	if ev.Kind != machine.FlowEventClaim || ev.At.IsZero() {
		return &machine.FlowEventError{Kind: ev.Kind, Reason: "ClaimFlows needs a claim and the caller's clock"}
	}
	return nil
}

// CheckReapFlows does so for ReapFlows.
func CheckReapFlows(ev machine.FlowEvent) error {
	if ev.Kind != machine.FlowEventReap || ev.At.IsZero() {
		return &machine.FlowEventError{Kind: ev.Kind, Reason: "ReapFlows needs a reap and the caller's clock"}
	}
	return nil
}

// NeedsSession tells whether who applies an event of this kind has to be alive.
func NeedsSession(kind machine.EventKind) bool {
	return kind == machine.EventBegin || kind == machine.EventClaim
}

// TakesRequest reports whether the operation takes its request and terms from the event's intent. It does only if
// nothing may have run of the earlier request.
func TakesRequest(kind machine.EventKind, decision machine.Decision, next *journal.Operation) bool {
	switch kind {
	case machine.EventBegin:
		return decision == machine.Execute && !next.Found.MayHaveRun
	case machine.EventEnqueue:
		return decision == machine.Recorded
	}
	return false
}

// NeedsTrust reports whether an event of this kind sends, decides or forgets by the journal's records. A journal that
// may have a gap refuses such an event.
func NeedsTrust(kind machine.EventKind) bool {
	switch kind {
	case machine.EventBegin, machine.EventEnqueue, machine.EventClaim, machine.EventResolve, machine.EventReap,
		machine.EventLook, machine.EventHint, machine.EventEvidence:
		return true
	}
	return false
}

// IsNamed reports whether a name finds an operation, as the first name or the second.
func IsNamed(op *journal.Operation, ref journal.Ref) bool {
	return op.Ref == ref || op.Alias == ref && ref != (journal.Ref{})
}

// Undelivered reports whether an outcome has not been handed over yet.
func Undelivered(op *journal.Operation) bool {
	return op.State > journal.StateInFlight && !op.Delivered
}

// Selects reports whether List yields the operation, before any limit.
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
