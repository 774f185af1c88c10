package onceward

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/onceward/onceward/internal/background"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Trace is a set of hooks, like those of net/http/httptrace. Any may be nil. JoinTraces combines several. Hooks are
// called synchronously, some concurrently, and must return soon. The arguments hold no secret, header or body, except
// that errors may hold words from Config.Authorize, a transport or Outcomes.Handle. The context is the caller's, or
// Run's or Resume's. Inside a claim the context is the result of Started. A hook that returns a nil context keeps the
// given context.
type Trace struct {
	// Parent returns the W3C traceparent for ctx, or "". The record of an operation begun under ctx has the traceparent,
	// so later work can link to the call. Default: the request's Traceparent header.
	Parent func(ctx context.Context) string

	// Asked is called after every call that asks for an operation. op has less if the operation was never recorded.
	Asked func(ctx context.Context, op Operation, result CallResult, err error, took time.Duration)

	// Started is called after a claim was recorded and before its first attempt. It returns the context of the claim,
	// derived from ctx, for the attempts and the hooks below.
	Started func(ctx context.Context, op Operation, why Why) context.Context

	// Ended is called once a claim's end is recorded, or kept in memory if the journal failed. err is nil for a
	// completed operation. If an operation may not be sent any more, Ended is called without Started.
	Ended func(ctx context.Context, op Operation, err error)

	// AttemptStarted is called before an attempt, the n-th in the claim, from 1. The request is sent under the returned
	// context if derived from ctx. AttemptEnded receives the returned context in any case.
	AttemptStarted func(ctx context.Context, op Operation, n int) context.Context
	AttemptEnded   func(ctx context.Context, op Operation, a Attempt)

	// KeyReplaced is called if the journal's key, or a parent's, was sent instead of the request's own key.
	KeyReplaced func(ctx context.Context, op Operation)

	// Delayed is called before an operation waits for its next attempt.
	Delayed func(ctx context.Context, op Operation, pause time.Duration)

	// Conflicted is called if an operation with an answer receives a second answer. The caller got the recorded answer.
	// secondEffect reports that the second answer proves another effect. status is 0 for a look-up or webhook.
	Conflicted func(ctx context.Context, op Operation, status int, secondEffect bool)

	// Looked is called after a look-up or webhook said something about an operation, with the changed operation.
	Looked func(ctx context.Context, op Operation, e Evidence)

	// Settled is called with the error after each call to Outcomes.Handle or Reconcile.OnUnknown.
	Settled func(ctx context.Context, op Operation, err error)

	// Resolved is called after a person's decision was recorded, in op.Resolved or op.Withdrawn.
	Resolved func(ctx context.Context, op Operation, resolution Resolution)

	// Reaped is called when Run has reaped n operations and flows.
	Reaped func(ctx context.Context, n int)

	// SessionLost is called if the client's session was taken over or taken away. The client goes on with a new one.
	SessionLost func(ctx context.Context)

	// JournalFailed is called if an event, such as "begin" or "complete", could not be recorded. Without the intent, the
	// call fails. Every other event is kept in memory and retried.
	JournalFailed func(ctx context.Context, op Operation, event string, err error)

	// PassFailed is called if a pass by Run failed: over due operations, look-ups or flows. Run repeats the pass.
	PassFailed func(ctx context.Context, err error)

	// Progress is called by Resume and Run at most once a second, and at the end of a pass that did something.
	Progress func(Report)
}

// Attempt is one try on the wire.
type Attempt struct {
	Number   int               // in this claim, from 1
	Status   int               // 0 if there was no answer
	Proto    string            // the answer's, such as "HTTP/2.0"; "" if there was no answer
	Verdict  providers.Verdict // 0 if there was no answer
	Unsent   bool              // proven: no server has processed the request
	Err      error             // the transport's own
	Duration time.Duration
}

// Why says why a claim was made.
type Why struct {
	Reason     Reason
	Background bool // by Run or Resume, not by a call
}

// Reason is one of the Reason… constants.
type Reason string

// The reasons of a claim.
const (
	ReasonNew        Reason = "new"        // the operation is sent for the first time
	ReasonAgain      Reason = "again"      // the operation was pending, or had been cancelled
	ReasonTakenOver  Reason = "taken_over" // a process that died had claimed the operation
	ReasonGeneration Reason = "generation" // the generation before had no effect, by a decision or by evidence
)

// CallResult is a call's result, one of the Call… constants.
type CallResult string

