package leased

import (
	"sync"
	"time"
)

// Estimate estimates the database's clock without a query.
type Estimate struct {
	mu    sync.Mutex
	ahead time.Duration // of this process's own clock
	exact bool          // the answer took at most mostTrip
	last  time.Time     // the latest result of now
}

// mostTrip limits the time that an exact answer of the database's clock may take.
const mostTrip = time.Second

// HeardAt records the time that the database's clock reported, and the time when the question was sent. A slow answer
// says little: the process, or the machine, may have been stopped before the question or after. Then an earlier, exact
// answer stays.
func (c *Estimate) HeardAt(sent, said time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	took := max(now.Sub(sent), now.Round(0).Sub(sent.Round(0)))
	if took > mostTrip && c.exact {
		return
	}
	c.exact = took <= mostTrip
	c.ahead = said.Sub(sent.Add(now.Sub(sent) / 2))
}

// behindOf limits how far the database's clock may be set back while Now stands still.
const behindOf = time.Minute

// Now returns the database's time. It never goes back, unless the database's clock was set back by more than a minute.
// Then every caller has to see the change, as windows depend on the clock.
func (c *Estimate) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Add(c.ahead).Round(0)
	if now.Before(c.last) && c.last.Sub(now) <= behindOf {
		return c.last
	}
	c.last = now
	return now
}
