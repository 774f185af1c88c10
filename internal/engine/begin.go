package engine

import (
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/call"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/engine/run"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// begin records the intent before anything is sent. It returns a run with the claim, or else the caller's answer or
// error.
func (e *Engine) begin(k *call.Call) (*run.Run, exchange.Answer, error) {
	if err := k.Prepare(); err != nil {
		return nil, exchange.Answer{}, err
	}
	var res machine.Result // filled in below: a copy at each return would take longer
	if k.IsNew() {
		if err := k.Apply(&res); err != nil {
			return nil, exchange.Answer{}, err
		}
		return e.startRun(k, &res, nil), exchange.Answer{}, nil
	}
	k.Enter()
	for poll := 5 * time.Millisecond; ; {
		f, a, err := k.Lead()
		if f == nil {
			return nil, a, err
		}
		until, err := e.decide(k, f, &res)
		switch {
		case err != nil:
			return nil, exchange.Answer{}, err
		case res.Decision == machine.Execute:
			r := e.startRun(k, &res, f)
			r.Admit()
			return r, exchange.Answer{}, nil
		case k.ByItsKey(&res): // the call asks again, by that name
		case !until.IsZero():
			if err := k.WaitRetryAfter(until); err != nil {
				return nil, exchange.Answer{}, err
			}
		case res.Decision == machine.Wait:
			if !k.Sleep(poll) {
				return nil, exchange.Answer{}, k.GaveUpWaiting(&res.Operation)
			}
			poll = min(2*poll, 250*time.Millisecond)
		default:
			a, err := k.Answer(&res.Operation, res.Decision)
			return nil, a, err
		}
	}
}

// decide asks the journal until the decision stands. It owns the flight led by the call, and finishes the flight with
// the decision, also if a hook or the journal panics. If the journal lets the operation be sent, the run finishes the
// flight. until is not zero if a look-up has shown that nothing took effect, and the provider asked for a pause.
func (e *Engine) decide(k *call.Call, f *core.Flight, res *machine.Result) (until time.Time, err error) {
	executes := false
	var stands *journal.Operation  // for those that have joined; nil: they ask for themselves
	var weighed *journal.Operation // an outcome that this call recorded and has still to return
	defer func() {
		if !executes {
			e.Singleflight.Finish(f, stands)
		}
		if stands == nil && weighed != nil {
			e.Deliveries.OnLost(weighed)
		}
	}()
	for {
		err = k.Apply(res)
		switch {
		case err != nil:
			return until, err
		case res.Decision == machine.Execute:
			executes = true
			return until, nil
		case res.Decision == machine.Weighed: // the journal has taken evidence into account: it decides anew
			outcome := res.Operation
			weighed = &outcome
			continue
		case res.Decision == machine.Misuse: // its bodies may be missing
			return until, nil
		case res.Decision == machine.Replay && res.Operation.AnswerMissing():
			r := e.startRun(k, res, nil)
			r.Recover(&res.Operation, "who asked for it")
			k.Regained, k.Missing = r.Regained, r.Missing
		case res.Decision == machine.Stop:
			switch found := k.LookUp(&res.Operation); {
			case found == nil:
			case found.State == journal.StateCancelled && res.Operation.DueAt.After(e.Now()):
				stands, f.RetryAfter = found, res.Operation.DueAt // as the provider asked while the operation was unknown
				return f.RetryAfter, nil
			default:
				continue
			}
		}
		stands = &res.Operation
		return until, nil
	}
}

// startRun starts the run that the journal has just allowed.
func (e *Engine) startRun(k *call.Call, res *machine.Result, f *core.Flight) *run.Run {
	req := k.Request()
	return run.Start(e.Client, res, f, &req)
}
