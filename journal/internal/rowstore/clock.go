package rowstore

import (
	"sync"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// clock is the journal's clock, shared by the transactions of this process.
type clock struct {
	mu       sync.Mutex
	is       store.Clock
	number   int64           // of the latest commit whose clock is known
	recorded time.Time       // the latest time as of that commit; only a reset sets it back
	owed     []machine.Event // sweeps of transactions that failed
}

// take adds what other processes have recorded. A head that is older than this process's own commits has no news, but
// for the least margin: transactions of the application's lower that, without a number.
func (c *clock) take(head *Head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if head.Number > c.number {
		if head.Clock.Last.Before(c.recorded) {
			c.is.Last = head.Clock.Last
		}
		c.is.Take(head.Clock)
		c.number, c.recorded = head.Number, head.Clock.Last
	}
	if least := head.Clock.LeastMargin; least != 0 && (c.is.LeastMargin == 0 || least < c.is.LeastMargin) {
		c.is.LeastMargin = least
		c.is.Forget()
	}
}

// glance returns a clock as a transaction of the application's sees it. What that sees of a caller's clock moves nothing.
func (c *clock) glance(head *Head) *clock {
	c.mu.Lock()
	own := &clock{is: c.is, number: c.number, recorded: c.recorded}
	c.mu.Unlock()
	own.take(head)
	return own
}

// isFar reports whether a caller's clock is so far from the latest time that the journal should see it.
func (c *clock) isFar(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return at.Sub(c.is.Last).Abs() >= time.Minute
}

// committed notes that this process has recorded the clock.
func (c *clock) committed(head *Head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if head.Number > c.number {
		c.number, c.recorded = head.Number, head.Clock.Last
	}
}

// see notes a caller's clock, and returns the event that is due for each operation without an answer.
func (c *clock) see(at time.Time) (sweep machine.Event, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.is.See(at) {
		return sweep, false
	}
	return c.is.Sweep(), true
}

// reset makes now the latest time.
func (c *clock) reset(now time.Time) machine.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.is.Reset(now)
	return c.is.Sweep()
}

func (c *clock) margin(terms journal.Terms) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.is.Margin(terms)
}

func (c *clock) passed(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.is.Passed(at)
}

// kept returns the part of the clock that a head has.
func (c *clock) kept() store.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return store.Clock{Last: c.is.Last, Jumped: c.is.Jumped, Ahead: c.is.Ahead, LeastMargin: c.is.LeastMargin}
}

// owe has the next transaction repeat sweeps.
func (c *clock) owe(sweeps []machine.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = append(c.owed, sweeps...)
}

// takeOwed returns the sweeps to be repeated.
func (c *clock) takeOwed() []machine.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	owed := c.owed
	c.owed = nil
	return owed
}

// unkept is how far the recorded latest time may be behind, if nothing else is recorded.
const unkept = time.Hour

// isNews reports whether the clock must be committed, even if no row changed.
func isNews(now, recorded store.Clock) bool {
	return !now.Jumped.Equal(recorded.Jumped) || !now.Ahead.Equal(recorded.Ahead) || now.LeastMargin != recorded.LeastMargin || now.Last.Sub(recorded.Last) >= unkept
}
