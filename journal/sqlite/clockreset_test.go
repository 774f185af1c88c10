//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// childResets resets the clock to now, as a person would.
func childResets(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	return errors.Join(j.ResetClock(context.Background(), time.Now()), j.Close())
}

// After another process resets the clock, it stays reset.
func TestClockResetByAnotherProcessStaysSo(t *testing.T) {
	t.Parallel()
	year := time.Now().Truncate(time.Millisecond).UTC().Add(365 * 24 * time.Hour)
	believesAYear := func(t *testing.T, j *sqlite.Journal) {
		seenAt(t, j, year)
		result := seenAt(t, j, year.Add(machine.Confirmation))
		require.Equal(t, year.Add(machine.Confirmation), result.Last)
	}
	for name, meanwhile := range map[string]func(t *testing.T, j *sqlite.Journal){
		"after a commit": func(t *testing.T, j *sqlite.Journal) { believesAYear(t, j); goOn(t, j, "invoice-2") },
		"after a transaction that was rolled back":  func(t *testing.T, j *sqlite.Journal) { believesAYear(t, j); sqlite.FailCommit(j) },
		"of a clock that was seen without a commit": func(t *testing.T, j *sqlite.Journal) { seenAt(t, j, time.Now().Add(20*time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			goOn(t, j, "invoice-1")
			meanwhile(t, j)
			child, out := start(t, "reset", path)
			assert.False(t, out.Scan(), out.Text())
			require.NoError(t, child.Wait())
			now := time.Now().Truncate(time.Millisecond).UTC()
			for range 2 {
				result := seenAt(t, j, now)
				assert.Equal(t, now, result.Last)
				assert.Zero(t, result.Unconfirmed)
				goOn(t, j, "invoice-3") // writes its own latest time
				require.NoError(t, j.Close())
				j = open(t, path)
				now = time.Now().Truncate(time.Millisecond).UTC()
			}
		})
	}
}

// After a reset, the writes of other processes do not erase the clock that only this process has seen since.
func TestClockSeenAfterAReset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	seenAt(t, j, time.Now().Add(20*time.Hour))
	child, out := start(t, "reset", path)
	assert.False(t, out.Scan(), out.Text())
	require.NoError(t, child.Wait())
	now := time.Now().Truncate(time.Millisecond).UTC()
	require.Equal(t, now, seenAt(t, j, now).Last)

	later := now.Add(10 * time.Minute)
	require.Equal(t, later, seenAt(t, j, later).Last)
	alter(t, path, "CREATE TABLE theirs (id INTEGER)")
	assert.Equal(t, later, seenAt(t, j, now).Last)
}
