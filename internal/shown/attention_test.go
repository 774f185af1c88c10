package shown_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// Whatever needs attention says to an operator what happened, what to check and what to do. The record's own reason comes beside
// that.
func TestAttentionSpeaksToAnOperator(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	old := now.Add(-48 * time.Hour)
	hold := &journal.Resolved{Resolution: journal.Hold}
	said := map[string]string{}
	fits := func(name string, a shown.Attention, what, do string) {
		t.Helper()
		require.NotEmpty(t, a, name)
		assert.Contains(t, a.What, what, name)
		assert.Contains(t, a.Do, do, name)
		for _, text := range []string{a.What, a.Check, a.Do} {
			assert.NotEmpty(t, text, name)
			assert.False(t, strings.HasSuffix(text, "."), "%s: %s", name, text)
		}
		assert.Empty(t, said[a.What], "%s says what this one says: %s", name, a.What)
		said[a.What] = name
	}
	for _, row := range []struct {
		name     string
		op       journal.Operation
		what, do string
	}{
		{"two effects", journal.Operation{State: journal.StateCompleted, SecondEffects: 1, Attention: "twice"}, "more than once", "refund"},
		{"disputed", journal.Operation{State: journal.StateUnknown, Disputed: true, Attention: "two objects", SettledAt: old}, "disagrees", "the object that stays"},
		{"on hold", journal.Operation{State: journal.StateUnknown, Resolved: hold, SettledAt: old}, "on hold", "reinstate"},
		{"not looked for", journal.Operation{State: journal.StateUnknown, SettledAt: old, LookAt: old.Add(time.Hour)}, "no process looks", "start one"},
		{"given up", journal.Operation{State: journal.StateUnknown, Provider: "bank", Attention: "given up after 168h0m0s", SettledAt: old}, "no look-up can tell", "resolve it"},
		{"its caller's", journal.Operation{State: journal.StatePending, Naming: journal.Carried, Told: true, MayHaveRun: true, Attention: "its caller", WakeAt: now}, "its caller", "ask again"},
		{"parked", journal.Operation{State: journal.StatePending, Attention: "no attempt", WakeAt: now}, "no attempt for a day", "mend the credential"},
		{"overdue", journal.Operation{State: journal.StatePending, WakeAt: old}, "no process sends it", "start one"},
		{"in flight", journal.Operation{State: journal.StateInFlight, UpdatedAt: old}, "has not ended", "takes over"},
		{"contradicted", journal.Operation{State: journal.StateCompleted, Attention: "refused, and took effect"}, "contradicts", "your own books"},
	} {
		a := shown.AttentionOf(&row.op, now)
		fits(row.name, a, row.what, row.do)
		assert.Equal(t, row.op.NeedsAttention(now), a.Reason, row.name)
	}
	for _, row := range []struct {
		name     string
		f        journal.Flow
		what, do string
	}{
		{"set aside", journal.Flow{State: journal.FlowStateSetAside, Cause: "no stock"}, "set aside", "retry"},
		{"put off", journal.Flow{State: journal.FlowStateWaiting, ParkedSince: old, UpdatedAt: now, DueAt: now}, "put off", "goes on by itself"},
		{"a flow that is overdue", journal.Flow{State: journal.FlowStateWaiting, DueAt: old}, "no process runs it", "start one"},
		{"a flow that runs", journal.Flow{State: journal.FlowStateRunning, UpdatedAt: old}, "takes long", "takes over"},
	} {
		a := shown.AttentionOfFlow(&row.f, now)
		fits(row.name, a, row.what, row.do)
		assert.Equal(t, row.f.NeedsAttention(now), a.Reason, row.name)
	}
	assert.Zero(t, shown.AttentionOf(&journal.Operation{State: journal.StateCompleted}, now))
	assert.Zero(t, shown.AttentionOfFlow(&journal.Flow{State: journal.FlowStateGivenUp, Undoing: true}, now))
	secret := shown.AttentionOf(&journal.Operation{State: journal.StateUnknown, Attention: "a\x1b[31mred", SettledAt: old}, now)
	assert.NotContains(t, secret.Reason, "\x1b")
}
