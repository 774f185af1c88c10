package onceward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
)

// flowRun is one run of a flow's function under one claim.
type flowRun struct {
	*Client
	store    journal.Flows
	function *flowFunction
	ref      Ref
	ctx      context.Context // the whole run's
	replays  bool            // the flow came to its end: nothing is made or recorded any more
	steps    *parent         // under which a step's operations stand, but for the step

	mu       sync.Mutex
	flow     journal.Flow
	recorded map[string]*journal.StepRecord // completed steps, by name
	undone   map[string]bool
	called   map[string][]string // IDs of the operations that were asked for, by step
	seq      int                 // of the latest record
	riding   []journal.StepRecord
	visited  map[string]bool
	at       map[int]*journal.StepRecord // one of the recorded steps at each position
	position int
	sequent  string // the step that is being made, of those that come one after another
	failed   map[string]journal.StepRecord
	undos    []undo
	fault    *fault
	over     bool // the function has returned
}

// fault is what keeps a flow from its end, whatever its function makes of the error.
type fault struct {
	told  *FlowError
	final bool // no step is made any more, parallel ones neither
	fails bool // the run counts as a failure

	// The function cancelled the step's context itself, as an errgroup does: what it
	// did so for is what counts.
	beside bool

	due   time.Time
	waits Ref
}

// place is where a context stands within a flow.
type place struct {
	run     *flowRun
	section int      // position of the parallel section; 0: in none
	steps   []string // that may be made in it
	step    *step    // nil: in none
}

var placeKey = &contextKey{"place"}

func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey).(*place)
	return p
}

// flowParent begins the Ref.Parent of a flow's operations. It holds a space, so that
// none equals a key.
const flowParent = "flow"

// isOfFlow tells whether a Ref.Parent is that of a flow's operations.
func isOfFlow(parent string) bool {
	return strings.HasPrefix(parent, flowParent) && strings.Contains(parent, " ")
}

// operationsOf is what stands in the Ref.Parent of a flow's operations: its name or,
// where it has a parent itself, its key, under which no stranger can put anything.
func operationsOf(f *journal.Flow) string {
	if f.Parent == "" {
		return flowParent + " " + f.ID
	}
	return flowParent + ", key " + f.Key
}

// nameOf is the step that a record belongs to.
func nameOf(s *journal.StepRecord) string {
	if s.Kind == journal.StepCall {
		return stepOfCall(s.Name)
	}
	return s.Name
}

func (c *Client) newFlowRun(f *journal.Flow, replays bool) *flowRun {
	key := Key(f.Key)
	r := &flowRun{
		Client: c, store: c.journal.(journal.Flows), ref: f.Ref, flow: *f, replays: replays,
		recorded: map[string]*journal.StepRecord{}, undone: map[string]bool{}, called: map[string][]string{},
		visited: map[string]bool{}, at: map[int]*journal.StepRecord{}, failed: map[string]journal.StepRecord{},
	}
	r.steps = &parent{key: key, ref: operationsOf(f), derive: func(scope, step string) (Key, error) { return key.childIn(scope, step), nil }, run: r}
	for i := range f.Steps {
		s := &f.Steps[i]
		r.seq = max(r.seq, s.Seq)
		switch s.Kind {
		case journal.StepUndone:
			r.undone[s.Name] = true
		case journal.StepReturned, journal.StepGaveUp: // no steps
		case journal.StepCall:
			step := nameOf(s)
			r.called[step] = append(r.called[step], s.Name)
			if r.at[s.Position] == nil && s.Position != 0 {
				r.at[s.Position] = &journal.StepRecord{Name: step, Position: s.Position, Parallel: s.Parallel}
			}
		default:
			r.recorded[s.Name], r.at[s.Position] = s, s
		}
	}
	return r
}

// foregroundFlow runs the flow for a caller, who gets what comes of it.
func (c *Client) foregroundFlow(ctx context.Context, f *journal.Flow, function *flowFunction, replays bool) (result []byte, err error) {
	if f.Function.Name != "" {
		if function = c.functions[f.Function]; function == nil {
			return nil, c.putBack(f)
		}
	}
	return c.newFlowRun(f, replays).work(ctx, function)
}

// putBack leaves a flow to somebody who has its function.
func (c *Client) putBack(f *journal.Flow) error {
	told := &FlowError{Flow: flowOf(f), Kind: ErrFlowUnregistered,
		Err: fmt.Errorf("it was begun as %s, version %d", f.Function.Name, f.Function.Version)}
	if f.State == FlowRunning {
		r := c.newFlowRun(f, false)
		r.end(context.Background(), journal.FlowEvent{Kind: journal.FlowPark, Cause: told.Err.Error()}, told)
	}
	return told
}

