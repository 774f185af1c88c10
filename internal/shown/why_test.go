package shown_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

func TestWhyOf(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	guarded := journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}
	slow := journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Handling: 10 * time.Minute}
	for name, row := range map[string]struct {
		op     journal.Operation
		answer string
		at     time.Time
	}{
		"unsent and due":        {journal.Operation{State: journal.StatePending}, "now", time.Time{}},
		"not due":               {journal.Operation{State: journal.StatePending, DueAt: now.Add(time.Minute)}, "not before", now.Add(time.Minute)},
		"in its window":         {journal.Operation{State: journal.StatePending, MayHaveRun: true, Terms: guarded, FirstSentAt: now.Add(-time.Hour)}, "now", time.Time{}},
		"past its window":       {journal.Operation{State: journal.StatePending, MayHaveRun: true, Terms: guarded, FirstSentAt: now.Add(-23 * time.Hour)}, "never", time.Time{}},
		"maybe still worked on": {journal.Operation{State: journal.StatePending, MayHaveRun: true, Terms: slow, FirstSentAt: now.Add(-time.Minute), LastEndedAt: now.Add(-time.Minute)}, "not before", now.Add(9 * time.Minute)},
		"no key":                {journal.Operation{State: journal.StatePending, MayHaveRun: true, FirstSentAt: now}, "never", time.Time{}},
		"unknown":               {journal.Operation{State: journal.StateUnknown, MayHaveRun: true, Terms: guarded, FirstSentAt: now}, "never", time.Time{}},
		"completed":             {journal.Operation{State: journal.StateCompleted}, "never", time.Time{}},
		"cancelled":             {journal.Operation{State: journal.StateCancelled}, "never", time.Time{}},
		"in flight":             {journal.Operation{State: journal.StateInFlight, Holder: "S"}, "never", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			why := shown.WhyOf(&row.op, now, now, time.Time{})
			assert.Equal(t, row.answer, why.Answer)
			assert.Equal(t, row.at, why.At)
			assert.NotEmpty(t, why.Because)
			assert.Equal(t, machine.MaySend(machine.QuestionOf(&row.op, now, now, time.Time{})), why.Rule)
			restored := why.Restored()
			assert.Equal(t, "never", restored.Answer)
			assert.Zero(t, restored.At)
			assert.Equal(t, row.answer != "never", strings.Contains(restored.Because, "until it is adopted"), "what is not sent anyway has its own reason")
			assert.Equal(t, why.Rule, restored.Rule)
		})
	}
}

func TestWindowOf(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	op := journal.Operation{MayHaveRun: true, FirstSentAt: now.Add(-18 * time.Hour), Terms: journal.Terms{Remembers: memory.Everything, Retention: 25 * time.Hour, Guard: true}}
	w, has := shown.WindowOf(&op, now)
	assert.True(t, has)
	assert.Equal(t, shown.Window{From: op.FirstSentAt, Safe: now.Add(6 * time.Hour), Forget: now.Add(7 * time.Hour), Left: 6 * time.Hour, Share: 0.25}, w)
	op.WindowClosed = true
	w, _ = shown.WindowOf(&op, now)
	assert.Zero(t, w.Left)
	op.MayHaveRun = false
	_, has = shown.WindowOf(&op, now)
	assert.False(t, has)
}
