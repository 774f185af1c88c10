package machine

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
)

// NextReceipt is the state machine for receipts: it returns r after ev, and the decision for the caller. NextReceipt is
// pure, except for ev.Same, and total. The zero Receipt stands for one that the journal lacks. The decisions are
// Execute, Replay, Misuse, Stop, Gone, Recorded, Stale and Ignored. With any but Execute and Recorded, and with an
// error, the receipt is unchanged. NextReceipt shares data of r and ev with the result and writes to none.
func NextReceipt(r journal.Receipt, ev ReceiptEvent) (ReceiptResult, error) {
	ev.At, ev.Last = stamp(ev.At), stamp(ev.Last)
	next, err := stepReceipt(r, ev)
	if next.Decision != Execute && next.Decision != Recorded {
		next.Receipt, next.Again = r, false
	}
	return next, err
}

func stepReceipt(r journal.Receipt, ev ReceiptEvent) (ReceiptResult, error) {
	switch ev.Kind {
	case ReceiptReserve, ReceiptRecord:
		return receive(r, ev)
	case ReceiptComplete:
		return completeReceipt(r, ev)
	case ReceiptResolve:
		return resolveReceipt(r, ev)
	case ReceiptReap:
		return reapReceipt(r, ev), nil
	}
	return invalidReceipt(r, ev, "no such event")
}

func invalidReceipt(r journal.Receipt, ev ReceiptEvent, reason string) (ReceiptResult, error) {
	return ReceiptResult{}, &ReceiptEventError{Kind: ev.Kind, State: r.State, Reason: reason}
}

// receive applies a request under a key. Another request than the recorded one gets no part of the answer.
func receive(r journal.Receipt, ev ReceiptEvent) (ReceiptResult, error) {
	switch {
	case ev.Place == "" || ev.Fingerprint == "" || ev.Same == nil || ev.Keep <= 0 || ev.Refuse < 0:
		return invalidReceipt(r, ev, "needs a place, a fingerprint, something that compares, and how long it is kept")
	case ev.Kind == ReceiptRecord && ev.Answer == nil:
		return invalidReceipt(r, ev, "needs an answer")
	case r.State == journal.ReceiptAbsent:
		return begun(r, ev), nil
	case r.State == journal.ReceiptCompleted && !receiptNow(ev).Before(r.RefusedUntil):
		result := begun(r, ev)
		result.Again = true
		return result, nil
	}
	same, err := ev.Same(&r)
	switch {
	case err != nil:
		return ReceiptResult{}, err
	case !same:
		return ReceiptResult{Decision: Misuse}, nil
	case r.State == journal.ReceiptReserved:
		return ReceiptResult{Decision: Stop}, nil
	case r.Answer == nil || !receiptNow(ev).Before(r.ExpiresAt):
		return ReceiptResult{Decision: Gone}, nil
	}
	return ReceiptResult{Decision: Replay}, nil
}

// begun begins a new life of a key. It lasts from the later of the caller's time and the journal's, so a slow clock
// ends none early.
func begun(r journal.Receipt, ev ReceiptEvent) ReceiptResult {
	from := later(ev.At, ev.Last)
	next := journal.Receipt{
		Handle: r.Handle, ReceiptKey: ev.ReceiptKey, Place: ev.Place, State: journal.ReceiptReserved, Claim: r.Claim + 1,
		Fingerprint: ev.Fingerprint, CreatedAt: ev.At, ExpiresAt: from.Add(ev.Keep), RefusedUntil: from.Add(ev.Keep).Add(ev.Refuse),
	}
	if ev.Kind == ReceiptReserve {
		return ReceiptResult{Receipt: next, Decision: Execute}
	}
	return ReceiptResult{Receipt: settledReceipt(next, ev), Decision: Recorded}
}

func settledReceipt(r journal.Receipt, ev ReceiptEvent) journal.Receipt {
	r.State, r.SettledAt, r.Answer = journal.ReceiptCompleted, ev.At, ev.Answer
	return r
}

func completeReceipt(r journal.Receipt, ev ReceiptEvent) (ReceiptResult, error) {
	switch {
	case ev.Answer == nil:
		return invalidReceipt(r, ev, "needs an answer")
	case r.State != journal.ReceiptReserved || r.Claim != ev.Claim:
		return ReceiptResult{Decision: Stale}, nil
	}
	return ReceiptResult{Receipt: settledReceipt(r, ev), Decision: Recorded}, nil
}

func resolveReceipt(r journal.Receipt, ev ReceiptEvent) (ReceiptResult, error) {
	switch {
	case r.State != journal.ReceiptReserved:
		return invalidReceipt(r, ev, "only a reserved receipt can be resolved")
	case ev.By == "" && ev.Why == "":
		return invalidReceipt(r, ev, "needs to say who resolves it, or why")
	case ev.Claim != 0 && (ev.Claim != r.Claim || ev.Handle != r.Handle): // a key that was freed has claim 1 again
		return ReceiptResult{Decision: Stale}, nil
	case ev.Resolution == journal.Executed && ev.Answer != nil && ev.Answer.Status != 0 && (ev.Answer.Status < 200 || ev.Answer.Status > 599):
		return invalidReceipt(r, ev, "needs an answer with a status from 200 to 599, or without one")
	case ev.Resolution == journal.Executed && ev.Answer != nil:
		r = settledReceipt(r, ev)
		r.Cause = fmt.Sprintf("resolved by %s: %s", cmp.Or(ev.By, "an operator"), strings.TrimSpace(ev.Why))
		return ReceiptResult{Receipt: r, Decision: Recorded}, nil
	case ev.Resolution == journal.NotExecuted:
		return ReceiptResult{Receipt: journal.Receipt{}, Decision: Recorded}, nil
	}
	return invalidReceipt(r, ev, "needs Executed with an answer, or NotExecuted")
}

func reapReceipt(r journal.Receipt, ev ReceiptEvent) ReceiptResult {
	now := receiptNow(ev)
	switch {
	case r.State != journal.ReceiptCompleted || now.Before(r.ExpiresAt):
		return ReceiptResult{Decision: Ignored}
	case !now.Before(r.RefusedUntil):
		return ReceiptResult{Receipt: journal.Receipt{}, Decision: Recorded}
	case r.Answer == nil:
		return ReceiptResult{Decision: Ignored}
	}
	r.Answer = nil
	return ReceiptResult{Receipt: r, Decision: Recorded}
}

// receiptNow returns the latest certain time: a clock after a jump ends nothing.
func receiptNow(ev ReceiptEvent) time.Time {
	return certainTime(&Event{At: ev.At, Last: ev.Last, Unconfirmed: ev.Unconfirmed})
}
