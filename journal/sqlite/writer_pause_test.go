package sqlite_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// After each commit the writer pauses for other processes, for as long as one has written recently.
func TestPauseWhereOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, j, s := joined(t)
		pauses := func() bool {
			t.Helper()
			synctest.Wait() // for the pause after the previous commit
			before := time.Now()
			require.NoError(t, sqlite.Flush(j))
			require.NoError(t, sqlite.Flush(j)) // this waits for the end of the pause
			return time.Since(before) > 0
		}
		<-time.After(time.Second) // virtual
		assert.False(t, pauses(), "nobody else has written")
		alter(t, path, "CREATE TABLE theirs (id INTEGER)")
		for range 3 {
			assert.True(t, pauses(), "somebody has")
		}
		<-time.After(time.Second) // virtual
		for range 2 {
			_ = pauses() // the pause that was under way
			assert.False(t, pauses(), "long ago")
		}
		alter(t, path, "DROP TABLE theirs")
		assert.True(t, pauses(), "somebody has again")
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close())
	})
}
