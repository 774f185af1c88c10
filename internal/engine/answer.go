package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// answer gives the caller of a run what has come of it.
func (r *run) answer(res *machine.Result) (Answer, error) {
	op, a, e := &res.Operation, &r.attempt, r.end
	kind := core.KindOf(op.State)
	switch {
	case r.regained != nil:
		return *r.regained, nil
	case r.missing.asked:
		e.err = errors.Join(e.err, r.missing.why)
	case res.Decision != machine.Recorded:
		// The claim was no longer this run's: the record counts.
		if op.State == journal.StateCompleted {
			whole, err := r.engine.Read(r.ctx, op.Ref) // not every decision comes with bodies
			switch {
			case err != nil:
				e.err = errors.Join(e.err, err)
				r.missing = missing{asked: true, again: r.engine.Now()}
			case whole.Fingerprint != r.op.Fingerprint: // its own is forgotten, and the name or key is another's now
				op.Answer = nil
				r.missing = missing{asked: true}
			case whole.State == journal.StateCompleted && replayable(&whole):
				return r.engine.replay(&whole), nil
			}
		}
	case e.kindFor(op.State) != nil:
		kind = e.kindFor(op.State)
	case a.judged.Verdict == providers.AnswerGone: // nothing of the answer to the first attempt is left
	case r.isOutcome(op):
		r.op = *op // no code needs the record of the claim any more
		return Answer{Response: r.respond(op), Operation: &r.op, Replayed: a.judged.Replayed}, nil
	}
	a.discard()
	r.engine.deliveries.OnReturn(op)
	var differs []string
	if e.err == wire.ErrModeChanged {
		differs = []string{"mode"}
	}
	return Answer{}, &Failure{
		Operation: *op, Kind: kind, Cause: e.err, Differs: differs, Response: r.lastResponse(),
		InBackground: op.State == journal.StatePending && r.engine.InBackground(op, &r.op.Request),
		Target:       core.Target(r.op.Request.Method, r.target),
	}
}

// isOutcome reports whether the last attempt's answer is the operation's outcome. It is if the journal recorded it as
// that. A refusal is too if nothing may have taken effect and the operation is cancelled.
//
// A caller that got any other answer, such as the refusal of a later attempt, would take it for the outcome and pay
// under another name.
func (r *run) isOutcome(op *journal.Operation) bool {
	a := &r.attempt
	switch op.State {
	case journal.StateCompleted:
		return true
	case journal.StateCancelled:
		return a.resp != nil && a.cut == nil && !a.closed && r.end.answer == nil
	}
	return false
}

// respond hands the caller the response of its own last attempt.
func (r *run) respond(op *journal.Operation) *http.Response {
	a := &r.attempt
	resp := a.resp
	switch deliver := r.engine.deliveries.OnClose(op); {
	case a.partial:
		resp.Body = onClose(resp.Body, resp.Body, deliver)
	case a.cut != nil:
		resp.Body = onClose(io.MultiReader(bytes.NewReader(a.body), failing{r.engine.cutShort(op)}), nil, deliver)
	default:
		resp.Body = inMemory(a.body, deliver)
	}
	return resp
}

// OperationKey is the key of the operation in the context of a response's request. Package onceward puts it there.
var OperationKey = &struct{ name string }{"operation"}

// isAnswer reports whether a response is one of an operation.
func isAnswer(resp *http.Response) bool {
	return resp != nil && resp.Request != nil && resp.Request.Context().Value(OperationKey) != nil
}

// replayable reports whether the answer was kept whole, so that it can be given
// again as it was.
func replayable(op *journal.Operation) bool {
	return op.Answer != nil && op.Answer.Status != 0 && !op.Answer.Omitted
}

// byHandHeader marks a response whose answer was given to Resolve.
const byHandHeader = "Onceward-Answer"

// replay makes a response of a recorded answer. It carries no Set-Cookie.
func (e *Engine) replay(op *journal.Operation) Answer {
	a, deliver := op.Answer, e.deliveries.OnClose(op)
	resp := &http.Response{
		Status:        fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)),
		StatusCode:    a.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        a.Header.Clone(),
		Trailer:       a.Trailer.Clone(),
		ContentLength: int64(len(a.Body)),
	}
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	if a.ByHand {
		resp.Header.Set(byHandHeader, "by hand")
	}
	if a.Cut {
		resp.ContentLength = -1
		resp.Body = onClose(io.MultiReader(bytes.NewReader(a.Body), failing{e.cutShort(op)}), nil, deliver)
	} else {
		resp.Body = inMemory(a.Body, deliver)
	}
	stood := *op // so that op stays off the heap for calls without a replay
	return Answer{Response: resp, Operation: &stood, Replayed: true, Source: Recorded}
}

// cutShort returns the error at the end of a body that was cut off. It tells the reader if the operation is completed
// all the same.
func (e *Engine) cutShort(op *journal.Operation) error {
	if op.State != journal.StateCompleted {
		return io.ErrUnexpectedEOF
	}
	return e.explain(&Failure{Operation: *op, Kind: fault.ErrAnswerGone, Cause: io.ErrUnexpectedEOF})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// answerBody calls deliver, if there is one, when it is closed for the first time.
type answerBody struct {
	io.Reader
	closer  io.Closer
	deliver func()
	once    sync.Once
	memory  bytes.Reader // the Reader, where that is all of the body
}

func onClose(r io.Reader, closer io.Closer, deliver func()) io.ReadCloser {
	return &answerBody{Reader: r, closer: closer, deliver: deliver}
}

func inMemory(body []byte, deliver func()) io.ReadCloser {
	b := &answerBody{deliver: deliver}
	b.memory.Reset(body)
	b.Reader = &b.memory
	return b
}

func (b *answerBody) Close() (err error) {
	b.once.Do(func() {
		if b.closer != nil {
			err = b.closer.Close()
		}
		if b.deliver != nil {
			b.deliver()
		}
	})
	return err
}

// response returns the attempt's response, or nil if none came.
func (r *run) response(a *attempt) *Response {
	if a.resp == nil {
		return nil
	}
	body := a.body
	if limit := r.engine.MaxResponseBody; int64(len(body)) > limit {
		body = body[:limit:limit]
	}
	return &Response{Status: a.resp.StatusCode, Header: a.resp.Header, Body: body, Cut: a.partial || a.cut != nil}
}

// lastResponse returns the last response that came in this run, or nil.
func (r *run) lastResponse() *Response {
	if last := r.response(&r.attempt); last != nil {
		return last
	}
	return r.answered
}

// lastAnswer returns the last response of this run as the journal keeps it, or nil.
func (r *run) lastAnswer() *journal.Answer {
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
func (r *run) hides(header http.Header, body []byte) bool {
	return r.route.Endpoint.SecretResponse || r.secrets != nil && r.secrets.Shown(header, body)
}

// discard closes the rest of an answer that is not handed over.
func (a *attempt) discard() {
	if a.partial && !a.closed {
		a.resp.Body.Close()
	}
}
