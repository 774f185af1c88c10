package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	aDay    = journal.Terms{Dedup: journal.DedupEverything, Retention: 24 * time.Hour, Guard: true}
	aMinute = journal.Terms{Dedup: journal.DedupEverything, Retention: time.Minute, Guard: true}
)

func TestWindowsAreClosedOnceForEachRegress(t *testing.T) {
	var c store.Clock
	assert.True(t, c.Margin(aDay))
	assert.Equal(t, time.Hour, c.LeastMargin)
	for _, step := range []struct {
		at    time.Duration
		sweep bool
		why   string
	}{
		{10 * time.Hour, false, "the first time seen"},
		{9 * time.Hour, false, "behind by the margin"},
		{9*time.Hour - time.Millisecond, true, "behind by more"},
		{9*time.Hour - time.Millisecond, false, "the same regress"},
		{9*time.Hour - 2*time.Millisecond, true, "further back"},
		{9 * time.Hour, false, "the regress was that"},
		{5 * time.Hour, true, "further back"},
		{5*time.Hour + time.Minute, false, "running on"},
		{5 * time.Hour, false, "askers apart by less than the margin"},
		{10 * time.Hour, false, "caught up"},
		{6 * time.Hour, true, "another regress"},
	} {
		assert.Equal(t, step.sweep, c.See(noon.Add(step.at)), step.why)
	}
	assert.Equal(t, noon.Add(10*time.Hour), c.Last)
	c.Forget()
	assert.True(t, c.See(noon.Add(6*time.Hour)))
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
	assert.False(t, c.See(noon))
	assert.False(t, c.See(noon.Add(-15*time.Second)))
	assert.True(t, c.See(noon.Add(-16*time.Second)))
	assert.True(t, c.Margin(journal.Terms{Dedup: journal.DedupEverything, Retention: 30 * time.Second, Guard: true}))
	assert.True(t, c.See(noon.Add(-8*time.Second)), "a lower margin makes a regress of what was none")
}

func TestTimesAreSeenToTheMillisecond(t *testing.T) {
	var c store.Clock
	c.See(noon.Add(time.Millisecond + time.Microsecond).In(time.FixedZone("", 3600)))
	assert.Equal(t, noon.Add(time.Millisecond), c.Last)
}
