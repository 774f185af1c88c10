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
	stop     context.CancelFunc                      // ends waiting: there is no further attempt
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
