//go:build unix

package sqlite_test

import (
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// If others have cut the log beyond the point that this process has read, it reads the log from its new beginning.
func TestLogThatOthersCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "mine")
	theirs := filepath.Join(t.TempDir(), "journal.db") // the journal as others change it
	copyAll(t, path, theirs)
	others := open(t, theirs)
	another, err := others.Join(t.Context())
	require.NoError(t, err)
	begins := func(n int) {
		result, err := others.Apply(t.Context(), begin(fmt.Sprint("theirs-", n), another))
		require.NoError(t, err)
		require.Equal(t, journal.Execute, result.Decision)
	}
	for n := range 80 {
		begins(n)
	}
	require.NoError(t, sqlite.Fold(others))
	begins(80)
	begins(81)
	bounds := rowsIn(t, path, "max(seq)", "onceward_log")[0][0].(int64)
	require.Greater(t, rowsIn(t, theirs, "min(seq)", "onceward_log")[0][0].(int64), bounds+1)

	madeOf(t, path, theirs)
	assert.Equal(t, 83, len(handlesOf(t, j, journal.Filter{})))
	assert.True(t, has(t, j, "mine"))
	for n := range 82 {
		require.True(t, has(t, j, fmt.Sprint("theirs-", n)), n)
	}
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), begin("one more", s))
	require.NoError(t, err)
	assert.EqualValues(t, 84, result.Operation.Handle)
	saysThat(t, verify(t, j), []string{"has its file"}) // their session's file is elsewhere
}

// madeOf replaces the journal's rows by those of a copy that others have changed, in one transaction of another
// process.
func madeOf(t *testing.T, path, copied string) {
	t.Helper()
	statements := fmt.Sprintf("ATTACH '%s' AS theirs; BEGIN IMMEDIATE;", copied)
	for _, row := range rowsIn(t, path, "name", "sqlite_schema WHERE type = 'table' AND name LIKE 'onceward_%'") {
		statements += fmt.Sprintf("DELETE FROM main.%[1]s; INSERT INTO main.%[1]s SELECT * FROM theirs.%[1]s;", row[0])
	}
	alter(t, path, statements+"COMMIT; DETACH theirs")
}

// Operations that others begin and fold in one commit are in no row of the log. Their later operations continue after
// them.
func TestLogOfOperationsFoldedAtOnce(t *testing.T) {
	path, j, s := joined(t)
	_, err := j.Apply(t.Context(), begin("mine", s))
	require.NoError(t, err)
	bounds := rowsIn(t, path, "max(seq)", "onceward_log")[0][0].(int64)
	theirs := filepath.Join(t.TempDir(), "journal.db") // the journal as others change it
	copyAll(t, path, theirs)
	others := open(t, theirs)
	db := application(t, theirs)
	for n := range 2 {
		tx, err := db.Begin()
		require.NoError(t, err)
		_, err = others.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue(fmt.Sprint("theirs-", n)))
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		if n == 0 {
			require.NoError(t, sqlite.Fold(others)) // and takes in the outbox
		}
	}
	require.NoError(t, sqlite.Flush(others))
	require.Equal(t, [][]driver.Value{{bounds + 1, int64(2)}, {bounds + 2, int64(2)}}, rowsIn(t, theirs, "seq, folded", "onceward_log"))

	madeOf(t, path, theirs)
	for n, name := range []string{"mine", "theirs-0", "theirs-1", "more"} {
		_, err := j.Apply(t.Context(), begin(name, s))
		require.NoError(t, err)
		op, err := j.Get(t.Context(), journal.Ref{ID: name})
		require.NoError(t, err)
		assert.EqualValues(t, n+1, op.Handle)
	}
}

// A missing row of another process is an error, and is not skipped.
func TestLogWithAMissingRow(t *testing.T) {
	for _, lacking := range []int{0, 1} {
		path, j, s := joined(t)
		_, err := j.Apply(t.Context(), begin("invoice-1", s))
		require.NoError(t, err)
		alter(t, path, fmt.Sprintf(`INSERT INTO onceward_log SELECT seq + %[1]d, last_at, jumped_at, least_margin, newest, folded, number + %[1]d,
			sealed_log(x'00000000', seq + %[1]d, last_at, jumped_at, least_margin, newest, folded, number + %[1]d) FROM onceward_log ORDER BY seq DESC LIMIT 1`, lacking+1))
		_, err = j.Apply(t.Context(), begin("invoice-2", s))
		if lacking > 0 {
			require.ErrorContains(t, err, "damaged")
		} else {
			require.NoError(t, err)
		}
	}
}

// A log that can't be understood is damaged, both for a process that opens it and for one that goes on.
func TestLogThatCantBeUnderstood(t *testing.T) {
	for name, records := range map[string]string{
		"a row that is not sealed":      "x'00'",
		"records that can't be decoded": "sealed_log(x'ffff00000000', seq + 1, last_at, jumped_at, least_margin, newest, folded, number + 1)",
	} {
		t.Run(name, func(t *testing.T) {
			path, j, s := joined(t)
			_, err := j.Apply(t.Context(), begin("invoice-1", s))
			require.NoError(t, err)
			alter(t, path, `INSERT INTO onceward_log SELECT seq + 1, last_at, jumped_at, least_margin, newest, folded, number + 1, `+
				records+` FROM onceward_log ORDER BY seq DESC LIMIT 1`)
			for range 2 {
				_, err = j.Apply(t.Context(), begin("invoice-2", s))
				require.ErrorContains(t, err, "damaged")
			}
			copied := filepath.Join(t.TempDir(), "journal.db")
			copyAll(t, path, copied)
			_, err = tryOpen(t, copied)
			require.ErrorContains(t, err, "damaged")
		})
	}
}
