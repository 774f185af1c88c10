package onceward

import (
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/journal"
)

// heard ends a run of whose operation evidence has come between two attempts: with what that
// made, if it can be read, else by the evidence.
func (r *run) heard() {
	r.doubt(errHeard.Error(), nil)
	if object, answer := r.lookForIt("an event, before another attempt"); answer != nil && !answer.Omitted {
		r.end = &ending{kind: journal.EventComplete, found: true, object: object, answer: answer}
	}
}

// lookForIt looks for what the operation has made, within its time; a nil answer if it is not found.
func (r *run) lookForIt(actor string) (object string, answer *journal.Answer) {
	if r.client.cfg.Reconcile == nil || len(r.route.Endpoint.Lookups) == 0 {
		return "", nil
	}
	op := r.op
	op.LastEndedAt = r.tally.ended
	l := &reconcile.Pass{Caller: r.caller, Query: r.requests.Query, Actor: actor, Ends: r.ends}
	return r.client.finder.Find(&r.pauses, l, &op)
}
