// Package run works off one claim on an operation: attempt, judge, record and answer. Package engine or background
// gets the claim from the journal.
package run

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// Run is one claim that is being worked off: the record at the claim's time, the attempt under way, and the
// operation's end. One goroutine works a run off. Shutdown reaches it by pauses and sending.
type Run struct {
	client *exchange.Client

	// The claim.
	ctx         context.Context // the caller's, or Resume's
	caller      *http.Request   // nil in the background
	op          journal.Operation
	last        time.Time // the journal's last time at the claim
	unconfirmed time.Time // when the clock, which has jumped, will be believed; zero: it is
	began       time.Time // by this process's own time
	idleSince   time.Time // by that, since when it is known that no attempt is under way
	flight      *core.Flight
	ends        time.Time // when the run has to be over
	notAfter    time.Time // until when it may be sent first: by the operation, or by who asks for it; zero: at any time

	// Its requests.
	route    *tables.Route
	target   *url.URL        // where the operation is sent to
	query    string          // the caller's withheld query parameters, encoded
	secrets  *tables.Secrets // of its body, which an answer may repeat; nil in the background
	composed *wire.Composed  // by the call, for the first attempt of an operation that it has begun; nil: there is none
	replaced bool            // the journal's key goes out instead of the one the request had

	// Its attempts.
	pauses   core.PauseContext                   // between two of them
	sending  atomic.Pointer[wire.AttemptContext] // of the one under way
	first    wire.AttemptContext                 // of the first one; each other has its own
	attempt  attempt                             // the last one
	answered *exchange.Response                  // by the provider to an earlier one
	stats    attemptStats
	delays   *retry.Delays
	asked    time.Time        // before which the provider asked not to be, at the last one
	wait     time.Duration    // before the next one
	until    time.Time        // the end of that
	mode     string           // of the credential that was sent; "" where it can't be told
	permit   *throttle.Permit // nil: a caller's own call

	end *ending // how the run ends; nil: it goes on

	// Of a run that only gets a completed operation's answer: see recover.
	heldBack bool
	Regained *exchange.Answer
	Missing  exchange.Missing
}

// attempt is one try and its result.
type attempt struct {
	started time.Time
	ctx     *wire.AttemptContext // nil: it was not made
	traced  context.Context      // made of ctx by Trace.AttemptStarted; nil: it was not
	local   error                // it was not made, because of this
	err     error                // the transport's own
	resp    *http.Response
	body    []byte // the part of the response's body that was read
	whole   []byte // partial: the part that was read to judge the answer
	cut     error  // why the body ended early
	lost    bool   // it was not made, because another process has the claim by now
	unsent  bool   // with err: proven that nothing left
	partial bool   // body is only its beginning: it is over the limit
	open    bool   // its missing or unreadable part may change the verdict
	closed  bool   // the rest of a partial body was given up
	judged  tables.Judgement
}

// attemptStats counts one run's attempts, and holds their results so far.
type attemptStats struct {
	made       int       // on the wire
	counted    int       // those that count against the policy
	departed   int       // those that are not proven unsent
	refused    int       // of these, those for whose refusal the provider registers no key
	ended      time.Time // when the last one ended
	mayHaveRun bool      // one of them may have run, or proved that an earlier one may have
	failed     bool      // one of them was answered by a failure that may have had an effect
	maybeSent  bool      // one of them is not proven unsent
	underWay   bool      // one is
	answered   bool      // one of them
	busy       bool      // the last answer was "in flight"

	declared time.Duration // machine.Event.Retention
}

// breakOff counts an attempt that a panic of a hook has ended. Such an attempt may have had any result.
func (t *attemptStats) breakOff() {
	t.mayHaveRun = t.mayHaveRun || t.underWay
	t.failed = t.failed || t.underWay
	t.maybeSent = t.maybeSent || t.underWay
}

// ending is a run's end, as it is recorded and returned to the caller.
type ending struct {
	kind    machine.EventKind
	own     bool // due is our own pause
	due     time.Time
	wake    time.Time // Run and Resume leave it alone until then, if that is later than due
	errKind error     // kind of Error instead of the response; nil: as the operation stands
	cause   string
	err     error
	answer  *journal.Answer
}

// kindFor returns the kind of the error instead of the response, or nil if the state gives it. An unknown operation may have
// taken effect, so no other kind may tell its caller to use another key.
func (e *ending) kindFor(state journal.State) error {
	if state == journal.StateUnknown {
		return nil
	}
	return e.errKind
}

// newRun makes a claim's run. The caller fills in the route, the target and the request.
func newRun(ctx context.Context, c *exchange.Client, res *machine.Result, f *core.Flight, ends time.Time) *Run {
	r := &Run{client: c, ctx: ctx, op: res.Operation, last: res.Last, unconfirmed: res.Unconfirmed, began: time.Now(), flight: f, ends: ends, notAfter: res.Operation.NotAfter}
	r.idleSince = c.Idle.Since(&r.op, r.began)
	r.pauses = c.Lifecycle.NewPauses(ctx)
	return r
}

// Start returns the run for a caller's operation that the journal has just allowed.
func Start(c *exchange.Client, res *machine.Result, f *core.Flight, req *exchange.Request) *Run {
	r := newRun(req.Context, c, res, f, req.Ends)
	r.caller, r.route, r.target, r.query, r.secrets, r.permit, r.heldBack = req.Caller, req.Route, req.Target, req.Query, req.Secrets, req.Permit, req.HeldBack
	intent := req.Intent
	if r.op.Request.Method == "" {
		r.op.Request = intent.Request
	} else if r.op.Request.URL != intent.Request.URL {
		r.target = core.Parsed(r.op.Request.URL)
	}
	if r.op.BodyWithheld {
		r.op.Request = wire.WithBody(r.op.Request, intent.Request, req.Body)
	}
	if r.op.Credential == intent.Credential { // which is salted: the record is for this call's request
		r.composed = req.Composed
	}
	r.replaced = req.Carried != "" && r.op.Key != "" && req.Carried != r.op.Key
	// The operation stays pending then for other callers, who set no such time. A person who resolved it by SendAgain ends the limit.
	by, again := intent.NotAfter, r.op.Resolved != nil && r.op.Resolved.Resolution == journal.SendAgain
	if !by.IsZero() && !again && (r.notAfter.IsZero() || by.Before(r.notAfter)) {
		r.notAfter = by
	}
	return r
}

// NotBefore returns two times: asked, when the provider allows the next request, and wake, when Run and Resume come back to the
// operation. A time is zero if none was set.
func (r *Run) NotBefore() (asked, wake time.Time) {
	if r.end != nil {
		wake = r.end.wake
	}
	return r.asked, wake
}

// Pauses returns the run's pauses, for core.Lifecycle, as BreakOff is.
func (r *Run) Pauses() *core.PauseContext { return &r.pauses }

// BreakOff ends the attempt that is under way.
func (r *Run) BreakOff(cause error) {
	if l := r.sending.Load(); l != nil {
		l.Cancel(cause)
	}
}
