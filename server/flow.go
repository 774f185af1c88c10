package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/naming"
)

// FlowHandler returns a handler for [Server.Repeatable] that runs a flow for the request's key, and answers by its result.
// decode reads the flow's input from the request. After an error from decode the answer is 400, if the flow has not begun.
// answer writes the result. If the flow has ended without a result, such as after a declined payment, answer writes the
// flow's error. The key gets this answer from then on, if Atomic records the status after Tx.
//
// The server itself answers the flow's other errors, and records none. A flow that waits is a 503 with the time to ask
// again. A flow that waits for an unknown operation, or has begun with another input, is a 409. A flow that is set aside is
// a 500. The client's Run continues such flows, whether the caller asks again or not.
func FlowHandler[In, Out any](f *flow.Func[In, Out], r *flow.Runner, decode func(*http.Request) (In, error), answer func(http.ResponseWriter, Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		under := runUnder(req.Context())
		if under == nil || !under.repeatable || under.keyless {
			http.Error(w, "This flow needs a key.", http.StatusBadRequest)
			return
		}
		in, err := decode(req)
		if err != nil {
			if under.problem = problemOfBegun(req.Context(), r); under.problem == nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			under.saysOtherwise()
			return
		}
		out, err := f.Run(req.Context(), r, flowOfRequest, in)
		if under.problem = problemOfFlow(err, under.server.now()); under.problem != nil {
			if errors.Is(err, onceward.ErrKeyReused) {
				under.saysOtherwise()
			}
			return
		}
		under.final = true
		answer(w, out, err)
	})
}

// saysOtherwise logs that a request's flow has begun with another input.
func (r *run) saysOtherwise() {
	r.server.opts.Logger.ErrorContext(r.ctx, "onceward server: a flow has begun with another input than its request is decoded to, by another release perhaps: let decode read it as it did", "endpoint", first(r.places))
}

// flowOfRequest is the name of a request's flow under the request's key.
const flowOfRequest = "request"

// problemOfBegun returns the problem of a request that can't be decoded though the request's flow was begun, by
// another release perhaps. problemOfBegun returns nil if there is no such flow.
func problemOfBegun(ctx context.Context, r *flow.Runner) *Problem {
	of := naming.Of(ctx)
	switch _, err := r.Flow(ctx, onceward.Ref{Scope: of.Scope, Parent: of.Parent.Ref, ID: flowOfRequest}); {
	case err == nil:
		return &outcomeUnknown
	case errors.Is(err, onceward.ErrNotFound):
		return nil
	default:
		return problemOf(err)
	}
}

// problemOfFlow returns the problem for a flow that has not ended, or nil for an ended flow.
func problemOfFlow(err error, now time.Time) *Problem {
	switch {
	case err == nil, errors.Is(err, flow.ErrGivenUp):
		return nil
	case errors.Is(err, onceward.ErrAnswerGone): // of the flow: one that has not ended hides that of an operation
		return &keyExpired
	case errors.Is(err, flow.ErrSetAside):
		return &setAside
	case errors.Is(err, onceward.ErrOutcomeUnknown), errors.Is(err, onceward.ErrKeyReused): // another release may decode the same request otherwise
		return &outcomeUnknown
	}
	p := pending
	var failed *flow.Error
	if errors.As(err, &failed) && failed.Flow.DueAt.After(now) {
		p.RetryAfter = int(failed.Flow.DueAt.Sub(now)/time.Second) + 1
	}
	return &p
}
