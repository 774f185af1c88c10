package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
)

// Flow returns a handler for [Server.Repeatable] that runs a flow for the request's key, and answers by its result.
// decode reads the flow's input from the request. Its error is answered by 400. answer writes the result, or the
// error of a flow that has ended without a result, such as one that is given up after a declined payment. The key gets
// that answer from then on, if its status is one that Atomic records after Tx.
//
// Other errors of the flow are answered without answer, and not recorded. A flow that waits is a 503 with the time after which to ask
// again. If it waits for an operation whose outcome is unknown, it is a 409. A flow that is set aside is a 500. Such
// a flow goes on by the client's Run, whether its caller asks again or not.
func Flow[In, Out any](f *flow.Func[In, Out], r *flow.Runner, decode func(*http.Request) (In, error), answer func(http.ResponseWriter, Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		under := runUnder(req.Context())
		if under == nil || !under.repeatable || under.keyless {
			http.Error(w, "This flow needs a key.", http.StatusBadRequest)
			return
		}
		in, err := decode(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := f.Run(req.Context(), r, "request", in)
		if under.problem = problemOfFlow(err, under.server.now()); under.problem != nil {
			return
		}
		under.final = true
		answer(w, out, err)
	})
}

// problemOfFlow returns the problem that answers for a flow that has not ended, or nil for one that has.
func problemOfFlow(err error, now time.Time) *Problem {
	switch {
	case err == nil, errors.Is(err, flow.ErrGivenUp):
		return nil
	case errors.Is(err, flow.ErrSetAside):
		return &setAside
	case errors.Is(err, onceward.ErrOutcomeUnknown):
		return &outcomeUnknown
	case errors.Is(err, onceward.ErrKeyReused):
		return &keyReused
	}
	p := pending
	var failed *flow.Error
	if errors.As(err, &failed) && failed.Flow.DueAt.After(now) {
		p.RetryAfter = int(failed.Flow.DueAt.Sub(now)/time.Second) + 1
	}
	return &p
}
