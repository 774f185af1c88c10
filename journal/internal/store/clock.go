package store

import (
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Clock is the latest time that a journal has seen. Clock also decides how far an asker's clock may be behind the
// latest time before any operation's window is in question. The zero Clock has seen nothing. A Clock is not safe for
// concurrent use.
//
// Clock does not believe a clock that jumps further ahead than machine.Leap, or further behind than the least margin,
// until the jump has lasted for machine.Confirmation. So a clock that is a year ahead for a minute moves nothing. If
// no process looks for machine.Confirmation and the next reading is more than machine.Leap further ahead, Last moves
// on by the smaller distance. At least the smaller distance has passed, whichever reading is wrong.
type Clock struct {
	// Last is the latest believed time, to the millisecond. Only Reset sets Last back.
	Last time.Time
	// LeastMargin is the least margin among all operations with a window. Zero means no such operation.
	LeastMargin time.Duration
	// Jumped is the time to which the askers' clock has jumped, if the clock is still there and ahead or behind. Zero
	// means no jump. A store must keep Jumped with Last, since later processes have to know about a jump back.
	Jumped time.Time
	// Ahead is the latest time on a clock that was set back: Last when windows were closed, or at Reset. Zero means
	// that no clock was set back. A store must keep Ahead with Last.
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

// See notes an asker's clock. See reports whether Sweep's event must be applied to the operations without an answer.
// The event is due if the clock is behind and believed: once for each regress, and again if the clock goes further
// back. The event is also due if the clock has caught up unseen, or if a jump ahead is confirmed, turns out to be
// none, or goes on in strides.
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
			c.sweep.At, c.sweep.SetBack = then, true // it went on from there, and was right
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

// closing handles an asker's clock that is behind. Windows are closed as of the clock's first reading. If operations
// have come in since, windows are closed as of now too: an operation that began meanwhile by a right clock keeps the
// window. Half a margin passes before, and the event's date is half a margin later than now. Right clocks differ by
// less, so the event questions no right clock's stamp. The event still finds a clock that has since gone further ahead
// than the margin.
func (c *Clock) closing(at time.Time) (sweep machine.Event, due bool) {
	half := c.LeastMargin / 2
	if c.closed.IsZero() {
		return machine.Event{Kind: machine.EventClock, At: c.Jumped, SetBack: true}, at.Sub(c.Jumped) >= machine.Confirmation
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

// watched reports whether the asker's clock went on from the jump by itself: the same time has passed in this
// process.
func (c *Clock) watched(at time.Time) bool {
	return !c.jumpedAt.IsZero() && c.before(at).Sub(c.Jumped) <= machine.Confirmation
}

// another reports whether the asker's clock is not the clock that jumped. Another clock is further ahead than this
// process's elapsed time allows, by more than two right clocks differ. Another clock does not confirm the jump.
func (c *Clock) another(at time.Time) bool {
	return !c.jumpedAt.IsZero() && c.before(at).Sub(c.Jumped) > max(c.LeastMargin, machine.Confirmation)
}

// stride is called for an asker's clock that is more than machine.Leap ahead of the jump. The two readings must come
// from different processes, or from one process that saw the clock ahead for machine.Confirmation by the process's own
// time. Operations sent meanwhile keep their dates, since only a clock that was seen to go on dates operations. stride
// reports whether Last has moved.
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

// before returns, by the asker's clock, the earliest time when Jumped was seen. before subtracts the time that has
// passed in the process. If the passed time is unknown, before returns Jumped.
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

// Passed returns the latest time that has surely passed, by an asker's clock. A believed clock's reading counts. While
// the clock is not believed, Last counts if Last is earlier.
func (c *Clock) Passed(at time.Time) time.Time {
	if at = stamp(at); !c.Unconfirmed(at).IsZero() && c.Last.Before(at) {
		return c.Last
	}
	return at
}

// Reset makes at the latest time, since an operator said so. A sweep is due then.
func (c *Clock) Reset(at time.Time) {
	at = stamp(at)
	c.sweep = machine.Event{Kind: machine.EventClock, At: at, Last: latest(c.Last, at), SetBack: true}
	c.jump(time.Time{}, near)
	if c.Last.After(at) {
		c.Ahead = latest(c.Ahead, c.Last)
	}
	c.Last = at
}

// Forget notes that operations may have come in while an asker's clock was behind. Their windows were not closed.
func (c *Clock) Forget() { c.others = true }

// Take takes over the clock that another process has kept. A new Jumped was seen after this process last looked.
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

// Margin notes an operation's terms, and reports whether the terms lowered LeastMargin.
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
