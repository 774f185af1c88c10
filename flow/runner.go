package flow

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// Config configures a Runner. The zero Config works.
type Config struct {
	// Definitions are the functions of the flows that Resume and Run can run: see Define. Runner.Register adds more.
	Definitions []Definition

	// Backoff sets the delay before a failed flow runs again. MaxAttempts is the number of failures in a row that set
	// the flow aside. Default: up to 1 second at first, up to 10 minutes later, and 10 failures.
	Backoff backoff.Policy

	Trace *Trace // nil: none
}

// Trace is a set of hooks, in the manner of net/http/httptrace. Any may be nil. They are called synchronously, some
// of them concurrently, and must return soon. They receive no secret, header or body, except for the results of
// steps.
type Trace struct {
	// Parent returns the W3C traceparent of a flow's caller, which a new flow keeps (Flow.Trace). Empty means none.
	// Neither tracestate nor baggage is kept.
	Parent func(ctx context.Context) string

	// Started is called before a run of the flow's function, or of its undoing. It returns the context of that run,
	// which has to be derived from ctx. The hooks below that have a context get it. background says that Resume or
	// Run made the run.
	Started func(ctx context.Context, f Flow, background bool) context.Context

	// Ended is called once for each Started, with the flow after that run.
	Ended func(ctx context.Context, f Flow)

	// StepStarted is called before a step is made, but not for a step whose result is recorded. It returns the
	// context of the step, which has to be derived from ctx.
	StepStarted func(ctx context.Context, f Flow, step string) context.Context

	// StepEnded is called once for each StepStarted, with the error of the step.
	StepEnded func(ctx context.Context, f Flow, step string, err error)

	// Stepped is called when a step is done, or undone, and noted. The record has its result.
	Stepped func(Flow, StepRecord)

	// Left is called after a run of a flow, which is now finished, waiting, set aside or given up.
	Left func(Flow)
}

// Runner runs the flows of a client's journal. It is safe for concurrent use. It needs no end of its own: the
// client's Shutdown waits for running flows.
type Runner struct {
	client  *onceward.Client
	core    *core.Core // of client
	store   machine.Flows
	backoff backoff.Policy
	trace   Trace
	wakes   chan struct{} // tells Run that a flow is due earlier than it knew

	mu        sync.RWMutex
	functions map[journal.FlowFunction]*function
	names     []journal.FlowFunction // of the functions, in the order of their registration
	retried   int                    // with how many functions retryChanged was done last, and one more

	hands hands
}

// New makes the Runner of a client. A client has one. From then on the client's Resume and Run also run flows that
// were interrupted or are due, if their functions are registered. The journal has to keep flows, as this
// module's do. The error says what is wrong and how to mend it.
func New(client *onceward.Client, cfg Config) (*Runner, error) {
	r := &Runner{
		client: client, core: core.Of(client), backoff: withDefaults(cfg.Backoff), wakes: make(chan struct{}, 1),
		functions: map[journal.FlowFunction]*function{}, hands: hands{asked: map[onceward.Ref]int{}, run: map[onceward.Ref]int{}},
	}
	if err := r.backoff.Validate(); err != nil {
		return nil, fmt.Errorf("onceward: flow.Config.Backoff: %w", err)
	}
	if cfg.Trace != nil {
		r.trace = *cfg.Trace
	}
	var ok bool
	if r.store, ok = r.core.Journal.(machine.Flows); !ok {
		return nil, errors.New("onceward: the client's journal keeps no flows")
	}
	if err := r.Register(cfg.Definitions...); err != nil {
		return nil, err
	}
	if err := r.core.Flows.Attach(&background{r}); err != nil {
		return nil, fmt.Errorf("onceward: %w", err)
	}
	return r, nil
}

// Register adds functions to the Runner's, and makes Run look for flows that wait for them. After an error none of
// them is added.
func (r *Runner) Register(definitions ...Definition) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var added []*function
	for _, definition := range definitions {
		if definition == nil {
			return errors.New("onceward: register a flow: a definition is nil")
		}
		f := definition.function()
		isTwice := func(other *function) bool { return other.FlowFunction == f.FlowFunction }
		switch {
		case f.Name == "":
			return errors.New("onceward: register a flow: a function has no name")
		case f.Version < 1:
			return fmt.Errorf("onceward: register a flow: %s has version %d; versions count from 1", f.Name, f.Version)
		case f.unfit != "":
			return fmt.Errorf("onceward: register a flow: %s, version %d: %s", f.Name, f.Version, f.unfit)
		case r.functions[f.FlowFunction] != nil, slices.ContainsFunc(added, isTwice):
			return fmt.Errorf("onceward: register a flow: %s, version %d, is there twice", f.Name, f.Version)
		}
		added = append(added, f)
	}
	for _, f := range added {
		r.functions[f.FlowFunction] = f
		r.names = append(r.names, f.FlowFunction)
	}
	r.wake()
	return nil
}

// known is a registered function, or nil.
func (r *Runner) known(name journal.FlowFunction) *function {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.functions[name]
}

