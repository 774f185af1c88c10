package onceward

import (
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/reconcile"
)

// SetClock replaces the client's clock before its first use.
func SetClock(c *Client, clock func() time.Time) { c.core.Clock = clock }

// Reopened is how many of n dead operations a process looks for again, in two passes over them.
func Reopened(n int) (times int) {
	var r reconcile.SeenSet
	for i := range 2 * n {
		if r.Once(Ref{ID: strconv.Itoa(i % n)}, 0) {
			times++
		}
	}
	return times
}

// Quiets is of how many operations a client remembers since when they rest.
func Quiets(c *Client) int { return c.core.Idle.Len() }

// Throttled is of how many sites and scopes a client knows how they are.
func Throttled(c *Client) int { return c.core.Throttle.Known(c.core.Now()) }
