package journal

import (
	"time"

	"github.com/onceward/onceward/internal/words"
)

// AttentionAfter is how long work may be overdue before it needs attention, since no process does it: the look-up of
// an unknown operation, or the run of a flow. An operation in flight has as long: no call takes longer by default.
const AttentionAfter = 15 * time.Minute

// PendingAttentionAfter is how long a pending operation may be overdue, or be parked by one claim after another,
// before it needs attention. It is long compared with an outage of a provider.
// After an outage, the provider's operations are sent one by one.
const PendingAttentionAfter = 24 * time.Hour

// NeedsAttention returns why a person has to look at the operation at that time, or "". These need attention:
//   - an operation with a reason in Attention
//   - an unknown operation that no process looks for: none is planned, or it is overdue by AttentionAfter
//   - a pending operation that no process sends: it is overdue by PendingAttentionAfter
//   - an operation in flight for AttentionAfter: its process has died and no other takes it over, or its call takes long
//
// A pending operation gets a reason if a claim is parked PendingAttentionAfter or more after ParkedSince. Without it, an
// operation that each claim parks for later would never be overdue. The next claim clears the reason.
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

// Undelivered reports whether the operation has an outcome that is still to be delivered. An unknown operation that is
// looked for has none yet.
func (op *Operation) Undelivered() bool {
	looked := op.State == StateUnknown && op.Attention == "" && op.lookPlanned()
	return op.State > StateInFlight && !op.Delivered && !looked
}

// lookPlanned reports whether the client that made the operation unknown, or a later one, planned a look-up. A client
// without Config.Reconcile sets LookAt to the time when the operation became unknown.
func (op *Operation) lookPlanned() bool { return op.LookAt.After(op.SettledAt) }

// NeedsAttention returns why a person has to look at the flow at that time, or "". A flow needs attention if it is set
// aside, if its run is overdue by AttentionAfter, or if it is put off for long. A flow that waits for an operation is
// named by that operation.
func (f *Flow) NeedsAttention(now time.Time) string {
	switch {
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

// NeedsAttention returns why a person has to look at a receipt that is committed, or "". A reserved one needs attention: its
// handler committed the transaction by itself, so it is not known whether its effect is complete.
func (r *Receipt) NeedsAttention() string {
	if r.State == ReceiptReserved {
		return "its handler committed without an answer: find out what it did, and resolve it"
	}
	return ""
}

// PutOff reports whether each run of a waiting flow for PendingAttentionAfter was parked without an operation to wait for,
// for example for want of a credential. It is never overdue then.
func (f *Flow) PutOff() bool {
	return f.State == FlowStateWaiting && !f.ParkedSince.IsZero() && f.UpdatedAt.Sub(f.ParkedSince) >= PendingAttentionAfter
}
