package run

import (
	"errors"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// judge decides after an attempt whether there is another, and how the run ends if
// there is none.
func (r *Run) judge() {
	a := &r.attempt
	before := r.mayHaveRun()
	switch {
	case a.lost:
		r.end = &ending{kind: machine.EventPark, cause: "the claim was taken over"}
		return
	case a.local != nil:
		r.judgeLocal(a.local)
		return
	case a.unsent && (errors.Is(a.err, errTooLate) || errors.Is(a.err, fault.ErrNested)):
		r.judgeLocal(a.err)
		return
	case a.err != nil:
		r.stats.mayHaveRun = r.stats.mayHaveRun || !a.unsent
		r.retryOrEnd(false, describe(a.err, a.unsent), a.err)
		return
	}
	r.stats.answered, r.stats.busy = true, a.judged.Verdict == providers.InFlight
	if a.judged.Earlier && !before {
		// Another party sent this key: a lost journal, another host, a proxy.
		r.stats.mayHaveRun = true
		if !r.comparesRequests() && !r.madeKey() {
			r.markUnknown("the answer belongs to an earlier request under this key, and the provider does not compare requests", nil)
			return
		}
	}
	if a.open { // whatever its status says
		r.stats.mayHaveRun, r.stats.failed = true, true
		what := ", body cut short"
		if a.cut == nil {
			what = ", body in a coding that can't be read, or longer than is looked at"
		}
		r.retryOrEnd(a.judged.Verdict == providers.InFlight, a.status()+what, a.cut)
		return
	}
	if r.route.Endpoint.RefusalsRegisterNoKey && !a.judged.Earlier &&
		(a.judged.Verdict == providers.Rejected || a.judged.Verdict == providers.NotExecuted) {
		r.stats.refused++
	}
	switch a.judged.Verdict {
	case providers.Final, providers.AlreadyDone:
		r.client.Budget(*r.route).Success(r.stats.ended)
		if a.cut != nil {
			r.stats.mayHaveRun = true
			r.retryOrEnd(false, a.status()+", body cut short", a.cut)
			return
		}
		r.fetch()
		r.complete()
	case providers.AnswerGone:
		if !before {
			r.markUnknown(a.status()+": an earlier request under this key took effect, and it was not one of this operation", nil)
			return
		}
		r.client.Budget(*r.route).Success(r.stats.ended)
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
			r.markUnknown(a.status()+": the key was used for another request", nil)
		} else {
			r.end = &ending{kind: machine.EventCancel, cause: a.status() + ": the key was used for another request"}
		}
		r.end.errKind = fault.ErrKeyReused
	case providers.Indeterminate:
		if a.cut != nil { // the missing part may have said more
			r.stats.mayHaveRun, r.stats.failed = true, true
			r.retryOrEnd(false, a.status()+", body cut short", a.cut)
			return
		}
		r.markUnknown(a.status()+": does not say whether it happened", nil)
	default:
		r.stats.mayHaveRun, r.stats.failed = true, true
		r.retryOrEnd(false, a.status(), a.cut)
	}
}

// credentialRefused ends a run whose credential was refused. The request itself was not judged, and another credential
// will do. The first caller gets the refusal, and the operation is cancelled. A flow's step waits instead.
func (r *Run) credentialRefused() {
	cause := r.attempt.status() + ": the credential was refused"
	r.end = &ending{kind: r.givesUp(), cause: cause, err: fault.ErrCredentialRefused}
	r.end.due, r.end.own = r.afterRefusal()
	if r.isOfFlow() {
		r.end.kind = machine.EventPark
	}
	if r.permit != nil { // a caller may have another one
		r.end.due, r.end.wake = r.soonest(), core.Later(r.end.due, r.permit.Beyond(r.client.Now()))
	}
}

