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
// clock that is a year ahead moves nothing. Where nobody looks for so long, and what is
// seen next is more than journal.Leap further ahead, Last moves on by the lesser of the two
// distances: time has passed for as long as that, whichever of the two readings is wrong,
// or if both are ahead by the same.
type Clock struct {
	// Last is the latest time seen that is believed, to the millisecond. It never goes
	// back, but by Reset.
	Last time.Time
	// LeastMargin is the least one of all operations that have a window, 0 where
	// there is none.
	LeastMargin time.Duration
	// Jumped is where the askers' clock has jumped to, if it stands there still and is
	// ahead, or behind; else the zero time. A store must keep it with Last: whoever
	// comes after a jump back has to know of it.
	Jumped time.Time

	looked   time.Time     // when an asker's clock was seen, by this process's own time
	jumpedAt time.Time     // when Jumped was seen at the earliest, likewise; zero: that can't be told
	aheadAt  time.Time     // since when this process has seen it ahead, likewise; zero: it has not
	stood    time.Time     // the latest clock that was seen since, while it is behind
	closed   time.Time     // by the askers' clock, when windows were last closed for Jumped, which is behind; zero: they were not
	others   bool          // operations may have come in since that are to be looked at
	sweep    journal.Event // what See asked for
}

// Where an asker's clock stands to Last.
const (
	near   = 0
	ahead  = 1
	behind = -1
)

func (c *Clock) stands(at time.Time) int {
	switch {
	case !c.Last.IsZero() && at.Sub(c.Last) > journal.Leap:
		return ahead
	case c.LeastMargin > 0 && c.Last.Sub(at) > c.LeastMargin:
		return behind
	}
	return near
}

// See takes note of an asker's clock, and tells whether operations without an answer are
// to be given the event that Sweep returns: where it stands behind and is believed, once
// for each regress, and again where it goes further back; where it has caught up from
// there unseen; and where a jump ahead is confirmed, or was none, or goes on in strides.
// Askers that are apart by less than the margin don't count as a regress.
func (c *Clock) See(at time.Time) bool {
	at = stamp(at)
	c.looked = time.Now()
	is, was := c.stands(at), near
	switch {
	case c.Jumped.IsZero():
	case c.Jumped.After(c.Last):
		was = ahead
	default:
		was = behind
	}
	sweep := false
	switch {
	case was != near && is != was:
		sweep = is != behind // which is not believed yet
		c.sweep = journal.Event{Kind: journal.EventClock, At: at}
		if then := c.before(at); was == behind && c.closed.IsZero() && c.Last.Sub(then) > c.LeastMargin {
			c.sweep.At = then // it went on from there, and was right
		}
		c.jump(at, is)
	case is == near:
	case was == near, at.Before(c.Jumped),
		is == ahead && c.Jumped.Sub(c.before(at)) > c.LeastMargin, // it was set back since, and is elsewhere ahead now
		is == ahead && at.Sub(c.Jumped) <= journal.Leap && c.another(at),
		is == behind && c.stood.Sub(at) > c.LeastMargin:
		c.jump(at, is)
	case is == ahead && at.Sub(c.Jumped) > journal.Leap && !c.watched(at):
		if sweep = c.stride(at); sweep {
			c.sweep = journal.Event{Kind: journal.EventClock, At: at}
		}
	case is == behind:
		c.stood = latest(c.stood, at)
		if c.sweep, sweep = c.closing(at); sweep {
			c.closed, c.others = at, false
		}
	case at.Sub(c.Jumped) >= journal.Confirmation:
		c.sweep = journal.Event{Kind: journal.EventClock, At: at, Last: c.Last, Since: c.Jumped}
		c.jump(time.Time{}, near)
		c.Last = at
		return true
	case c.aheadAt.IsZero():
		c.aheadAt = c.looked
	}
	if is != ahead {
		c.Last = latest(c.Last, at)
	}
	if sweep {
		c.sweep.Last = c.Last
	}
	return sweep
}

// closing is for an asker's clock that stands behind: windows are closed as of where it was seen first, and, where operations
// have come in since, as of now: what was begun meanwhile by a clock that is right keeps its window. Half a margin may pass
// before that, and half a margin later than now nobody's stamp is in question, as askers are apart: a clock that has gone
// further ahead than the margin since is found all the same.
func (c *Clock) closing(at time.Time) (sweep journal.Event, due bool) {
	half := c.LeastMargin / 2
	if c.closed.IsZero() {
		return journal.Event{Kind: journal.EventClock, At: c.Jumped}, at.Sub(c.Jumped) >= journal.Confirmation
	}
	return journal.Event{Kind: journal.EventClock, At: stamp(at.Add(half))}, c.others && at.Sub(c.closed) >= half
}

