package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	aDay    = journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}
	aMinute = journal.Terms{Remembers: memory.Everything, Retention: time.Minute, Guard: true}
)

// sighting shows an asker's clock to a Clock, with the expected reaction.
type sighting struct {
	at          time.Duration // from noon
	why         string
	sweep       bool
	swept       time.Duration // the clock of the sweep, if it is not at
	unconfirmed time.Duration // until when the clock is unconfirmed, if it is
}

const soon = machine.Confirmation

func look(t *testing.T, c *store.Clock, sightings []sighting) {
	t.Helper()
	for _, s := range sightings {
		at := noon.Add(s.at)
		require.Equal(t, s.sweep, c.See(at), s.why)
		until := c.Unconfirmed(at)
		if s.unconfirmed == 0 {
			require.Zero(t, until, s.why)
		} else {
			require.Equal(t, noon.Add(s.unconfirmed), until, s.why)
		}
		if s.sweep {
			if s.swept != 0 {
				at = noon.Add(s.swept)
			}
			require.Equal(t, at, c.Sweep().At, s.why)
		}
	}
}

// A regress of the clock that lasts closes windows once.
func TestClockRegressClosesWindowsOnce(t *testing.T) {
	var c store.Clock
	assert.True(t, c.Margin(aDay))
	assert.Equal(t, time.Hour, c.LeastMargin)
	const back = 9*time.Hour - time.Millisecond
	look(t, &c, []sighting{
		{at: 10 * time.Hour, why: "the first time seen"},
		{at: 9 * time.Hour, why: "behind by the margin"},
		{at: back, unconfirmed: back + soon, why: "behind by more"},
		{at: back + soon - time.Millisecond - time.Hour, unconfirmed: back - time.Hour + 2*soon - time.Millisecond, why: "further back: from the beginning"},
		{at: 5 * time.Hour, unconfirmed: 5*time.Hour + soon, why: "further back still"},
		{at: 5*time.Hour + soon - time.Millisecond, unconfirmed: 5*time.Hour + soon, why: "a millisecond less"},
		{at: 5*time.Hour + soon, sweep: true, swept: 5 * time.Hour, why: "it has kept on: as of when it was seen first"},
		{at: 5*time.Hour + 2*soon, why: "the same regress"},
		{at: 5*time.Hour + soon, why: "askers apart by less than the margin"},
		{at: 7 * time.Hour, why: "running on"},
		{at: 6*time.Hour - time.Millisecond, unconfirmed: 6*time.Hour - time.Millisecond + soon, why: "a regress from there"},
		{at: 6*time.Hour + soon, sweep: true, swept: 6*time.Hour - time.Millisecond, why: "which keeps on"},
		{at: 10 * time.Hour, sweep: true, why: "caught up: what was due may be brought back"},
		{at: 6 * time.Hour, unconfirmed: 6*time.Hour + soon, why: "another regress"},
		{at: 6*time.Hour + soon, sweep: true, swept: 6 * time.Hour, why: "and on"},
	})
	assert.Equal(t, noon.Add(10*time.Hour), c.Last)
	assert.Equal(t, c.Last, c.Ahead)
	look(t, &c, []sighting{{at: 30 * time.Hour, sweep: true}})
	assert.Equal(t, noon.Add(10*time.Hour), c.Ahead, "the clock that was set back had come so far")
	c.Take(store.Clock{Last: c.Last, LeastMargin: c.LeastMargin, Ahead: noon.Add(20 * time.Hour)})
	assert.Equal(t, noon.Add(20*time.Hour), c.Ahead, "another process has seen another")
	c.Take(store.Clock{Last: c.Last, LeastMargin: c.LeastMargin, Ahead: noon})
	assert.Equal(t, noon.Add(20*time.Hour), c.Ahead)
	c.Reset(noon.Add(29 * time.Hour))
	assert.Equal(t, noon.Add(30*time.Hour), c.Ahead, "an operator has set it back")
	c.Reset(noon.Add(31 * time.Hour))
	assert.Equal(t, noon.Add(30*time.Hour), c.Ahead)
}

