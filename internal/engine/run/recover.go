package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// recoverFor gets the missing answer for an operation that another source, such as a webhook, completed during the run.
// A run in the background has no caller for the answer.
func (r *Run) recoverFor(res *machine.Result) {
	if r.caller == nil || res.Decision == machine.Recorded || !res.Operation.AnswerMissing() {
		return
	}
	again := newRun(r.ctx, r.client, res, nil, r.ends)
	again.caller, again.route, again.target, again.query, again.secrets, again.permit = r.caller, r.route, r.target, r.query, r.secrets, r.permit
	if again.op.BodyWithheld {
		again.op.Request = r.op.Request // with the caller's body
	}
	again.Recover(&res.Operation, "its own call")
	r.Regained, r.Missing = again.Regained, again.Missing
}

// Recover gets a completed operation's missing answer, for a person. It returns the resulting operation, and the
// reason if the answer is still missing.
func Recover(ctx context.Context, c *exchange.Client, op *journal.Operation, actor string) (journal.Operation, error) {
	r := newRun(ctx, c, &machine.Result{Operation: *op}, nil, c.EndOfWait(ctx))
	r.target, r.route = core.Parsed(op.Request.URL), new(tables.Route)
	if r.target != nil {
		*r.route = c.Contract(&op.Request, r.target)
	}
	stood := *op
	r.Recover(&stood, actor)
	if r.Regained != nil {
		r.Regained.Response.Body.Close()
	}
	return stood, r.Missing.Why
}

// Recover gets a completed operation's missing answer, and leaves the present operation in op. It repeats the
// request under the key, if the resend rule permits a repeat. Otherwise, or if the repeat brings no answer, it looks
// for the object. All processes together ask at most once a minute.
//
// An answer that can't be recorded, such as a secret, is left in r.Regained. If there is no answer, r.Missing says
// why.
func (r *Run) Recover(op *journal.Operation, actor string) {
	c := r.client
	r.Missing = exchange.Missing{Asked: true, Again: c.Now().Add(machine.AskedLook), Why: wire.ErrOutOfTime}
	if !c.Now().Before(r.ends) {
		return
	}
	leased, err := c.Finder.Lease(r.ctx, op, "", r.ends)
	if err != nil {
		r.Missing.Why = fmt.Errorf("the journal failed: %w", err)
		return
	}
	defer func() { // whoever has recorded the answer
		if stands, err := c.Read(r.ctx, op.Ref); err == nil && stands.State == journal.StateCompleted {
			*op = stands
		}
		if !op.AnswerMissing() || r.Regained != nil {
			r.Missing = exchange.Missing{}
		}
	}()
	if leased.Decision != machine.Look {
		r.Missing.Again = leased.Operation.LookedAt.Add(machine.AskedLook)
		r.Missing.Why = fmt.Errorf("its provider was asked for it less than %v ago: ask again later", machine.AskedLook)
		return
	}
	if err := r.renew(&leased); err != nil {
		r.Missing.Why = err
		return
	}
	later, spent, why := r.askProvider(&leased)
	if why == nil {
		return
	}
	found, final := c.Finder.FindAnswer(r.ctx, &reconcile.Pass{Caller: r.caller, Query: r.query, Actor: actor, Ends: r.ends}, &r.op)
	if final && spent {
		r.Missing.Again = time.Time{}
	} else if final && !later.IsZero() {
		r.Missing.Again = core.Later(later, r.Missing.Again)
	}
	if found != "" {
		why = fmt.Errorf("%w; %s", why, found)
	}
	r.Missing.Why = why
}

// renew takes over the record as it stands under the lease, whole.
func (r *Run) renew(leased *machine.Result) error {
	whole, err := r.client.Read(r.ctx, r.op.Ref)
	if err != nil {
		return fmt.Errorf("the journal failed: %w", err)
	}
	if whole.BodyWithheld && len(r.op.Request.Body) > 0 {
		whole.Request = r.op.Request // with the caller's body
	}
	r.op, r.last, r.unconfirmed, r.began = whole, leased.Last, leased.Unconfirmed, time.Now()
	r.idleSince = r.client.Idle.Since(&r.op, r.began)
	return nil
}

