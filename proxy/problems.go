package proxy

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/server"
)

// The problems. None has a status that an SDK takes for an answer, for a login or for a decline. Nor is any a 421, which
// fetch of Node asks again by itself.
var (
	foreignCaller = server.Problem{Name: "refused", Status: http.StatusForbidden, Detail: "The proxy does not know this credential. Nothing was sent."}
	foreignHost   = server.Problem{Name: "refused", Status: http.StatusForbidden, Detail: "The proxy is not served under this host name. Nothing was sent."}
	fromAPage     = server.Problem{Name: "refused", Status: http.StatusForbidden, Detail: "The proxy takes no request from a page in a browser. Nothing was sent."}
	foreignMethod = server.Problem{Name: "refused", Status: http.StatusForbidden, Detail: "The proxy takes GET, HEAD, POST, PUT, PATCH and DELETE. Nothing was sent."}
	foreignScope  = server.Problem{Name: "refused", Status: http.StatusForbidden, Detail: "This listener serves another scope than the one in Onceward-Scope. Nothing was sent."}
	tooLarge      = server.Problem{Name: "refused", Status: http.StatusRequestEntityTooLarge, Detail: "The body is larger than the proxy takes. Nothing was sent."}
	broken        = server.Problem{Name: "not-sent", Status: http.StatusBadRequest, Detail: "The body ended early, and nothing was sent. Ask again by the same name, never by another.", RetryAfter: 1}
	malformed     = server.Problem{Name: "malformed", Status: http.StatusBadRequest, Detail: "The request can't be recorded, and nothing was sent."}
	ambiguous     = server.Problem{Name: "name-missing", Status: http.StatusBadRequest, Detail: "The request needs one name in one Onceward-Operation header, and at most one Onceward-Scope. Nothing was sent."}
	nameMissing   = server.Problem{Name: "name-missing", Status: http.StatusPreconditionRequired, Detail: "The request may have an effect and has no name: give it one in Onceward-Operation, the same at each try. Nothing was sent."}
	otherGrant    = server.Problem{Name: "refused", Status: http.StatusBadRequest, Detail: "The proxy gives a token for grant_type=client_credentials alone. Ask the provider itself for any other. Nothing was sent."}
	unreachable   = server.Problem{Name: "unreachable", Status: http.StatusBadGateway, Detail: "The provider did not answer a request that has no effect. Ask again.", RetryAfter: 1}

	pending        = server.Problem{Name: "pending", Status: http.StatusServiceUnavailable, Detail: "There is no outcome yet. Ask again by the same name, never by another: the operation may have taken effect.", RetryAfter: 5}
	outcomeUnknown = server.Problem{Name: "outcome-unknown", Status: http.StatusConflict, Detail: "It is not known whether the operation took effect. A person or a look-up finds out. Never ask by another name.", RetryAfter: 60}
	withdrawn      = server.Problem{Name: "withdrawn", Status: http.StatusConflict, Detail: "An operator withdrew the operation, and nothing took effect. Do not ask by another name."}
	keyReused      = server.Problem{Name: "key-reused", Status: http.StatusUnprocessableEntity, Detail: "The name or key belongs to another request, and nothing was sent. Use another name only for another effect."}
	answerGone     = server.Problem{Name: "answer-gone", Status: http.StatusGone, Detail: "The operation is completed, and its answer is not kept. Never ask by another name."}
	redirected     = server.Problem{Name: "redirected", Status: http.StatusBadGateway, Detail: "The provider redirected the operation, which the proxy does not follow. The journal has the answer. Never ask by another name."}
	notSent        = server.Problem{Name: "not-sent", Status: http.StatusServiceUnavailable, Detail: "This call sent nothing. Ask again by the same name, never by another.", RetryAfter: 5}
)

// kinds are the problems of the client's errors. Any other error leaves an operation open.
var kinds = []struct {
	kind    error
	problem server.Problem
}{
	{onceward.ErrPending, pending}, {onceward.ErrInFlight, pending}, {onceward.ErrCredentialMissing, pending},
	{onceward.ErrOutcomeUnknown, outcomeUnknown}, {onceward.ErrWithdrawn, withdrawn},
	{onceward.ErrKeyReused, keyReused}, {onceward.ErrAnswerGone, answerGone}, {onceward.ErrRedirected, redirected},
	{onceward.ErrNotSent, notSent}, {onceward.ErrJournal, notSent}, {onceward.ErrJournalRestored, notSent}, {onceward.ErrShutdown, notSent},
	{onceward.ErrUnprotected, nameMissing}, {onceward.ErrNameNeeded, nameMissing}, {onceward.ErrInvalidRequest, malformed},
}

// refusal is the proxy's own answer to a request.
type refusal struct {
	problem server.Problem
	cause   error
}

func (r *refusal) Error() string { return r.problem.Detail }
func (r *refusal) Unwrap() error { return r.cause }

// problemOf returns the problem for an error, and the operation that it is about.
func problemOf(err error) (server.Problem, onceward.Operation) {
	var own *refusal
	if errors.As(err, &own) {
		return own.problem, onceward.Operation{}
	}
	var failed *onceward.Error
	if !errors.As(err, &failed) {
		return pending, onceward.Operation{}
	}
	for _, row := range kinds {
		if failed.Kind != row.kind {
			continue
		}
		p := row.problem
		switch {
		case len(failed.Differs) > 0:
			p.Detail += fmt.Sprintf(" These parts differ: %s.", strings.Join(failed.Differs, ", "))
		case failed.Kind == onceward.ErrInvalidRequest && failed.Err != nil:
			p.Detail += " The reason: " + failed.Err.Error() + "."
		}
		return p, failed.Operation
	}
	return pending, failed.Operation
}

// fail answers by a problem. Two headers keep SDKs from repeating the call by themselves, which would only ask the
// same again.
func (p *proxy) fail(w http.ResponseWriter, err error) {
	problem, op := problemOf(err)
	if none, is := errors.AsType[*noToken](err); is {
		problem.Detail += " " + none.Error()
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Stripe-Should-Retry", "false")
	h.Set("X-Should-Retry", "false")
	if op.State == onceward.StatePending && !op.DueAt.IsZero() {
		h.Set(dueHeader, op.DueAt.UTC().Format(time.RFC3339))
		problem.RetryAfter = int(min(math.Ceil(max(1, op.DueAt.Sub(p.core.Now()).Seconds())), 3600))
	}
	if op.ID != "" {
		h.Set(stateHeader, op.State.String())
	}
	if problem.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(problem.RetryAfter))
	}
	p.upstream.Flavour.Refuse(w, problem)
}
