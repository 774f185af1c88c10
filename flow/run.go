package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// run is one run through a flow's function under one claim.
type run struct {
	runner   *Runner
	core     *core.Core // the runner's, as store is
	store    machine.Flows
	function *function
	ref      onceward.Ref
	ctx      context.Context // the whole run's
	replays  bool            // the flow has ended: nothing is made or recorded any more
	parent   seam.Parent     // of the operations, without the step

	mu       sync.Mutex
	flow     journal.Flow
	recorded map[string]*journal.StepRecord // completed steps, by name
	undone   map[string]bool
	called   map[string][]string // the requested operations' IDs, by step
	seq      int                 // the latest record's
	saved    int                 // how many records in flow.Steps are known to be in the journal
	visited  map[string]bool
	making   map[*step]bool
	at       map[int]*journal.StepRecord // a recorded step at each position
	position int
	sequent  string // the step now being made in sequence
	failed   map[string]journal.StepRecord
	coped    map[string]coped
	undos    []undo
	fault    *fault
	over     bool      // the function has returned
	rests    time.Time // a provider asked for a pause until then, for a cancelled operation
}

// fault keeps a flow from its end, even if the function hides the error.
type fault struct {
	told  *Error
	final bool // no step is made any more, parallel ones neither
	fails bool // the run counts as a failure

	// The function cancelled the step's context itself, as an errgroup does. The reason for the cancellation counts.
	beside bool

	// The credential was refused or missing: the function can't give the flow up for this reason.
	refused bool

	due   time.Time
	waits onceward.Ref
	open  *onceward.Error // the awaited operation's
}

// place is where a context stands within a flow.
type place struct {
	run     *run
	section int      // the parallel section's position; 0: in none
	steps   []string // the section's steps
	step    *step    // nil: in none
}

type placeKey struct{}

// backgroundKey marks contexts for flows run by Resume and Run.
type backgroundKey struct{}

func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey{}).(*place)
	return p
}

// nameOf returns a record's step.
func nameOf(s *journal.StepRecord) string {
	if s.Kind == journal.StepCall {
		return stepOfCall(s.Name)
	}
	return s.Name
}

