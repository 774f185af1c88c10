package onceward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/onceward/onceward/journal"
)

// FlowState is where a flow stands.
type FlowState = journal.FlowState

// The states of a flow.
const (
	FlowRunning  = journal.FlowRunning  // its function runs, or its process died
	FlowWaiting  = journal.FlowWaiting  // it goes on at a time
	FlowFinished = journal.FlowFinished // its function came to its end
	FlowGivenUp  = journal.FlowGivenUp  // given up, and its steps are undone
	FlowSetAside = journal.FlowSetAside // it failed too often; see RetryFlow and GiveUpFlow
)

// StepRecord is one thing that a flow has behind it: mostly a completed step, by name,
// with what it returned as JSON.
type StepRecord = journal.StepRecord

// FlowFailure is one failed run of a flow.
type FlowFailure = journal.FlowFailure

// Flow is what a client knows of one flow.
type Flow struct {
	Ref
	Function   string // name of the registered function; "" for one of Client.Flow
	Version    int
	State      FlowState
	Undoing    bool   // it is being given up
	GivenUpFor string // why
	CreatedAt  time.Time
	EndedAt    time.Time
	DueAt      time.Time // waiting: not run before this
	WaitsFor   Ref       // waiting: for this operation's outcome; zero: for none
	Cause      string    // why it waits or is set aside
	Failures   int       // in a row
	History    []FlowFailure
	Steps      []StepRecord // in the order in which they were recorded
	Result     []byte       // finished: what a function of DefineFlow returned, as JSON

	operations string // Ref.Parent of its operations
}

func flowOf(f *journal.Flow) Flow {
	return Flow{
		Ref: f.Ref, Function: f.Function.Name, Version: f.Function.Version, State: f.State, Undoing: f.Undoing, GivenUpFor: f.GivenUpFor,
		CreatedAt: f.CreatedAt, EndedAt: f.EndedAt, DueAt: f.DueAt, WaitsFor: f.WaitsFor, Cause: f.Cause,
		Failures: f.Failures, History: f.History, Steps: f.Steps, Result: returned(f.Steps), operations: operationsOf(f),
	}
}

// Operation names the operation that a step made without a name: see Client.Lookup.
func (f Flow) Operation(step string) Ref {
	return Ref{Scope: f.Scope, Parent: f.operations, ID: step}
}

// String draws how far it has come: "started → create → charge → finished".
func (f Flow) String() string {
	path := []string{"started"}
	for _, s := range f.Steps {
		switch s.Kind {
		case journal.StepDone, journal.StepLocal, journal.StepTime, journal.StepUUID:
			path = append(path, s.Name)
		case journal.StepByHand:
			path = append(path, s.Name+" by hand")
		case journal.StepUndone:
			path = append(path, "undone "+s.Name)
		}
	}
	if f.State != FlowRunning {
		path = append(path, strings.ReplaceAll(f.State.String(), "_", " "))
	}
	return strings.Join(path, " → ")
}

// Flow runs a function of several steps that is resumed by name: do makes its calls in
// steps (see Step), each of which is made once, whatever happens to this process. id
// is the flow's name, within the scope of ctx and under its parent, if it has one;
// input is what it is of, recorded as JSON: asking again for the name with another
// input is ErrKeyReused.
//
// Flow returns nil once do came to its end. Who asks for a flow again after a crash, or
// after an error, has do run again: steps that are recorded return what they returned
// then and are not made again. So do everything that has an effect, or may come out
// differently the next time, in a step. A flow that came to its end is run through its
// recorded steps, and nothing is made any more.
//
// The error is a *FlowError:
//   - ErrPending, ErrOutcomeUnknown, ErrInFlight: an operation of a step has no outcome
//     yet, or somebody else runs the flow. It goes on when it is asked for again once
//     it is due.
//   - ErrFlowFailed: do failed; its error is in the chain. Asked for again before it is
//     due, the flow is ErrPending; after Config.FlowBackoff's number of failures in a
//     row it is ErrFlowSetAside.
//   - ErrFlowChanged: do does not make the steps that are recorded.
//   - ErrFlowGivenUp: it was given up, and what was made is undone. See GiveUp.
//   - ErrKeyReused, ErrAnswerGone, ErrJournal, ErrJournalRestored, ErrShutdown as for an
//     operation.
//
// Resume and Run can't run a flow whose function they don't know: they report it.
// Register it by DefineFlow where nobody asks again.
func (c *Client) Flow(ctx context.Context, id string, input any, do func(context.Context) error) error {
	encoded, err := json.Marshal(input)
	if err != nil {
		return &FlowError{Flow: Flow{Ref: Ref{Scope: namingOf(ctx).scope, ID: id}}, Kind: ErrFlowInput, Err: err}
	}
	_, err = c.runByName(ctx, id, encoded, &flowFunction{run: func(ctx context.Context, _ []byte) ([]byte, error) { return nil, do(ctx) }})
	return err
}