// work runs the function and records what comes of it. However it is left, a panic of
// the function's included, the claim ends.
func (r *flowRun) work(ctx context.Context, function *flowFunction) (result []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.life, func() { cancel(ErrShutdown) })()
	r.function, r.ctx = function, ctx
	inside := r.within(ctx)
	ended := false
	defer func() {
		if !ended {
			_ = r.fail(ctx, &FlowError{Kind: ErrFlowFailed, Err: errors.New("its function panicked")})
		}
	}()
	result, err = function.run(inside, r.flow.Input)
	if r.replays {
		err = r.replayed(err)
	} else {
		err = r.conclude(ctx, result, err)
	}
	ended = true
	if err != nil {
		return nil, err
	}
	return result, nil
}

// within is a context for the flow's function.
func (r *flowRun) within(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, namingKey, naming{scope: r.ref.Scope, parent: r.steps})
	return context.WithValue(ctx, placeKey, &place{run: r})
}

// replayed is what comes of a flow that is only run through its recorded steps.
func (r *flowRun) replayed(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fault != nil:
		return r.tell(r.fault.told)
	case err != nil:
		return r.tell(&FlowError{Kind: ErrFlowChanged, Err: fmt.Errorf("it came to its end, and fails when it is run through its recorded steps, in which an error of its own is found by its Reason: %w", err)})
	}
	return nil
}

// conclude records what came of the function.
func (r *flowRun) conclude(ctx context.Context, result []byte, err error) error {
	r.mu.Lock()
	f, missing := r.fault, r.unvisited(!r.flow.Undoing) // undoing asks what became of what was begun
	r.over = true
	r.mu.Unlock()
	if f == nil && brokenOff(ctx, err, missing) {
		f = r.interruption(ctx, err)
	}
	if r.flow.Undoing {
		return r.undo(ctx, f, missing)
	}
	if given, ok := errors.AsType[*giveUp](err); ok && (f == nil || !f.final) {
		return r.giveUp(ctx, given.err)
	}
	switch {
	case f != nil && f.fails:
		return r.fail(ctx, f.told)
	case f != nil && f.beside && err != nil:
		return r.fail(ctx, &FlowError{Kind: ErrFlowFailed, Err: err})
	case f != nil:
		return r.park(ctx, f)
	case err == nil && missing != "":
		return r.fail(ctx, &FlowError{Step: missing, Kind: ErrFlowChanged, Err: errors.New("it is recorded, and the function does not make it any more")})
	case err == nil:
		return r.finish(ctx, result)
	case errors.Is(err, ErrShutdown):
		return r.park(ctx, r.interruption(ctx, err))
	}
	if told, ok := errors.AsType[*FlowError](err); ok && (told.Kind == ErrFlowInput || told.Kind == ErrStep) {
		return r.fail(ctx, told)
	}
	return r.fail(ctx, &FlowError{Kind: ErrFlowFailed, Err: err})
}

// brokenOff tells whether what a function returned is owed to the end of its context, which
// says nothing of the flow: an error, or the wish to give it up for that very end, or a step
// that is recorded and not made any more.
func brokenOff(ctx context.Context, err error, missing string) bool {
	if ctx.Err() == nil {
		return false
	}
	if given, ok := errors.AsType[*giveUp](err); ok {
		return missing != "" || errors.Is(given.err, ctx.Err()) || errors.Is(given.err, context.Cause(ctx))
	}
	return err != nil || missing != ""
}

// interruption is for a run that was broken off from outside.
func (r *flowRun) interruption(ctx context.Context, err error) *fault {
	if cause := context.Cause(ctx); cause != nil && (err == nil || !errors.Is(err, cause)) {
		err = errors.Join(cause, err)
	}
	return &fault{told: &FlowError{Kind: ErrPending, Err: err}, final: true}
}

// unvisited names a step that the function did not make though it is recorded or, with
// begunToo, an operation of it was begun; "": there is none.
func (r *flowRun) unvisited(begunToo bool) string {
	for i := range r.flow.Steps {
		s := &r.flow.Steps[i]
		name := nameOf(s)
		begun := begunToo && s.Kind == journal.StepCall && s.Position != 0 // its operation may have taken effect
		done := s.Kind != journal.StepCall && s.Kind != journal.StepUndone && r.recorded[name] != nil
		if (begun || done) && !r.visited[name] {
			return name
		}
	}
	return ""
}

func (r *flowRun) finish(ctx context.Context, result []byte) error {
	r.mu.Lock()
	var steps []journal.StepRecord
	for _, s := range r.failed {
		steps = append(steps, s)
	}
	slices.SortFunc(steps, func(a, b journal.StepRecord) int { return a.Position - b.Position })
	if result != nil {
		steps = append(steps, journal.StepRecord{Kind: journal.StepReturned, Result: result, At: r.now()})
	}
	for i := range steps {
		r.seq++
		steps[i].Seq = r.seq
	}
	r.mu.Unlock()
	return r.end(ctx, journal.FlowEvent{Kind: journal.FlowFinish, Steps: steps}, nil)
}