// jump is a clock that stands there since now, or, near, nowhere in particular.
func (c *Clock) jump(at time.Time, is int) {
	c.Jumped, c.jumpedAt, c.aheadAt, c.stood = at, c.looked, time.Time{}, at
	c.closed, c.others = time.Time{}, false
	switch is {
	case ahead:
		c.aheadAt = c.looked
	case near:
		c.Jumped, c.jumpedAt, c.stood = time.Time{}, time.Time{}, time.Time{}
	}
}

// watched tells whether the asker's clock has come from where it jumped to by itself: so
// much of this process's own time has passed meanwhile.
func (c *Clock) watched(at time.Time) bool {
	return !c.jumpedAt.IsZero() && c.before(at).Sub(c.Jumped) <= journal.Confirmation
}

// another tells whether the asker's clock is another one than that which jumped, and further ahead than two that are right
// may be apart: so little of this process's own time has passed since. It confirms nothing of that one.
func (c *Clock) another(at time.Time) bool {
	return !c.jumpedAt.IsZero() && c.before(at).Sub(c.Jumped) > max(c.LeastMargin, journal.Confirmation)
}

// stride is for an asker's clock that is further ahead than where it jumped to by more than
// journal.Leap. The two readings have to be of different processes, or of one that has seen
// it ahead for journal.Confirmation of its own time. What was sent meanwhile is dated as
// before: only a clock that was seen to go on says when that was. stride tells whether Last
// has moved.
func (c *Clock) stride(at time.Time) (moved bool) {
	aheadAt := c.aheadAt
	if moved = aheadAt.IsZero() || time.Since(aheadAt) >= journal.Confirmation; moved {
		c.Last = c.Last.Add(min(c.Jumped.Sub(c.Last), at.Sub(c.Jumped)))
	}
	c.jump(at, ahead)
	if !aheadAt.IsZero() {
		c.aheadAt = aheadAt
	}
	return moved
}

// before tells by the asker's clock when Jumped was seen, at the earliest: as long ago as
// has passed by this process's own time, or, where that can't be told, just then.
func (c *Clock) before(at time.Time) time.Time {
	if c.jumpedAt.IsZero() {
		return c.Jumped
	}
	return at.Add(-time.Since(c.jumpedAt).Truncate(time.Millisecond))
}

// Sweep returns the event that See asked for.
func (c *Clock) Sweep() journal.Event { return c.sweep }

// Unconfirmed returns when an asker's clock, which was seen, will be believed, or the
// zero time if it is.
func (c *Clock) Unconfirmed(at time.Time) time.Time {
	at = stamp(at)
	if c.Jumped.IsZero() || at.Sub(c.Jumped) >= journal.Confirmation || c.stands(at) == near {
		return time.Time{}
	}
	return c.Jumped.Add(journal.Confirmation)
}

// Passed returns the latest time that has passed for sure, by an asker's clock that was
// seen: what it shows, or, while it is not believed, Last if that is earlier.
func (c *Clock) Passed(at time.Time) time.Time {
	if at = stamp(at); !c.Unconfirmed(at).IsZero() && c.Last.Before(at) {
		return c.Last
	}
	return at
}

// Reset has at be the latest time, by somebody's word. A sweep is due then.
func (c *Clock) Reset(at time.Time) {
	c.sweep = journal.Event{Kind: journal.EventClock, At: stamp(at), Last: latest(c.Last, stamp(at))}
	c.jump(time.Time{}, near)
	c.Last = stamp(at)
}

// Forget says that operations may have come in that no window was closed of, while an asker stood behind.
func (c *Clock) Forget() { c.others = true }

// Take takes over what another process has kept of it. Jumped, where that is news, was
// seen since this process looked last, at the latest.
func (c *Clock) Take(kept Clock) {
	if !kept.Jumped.Equal(c.Jumped) {
		c.Jumped, c.jumpedAt, c.aheadAt, c.stood, c.closed = kept.Jumped, c.looked, time.Time{}, kept.Jumped, time.Time{}
		if !c.looked.IsZero() {
			c.aheadAt = time.Now()
		}
	}
	c.Last, c.LeastMargin = latest(c.Last, kept.Last), kept.LeastMargin
	c.Forget()
}

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

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