// runByName begins the flow, waits for somebody else's run of it, and runs it. It returns
// what the function returned, as JSON.
func (c *Client) runByName(ctx context.Context, id string, input []byte, function *flowFunction) (result []byte, err error) {
	ask, err := c.askForFlow(ctx, id, input, function)
	if err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, ask.fail(ErrShutdown, nil)
	}
	defer c.leave()
	ends := c.endOfWait(ctx)
	for poll := 5 * time.Millisecond; ; {
		res, err := ask.begin(ctx)
		if err != nil {
			return nil, err
		}
		f := &res.Flow
		switch res.Decision {
		case journal.Execute, journal.Replay:
			if result := returned(f.Steps); result != nil && res.Decision == journal.Replay {
				return result, nil
			}
			return c.foregroundFlow(ctx, f, function, res.Decision == journal.Replay)
		case journal.Later:
			if !ask.event.Sooner && c.hasOutcome(ctx, f.WaitsFor) {
				ask.event.Sooner = true
				continue
			}
			return nil, &FlowError{Flow: flowOf(f), Kind: ErrPending}
		case journal.Wait:
			if !c.sleepUntil(ctx, poll, ends) {
				cause := context.Cause(ctx)
				if c.isShutdown() {
					cause = ErrShutdown
				}
				return nil, &FlowError{Flow: flowOf(f), Kind: ErrInFlight, Err: cause}
			}
			poll = min(2*poll, 250*time.Millisecond)
		default:
			told := &FlowError{Flow: flowOf(f), Kind: kindOfFlow(f, res.Decision)}
			if told.Kind == ErrFlowGivenUp {
				if whole, err := ask.store.GetFlow(ctx, f.Ref); err == nil {
					told.Flow, told.Err = flowOf(&whole), gaveUpFor(whole.Steps)
				}
			}
			return nil, told
		}
	}
}

// kindOfFlow is what a caller is told of a flow that is not run.
func kindOfFlow(f *journal.Flow, decision journal.Decision) error {
	switch {
	case decision == journal.Misuse:
		return ErrKeyReused
	case decision == journal.Gone:
		return ErrAnswerGone
	case f.State == journal.FlowGivenUp:
		return ErrFlowGivenUp
	}
	return ErrFlowSetAside
}

// flowAsk is one call that asks for a flow by name.
type flowAsk struct {
	*Client
	store journal.Flows
	event journal.FlowEvent
}

