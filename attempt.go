package onceward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// run is one claim being worked off: its attempts, and what becomes of it.
type run struct {
	*Client
	ctx      context.Context // the caller's, or Resume's
	asker    *http.Request   // nil in the background
	op       journal.Operation
	last     time.Time // the journal's last time at the claim
	route    providers.Route
	flight   *flight
	ends     time.Time // when the run has to be over
	target   *url.URL  // where the operation is sent to
	query    string    // the asker's withheld query parameters, encoded
	replaced bool      // the journal's key goes out instead of the one the request had
	waiting  context.Context
	stop     context.CancelFunc                      // ends waiting
	broken   atomic.Pointer[context.CancelCauseFunc] // breaks the attempt off

	delays   *backoff.Delays
	attempts int  // on the wire
	counted  int  // those that count against the policy
	open     bool // one of them may have run, or proved that an earlier one may have
	sent     bool // one of them is not proven unsent
	flying   bool // one is under way
	attempt  attempt
	wait     time.Duration // before the next one
	end      *ending       // how the run ends; nil: it goes on
}

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
	cut     error  // why the body ended early
	judged  providers.Judgement
}

// ending is what is to be recorded at the end of a run, and told to the caller.
type ending struct {
	kind   journal.EventKind
	due    time.Time
	busy   bool
	told   error // kind of Error instead of the response; nil: as the operation stands
	cause  string
	err    error
	answer *journal.Answer
}

// foreground works the claim off for a caller, who gets what comes of it.
func (r *run) foreground() (*http.Response, error) {
	res, e := r.work()
	op := &res.Operation
	r.deliverOnReturn(op)
	err := &Error{Operation: operationOf(op), Kind: kindOf(op.State), Err: e.err, target: target(r.op.Request.Method, r.target)}
	if res.Decision != journal.Recorded {
		// The claim was no longer this run's: what is recorded is what counts.
		if op.State == journal.Completed && replayable(op) {
			return replay(r.asker, op, r.deliverer(op)), nil
		}
		return nil, err
	}
	if e.told != nil {
		err.Kind = e.told
		return nil, err
	}
	if a := &r.attempt; a.resp != nil && (a.cut == nil || op.State == journal.Completed) {
		return r.respond(op), nil
	}
	return nil, err
}

// kindOf is what a caller is told of an operation without an answer.
func kindOf(s journal.State) error {
	switch s {
	case journal.Cancelled:
		return ErrNotSent
	case journal.Unknown:
		return ErrOutcomeUnknown
	case journal.InFlight:
		return ErrInFlight
	case journal.Completed:
		return ErrAnswerGone
	}
	return ErrPending
}

// work attempts the operation until its end is decided, and records that. However
// it is left, a hook's panic included, the claim ends.
func (r *run) work() (res journal.Result, e *ending) {
	r.begin()
	defer r.over()
	defer func() {
		if r.end == nil {
			r.open = r.open || r.flying
			r.sent = r.sent || r.flying
			r.park(r.now(), "a hook panicked", nil)
			res = r.record()
		}
		r.flights.land(r.op.Ref, r.flight, &res.Operation)
	}()
	if r.replaced && r.trace.KeyReplaced != nil {
		r.trace.KeyReplaced(operationOf(&r.op))
	}
	if r.trace.Begun != nil {
		r.trace.Begun(operationOf(&r.op))
	}
	if r.end == nil {
		r.loop()
	}
	res = r.record()
	return res, r.end
}

func (r *run) begin() {
	r.waiting, r.stop = context.WithCancel(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[r] = struct{}{}
	if r.shutdown {
		r.stop()
	}
}

func (r *run) over() {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, r)
}

// stopWaiting keeps the run from another attempt.
func (r *run) stopWaiting() { r.stop() }

// breakOff ends the attempt that is under way.
func (r *run) breakOff(cause error) {
	if cancel := r.broken.Load(); cancel != nil {
		(*cancel)(cause)
	}
}

// loop lets go-retryablehttp make the attempts. Its callbacks only carry out what
// judge decided: it hands them neither the request nor an intact response.
func (r *run) loop() {
	engine := retryablehttp.Client{
		HTTPClient: &http.Client{Transport: (*wire)(r), CheckRedirect: answerRedirect},
		RetryMax:   math.MaxInt,
		CheckRetry: func(context.Context, *http.Response, error) (bool, error) {
			r.classify()
			r.judge()
			r.flying = false
			return r.end == nil, nil
		},
		Backoff: func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return r.wait },
		ErrorHandler: func(*http.Response, error, int) (*http.Response, error) {
			return nil, errEnded
		},
	}
	req := (&http.Request{Method: r.op.Request.Method, URL: r.target, Header: http.Header{}}).WithContext(r.waiting)
	// What it returns is known from the attempt already.
	_, _ = engine.Do(&retryablehttp.Request{Request: req})
	if r.end == nil {
		r.interrupted(r.wait)
	}
}

