package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// makeAttempt sends the frozen request, if a send is still allowed, and reads the answer. It leaves the result in
// r.attempt. It returns the transport's response and error, or the reason why there was no attempt.
func (r *Run) makeAttempt() (*http.Response, error) {
	r.answered = r.lastResponse()
	r.attempt = attempt{}
	a := &r.attempt
	if a.local = r.mayGoOn(); a.local != nil {
		return nil, a.local
	}
	a.ctx = r.startContext()
	// Credentials, names, connections and handshakes take their time, and a process may be paused in between: others
	// may have the operation by now.
	var by time.Time
	if !r.mayHaveRun() {
		by = r.notAfter
	}
	req, err := r.compose(a.ctx, a.ctx.Follow(guard{r.client}, r.op.Holder, by), r.target)
	if err != nil {
		a.ctx.Cancel(errEnded)
		a.local = err
		return nil, err
	}
	r.permit.Supplied()
	if ctx := r.client.AttemptStarted(req.Context(), &r.op, r.stats.made+1); ctx != nil {
		a.traced = ctx
		req = req.WithContext(a.ctx.Traced(req.Context(), ctx))
	}
	r.stats.made++
	r.stats.underWay = true
	a.ctx.Sends(req)
	a.resp, a.err = r.exchange(a.ctx, req)
	if a.err != nil {
		a.unsent = a.ctx.Unsent(a.err)
		r.stats.maybeSent = r.stats.maybeSent || !a.unsent
		if !a.unsent {
			r.stats.departed++
		}
		r.attemptEnded()
		if cause := context.Cause(a.ctx); cause != nil {
			a.err = cause
		}
		a.lost = a.unsent && errors.Is(a.err, wire.ErrLeaseOver)
		a.ctx.Cancel(errEnded)
	} else {
		r.stats.maybeSent = true
		r.stats.departed++
		r.readAnswer()
		r.attemptEnded()
	}
	return a.resp, a.err
}

// guard implements wire.Guard. Its facts do not change with the run.
type guard struct{ client *exchange.Client }

func (g guard) Holds(session string) bool { return g.client.Session.Holds(session) }

func (g guard) Late(by time.Time) error { return afterwards(g.client.Now(), by) }

// attemptEnded notes when the last attempt did.
func (r *Run) attemptEnded() {
	r.stats.ended = r.client.Now()
	if r.stats.maybeSent {
		r.idleSince = time.Now()
	}
}

// mayGoOn returns why an attempt must not be made. If it returns nil, the attempt has started.
func (r *Run) mayGoOn() error {
	if r.pauses.Err() != nil {
		return errInterrupted
	}
	if !r.client.Now().Before(r.ends) {
		return wire.ErrOutOfTime
	}
	if !r.client.Session.Holds(r.op.Holder) {
		r.attempt.lost = true
		return errors.New("the session is lost")
	}
	if r.stats.made > 0 {
		op, err := r.client.Journal.Get(&r.pauses, r.op.Ref)
		if err != nil {
			return fmt.Errorf("the claim can't be checked: %w", err)
		}
		if op.State != journal.StateInFlight || op.Claim != r.op.Claim {
			r.attempt.lost = true
			return errors.New("the claim is no longer held")
		}
		if machine.DecidedByEvidence(&op, r.stats.made) {
			return errHeard
		}
	}
	// Last, since time has passed since the attempt was decided on: a paused
	// process must not send what its window has closed for.
	r.attempt.started = r.client.Now()
	if err := r.tooLate(r.attempt.started); err != nil {
		return err
	}
	if p := machine.MaySend(r.question(r.attempt.started)); p.Answer != machine.SendNow {
		return &notAllowed{p}
	}
	return nil
}

// tooLate returns an error if nothing of the operation has been sent and t is too late for sending it for the first
// time.
func (r *Run) tooLate(t time.Time) error {
	if r.mayHaveRun() {
		return nil
	}
	return afterwards(t, r.notAfter)
}

// afterwards returns an error if t is after by. A zero by sets no limit.
func afterwards(t, by time.Time) error {
	if by.IsZero() || !t.After(by) {
		return nil
	}
	return fmt.Errorf("%w %s", errTooLate, by.Format(time.RFC3339))
}

// notAllowed is the resend rule's word against an attempt that was decided on
// earlier.
type notAllowed struct{ machine.Permission }

func (e *notAllowed) Error() string { return e.Reason }

var (
	errTooLate     = errors.New("it was not to be sent after")
	errInterrupted = errors.New("it was interrupted")
	errEnded       = errors.New("onceward: the run has ended")
	errHeard       = errors.New("its outcome arrived by a webhook meanwhile")
)

const maxHops = 5

// exchange sends the request and follows 307 and 308 within its origin: the same
// operation at another path. Authorize sees ctx.
func (r *Run) exchange(ctx *wire.AttemptContext, req *http.Request) (*http.Response, error) {
	for hop := 0; ; hop++ {
		resp, err := r.client.Base.RoundTrip(req)
		if resp != nil && resp.Body == nil {
			resp.Body = http.NoBody // as net/http's own client takes it
		}
		if err != nil || hop == maxHops {
			return resp, wire.WithoutQuery(err, req.URL)
		}
		to := sameOrigin(req, resp)
		if to == nil {
			return resp, nil
		}
		next, err := r.compose(ctx, req.Context(), to)
		if err != nil {
			// The redirect itself is the answer, then.
			return resp, nil
		}
		resp.Body.Close()
		ctx.Redirected()
		req = next
	}
}