// A call's results.
const (
	CallExecuted  CallResult = "executed"        // the operation was sent, and the caller has the answer
	CallReplayed  CallResult = "replayed"        // the answer was recorded before
	CallShared    CallResult = "shared"          // the answer of another call at the same time
	CallPending   CallResult = "pending"         // ErrPending
	CallInFlight  CallResult = "in_flight"       // ErrInFlight
	CallKeyReused CallResult = "key_reused"      // ErrKeyReused
	CallUnknown   CallResult = "unknown"         // ErrOutcomeUnknown
	CallGone      CallResult = "gone"            // ErrAnswerGone
	CallCancelled CallResult = "cancelled"       // ErrNotSent, ErrWithdrawn, or a refusal as the answer
	CallRefused   CallResult = "refused_locally" // nothing was asked of the journal: an invalid request, a shutdown
	CallJournal   CallResult = "journal_error"   // ErrJournal, ErrJournalRestored
)

// callResult returns a call's result, and the operation for hooks.
func callResult(a *exchange.Answer) (Operation, CallResult) {
	if e, is := a.Err.(*Error); is {
		op := e.Operation
		op.Answer = nil
		return op, callResultOfError(e)
	}
	op := withoutAnswer(a.Operation)
	op.Replayed = a.Replayed
	switch {
	case a.Source == exchange.Recorded:
		return op, CallReplayed
	case a.Source == exchange.Shared:
		return op, CallShared
	case op.State == StateCancelled:
		return op, CallCancelled
	}
	return op, CallExecuted
}

func callResultOfError(e *Error) CallResult {
	for _, row := range []struct {
		kind error
		is   CallResult
	}{
		{ErrPending, CallPending}, {ErrInFlight, CallInFlight}, {ErrKeyReused, CallKeyReused},
		{ErrOutcomeUnknown, CallUnknown}, {ErrAnswerGone, CallGone},
		{ErrNotSent, CallCancelled}, {ErrWithdrawn, CallCancelled},
		{ErrJournal, CallJournal}, {ErrJournalRestored, CallJournal},
	} {
		if e.Kind == row.kind {
			return row.is
		}
	}
	return CallRefused
}

// whyOf returns why a claim was made, from the operation as found.
func whyOf(op *journal.Operation, background bool) Why {
	why := Why{Reason: ReasonAgain, Background: background}
	switch {
	case op.Generation > 0 && op.LastEndedAt.IsZero():
		why.Reason = ReasonGeneration
	case op.Found.State == journal.StateAbsent, op.Claim == 1:
		why.Reason = ReasonNew
	case op.Found.State == journal.StatePending && op.Found.MayHaveRun && op.LastEndedAt.Equal(op.UpdatedAt):
		why.Reason = ReasonTakenOver // the claim ended the dead process's claim
	}
	return why
}

// observer adapts the hooks and a logger to package core. A nil logger discards.
func (t *Trace) observer(log *slog.Logger) core.Observer {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	o := core.Observer{Log: log, Logged: logged, Parent: t.Parent, Reaped: t.Reaped, SessionLost: t.SessionLost, PassFailed: t.PassFailed}
	if hook := t.Started; hook != nil {
		o.Started = func(ctx context.Context, op *journal.Operation, background bool) context.Context {
			return hook(ctx, operationOf(op), whyOf(op, background))
		}
	}
	if hook := t.AttemptStarted; hook != nil {
		o.AttemptStarted = func(ctx context.Context, op *journal.Operation, n int) context.Context {
			return hook(ctx, operationOf(op), n)
		}
	}
	if hook := t.AttemptEnded; hook != nil {
		o.AttemptEnded = func(ctx context.Context, op *journal.Operation, a core.Attempt) {
			hook(ctx, operationOf(op), Attempt(a))
		}
	}
	if hook := t.KeyReplaced; hook != nil {
		o.KeyReplaced = func(ctx context.Context, op *journal.Operation) { hook(ctx, operationOf(op)) }
	}
	if hook := t.Conflicted; hook != nil {
		o.Conflicted = func(ctx context.Context, op *journal.Operation, status int, secondEffect bool) {
			hook(ctx, operationOf(op), status, secondEffect)
		}
	}
	if hook := t.Ended; hook != nil {
		o.Ended = func(ctx context.Context, op *journal.Operation, err error, replayed bool) {
			reported := withoutAnswer(op)
			reported.Replayed = replayed
			hook(ctx, reported, err)
		}
	}
	if hook := t.JournalFailed; hook != nil {
		o.JournalFailed = func(ctx context.Context, op *journal.Operation, event string, err error) {
			hook(ctx, operationOf(op), event, err)
		}
	}
	o.Delayed = told(t.Delayed, operationOf)
	o.Looked = told(t.Looked, withoutAnswer)
	o.Settled = told(t.Settled, withoutAnswer)
	o.Resolved = told(t.Resolved, withoutAnswer)
	return o
}

// progress adapts the hook Progress to package background. A nil hook stays nil.
func (t *Trace) progress() func(background.Counts) {
	hook := t.Progress
	if hook == nil {
		return nil
	}
	return func(n background.Counts) { hook(reportOf(&n)) }
}