// If other processes write, operations that a right clock stamped keep their windows.
func TestClockBehindWhileOthersWrite(t *testing.T) {
	var c store.Clock
	c.Margin(aDay)
	look(t, &c, []sighting{
		{at: 10 * time.Hour},
		{at: time.Hour, unconfirmed: time.Hour + soon},
		{at: time.Hour + soon, sweep: true, swept: time.Hour, why: "as of when it was seen first"},
	})
	c.Take(store.Clock{Last: c.Last, LeastMargin: c.LeastMargin, Jumped: c.Jumped})
	look(t, &c, []sighting{
		{at: time.Hour + soon, why: "nothing has passed"},
		{at: time.Hour + soon + 30*time.Minute - time.Millisecond, why: "less than half a margin"},
		{at: time.Hour + soon + 30*time.Minute, sweep: true, swept: 2*time.Hour + soon, why: "what another clock has stamped is closed, and what this one has is not"},
		{at: 4 * time.Hour, why: "nobody has written since"},
	})
	c.Forget()
	look(t, &c, []sighting{{at: 4 * time.Hour, sweep: true, swept: 4*time.Hour + 30*time.Minute}})
}

// A clock that is set right again closes no window.
func TestClockSetRightAgainClosesNothing(t *testing.T) {
	var c store.Clock
	c.Margin(aDay)
	look(t, &c, []sighting{
		{at: 10 * time.Hour},
		{at: 0, unconfirmed: soon, why: "it boots in the past"},
		{at: 5 * time.Minute, unconfirmed: soon},
		{at: 10*time.Hour + 5*time.Minute, sweep: true, why: "and is set right: as of where it stands now"},
	})
	assert.Zero(t, c.Jumped)
	assert.Zero(t, c.Ahead)
}

// A clock that catches up unseen closes windows too. A clock that was ten hours ahead is set right, and no process asks
// before it shows the earlier time again. The clock was right, and the earlier stamps were not.
func TestClockCatchesUpUnseen(t *testing.T) {
	t.Run("by this process's own time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c store.Clock
			c.Margin(aDay)
			look(t, &c, []sighting{{at: 10 * time.Hour}, {at: time.Minute, unconfirmed: time.Minute + soon}})
			<-time.After(10 * time.Hour)
			look(t, &c, []sighting{{at: 10*time.Hour + time.Minute, sweep: true, swept: time.Minute, why: "it went on by itself"}})
		})
	})
	t.Run("as far as another process can tell", func(t *testing.T) {
		kept := store.Clock{Last: noon.Add(10 * time.Hour), LeastMargin: time.Hour, Jumped: noon.Add(time.Minute)}
		var c store.Clock
		c.Take(kept)
		look(t, &c, []sighting{{at: 10*time.Hour + time.Minute, sweep: true, swept: time.Minute}})
	})
	t.Run("as far as another clock can that was seen in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kept := store.Clock{Last: noon.Add(10 * time.Hour), LeastMargin: time.Hour}
			var c store.Clock
			c.Take(kept)
			look(t, &c, []sighting{{at: 10 * time.Hour}})
			<-time.After(time.Minute)
			kept.Jumped = noon.Add(time.Minute)
			c.Take(kept)
			look(t, &c, []sighting{{at: 10*time.Hour + time.Minute, sweep: true, why: "two processes' clocks are apart"}})
		})
	})
	t.Run("while it jumps ahead", func(t *testing.T) {
		kept := store.Clock{Last: noon.Add(10 * time.Hour), LeastMargin: time.Hour, Jumped: noon.Add(time.Minute)}
		var c store.Clock
		c.Take(kept)
		look(t, &c, []sighting{{at: 40 * time.Hour, sweep: true, swept: time.Minute, unconfirmed: 40*time.Hour + soon}})
	})
}

