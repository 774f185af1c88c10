package machine

import (
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
)

// maxFlowHistory limits the failures that a flow keeps.
const maxFlowHistory = 10

// NextFlow is the state machine for flows: it returns f after ev, and what the caller is to do. It is pure and total.
// live reports whether the session in f.Holder is alive. The zero Flow stands for one that the journal does not have.
// With an error, or the decisions Ignored, Stale, Wait, Later, Replay, Misuse, Stop and Gone, the flow is unchanged.
// The store appends ev.Steps if the decision is Recorded.
//
// NextFlow shares slices of f and ev with its result and writes to none.
func NextFlow(f journal.Flow, live bool, ev FlowEvent) (journal.Flow, Decision, error) {
	ev.At, ev.Due, ev.Last = stamp(ev.At), stamp(ev.Due), stamp(ev.Last)
	next, decision, err := stepFlow(f, live, ev)
	if err != nil {
		return f, Ignored, err
	}
	if decision == Execute || decision == Recorded && ev.Kind != FlowEventRecord {
		next.UpdatedAt = ev.At
	}
	return next, decision, nil
}

func stepFlow(f journal.Flow, live bool, ev FlowEvent) (journal.Flow, Decision, error) {
	switch ev.Kind {
	case FlowEventBegin:
		return beginFlow(f, live, ev)
	case FlowEventClaim:
		return claimFlow(f, live, ev)
	case FlowEventRecord, FlowEventPark, FlowEventFail, FlowEventFinish, FlowEventUndo:
		return underClaim(f, ev)
	case FlowEventGiveUp:
		return giveUpFlow(f, live, ev)
	case FlowEventRetry:
		return retryFlow(f, ev)
	case FlowEventReap:
		return reapFlow(f, ev)
	case FlowEventClock:
		return flowCameBack(f, ev)
	case FlowEventEnqueue:
		return enqueueFlow(f, ev)
	}
	return f, Ignored, invalidFlow(f, ev, "no such event")
}

func beginFlow(f journal.Flow, live bool, ev FlowEvent) (journal.Flow, Decision, error) {
	if ev.Session == "" || ev.InputDigest == "" {
		return f, Ignored, invalidFlow(f, ev, "needs a session and the input's digest")
	}
	switch {
	case f.State == journal.FlowStateAbsent:
		return holdFlow(newFlow(f, ev), ev), Execute, nil
	case f.Tombstone:
		return f, Gone, nil
	case isAnotherFlow(f, ev):
		return f, Misuse, nil
	}
	switch f.State {
	case journal.FlowStateFinished:
		return f, Replay, nil
	case journal.FlowStateGivenUp, journal.FlowStateSetAside:
		return f, Stop, nil
	case journal.FlowStateRunning:
		if live {
			return f, Wait, nil
		}
	case journal.FlowStateWaiting:
		if f.DueAt.After(ev.At) && !ev.Sooner {
			return f, Later, nil
		}
	}
	if ev.Functions != nil && f.Function.Name != "" && !slices.Contains(ev.Functions, f.Function) {
		return f, Ignored, nil // it stays overdue for a process that has its function
	}
	return holdFlow(f, ev), Execute, nil
}

// enqueueFlow leaves a new flow to the next claim.
func enqueueFlow(f journal.Flow, ev FlowEvent) (journal.Flow, Decision, error) {
	switch {
	case ev.InputDigest == "" || ev.Function.Name == "":
		return f, Ignored, invalidFlow(f, ev, "needs the input's digest, and a function that a claim can name")
	case f.State == journal.FlowStateAbsent:
		return parkFlow(newFlow(f, ev), ev), Recorded, nil
	case f.Tombstone:
		return f, Gone, nil
	case isAnotherFlow(f, ev):
		return f, Misuse, nil
	}
	return f, Ignored, nil
}

func newFlow(f journal.Flow, ev FlowEvent) journal.Flow {
	f = journal.Flow{Handle: f.Handle, Ref: ev.Ref, Function: ev.Function, Key: ev.Key, Input: ev.Input, InputDigest: ev.InputDigest,
		InboundEndpoint: ev.InboundEndpoint, CreatedAt: ev.At}
	if len(ev.Trace) <= MaxTrace {
		f.Trace = ev.Trace
	}
	return f
}

// isAnotherFlow reports whether a caller means another flow by the same name.
func isAnotherFlow(f journal.Flow, ev FlowEvent) bool {
	return f.InputDigest != ev.InputDigest || f.Function.Name != ev.Function.Name || contradict(f.InboundEndpoint, ev.InboundEndpoint)
}

// holdFlow gives the caller the next claim.
func holdFlow(f journal.Flow, ev FlowEvent) journal.Flow {
	f.State, f.Holder, f.Claim = journal.FlowStateRunning, ev.Session, f.Claim+1
	f.DueAt, f.Cause, f.WaitsFor = time.Time{}, "", journal.Ref{}
	return f
}

func claimFlow(f journal.Flow, live bool, ev FlowEvent) (journal.Flow, Decision, error) {
	if ev.Session == "" {
		return f, Ignored, invalidFlow(f, ev, "needs a session")
	}
	switch {
	case f.State == journal.FlowStateRunning && live:
		return f, Wait, nil
	case f.State == journal.FlowStateWaiting && f.DueAt.After(ev.At):
		return f, Later, nil
	case f.State != journal.FlowStateRunning && f.State != journal.FlowStateWaiting, !slices.Contains(ev.Functions, f.Function):
		return f, Ignored, nil
	}
	return holdFlow(f, ev), Execute, nil
}