func (c *Client) askForFlow(ctx context.Context, id string, input []byte, function *flowFunction) (*flowAsk, error) {
	n := namingOf(ctx)
	n.id, n.named = id, true
	n, unsettled := n.settled()
	digest := sha256.Sum256(input)
	ask := &flowAsk{Client: c, event: journal.FlowEvent{
		Kind: journal.FlowBegin, Ref: Ref{Scope: n.scope, ID: id}, Function: function.FlowFunction,
		Key: string(NewKey()), Input: input, InputDigest: "v1:" + hex.EncodeToString(digest[:]),
	}}
	var ok bool
	if ask.store, ok = c.journal.(journal.Flows); !ok {
		return nil, ask.fail(ErrJournal, errors.New("the journal keeps no flows (journal.Flows)"))
	}
	if placeOf(ctx) != nil {
		return nil, ask.fail(ErrStep, errors.New("a flow is not begun in another one: make its steps there, or begin it with another context"))
	}
	if err := cmp.Or(unsettled, n.check()); err != nil {
		return nil, ask.fail(ErrInvalidRequest, err)
	}
	ev := &ask.event
	switch {
	case n.parent != nil:
		// No operation's name holds a control character: none gets the flow's key.
		key, err := n.parent.derive(n.scope, "flow\n"+id)
		if err != nil {
			return nil, ask.fail(ErrInvalidRequest, err)
		}
		ev.Ref.Parent, ev.Key = n.parent.ref, string(key)
	case c.cfg.Secret != nil:
		key, err := DeriveKey(c.cfg.Secret, "flow", n.scope, id)
		if err != nil {
			return nil, ask.fail(ErrInvalidRequest, err)
		}
		ev.Key = string(key)
	}
	return ask, nil
}

func (ask *flowAsk) fail(kind, cause error) error {
	ev := &ask.event
	return &FlowError{Flow: Flow{Ref: ev.Ref, Function: ev.Function.Name, Version: ev.Function.Version}, Kind: kind, Err: cause}
}

func (ask *flowAsk) begin(ctx context.Context) (journal.FlowResult, error) {
	ev := &ask.event
	for again := false; ; again = true {
		session, err := ask.joined(ctx)
		if err == nil {
			var res journal.FlowResult
			ev.Session, ev.At = session.ID(), ask.now()
			if res, err = ask.store.ApplyFlow(ctx, *ev); err == nil {
				return res, nil
			}
		}
		switch {
		case errors.Is(err, journal.ErrSessionLost) && !again:
			continue
		case ctx.Err() != nil:
			return journal.FlowResult{}, ask.fail(ErrJournal, context.Cause(ctx))
		case errors.Is(err, journal.ErrRestored):
			return journal.FlowResult{}, ask.fail(ErrJournalRestored, err)
		}
		return journal.FlowResult{}, ask.fail(ErrJournal, err)
	}
}

// hasOutcome tells whether nothing more is to be waited for from an operation.
func (c *Client) hasOutcome(ctx context.Context, ref Ref) bool {
	if ref == (Ref{}) {
		return false
	}
	op, err := c.journal.Get(ctx, ref)
	return errors.Is(err, journal.ErrNotFound) || err == nil &&
		(op.State.Settled() || op.State == journal.Pending && !op.DueAt.After(c.now()))
}

// endOfWait is when a call that waits for another has to have returned.
func (c *Client) endOfWait(ctx context.Context) time.Time {
	now := c.now()
	deadline, ok := ctx.Deadline()
	if !ok {
		return now.Add(c.cfg.MaxWait)
	}
	return deadline.Add(-min(time.Second, deadline.Sub(now)/10))
}

// sleepUntil tells whether there is still time after a pause.
func (c *Client) sleepUntil(ctx context.Context, pause time.Duration, ends time.Time) bool {
	if c.now().Add(pause).After(ends) {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.closing:
	}
	return false
}

// flowFunction runs flows. Its input is the recorded one, and what it returns is JSON, or
// nil of one that returns nothing.
type flowFunction struct {
	journal.FlowFunction
	run   func(ctx context.Context, input []byte) (result []byte, err error)
	unfit string // why what it returns can't be recorded; "": it can
}

// FlowDefinition is a function that Resume and Run know by name and version: see
// DefineFlow, which makes them.
type FlowDefinition interface {
	function() *flowFunction
}

// FlowFunc is a flow's function that takes an In and returns an Out, under a name and a
// version. It is safe for concurrent use.
type FlowFunc[In, Out any] struct{ flowFunction }

