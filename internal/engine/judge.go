package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// classify asks the provider's table what an answer means.
func (r *run) classify() {
	a := &r.attempt
	if a.local != nil {
		return
	}
	if a.err == nil {
		answer, read := r.answerHead(), false
		switch {
		case a.cut != nil:
			answer = wire.Begun(answer, a.body, false, *r.route)
		case a.partial:
			answer, read = wire.Legible(answer, a.whole, *r.route)
		default:
			answer, read = wire.Legible(answer, a.body, *r.route)
		}
		a.judged = r.route.Classify(answer)
		if d, ok := r.route.Declared(answer); ok && d < r.op.Terms.Retention {
			r.op.Terms.Retention, r.tally.declared = d, cmp.Or(d, -1)
		}
		if a.open = !read && r.route.Open(answer, a.judged.Verdict) || a.cut == nil && r.hidesDecline(); a.open {
			a.judged.Credential = false // nor does it tell of a credential
		}
		a.whole = nil // the stream has it
	}
	r.seen()
	r.attempted()
}

// judge decides after an attempt whether there is another, and how the run ends if
// there is none.
func (r *run) judge() {
	a := &r.attempt
	before := r.mayHaveRun()
	switch {
	case a.lost:
		r.end = &ending{kind: machine.EventPark, cause: "the claim was taken over"}
		return
	case a.local != nil:
		r.judgeLocal(a.local)
		return
	case a.unsent && errors.Is(a.err, errTooLate):
		r.judgeLocal(a.err)
		return
	case a.err != nil:
		r.tally.mayHaveRun = r.tally.mayHaveRun || !a.unsent
		r.retryOrEnd(false, describe(a.err, a.unsent), a.err)
		return
	}
	r.tally.answered, r.tally.busy = true, a.judged.Verdict == providers.InFlight
	if a.judged.Earlier && !before {
		// Another party sent this key: a lost journal, another host, a proxy.
		r.tally.mayHaveRun = true
		if !r.comparesRequests() && !r.madeKey() {
			r.doubt("the answer belongs to an earlier request under this key, and the provider does not compare requests", nil)
			return
		}
	}
	if a.open { // whatever its status says
		r.tally.mayHaveRun, r.tally.failed = true, true
		what := ", body cut short"
		if a.cut == nil {
			what = ", body in a coding that can't be read, or longer than is looked at"
		}
		r.retryOrEnd(a.judged.Verdict == providers.InFlight, a.status()+what, a.cut)
		return
	}
	if r.route.Endpoint.RefusalsRegisterNoKey && !a.judged.Earlier &&
		(a.judged.Verdict == providers.Rejected || a.judged.Verdict == providers.NotExecuted) {
		r.tally.refused++
	}
	switch a.judged.Verdict {
	case providers.Final, providers.AlreadyDone:
		r.engine.Budget(*r.route).Success(r.tally.ended)
		if a.cut != nil {
			r.tally.mayHaveRun = true
			r.retryOrEnd(false, a.status()+", body cut short", a.cut)
			return
		}
		r.fetch()
		r.complete()
	case providers.AnswerGone:
		if !before {
			r.doubt(a.status()+": an earlier request under this key took effect, and it was not one of this operation", nil)
			return
		}
		r.engine.Budget(*r.route).Success(r.tally.ended)
		r.end = &ending{kind: machine.EventComplete, answer: &journal.Answer{Generation: r.op.Generation, Omitted: true}}
	case providers.Rejected:
		if a.judged.Credential {
			r.credentialRefused()
			return
		}
		r.end = &ending{kind: machine.EventCancel, cause: a.status() + ": refused"}
		r.end.due, r.end.own = r.afterRefusal()
	case providers.NotExecuted:
		r.retryOrEnd(false, a.status(), nil)
	case providers.InFlight: // which proves an earlier one
		r.retryOrEnd(true, a.status()+": in flight at the provider", nil)
	case providers.Misuse:
		if r.mayHaveRun() || !r.madeKey() && !r.op.KeyCarried {
			r.doubt(a.status()+": the key was used for another request", nil)
		} else {
			r.end = &ending{kind: machine.EventCancel, cause: a.status() + ": the key was used for another request"}
		}
		r.end.errKind = fault.ErrKeyReused
	case providers.Indeterminate:
		if a.cut != nil { // the missing part may have said more
			r.tally.mayHaveRun, r.tally.failed = true, true
			r.retryOrEnd(false, a.status()+", body cut short", a.cut)
			return
		}
		r.doubt(a.status()+": does not say whether it happened", nil)
	default:
		r.tally.mayHaveRun, r.tally.failed = true, true
		r.retryOrEnd(false, a.status(), a.cut)
	}
}

