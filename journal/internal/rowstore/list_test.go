package rowstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// weighed is a database that counts the bytes of the bodies that are read.
type weighed struct {
	rowstore.Driver
	bytes int
}

func (w *weighed) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	return w.Driver.Read(ctx, func(r rowstore.Reader) error { return f(&weighedReader{r, w}) })
}

type weighedReader struct {
	rowstore.Reader
	w *weighed
}

func (r *weighedReader) Find(ctx context.Context, keys rowstore.Keys) (rowstore.Found, error) {
	found, err := r.Reader.Find(ctx, keys)
	for _, row := range found.Rows {
		for _, part := range []*rowstore.Part{row.Request, row.Answer} {
			if part != nil {
				r.w.bytes += len(part.Body)
			}
		}
	}
	return found, err
}

// A list and a search read no bodies, however large these are.
func TestListsReadNoBodies(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		var key string
		for n := range 20 {
			op := p.decide(p.complete(p.executed(fmt.Sprint("invoice-", n))), machine.Recorded)
			key = op.Key
		}
		p.executed("in flight")
		w := &weighed{Driver: db.Open()}
		j, err := rowstore.OpenToRead(t.Context(), w, nil, errToRead)
		require.NoError(t, err)
		defer j.Close()
		listed := 0
		for op, err := range j.List(t.Context(), journal.Filter{}) {
			require.NoError(t, err)
			assert.Empty(t, op.Request.Body)
			assert.Equal(t, op.State == journal.StateCompleted, op.Answer != nil && op.Answer.Status != 0)
			listed++
		}
		assert.Equal(t, 21, listed)
		_, err = j.FindBy(t.Context(), "ledger", machine.ByKey, key)
		require.NoError(t, err)
		assert.Zero(t, w.bytes)
		_, err = j.Get(t.Context(), ref("invoice-0"))
		require.NoError(t, err)
		assert.Positive(t, w.bytes)
	})
}
