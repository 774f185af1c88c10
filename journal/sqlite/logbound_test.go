//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

func TestTheLogIsBoundedUnderAnyLoad(t *testing.T) {
	t.Parallel()
	retry := func(t *testing.T, j *sqlite.Journal, s journal.Session, body []byte) {
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
	large := noise(512 << 10)
	for name, row := range map[string]struct {
		times int
		do    func(t *testing.T, j *sqlite.Journal, s journal.Session, i int)
	}{
		"one operation is tried again and again": {soak.Times(1200, 3000), func(t *testing.T, j *sqlite.Journal, s journal.Session, _ int) {
			retry(t, j, s, []byte("amount=100"))
		}},
		"and its request is large": {100, func(t *testing.T, j *sqlite.Journal, s journal.Session, _ int) { retry(t, j, s, large) }},
		"flows": {soak.Times(2300, 3000), func(t *testing.T, j *sqlite.Journal, s journal.Session, i int) {
			beginFlow(t, j, s, fmt.Sprint("order-", i))
		}},
		"sessions that record nothing": {soak.Times(1200, 3000), func(t *testing.T, j *sqlite.Journal, _ journal.Session, _ int) {
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.End(t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			_, err = j.Apply(t.Context(), begin("the oldest", s))
			require.NoError(t, err)
			for i := range row.times {
				row.do(t, j, s, i)
			}
			var rows, size int
			require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(),
				"SELECT count(*), sum(length(records)) FROM onceward_log").Scan(&rows, &size))
			assert.LessOrEqual(t, rows, sqlite.KeepRows)
			assert.LessOrEqual(t, size, sqlite.KeepRowsBytes+len(large)+1<<10)

			require.NoError(t, j.Close())
			j = open(t, path)
			assert.True(t, has(t, j, "the oldest"))
			require.NoError(t, sound(t.Context(), j))
			if strings.Contains(name, "request is large") {
				op, err := j.Get(t.Context(), journal.Ref{ID: "tried again"})
				require.NoError(t, err)
				assert.Equal(t, large, op.Request.Body)
			}
		})
	}
}

// Large operations are folded sooner. Small ones after them are not.
func TestLargeOperationsLeaveTheLogSooner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	c := anotherProcess(t, path)
	const most = sqlite.KeepRowsBytes / 4
	for _, size := range []int{1 << 20, 100 << 10} {
		body := noise(size)
		for i := range 10 << 20 / size {
			ev := begin(fmt.Sprint("large-", size, "-", i), s)
			ev.Intent.Request.Body = body
			begun, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			require.NoError(t, err)
			is := logIn(t.Context(), t, c)
			require.LessOrEqual(t, is.unfolded*size, most+2*size)
			require.LessOrEqual(t, is.bytes, most+3*size, "what is folded leaves at once")
		}
	}
	for i := range 200 {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("small-", i), s))
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), complete(begun.Operation, s))
		require.NoError(t, err)
	}
	assert.GreaterOrEqual(t, logIn(t.Context(), t, c).unfolded, 200)
}

// An operation that is tried again and again counts once, with its present size.
func TestLogCountsEachOperationOnce(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	c := anotherProcess(t, path)
	_, err := j.Apply(t.Context(), begin("the oldest", s))
	require.NoError(t, err)
	const size, times = 1 << 20, 10
	require.Greater(t, size*times, sqlite.KeepRowsBytes/4, "that is how much operations may have")
	require.Less(t, size*times, sqlite.KeepRowsBytes)
	for range times {
		ev := begin("tried again", s)
		ev.Intent.Request.Body = noise(size)
		cancelled(t, j, ev, s)
	}
	assert.Equal(t, 2, logIn(t.Context(), t, c).unfolded)
}

// A row that is larger than the log's maximum leaves it with the next commit.
func TestLogOfOneRowThatIsTooLarge(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	c := anotherProcess(t, path)
	for n := range 2 {
		ev := begin(fmt.Sprint("invoice-", n), s)
		ev.Intent.Request.Body = noise(sqlite.KeepRowsBytes)
		_, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
	}
	require.Equal(t, 1, logIn(t.Context(), t, c).rows)
	_, err := j.Apply(t.Context(), begin("small", s))
	require.NoError(t, err)
	is := logIn(t.Context(), t, c)
	assert.Less(t, is.bytes, 10000)
	assert.Equal(t, 1, is.unfolded)
}