var errEnded = errors.New("onceward: the run has ended")

func answerRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// wire is the run as the RoundTripper below go-retryablehttp. It has no
// CloseIdleConnections, since the pool below is the caller's.
type wire run

// RoundTrip makes one attempt. It ignores the request it gets: what is sent is
// what was frozen.
func (w *wire) RoundTrip(*http.Request) (*http.Response, error) {
	r := (*run)(w)
	r.attempt = attempt{}
	a := &r.attempt
	if a.local = r.mayGoOn(); a.local != nil {
		return nil, a.local
	}
	a.started = r.now()
	ctx, stop := r.attemptContext()
	req, err := r.compose(ctx, r.target)
	if err != nil {
		stop(errEnded)
		a.local = err
		return nil, err
	}
	r.attempts++
	trace := &connTrace{}
	r.flying = true
	a.resp, a.err = r.exchange(req, trace)
	if a.err != nil {
		a.unsent = trace.unsent(a.err)
		r.sent = r.sent || !a.unsent
		if cause := context.Cause(ctx); cause != nil {
			a.err = cause
		}
		stop(errEnded)
	} else {
		r.sent = true
		r.readAnswer(ctx, stop)
	}
	return a.resp, a.err
}

// mayGoOn tells why an attempt must not be made, if it must not.
func (r *run) mayGoOn() error {
	if err := r.waiting.Err(); err != nil {
		return errInterrupted
	}
	if !r.now().Before(r.ends) {
		return errOutOfTime
	}
	if r.attempts == 0 {
		return nil
	}
	op, err := r.journal.Get(r.waiting, r.op.Ref)
	if err != nil {
		return fmt.Errorf("the claim can't be checked: %w", err)
	}
	if op.State != journal.InFlight || op.Claim != r.op.Claim {
		r.attempt.lost = true
		return errors.New("the claim is no longer held")
	}
	return nil
}

var (
	errInterrupted    = errors.New("it was interrupted")
	errAttemptTimeout = fmt.Errorf("the attempt took longer than Config.AttemptTimeout: %w", context.DeadlineExceeded)
	errOutOfTime      = fmt.Errorf("the call's time is up: %w", context.DeadlineExceeded)
)

// attemptContext is the caller's context with the attempt's own deadline, which
// stop lifts with a nil cause. It names no operation.
func (r *run) attemptContext() (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(withoutNaming(r.ctx))
	r.broken.Store(&cancel)
	limit, cause := r.cfg.AttemptTimeout, errAttemptTimeout
	if left := r.ends.Sub(r.now()); left < limit {
		limit, cause = left, errOutOfTime
	}
	timer := time.AfterFunc(limit, func() { cancel(cause) })
	return ctx, func(err error) {
		timer.Stop()
		if err != nil {
			cancel(err)
		}
	}
}

// compose makes the request of one attempt: what was frozen, the asker's
// credentials, those that Authorize adds, and the key.
func (r *run) compose(ctx context.Context, to *url.URL) (*http.Request, error) {
	frozen := &r.op.Request
	u := *to
	if r.query != "" {
		u.RawQuery = joinQuery(u.RawQuery, r.query)
	}
	req := (&http.Request{
		Method: frozen.Method,
		URL:    &u,
		Host:   frozen.Host,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(frozen.Header)+4),
		Close:  r.asker != nil && r.asker.Close,
	}).WithContext(ctx)
	for name, values := range frozen.Header {
		req.Header[name] = values[:len(values):len(values)]
	}
	if r.asker != nil {
		for name, values := range r.asker.Header {
			if secret.Header(name) && !isKeyHeader(r.route, name) {
				req.Header[name] = values[:len(values):len(values)]
			}
		}
	} else if jar := r.cfg.HTTPClient.Jar; jar != nil {
		for _, cookie := range jar.Cookies(&u) {
			req.AddCookie(cookie)
		}
	}
	if r.cfg.Authorize != nil && r.route.Listed {
		if err := r.cfg.Authorize(req); err != nil {
			return nil, fmt.Errorf("Config.Authorize: %w", err)
		}
		if req.Method != frozen.Method || req.URL.Scheme != to.Scheme || req.URL.Host != to.Host || req.URL.Path != to.Path {
			return nil, errors.New("Config.Authorize changed more than headers and the query")
		}
		req = req.WithContext(ctx)
	}
	if missing := missingCredential(frozen, req); missing != "" {
		return nil, fmt.Errorf("%w: %s", ErrCredentialMissing, missing)
	}
	if r.op.Credential != "" && !sameCredential(r.op.Credential, req) {
		return nil, errCredentialChanged
	}
	if r.op.Key != "" {
		if err := r.route.Endpoint.Key.Set(req.Header, r.op.Key); err != nil {
			return nil, err
		}
	}
	setBody(req, frozen.Body)
	return req, nil
}

