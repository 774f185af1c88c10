package retry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/retry"
)

// A pause lies in the upper half of the time for its rounds. It is never longer than an hour or the operation's age.
func TestPauseGrowsWithTheRounds(t *testing.T) {
	policy := backoff.Policy{Initial: time.Second, Max: 10 * time.Second, MaxAttempts: 3}
	for _, tc := range []struct {
		name     string
		attempts int
		age      time.Duration
		busy     bool
		longest  time.Duration
	}{
		{"less than a call's attempts", 2, time.Hour, false, 10 * time.Second},
		{"one call's", 3, time.Hour, false, 20 * time.Second},
		{"two calls'", 6, time.Hour, false, 40 * time.Second},
		{"polls of a busy provider", 6, time.Hour, true, 10 * time.Second},
		{"a young operation's", 60, 0, false, 20 * time.Second},
		{"as old as that", 60, 50 * time.Second, false, 50 * time.Second},
		{"an old one's", 60, 24 * time.Hour, false, retry.LongestPause},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 100 {
				pause := retry.Pause(policy, tc.attempts, tc.age, tc.busy)
				assert.LessOrEqual(t, pause, tc.longest)
				assert.GreaterOrEqual(t, pause, tc.longest/2)
			}
		})
	}
}

// Patience is the delay after the last attempt of a call.
func TestPatienceIsTheLastDelay(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy backoff.Policy
		want   time.Duration
	}{
		{"one attempt", backoff.Policy{Initial: time.Second, Max: time.Minute, Multiplier: 2, MaxAttempts: 1}, time.Second},
		{"four", backoff.Policy{Initial: time.Second, Max: time.Minute, Multiplier: 2, MaxAttempts: 4}, 8 * time.Second},
		{"beyond the longest", backoff.Policy{Initial: time.Second, Max: 5 * time.Second, Multiplier: 2, MaxAttempts: 4}, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, retry.Patience(tc.policy)) })
	}
}
