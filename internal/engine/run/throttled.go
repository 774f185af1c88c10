package run

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/providers"
)

var errHeldBack = errors.New("its provider fails, or has reached its limit of concurrent requests, and is sent less for a while")

// ErrLimited is why the background sends a provider less that has answered 429.
var ErrLimited = errors.New("the provider asked for fewer requests; Run tries again from time to time")

// Admit parks a run that is to be held back, or has a caller's repeated attempt take a token.
func (r *Run) Admit() {
	if r.heldBack {
		r.holdBack()
	} else {
		r.takeToken()
	}
}

// holdBack parks a run before the first attempt. The operation stays due. Another process, a caller, or Run once the
// breaker closes may send the operation. The flow asks again at the time from Call.Enter.
func (r *Run) holdBack() {
	r.park(r.client.Now(), errHeldBack.Error(), errHeldBack)
}

// takeToken takes a token for a caller's first attempt if the operation may have run before, since that attempt repeats an earlier
// one. Without a token the run ends before it sends anything. The caller may ask again after the policy's longest delay.
// Run and Resume take none: the throttle limits them.
func (r *Run) takeToken() {
	if !r.op.Found.MayHaveRun || r.permit != nil {
		return
	}
	now := r.client.Now()
	if ok, _ := r.client.Budget(*r.route).Take(now); ok {
		return
	}
	r.park(now.Add(retry.Patience(r.client.Backoff)), "the retry budget is used up, and an earlier attempt may have run", fault.ErrRetryBudget)
	r.end.own, r.end.wake = true, now.Add(r.pause(false))
}

// seen reports the attempt's result for its site and scope to the circuit breakers. A caller's own attempt reports
// only a success in reaching the provider.
func (r *Run) seen() {
	a, now, more := &r.attempt, r.client.Now(), false
	switch {
	case r.permit == nil:
		more = a.works() && r.client.Throttle.Answered(core.SiteOf(*r.route, r.target.Host), now)
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
		r.client.Wake() // it may go on sooner than Run knew
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

// stopped reports whether Run's or Resume's end, and no deadline, broke the attempt off.
func (r *Run) stopped() bool {
	err := cmp.Or(r.attempt.err, r.attempt.cut)
	return err != nil && r.ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded)
}
