package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// One statement writes several events, and each gets its own result. A name that is taken, or a row that another
// process changed, affects only its own event, and every answer belongs to its operation.
func TestEachOfManyIsItsOwn(t *testing.T) {
	t.Parallel()
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprint("pooled: ", pooled), func(t *testing.T) { eachOfManyIsItsOwn(t, pooled) })
	}
}

func eachOfManyIsItsOwn(t *testing.T, pooled bool) {
	const names, each = 50, 3
	server := postgrestest.Shared(t)
	opts := options(t, server)
	opts.Pooled = pooled
	j := open(t, server, opts)
	s := join(t, j)
	var mu sync.Mutex
	executed := make(map[string]journal.Operation)
	var wg sync.WaitGroup
	for i := range names {
		for range each {
			wg.Go(func() {
				begun, err := j.Apply(t.Context(), begin(fmt.Sprint("order-", i), s))
				if !assert.NoError(t, err) || begun.Decision != machine.Execute {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				assert.NotContains(t, executed, begun.Operation.ID)
				executed[begun.Operation.ID] = begun.Operation
			})
		}
		wg.Go(func() {
			generated := begin(fmt.Sprint("key-", i), s)
			generated.New, generated.Intent.Naming = true, journal.Generated
			begun, err := j.Apply(t.Context(), generated)
			if assert.NoError(t, err) && assert.Equal(t, machine.Execute, begun.Decision) {
				mu.Lock()
				defer mu.Unlock()
				executed[begun.Operation.ID] = begun.Operation
			}
		})
	}
	wg.Wait()
	require.Len(t, executed, 2*names)
	for _, op := range executed {
		wg.Go(func() {
			found, err := j.Get(t.Context(), op.Ref) // while it is in flight
			if assert.NoError(t, err) {
				assert.Equal(t, op.Handle, found.Handle)
			}
			done, err := j.Apply(t.Context(), complete(op, s))
			if assert.NoError(t, err) {
				assert.Equal(t, machine.Recorded, done.Decision)
				assert.Equal(t, op.Handle, done.Operation.Handle)
			}
		})
	}
	wg.Wait()
	for _, op := range executed {
		found, err := j.Get(t.Context(), op.Ref)
		require.NoError(t, err)
		assert.Equal(t, op.Handle, found.Handle)
		assert.Equal(t, journal.StateCompleted, found.State)
		assert.Equal(t, []byte("paid "+op.ID), found.Answer.Body)
		assert.Equal(t, []byte(op.ID), found.Request.Body)
	}
}