// underClaim applies an event from a claim's holder.
func underClaim(f journal.Flow, ev FlowEvent) (journal.Flow, Decision, error) {
	switch {
	case f.State == journal.FlowStateAbsent:
		return f, Ignored, invalidFlow(f, ev, "there is none")
	case f.State != journal.FlowStateRunning || f.Claim != ev.Claim:
		return f, Stale, nil
	}
	switch ev.Kind {
	case FlowEventRecord:
		return f, Recorded, nil
	case FlowEventPark:
		f = parkFlow(f, ev)
		switch f.WaitsFor = ev.WaitsFor; {
		case f.WaitsFor != (journal.Ref{}):
			f.ParkedSince = time.Time{}
		case f.ParkedSince.IsZero():
			f.ParkedSince = ev.At
		}
	case FlowEventFail:
		f.Failures++
		f.History = append(slices.Clip(f.History[max(0, len(f.History)+1-maxFlowHistory):]), journal.FlowFailure{At: ev.At, Error: ev.Cause})
		f = parkFlow(f, ev)
		if f.Failures >= ev.Limit {
			f.State, f.DueAt, f.ParkedSince = journal.FlowStateSetAside, time.Time{}, time.Time{}
		}
	case FlowEventFinish:
		if f.Undoing {
			return f, Ignored, invalidFlow(f, ev, "it is being given up")
		}
		f = endFlow(f, journal.FlowStateFinished, ev)
	case FlowEventUndo:
		if !f.Undoing {
			return f, Ignored, invalidFlow(f, ev, "it is not being given up")
		}
		f = endFlow(f, journal.FlowStateGivenUp, ev)
	}
	return f, Recorded, nil
}

func parkFlow(f journal.Flow, ev FlowEvent) journal.Flow {
	f.State, f.Holder, f.Cause = journal.FlowStateWaiting, "", ev.Cause
	f.DueAt = later(ev.Due, ev.At)
	return f
}

// atOnce makes a flow due at once, by the clock of every process: the caller's may be ahead.
func atOnce(f journal.Flow, ev FlowEvent) journal.Flow {
	due := earlier(ev.At, f.UpdatedAt)
	if f.State == journal.FlowStateWaiting {
		due = earlier(due, f.DueAt)
	}
	f = parkFlow(f, ev)
	f.DueAt, f.ParkedSince = due, time.Time{}
	return f
}

func endFlow(f journal.Flow, state journal.FlowState, ev FlowEvent) journal.Flow {
	f.State, f.Holder, f.EndedAt, f.ParkedSince = state, "", ev.At, time.Time{}
	return f
}

// giveUpFlow leaves a flow to be undone by its own function, or by the next claim.
func giveUpFlow(f journal.Flow, live bool, ev FlowEvent) (journal.Flow, Decision, error) {
	switch f.State {
	case journal.FlowStateAbsent:
		return f, Ignored, invalidFlow(f, ev, "there is none")
	case journal.FlowStateFinished:
		return f, Ignored, invalidFlow(f, ev, "it came to its end, and is not undone")
	case journal.FlowStateGivenUp:
		return f, Ignored, nil
	case journal.FlowStateRunning:
		if ev.Claim != 0 && ev.Claim == f.Claim {
			f.Undoing, f.GivenUpFor = true, ev.Cause
			return f, Recorded, nil
		}
		if live {
			return f, Wait, nil
		}
	}
	if ev.Claim != 0 {
		return f, Stale, nil
	}
	if !f.Undoing {
		f.Undoing, f.GivenUpFor = true, ev.Cause
	}
	f.Failures = 0
	f = atOnce(f, ev)
	f.WaitsFor = journal.Ref{}
	return f, Recorded, nil
}

func retryFlow(f journal.Flow, ev FlowEvent) (journal.Flow, Decision, error) {
	switch f.State {
	case journal.FlowStateAbsent:
		return f, Ignored, invalidFlow(f, ev, "there is none")
	case journal.FlowStateWaiting, journal.FlowStateSetAside:
		f.Failures, ev.Cause = 0, f.Cause
		return atOnce(f, ev), Recorded, nil
	case journal.FlowStateGivenUp:
		if !ev.Found || f.Tombstone {
			return f, Ignored, nil // its operation is undone, or its steps are forgotten
		}
		f.Failures, f.EndedAt, f.WaitsFor = 0, time.Time{}, journal.Ref{}
		ev.Cause = "an operation of it took effect after all"
		return atOnce(f, ev), Recorded, nil
	}
	return f, Ignored, nil
}

// reapFlow keeps the name, so that the flow never runs again. Nothing is left of the input, not even a digest.
func reapFlow(f journal.Flow, ev FlowEvent) (journal.Flow, Decision, error) {
	if !f.State.Ended() || f.Tombstone || ev.At.Sub(f.EndedAt) < ev.Keep {
		return f, Ignored, nil
	}
	f.Tombstone = true
	f.Input, f.Steps, f.History = nil, nil, nil
	f.InputDigest, f.GivenUpFor, f.Cause = "", "", ""
	return f, Recorded, nil
}

// flowCameBack corrects a waiting flow parked by a clock that ran ahead, as cameBack does for an operation.
func flowCameBack(f journal.Flow, ev FlowEvent) (journal.Flow, Decision, error) {
	if f.State != journal.FlowStateWaiting || !wasAhead(f.UpdatedAt, ev.At, ev.Last) {
		return f, Ignored, nil
	}
	f.DueAt = closer(f.DueAt, f.UpdatedAt, ev.At)
	f.CreatedAt, f.ParkedSince = earlier(f.CreatedAt, ev.At), earlier(f.ParkedSince, ev.At)
	return f, Recorded, nil
}

func invalidFlow(f journal.Flow, ev FlowEvent, reason string) error {
	return &FlowEventError{Kind: ev.Kind, State: f.State, Reason: reason}
}
