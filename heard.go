package onceward

import (
	"context"

	"github.com/onceward/onceward/journal"
)

// heard ends a run of whose operation evidence has come between two attempts: with what that
// made, if it can be read, else by the evidence.
func (r *run) heard() {
	r.doubt(errHeard.Error(), nil)
	if s := r.lookForIt("an event, before another attempt"); s != nil && !s.answer.Omitted {
		r.end = &ending{kind: journal.EventComplete, found: true, object: s.object, answer: s.answer}
	}
}

// lookForIt looks for what the operation has made, within its time; nil if it is not found.
func (r *run) lookForIt(actor string) *seen {
	c := r.client
	if c.cfg.Reconcile == nil || len(r.route.Endpoint.Lookups) == 0 {
		return nil
	}
	l := &looking{client: c, caller: r.caller, query: r.requests.Query, actor: actor, ends: r.ends}
	if most := c.core.Now().Add(askedFor); most.Before(l.ends) {
		l.ends = most
	}
	ctx, cancel := context.WithDeadline(&r.pauses, l.ends)
	defer cancel()
	op := r.op
	op.LastEndedAt = r.tally.ended
	s := l.looked(ctx, &op)
	if !s.evidence.Finding.TookEffect() || s.object == "" || s.answer == nil {
		return nil
	}
	s.answer.Found = true
	return &s
}
