package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
)

// ResolveOptions is what comes with a resolution.
type ResolveOptions struct {
	By, Why string  // kept with the operation, without what may be a credential
	Answer  *Answer // of Executed: what the provider answered; nil: not known

	// Candidate is the object that is the operation's, with Executed: the kind and id of one of its candidates, or the id alone.
	// It then proves this operation and no other. Any other object is a [*CandidateError]. Empty: no object is named.
	Candidate string

	// Force has NotExecuted and SendAgain be recorded though there is evidence that the
	// operation took effect: the evidence is another's, or wrong.
	Force bool
}

// Resolve settles an operation that is unknown or pending by somebody's word, and by Executed one
// that is cancelled: whoever said that it was not executed, and what was refused. seen is
// what they looked at: Operation.Seen, of an Error, of Lookup or Operations. If the
// operation has moved since, nothing is changed and the error is an Error with
// ErrMoved, which says where it stands: for Executed if it is in another generation,
// since evidence of one says nothing of the next; for the others also if somebody set
// out to send it. A pending one can be put on Hold first, so that it does not.
//
// Whoever says NotExecuted or SendAgain asserts it: if the provider did execute it, the
// next generation is a second effect.
//
// For Executed, the answer, if there is one, is recorded as the operation's. Of a
// completed operation it is recorded if there is none so far: none was given, it was
// left out for its size or as a secret, or it was cut off. An answer that is not the
// provider's by its table (a gateway's page in place of JSON: see
// providers.Provider.Answers) is replaced; Answer.Replaced keeps it. A recognised one
// stands. What is answered from an answer by hand has Operation.Answer.ByHand, and the
// response the header Onceward-Answer: by hand.
//
// The error is an Error with ErrInFlight while another caller is sending it, wraps
// ErrNotFound where there is none, and ErrInvalidEvent where the
// outcome, or the answer, is known already.
func (c *Client) Resolve(ctx context.Context, seen Seen, resolution Resolution, how ResolveOptions) (Operation, error) {
	op, err := c.core.Journal.Get(ctx, seen.Ref)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: resolve an operation: %w", err)
	}
	ev := journal.Event{
		Kind: journal.EventResolve, Ref: op.Ref, Handle: op.Handle, At: c.core.Now(),
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
	case journal.Wait:
		return result, &Error{Operation: result, Kind: ErrInFlight}
	case journal.Stale:
		return result, &Error{Operation: result, Kind: ErrMoved, Err: fmt.Errorf("generation %d, claim %d was looked at", seen.Generation, seen.Claim)}
	case journal.Gone:
		return result, &Error{Operation: result, Kind: ErrAnswerGone}
	}
	defer c.core.Wake() // whatever the hook does
	c.core.WakeFlowOf(ctx, op.Ref)
	c.core.Note(ctx, slog.LevelInfo, core.LogResolved, "resolved by somebody's word", now, "resolution", resolution.String(), "by", ev.By, "why", ev.Cause)
	c.core.Resolved(ctx, now, resolution)
	return result, nil
}

// CandidateError says that an operation has no such candidate.
type CandidateError struct {
	Candidate  string   // as it was given, without what may be a secret
	Candidates []string // kind and id of each that the operation has
}

// Error names the candidates, or says that there are none.
func (e *CandidateError) Error() string {
	has := "it has none"
	if len(e.Candidates) > 0 {
		has = "it has " + strings.Join(e.Candidates, ", ")
	}
	return fmt.Sprintf("%q is no candidate of it: %s (Operation.Evidence has them, and so have the command's show and the console)", e.Candidate, has)
}

// candidateOf finds a candidate of a generation by kind and id, or by the id alone.
func candidateOf(op *journal.Operation, named string, generation int) (string, error) {
	none := &CandidateError{Candidate: secret.Recorded(named)}
	for _, e := range op.Evidence {
		if e.Generation != generation {
			continue
		}
		for _, object := range e.Objects() {
			if _, id, _ := strings.Cut(object, " "); named == object || named == id {
				return object, nil
			}
			if !slices.Contains(none.Candidates, object) {
				none.Candidates = append(none.Candidates, object)
			}
		}
	}
	return "", none
}

// recognises tells whether the answer that is recorded of an operation is the
// provider's by what its table says now. What is no success was read by a rule.
func (c *Client) recognises(op *journal.Operation) bool {
	a, u := op.Answer, core.Parsed(op.Request.URL)
	if a == nil || u == nil || a.Status/100 != 2 {
		return true
	}
	route := c.core.Contract(&op.Request, u)
	if !route.Listed || route.Provider.KeysUnder != op.Provider {
		return true
	}
	return tables.Recognises(route.Provider, a.Status, a.Header, a.Body)
}

// Reconcile looks now for one operation that is unknown or has a cut-off answer, and says what is known of it then. It does
// so whatever the schedule says, and after the operation was given up. One operation is looked for once a minute; else the journal's
// present word is returned. The error is as Wait's; nil for one that is completed.
func (c *Client) Reconcile(ctx context.Context, ref Ref) (Operation, error) {
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
		return result, errors.New("onceward: reconcile: Config.Reconcile is nil, so that nothing is looked for: set it")
	}
	if op.State == journal.StateUnknown || op.AnswerCut() {
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

const unwanted, wanted = journal.Unwanted, journal.Wanted

// Unwanted says that an operation is not wanted any more. From then on no process sends it, by its name or in the background,
// until Wanted lifts that. If nothing of it may have run, it is cancelled. Else it is unknown, and goes on being looked for. If
// it turns out to have taken effect, OnSettled gets it with Operation.Unwanted, even if its caller has the answer. Nothing is
// reversed by itself: the application decides about that. (A flow that is still under way gets its own operation instead.) If
// the operation is proven absent, it is cancelled. The journal keeps a cancelled one, whole and beyond Config.Keep, for as long
// as it is not wanted.
//
// The error is that of Resolve. One that another caller is sending just now is left alone
// (ErrInFlight); ask again once it has its outcome.
func (c *Client) Unwanted(ctx context.Context, ref Ref, how ResolveOptions) (Operation, error) {
	return c.want(ctx, ref, unwanted, how)
}

// Wanted lifts Unwanted. It sends nothing by itself: the next call by the operation's name does.
func (c *Client) Wanted(ctx context.Context, ref Ref, how ResolveOptions) (Operation, error) {
	return c.want(ctx, ref, wanted, how)
}

func (c *Client) want(ctx context.Context, ref Ref, as Resolution, how ResolveOptions) (Operation, error) {
	op, err := c.Lookup(ctx, ref)
	if err != nil {
		return op, err
	}
	return c.Resolve(ctx, op.Seen, as, how)
}
