package leased

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A row is worn after a set number of batches, or after a tenth of them if its guard takes three times as long as
// usual.
func TestRowWearsOut(t *testing.T) {
	var r Row
	r.Start(new(Member), RowState{Batch: 7, Tenure: 1})
	r.Guarded(time.Millisecond)
	for range 9 {
		r.Committed()
	}
	assert.Equal(t, int64(16), r.Batch)
	r.Guarded(5 * time.Millisecond)
	assert.False(t, r.IsWorn(100), "too few batches")
	r.Committed()
	assert.True(t, r.IsWorn(100), "the guard is slow")
	r.Guarded(2 * time.Millisecond)
	assert.False(t, r.IsWorn(100))
	assert.True(t, r.IsWorn(10))
	r.Rotated(RowState{})
	assert.False(t, r.IsWorn(10))
}

// No number of a row is used twice: not by the next row, and not if it is unknown whether there is one.
func TestRowsOfALaneHaveNumbersOfTheirOwn(t *testing.T) {
	r := Row{Number: 3}
	seen := map[int]bool{}
	for _, change := range []func(){func() {}, func() { r.Rotated(RowState{}) }, r.Leave, r.LeaveBoth} {
		change()
		assert.False(t, seen[r.Number])
		seen[r.Number] = true
	}
	assert.Nil(t, r.Member)
	assert.NotContains(t, seen, r.Number-step, "the row that may have been made")
}
