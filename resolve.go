package onceward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// ResolveOptions holds a resolution's details.
type ResolveOptions struct {
	By, Why string  // kept with the operation, without possible credentials
	Answer  *Answer // with Executed, the provider's answer; nil if not known

	// Candidate is the operation's object, with Executed: kind and id of a candidate, or the id alone. The object then
	// proves this operation and no other. An object that is no candidate is an error. Empty means no object.
	Candidate string

	Force bool // record NotExecuted or SendAgain despite evidence that the operation took effect
}

// Resolve records a person's decision about a pending or unknown operation. Executed also settles a cancelled operation.
// A completed operation gets the answer from opts, if the recorded answer is missing, cut off, or not the provider's by
// the table. docs/errors.md has an example. Take seen from Operation.Seen, by an Error, Operation or Operations.
//
// If the operation has changed since, Resolve changes nothing, and the error is an Error with ErrMoved and the present
// state. To prevent a change, put a pending operation on Hold first. NotExecuted and SendAgain are your assertion: if the
// provider did execute the operation, the next generation is a second effect.
//
// A replay of an answer by hand has Answer.ByHand and the header "Onceward-Answer: by hand". Answer.Replaced keeps the
// provider's answer.
//
// The error is an Error with ErrInFlight while another caller is sending the operation. The error wraps ErrNotFound if the
// operation does not exist, and ErrInvalidEvent if the outcome or answer is known already.
func (c *Client) Resolve(ctx context.Context, seen Seen, resolution Resolution, how ResolveOptions) (Operation, error) {
	if seam.IsInTransaction(ctx) { // the journal may wait for its end
		return Operation{}, fmt.Errorf("onceward: resolve an operation: %w", ErrOpenTransaction)
	}
	op, err := c.core.Journal.Get(ctx, seen.Ref)
	if err != nil && (!errors.Is(err, journal.ErrSealed) || resolution == SendAgain) { // whose next key depends on the URL
		return Operation{}, fmt.Errorf("onceward: resolve an operation: %w", err)
	}
	ev := machine.Event{
		Kind: machine.EventResolve, Ref: op.Ref, Handle: op.Handle, At: c.core.Now(),
		Resolution: resolution, Generation: seen.Generation, Claim: seen.Claim,
		By: secret.Recorded(how.By), Cause: secret.Recorded(how.Why), Forced: how.Force, LookAfter: c.finder.FirstLook(),
	}
	switch {
	case how.Candidate == "":
	case resolution != Executed:
		return operationOf(&op), fmt.Errorf("onceward: resolve: a candidate goes with Executed alone: %w", journal.ErrInvalidEvent)
	default:
		if ev.Object, err = candidateOf(&op, how.Candidate, seen.Generation); err != nil {
			result := operationOf(&op)
			return result, fmt.Errorf("onceward: resolve %s: %w", result.printed(), err)
		}
		_, id, _ := strings.Cut(ev.Object, " ")
		ev.Answer = &Answer{Omitted: true, Pointer: id}
	}
	if resolution == Executed && how.Answer != nil {
		supplied := *how.Answer
		supplied.Header, supplied.Trailer = wire.RecordedHeader(supplied.Header), wire.RecordedHeader(supplied.Trailer)
		if supplied.Pointer == "" && ev.Answer != nil {
			supplied.Pointer = ev.Answer.Pointer
		}
		ev.Answer = &supplied
		ev.Unrecognised = !c.recognises(&op)
	}
	if resolution == SendAgain {
		version := 0
		if u := core.Parsed(op.Request.URL); u != nil {
			version = c.core.Contract(&op.Request, u).Endpoint.Key.UUIDVersion
		}
		ev.Key = naming.LaterKey(c.core.Secret, op.Ref, op.Key, seen.Generation+1, version)
		if op.ReferenceOurs {
			ev.Reference = naming.SpelledLike(op.Reference, naming.NewReference(c.core.Secret, op.Ref, op.Naming, ev.Key, seen.Generation+1))
		}
	}
	res, err := c.core.Journal.Apply(ctx, ev)
	if err != nil {
		result := operationOf(&op)
		return result, fmt.Errorf("onceward: resolve %s: %w", result.printed(), err)
	}
	now := &res.Operation
	if now.Request.Method == "" {
		now.Request = op.Request
	}
	result := operationOf(now)
	switch res.Decision {
	case machine.Wait:
		return result, &Error{Operation: result, Kind: ErrInFlight}
	case machine.Stale:
		return result, &Error{Operation: result, Kind: ErrMoved, Err: fmt.Errorf("the decision was made on generation %d, claim %d: read it again", seen.Generation, seen.Claim)}
	case machine.Gone:
		return result, &Error{Operation: result, Kind: ErrAnswerGone}
	}
	defer c.core.Wake() // even if the hook panics
	c.core.WakeFlowOf(ctx, op.Ref)
	c.core.Note(ctx, slog.LevelInfo, core.LogResolved, "an operator resolved the operation", now, "resolution", resolution.String(), "by", ev.By, "why", ev.Cause)
	c.core.Resolved(ctx, now, resolution)
	return result, nil
}