// askProvider repeats r.op's request once, if the resend rule permits a repeat, and records the answer. The
// repeat needs no claim, since the operation counts as sent already. askProvider returns why there is no answer, or
// nil. spent says that no later repeat brings an answer. Otherwise later is the time when the rule permits a repeat,
// or zero.
func (r *Run) askProvider(leased *machine.Result) (later time.Time, spent bool, why error) {
	c := r.client
	if r.target == nil || !core.SameContract(&r.op, *r.route) {
		return later, true, core.ErrContractGone
	}
	if r.op.BodyWithheld && len(r.op.Request.Body) == 0 {
		return later, true, errors.New("its body is a secret, and only its caller has it")
	}
	now := c.Now()
	r.op.Terms = r.op.Terms.Narrow(core.TermsOf(*r.route))
	switch p := machine.MayRepeat(&r.op, machine.Today{Terms: r.op.Terms, Form: r.route.KeyForm()}, now, leased.Last, leased.Unconfirmed); p.Answer {
	case machine.Never:
		return later, true, errors.New(p.Reason)
	case machine.NotBefore:
		return p.At, false, errors.New(p.Reason)
	}
	if r.heldBack {
		return later, false, errHeldBack
	}
	if ok, _ := c.Budget(*r.route).Take(now); !ok {
		return later, false, fault.ErrRetryBudget
	}
	was := r.op.Answer
	r.op.Found = journal.Found{State: journal.StateCompleted, MayHaveRun: true, Failed: r.op.Failed, FirstSentAt: r.op.FirstSentAt}
	if err := c.Session.Do(r.ctx, func(session string) error { r.op.Holder = session; return nil }); err != nil {
		return later, false, err
	}
	c.Lifecycle.Begin(r)
	defer c.Lifecycle.End(r)
	defer r.permit.Free()  // it was used
	_, _ = r.makeAttempt() // its results are the attempt's
	r.classify()
	a := &r.attempt
	var rule *notAllowed
	switch {
	case errors.As(a.local, &rule):
		return rule.At, rule.Answer == machine.Never, a.local
	case a.local != nil:
		return later, false, a.local
	case a.err != nil:
		return later, false, errors.New(describe(a.err, a.unsent))
	case a.open, a.cut != nil:
		a.discard()
		return later, false, fmt.Errorf("%s, and the answer could not be read whole", a.status())
	}
	switch a.judged.Verdict {
	case providers.Final, providers.AlreadyDone:
		c.Budget(*r.route).Success(r.stats.ended)
		r.fetch()
		r.complete()
		return later, true, r.keepAnswer(was)
	case providers.AnswerGone, providers.Misuse, providers.Indeterminate:
		a.discard()
		return later, true, fmt.Errorf("a repeat was answered by %s, which is not the answer", a.status())
	case providers.Rejected:
		a.discard()
		if a.judged.Credential {
			return later, false, fault.ErrCredentialRefused
		}
	}
	a.discard()
	return later, false, fmt.Errorf("a repeat was answered by %s", a.status())
}

// keepAnswer records the answer to a repeat. It returns the reason if the answer does not count, or nil.
func (r *Run) keepAnswer(was *journal.Answer) error {
	answer := r.end.answer
	ev := machine.Event{
		Kind: machine.EventComplete, Ref: r.op.Ref, Handle: r.op.Handle, At: r.client.Now(), Session: r.op.Holder, Claim: r.op.Claim,
		Generation: r.op.Generation, Answer: answer, Attempts: r.stats.made, Object: r.answeredObject(answer), Account: r.op.Account, Mode: r.mode,
	}
	ctx, cancel := grace.After(r.ctx)
	defer cancel()
	res, err := r.client.Journal.Apply(ctx, ev)
	op := &res.Operation
	if err != nil { // this caller gets it all the same, and the next one asks again
		r.client.JournalFailed(r.ctx, &r.op, machine.EventComplete, "an answer could not be recorded; the next caller who asks for it asks the provider again", err)
		res, op = machine.Result{Decision: machine.Recorded}, &r.op
	}
	switch second := res.Decision == machine.SecondEffect; {
	case second, res.Decision == machine.Contradicted, answer.Refused != was.Refused:
		r.attempt.discard()
		r.client.Note(r.ctx, slog.LevelError, core.LogConflict, "the answer to a repeat contradicts the record; compare the two at the provider", &r.op, "status", answer.Status, "second_effect", second)
		r.client.Conflicted(r.ctx, &r.op, answer.Status, second)
		return errors.New("a repeat was answered otherwise than the evidence says: compare the two at the provider")
	case res.Decision != machine.Recorded && !answer.Omitted: // another caller was faster
		r.attempt.discard()
		return nil
	case err != nil, answer.Omitted:
		op.Request.Method = cmp.Or(op.Request.Method, r.op.Request.Method)
		stood := *op
		stood.Answer = answer
		r.Regained = &exchange.Answer{Response: r.respond(&stood), Operation: &stood, Replayed: true}
	}
	return nil
}