// setBody gives each attempt a reader of its own. GetBody stays nil and an empty
// body is not http.NoBody, since net/http would else send a request with an
// Idempotency-Key again by itself when a kept-alive connection turns out dead.
func setBody(req *http.Request, body []byte) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.GetBody = nil
	req.ContentLength = int64(len(body))
	if len(body) > 0 {
		return
	}
	// Over HTTP/1.1 net/http would send a body of unknown length chunked, and as
	// "identity" without any length, which some servers refuse with 411. It leaves
	// out a Content-Length of ours, but not in this spelling; over HTTP/2 it needs none.
	req.TransferEncoding = []string{"identity"}
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		req.Header["content-length"] = []string{"0"}
	}
}

func joinQuery(a, b string) string {
	if a == "" {
		return b
	}
	return a + "&" + b
}

// missingCredential names a header or query parameter that carried a credential
// when the operation was begun and is not in req. Cookies are never required.
func missingCredential(frozen *journal.Request, req *http.Request) string {
	for _, name := range frozen.WithheldHeaders {
		if name != "Cookie" && !carries(req.Header, name) {
			return "header " + name
		}
	}
	if len(frozen.WithheldQuery) > 0 {
		_, _, names := secret.SplitQuery(req.URL.RawQuery)
		for _, name := range frozen.WithheldQuery {
			if !slices.Contains(names, name) {
				return "query parameter " + name
			}
		}
	}
	return ""
}

// carries looks for a header in whatever spelling a caller has put it there.
func carries(h http.Header, name string) bool {
	if len(h[name]) > 0 {
		return true
	}
	for spelt, values := range h {
		if len(values) > 0 && strings.EqualFold(spelt, name) {
			return true
		}
	}
	return false
}

// connTrace learns whether an attempt got as far as a connection.
type connTrace struct {
	asked, got atomic.Bool
	hopped     bool // a redirect was followed: something was sent
}

// unsent is proven by the hooks, where a connection was asked for and none was got,
// or by the mark of a transport that refused by itself. One that calls no hooks and
// sets no mark proves nothing.
func (t *connTrace) unsent(err error) bool {
	return !t.got.Load() && !t.hopped && (t.asked.Load() || isNotSent(err))
}

func (t *connTrace) follow(req *http.Request) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.got.Store(true) },
	}))
}

const maxHops = 5

