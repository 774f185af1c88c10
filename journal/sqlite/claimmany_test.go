package sqlite_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A claim that passes over many operations lets others write meanwhile, and finds those behind them.
func TestClaimPastManyLetsOthersWrite(t *testing.T) {
	t.Parallel()
	_, j, s := joined(t)
	const many = 1500
	sideBySide(many, func(i int) {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprintf("op-%04d", i), s))
		if assert.NoError(t, err) {
			park := complete(begun.Operation, s)
			park.Kind, park.Answer, park.Unsent = machine.EventPark, nil, true
			_, err = j.Apply(t.Context(), park)
			assert.NoError(t, err)
		}
	})
	ev := claim(s)
	ev.At = ev.At.Add(time.Hour)
	var asked atomic.Int64
	recorded := make(chan error, 1)
	ev.Today = func(op *journal.Operation) (machine.Today, bool) {
		switch asked.Add(1) {
		case 1:
			go func() {
				_, err := j.Apply(t.Context(), begin("urgent", s))
				recorded <- err
			}()
			for sqlite.Turns(j) == 0 {
				runtime.Gosched()
			}
		case many - 100:
			assert.Zero(t, sqlite.Turns(j), "another caller waits for the whole of the claim")
		}
		return machine.Today{Terms: terms}, op.Handle > many-10
	}
	results, err := j.Claim(t.Context(), ev, 20)
	require.NoError(t, err)
	require.Len(t, results, 10, "what it passes over keeps it from nothing")
	assert.EqualValues(t, many, asked.Load(), "each is looked at once")
	require.NoError(t, <-recorded)
}