// told adapts a hook, with an operation made by of. A nil hook stays nil.
func told[T any](hook func(context.Context, Operation, T), of func(*journal.Operation) Operation) func(context.Context, *journal.Operation, T) {
	if hook == nil {
		return nil
	}
	return func(ctx context.Context, op *journal.Operation, what T) { hook(ctx, of(op), what) }
}

// JoinTraces returns a Trace with the hooks of all traces. The hooks run in order, each with the context from the hook
// before.
func JoinTraces(traces ...*Trace) *Trace {
	all := new(Trace)
	for _, t := range traces {
		if t != nil {
			all.join(*t)
		}
	}
	return all
}

func (t *Trace) join(u Trace) {
	a, b := *t, u
	t.Parent = joined(a.Parent, b.Parent, func(ctx context.Context) string {
		if p := a.Parent(ctx); p != "" {
			return p
		}
		return b.Parent(ctx)
	})
	t.Asked = joined(a.Asked, b.Asked, func(ctx context.Context, op Operation, result CallResult, err error, took time.Duration) {
		a.Asked(ctx, op, result, err, took)
		b.Asked(ctx, op, result, err, took)
	})
	t.Started = joined(a.Started, b.Started, func(ctx context.Context, op Operation, why Why) context.Context {
		ctx = orElse(a.Started(ctx, op, why), ctx)
		return orElse(b.Started(ctx, op, why), ctx)
	})
	t.AttemptStarted = joined(a.AttemptStarted, b.AttemptStarted, func(ctx context.Context, op Operation, n int) context.Context {
		ctx = orElse(a.AttemptStarted(ctx, op, n), ctx)
		return orElse(b.AttemptStarted(ctx, op, n), ctx)
	})
	t.Conflicted = joined(a.Conflicted, b.Conflicted, func(ctx context.Context, op Operation, status int, secondEffect bool) {
		a.Conflicted(ctx, op, status, secondEffect)
		b.Conflicted(ctx, op, status, secondEffect)
	})
	t.JournalFailed = joined(a.JournalFailed, b.JournalFailed, func(ctx context.Context, op Operation, event string, err error) {
		a.JournalFailed(ctx, op, event, err)
		b.JournalFailed(ctx, op, event, err)
	})
	t.KeyReplaced = joined(a.KeyReplaced, b.KeyReplaced, func(ctx context.Context, op Operation) { a.KeyReplaced(ctx, op); b.KeyReplaced(ctx, op) })
	t.SessionLost = joined(a.SessionLost, b.SessionLost, func(ctx context.Context) { a.SessionLost(ctx); b.SessionLost(ctx) })
	t.Progress = joined(a.Progress, b.Progress, func(r Report) { a.Progress(r); b.Progress(r) })
	t.Ended = both(t.Ended, u.Ended)
	t.AttemptEnded = both(t.AttemptEnded, u.AttemptEnded)
	t.Delayed = both(t.Delayed, u.Delayed)
	t.Looked = both(t.Looked, u.Looked)
	t.Settled = both(t.Settled, u.Settled)
	t.Resolved = both(t.Resolved, u.Resolved)
	t.Reaped = one(t.Reaped, u.Reaped)
	t.PassFailed = one(t.PassFailed, u.PassFailed)
}

// orElse returns the hook's context, or the given context instead of nil.
func orElse(returned, given context.Context) context.Context {
	if returned == nil {
		return given
	}
	return returned
}

// joined returns both, which calls two hooks, or the other hook if one hook is nil.
func joined[F any](a, b, both F) F {
	switch {
	case reflect.ValueOf(b).IsNil():
		return a
	case reflect.ValueOf(a).IsNil():
		return b
	}
	return both
}

// both joins two hooks about an operation.
func both[T any](a, b func(context.Context, Operation, T)) func(context.Context, Operation, T) {
	return joined(a, b, func(ctx context.Context, op Operation, v T) { a(ctx, op, v); b(ctx, op, v) })
}

// one joins two hooks that have no operation.
func one[T any](a, b func(context.Context, T)) func(context.Context, T) {
	return joined(a, b, func(ctx context.Context, v T) { a(ctx, v); b(ctx, v) })
}

// logged returns an operation's group of log attributes.
func logged(op *journal.Operation) slog.Attr {
	o := withoutAnswer(op)
	group := []any{"id", o.title()}
	add := func(key, value string) {
		if value != "" {
			group = append(group, key, value)
		}
	}
	if o.URL != "" {
		add("request", o.Method+" "+secret.URL(core.Parsed(o.URL)))
	}
	add("scope", o.Scope)
	if kind, parent := o.parent(); parent != "" {
		add(kind, parent)
	}
	if o.InboundKey != "" {
		add("inbound_key", o.InboundKey.short())
	}
	add("provider", o.Provider)
	add("endpoint", o.Endpoint)
	return slog.Group("operation", append(group, "state", o.State.String(), "generation", o.Generation, "claim", o.Claim)...)
}
