package background_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
)

func TestClientStats(t *testing.T) {
	virtual(t, "of a client without Run", func(t *testing.T) {
		j := &failing{Store: memory.New()}
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, RetryBudget: backoff.Budget{Capacity: 4}})
		assert.Equal(t, onceward.Stats{RetryBudget: map[string]float64{"": 0, "stripe": 0}}, p.Stats())

		j.Fails(false, machine.EventComplete)
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		s := p.Stats()
		assert.Equal(t, 1, s.Backlog)
		assert.Zero(t, s.Running)
		assert.InDelta(t, 0.25, s.RetryBudget["stripe"], 0.25)
		assert.Positive(t, s.RetryBudget["stripe"], "the attempt after the lost one was paid for")

		j.Fails(false)
		pass(time.Minute)
		assert.Zero(t, p.Stats().Backlog)
	})
}
