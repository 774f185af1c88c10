package onceward

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
)

// isUnique keeps of the endpoint's promise what holds for this request: one whose reference is
// the caller's own may share it with another.
func (k *call) isUnique(m tables.Message) {
	u := &k.route.Endpoint.Unique
	if !k.intent.ReferenceOurs || u.Field != "" && tables.Sent(m, []string{u.Field})[u.Field] != u.Equals {
		k.intent.Terms.Unique = journal.Unique{}
	}
}

// nothing tells whether the provider has answered, and shows nothing of the operation; or whether
// no look-up serves it. It is no proof of anything: but there was nothing to read. Where a page was read, a next one
// that is not found says nothing: the first may have shown it.
func (s *seen) nothing() bool {
	e := &s.evidence
	switch {
	case s.saw || e.Source != journal.SourceLook:
		return false
	case s.unserved:
		return true
	case s.account == "": // in another one there is nothing of it either
		return false
	}
	return e.Finding == journal.FindingAbsent || e.Finding == journal.FindingInconclusive && e.Status == http.StatusNotFound && e.Pages == 1
}

// repeatable tells whether it may be that an unknown operation is repeated for this call: the
// journal decides. What a flow waits for is nobody's who asks: the flow asks by itself.
func (k *call) repeatable(op *journal.Operation) bool {
	return op.Terms.Unique.For > 0 && op.ReferenceOurs && !seam.IsOfFlow(op.Parent)
}

// again begins the operation once more, if it became unknown just now and may be repeated at once:
// for its own caller, who has not been told anything yet. It is looked for first. Where the provider has asked not
// to be asked before soonest, it is not. Without a run and a response, what was recorded before is what counts.
func (k *call) again(recorded *journal.Result, soonest time.Time) (*run, *http.Response) {
	op := &recorded.Operation
	now := k.client.now()
	if recorded.Decision != journal.Recorded || op.State != journal.StateUnknown || !k.repeatable(op) ||
		k.ctx.Err() != nil || !now.Before(k.ends) || soonest.After(now) {
		return nil, nil
	}
	q := op.Question(now, recorded.Last, recorded.Unconfirmed)
	q.Repeats = true
	if journal.MaySend(q).Answer != journal.SendNow {
		return nil, nil
	}
	k.begun = true
	run, resp, _ := k.begin() // with an error, neither
	return run, resp
}

// repeats tells whether the run's claim is of an operation that was unknown.
func (r *run) repeats() bool { return r.op.Found.State == journal.StateUnknown }

// alreadyThere ends a run whose attempt was refused since the provider has an earlier one: with
// that, if it can be read. Where a look-up could show it, and the refusal does not name it, it has to:
// another thing may have been in conflict. Where it shows another than is named, neither counts yet.
func (r *run) alreadyThere() {
	pointer := r.attempt.judged.Pointer
	named := objectOf(r.route.Endpoint, pointer)
	s := r.lookForIt("the answer to a repeat")
	switch {
	case s == nil && pointer == "" && len(r.route.Endpoint.Lookups) > 0:
		r.doubt(r.attempt.status()+": refused since there is an earlier one, which is not shown yet", nil)
		return
	case s != nil && named != "" && s.object != named:
		r.doubt(r.attempt.status()+": refused since there is an earlier one, and it names another than a look shows", nil)
		return
	}
	r.end = &ending{
		kind: journal.EventComplete, found: true, object: named,
		answer: &journal.Answer{Omitted: true, Pointer: pointer, Found: true},
	}
	if s != nil {
		r.end.answer, r.end.object = s.answer, s.object
	}
}

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
	l := &looking{client: c, caller: r.caller, query: r.requests.query, actor: actor, ends: r.ends}
	if most := c.now().Add(askedFor); most.Before(l.ends) {
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

// shown is what the answer to a repeat says of the operation; nil for every other attempt. A refusal
// says nothing of the attempts before it.
func (r *run) shown() *journal.Evidence {
	a, e := &r.attempt, r.end
	if e.kind != journal.EventComplete || e.answer.Refused || !r.repeats() && !a.judged.Refused || a.resp == nil {
		return nil
	}
	seen := &journal.Evidence{
		Source: journal.SourceRepeat, Actor: "who asked for it", Status: a.resp.StatusCode, Finding: journal.FindingTookEffect,
		Basis: journal.BasisReference, Rule: cmp.Or(r.route.Endpoint.Unique.Source, a.judged.Source),
	}
	if u := r.target; u != nil {
		seen.Target = r.op.Request.Method + " " + u.Scheme + "://" + u.Host + u.Path
	}
	return seen
}
