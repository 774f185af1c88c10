package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// A claim goes through another provider's backlog in commits of some hundreds, so that other writers record in between.
// It finds operations of the asker's providers wherever they are.
func TestClaimBesideAForeignBacklog(t *testing.T) {
	defer sqlite.ClaimInOneGo()()
	defer sqlite.ClaimScans(100)()
	path, j, s := joined(t)
	db := application(t, path)
	tx, err := db.Begin()
	require.NoError(t, err)
	ours := map[int]bool{0: true, 99: true, 100: true, 350: true, 599: true}
	for n := range 600 {
		ev := enqueue(fmt.Sprint(n))
		if !ours[n] {
			ev.Intent.Provider = "foreign"
		}
		_, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, sqlite.Flush(j))
	require.NoError(t, sqlite.Fold(j))
	_, err = j.Apply(t.Context(), begin("held by a live session", s))
	require.NoError(t, err)

	ev := claim(s)
	ev.At, ev.From = ev.At.Add(time.Hour), []string{"ledger"}
	var pages [][]string
	for after, done := int64(0), false; !done; {
		before := after
		var taken []string
		taken, after, done, err = sqlite.ClaimPage(j, ev, 2, before)
		require.NoError(t, err)
		require.True(t, done || after > before)
		pages = append(pages, taken)
	}
	assert.Equal(t, [][]string{{"0", "99"}, {"100"}, nil, {"350"}, nil, {"599"}, nil}, pages)
}

// Claim itself goes through the whole backlog, until it has as many operations as its limit.
func TestClaimThroughAForeignBacklog(t *testing.T) {
	defer sqlite.ClaimScans(100)()
	path, j, s := joined(t)
	db := application(t, path)
	tx, err := db.Begin()
	require.NoError(t, err)
	for n := range 600 {
		ev := enqueue(fmt.Sprint(n))
		if n%150 != 149 {
			ev.Intent.Provider = "foreign"
		}
		_, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), ev)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, sqlite.Flush(j))
	require.NoError(t, sqlite.Fold(j))
	ev := claim(s)
	ev.At = ev.At.Add(time.Hour)
	for _, row := range []struct {
		from  []string
		limit int
		want  []int64
	}{{[]string{"nobody"}, 10, nil}, {[]string{}, 10, nil}, {[]string{"ledger"}, 1, []int64{150}}, {[]string{"nobody", "ledger"}, 10, []int64{300, 450, 600}}, {[]string{"ledger"}, 10, nil}} {
		ev.From = row.from
		assert.Equal(t, row.want, claimed(t, j, ev, row.limit))
	}
	ev.From = nil
	assert.Len(t, claimed(t, j, ev, 1000), 596)
}