// credentialRefused ends a run whose credential was refused. The request itself was not judged, and another credential
// will do. The first caller gets the refusal, and the operation is cancelled. A flow's step waits instead.
func (r *run) credentialRefused() {
	cause := r.attempt.status() + ": the credential was refused"
	r.end = &ending{kind: r.givesUp(), cause: cause, err: fault.ErrCredentialRefused}
	r.end.due, r.end.own = r.afterRefusal()
	if r.isOfFlow() {
		r.end.kind = machine.EventPark
	}
	if r.permit != nil { // a caller may have another one
		r.end.due, r.end.wake = r.soonest(), core.Later(r.end.due, r.permit.Beyond(r.engine.Now()))
	}
}

func (a *attempt) status() string { return fmt.Sprintf("status %d", a.resp.StatusCode) }

// judgeLocal judges an attempt that was not made.
func (r *run) judgeLocal(err error) {
	if errors.Is(err, errInterrupted) {
		r.interrupted(r.engine.Now())
		return
	}
	var rule *notAllowed
	switch {
	case err == errHeard: // the evidence decides
		r.doubt(err.Error(), nil)
		return
	case !errors.As(err, &rule):
	case rule.Answer == machine.Never:
		r.doubt(rule.Reason, nil)
		return
	default:
		r.park(rule.At, rule.Reason, nil)
		return
	}
	// The provider was not asked: a caller who has what was missing need not wait.
	r.end = &ending{kind: r.givesUp(), due: r.engine.Now(), wake: r.engine.Now().Add(r.pause(false)), cause: describe(err, true), err: err}
	r.end.wake = core.Later(r.end.wake, r.permit.Beyond(r.engine.Now()))
	if errors.Is(err, wire.ErrOutOfTime) {
		r.end.wake = time.Time{}
	}
	if errors.Is(err, errTooLate) {
		r.end.wake, r.end.cause = time.Time{}, err.Error()
		if !r.notAfter.Equal(r.op.NotAfter) { // the asker's time: for others it rests as after any attempt
			r.end.due, r.end.own = r.engine.Now().Add(r.pause(false)), true
		}
	}
	switch changed := errors.Is(err, wire.ErrCredentialChanged); {
	case changed && r.mayHaveRun():
		r.doubt(err.Error(), err)
	case changed, err == wire.ErrModeChanged: // until the other credential is brought back
		r.end.cause, r.end.wake = err.Error(), r.engine.Now().Add(retry.UpperHalf(retry.LongestPause))
	case errors.Is(err, wire.ErrAccountUnread):
		r.end.cause = err.Error()
	}
	if err == wire.ErrModeChanged {
		r.end.errKind = fault.ErrKeyReused
	}
	if r.isOfFlow() && r.ctx.Err() == nil && wire.NeedsOtherCredential(err) {
		// The flow waits for it.
		r.end.kind, r.end.due, r.end.own = machine.EventPark, r.engine.Now().Add(r.pause(false)), true
	}
	if errors.Is(err, fault.ErrCredentialMissing) {
		r.end.errKind, r.end.cause = fault.ErrCredentialMissing, err.Error()
	}
}

// interrupted ends a run between two attempts if its context ended or its client shuts down. If the caller cancelled,
// the operation is due at once, and otherwise when the next attempt was.
func (r *run) interrupted(due time.Time) {
	if r.attempt.partial {
		r.attempt.closed = true // for the next attempt
	}
	if r.ctx.Err() == nil {
		r.park(core.Later(r.engine.Now(), due), "the client was shut down", fault.ErrShutdown)
		r.end.own = r.asked.IsZero()
		return
	}
	r.abandon(core.Later(r.engine.Now(), due), "")
}

// abandon ends a run whose own context has ended. After the caller's own wish the
// operation is due as soon as the provider allows. In the background it is Run or Resume that ends, and the
// operation stays due when it was.
func (r *run) abandon(due time.Time, cause string) {
	e := &ending{kind: r.givesUp(), due: core.Later(r.engine.Now(), r.asked), own: r.asked.IsZero(), cause: "its caller gave up", err: context.Cause(r.ctx)}
	if r.caller == nil {
		e.due, e.cause = due, "Run or Resume ended"
	}
	if cause != "" {
		e.cause += "; " + cause
	}
	r.end = e
}

// isOfFlow reports whether a flow's step asks for the operation. For want of a credential
// it is parked, and not cancelled: the flow is not to be undone for that.
func (r *run) isOfFlow() bool { return r.caller != nil && seam.IsOfFlow(r.op.Parent) }

