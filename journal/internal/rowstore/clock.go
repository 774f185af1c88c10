package rowstore

import (
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// clock is the journal's clock, which this process's transactions share.
type clock struct {
	mu       sync.Mutex
	is       store.Clock
	number   int64     // of the latest commit whose clock is known
	recorded time.Time // the latest time as of that commit; only a reset sets it back
	own      bool      // of one transaction, and recorded by no other
}

// take adds the records from other processes. A head older than this process's commits brings only the least margin
// as news: the application's transactions lower the margin without a number.
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

// glance returns a clock for the application's transaction. A caller's clock that the transaction sees moves nothing.
func (c *clock) glance(head *Head) *clock {
	c.mu.Lock()
	own := &clock{is: c.is, number: c.number, recorded: c.recorded, own: true}
	c.mu.Unlock()
	own.take(head)
	return own
}

// isFar reports whether a caller's clock is so far from the latest time that the journal should see the clock.
func (c *clock) isFar(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return at.Sub(c.is.Last).Abs() >= time.Minute
}

// committed notes that the process has recorded the clock.
func (c *clock) committed(head *Head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if head.Number > c.number {
		c.number, c.recorded = head.Number, head.Clock.Last
	}
}

// see notes a caller's clock, and reports whether a leap is due. The journal's clock moves once the leap is recorded.
// The application's transaction has a separate clock, which moves at once.
func (c *clock) see(at time.Time) (due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.is
	if due = is.See(at) && !c.own; !due {
		c.is = is
	}
	return due
}

// moved returns the clock after a leap, or reports that no leap is due any more.
func (c *clock) moved(leaps func(*store.Clock) bool) (is store.Clock, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is = c.is
	return is, leaps(&is)
}

// leapt notes a leap that the process has recorded.
func (c *clock) leapt(is store.Clock, head *Head) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.is.Last.After(is.Last) && !head.Reset {
		is.Last = c.is.Last // other callers have moved it meanwhile
	}
	c.is, c.number, c.recorded = is, max(c.number, head.Number), head.Clock.Last
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

// kept returns the clock's part in a head.
func (c *clock) kept() store.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return kept(&c.is)
}

func kept(c *store.Clock) store.Clock {
	return store.Clock{Last: c.Last, Jumped: c.Jumped, Ahead: c.Ahead, LeastMargin: c.LeastMargin}
}

// unkept is how far the recorded latest time may be behind, if nothing else is recorded.
const unkept = time.Hour

// isNews reports whether the clock must be committed, even if no row changed.
func isNews(now, recorded store.Clock) bool {
	return !now.Jumped.Equal(recorded.Jumped) || !now.Ahead.Equal(recorded.Ahead) || now.LeastMargin != recorded.LeastMargin || now.Last.Sub(recorded.Last) >= unkept
}
