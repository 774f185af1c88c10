package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	aDay    = journal.Terms{Dedup: journal.DedupEverything, Retention: 24 * time.Hour, Guard: true}
	aMinute = journal.Terms{Dedup: journal.DedupEverything, Retention: time.Minute, Guard: true}
)

// sighting is an asker's clock that is shown to a Clock.
type sighting struct {
	at          time.Duration // from noon
	why         string
	sweep       bool
	swept       time.Duration // the clock that the sweep is of, where it is not at
	unconfirmed time.Duration // until when, where it is not believed
}

const soon = journal.Confirmation

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

func TestWindowsAreClosedOnceForEachRegressThatKeepsOn(t *testing.T) {
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
	c.Forget()
	assert.True(t, c.See(noon.Add(6*time.Hour+soon)))
}

func TestAClockThatIsSetRightAgainClosesNothing(t *testing.T) {
	var c store.Clock
	c.Margin(aDay)
	look(t, &c, []sighting{
		{at: 10 * time.Hour},
		{at: 0, unconfirmed: soon, why: "it boots in the past"},
		{at: 5 * time.Minute, unconfirmed: soon},
		{at: 10*time.Hour + 5*time.Minute, sweep: true, why: "and is set right: as of where it stands now"},
	})
	assert.Zero(t, c.Jumped)
}

// A clock that was ten hours ahead is set right, and nobody asks before it has caught up
// with what it showed then: it was right, and what was stamped before was not.
func TestAClockThatCatchesUpUnseenClosesWindowsAllTheSame(t *testing.T) {
	t.Run("by this process's own time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c store.Clock
			c.Margin(aDay)
			look(t, &c, []sighting{{at: 10 * time.Hour}, {at: time.Minute, unconfirmed: time.Minute + soon}})
			time.Sleep(10 * time.Hour)
			look(t, &c, []sighting{{at: 10*time.Hour + time.Minute, sweep: true, swept: time.Minute, why: "it went on by itself"}})
		})
	})
	t.Run("as far as another process can tell", func(t *testing.T) {
		kept := store.Clock{Last: noon.Add(10 * time.Hour), LeastMargin: time.Hour, Jumped: noon.Add(time.Minute)}
		var c store.Clock
		c.Take(kept)
		look(t, &c, []sighting{{at: 10*time.Hour + time.Minute, sweep: true, swept: time.Minute}})
	})
	t.Run("as far as another one can that looked in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			kept := store.Clock{Last: noon.Add(10 * time.Hour), LeastMargin: time.Hour}
			var c store.Clock
			c.Take(kept)
			look(t, &c, []sighting{{at: 10 * time.Hour}})
			time.Sleep(time.Minute)
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

func TestAJumpAheadIsBelievedOnceItHasKeptOn(t *testing.T) {
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
		{at: -2 * time.Hour, sweep: true, unconfirmed: -2*time.Hour + soon, why: "it came back too far"},
	})
}

func TestAJumpAheadThatWasSetBackUnseenIsNoneThatKeptOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c store.Clock
		c.Margin(aDay)
		look(t, &c, []sighting{{at: 0}, {at: 30 * time.Hour, unconfirmed: 30*time.Hour + soon}})
		time.Sleep(32 * time.Hour)
		look(t, &c, []sighting{{at: 32 * time.Hour, unconfirmed: 32*time.Hour + soon}})
	})
}

func TestAClockIsReset(t *testing.T) {
	var c store.Clock
	c.Margin(aDay)
	c.See(noon.Add(1000 * time.Hour))
	c.Reset(noon)
	assert.Equal(t, noon, c.Last)
	assert.Equal(t, journal.Event{Kind: journal.EventClock, At: noon, Last: noon.Add(1000 * time.Hour)}, c.Sweep())
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
	assert.True(t, c.Margin(journal.Terms{Dedup: journal.DedupEverything, Retention: 30 * time.Second, Guard: true}))
	look(t, &c, []sighting{{at: time.Hour - 8*time.Second, unconfirmed: time.Hour - 16*time.Second + soon, why: "a lower margin makes a regress of what was none"}})
}

func TestTimesAreSeenToTheMillisecond(t *testing.T) {
	var c store.Clock
	c.See(noon.Add(time.Millisecond + time.Microsecond).In(time.FixedZone("", 3600)))
	assert.Equal(t, noon.Add(time.Millisecond), c.Last)
}