// DefineFlow gives a flow's function a name and a version, by which Resume and Run find
// it again: put it into Config.Flows. As long as flows that were begun under a version
// may be under way, keep the function of that version there, too, unchanged in its
// steps: what is recorded is never fitted to a function with other steps (see
// ErrFlowChanged). Versions count from 1.
//
// The input is recorded as JSON; do gets it as it comes back from there. One that no
// longer decodes, or has a field that In lacks, is ErrFlowInput. What do returns is
// recorded likewise once it comes to its end, under the terms of a Step's result; a function
// that has nothing to return returns a struct{}.
func DefineFlow[In, Out any](name string, version int, do func(context.Context, In) (Out, error)) *FlowFunc[In, Out] {
	return &FlowFunc[In, Out]{flowFunction{
		FlowFunction: journal.FlowFunction{Name: name, Version: version},
		unfit:        checkResult(reflect.TypeFor[Out]()),
		run: func(ctx context.Context, input []byte) ([]byte, error) {
			var in In
			if err := decodeStrictly(input, &in); err != nil {
				return nil, &FlowError{Kind: ErrFlowInput, Err: err}
			}
			out, err := do(ctx, in)
			if err != nil {
				return nil, err
			}
			encoded, err := json.Marshal(out)
			if err != nil {
				return nil, &FlowError{Kind: ErrStep, Err: fmt.Errorf("what the flow returns can't be recorded: %w", err)}
			}
			return encoded, nil
		},
	}}
}

func (d *FlowFunc[In, Out]) function() *flowFunction { return &d.flowFunction }

// Run runs the flow with the name id, as Client.Flow does, and returns what its function
// returned: what is recorded of that, for everybody who asks. Asked for after its end the
// function is not called any more, unless an earlier release brought the flow there. A flow
// that was begun under another version goes on under that one. The function has to be among
// client's Config.Flows, else the error is ErrFlowUnregistered.
func (d *FlowFunc[In, Out]) Run(ctx context.Context, client *Client, id string, in In) (Out, error) {
	var zero, out Out
	ref := Ref{Scope: namingOf(ctx).scope, ID: id}
	if client.functions[d.FlowFunction] == nil {
		return zero, &FlowError{Flow: Flow{Ref: ref, Function: d.Name, Version: d.Version}, Kind: ErrFlowUnregistered}
	}
	input, err := json.Marshal(in)
	if err != nil {
		return zero, &FlowError{Flow: Flow{Ref: ref}, Kind: ErrFlowInput, Err: err}
	}
	result, err := client.runByName(ctx, id, input, &d.flowFunction)
	if err != nil {
		return zero, err
	}
	if err := decodeStrictly(result, &out); err != nil {
		return zero, &FlowError{Flow: Flow{Ref: ref, Function: d.Name, Version: d.Version, State: FlowFinished}, Kind: ErrFlowChanged,
			Err: fmt.Errorf("what is recorded of its result does not fit: %w", err)}
	}
	return out, nil
}

// registerFlows checks Config.Flows.
func (c *Client) registerFlows() error {
	c.functions = map[journal.FlowFunction]*flowFunction{}
	if _, ok := c.journal.(journal.Flows); !ok && len(c.cfg.Flows) > 0 {
		return errors.New("onceward: Config.Flows needs a journal that keeps flows (journal.Flows)")
	}
	for _, definition := range c.cfg.Flows {
		if definition == nil {
			return errors.New("onceward: Config.Flows holds a nil")
		}
		f := definition.function()
		switch {
		case f.Name == "":
			return errors.New("onceward: Config.Flows: a flow's function has no name")
		case f.Version < 1:
			return fmt.Errorf("onceward: Config.Flows: %s has version %d; versions count from 1", f.Name, f.Version)
		case f.unfit != "":
			return fmt.Errorf("onceward: Config.Flows: %s, version %d: %s", f.Name, f.Version, f.unfit)
		case c.functions[f.FlowFunction] != nil:
			return fmt.Errorf("onceward: Config.Flows: %s, version %d, is there twice", f.Name, f.Version)
		}
		c.functions[f.FlowFunction] = f
		c.functionNames = append(c.functionNames, f.FlowFunction)
	}
	return nil
}
