package engine

import (
	"context"
	"net/http"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/call"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/engine/run"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/journal"
)

// Engine makes requests for one client. It may be used concurrently.
type Engine struct{ *call.Factory }

// New returns a client's engine.
func New(c *exchange.Client, s call.Settings) *Engine { return &Engine{call.NewFactory(c, s)} }

// Do takes a request through all stages.
func (e *Engine) Do(req *http.Request) exchange.Answer {
	// Identify: the request's contract, and the operation, if there is one.
	k, err := e.Identify(req)
	switch {
	case err != nil:
		exchange.CloseBody(req)
		return exchange.Answer{Err: e.Explain(err)}
	case k == nil:
		resp, err := e.sendSafe(req)
		return exchange.Answer{Forwarded: true, Response: resp, Err: err}
	}
	defer k.Shut()
	a, err := e.ask(k)
	if err != nil {
		a.Err = e.Explain(err)
	}
	return a
}

// ask takes an operation's request through the stages.
func (e *Engine) ask(k *call.Call) (a exchange.Answer, err error) {
	if err := e.Lifecycle.Enter(); err != nil {
		return a, k.Fail(fault.ErrShutdown, nil)
	}
	defer e.Lifecycle.Leave()

	// Read: the body, the key, and the recorded part of the request.
	if err := k.Read(); err != nil {
		return a, err
	}
	if effect, err := k.Understand(); err != nil {
		return a, err
	} else if !effect {
		resp, err := e.Base.RoundTrip(k.Unread())
		return exchange.Answer{Forwarded: true, Response: resp, Err: err}, nil
	}

	// Name: an unnamed call under a parent is one of its steps. See step.go in package call.
	leaveStep, err := k.NameStep()
	if err != nil {
		return a, err
	}
	defer func() { leaveStep(a.Operation, err) }()

	// Begin: the intent is recorded, and the claim is this call's. Or an answer is there already, or another call is sending.
	defer func() { k.Permit.Free() }() // also where a hook panics
	r, a, err := e.begin(k)
	if r == nil {
		k.Permit.Cancel()
		return a, err
	}
	defer func() { // also where a hook panics
		k.NotBefore(r.NotBefore())
		k.Missing = r.Missing
	}()
	var recorded machine.Result
	r.Work(&recorded)

	// Answer: the response, if it is the operation's outcome, or a Failure.
	return r.Answer(&recorded)
}

// Resume works off a claim without a caller. It returns the operation after the run, and the reason for a missing
// answer.
func (e *Engine) Resume(ctx context.Context, claimed machine.Result, f *core.Flight, permit *throttle.Permit) (journal.Operation, error) {
	return run.Resume(ctx, e.Client, claimed, f, permit)
}

// Recover gets a completed operation's missing answer, for a person. It returns the resulting operation, and the
// reason if the answer is still missing.
func (e *Engine) Recover(ctx context.Context, op *journal.Operation, actor string) (journal.Operation, error) {
	return run.Recover(ctx, e.Client, op, actor)
}
