package engine

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

var errHeldBack = errors.New("its provider fails, or has reached its limit of concurrent requests, and is sent less for a while")

// ErrLimited is why the background sends a provider less that has answered 429.
var ErrLimited = errors.New("the provider asked for fewer requests; Run tries again from time to time")

// isBackground reports whether a flow makes the call that Run or Resume runs.
func (k *call) isBackground() bool {
	return k.name.Parent != nil && k.name.Parent.Flow != nil && k.name.Parent.Flow.Background
}

// enter gets a permit for a call of a flow in the background, or reports that the call is to be held back. It waits for
// a slot, for no longer than an attempt may take, and for no breaker.
func (k *call) enter() (heldBack bool) {
	if !k.isBackground() {
		return false
	}
	e := k.engine
	to := core.TargetOf(&journal.Operation{Ref: k.ref, Account: k.intent.Account, Request: k.intent.Request}, k.route, k.clean.Host)
	to.Needs = nil // the function may have what Run has not
	timeout := time.NewTimer(min(e.AttemptTimeout, k.ends.Sub(e.Now())))
	defer timeout.Stop()
	for waits := true; ; {
		freed := e.Throttle.Freed()
		permit, refusal := e.Throttle.Enter(to, e.Now())
		k.permit, k.asked = permit, refusal.Beyond
		if permit != nil || refusal.Verdict != throttle.Full || !waits {
			return permit == nil
		}
		select {
		case <-freed:
		case <-timeout.C:
			waits = false
		case <-k.ctx.Done():
			waits = false
		case <-e.Lifecycle.Closing():
			waits = false
		}
	}
}

// holdBack parks a run before its first attempt. The operation stays due: another process, a caller, and Run once the
// breaker closes may send it. The flow asks again at the time that enter drew.
func (r *run) holdBack() {
	r.park(r.engine.Now(), errHeldBack.Error(), errHeldBack)
}

// takeRetry takes a token for a caller's first attempt if the operation may have run before, since that attempt repeats an earlier
// one. Without a token the run ends before it sends anything. The caller may ask again after the policy's longest delay.
// Run and Resume take none: the throttle limits them.
func (r *run) takeRetry() {
	if !r.op.Found.MayHaveRun || r.permit != nil {
		return
	}
	now := r.engine.Now()
	if ok, _ := r.engine.Budget(*r.route).Take(now); ok {
		return
	}
	r.park(now.Add(retry.Patience(r.engine.Backoff)), "the retry budget is used up, and an earlier attempt may have run", fault.ErrRetryBudget)
	r.end.own, r.end.wake = true, now.Add(r.pause(false))
}

// seen reports the attempt's result for its site and scope to the circuit breakers. A caller's own attempt reports
// only that the request got through.
func (r *run) seen() {
	a, now, more := &r.attempt, r.engine.Now(), false
	switch {
	case r.permit == nil:
		more = a.works() && r.engine.Throttle.Answered(core.SiteOf(*r.route, r.target.Host), now)
	case r.stopped():
	case a.err == nil && a.judged.Credential:
		r.permit.Refused(a.started, now, fault.ErrCredentialRefused)
	case a.works():
		more = r.permit.Works(now)
	case a.err == nil && a.cut == nil && a.resp.StatusCode == http.StatusTooManyRequests:
		r.permit.Limited(a.started, now, r.soonest(), ErrLimited)
	default:
		r.permit.Fails(a.started, now)
	}
	if more {
		r.engine.Wake() // it may go on sooner than Run knew
	}
}

// works reports whether a provider that is up has answered.
func (a *attempt) works() bool {
	if a.err != nil || a.cut != nil {
		return false
	}
	switch a.judged.Verdict {
	case providers.Final, providers.AlreadyDone, providers.Rejected, providers.Misuse, providers.AnswerGone, providers.InFlight:
		return true
	}
	return a.resp.StatusCode < http.StatusTooManyRequests
}

// stopped reports whether the end of Run or Resume, and no deadline, broke the attempt off.
func (r *run) stopped() bool {
	err := cmp.Or(r.attempt.err, r.attempt.cut)
	return err != nil && r.ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded)
}

// pause returns how long the operation rests once this call has used up its attempts.
func (r *run) pause(busy bool) time.Duration {
	return retry.Pause(r.engine.Backoff, r.op.Attempts+r.tally.made, r.engine.Now().Sub(r.op.CreatedAt), busy)
}

// rest returns when a caller may have an operation sent again that this call does not try any more, and when Run and
// Resume may. Neither is before at, when the next attempt could have been. If the provider asked for that time, a caller
// waits no longer.
func (r *run) rest(at time.Time, asked, busy bool) (due, wake time.Time) {
	now := r.engine.Now()
	wake = core.Later(at, now.Add(r.pause(busy)))
	if due = wake; asked {
		due = core.Later(at, now.Add(retry.Patience(r.engine.Backoff)))
	}
	return due, core.Later(wake, r.permit.Beyond(now))
}