// givesUp returns the event that ends a run which cannot go on through no fault of the operation's. It cancels the
// operation if nothing may have run and the run's own caller began it. An operation that was pending before stays
// pending, since other callers know that.
func (r *run) givesUp() machine.EventKind {
	if r.caller == nil || r.op.Found.State == journal.StatePending {
		return machine.EventPark
	}
	return machine.EventCancel
}

// undated reports whether the provider has not registered the key by any attempt of this
// claim, so that the window has not begun.
func (r *run) undated() bool {
	return !r.tally.maybeSent || r.tally.departed == r.tally.refused && !r.tally.mayHaveRun && !r.tally.underWay
}

// mayHaveRun reports whether the operation may have run: before the claim, or in one of the claim's own attempts. The
// resend rule takes it while the claim lives.
func (r *run) mayHaveRun() bool { return r.op.Found.MayHaveRun || r.tally.mayHaveRun }

// retryOrEnd decides on another attempt. busy says that the provider is still working on an earlier one of ours. That
// does not count as an attempt, though against the budget.
func (r *run) retryOrEnd(busy bool, cause string, err error) {
	policy := r.engine.Backoff.WithDefaults()
	if !busy {
		r.tally.counted++
	}
	now := r.engine.Now()
	delay, asked := r.delay(policy, busy)
	at := now.Add(delay)
	var wake time.Time
	if r.ctx.Err() == nil && r.tally.counted >= policy.MaxAttempts {
		at, wake = r.rest(at, asked, busy)
		cause = "out of attempts: " + cause
	}
	if late := r.tooLate(at); late != nil && r.ctx.Err() == nil {
		r.end = &ending{kind: r.givesUp(), due: at, own: !asked, wake: wake, cause: cause + "; " + late.Error(), err: errors.Join(late, err)}
		return
	}
	p := machine.MaySend(r.question(at))
	switch {
	case p.Answer == machine.Never && r.attempt.cut != nil && r.finalByStatus():
		r.complete()
		return
	case r.ctx.Err() != nil:
		r.abandon(at, cause)
		return
	case p.Answer == machine.Never:
		r.doubt(cause+"; "+p.Reason, err)
		return
	case p.Answer == machine.NotBefore:
		at = core.Later(at, p.At)
	}
	if r.tally.counted >= policy.MaxAttempts || at.After(r.ends) || r.pauses.Err() != nil {
		r.park(at, cause, err)
		r.end.own, r.end.wake = !asked, wake
		return
	}
	if r.tally.declared != 0 { // a process that took over from this one has to know it
		r.park(at, "the provider remembers the key for less time than its table says: "+cause, err)
		r.end.own = !asked
		return
	}
	if !busy && !r.permit.Stays(now) {
		at, wake = r.rest(at, asked, busy)
		r.park(at, "attempts at the provider fail, and are made one at a time: "+cause, err)
		r.end.own, r.end.wake = !asked, wake
		return
	}
	if ok, _ := r.engine.Budget(*r.route).Take(now); !ok {
		// It was local: the provider was not asked. It does not come back as soon as the
		// budget has a retry again, since all that wait for one would, and first attempts
		// are free.
		at, wake = r.rest(at, asked, busy)
		r.park(at, "the retry budget is used up: "+cause, fault.ErrRetryBudget)
		r.end.own, r.end.wake = !asked, wake
		return
	}
	r.wait, r.until = at.Sub(now), at
	r.engine.Delayed(r.ctx, &r.op, r.wait)
}

// delay returns the delay that the provider asks for, or else the policy's. If the provider is busy with an earlier
// attempt, the delay is never less than the policy's, since such attempts are not counted.
func (r *run) delay(policy backoff.Policy, busy bool) (delay time.Duration, asked bool) {
	if r.delays == nil {
		r.delays = retry.NewDelays(policy)
	}
	own := r.delays.Next()
	r.asked = time.Time{}
	if r.attempt.resp != nil {
		if asked, ok := retry.After(r.attempt.resp.Header, r.engine.Now(), policy.MaxRetryAfter); ok {
			r.asked = r.engine.Now().Add(asked)
			if busy {
				asked = max(asked, own)
			}
			return asked, true
		}
	}
	return own, false
}

