package batching

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

// aQueue returns a queue without a database, and a function that submits writes of some operations.
func aQueue(t *testing.T, lanes int) (*Queue, func(ids ...string)) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	g := NewQueue(lanes, ctx.Done())
	return g, func(ids ...string) {
		for _, id := range ids {
			require.NoError(t, g.Submit(t.Context(), &Write{Op: journal.Operation{Ref: journal.Ref{ID: id}}, Done: make(chan struct{})}))
		}
	}
}

func some(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(prefix, i))
	}
	return ids
}

func idsOf(batch []*Write) (ids []string) {
	for _, w := range batch {
		ids = append(ids, w.Op.ID)
	}
	return ids
}

// A free lane takes the waiting writes. While another batch is in flight, a lane takes no fewer writes than are in
// flight, so that the batch is worth its fsync.
func TestBatchesBesideOthersAreLarge(t *testing.T) {
	g, ask := aQueue(t, 3)
	ask("alone")
	first := g.Next(0)
	assert.Equal(t, []string{"alone"}, idsOf(first))
	ask(some("a", company-1)...)
	assert.Empty(t, g.take(1, false), "too few for a batch beside another")
	ask(some("b", 10)...)
	second := g.Next(1)
	assert.Len(t, second, company+9)
	g.Landed(0, first)
	ask(some("c", company+8)...)
	assert.Empty(t, g.take(0, false), "fewer than are in flight")
	ask("d")
	third := g.Next(0)
	assert.Len(t, third, company+9)
	ask("last")
	assert.Empty(t, g.take(2, false))
	g.Landed(1, second)
	assert.Empty(t, g.take(2, false))
	g.Landed(0, third)
	assert.Equal(t, []string{"last"}, idsOf(g.Next(0)), "nothing is in flight")
}

// A write for an operation with another write in flight waits until that one's result is known. Writes keep the order
// in which they were asked for.
func TestOperationIsInOneBatchAtATime(t *testing.T) {
	g, ask := aQueue(t, 2)
	ask("twin")
	first := g.Next(0)
	ask("twin", "twin")
	ask(some("other-", company)...)
	second := g.Next(1)
	assert.Equal(t, some("other-", company), idsOf(second))
	g.Landed(1, second)
	assert.Empty(t, g.take(1, true))
	g.Landed(0, first)
	both := g.Next(0)
	assert.Equal(t, []string{"twin", "twin"}, idsOf(both))
	assert.Empty(t, g.waiting)
	g.Landed(0, both)
	assert.Empty(t, g.flying)
}

// After the end, new writes fail, and so do writes that waited for a batch.
func TestClosedGroupFailsEveryWaiter(t *testing.T) {
	g, ask := aQueue(t, 1)
	first := &Write{Op: journal.Operation{Ref: journal.Ref{ID: "first"}}, Done: make(chan struct{})}
	require.NoError(t, g.Submit(t.Context(), first))
	batch := g.Next(0)
	ask("late")
	late := g.waiting[0]
	g.close()
	<-late.Done
	assert.ErrorIs(t, late.Err, journal.ErrClosed)
	assert.ErrorIs(t, g.Submit(t.Context(), &Write{}), journal.ErrClosed)
	g.Landed(0, batch)
	assert.Empty(t, g.take(0, true))
}

// Large writes share a batch as long as there is room, in the order in which they were asked for. A write that is
// larger than the bound is alone.
func TestBatchIsBoundedByItsBytes(t *testing.T) {
	g, ask := aQueue(t, 1)
	body := make([]byte, 2*MaxBytes)
	for _, w := range []struct {
		id   string
		size int
	}{{"a", MaxBytes / 3}, {"b", MaxBytes / 3}, {"c", MaxBytes / 2}, {"d", 1}, {"huge", 2 * MaxBytes}, {"e", 1}} {
		ask(w.id)
		g.waiting[len(g.waiting)-1].Stored.AnswerBody = body[:w.size]
	}
	for _, want := range [][]string{{"a", "b"}, {"c", "d"}, {"huge"}, {"e"}} {
		batch := g.Next(0)
		assert.Equal(t, want, idsOf(batch))
		g.Landed(0, batch)
	}
	assert.Empty(t, g.waiting)
}
