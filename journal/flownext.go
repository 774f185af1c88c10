package journal

import (
	"slices"
	"time"
)

// NextFlow is the state machine of flows: what f becomes by ev, and what the asker is
// to do. It is pure and total. live says whether the session in f.Holder is alive;
// the zero Flow stands for one that the journal does not have. With an error, or the
// decisions Ignored, Stale, Wait, Later, Replay, Misuse, Stop and Gone, the flow is
// unchanged. ev.Steps are for the store to append where the decision is Recorded.
//
// NextFlow shares slices of f and ev with its result and writes to none.
func NextFlow(f Flow, live bool, ev FlowEvent) (Flow, Decision, error) {
	ev.At, ev.Due = stamp(ev.At), stamp(ev.Due)
	next, decision, err := stepFlow(f, live, ev)
	if err != nil {
		return f, Ignored, err
	}
	if decision == Execute || decision == Recorded && ev.Kind != FlowRecord {
		next.UpdatedAt = ev.At
	}
	return next, decision, nil
}

func stepFlow(f Flow, live bool, ev FlowEvent) (Flow, Decision, error) {
	switch ev.Kind {
	case FlowBegin:
		return beginFlow(f, live, ev)
	case FlowClaim:
		return claimFlow(f, live, ev)
	case FlowRecord, FlowPark, FlowFail, FlowFinish, FlowUndo:
		return underClaim(f, ev)
	case FlowGiveUp:
		return giveUpFlow(f, live, ev)
	case FlowRetry:
		return retryFlow(f, ev)
	case FlowReap:
		return reapFlow(f, ev)
	}
	return f, Ignored, invalidFlow(f, ev, "no such event")
}

func beginFlow(f Flow, live bool, ev FlowEvent) (Flow, Decision, error) {
	if ev.Session == "" || ev.InputDigest == "" {
		return f, Ignored, invalidFlow(f, ev, "needs a session and the input's digest")
	}
	switch {
	case f.State == FlowAbsent:
		f = Flow{Handle: f.Handle, Ref: ev.Ref, Function: ev.Function, Key: ev.Key, Input: ev.Input, InputDigest: ev.InputDigest, CreatedAt: ev.At}
		return holdFlow(f, ev), Execute, nil
	case f.InputDigest != ev.InputDigest || f.Function.Name != ev.Function.Name:
		return f, Misuse, nil
	case f.Tombstone:
		return f, Gone, nil
	}
	switch f.State {
	case FlowFinished:
		return f, Replay, nil
	case FlowGivenUp, FlowSetAside:
		return f, Stop, nil
	case FlowRunning:
		if live {
			return f, Wait, nil
		}
	case FlowWaiting:
		if f.DueAt.After(ev.At) && !ev.Sooner {
			return f, Later, nil
		}
	}
	return holdFlow(f, ev), Execute, nil
}

// holdFlow is the next claim, which the asker gets.
func holdFlow(f Flow, ev FlowEvent) Flow {
	f.State, f.Holder, f.Claim = FlowRunning, ev.Session, f.Claim+1
	f.DueAt, f.Cause, f.WaitsFor = time.Time{}, "", Ref{}
	return f
}

func claimFlow(f Flow, live bool, ev FlowEvent) (Flow, Decision, error) {
	if ev.Session == "" {
		return f, Ignored, invalidFlow(f, ev, "needs a session")
	}
	switch {
	case f.State == FlowRunning && live:
		return f, Wait, nil
	case f.State == FlowWaiting && f.DueAt.After(ev.At):
		return f, Later, nil
	case f.State != FlowRunning && f.State != FlowWaiting, !slices.Contains(ev.Functions, f.Function):
		return f, Ignored, nil
	}
	return holdFlow(f, ev), Execute, nil
}

// underClaim is for what the holder of a claim says.
func underClaim(f Flow, ev FlowEvent) (Flow, Decision, error) {
	switch {
	case f.State == FlowAbsent:
		return f, Ignored, invalidFlow(f, ev, "there is none")
	case f.State != FlowRunning || f.Claim != ev.Claim:
		return f, Stale, nil
	}
	switch ev.Kind {
	case FlowRecord:
		return f, Recorded, nil
	case FlowPark:
		f = parkFlow(f, ev)
		f.WaitsFor = ev.WaitsFor
	case FlowFail:
		f.Failures++
		f.History = append(slices.Clip(f.History[max(0, len(f.History)+1-MaxFlowHistory):]), FlowFailure{At: ev.At, Error: ev.Cause})
		f = parkFlow(f, ev)
		if f.Failures >= ev.Limit {
			f.State, f.DueAt = FlowSetAside, time.Time{}
		}
	case FlowFinish:
		if f.Undoing {
			return f, Ignored, invalidFlow(f, ev, "it is being given up")
		}
		f = endFlow(f, FlowFinished, ev)
	case FlowUndo:
		if !f.Undoing {
			return f, Ignored, invalidFlow(f, ev, "it is not being given up")
		}
		f = endFlow(f, FlowGivenUp, ev)
	}
	return f, Recorded, nil
}

func parkFlow(f Flow, ev FlowEvent) Flow {
	f.State, f.Holder, f.Cause = FlowWaiting, "", ev.Cause
	f.DueAt = later(ev.Due, ev.At)
	return f
}

func endFlow(f Flow, state FlowState, ev FlowEvent) Flow {
	f.State, f.Holder, f.EndedAt = state, "", ev.At
	return f
}

// giveUpFlow leaves a flow to be undone: to its own function, or to whoever claims it
// next.
func giveUpFlow(f Flow, live bool, ev FlowEvent) (Flow, Decision, error) {
	switch f.State {
	case FlowAbsent:
		return f, Ignored, invalidFlow(f, ev, "there is none")
	case FlowFinished:
		return f, Ignored, invalidFlow(f, ev, "it came to its end, and is not undone")
	case FlowGivenUp:
		return f, Ignored, nil
	case FlowRunning:
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
	ev.Due = time.Time{}
	f = parkFlow(f, ev)
	f.WaitsFor = Ref{}
	return f, Recorded, nil
}

func retryFlow(f Flow, ev FlowEvent) (Flow, Decision, error) {
	switch f.State {
	case FlowAbsent:
		return f, Ignored, invalidFlow(f, ev, "there is none")
	case FlowWaiting, FlowSetAside:
		f.Failures = 0
		ev.Due, ev.Cause = time.Time{}, f.Cause
		return parkFlow(f, ev), Recorded, nil
	}
	return f, Ignored, nil
}

// reapFlow keeps the name, so that it never runs again.
func reapFlow(f Flow, ev FlowEvent) (Flow, Decision, error) {
	if !f.State.Ended() || f.Tombstone || ev.At.Sub(f.EndedAt) < ev.Keep {
		return f, Ignored, nil
	}
	f.Tombstone = true
	f.Input, f.Steps, f.History = nil, nil, nil
	return f, Recorded, nil
}

func invalidFlow(f Flow, ev FlowEvent, reason string) error {
	return &FlowEventError{Kind: ev.Kind, State: f.State, Reason: reason}
}