func (r *flowRun) park(ctx context.Context, f *fault) error {
	return r.end(ctx, journal.FlowEvent{Kind: journal.FlowPark, Due: f.due, WaitsFor: f.waits, Cause: causeOf(f.told)}, f.told)
}

func causeOf(told *FlowError) string {
	cause := told.Kind.Error()
	if told.Err != nil {
		cause = recordable(told.Err)
	}
	if told.Step != "" {
		cause = "step " + told.Step + ": " + cause
	}
	return cause
}

func (r *flowRun) fail(ctx context.Context, told *FlowError) error {
	policy := r.cfg.FlowBackoff
	delays, pause := policy.Start(), time.Duration(0)
	for range r.flow.Failures + 1 {
		pause = delays.Next()
	}
	return r.end(ctx, journal.FlowEvent{
		Kind: journal.FlowFail, Cause: causeOf(told), Due: r.now().Add(pause), Limit: policy.MaxAttempts,
	}, told)
}

// end records the end of the run. What can't be recorded is tried again until it is,
// or until the session ends, and the flow with it is there for others.
func (r *flowRun) end(ctx context.Context, ev journal.FlowEvent, told *FlowError) error {
	res, err := r.apply(ctx, ev)
	if err != nil {
		if told == nil {
			told = &FlowError{Kind: ErrJournal, Err: err}
		}
		return r.tell(told)
	}
	if res.Decision != journal.Recorded {
		return r.tell(&FlowError{Kind: ErrInFlight, Err: errors.New("the claim is no longer held")})
	}
	if res.Flow.State == FlowWaiting {
		r.wakeFlows()
	}
	r.flowLeft()
	if told == nil {
		return nil
	}
	return r.tell(told)
}

// apply records an event under the run's claim.
func (r *flowRun) apply(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	ev = r.underClaim(ev)
	res, err := r.store.ApplyFlow(context.WithoutCancel(ctx), ev)
	if err != nil {
		r.log.Error("the journal failed; what came of a flow is kept in memory and tried again", "flow", r.flow.ID, "event", ev.Kind.String(), "error", err)
		go r.insist(ev)
		return res, err
	}
	if res.Decision == journal.Recorded {
		r.mu.Lock()
		steps := append(slices.Clip(r.flow.Steps), ev.Steps...)
		r.flow = res.Flow
		r.flow.Steps = steps
		r.mu.Unlock()
	}
	return res, nil
}

func (r *flowRun) underClaim(ev journal.FlowEvent) journal.FlowEvent {
	ev.Ref, ev.Handle, ev.Claim = r.flow.Ref, r.flow.Handle, r.flow.Claim
	ev.Session, ev.At = r.flow.Holder, r.now()
	return ev
}

// insist ends with the event recorded or refused, or at Shutdown.
func (r *flowRun) insist(ev journal.FlowEvent) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		select {
		case <-time.After(pause):
		case <-r.closing:
			return
		}
		if _, err := r.store.ApplyFlow(context.Background(), ev); err == nil ||
			errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrInvalidEvent) {
			r.wakeFlows()
			return
		}
	}
}

// tell completes an error of this run.
func (r *flowRun) tell(told *FlowError) error {
	e := *told
	e.Flow = flowOf(&r.flow)
	return &e
}

// stop sets what keeps the flow from its end: the first that does, unless the next is
// final. It is called under mu.
func (r *flowRun) stop(f *fault) *FlowError {
	if r.fault == nil || f.final && !r.fault.final {
		r.fault = f
	}
	told := *f.told
	told.Flow = flowOf(&r.flow)
	return &told
}

// flowLeft tells logs and Trace that a run is over.
func (r *flowRun) flowLeft() {
	f := &r.flow
	if f.State == FlowSetAside {
		r.log.Warn("a flow is set aside", "flow", f.ID, "scope", f.Scope, "cause", f.Cause, "failures", f.Failures)
	} else {
		r.log.Debug("flow "+f.State.String(), "flow", f.ID, "scope", f.Scope, "cause", f.Cause, "due", f.DueAt)
	}
	if r.trace.FlowLeft != nil {
		r.trace.FlowLeft(flowOf(f))
	}
}

// flowBackoff fills in the defaults of Config.FlowBackoff.
func flowBackoff(p backoff.Policy) backoff.Policy {
	if p.Initial == 0 {
		p.Initial = time.Second
	}
	if p.Max == 0 {
		p.Max = max(10*time.Minute, p.Initial)
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = 10
	}
	return p
}
