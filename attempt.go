package onceward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// attempt is one try, and what came of it.
type attempt struct {
	started time.Time
	local   error // it was not made, because of this
	lost    bool  // it was not made, because the claim is somebody else's by now
	err     error // the transport's own
	unsent  bool  // with err: proven that nothing left
	resp    *http.Response
	body    []byte // what was read of the response's body
	partial bool   // body is only its beginning: it is over the limit
	whole   []byte // partial: what was read to tell what the answer means
	cut     error  // why the body ended early
	closed  bool   // the rest of a partial body was given up
	judged  providers.Judgement
	req     *http.Request // as it was composed
}

// wire is the run as the RoundTripper below go-retryablehttp. It has no
// CloseIdleConnections, since the pool below is the caller's.
type wire run

// RoundTrip makes one attempt. It ignores the request it gets: what is sent is
// what was frozen.
func (w *wire) RoundTrip(*http.Request) (*http.Response, error) {
	r := (*run)(w)
	r.answered = r.lastResponse()
	r.attempt = attempt{}
	a := &r.attempt
	if a.local = r.mayGoOn(); a.local != nil {
		return nil, a.local
	}
	limit := r.limited()
	trace := &limit.trace
	req, err := r.compose(limit, trace.follow(limit), r.target)
	if err != nil {
		limit.cancel(errEnded)
		a.local = err
		return nil, err
	}
	if err := r.mayRest(req); err != nil {
		limit.cancel(errEnded)
		a.local = err
		return nil, err
	}
	r.attempts++
	r.flying = true
	a.req = req
	a.resp, a.err = r.exchange(limit, req, trace)
	if a.err != nil {
		a.unsent = trace.unsent(a.err)
		r.sent = r.sent || !a.unsent
		if !a.unsent {
			r.departed++
		}
		r.ended = r.now()
		if cause := context.Cause(limit); cause != nil {
			a.err = cause
		}
		limit.cancel(errEnded)
	} else {
		r.sent = true
		r.departed++
		r.readAnswer(limit)
		r.ended = r.now()
	}
	return a.resp, a.err
}

// mayGoOn tells why an attempt must not be made, if it must not; else it has started.
func (r *run) mayGoOn() error {
	if (*waits)(r).Err() != nil {
		return errInterrupted
	}
	if !r.now().Before(r.ends) {
		return errOutOfTime
	}
	if !r.holds(r.op.Holder) {
		r.attempt.lost = true
		return errors.New("the session is lost")
	}
	if r.attempts > 0 {
		op, err := r.journal.Get((*waits)(r), r.op.Ref)
		if err != nil {
			return fmt.Errorf("the claim can't be checked: %w", err)
		}
		if op.State != journal.InFlight || op.Claim != r.op.Claim {
			r.attempt.lost = true
			return errors.New("the claim is no longer held")
		}
	}
	// Last, since time has passed since the attempt was decided on: a paused
	// process must not send what its window has closed for.
	r.attempt.started = r.now()
	if p := journal.MaySend(r.question(r.attempt.started)); p.Answer != journal.SendNow {
		return &notAllowed{p}
	}
	return nil
}

// notAllowed is the resend rule's word against an attempt that was decided on
// earlier.
type notAllowed struct{ journal.Permission }

func (e *notAllowed) Error() string { return e.Reason }

var (
	errInterrupted    = errors.New("it was interrupted")
	errAttemptTimeout = fmt.Errorf("the attempt took longer than Config.AttemptTimeout: %w", context.DeadlineExceeded)
	errOutOfTime      = fmt.Errorf("the call's time is up: %w", context.DeadlineExceeded)
)

// limit is the context of an attempt: the caller's, but that it names no operation,
// and ends at the attempt's deadline or sooner. It may be used concurrently.
type limit struct {
	context.Context
	end      context.CancelCauseFunc
	deadline *time.Timer
	trace    connTrace

	mu     sync.Mutex
	more   *time.Timer // after deadline; nil: none yet
	lifted bool
}

func (l *limit) Value(key any) any {
	if key == namingKey {
		return unnamed
	}
	return l.Context.Value(key)
}

// limited starts the limit of the attempt that was started. To break it off makes room
// for another one; where that would not be allowed, it may take all of the call's time
// once it has a connection.
func (r *run) limited() *limit {
	l := r.limitedTo(r.cfg.AttemptTimeout, errAttemptTimeout)
	if rest := r.ends.Sub(r.attempt.started) - r.cfg.AttemptTimeout; rest > 0 && !r.mayFollow(r.attempt.started.Add(r.cfg.AttemptTimeout)) {
		l.extend(r.cfg.AttemptTimeout, rest)
	}
	return l
}

