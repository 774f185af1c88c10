package store

import (
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Clock is the latest time that a journal has seen. It also decides how far an asker's clock may be behind that time
// before the window of any operation is in question. The zero Clock has seen nothing. It is not safe for concurrent
// use.
//
// A clock that jumps further ahead than machine.Leap, or further behind than the least margin, is not believed until
// it has gone on for machine.Confirmation. So a minute of a clock that is a year ahead moves nothing. If no process
// looks for that long and the next reading is more than machine.Leap further ahead, Last moves on by the smaller of
// the two distances. At least that much time has passed, whichever of the two readings is wrong.
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
	// Ahead is the latest time of a clock that was set back: Last when windows were closed, or at Reset. Zero means that
	// no clock was. A store must keep it with Last.
	Ahead time.Time

	looked   time.Time     // when an asker's clock was seen, by this process's own time
	jumpedAt time.Time     // when Jumped was seen at the earliest, likewise; zero: that can't be told
	aheadAt  time.Time     // since when this process has seen it ahead, likewise; zero: it has not
	stood    time.Time     // the latest clock that was seen since, while it is behind
	closed   time.Time     // by the askers' clock, when windows were last closed for Jumped, which is behind; zero: they were not
	others   bool          // operations may have come in since that are to be looked at
	sweep    machine.Event // what See asked for
}

// The position of an asker's clock relative to Last.
const (
	near   = 0
	ahead  = 1
	behind = -1
)

func (c *Clock) stands(at time.Time) int {
	switch {
	case !c.Last.IsZero() && at.Sub(c.Last) > machine.Leap:
		return ahead
	case c.LeastMargin > 0 && c.Last.Sub(at) > c.LeastMargin:
		return behind
	}
	return near
}

// See notes an asker's clock. It reports whether the event that Sweep returns must be applied to the operations
// without an answer. It must be if the clock is behind and believed: once for each regress, and again if the clock
// goes further back. It must be, too, if the clock has caught up from there unseen, and if a jump ahead is confirmed,
// turns out to be none, or goes on in strides.
func (c *Clock) See(at time.Time) bool {
	at, last := stamp(at), c.Last
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
		c.sweep = machine.Event{Kind: machine.EventClock, At: at}
		if then := c.before(at); was == behind && c.closed.IsZero() && c.Last.Sub(then) > c.LeastMargin {
			c.sweep.At = then // it went on from there, and was right
		}
		c.jump(at, is)
	case is == near:
	case was == near, at.Before(c.Jumped),
		is == ahead && c.Jumped.Sub(c.before(at)) > c.LeastMargin, // it was set back since, and is elsewhere ahead now
		is == ahead && at.Sub(c.Jumped) <= machine.Leap && c.another(at),
		is == behind && c.stood.Sub(at) > c.LeastMargin:
		c.jump(at, is)
	case is == ahead && at.Sub(c.Jumped) > machine.Leap && !c.watched(at):
		if sweep = c.stride(at); sweep {
			c.sweep = machine.Event{Kind: machine.EventClock, At: at}
		}
	case is == behind:
		c.stood = latest(c.stood, at)
		if c.sweep, sweep = c.closing(at); sweep {
			c.closed, c.others = at, false
		}
	case at.Sub(c.Jumped) >= machine.Confirmation:
		c.sweep = machine.Event{Kind: machine.EventClock, At: at, Last: c.Last, Since: c.Jumped}
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
		if c.LeastMargin > 0 && last.Sub(c.sweep.At) > c.LeastMargin {
			c.Ahead = latest(c.Ahead, last)
		}
	}
	return sweep
}

// closing is called for an asker's clock that is behind. Windows are closed as of its first reading. If operations
// have come in since, windows are closed as of now too, since an operation that a right clock began meanwhile keeps
// its window. Half a margin passes before that, and the event is dated half a margin later than now: right clocks
// differ by less, so that no stamp of theirs is in question. A clock that has since gone further ahead than the
// margin is found all the same.
func (c *Clock) closing(at time.Time) (sweep machine.Event, due bool) {
	half := c.LeastMargin / 2
	if c.closed.IsZero() {
		return machine.Event{Kind: machine.EventClock, At: c.Jumped}, at.Sub(c.Jumped) >= machine.Confirmation
	}
	return machine.Event{Kind: machine.EventClock, At: stamp(at.Add(half))}, c.others && at.Sub(c.closed) >= half
}