func TestJumpAheadIsConfirmedOnceItLasts(t *testing.T) {
	var c store.Clock
	c.Margin(aDay)
	const year = 365 * 24 * time.Hour
	look(t, &c, []sighting{
		{at: 0},
		{at: 24 * time.Hour, why: "a night is no jump"},
		{at: 48*time.Hour + time.Millisecond, unconfirmed: 48*time.Hour + time.Millisecond + soon, why: "more is"},
	})
	assert.Equal(t, noon.Add(24*time.Hour), c.Last, "it is not the journal's time")
	look(t, &c, []sighting{
		{at: 48*time.Hour + soon, unconfirmed: 48*time.Hour + time.Millisecond + soon},
		{at: 48*time.Hour + soon + time.Millisecond, sweep: true},
		{at: 48*time.Hour + soon + time.Millisecond},
	})
	assert.Equal(t, noon.Add(48*time.Hour+soon+time.Millisecond), c.Last)
	assert.Equal(t, noon.Add(24*time.Hour), c.Sweep().Last, "what was stamped since has that to be known by")
	assert.Equal(t, noon.Add(48*time.Hour+time.Millisecond), c.Sweep().Since)

	c = store.Clock{}
	c.Margin(aDay)
	look(t, &c, []sighting{
		{at: 0},
		{at: year, unconfirmed: year + soon},
		{at: time.Minute, sweep: true, why: "it came back"},
	})
	assert.Zero(t, c.Sweep().Since)
	assert.Equal(t, noon.Add(time.Minute), c.Last)
	look(t, &c, []sighting{
		{at: 2 * year, unconfirmed: 2*year + soon},
		{at: year, unconfirmed: year + soon, why: "and another one"},
		{at: 3 * year, unconfirmed: 3*year + soon, why: "a jump from a jump is none that kept on"},
		{at: 0, sweep: true, why: "it came back once more"},
		{at: 3 * year, unconfirmed: 3*year + soon},
		{at: -2 * time.Hour, unconfirmed: -2*time.Hour + soon, why: "it came back too far: by a clock that is not believed nothing is closed"},
		{at: -2*time.Hour + soon, sweep: true, swept: -2 * time.Hour, why: "and keeps on there"},
	})
}

// A jump ahead that was set back unseen does not count as one that lasted.
func TestClockJumpSetBackUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c store.Clock
		c.Margin(aDay)
		look(t, &c, []sighting{{at: 0}, {at: 30 * time.Hour, unconfirmed: 30*time.Hour + soon}})
		<-time.After(32 * time.Hour)
		look(t, &c, []sighting{{at: 32 * time.Hour, unconfirmed: 32*time.Hour + soon}})
	})
}

// restarted is the Clock of the next process, which reads what the last one recorded.
func restarted(c store.Clock) *store.Clock {
	var next store.Clock
	next.Take(store.Clock{Last: c.Last, LeastMargin: c.LeastMargin, Jumped: c.Jumped})
	return &next
}

// If no process lives long, the journal's time advances in steps. Each process asks once, more than a day after the
// previous one.
func TestClockAdvancesInSteps(t *testing.T) {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	type start struct{ at, last time.Duration } // the clock that it sees, and the journal's time then
	for name, starts := range map[string][]start{
		"a clock that is right": {
			{7 * day, 0}, {14 * day, 7 * day}, {21 * day, 14 * day}, {21*day + time.Hour, 21*day + time.Hour}, {22 * day, 22 * day},
		},
		"after a long pause":                         {{90 * day, 0}, {92 * day, 2 * day}, {94 * day, 4 * day}},
		"one wrong reading, which the next corrects": {{year, 0}, {2 * day, 0}, {4 * day, 2 * day}, {year, 4 * day}, {6 * day, 4 * day}, {8 * day, 6 * day}},
		"one wrong reading that time goes past":      {{3 * day, 0}, {5 * day, 2 * day}},
		"always the same when it starts":             {{year, 0}, {year + time.Minute, 0}, {year, 0}, {year + 9*time.Minute, 0}},
		"ahead by the same in each":                  {{year + 2*day, 0}, {year + 4*day, 2 * day}, {year + 6*day, 4 * day}, {7 * day, 4 * day}, {7*day + time.Hour, 7*day + time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			c := new(store.Clock)
			c.Margin(aDay)
			c.See(noon)
			for i, s := range starts {
				c = restarted(*c)
				c.See(noon.Add(s.at))
				require.Equal(t, noon.Add(s.last), c.Last, "start %d", i)
				assert.Equal(t, s.at != s.last, !c.Unconfirmed(noon.Add(s.at)).IsZero(), "start %d", i)
				assert.Equal(t, c.Last, c.Passed(noon.Add(s.at)), "start %d", i)
			}
		})
	}
}

