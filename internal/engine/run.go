package engine

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// run is one claim that is being worked off: the record at the time of the claim, the attempt under way, and the
// operation's end. One goroutine works a run off. Shutdown reaches it by pauses and sending.
type run struct {
	engine *Engine

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
	answered *Response                           // by the provider to an earlier one
	tally    tally
	delays   *retry.Delays
	asked    time.Time        // before which the provider asked not to be, at the last one
	wait     time.Duration    // before the next one
	until    time.Time        // the end of that
	mode     string           // of the credential that was sent; "" where it can't be told
	permit   *throttle.Permit // nil: a caller's own call

	end *ending // how the run ends; nil: it goes on

	// Of a run that only gets a completed operation's answer: see recover.
	heldBack bool
	regained *Answer
	missing  missing
}

// tally counts the attempts of one run, and holds their results so far.
type tally struct {
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

// breakOff counts the attempt that a panic of a hook has ended as one that may have done
// anything.
func (t *tally) breakOff() {
	t.mayHaveRun = t.mayHaveRun || t.underWay
	t.failed = t.failed || t.underWay
	t.maybeSent = t.maybeSent || t.underWay
}

// newRun works off what the journal has just let be sent. Its route and target are the
// caller's to fill in, and whose request it is.
func newRun(ctx context.Context, e *Engine, res *machine.Result, f *core.Flight, ends time.Time) *run {
	r := &run{engine: e, ctx: ctx, op: res.Operation, last: res.Last, unconfirmed: res.Unconfirmed, began: time.Now(), flight: f, ends: ends, notAfter: res.Operation.NotAfter}
	r.idleSince = e.Idle.Since(&r.op, r.began)
	r.pauses = e.Lifecycle.NewPauses(ctx)
	return r
}

// ending is the end of a run, as it is recorded and returned to the caller.
type ending struct {
	kind    machine.EventKind
	own     bool // due is a pause of our own making
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

// Pauses returns the run's pauses, for core.Lifecycle, as BreakOff is.
func (r *run) Pauses() *core.PauseContext { return &r.pauses }

// BreakOff ends the attempt that is under way.
func (r *run) BreakOff(cause error) {
	if l := r.sending.Load(); l != nil {
		l.Cancel(cause)
	}
}