// soonest returns the earliest time that the provider's last answer, if there is one, allows for another attempt. If
// the provider is busy with an earlier attempt, that time is never now.
func (r *run) soonest() time.Time {
	now, policy := r.engine.Now(), r.engine.Backoff.WithDefaults()
	if r.attempt.resp == nil {
		return now
	}
	asked, _ := retry.After(r.attempt.resp.Header, now, policy.MaxRetryAfter)
	if r.attempt.judged.Verdict == providers.InFlight {
		asked = max(asked, retry.NewDelays(policy).Next())
	}
	return now.Add(asked)
}

// askedUntil returns the time before which no caller may ask the provider again, according to its last answer. It
// returns the zero time for an answer about a credential, which concerns that credential only.
func (r *run) askedUntil() time.Time {
	switch {
	case r.attempt.judged.Credential:
		return time.Time{}
	case r.asked.After(r.engine.Now()):
		return r.asked
	}
	return r.soonest()
}

// afterRefusal returns when a refused operation that stays pending is tried again. own reports whether our policy,
// not the provider, set that time.
func (r *run) afterRefusal() (due time.Time, own bool) {
	asked, now := r.soonest(), r.engine.Now()
	return core.Later(asked, now.Add(r.pause(false))), !asked.After(now)
}

// question asks the resend rule about an attempt at the given time.
func (r *run) question(at time.Time) machine.Question {
	p := machine.Progress{
		Open: r.tally.mayHaveRun, Failed: r.tally.failed, Sent: r.tally.maybeSent,
		Now: r.engine.Now(), Last: r.last, Unconfirmed: r.unconfirmed,
		Held: time.Since(r.began), Idle: time.Since(r.idleSince),
		Idempotent: r.caller != nil &&
			(r.op.Request.Method == http.MethodPut || r.op.Request.Method == http.MethodDelete || r.route.Endpoint.Idempotent),
	}
	return p.Question(&r.op, at)
}

func (r *run) park(due time.Time, cause string, err error) {
	r.end = &ending{kind: machine.EventPark, due: due, cause: cause, err: err}
}

func (r *run) doubt(cause string, err error) {
	r.end = &ending{kind: machine.EventDoubt, cause: cause, err: err}
}

func (r *run) complete() {
	a := &r.attempt
	end := &struct {
		ending
		answer journal.Answer
	}{}
	answer := &end.answer
	*answer = journal.Answer{
		Generation: r.op.Generation,
		Status:     a.resp.StatusCode,
		Header:     wire.RecordedHeader(a.resp.Header),
		Trailer:    wire.RecordedHeader(a.resp.Trailer),
		Body:       a.body,
		Cut:        a.cut != nil,
		Refused:    a.resp.StatusCode >= 400 || r.declined(),
		Pointer:    a.judged.Pointer,
	}
	if a.judged.Verdict == providers.AlreadyDone {
		answer.Refused = false
	}
	if a.partial || r.hides(a.resp.Header, a.body) {
		answer.Body, answer.Omitted = nil, true
	}
	r.end = &end.ending
	r.end.kind, r.end.answer = machine.EventComplete, answer
}

// declined reports whether the provider's table knows the answer as a success that says that nothing took effect.
func (r *run) declined() bool {
	a, p := &r.attempt, r.route.Provider
	if p == nil || len(p.Declines) == 0 || a.partial || a.cut != nil {
		return false
	}
	answer, read := wire.Plain(r.answerHead(), a.body)
	return read && tables.Declined(p, answer)
}

// finalByStatus reports whether the status line and headers of a cut answer alone
// are the operation's answer. A success is not if it may be a decline.
func (r *run) finalByStatus() bool {
	return r.attempt.judged.Verdict == providers.Final && !r.attempt.open && !r.hidesDecline()
}

// hidesDecline reports whether an answer is a success of a table with declines, and its body is cut or has a coding that can't
// be read. So it may be a decline.
func (r *run) hidesDecline() bool {
	a, p := &r.attempt, r.route.Provider
	if p == nil || len(p.Declines) == 0 || a.partial || a.judged.Verdict != providers.Final || a.resp.StatusCode >= 300 {
		return false
	}
	_, read := wire.Plain(r.answerHead(), a.body)
	return a.cut != nil || !read && len(a.resp.Header.Values("Content-Encoding")) > 0
}

// comparesRequests reports whether the provider refuses a key that is used with
// another request: it has a documented answer for that.
func (r *run) comparesRequests() bool {
	return slices.ContainsFunc(r.route.Endpoint.Rules, func(rule providers.Rule) bool { return rule.Verdict == providers.Misuse })
}

// madeKey reports whether the key was made here and at random, so that no other party can have used it.
func (r *run) madeKey() bool {
	return !r.op.KeyCarried && naming.IsRandom(r.op.Key)
}