func (runner *Runner) newRun(f *journal.Flow, replays bool) *run {
	r := &run{
		runner: runner, core: runner.core, store: runner.store, ref: f.Ref, flow: *f, saved: len(f.Steps), replays: replays,
		parent: seam.Parent{Journal: runner.core.Journal, Scope: f.Scope, Ref: seam.ParentOf(f), Key: f.Key,
			Flow: journal.FlowRef{ID: f.ID, Parent: f.Parent, Handle: f.Handle}},
		recorded: map[string]*journal.StepRecord{}, undone: map[string]bool{}, called: map[string][]string{},
		visited: map[string]bool{}, making: map[*step]bool{}, at: map[int]*journal.StepRecord{}, failed: map[string]journal.StepRecord{}, coped: map[string]coped{},
	}
	for i := range f.Steps {
		s := &f.Steps[i]
		r.seq = max(r.seq, s.Seq)
		switch s.Kind {
		case journal.StepUndone:
			r.undone[s.Name] = true
		case journal.StepReturned, journal.StepGaveUp: // no steps
		case journal.StepFailed:
			r.coped[s.Name], r.recorded[s.Name] = coped{s.Result, r.coped[s.Name].times + 1}, s
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

// foreground runs the flow for a caller, and returns the result.
func (r *Runner) foreground(ctx context.Context, f *journal.Flow, function *function, replays bool) (result []byte, err error) {
	if f.Function.Name != "" {
		if function = r.known(f.Function); function == nil {
			return nil, unregistered(f)
		}
	}
	return r.newRun(f, replays).work(ctx, function)
}

// unregistered returns the error for a flow if this Runner does not know the flow's function.
func unregistered(f *journal.Flow) error {
	return &Error{Flow: flowOf(f), Kind: ErrUnregistered, Err: fmt.Errorf("it was begun as %s, version %d", f.Function.Name, f.Function.Version)}
}

// work runs the function and records the result. The claim ends in any case, even after the function's panic.
func (r *run) work(ctx context.Context, function *function) (result []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.core.Lifecycle.Life(), func() { cancel(onceward.ErrShutdown) })()
	if hook := r.runner.trace.Started; hook != nil {
		if traced := hook(ctx, r.look(), ctx.Value(backgroundKey{}) != nil); traced != nil {
			ctx = traced
		}
	}
	if hook := r.runner.trace.Ended; hook != nil {
		defer func() {
			hook(ctx, r.look())
		}()
	}
	r.function, r.ctx, r.parent.Background = function, ctx, ctx.Value(backgroundKey{}) != nil
	inside := r.within(ctx)
	ended := false
	defer func() {
		if !ended {
			r.close()
			_ = r.fail(ctx, &Error{Kind: ErrFailed, Err: errors.New("its function panicked")})
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
func (r *run) within(ctx context.Context) context.Context {
	return context.WithValue(r.under(ctx, nil), placeKey{}, &place{run: r})
}

// under names the calls below the returned context as the flow's, or a step's.
func (r *run) under(ctx context.Context, st *step) context.Context {
	p := r.parent
	if st != nil {
		p.Step = st
	}
	return naming.With(ctx, naming.Naming{Scope: p.Scope, Account: naming.Of(ctx).Account, Parent: &naming.Parent{
		Ref: p.Ref, Flow: &p, Invalid: onceward.Key(p.Key).Validate(),
		Derive: func(scope, step string) string { return naming.Child(p.Key, scope, step) },
	}})
}

// replayed returns the result for a flow that only runs through recorded steps.
func (r *run) replayed(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fault != nil:
		return r.tell(r.fault.told)
	case err != nil:
		return r.tell(&Error{Kind: ErrChanged, Err: fmt.Errorf("it has ended, and its function fails on the recorded steps (tell their errors apart by Reason): %w", err)})
	}
	return nil
}

// conclude records the function's result.
func (r *run) conclude(ctx context.Context, result []byte, err error) error {
	left := r.close()
	r.mu.Lock()
	f, missing := r.fault, r.unvisited(!r.flow.Undoing) // undoing asks what became of what was begun
	r.mu.Unlock()
	if f == nil && brokenOff(ctx, err, cmp.Or(missing, left)) {
		f = r.interruption(ctx, err)
	}
	if f == nil && left != "" && (err == nil || r.flow.Undoing) {
		f = &fault{fails: true, told: &Error{Step: left, Kind: ErrStep, Err: errors.New("its flow's function returned while it was made")}}
	}
	if r.flow.Undoing {
		return r.undo(ctx, f, missing)
	}
	if given, ok := errors.AsType[*giveUp](err); ok && (f == nil || !f.final && !f.refused) {
		return r.giveUp(ctx, given.err)
	}
	switch {
	case f != nil && f.fails:
		return r.fail(ctx, f.told)
	case f != nil && f.beside && err != nil:
		return r.fail(ctx, &Error{Kind: ErrFailed, Err: err})
	case f != nil:
		return r.park(ctx, f)
	case err == nil && missing != "":
		return r.fail(ctx, &Error{Step: missing, Kind: ErrChanged, Err: errors.New("it is recorded, and the function does not make it any more")})
	case err == nil:
		return r.finish(ctx, result)
	case errors.Is(err, onceward.ErrShutdown):
		return r.park(ctx, r.interruption(ctx, err))
	}
	if told, ok := errors.AsType[*Error](err); ok && (told.Kind == ErrInput || told.Kind == ErrStep) {
		return r.fail(ctx, told)
	}
	return r.fail(ctx, &Error{Kind: ErrFailed, Err: err})
}

// close stops the function's left goroutines from making or beginning anything more. close returns the name of a step
// made by such a goroutine. Empty means none.
func (r *run) close() (left string) {
	r.mu.Lock()
	r.over = true
	making := slices.Collect(maps.Keys(r.making))
	r.mu.Unlock()
	for _, st := range making {
		st.calls.end()
		left = st.name
	}
	return left
}

// brokenOff reports whether the context's end explains the function's return. The return then proves nothing about the
// flow. The function may have returned an error, given the flow up for that end, or left out a recorded step.
func brokenOff(ctx context.Context, err error, missing string) bool {
	if ctx.Err() == nil {
		return false
	}
	if given, ok := errors.AsType[*giveUp](err); ok {
		return missing != "" || errors.Is(given.err, ctx.Err()) || errors.Is(given.err, context.Cause(ctx))
	}
	return err != nil || missing != ""
}

// interruption returns the fault for a run broken off from outside.
func (r *run) interruption(ctx context.Context, err error) *fault {
	if cause := context.Cause(ctx); cause != nil && (err == nil || !errors.Is(err, cause)) {
		err = errors.Join(cause, err)
	}
	return &fault{told: &Error{Kind: onceward.ErrPending, Err: err}, final: true}
}

// unvisited returns a recorded step which the function did not make. With begunToo, a step with a begun operation counts
// as well. Empty means none.
func (r *run) unvisited(begunToo bool) string {
	for i := range r.flow.Steps {
		s := &r.flow.Steps[i]
		name := nameOf(s)
		begun := begunToo && s.Kind == journal.StepCall && s.Position != 0 // its operation may have taken effect
		done := s.Kind != journal.StepCall && s.Kind != journal.StepUndone && s.Kind != journal.StepFailed && r.recorded[name] != nil
		if (begun || done) && !r.visited[name] {
			return name
		}
	}
	return ""
}

func (r *run) finish(ctx context.Context, result []byte) error {
	r.mu.Lock()
	steps := slices.SortedFunc(maps.Values(r.failed), byPosition)
	r.mu.Unlock()
	if result != nil {
		steps = append(steps, journal.StepRecord{Kind: journal.StepReturned, Result: result, At: r.core.Now()})
	}
	r.number(steps)
	return r.end(ctx, machine.FlowEvent{Kind: machine.FlowEventFinish, Steps: steps}, nil)
}

func byPosition(a, b journal.StepRecord) int { return a.Position - b.Position }

// number gives records places in the flow's log.
func (r *run) number(steps []journal.StepRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range steps {
		r.seq++
		steps[i].Seq = r.seq
	}
}

// park makes the flow wait until f is due, or until the awaited operation has an outcome. If a provider asked for a
// longer pause with another, cancelled operation, no outcome makes the flow run earlier.
func (r *run) park(ctx context.Context, f *fault) error {
	due, waits := r.rested(f.due), f.waits
	if due.After(f.due) {
		waits = onceward.Ref{}
	}
	told := *f.told
	if f.open != nil && told.Err != nil {
		// The caller gets only the step's error text: the caller could mistake the wait for the error.
		told.Err = &recalled{text: told.Err.Error(), is: []error{f.open}}
	}
	return r.end(ctx, machine.FlowEvent{Kind: machine.FlowEventPark, Due: due, WaitsFor: waits, Cause: causeOf(f.told)}, &told)
}

// restsUntil keeps the flow from running before the provider's time. If a caller left during such a wait, the operation
// was cancelled and has no due time: the next run would send the operation at once.
func (r *run) restsUntil(asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if asked.After(r.rests) {
		r.rests = asked
	}
}

// rested returns the time for the flow's next run, which is not before due.
func (r *run) rested(due time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rests.After(due) {
		return r.rests
	}
	return due
}

func causeOf(told *Error) string {
	cause := told.Kind.Error()
	switch {
	case told.Err != nil && told.Kind == ErrChanged:
		cause += ": " + recordable(told.Err)
	case told.Err != nil:
		cause = recordable(told.Err)
	}
	if told.Step != "" {
		cause = "step " + told.Step + ": " + cause
	}
	return cause
}

func (r *run) fail(ctx context.Context, told *Error) error {
	policy := r.runner.backoff
	delays, pause := retry.NewDelays(policy), time.Duration(0)
	for range r.flow.Failures + 1 {
		pause = delays.Next()
	}
	limit := policy.MaxAttempts
	if told.Kind == ErrChanged {
		limit = 1 // the same function fails again, and a person has to know
	}
	return r.end(ctx, machine.FlowEvent{
		Kind: machine.FlowEventFail, Cause: causeOf(told), Due: r.rested(r.core.Now().Add(pause)), Limit: limit,
	}, told)
}

// end records the run's end. end tries again until the journal records the event, or until the session ends. Other
// processes may then take the flow.
func (r *run) end(ctx context.Context, ev machine.FlowEvent, told *Error) error {
	res, err := r.apply(ctx, ev)
	if err != nil {
		if told == nil {
			told = &Error{Kind: onceward.ErrJournal, Err: err}
		}
		return r.tell(told)
	}
	if res.Decision != machine.Recorded {
		return r.tell(&Error{Kind: onceward.ErrInFlight, Err: errors.New("the claim is no longer held")})
	}
	if res.Flow.State == StateWaiting {
		r.runner.wake()
	}
	r.left()
	if told == nil {
		return nil
	}
	return r.tell(told)
}

// apply records an event under the run's claim.
func (r *run) apply(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	ev = r.underClaim(ev)
	ending, cancel := grace.After(ctx)
	defer cancel()
	res, err := r.store.ApplyFlow(ending, ev)
	if err != nil {
		r.core.Observer.Log.ErrorContext(ctx, "the journal failed; the flow's result is kept in memory and recorded later",
			"event", "journal.failed", "flow", r.flow.ID, "journal_event", ev.Kind.String(), "error", err)
		r.runner.hands.take(r.ref)
		go r.insist(ev)
		return res, err
	}
	if res.Decision == machine.Recorded {
		r.mu.Lock()
		steps := append(slices.Clip(r.flow.Steps), ev.Steps...)
		r.flow = res.Flow
		r.flow.Steps = steps
		r.mu.Unlock()
	}
	return res, nil
}

func (r *run) underClaim(ev machine.FlowEvent) machine.FlowEvent {
	ev.Ref, ev.Handle, ev.Claim = r.flow.Ref, r.flow.Handle, r.flow.Claim
	ev.Session, ev.At = r.flow.Holder, r.core.Now()
	return ev
}

// insist tries until the event is recorded or rejected, or until Shutdown.
func (r *run) insist(ev machine.FlowEvent) {
	defer r.runner.hands.leave(r.ref)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		select {
		case <-time.After(pause):
		case <-r.core.Lifecycle.Closing():
			return
		}
		if _, err := r.store.ApplyFlow(context.Background(), ev); err == nil ||
			errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrInvalidEvent) {
			r.runner.wake()
			return
		}
	}
}

// tell completes an error from this run.
func (r *run) tell(told *Error) error {
	e := *told
	e.Flow = flowOf(&r.flow)
	return &e
}

// stop sets the run's fault: the first one, unless the next is final. stop is called under mu.
func (r *run) stop(f *fault) *Error {
	if r.fault == nil || f.final && !r.fault.final {
		r.fault = f
	}
	told := *f.told
	told.Flow = flowOf(&r.flow)
	return &told
}

// left tells logs and Trace that a run is over.
func (r *run) left() {
	f := &r.flow
	if f.State == StateSetAside {
		r.core.Observer.Log.Warn("a flow is set aside", "event", "flow.set_aside", "flow", f.ID, "scope", f.Scope, "cause", f.Cause, "failures", f.Failures)
	} else {
		r.core.Observer.Log.Debug("flow "+f.State.String(), "event", "flow.left", "flow", f.ID, "scope", f.Scope, "cause", f.Cause, "due", f.DueAt)
	}
	if r.runner.trace.Left != nil {
		r.runner.trace.Left(flowOf(f))
	}
}