// registered are the names of all known functions.
func (r *Runner) registered() []journal.FlowFunction {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.names
}

func (r *Runner) wake() {
	select {
	case r.wakes <- struct{}{}:
	default:
	}
}

// withDefaults fills in the defaults of Config.Backoff.
func withDefaults(p backoff.Policy) backoff.Policy {
	p.Initial = cmp.Or(p.Initial, time.Second)
	p.Max = cmp.Or(p.Max, max(10*time.Minute, p.Initial))
	p.MaxAttempts = cmp.Or(p.MaxAttempts, 10)
	return p
}

// Do runs a function of several steps, and resumes it by name. The function do makes its calls in steps (see [Step]).
// Each step is made once, even if this process dies. The flow's name is id, within the scope of ctx and under its
// parent, if it has one. The input is recorded as JSON. The same name with another input is [onceward.ErrKeyReused].
//
// Do returns nil once do has returned nil. After a crash or an error, the next call runs do again. Recorded steps
// then return their recorded results, and are not made again. So put everything into a step that has an effect or may
// come out differently the next time. In a finished flow, do only runs through the recorded steps.
//
// The error is an *Error:
//   - onceward.ErrPending, ErrOutcomeUnknown, ErrInFlight: an operation of a step has no outcome yet, or another
//     caller runs the flow, or ctx ended while it began. Call again once the flow is due.
//   - ErrFailed: do failed, and its error is in the chain. A call before the flow is due returns onceward.ErrPending.
//     After Config.Backoff's number of failures in a row it is ErrSetAside.
//   - ErrChanged: do does not make the recorded steps.
//   - ErrGivenUp: the flow was given up, and its steps are undone. See GiveUp.
//   - onceward.ErrKeyReused, ErrAnswerGone, ErrJournal, ErrJournalRestored, ErrShutdown: as for an operation.
//
// Resume and Run can't run a flow whose function they don't know, and report it. Define and register the function if
// no caller may ask again.
func (r *Runner) Do(ctx context.Context, id string, input any, do func(context.Context) error) error {
	encoded, err := json.Marshal(input)
	if err != nil {
		ref, _, _, _ := r.name(ctx, id)
		return &Error{Flow: Flow{Ref: ref}, Kind: ErrInput, Err: err}
	}
	_, err = r.runByName(ctx, id, encoded, &function{run: func(ctx context.Context, _ []byte) ([]byte, error) { return nil, do(ctx) }})
	return err
}

// runByName begins the flow, waits while another caller runs it, and runs it. It returns the function's result as
// JSON.
func (r *Runner) runByName(ctx context.Context, id string, input []byte, function *function) (result []byte, err error) {
	ask, err := r.ask(ctx, id, input, function)
	if err != nil {
		return nil, err
	}
	if err := r.core.Lifecycle.Enter(); err != nil {
		return nil, ask.fail(onceward.ErrShutdown, nil)
	}
	defer r.core.Lifecycle.Leave()
	ends := r.core.EndOfWait(ctx)
	for poll := 5 * time.Millisecond; ; {
		res, err := ask.begin(ctx)
		if err != nil {
			return nil, err
		}
		f := &res.Flow
		switch res.Decision {
		case machine.Execute, machine.Replay:
			if result := returned(f.Steps); result != nil && res.Decision == machine.Replay {
				return result, nil
			}
			if res.Decision == machine.Execute {
				defer r.hands.leave(f.Ref)
			}
			return r.foreground(ctx, f, function, res.Decision == machine.Replay)
		case machine.Later:
			if !ask.event.Sooner && r.hasOutcome(ctx, f.WaitsFor) {
				ask.event.Sooner = true
				continue
			}
			return nil, &Error{Flow: flowOf(f), Kind: onceward.ErrPending}
		case machine.Wait:
			if !r.core.Sleep(ctx, poll, ends) {
				cause := context.Cause(ctx)
				if r.isClosing() {
					cause = onceward.ErrShutdown
				}
				return nil, &Error{Flow: flowOf(f), Kind: onceward.ErrInFlight, Err: cause}
			}
			poll = min(2*poll, 250*time.Millisecond)
		case machine.Ignored:
			return nil, unregistered(f)
		default:
			failed := &Error{Flow: flowOf(f), Kind: kindOf(f, res.Decision)}
			if failed.Kind == ErrGivenUp {
				if whole, err := r.store.GetFlow(ctx, f.Ref); err == nil {
					failed.Flow, failed.Err = flowOf(&whole), gaveUpFor(whole.Steps)
				}
			}
			return nil, failed
		}
	}
}

// name returns the reference of the flow with that id under ctx, and its key. The reference is returned with an error too.
func (r *Runner) name(ctx context.Context, id string) (ref onceward.Ref, key, inboundEndpoint string, err error) {
	n := naming.Of(ctx)
	n.ID, n.Named = id, true
	n, unsettled := n.BelowInbound()
	ref = onceward.Ref{Scope: n.Scope, ID: id}
	if err := cmp.Or(unsettled, n.Check()); err != nil {
		return ref, "", "", err
	}
	switch {
	case n.Parent != nil:
		ref.Parent, inboundEndpoint = n.Parent.Ref, n.Parent.Endpoint
		key = n.Parent.Derive(n.Scope, "flow\n"+id)
	case r.core.Secret != nil:
		key = naming.Derive(r.core.Secret, "flow", n.Scope, id)
	default:
		key = naming.NewKey()
	}
	return ref, key, inboundEndpoint, nil
}

