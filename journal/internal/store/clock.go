package store

import (
	"time"

	"github.com/onceward/onceward/journal"
)

// Clock is the latest time that a journal has seen, and how far an asker may stand
// behind it before any operation's window is in question. The zero Clock has seen
// nothing. It is not safe for concurrent use.
type Clock struct {
	// Last is the latest time seen, to the millisecond. It never goes back.
	Last time.Time
	// LeastMargin is the least one of all operations that have a window, 0 where
	// there is none.
	LeastMargin time.Duration

	swept time.Time // the asker's clock that windows were last closed for
}

// See takes note of an asker's clock and tells whether windows are to be closed
// for it: where it stands behind by more than the least margin, once for each
// regress, and again where it goes further back. Askers that are apart by less
// than the margin don't count as a regress.
func (c *Clock) See(at time.Time) bool {
	at = time.UnixMilli(at.UnixMilli()).UTC()
	if at.After(c.Last) {
		c.Last = at
	}
	if at.Sub(c.swept) > c.LeastMargin {
		c.swept = time.Time{}
	}
	if c.LeastMargin == 0 || c.Last.Sub(at) <= c.LeastMargin {
		return false
	}
	if !c.swept.IsZero() && !at.Before(c.swept) {
		return false
	}
	c.swept = at
	return true
}

// Forget makes the next asker that stands behind count as a regress: operations
// may have come in that no window was closed of.
func (c *Clock) Forget() { c.swept = time.Time{} }

// Margin takes note of what an operation is kept under, and tells whether it
// lowered LeastMargin.
func (c *Clock) Margin(t journal.Terms) bool {
	if t.Window() == 0 || (c.LeastMargin != 0 && t.Margin() >= c.LeastMargin) {
		return false
	}
	c.LeastMargin = t.Margin()
	c.Forget() // what was within the margin may not be any more
	return true
}
