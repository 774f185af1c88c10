package onceward

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// run is one claim being worked off: its attempts, and what becomes of it.
type run struct {
	*Client
	ctx   context.Context // the caller's, or Resume's
	asker *http.Request   // nil in the background
	op    journal.Operation
	last  time.Time // the journal's last time at the claim

	unconfirmed time.Time // when the clock, which has jumped, will be believed; zero: it is

	route    providers.Route
	flight   *flight
	ends     time.Time       // when the run has to be over
	target   *url.URL        // where the operation is sent to
	query    string          // the asker's withheld query parameters, encoded
	hides    bool            // its answer is a secret that is not kept
	replaced bool            // the journal's key goes out instead of the one the request had
	merged   context.Context // of waits; nil until one was asked for its end, as is stop
	stop     context.CancelFunc
	limit    atomic.Pointer[limit] // of the attempt under way

	delays   *backoff.Delays
	attempts int       // on the wire
	counted  int       // those that count against the policy
	open     bool      // one of them may have run, or proved that an earlier one may have
	failed   bool      // one of them was answered by a failure that may have had an effect
	sent     bool      // one of them is not proven unsent
	departed int       // those that are not
	refused  int       // of these, those for whose refusal the provider registers no key
	flying   bool      // one is under way
	ended    time.Time // when the last one ended
	attempt  attempt
	answered *Response     // by the provider to the last attempt before this one, or an earlier one
	mode     string        // of the credential that was sent; "" where it can't be told
	probe    []string      // of rests: what the attempt under way finds out
	rested   time.Time     // until when the credential rests that was refused
	asked    time.Time     // before which the provider asked not to be, at the last one
	wait     time.Duration // before the next one
	end      *ending       // how the run ends; nil: it goes on
	engine   engine
}

// engine is what go-retryablehttp is given to make the attempts.
type engine struct {
	retryablehttp.Client
	attempts http.Client
	req      retryablehttp.Request
}

// ending is what is to be recorded at the end of a run, and told to the caller.
type ending struct {
	kind   journal.EventKind
	due    time.Time
	own    bool      // due is a pause of our own making
	wake   time.Time // Run and Resume leave it alone until then, if that is later than due
	busy   bool
	told   error // kind of Error instead of the response; nil: as the operation stands
	cause  string
	err    error
	answer *journal.Answer
}

// foreground works the claim off for a caller, who gets what comes of it.
func (r *run) foreground() (*http.Response, error) {
	res, e := r.work()
	op, a := &res.Operation, &r.attempt
	r.deliverOnReturn(op)
	kind := kindOf(op.State)
	switch {
	case res.Decision != journal.Recorded:
		// The claim was no longer this run's: what is recorded is what counts.
		if op.State == journal.Completed && replayable(op) {
			return replay(r.asker, op, r.deliverer(op)), nil
		}
	case e.told != nil:
		kind = e.told
	case r.isOutcome(op):
		return r.respond(op), nil
	}
	a.discard()
	var differs []string
	if e.err == errModeChanged {
		differs = []string{"mode"}
	}
	return nil, &Error{
		Differs:   differs,
		Operation: operationOf(op), Kind: kind, Err: e.err, Response: r.lastResponse(),
		InBackground: op.State == journal.Pending && r.inBackground(op, &r.op.Request),
		target:       target(r.op.Request.Method, r.target),
	}
}

// isOutcome tells whether the last attempt's answer is the operation's: it was recorded
// as that, or was a refusal, nothing may have taken effect, and the operation is
// cancelled. Whoever got another, a refusal of a later attempt for one, would take it
// for the outcome, and pay by another name.
func (r *run) isOutcome(op *journal.Operation) bool {
	a := &r.attempt
	switch op.State {
	case journal.Completed:
		return true
	case journal.Cancelled:
		return a.resp != nil && a.cut == nil && !a.closed && r.end.answer == nil
	}
	return false
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
	defer func() { r.flights.land(r.flight, &res.Operation) }() // whatever hooks do meanwhile
	defer func() {
		r.endProbe()
		if r.end == nil {
			r.open, r.failed = r.open || r.flying, r.failed || r.flying
			r.sent = r.sent || r.flying
			r.park(r.now(), "a hook panicked", nil)
			res = r.record()
		}
		if r.asker == nil {
			r.attempt.discard()
		}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[r] = struct{}{}
}

func (r *run) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, r)
	if r.stop != nil {
		r.stop()
	}
}

// breakOff ends the attempt that is under way.
func (r *run) breakOff(cause error) {
	if l := r.limit.Load(); l != nil {
		l.cancel(cause)
	}
}

// loop lets go-retryablehttp make the attempts. Its callbacks only carry out what
// judge decided: it hands them neither the request nor an intact response.
func (r *run) loop() {
	engine := &r.engine
	engine.attempts = http.Client{Transport: (*wire)(r), CheckRedirect: answerRedirect}
	engine.Client = retryablehttp.Client{
		HTTPClient: &engine.attempts,
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
	engine.req.Request = (&http.Request{Method: r.op.Request.Method, URL: r.target, Header: noHeader}).WithContext((*waits)(r))
	// What it returns is known from the attempt already.
	_, _ = engine.Do(&engine.req)
	if r.end == nil {
		r.interrupted(r.wait)
	}
}

// noHeader is what wire ignores, and nobody writes to.
var noHeader = http.Header{}

var errEnded = errors.New("onceward: the run has ended")

func answerRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