// judgeLocal judges an attempt that was not made.
func (r *Run) judgeLocal(err error) {
	if errors.Is(err, errInterrupted) {
		r.interrupted(r.client.Now())
		return
	}
	var rule *notAllowed
	switch {
	case err == errHeard: // the evidence decides
		r.markUnknown(err.Error(), nil)
		return
	case !errors.As(err, &rule):
	case rule.Answer == machine.Never:
		r.markUnknown(rule.Reason, nil)
		return
	default:
		r.park(rule.At, rule.Reason, nil)
		return
	}
	// The provider was not asked: a caller with the missing credential need not wait.
	r.end = &ending{kind: r.givesUp(), due: r.client.Now(), wake: r.client.Now().Add(r.pause(false)), cause: describe(err, true), err: err}
	r.end.wake = core.Later(r.end.wake, r.permit.Beyond(r.client.Now()))
	if errors.Is(err, wire.ErrOutOfTime) {
		r.end.wake = time.Time{}
	}
	if errors.Is(err, errTooLate) {
		r.end.wake, r.end.cause = time.Time{}, err.Error()
		if !r.notAfter.Equal(r.op.NotAfter) { // the asker's time: for others it waits as after any attempt
			r.end.due, r.end.own = r.client.Now().Add(r.pause(false)), true
		}
	}
	switch changed := errors.Is(err, wire.ErrCredentialChanged); {
	case changed && r.mayHaveRun():
		r.markUnknown(err.Error(), err)
	case changed, err == wire.ErrModeChanged: // until the other credential is brought back
		r.end.cause, r.end.wake = err.Error(), r.client.Now().Add(retry.UpperHalf(retry.LongestPause))
	case errors.Is(err, wire.ErrAccountUnread):
		r.end.cause = err.Error()
	}
	if err == wire.ErrModeChanged {
		r.end.errKind = fault.ErrKeyReused
	}
	if r.isOfFlow() && r.ctx.Err() == nil && wire.NeedsOtherCredential(err) {
		// The flow waits for it.
		r.end.kind, r.end.due, r.end.own = machine.EventPark, r.client.Now().Add(r.pause(false)), true
	}
	if errors.Is(err, fault.ErrCredentialMissing) {
		r.end.errKind, r.end.cause = fault.ErrCredentialMissing, err.Error()
	}
}

// isOfFlow reports whether a flow's step asks for the operation. Without a credential, such an operation is parked,
// and not cancelled, so that the flow is not undone.
func (r *Run) isOfFlow() bool { return r.caller != nil && seam.IsOfFlow(r.op.Parent) }

// retryOrEnd decides on another attempt. busy says that the provider still works on our earlier attempt. Such
// an attempt does not count, except against the budget.
func (r *Run) retryOrEnd(busy bool, cause string, err error) {
	policy := r.client.Backoff.WithDefaults()
	if !busy {
		r.stats.counted++
	}
	now := r.client.Now()
	delay, asked := r.delay(policy, busy)
	at := now.Add(delay)
	var wake time.Time
	if r.ctx.Err() == nil && r.stats.counted >= policy.MaxAttempts {
		at, wake = r.afterLastAttempt(at, asked, busy)
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
		r.markUnknown(cause+"; "+p.Reason, err)
		return
	case p.Answer == machine.NotBefore:
		at = core.Later(at, p.At)
	}
	if r.stats.counted >= policy.MaxAttempts || at.After(r.ends) || r.pauses.Err() != nil {
		r.park(at, cause, err)
		r.end.own, r.end.wake = !asked, wake
		return
	}
	if r.stats.declared != 0 { // a process that took over from this one has to know it
		r.park(at, "the provider remembers the key for less time than its table says: "+cause, err)
		r.end.own = !asked
		return
	}
	if !busy && !r.permit.Stays(now) {
		at, wake = r.afterLastAttempt(at, asked, busy)
		r.park(at, "attempts at the provider fail, and are made one at a time: "+cause, err)
		r.end.own, r.end.wake = !asked, wake
		return
	}
	if ok, _ := r.client.Budget(*r.route).Take(now); !ok {
		// It was local: the provider was not asked. It does not come back as soon as the budget has a retry again,
		// since all waiting operations would, and first attempts are free.
		at, wake = r.afterLastAttempt(at, asked, busy)
		r.park(at, "the retry budget is used up: "+cause, fault.ErrRetryBudget)
		r.end.own, r.end.wake = !asked, wake
		return
	}
	r.wait, r.until = at.Sub(now), at
	r.client.Delayed(r.ctx, &r.op, r.wait)
}
