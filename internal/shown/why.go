package shown

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Why says whether an operation will be sent, and why.
type Why struct {
	Answer  string    // "now", "not before" or "never"
	At      time.Time // of "not before"
	Because string
	Rule    machine.Permission // of the resend rule, whatever the state
	Advice  string             // what there is to do; "" for nothing
}

// Restored returns w for a journal that was restored or copied.
func (w Why) Restored() Why {
	if w.Answer != machine.Never.String() {
		w.Answer, w.At = machine.Never.String(), time.Time{}
		w.Because = "the journal was restored or copied, and sends nothing until it is adopted"
		w.Advice = "make sure that no other copy is in use, and adopt it"
	}
	return w
}

// WhyOf returns the resend rule's answer for an operation, at this time, in a journal whose latest time is last. A
// jumped clock is believed once the clock reaches unconfirmed. The zero time means that the clock is believed.
func WhyOf(op *journal.Operation, now, last, unconfirmed time.Time) Why {
	w := Why{Answer: machine.Never.String(), Rule: machine.MaySend(machine.QuestionOf(op, now, last, unconfirmed))}
	switch op.State {
	case journal.StateCompleted:
		w.Because = "it is completed: callers get the recorded answer"
		if op.Tombstone {
			w.Because = "it is completed, and its answer was reaped: an operation of this name is never sent again"
		}
		return w
	case journal.StateCancelled:
		w.Because = "it is cancelled, and had no effect"
		w.Advice = "to have it sent, ask for it again by its name"
		if op.Withdrawn != nil {
			w.Advice = "an operator withdrew it; Client.Reinstate lifts that"
		}
		return w
	case journal.StateInFlight:
		w.Because = "it is being sent, by session " + Text(op.Holder)
		w.Advice = "wait: if that process dies, another one takes it over; ending it to free the operation makes it count as sent"
		return w
	case journal.StateUnknown:
		w.Because = "it is unknown: it may have taken effect, and nothing unknown is sent"
		w.Advice = "wait for the next look-up, or resolve it if you know its outcome"
		if why := op.NeedsAttention(now); why != "" {
			w.Because += "; it needs attention: " + Text(why)
			w.Advice = "find it at the provider, and resolve it"
		}
		return w
	}
	switch w.Rule.Answer {
	case machine.SendNow:
		w.Answer, w.Because = w.Rule.Answer.String(), "the resend rule allows it, and it is due"
		w.Advice = "nothing: Run, Resume or the next caller sends it"
		if op.DueAt.After(now) {
			w.Answer, w.At, w.Because = machine.NotBefore.String(), op.DueAt, "it is not due yet"
			if op.Cause != "" {
				w.Because += ": " + Text(op.Cause)
			}
		}
	case machine.NotBefore:
		w.Answer, w.At, w.Because = w.Rule.Answer.String(), w.Rule.At, w.Rule.Reason
		if op.DueAt.After(w.At) {
			w.At = op.DueAt
		}
		w.Advice = "nothing: it goes on by itself"
	default:
		w.Because = w.Rule.Reason
		w.Advice = "the next pass of Run or Resume makes it unknown; then find it at the provider, and resolve it"
	}
	return w
}

// AttentionFlows yields the flows that need attention at a time, oldest first. It ends after the first error.
func AttentionFlows(ctx context.Context, flows machine.Flows, now time.Time) iter.Seq2[journal.Flow, error] {
	open := slices.DeleteFunc(slices.Clone(journal.FlowStates), journal.FlowState.Ended)
	return func(yield func(journal.Flow, error) bool) {
		for f, err := range flows.ListFlows(ctx, journal.FlowFilter{States: open}) {
			if (err != nil || f.NeedsAttention(now) != "") && !yield(f, err) {
				return
			}
		}
	}
}
