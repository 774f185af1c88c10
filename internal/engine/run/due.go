package run

import (
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/providers"
)

// delay returns the delay that the provider asks for, or else the policy's. If the provider is busy with an earlier
// attempt, the delay is never less than the policy's, since such attempts are not counted.
func (r *Run) delay(policy backoff.Policy, busy bool) (delay time.Duration, asked bool) {
	if r.delays == nil {
		r.delays = retry.NewDelays(policy)
	}
	own := r.delays.Next()
	r.asked = time.Time{}
	if r.attempt.resp != nil {
		if asked, ok := retry.After(r.attempt.resp.Header, r.client.Now(), policy.MaxRetryAfter); ok {
			r.asked = r.client.Now().Add(asked)
			if busy {
				asked = max(asked, own)
			}
			return asked, true
		}
	}
	return own, false
}

// soonest returns the earliest time for another attempt by the provider's last answer, or now without an answer. If
// the provider is busy with an earlier attempt, the time is never now.
func (r *Run) soonest() time.Time {
	now, policy := r.client.Now(), r.client.Backoff.WithDefaults()
	if r.attempt.resp == nil {
		return now
	}
	asked, _ := retry.After(r.attempt.resp.Header, now, policy.MaxRetryAfter)
	if r.attempt.judged.Verdict == providers.InFlight {
		asked = max(asked, retry.NewDelays(policy).Next())
	}
	return now.Add(asked)
}

// askedUntil returns when callers may ask the provider again, according to the last answer. The time is zero for an answer about
// a credential, which concerns that credential only.
func (r *Run) askedUntil() time.Time {
	switch {
	case r.attempt.judged.Credential:
		return time.Time{}
	case r.asked.After(r.client.Now()):
		return r.asked
	}
	return r.soonest()
}

// afterRefusal returns the next try for a refused operation that stays pending. own reports whether our policy, not the
// provider, set the time.
func (r *Run) afterRefusal() (due time.Time, own bool) {
	asked, now := r.soonest(), r.client.Now()
	return core.Later(asked, now.Add(r.pause(false))), !asked.After(now)
}

// pause returns how long the operation waits once the call has used up its attempts.
func (r *Run) pause(busy bool) time.Duration {
	return retry.Pause(r.client.Backoff, r.op.Attempts+r.stats.made, r.client.Now().Sub(r.op.CreatedAt), busy)
}

// afterLastAttempt returns when a caller may have an operation sent again that the call gave up, and when Run and
// Resume may. Neither is before at, when the next attempt could have been. If the provider asked for that time, a
// caller waits no longer.
func (r *Run) afterLastAttempt(at time.Time, asked, busy bool) (due, wake time.Time) {
	now := r.client.Now()
	wake = core.Later(at, now.Add(r.pause(busy)))
	if due = wake; asked {
		due = core.Later(at, now.Add(retry.Patience(r.client.Backoff)))
	}
	return due, core.Later(wake, r.permit.Beyond(now))
}
