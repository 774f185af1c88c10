package rowstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// counted is a database that counts the flows that transactions read in pages, and the flows whose steps are listed.
type counted struct {
	rowstore.Driver
	flows, steps int
}

func (c *counted) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	return c.Driver.Read(ctx, func(r rowstore.Reader) error { return f(&countedReader{r, c}) })
}

type countedReader struct {
	rowstore.Reader
	c *counted
}

func (r *countedReader) Steps(ctx context.Context, handle int64) ([]rowstore.Step, error) {
	r.c.steps++
	return r.Reader.Steps(ctx, handle)
}

func (c *counted) Begin(ctx context.Context, keys rowstore.Keys) (rowstore.Tx, rowstore.Head, rowstore.Found, error) {
	tx, head, found, err := c.Driver.Begin(ctx, keys)
	return &countedTx{tx, c}, head, found, err
}

type countedTx struct {
	rowstore.Tx
	c *counted
}

func (t *countedTx) Flows(ctx context.Context, scan rowstore.FlowScan) ([]*rowstore.Flow, error) {
	rows, err := t.Tx.Flows(ctx, scan)
	t.c.flows += len(rows)
	return rows, err
}

// A claim reads no more flows than it needs, however many are due, and takes those that are due longest. A list with a
// limit reads the steps of no further flow: Run lists one flow at the end of each pass.
func TestClaimOfFewAmongManyDueFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counted{Driver: faultdb.New().Open()}
		j, err := rowstore.Open(t.Context(), db, rowstore.Options{})
		require.NoError(t, err)
		defer j.Close()
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		p := &process{t: t, j: j, s: s, now: time.Now()}
		for n := range 2000 {
			p.waits(fmt.Sprint("flow-", n))
			p.now = p.now.Add(time.Millisecond)
		}
		claim := machine.FlowEvent{Kind: machine.FlowEventClaim, At: p.now.Add(2 * time.Hour), Session: s.ID(), Functions: []journal.FlowFunction{{Name: "ride", Version: 1}}}
		results, err := j.ClaimFlows(t.Context(), claim, 10)
		require.NoError(t, err)
		require.Len(t, results, 10)
		for n, r := range results {
			assert.Equal(t, fmt.Sprint("flow-", n), r.Flow.ID)
		}
		assert.Less(t, db.flows, 600)

		db.steps = 0
		for f, err := range j.ListFlows(t.Context(), journal.FlowFilter{ByDue: true, Limit: 1}) {
			require.NoError(t, err)
			assert.Equal(t, "flow-10", f.ID)
		}
		assert.Equal(t, 1, db.steps)
	})
}