// extend lets an attempt that is not known to be connecting still take so much more.
func (l *limit) extend(first, rest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline.Stop()
	if l.lifted {
		return
	}
	l.deadline = time.AfterFunc(first, func() {
		if l.trace.asked.Load() && !l.trace.got.Load() {
			l.end(errAttemptTimeout)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.lifted {
			l.more = time.AfterFunc(rest, func() { l.end(errOutOfTime) })
		}
	})
}

// mayFollow asks the resend rule for another attempt after one that is broken off.
func (r *run) mayFollow(brokenOff time.Time) bool {
	q := r.question(brokenOff)
	q.MayHaveRun, q.LastEndedAt = true, brokenOff
	return journal.MaySend(q).Answer != journal.Never
}

// limitedTo starts a limit within the call's time.
func (r *run) limitedTo(left time.Duration, cause error) *limit {
	ctx, end := context.WithCancelCause(r.ctx)
	if rest := r.ends.Sub(r.attempt.started); rest < left {
		left, cause = rest, errOutOfTime
	}
	l := &limit{Context: ctx, end: end, deadline: time.AfterFunc(left, func() { end(cause) })}
	r.limit.Store(l)
	return l
}

// lift lets the attempt take any time.
func (l *limit) lift() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lifted = true
	l.deadline.Stop()
	if l.more != nil {
		l.more.Stop()
	}
}

func (l *limit) cancel(cause error) {
	l.lift()
	l.end(cause)
}

// connTrace learns how far an attempt got.
type connTrace struct {
	asked, got atomic.Bool
	wrote      atomic.Bool // headers, all of them
	resent     atomic.Bool // another connection was got after that
	hopped     bool        // a redirect was followed: something was sent
	hooks      httptrace.ClientTrace
}

// unsent is proven by the hooks, where a connection was asked for and none was got;
// by the mark of a transport that refused by itself; or by what net/http says of a
// connection that it got. One that calls no hooks and sets no mark proves nothing.
func (t *connTrace) unsent(err error) bool {
	return !t.got.Load() && !t.hopped && (t.asked.Load() || isNotSent(err)) || t.provesUnsent(err)
}

// follow is the context under which requests are followed.
func (t *connTrace) follow(ctx context.Context) context.Context {
	t.hooks.GetConn = func(string) { t.asked.Store(true) }
	t.hooks.GotConn = func(httptrace.GotConnInfo) {
		t.got.Store(true)
		if t.wrote.Load() {
			t.resent.Store(true)
		}
	}
	t.hooks.WroteHeaders = func() { t.wrote.Store(true) }
	return httptrace.WithClientTrace(ctx, &t.hooks)
}

const maxHops = 5

// exchange sends the request and follows 307 and 308 within its origin: the same
// operation at another path. Authorize sees ctx.
func (r *run) exchange(ctx context.Context, req *http.Request, trace *connTrace) (*http.Response, error) {
	for hop := 0; ; hop++ {
		resp, err := r.base.RoundTrip(req)
		if err != nil || hop == maxHops {
			return resp, withoutQuery(err, req.URL)
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
		req, trace.hopped = next, true
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

// readAnswer reads the response's body within the limit. What is over it stays a
// stream for the caller, without the attempt's deadline.
func (r *run) readAnswer(limit *limit) {
	a := &r.attempt
	if a.resp.StatusCode == http.StatusSwitchingProtocols {
		// Nobody asked for it, and its body is the connection: it never ends.
		limit.lift()
		a.resp.Body.Close()
		limit.cancel(errEnded)
		a.resp.Body = http.NoBody
		return
	}
	var err error
	a.body, err = readUpTo(a.resp.Body, r.cfg.MaxResponseBody, a.resp.ContentLength)
	if int64(len(a.body)) > r.cfg.MaxResponseBody {
		a.partial = true
		err = r.readOn(a.resp.Body)
	}
	limit.lift()
	switch {
	case a.partial && err == nil:
		a.resp.Body = &stream{Reader: io.MultiReader(bytes.NewReader(a.whole), a.resp.Body), body: a.resp.Body, limit: limit}
		return
	case err != nil:
		if a.partial {
			a.partial, a.body = false, a.body[:r.cfg.MaxResponseBody]
		}
		a.cut = err
		if cause := context.Cause(limit); cause != nil {
			a.cut = cause
		}
	}
	a.resp.Body.Close()
	limit.cancel(errEnded)
	a.resp.Body = http.NoBody
}

// stream is the rest of an answer that is too large to record.
type stream struct {
	io.Reader
	body  io.Closer
	limit *limit
}

func (s *stream) Close() error {
	err := s.body.Close()
	s.limit.cancel(errEnded)
	return err
}