func sameOrigin(req *http.Request, resp *http.Response) *url.URL {
	if resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect {
		return nil
	}
	to, err := req.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" || to.User != nil ||
		to.Scheme != req.URL.Scheme || !strings.EqualFold(to.Host, req.URL.Host) {
		return nil
	}
	return to
}

// readAnswer reads the response's body up to Config.MaxResponseBody. The rest of a longer body stays a stream for the
// caller, without the attempt's deadline.
func (r *Run) readAnswer() {
	a := &r.attempt
	ctx := a.ctx
	var err error
	if a.resp.StatusCode != http.StatusSwitchingProtocols { // no caller asked for that, and its body is the connection: it never ends
		a.body, err = wire.ReadUpTo(a.resp.Body, r.client.MaxResponseBody, a.resp.ContentLength)
	}
	switch {
	case int64(len(a.body)) > r.client.MaxResponseBody:
		a.partial = true
		err = r.readOn(a.resp.Body)
	case err == nil && wire.EndsWithin(a.resp.Header, a.body):
		err = io.ErrUnexpectedEOF
	}
	ctx.RemoveDeadline()
	switch {
	case a.partial && err == nil:
		a.resp.Body = &stream{Reader: io.MultiReader(bytes.NewReader(a.whole), a.resp.Body), body: a.resp.Body, ctx: ctx}
		return
	case err != nil:
		a.cut = err
		if cause := context.Cause(ctx); cause != nil {
			a.cut = cause
		}
	}
	a.resp.Body.Close()
	ctx.Cancel(errEnded)
	a.resp.Body = http.NoBody
}

// readOn reads more from a body longer than MaxResponseBody, if the answer's meaning depends on the body. The caller's
// stream repeats those bytes.
func (r *Run) readOn(body io.Reader) error {
	a := &r.attempt
	a.whole = a.body
	limit := int64(tables.MaxAnswerBody)
	if int64(len(a.body)) > limit || !r.route.NeedsBody(r.answerHead()) {
		return nil
	}
	more, err := wire.ReadUpTo(body, limit-int64(len(a.body)), -1)
	a.whole = append(a.body[:len(a.body):len(a.body)], more...)
	if err == nil && int64(len(a.whole)) <= limit && wire.EndsWithin(a.resp.Header, a.whole) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// answerHead returns the response's status and headers in the form that the provider's table reads.
func (r *Run) answerHead() tables.Answer {
	resp := r.attempt.resp
	return tables.Answer{Status: resp.StatusCode, Header: resp.Header, Later: r.mayHaveRun(), OwnKey: r.madeKey()}
}

// stream is the rest from an answer that is too large to record.
type stream struct {
	io.Reader
	body io.Closer
	ctx  *wire.AttemptContext
}

func (s *stream) Close() error {
	err := s.body.Close()
	s.ctx.Cancel(errEnded)
	return err
}

// startContext makes the started attempt's context. The context ends after the attempt's timeout, which
// leaves time for another attempt. If no other attempt would be allowed, the attempt may take all of the call's time
// once it has a connection.
func (r *Run) startContext() *wire.AttemptContext {
	c := r.newContext()
	if spare := r.ends.Sub(r.attempt.started) - r.client.AttemptTimeout; spare > 0 && !r.mayFollow(r.attempt.started.Add(r.client.AttemptTimeout)) {
		c.ExtendDeadline(r.client.AttemptTimeout, spare)
	}
	return c
}

// mayFollow asks the resend rule for another attempt after one that is broken off.
func (r *Run) mayFollow(brokenOff time.Time) bool {
	q := r.question(brokenOff)
	q.MayHaveRun, q.LastEndedAt = true, brokenOff
	return machine.MaySend(q).Answer != machine.Never
}

// newContext makes a context that ends after the attempt's timeout, or with the run's time. Shutdown can break off
// requests under the context.
func (r *Run) newContext() *wire.AttemptContext {
	left, cause := r.client.AttemptTimeout, wire.ErrAttemptTimeout
	if untilEnd := r.ends.Sub(r.attempt.started); untilEnd < left {
		left, cause = untilEnd, wire.ErrOutOfTime
	}
	c := &r.first
	if c.Context != nil { // a transport may still hold it
		c = new(wire.AttemptContext)
	}
	c.Start(r.ctx, left, cause)
	r.sending.Store(c)
	return c
}

// describe returns the journal's text about an error: the error's nature, never its own words, which may hold
// anything.
func describe(err error, unsent bool) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, wire.ErrAttemptTimeout), errors.Is(err, wire.ErrOutOfTime):
		return "timed out"
	case errors.Is(err, fault.ErrShutdown):
		return "interrupted by shutdown"
	case errors.Is(err, wire.ErrRepeated):
		return wire.ErrRepeated.Error()
	case errors.Is(err, fault.ErrNested):
		return fault.ErrNested.Error()
	case unsent && fault.IsMarkedNotSent(err):
		return "refused locally, not sent"
	case unsent && errors.As(err, &timeout) && timeout.Timeout():
		return "not sent: timed out connecting"
	case unsent:
		return "not sent"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer: timed out"
	}
	return "no answer: the connection failed"
}
