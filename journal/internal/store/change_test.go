package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

func TestClockRecordsOnlyRelevantChanges(t *testing.T) {
	before := journal.Operation{State: journal.StatePending, Terms: aDay, UpdatedAt: noon}
	for name, row := range map[string]struct {
		change func(op *journal.Operation)
		want   bool
	}{
		"nothing":          {func(op *journal.Operation) {}, false},
		"looked at":        {func(op *journal.Operation) { op.UpdatedAt = noon.Add(time.Hour) }, false},
		"settled":          {func(op *journal.Operation) { op.State = journal.StateUnknown }, true},
		"window closed":    {func(op *journal.Operation) { op.WindowClosed = true }, true},
		"no window closed": {func(op *journal.Operation) { op.Terms.Retention, op.WindowClosed = 0, true }, true},
	} {
		after := before
		row.change(&after)
		assert.Equal(t, row.want, store.Changes(before, after, machine.Later), name)
	}
	assert.True(t, store.Changes(before, before, machine.Recorded))
	windowless := journal.Operation{State: journal.StateUnknown}
	closed := windowless
	closed.WindowClosed = true
	assert.False(t, store.Changes(windowless, closed, machine.Ignored))
}

// A claim wakes operations by its due time, or by its asker's clock if it has none.
func TestClaimWakesByItsDueTime(t *testing.T) {
	assert.Equal(t, noon, store.WakeBy(machine.Event{At: noon}))
	assert.Equal(t, noon.Add(-time.Hour), store.WakeBy(machine.Event{At: noon, Due: noon.Add(-time.Hour)}))
}