// jump notes a clock that shows at since now. With near, no jump is noted any more.
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

// watched reports whether the asker's clock went on from its jump by itself: as much of this process's own time has
// passed meanwhile.
func (c *Clock) watched(at time.Time) bool {
	return !c.jumpedAt.IsZero() && c.before(at).Sub(c.Jumped) <= machine.Confirmation
}

// another reports whether this is another clock than the one that jumped. It is if it is further ahead than this
// process's own time allows, by more than two right clocks differ. It does not confirm the jump of the other one.
func (c *Clock) another(at time.Time) bool {
	return !c.jumpedAt.IsZero() && c.before(at).Sub(c.Jumped) > max(c.LeastMargin, machine.Confirmation)
}

// stride is called for an asker's clock that is more than machine.Leap ahead of the jump. The two readings must be of
// different processes, or of one that has seen the clock ahead for machine.Confirmation of its own time. Operations
// sent meanwhile keep their dates, since only a clock that was seen to go on dates them. stride reports whether Last
// has moved.
func (c *Clock) stride(at time.Time) (moved bool) {
	aheadAt := c.aheadAt
	if moved = aheadAt.IsZero() || time.Since(aheadAt) >= machine.Confirmation; moved {
		c.Last = c.Last.Add(min(c.Jumped.Sub(c.Last), at.Sub(c.Jumped)))
	}
	c.jump(at, ahead)
	if !aheadAt.IsZero() {
		c.aheadAt = aheadAt
	}
	return moved
}

// before returns, by the asker's clock, when Jumped was seen at the earliest. It goes back by the time that has
// passed for this process; if that is unknown, it returns Jumped.
func (c *Clock) before(at time.Time) time.Time {
	if c.jumpedAt.IsZero() {
		return c.Jumped
	}
	return at.Add(-time.Since(c.jumpedAt).Truncate(time.Millisecond))
}

// Sweep returns the event that See asked for.
func (c *Clock) Sweep() machine.Event { return c.sweep }

// Unconfirmed returns when an asker's clock, which was seen, will be believed, or the
// zero time if it is.
func (c *Clock) Unconfirmed(at time.Time) time.Time {
	at = stamp(at)
	if c.Jumped.IsZero() || at.Sub(c.Jumped) >= machine.Confirmation || c.stands(at) == near {
		return time.Time{}
	}
	return c.Jumped.Add(machine.Confirmation)
}

// Passed returns the latest time that has surely passed, by an asker's clock that was seen. That is the clock's own
// reading. While it is not believed, it is Last if Last is earlier.
func (c *Clock) Passed(at time.Time) time.Time {
	if at = stamp(at); !c.Unconfirmed(at).IsZero() && c.Last.Before(at) {
		return c.Last
	}
	return at
}

// Reset makes at the latest time, since an operator said so. A sweep is due then.
func (c *Clock) Reset(at time.Time) {
	at = stamp(at)
	c.sweep = machine.Event{Kind: machine.EventClock, At: at, Last: latest(c.Last, at)}
	c.jump(time.Time{}, near)
	if c.Last.After(at) {
		c.Ahead = latest(c.Ahead, c.Last)
	}
	c.Last = at
}

// Forget notes that operations may have come in while an asker's clock was behind. No window of theirs was closed.
func (c *Clock) Forget() { c.others = true }

// Take takes over the clock that another process has kept. A Jumped that is news was seen after this process last
// looked.
func (c *Clock) Take(kept Clock) {
	if !kept.Jumped.Equal(c.Jumped) {
		c.Jumped, c.jumpedAt, c.aheadAt, c.stood, c.closed = kept.Jumped, c.looked, time.Time{}, kept.Jumped, time.Time{}
		if !c.looked.IsZero() {
			c.aheadAt = time.Now()
		}
	}
	c.Last, c.Ahead, c.LeastMargin = latest(c.Last, kept.Last), latest(c.Ahead, kept.Ahead), kept.LeastMargin
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