// exchange sends the request and follows 307 and 308 within its origin: the same
// operation at another path.
func (r *run) exchange(req *http.Request, trace *connTrace) (*http.Response, error) {
	for hop := 0; ; hop++ {
		resp, err := r.base.RoundTrip(trace.follow(req))
		if err != nil || hop == maxHops {
			return resp, withoutQuery(err, req.URL)
		}
		to := sameOrigin(req, resp)
		if to == nil {
			return resp, nil
		}
		next, err := r.compose(req.Context(), to)
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
func (r *run) readAnswer(ctx context.Context, stop func(error)) {
	a := &r.attempt
	if a.resp.StatusCode == http.StatusSwitchingProtocols {
		// Nobody asked for it, and its body is the connection: it never ends.
		stop(nil)
		a.resp.Body.Close()
		stop(errEnded)
		a.resp.Body = http.NoBody
		return
	}
	limit := r.cfg.MaxResponseBody
	var err error
	a.body, err = readUpTo(a.resp.Body, limit, a.resp.ContentLength)
	stop(nil)
	switch {
	case int64(len(a.body)) > limit:
		a.partial = true
		a.resp.Body = &stream{Reader: io.MultiReader(bytes.NewReader(a.body), a.resp.Body), body: a.resp.Body, stop: stop}
		return
	case err != nil:
		a.cut = err
		if cause := context.Cause(ctx); cause != nil {
			a.cut = cause
		}
	}
	a.resp.Body.Close()
	stop(errEnded)
	a.resp.Body = http.NoBody
}

// stream is the rest of an answer that is too large to record.
type stream struct {
	io.Reader
	body io.Closer
	stop func(error)
}

func (s *stream) Close() error {
	err := s.body.Close()
	s.stop(errEnded)
	return err
}

// classify asks the provider's table what an answer means.
func (r *run) classify() {
	a := &r.attempt
	if a.local != nil {
		return
	}
	if a.err == nil {
		answer := providers.Answer{Status: a.resp.StatusCode, Header: a.resp.Header, Later: r.mayHaveRun()}
		if a.cut == nil {
			answer.Body = a.body
		}
		a.judged = r.route.Classify(answer)
	}
	r.attempted()
}

// judge decides after an attempt whether there is another, and how the run ends if
// there is none.
func (r *run) judge() {
	a := &r.attempt
	before := r.mayHaveRun()
	switch {
	case a.lost:
		r.end = &ending{kind: journal.EventPark, cause: "the claim was taken over"}
		return
	case a.local != nil:
		r.judgeLocal(a.local)
		return
	case a.err != nil:
		r.open = r.open || !a.unsent
		r.again(false, describe(a.err, a.unsent), a.err)
		return
	}
	if a.judged.Earlier && !before {
		// Somebody else sent this key: a lost journal, another host, a proxy.
		r.open = true
		if !r.comparesRequests() && !r.madeKey() {
			r.doubt("the answer belongs to an earlier request under this key, and the provider does not compare requests", nil)
			r.end.told = ErrOutcomeUnknown // the answer may be to another request
			return
		}
	}
	status := fmt.Sprintf("status %d", a.resp.StatusCode)
	switch a.judged.Verdict {
	case providers.Final, providers.AlreadyDone:
		r.budget().Success(r.now())
		if a.cut != nil {
			r.open = true
			r.again(false, status+", body cut short", a.cut)
			return
		}
		r.complete()
	case providers.Rejected:
		r.end = &ending{kind: journal.EventCancel, due: r.now().Add(r.pause()), cause: status + ": refused"}
	case providers.NotExecuted:
		r.again(false, status, nil)
	case providers.InFlight:
		r.open = true
		r.again(true, status+": in flight at the provider", nil)
	case providers.Misuse:
		if r.mayHaveRun() || !r.madeKey() && !r.op.KeyCarried {
			r.doubt(status+": the key was used for another request", nil)
		} else {
			r.end = &ending{kind: journal.EventCancel, cause: status + ": the key was used for another request"}
		}
		r.end.told = ErrKeyReused
	case providers.Indeterminate:
		r.doubt(status+": does not say whether it happened", nil)
	default:
		r.open = true
		r.again(false, status, a.cut)
	}
}

// judgeLocal is for an attempt that was not made.
func (r *run) judgeLocal(err error) {
	if errors.Is(err, errInterrupted) {
		r.interrupted(0)
		return
	}
	r.end = &ending{kind: journal.EventCancel, due: r.now().Add(r.pause()), cause: describe(err, true), err: err}
	if r.asker == nil {
		r.end.kind = journal.EventPark
	}
	if errors.Is(err, errOutOfTime) {
		r.end.due = r.now()
	}
	if errors.Is(err, errCredentialChanged) && r.mayHaveRun() {
		r.doubt(err.Error(), err)
	}
	if errors.Is(err, ErrCredentialMissing) {
		r.end.told, r.end.cause = ErrCredentialMissing, err.Error()
	}
}

// interrupted ends a run whose context ended, or whose client shuts down, between
// two attempts: after the caller's own wish the operation is due at once.
func (r *run) interrupted(wait time.Duration) {
	if r.attempt.partial {
		r.attempt.resp = nil // its rest was given up for the next attempt
	}
	if r.ctx.Err() == nil {
		r.park(r.now().Add(wait), "the client was shut down", ErrShutdown)
		return
	}
	r.end = &ending{kind: journal.EventCancel, due: r.now(), cause: "its caller gave up", err: context.Cause(r.ctx)}
}

// mayHaveRun is what the resend rule is asked with while the claim lives: what it
// found, and what its own attempts left open.
func (r *run) mayHaveRun() bool { return r.op.Found.MayHaveRun || r.open }

// again decides on another attempt. busy: the provider is still working on an
// earlier one of ours, which does not count.
func (r *run) again(busy bool, cause string, err error) {
	policy := r.cfg.Backoff.WithDefaults()
	if !busy {
		r.counted++
	}
	now := r.now()
	at := now.Add(r.delay(policy))
	switch {
	case r.ctx.Err() != nil:
		r.end = &ending{kind: journal.EventCancel, due: now, cause: "its caller gave up; " + cause, err: context.Cause(r.ctx)}
		return
	case r.counted >= policy.MaxAttempts:
		at = laterOf(at, now.Add(r.pause()))
		cause = "out of attempts: " + cause
	}
	switch p := journal.MaySend(r.question(at)); p.Answer {
	case journal.Never:
		if r.attempt.cut != nil && r.finalByStatus() {
			r.complete()
			return
		}
		r.doubt(cause+"; "+p.Reason, err)
		return
	case journal.NotBefore:
		at = laterOf(at, p.At)
	}
	if r.counted >= policy.MaxAttempts || at.After(r.ends) || r.waiting.Err() != nil {
		r.park(at, cause, err)
		r.end.busy = busy
		return
	}
	if !busy {
		if ok, next := r.budget().Take(now); !ok {
			// It was local: the provider was not asked.
			r.park(laterOf(at, next), "the retry budget is used up: "+cause, ErrRetryBudget)
			return
		}
	}
	r.wait = at.Sub(now)
	if r.trace.Delayed != nil {
		r.trace.Delayed(operationOf(&r.op), r.wait)
	}
}

// budget is shared by all operations with the provider.
func (r *run) budget() *backoff.Bucket {
	if r.route.Listed {
		return r.budgets[r.route.Provider.Name]
	}
	return r.budgets[""]
}

// delay is what the provider asks for, else the policy's.
func (r *run) delay(policy backoff.Policy) time.Duration {
	if r.delays == nil {
		r.delays = policy.Start()
	}
	own := r.delays.Next()
	if r.attempt.resp != nil {
		if asked, ok := backoff.RetryAfter(r.attempt.resp.Header, r.now(), policy.MaxRetryAfter); ok {
			return asked
		}
	}
	return own
}

// pause is how long an operation rests once a call has used up its attempts:
// longer the more there were, from the policy's longest delay up to an hour.
func (r *run) pause() time.Duration {
	policy := r.cfg.Backoff.WithDefaults()
	rounds := (r.op.Attempts + r.attempts) / policy.MaxAttempts
	return min(policy.Max<<min(rounds, 12), max(time.Hour, policy.Max))
}

func (r *run) question(at time.Time) journal.Question {
	ended := r.op.LastEndedAt
	if r.sent {
		ended = laterOf(r.now(), r.last)
	}
	return journal.Question{
		MayHaveRun:   r.mayHaveRun(),
		Terms:        r.op.Terms,
		FirstSentAt:  r.op.FirstSentAt,
		LastEndedAt:  ended,
		WindowClosed: r.op.WindowClosed,
		Clock:        at,
		Last:         r.last,
		Idempotent: r.asker != nil && r.op.Naming == journal.Generated && r.op.Key == "" &&
			(r.op.Request.Method == http.MethodPut || r.op.Request.Method == http.MethodDelete),
	}
}

func (r *run) park(due time.Time, cause string, err error) {
	r.end = &ending{kind: journal.EventPark, due: due, cause: cause, err: err}
}

func (r *run) doubt(cause string, err error) {
	r.end = &ending{kind: journal.EventDoubt, cause: cause, err: err}
}

func (r *run) complete() {
	a := &r.attempt
	answer := &journal.Answer{
		Status:  a.resp.StatusCode,
		Header:  recordedHeader(a.resp.Header),
		Trailer: recordedHeader(a.resp.Trailer),
		Body:    a.body,
		Cut:     a.cut != nil,
		Refused: a.resp.StatusCode >= 400,
		Pointer: a.judged.Pointer,
	}
	if a.judged.Verdict == providers.AlreadyDone {
		answer.Refused = false
	}
	if a.partial || r.route.Endpoint.SecretResponse {
		answer.Body, answer.Omitted = nil, true
	}
	r.end = &ending{kind: journal.EventComplete, answer: answer}
}

func recordedHeader(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	kept := make(http.Header, len(h))
	for name, values := range h {
		if !secret.Header(name) {
			kept[name] = values
		}
	}
	return kept
}

// finalByStatus tells whether the status line and headers of a cut answer alone
// are the operation's answer.
func (r *run) finalByStatus() bool {
	v := r.attempt.judged.Verdict
	return v == providers.Final || v == providers.AlreadyDone
}

// comparesRequests tells whether the provider refuses a key that is used with
// another request: it has a documented answer for that.
func (r *run) comparesRequests() bool {
	for i := range r.route.Endpoint.Rules {
		if r.route.Endpoint.Rules[i].Verdict == providers.Misuse {
			return true
		}
	}
	return false
}

// madeKey tells whether the key was made here and at random, so that nobody else
// can have used it.
func (r *run) madeKey() bool {
	id, err := uuid.Parse(r.op.Key)
	return !r.op.KeyCarried && err == nil && id.Version() == 4
}

// record writes the end of the run to the journal. What can't be written is kept
// and tried again; the caller gets what it would have got.
func (r *run) record() journal.Result {
	e := r.end
	ev := journal.Event{
		Kind:       e.kind,
		Ref:        r.op.Ref,
		Handle:     r.op.Handle,
		At:         r.now(),
		Session:    r.op.Holder,
		Claim:      r.op.Claim,
		Generation: r.op.Generation,
		Answer:     e.answer,
		Due:        e.due,
		Cause:      e.cause,
		Attempts:   r.attempts,
		Open:       r.open,
		Unsent:     !r.sent,
		Busy:       e.busy,
		Told:       r.asker != nil,
		Delivered:  r.cfg.OnSettled == nil,
	}
	res, err := r.journal.Apply(context.WithoutCancel(r.ctx), ev)
	if err != nil {
		op, decision, impossible := journal.Next(r.op, true, ev)
		if impossible != nil {
			err = errors.Join(err, impossible)
		}
		res = journal.Result{Operation: op, Decision: decision}
		r.keep(ev, op, err)
	}
	if res.Operation.Request.Method == "" {
		res.Operation.Request = r.op.Request
	}
	if e.answer != nil && res.Decision == journal.Recorded {
		res.Operation.Answer = e.answer
	}
	r.recorded(res)
	return res
}

// recorded tells the world what was recorded.
func (r *run) recorded(res journal.Result) {
	op := &res.Operation
	if r.end.answer != nil && (res.Decision == journal.Replay || res.Decision == journal.SecondEffect || res.Decision == journal.Gone) {
		second := res.Decision == journal.SecondEffect
		r.note(slog.LevelWarn, "a second answer came", op, "status", r.end.answer.Status, "second_effect", second)
		if r.trace.Conflicted != nil {
			r.trace.Conflicted(operationOf(op), r.end.answer.Status, second)
		}
	}
	if op.State == journal.Pending {
		r.wake()
	}
	r.left(op, r.attempt.judged.Replayed)
}

// left tells logs and Trace that a call is done with an operation.
func (c *Client) left(op *journal.Operation, replayed bool) {
	switch op.State {
	case journal.Completed:
		c.note(slog.LevelDebug, "completed", op, "attempts", op.Attempts, "replayed", replayed)
	case journal.Unknown:
		c.note(slog.LevelWarn, "outcome unknown", op, "cause", op.Cause)
	default:
		c.note(slog.LevelInfo, op.State.String(), op, "cause", op.Cause, "due", op.DueAt)
	}
	if c.trace.Left != nil {
		told := operationOf(op)
		told.Replayed, told.Answer = replayed, nil
		c.trace.Left(told)
	}
}

func (r *run) attempted() {
	a := &r.attempt
	done := Attempt{Number: r.attempts, Verdict: a.judged.Verdict, Unsent: a.unsent, Err: a.err, Duration: r.now().Sub(a.started)}
	if a.resp != nil {
		done.Status = a.resp.StatusCode
	}
	r.note(slog.LevelDebug, "attempt", &r.op, "number", done.Number, "status", done.Status, "unsent", done.Unsent, "error", done.Err)
	if r.trace.Attempted != nil {
		r.trace.Attempted(operationOf(&r.op), done)
	}
}

// describe is what the journal keeps of an error: its nature, never its text,
// which may hold anything.
func describe(err error, unsent bool) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errAttemptTimeout), errors.Is(err, errOutOfTime):
		return "timed out"
	case errors.Is(err, ErrShutdown):
		return "broken off by shutdown"
	case unsent && isNotSent(err):
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

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
