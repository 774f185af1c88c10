//go:build unix

package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// logOf describes the log: its number of rows, their bytes, and the operations that are nowhere else.
type logOf struct{ rows, bytes, unfolded int }

func logIn(ctx context.Context, t *testing.T, c *sql.Conn) (is logOf) {
	t.Helper()
	require.NoError(t, c.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM onceward_log), (SELECT sum(length(records)) FROM onceward_log), newest - folded
		FROM onceward_log ORDER BY seq DESC LIMIT 1`).Scan(&is.rows, &is.bytes, &is.unfolded))
	return is
}

// An operation whose fold is refused stays where it was, with all its marks.
func TestFoldThatIsRefused(t *testing.T) {
	for what, row := range map[string]struct {
		reference string
		open      bool // the operation is in flight
	}{
		"INSERT ON onceward_marks":      {"ref-1", false},
		"INSERT ON onceward_blocks":     {"", false},
		"INSERT ON onceward_operations": {"", true},
	} {
		path, j, s := joined(t)
		ev := begin("invoice-1", s)
		ev.Intent.Reference, ev.Intent.ReferenceOurs = row.reference, row.reference != ""
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		if !row.open {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			require.NoError(t, err)
		}
		stop := refuse(t, path, what)
		for range 2 {
			require.ErrorContains(t, sqlite.Fold(j), "refused by the test", what)
		}
		stop()
		for range 2 {
			if row.reference != "" {
				found, err := j.FindBy(t.Context(), "ledger", journal.ByReference, row.reference)
				require.NoError(t, err)
				assert.Len(t, found, 1, what)
			}
			assert.True(t, has(t, j, "invoice-1"), what)
			assert.Empty(t, verify(t, j), what)
			require.NoError(t, sqlite.Fold(j))
		}
	}
}

// If the oldest operations can't be folded, no operation begins until they can.
func TestBeginWhereNothingCanBeFolded(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	stop := refuse(t, path, "INSERT ON onceward_blocks")
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		var begun journal.Result
		begun, err = j.Apply(t.Context(), begin(fmt.Sprint("op-", n), s))
		if err == nil {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		}
	}
	require.ErrorContains(t, err, "refused by the test")
	_, err = j.Apply(t.Context(), begin("later", s))
	require.ErrorContains(t, err, "refused by the test")
	stop()
	_, err = j.Apply(t.Context(), begin("later", s))
	require.NoError(t, err)
	assert.Empty(t, verify(t, j))
}

// The log has 512 operations that nothing else has, and at most 32 older ones.
func TestLogHasNoMoreThanItKeeps(t *testing.T) {
	t.Parallel()
	const keeps, atOnce = 512, 32
	t.Run("one begun after the other", func(t *testing.T) {
		path, j, s := joined(t)
		c := anotherProcess(t, path)
		fewest, most := keeps, 0
		for n := range 3 * keeps {
			begun, err := j.Apply(t.Context(), generate(fmt.Sprint("op-", n), s))
			require.NoError(t, err)
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			require.NoError(t, err)
			if n > keeps {
				is := logIn(t.Context(), t, c)
				fewest, most = min(fewest, is.unfolded), max(most, is.unfolded)
			}
		}
		assert.Equal(t, keeps, fewest)
		assert.Equal(t, keeps+atOnce-1, most, "once the last of them was completed")
	})
	t.Run("many at a time", func(t *testing.T) {
		path, j, s := joined(t)
		others(t, j, s, "a")
		others(t, j, s, "b")
		_, err := j.Join(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, logIn(t.Context(), t, anotherProcess(t, path)).unfolded, keeps+atOnce)
	})
}

// A log of too many rows loses its first ones. Only the operations in them are folded.
func TestLogOfTooManyRows(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	c := anotherProcess(t, path)
	var is logOf
	for n := range sqlite.KeepRows + 100 {
		if n%16 == 0 {
			_, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", n), s))
			require.NoError(t, err)
		} else {
			beginFlow(t, j, s, fmt.Sprint("flow-", n))
		}
		if n >= sqlite.KeepRows-50 {
			is = logIn(t.Context(), t, c)
			require.LessOrEqual(t, is.rows, sqlite.KeepRows)
			require.Greater(t, is.rows, sqlite.KeepRows-100)
		}
	}
	assert.Greater(t, is.unfolded, sqlite.KeepRows/16-10, "those begun before it was too long, but for the first few")
	assert.Less(t, is.unfolded, (sqlite.KeepRows+100)/16, "and some are folded")
}

// A log of too many bytes is cut, however few rows it has, and is short at once.
func TestLogOfTooManyBytes(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	c := anotherProcess(t, path)
	again := func(body []byte) {
		ev := begin("tried again", s)
		ev.Intent.Request.Body = body
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, journal.Execute, begun.Decision)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Unsent, park.Due = journal.EventPark, nil, true, time.Now()
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	const large = 3 << 20
	for left := sqlite.KeepRowsBytes; left > 4000; left = sqlite.KeepRowsBytes - logIn(t.Context(), t, c).bytes {
		again(noise(min(large, left-2000)))
	}
	is := logIn(t.Context(), t, c)
	require.Greater(t, is.bytes, sqlite.KeepRowsBytes-4000)
	require.LessOrEqual(t, is.bytes, sqlite.KeepRowsBytes)
	again(noise(3000)) // too many, with a row that is small
	require.LessOrEqual(t, is.rows, 20)
	assert.Less(t, logIn(t.Context(), t, c).bytes, 10000)
	assert.Empty(t, verify(t, j))
}

// A log of too many bytes loses half of the bytes that it may have, the oldest first.
func TestLogOfTooManyBytesIsHalved(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	c := anotherProcess(t, path)
	const large = 400 << 10
	var is, was logOf
	for n := 0; is.bytes >= was.bytes; n++ {
		for _, size := range []int{large, 10} { // its large request is in the log alone
			ev := begin(fmt.Sprint("op-", n), s)
			ev.Intent.Request.Body = noise(size)
			begun, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			require.Equal(t, journal.Execute, begun.Decision)
			park := complete(begun.Operation, s)
			park.Kind, park.Answer, park.Unsent, park.Due = journal.EventPark, nil, true, time.Now()
			_, err = j.Apply(t.Context(), park)
			require.NoError(t, err)
		}
		was, is = is, logIn(t.Context(), t, c)
		require.LessOrEqual(t, is.bytes, sqlite.KeepRowsBytes+2*large)
	}
	assert.LessOrEqual(t, is.bytes, sqlite.KeepRowsBytes/2+2*large)
	assert.Greater(t, is.bytes, sqlite.KeepRowsBytes/2-4*large)
}

// A log that can't be cut accepts nothing more.
func TestLogThatCantBeCut(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	stop := refuse(t, path, "DELETE ON onceward_log")
	var err error
	n := 0
	for ; err == nil && n < 2*sqlite.KeepRows; n++ {
		_, err = j.ApplyFlow(t.Context(), journal.FlowEvent{Kind: journal.FlowEventBegin, Ref: journal.Ref{ID: fmt.Sprint("flow-", n)}, At: time.Now(), Session: s.ID(),
			Function: rideFunction, InputDigest: "d"})
	}
	require.ErrorContains(t, err, "refused by the test")
	assert.LessOrEqual(t, n, sqlite.KeepRows+1)
	stop()
	beginFlow(t, j, s, "later")
	assert.Less(t, logIn(t.Context(), t, anotherProcess(t, path)).rows, sqlite.KeepRows)
}