func TestMonotonicTimeShowsClockJumps(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]func(t *testing.T){
		"that passed as well": func(t *testing.T) {
			var c store.Clock
			c.Margin(aDay)
			look(t, &c, []sighting{{at: 0}})
			<-time.After(2 * day)
			look(t, &c, []sighting{{at: 2 * day, unconfirmed: 2*day + soon}})
			<-time.After(2 * day)
			look(t, &c, []sighting{{at: 4 * day, sweep: true, why: "it went on by itself"}})
			assert.Equal(t, noon.Add(4*day), c.Last)
			assert.Equal(t, noon.Add(2*day), c.Sweep().Since)
		},
		"that did not": func(t *testing.T) { // the machine was suspended, or the clock set
			var c store.Clock
			c.Margin(aDay)
			look(t, &c, []sighting{{at: 0}, {at: 2 * day, unconfirmed: 2*day + soon}})
			<-time.After(soon - time.Millisecond)
			look(t, &c, []sighting{{at: 4 * day, unconfirmed: 4*day + soon}})
			assert.Equal(t, noon, c.Last, "so soon it may be anything")
			<-time.After(time.Millisecond)
			look(t, &c, []sighting{{at: 7 * day, unconfirmed: 7*day + soon, sweep: true}})
			assert.Equal(t, noon.Add(3*day), c.Last)
		},
		"that did not, of a clock that is ahead by less than a leap more": func(t *testing.T) {
			var c store.Clock
			c.Margin(aDay)
			look(t, &c, []sighting{
				{at: 0},
				{at: 4 * day, unconfirmed: 4*day + soon},
				{at: 4*day + time.Hour, sweep: true, why: "two clocks that are right may be so far apart"},
			})
			c = store.Clock{}
			c.Margin(aDay)
			look(t, &c, []sighting{
				{at: 0},
				{at: 4 * day, unconfirmed: 4*day + soon},
				{at: 4*day + 12*time.Hour, unconfirmed: 4*day + 12*time.Hour + soon, why: "another clock"},
			})
			assert.Equal(t, noon, c.Last)
			<-time.After(soon)
			look(t, &c, []sighting{{at: 4*day + 12*time.Hour + soon, sweep: true, why: "it went on by itself"}})
			assert.Equal(t, noon.Add(4*day+12*time.Hour+soon), c.Last)
		},
		"that did not, of what another process saw": func(t *testing.T) {
			c := restarted(store.Clock{Last: noon, LeastMargin: time.Hour, Jumped: noon.Add(2 * day)})
			look(t, c, []sighting{
				{at: 2*day + time.Minute, unconfirmed: 2*day + soon},
				{at: 9 * day, unconfirmed: 9*day + soon, why: "it has seen the clock leap"},
			})
			assert.Equal(t, noon, c.Last)
		},
		"that did not pass before another process saw the jump": func(t *testing.T) {
			var c store.Clock
			c.Margin(aDay)
			look(t, &c, []sighting{{at: 0}})
			c.Take(store.Clock{Last: noon, LeastMargin: time.Hour, Jumped: noon.Add(2 * day)})
			look(t, &c, []sighting{{at: 4 * day, unconfirmed: 4*day + soon}})
			assert.Equal(t, noon, c.Last)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

func TestAClockIsReset(t *testing.T) {
	var c store.Clock
	c.Margin(aDay)
	c.See(noon.Add(1000 * time.Hour))
	c.Reset(noon)
	assert.Equal(t, noon, c.Last)
	assert.Equal(t, machine.Event{Kind: machine.EventClock, At: noon, Last: noon.Add(1000 * time.Hour), SetBack: true}, c.Sweep())
	look(t, &c, []sighting{{at: 0}})
}

func TestWithoutAWindowThereIsNothingToClose(t *testing.T) {
	var c store.Clock
	assert.False(t, c.Margin(journal.Terms{Retention: time.Hour}))
	assert.False(t, c.See(noon))
	assert.False(t, c.See(noon.Add(-48*time.Hour)))
}

func TestTheLeastMarginCounts(t *testing.T) {
	var c store.Clock
	assert.True(t, c.Margin(aDay))
	assert.True(t, c.Margin(aMinute))
	assert.False(t, c.Margin(aDay))
	look(t, &c, []sighting{
		{at: time.Hour},
		{at: time.Hour - 15*time.Second},
		{at: time.Hour - 16*time.Second, unconfirmed: time.Hour - 16*time.Second + soon},
	})
	assert.True(t, c.Margin(journal.Terms{Remembers: memory.Everything, Retention: 30 * time.Second, Guard: true}))
	look(t, &c, []sighting{{at: time.Hour - 8*time.Second, unconfirmed: time.Hour - 16*time.Second + soon, why: "a lower margin makes a regress of what was none"}})
}

func TestTimesHaveMilliseconds(t *testing.T) {
	var c store.Clock
	c.See(noon.Add(time.Millisecond + time.Microsecond).In(time.FixedZone("", 3600)))
	assert.Equal(t, noon.Add(time.Millisecond), c.Last)
}
