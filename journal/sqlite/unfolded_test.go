//go:build unix

package sqlite_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// Operations in memory are listed from there. Those that another process has begun since are listed from the log.
func TestUnfoldedIsInMemoryOrRead(t *testing.T) {
	path, j, s := joined(t)
	for _, id := range []string{"a", "b", "c"} {
		_, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
	}
	sqlite.Preloaded(j)
	damage := "UPDATE onceward_log SET records = zeroblob(length(records)) WHERE seq < (SELECT max(seq) FROM onceward_log)"
	kept := "CREATE TABLE kept AS SELECT seq, records FROM onceward_log; "
	alter(t, path, kept+damage)
	assert.Equal(t, []int64{1, 2, 3}, handlesOf(t, j, journal.Filter{}))
	alter(t, path, "UPDATE onceward_log SET records = (SELECT records FROM kept WHERE kept.seq = onceward_log.seq)")

	_, in, out := startTalking(t, "begin", path)
	for n := range 3 {
		_, err := io.WriteString(in, "1\n")
		require.NoError(t, err)
		require.True(t, out.Scan())
		assert.Len(t, handlesOf(t, j, journal.Filter{}), 4+n)
	}
}

// A log with a damaged or missing row is an error for a read-only journal.
func TestUnfoldedOfADamagedLog(t *testing.T) {
	for name, damage := range map[string]string{
		"damaged": "UPDATE onceward_log SET records = zeroblob(length(records)) WHERE seq = %",
		"gone":    "DELETE FROM onceward_log WHERE seq = %",
	} {
		t.Run(name, func(t *testing.T) {
			path, j, s := joined(t)
			for _, id := range []string{"a", "b", "c"} {
				_, err := j.Apply(t.Context(), begin(id, s))
				require.NoError(t, err)
			}
			looks, err := sqlite.Open(path, readOnly)
			require.NoError(t, err)
			t.Cleanup(func() { _ = looks.Close() })
			assert.Len(t, handlesOf(t, looks, journal.Filter{}), 3)
			alter(t, path, strings.ReplaceAll(damage, "%", "(SELECT max(seq) - 1 FROM onceward_log)"))
			var last error
			for _, err := range looks.List(t.Context(), journal.Filter{}) {
				last = err
			}
			assert.ErrorContains(t, last, "damaged")
			_, err = looks.Get(t.Context(), journal.Ref{ID: "c"})
			assert.ErrorContains(t, err, "damaged")
		})
	}
}
