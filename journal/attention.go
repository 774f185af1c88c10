package journal

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// AttentionAfter is how long work may be overdue before the work needs attention, since no process does it: an unknown
// operation's look-up, or a flow's run. An operation in flight has as long: no call takes longer by default.
const AttentionAfter = 15 * time.Minute

// PendingAttentionAfter is how long a pending operation may be overdue, or be parked by one claim after another,
// before the operation needs attention. This time is long compared with a provider's outage. After an outage, the
// provider's operations are sent one by one.
const PendingAttentionAfter = 24 * time.Hour

// NeedsAttention returns why a person has to look at the operation at that time, or "". These need attention:
//   - an operation with a reason in Attention
//   - an unknown operation without a process that looks: no look-up is planned, or one is overdue by AttentionAfter
//   - a pending operation without a process that sends: the operation is overdue by PendingAttentionAfter
//   - an operation in flight for AttentionAfter: the process has died and no other takes over, or the call takes long
//
// A pending operation gets a reason if a claim is parked PendingAttentionAfter or more after ParkedSince. Without the
// reason, an operation parked by each claim would never be overdue. The next claim clears the reason.
func (op *Operation) NeedsAttention(now time.Time) string {
	switch {
	case op.Attention != "":
		return op.Attention
	case op.State == StatePending && now.Sub(op.WakeAt) >= PendingAttentionAfter:
		return "no process sends it: Run is not running, its provider is down, or no process has its table or its credential"
	case op.State == StateInFlight && now.Sub(op.UpdatedAt) >= AttentionAfter:
		return "it has been in flight for long: its process has died and no other has taken it over, or its call is allowed so long"
	case op.State != StateUnknown:
		return ""
	case !op.lookPlanned() && op.OnHold():
		return "it is on hold: reinstate or resolve it"
	case !op.lookPlanned():
		return "no process looks for it: the client that recorded it has no Config.Reconcile"
	case now.Sub(op.LookAt) >= AttentionAfter:
		return "no process looks for it: a look is overdue"
	}
	return ""
}

// Undelivered reports whether the operation has an undelivered outcome. An unknown operation has no outcome yet while
// clients look for it.
func (op *Operation) Undelivered() bool {
	looked := op.State == StateUnknown && op.Attention == "" && op.lookPlanned()
	return op.State > StateInFlight && !op.Delivered && !looked
}

// lookPlanned reports whether a client planned a look-up since the operation became unknown. A client
// without Config.Reconcile sets LookAt to the time when the operation became unknown.
func (op *Operation) lookPlanned() bool { return op.LookAt.After(op.SettledAt) }

// NeedsAttention returns why a person has to look at the flow at that time, or "". A flow needs attention if the flow is
// set aside, if a run is overdue by AttentionAfter, or if runs are put off for long. If a flow waits for an operation,
// the operation names the flow.
func (f *Flow) NeedsAttention(now time.Time) string {
	switch {
	case f.State == FlowStateSetAside && f.Cause == "" && f.SealedBy != "":
		return "it is set aside, and its cause is sealed by " + f.SealedBy
	case f.State == FlowStateSetAside:
		return f.Cause
	case f.PutOff():
		return words.Because("each run for a day was put off, and it waits for no operation", f.Cause)
	case f.State == FlowStateWaiting && now.Sub(f.DueAt) >= AttentionAfter:
		return "no process runs it: Run is not running, or no process has its function and version"
	case f.State == FlowStateRunning && now.Sub(f.UpdatedAt) >= AttentionAfter:
		return "its run takes long, or the process that ran it has died and no other has its function and version"
	}
	return ""
}

// NeedsAttention returns why a person has to look at a committed receipt, or "". A reserved receipt needs attention: the
// handler committed the transaction by itself, so the effect may be incomplete.
func (r *Receipt) NeedsAttention() string {
	if r.State == ReceiptReserved {
		return "its handler committed without an answer: find out what it did, and resolve it"
	}
	return ""
}

// PutOff reports whether, for PendingAttentionAfter, each run of a waiting flow was parked without an operation to wait
// for, for example because a credential was missing. Such a flow is never overdue.
func (f *Flow) PutOff() bool {
	return f.State == FlowStateWaiting && !f.ParkedSince.IsZero() && f.UpdatedAt.Sub(f.ParkedSince) >= PendingAttentionAfter
}
