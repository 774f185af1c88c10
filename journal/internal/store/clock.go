package store

import (
	"time"

	"github.com/onceward/onceward/journal"
)

// Clock is the latest time that a journal has seen, and how far an asker may stand
// behind it before any operation's window is in question. The zero Clock has seen
// nothing. It is not safe for concurrent use.
//
// A clock that jumps further ahead than journal.Leap, or further behind than the least
// margin, is not believed until it has gone on for journal.Confirmation: a minute of a
// clock that is a year ahead moves nothing.
type Clock struct {
	// Last is the latest time seen that is believed, to the millisecond. It never goes
	// back, but by Reset.
	Last time.Time
	// LeastMargin is the least one of all operations that have a window, 0 where
	// there is none.
	LeastMargin time.Duration
	// Jumped is where the askers' clock has jumped to, if it stands there still and is
	// ahead, or behind; else the zero time. A store keeps it with Last.
	Jumped time.Time

	swept time.Time // the asker's clock that windows were last closed for
}

// See takes note of an asker's clock and tells whether operations without an answer are
// to be given an EventClock: where it stands behind by more than the least margin, and
// is believed, once for each regress, and again where it goes further back; and where
// it has come back from a jump ahead that was never confirmed. Askers that are apart by
// less than the margin don't count as a regress.
func (c *Clock) See(at time.Time) (sweep bool) {
	at = stamp(at)
	ahead := !c.Last.IsZero() && at.Sub(c.Last) > journal.Leap
	behind := c.behind(at)
	jumpedAhead := c.Jumped.After(c.Last)
	switch {
	case !ahead && !behind:
		sweep = !c.Jumped.IsZero() && jumpedAhead
		c.Jumped = time.Time{}
	case c.Jumped.IsZero() || jumpedAhead != ahead || at.Before(c.Jumped.Add(-journal.Confirmation)):
		c.Jumped = at
	case ahead && at.Sub(c.Jumped) >= journal.Confirmation:
		c.Jumped = time.Time{}
		ahead = false
	}
	if at.After(c.Last) && !ahead {
		c.Last = at
	}
	if at.Sub(c.swept) > c.LeastMargin {
		c.swept = time.Time{}
	}
	if !behind || !c.Unconfirmed(at).IsZero() {
		return sweep
	}
	if !c.swept.IsZero() && !at.Before(c.swept) {
		return sweep
	}
	c.swept = at
	return true
}

func (c *Clock) behind(at time.Time) bool {
	return c.LeastMargin > 0 && c.Last.Sub(at) > c.LeastMargin
}

// Unconfirmed returns when an asker's clock, which was seen, will be believed, or the
// zero time if it is.
func (c *Clock) Unconfirmed(at time.Time) time.Time {
	at = stamp(at)
	if c.Jumped.IsZero() || at.Sub(c.Jumped) >= journal.Confirmation || at.Sub(c.Last) <= journal.Leap && !c.behind(at) {
		return time.Time{}
	}
	return c.Jumped.Add(journal.Confirmation)
}

// Reset has at be the latest time, by somebody's word. An EventClock is due then.
func (c *Clock) Reset(at time.Time) {
	c.Last, c.Jumped, c.swept = stamp(at), time.Time{}, time.Time{}
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

func stamp(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }
