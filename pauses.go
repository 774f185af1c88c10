package onceward

import (
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/backoff"
)

// longestPause is what pauses of our own grow to.
const longestPause = time.Hour

// pause is how long an operation rests once a call has used up its attempts: longer
// the more there were, from the policy's longest delay up to an hour. It is drawn from
// the upper half of that, so that operations which failed together don't come back
// together.
func (r *run) pause() time.Duration {
	policy := r.client.cfg.Backoff.WithDefaults()
	longest := policy.Max
	for rounds := (r.op.Attempts + r.tally.made) / policy.MaxAttempts; rounds > 0 && longest < longestPause; rounds-- {
		longest *= 2
	}
	longest = min(longest, max(longestPause, policy.Max))
	return longest - rand.N(longest/2+1)
}

// rest is until when an operation rests that is not tried again in this call, and how
// long Run and Resume leave it alone. at is when it might have been: what the
// provider asked for is neither undercut nor, for a caller, made longer.
func (r *run) rest(at time.Time, asked bool) (due, wake time.Time) {
	now := r.client.now()
	wake = laterOf(at, now.Add(r.pause()))
	if !asked {
		return wake, wake
	}
	return laterOf(at, now.Add(patience(r.client.cfg.Backoff))), wake
}

// patience is the delay that the policy would have after the attempts of one call: how
// long after the last one a caller who asks for an operation may go ahead of a pause
// of our own. It is as long as a vendor's SDK takes for its own retries, or longer, so
// that those make no calls of it.
func patience(policy backoff.Policy) time.Duration {
	policy = policy.WithDefaults()
	delay, longest := float64(policy.Initial), float64(policy.Max)
	for range policy.MaxAttempts - 1 {
		if delay >= longest {
			return policy.Max
		}
		delay *= policy.Multiplier
	}
	return time.Duration(min(delay, longest))
}