// isClosing reports whether no new work is begun.
func (r *Runner) isClosing() bool {
	select {
	case <-r.core.Lifecycle.Closing():
		return true
	default:
		return false
	}
}

// kindOf returns the kind of the error for a flow that is not to be run.
func kindOf(f *journal.Flow, decision machine.Decision) error {
	switch {
	case decision == machine.Misuse:
		return onceward.ErrKeyReused
	case decision == machine.Gone:
		return onceward.ErrAnswerGone
	case f.State == journal.FlowStateGivenUp:
		return ErrGivenUp
	}
	return ErrSetAside
}

// ask is a caller's request for a flow.
type ask struct {
	runner *Runner
	event  machine.FlowEvent
}

func (r *Runner) ask(ctx context.Context, id string, input []byte, function *function) (*ask, error) {
	ref, key, endpoint, err := r.name(ctx, id)
	digest := sha256.Sum256(input)
	a := &ask{r, machine.FlowEvent{
		Kind: machine.FlowEventBegin, Ref: ref, Function: function.FlowFunction,
		Key: key, Input: input, InputDigest: "v1:" + hex.EncodeToString(digest[:]),
		InboundEndpoint: endpoint, Functions: r.registered(),
	}}
	if hook := r.trace.Parent; hook != nil {
		a.event.Trace = seam.TraceParent(hook(ctx))
	}
	if placeOf(ctx) != nil {
		return nil, a.fail(ErrStep, errors.New("a flow can't begin in another flow: make its steps there, or begin it with another context"))
	}
	if err != nil {
		return nil, a.fail(onceward.ErrInvalidRequest, err)
	}
	return a, nil
}

func (a *ask) fail(kind, cause error) error {
	ev := &a.event
	return &Error{Flow: Flow{Ref: ev.Ref, Function: ev.Function.Name, Version: ev.Function.Version}, Kind: kind, Err: cause}
}

// begin asks the journal. If the decision is Execute, the caller holds the flow.
func (a *ask) begin(ctx context.Context) (res machine.FlowResult, err error) {
	if seam.IsInTransaction(ctx) { // the journal may wait for its end
		return res, a.fail(onceward.ErrOpenTransaction, nil)
	}
	left := false
	err = a.runner.core.Session.Do(ctx, func(session string) (err error) {
		a.event.Session, a.event.At = session, a.runner.core.Now()
		res, left, err = a.apply(ctx, a.event)
		return err
	})
	switch {
	case err == nil:
		_ = isEarlier(ctx, &res.Flow) // package server then refuses the inbound request
		return res, nil
	case left:
		return res, a.fail(onceward.ErrInFlight, context.Cause(ctx))
	case ctx.Err() != nil:
		return res, a.fail(onceward.ErrJournal, context.Cause(ctx))
	case errors.Is(err, journal.ErrRestored):
		return res, a.fail(onceward.ErrJournalRestored, err)
	}
	return res, a.fail(onceward.ErrJournal, err)
}

// apply waits for the journal no longer than ctx lasts. left says that it did not wait for the end. The journal does
// not get ctx: otherwise a claim could be recorded after its caller left, and would block the flow for the life of
// this process.
func (a *ask) apply(ctx context.Context, ev machine.FlowEvent) (res machine.FlowResult, left bool, err error) {
	if ctx.Err() != nil {
		return res, false, ctx.Err()
	}
	type told struct {
		res machine.FlowResult
		err error
	}
	r, answers := a.runner, make(chan told)
	r.core.Lifecycle.Stay()
	go func() {
		defer r.core.Lifecycle.Leave()
		defer func() { r.core.Survived(recover()) }()
		done := r.hands.ask(ev.Ref)
		res, err := r.store.ApplyFlow(context.WithoutCancel(ctx), ev)
		held := err == nil && res.Decision == machine.Execute
		done(held)
		r.doubted(ev.Session, err)
		select {
		case answers <- told{res, err}:
		case <-ctx.Done():
			if held {
				defer r.hands.leave(ev.Ref)
				r.handBack(&res.Flow)
			}
		}
	}()
	select {
	case t := <-answers:
		return t.res, false, t.err
	case <-ctx.Done():
		return res, true, ctx.Err()
	}
}

// hasOutcome reports whether the flow need not wait for an operation any more.
func (r *Runner) hasOutcome(ctx context.Context, ref onceward.Ref) bool {
	if ref == (onceward.Ref{}) {
		return false
	}
	op, err := r.core.Journal.Get(ctx, ref)
	return errors.Is(err, journal.ErrNotFound) || err == nil &&
		(op.State.Settled() || op.State == journal.StatePending && !op.DueAt.After(r.core.Now()))
}