// candidateOf finds a generation's candidate by kind and id, or by the id alone.
func candidateOf(op *journal.Operation, named string, generation int) (string, error) {
	var candidates []string
	for _, e := range op.Evidence {
		if e.Generation != generation {
			continue
		}
		for _, object := range e.Objects() {
			if _, id, _ := strings.Cut(object, " "); named == object || named == id {
				return object, nil
			}
			if !slices.Contains(candidates, object) {
				candidates = append(candidates, object)
			}
		}
	}
	return "", fmt.Errorf("%q is no candidate of it: it has %s (Operation.Evidence has them, and so have the command's show and the console)",
		secret.Recorded(named), cmp.Or(strings.Join(candidates, ", "), "none"))
}

// recognises reports whether the recorded answer is the provider's by the present table. A rule has read any answer that
// is no success.
func (c *Client) recognises(op *journal.Operation) bool {
	a, u := op.Answer, core.Parsed(op.Request.URL)
	if a == nil || u == nil || a.Status/100 != 2 {
		return true
	}
	route := c.core.Contract(&op.Request, u)
	if !route.Listed || route.Provider.KeysUnder != op.Provider {
		return true
	}
	body := core.AsRead(a.Body)
	if a.Omitted || a.Cut && len(a.Body) == 0 {
		body = nil
	}
	return tables.Recognises(route.Provider, a.Status, a.Header, body)
}

// Reconcile looks now for one unknown operation, whatever the schedule, and returns the result. Within a minute after a
// look for the operation, Reconcile returns the recorded state. The error is nil for a completed operation, and otherwise
// like Wait's.
//
// If an operation is completed and the answer is missing, Reconcile fetches the answer again, as a call by the name does
// (docs/reconciliation.md). If the fetch fails, the error is an Error with ErrAnswerGone and the reason.
func (c *Client) Reconcile(ctx context.Context, ref Ref) (Operation, error) {
	if seam.IsInTransaction(ctx) { // the journal may wait for its end
		return Operation{}, fmt.Errorf("onceward: reconcile: %w", ErrOpenTransaction)
	}
	if err := c.core.Lifecycle.Enter(); err != nil {
		return Operation{}, fmt.Errorf("onceward: reconcile: %w", err)
	}
	defer c.core.Lifecycle.Leave()
	op, err := c.core.Journal.Get(ctx, ref)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: reconcile: %w", err)
	}
	if c.cfg.Reconcile == nil {
		result := operationOf(&op)
		return result, errors.New("onceward: reconcile: Config.Reconcile is nil, so no look-up can run: set it")
	}
	switch {
	case op.AnswerMissing():
		var missing error
		if op, missing = c.engine.Recover(ctx, &op, "Client.Reconcile"); missing != nil {
			result := operationOf(&op)
			return result, &Error{Operation: result, Kind: ErrAnswerGone, Err: missing}
		}
	case op.State == journal.StateUnknown:
		if now, err := c.finder.LookNow(ctx, &op, &reconcile.Pass{Actor: "Client.Reconcile"}); err != nil {
			return operationOf(&op), fmt.Errorf("onceward: reconcile: %w", err)
		} else {
			op = *now
		}
	}
	if op.State == journal.StateCompleted {
		return operationOf(&op), nil
	}
	return c.waited(&op, nil)
}

// Withdraw keeps an operation from being sent until Reinstate. If nothing may have run, the operation is cancelled.
// Otherwise the operation is unknown, and the client goes on looking. If the operation took effect, Outcomes.Handle
// receives the operation with Operation.Withdrawn, even if the caller has the answer. A running flow receives its own
// operation instead. Your application decides whether to reverse the effect. The journal keeps a cancelled operation
// whole, beyond Config.Keep.
//
// The error is Resolve's. After ErrInFlight, call Withdraw again once the operation has an outcome.
func (c *Client) Withdraw(ctx context.Context, ref Ref, how ResolveOptions) (Operation, error) {
	return c.decide(ctx, ref, journal.Withdraw, how)
}

// Reinstate ends Withdraw, or else a Hold, and sends nothing. After Withdraw, the next call by the operation's name sends
// the operation. After a Hold, the operation is pending again as far as the resend rule allows, and Run sends it.
//
// The error is Resolve's, and wraps ErrInvalidEvent if the operation is neither withdrawn nor on Hold.
func (c *Client) Reinstate(ctx context.Context, ref Ref, how ResolveOptions) (Operation, error) {
	return c.decide(ctx, ref, journal.Reinstate, how)
}

func (c *Client) decide(ctx context.Context, ref Ref, as Resolution, how ResolveOptions) (Operation, error) {
	op, err := c.Operation(ctx, ref)
	if err != nil {
		return op, err
	}
	return c.Resolve(ctx, op.Seen, as, how)
}
