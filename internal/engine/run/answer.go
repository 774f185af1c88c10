package run

import (
	"errors"
	"net/http"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Answer gives the caller the run's result.
func (r *Run) Answer(res *machine.Result) (exchange.Answer, error) {
	op, a, e := &res.Operation, &r.attempt, r.end
	kind := core.KindOf(op.State)
	switch {
	case r.Regained != nil:
		return *r.Regained, nil
	case r.Missing.Asked:
		e.err = errors.Join(e.err, r.Missing.Why)
	case res.Decision != machine.Recorded:
		// The claim was no longer this run's: the record counts.
		if op.State == journal.StateCompleted {
			whole, err := r.client.Read(r.ctx, op.Ref) // not every decision comes with bodies
			switch {
			case err != nil:
				e.err = errors.Join(e.err, err)
				r.Missing = exchange.Missing{Asked: true, Again: r.client.Now()}
			case whole.Fingerprint != r.op.Fingerprint: // its own is forgotten, and the name or key is another's now
				op.Answer = nil
				r.Missing = exchange.Missing{Asked: true}
			case whole.State == journal.StateCompleted && exchange.IsReplayable(&whole):
				return r.client.Replay(&whole), nil
			}
		}
	case e.kindFor(op.State) != nil:
		kind = e.kindFor(op.State)
	case a.judged.Verdict == providers.AnswerGone: // nothing of the answer to the first attempt is left
	case r.isOutcome(op):
		r.op = *op // no code needs the claim's record any more
		return exchange.Answer{Response: r.respond(op), Operation: &r.op, Replayed: a.judged.Replayed}, nil
	}
	a.discard()
	r.client.Deliveries.OnReturn(op)
	var differs []string
	if e.err == wire.ErrModeChanged {
		differs = []string{"mode"}
	}
	return exchange.Answer{}, &exchange.Failure{
		Operation: *op, Kind: kind, Cause: e.err, Differs: differs, Response: r.lastResponse(),
		InBackground: op.State == journal.StatePending && r.client.InBackground(op, &r.op.Request),
		Target:       core.Target(r.op.Request.Method, r.target),
	}
}

// isOutcome reports whether the last attempt's answer is the operation's outcome. Such an answer is recorded in the
// journal, or is a refusal of a cancelled operation without an effect.
//
// A caller with any other answer, such as the refusal of a later attempt, would mistake the answer for the outcome and
// pay under another name.
func (r *Run) isOutcome(op *journal.Operation) bool {
	a := &r.attempt
	switch op.State {
	case journal.StateCompleted:
		return true
	case journal.StateCancelled:
		return a.resp != nil && a.cut == nil && !a.closed && r.end.answer == nil
	}
	return false
}

// respond hands the caller its own last attempt's response.
func (r *Run) respond(op *journal.Operation) *http.Response {
	a := &r.attempt
	resp := a.resp
	switch deliver := r.client.Deliveries.OnClose(op); {
	case a.partial:
		resp.Body = exchange.Stream(resp.Body, deliver)
	case a.cut != nil:
		resp.Body = r.client.CutBody(op, a.body, deliver)
	default:
		resp.Body = exchange.Body(a.body, deliver)
	}
	return resp
}

// response returns the attempt's response, or nil if none came.
func (r *Run) response(a *attempt) *exchange.Response {
	if a.resp == nil {
		return nil
	}
	body := a.body
	if limit := r.client.MaxResponseBody; int64(len(body)) > limit {
		body = body[:limit:limit]
	}
	return &exchange.Response{Status: a.resp.StatusCode, Header: a.resp.Header, Body: body, Cut: a.partial || a.cut != nil}
}

// lastResponse returns the run's last response, or nil.
func (r *Run) lastResponse() *exchange.Response {
	if last := r.response(&r.attempt); last != nil {
		return last
	}
	return r.answered
}

// lastAnswer returns the run's last response in the journal's form, or nil.
func (r *Run) lastAnswer() *journal.Answer {
	last := r.lastResponse()
	if last == nil {
		return nil
	}
	a := &journal.Answer{Status: last.Status, Header: wire.RecordedHeader(last.Header), Body: last.Body, Cut: last.Cut}
	if r.hides(last.Header, last.Body) {
		a.Body, a.Omitted = nil, true
	}
	return a
}

// hides reports whether an answer may hold a secret.
func (r *Run) hides(header http.Header, body []byte) bool {
	return r.route.Endpoint.SecretResponse || r.secrets != nil && r.secrets.Shown(header, body)
}

// discard closes the rest from an answer that is not handed over.
func (a *attempt) discard() {
	if a.partial && !a.closed {
		a.resp.Body.Close()
	}
}
