package retry

import (
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/backoff"
)

// LongestPause limits our own pauses.
const LongestPause = time.Hour

// Pause returns how long an operation rests once a call has used up its attempts. attempts counts from the operation's
// creation, age ago. The pause starts at the policy's longest delay and doubles with each call's attempts, up to an
// hour or the operation's age. It is drawn from the upper half, so operations that failed together do not come back
// together. If the provider is busy it does not grow, because the polls are not counted as attempts.
func Pause(policy backoff.Policy, attempts int, age time.Duration, busy bool) time.Duration {
	policy = policy.WithDefaults()
	longest := policy.Max
	most := max(longest, min(LongestPause, max(2*longest, age)))
	for rounds := attempts / policy.MaxAttempts; rounds > 0 && longest < most && !busy; rounds-- {
		longest *= 2
	}
	return UpperHalf(min(longest, most))
}

// UpperHalf returns a time drawn from the upper half of the longest.
func UpperHalf(longest time.Duration) time.Duration { return longest - rand.N(longest/2+1) }

// Patience returns the policy's delay after one call's attempts. For so long after the last attempt, a caller does
// not go ahead of our pause. A vendor's SDK takes no longer for its own retries, so such retries make no calls.
func Patience(policy backoff.Policy) time.Duration {
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
