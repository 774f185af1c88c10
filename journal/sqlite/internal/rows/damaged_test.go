//go:build unix

package rows_test

import (
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// counts returns how many a list yields, and its error.
func counts[T any](list iter.Seq2[T, error]) (n int, err error) {
	for _, e := range list {
		if e != nil {
			return n, e
		}
		n++
	}
	return n, nil
}

// A damaged row hides no other one from a list or a search.
func TestListsPassOverDamagedRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, s := joined(t, path)
	for n := range 3 {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint("invoice-", n), s))
		require.NoError(t, err)
		_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{
			Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: fmt.Sprint("ride-", n)}, At: time.Now(), Session: s.ID(),
			Function: journal.FlowFunction{Name: "ride", Version: 1}, Key: fmt.Sprint("key-", n), Input: []byte("{}"), InputDigest: "v1:ride",
		})
		require.NoError(t, err)
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		_, err = j.ReceiveTx(t.Context(), tx, machine.ReceiptEvent{
			Kind: machine.ReceiptRecord, ReceiptKey: journal.ReceiptKey{Scope: "shop", Key: fmt.Sprint("key-", n)}, At: time.Now(), Place: "payments.create",
			Fingerprint: "a", Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: time.Hour, Answer: &journal.Answer{Status: 201},
		})
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
	}
	execute(t, path, `UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE handle = 2;
		UPDATE onceward_flows SET facts = zeroblob(length(facts)) WHERE handle = 2;
		UPDATE onceward_receipts SET facts = zeroblob(length(facts)) WHERE handle = 2`)
	for _, newest := range []bool{false, true} {
		n, err := counts(j.List(t.Context(), journal.Filter{Newest: newest}))
		assert.Equal(t, 2, n)
		assert.ErrorIs(t, err, format.ErrDamaged)
		n, err = counts(j.ListFlows(t.Context(), journal.FlowFilter{Newest: newest}))
		assert.Equal(t, 2, n)
		assert.ErrorIs(t, err, format.ErrDamaged)
		n, err = counts(j.ListReceipts(t.Context(), journal.ReceiptFilter{Newest: newest}))
		assert.Equal(t, 2, n)
		assert.ErrorIs(t, err, format.ErrDamaged)
	}
	n, err := counts(j.List(t.Context(), journal.Filter{Limit: 2}))
	assert.Equal(t, 2, n)
	assert.NoError(t, err)
	matches, err := j.FindBy(t.Context(), "ledger", machine.ByKey, "key-of-invoice-2")
	require.NoError(t, err)
	assert.Len(t, matches, 1)
}
