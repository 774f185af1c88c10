package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A damaged operation keeps no other from being reaped, and its segment is examined again.
func TestReapBesideADamagedOperation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage string
		least  int
	}{
		"in a row": {"UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE instr(record, CAST('key-of-damaged' AS BLOB)) > 0", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			parked(t, path, "damaged")
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			others(t, j, s, "many")
			require.NoError(t, s.End(t.Context()))
			require.NoError(t, j.Close())
			alter(t, path, tc.damage)
			j = open(t, path)
			now := time.Now()
			for range 4 {
				now = now.Add(journal.Leap / 2)
				seenAt(t, j, now)
			}
			reap := func() int {
				n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: now, Keep: time.Hour}, 1e6)
				require.NoError(t, err)
				return n
			}
			assert.GreaterOrEqual(t, reap(), tc.least)
			assert.Zero(t, reap())
		})
	}
}

// meanwhile is an archive that calls do at the first write.
type meanwhile struct{ do func() }

func (w *meanwhile) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

// archiving is a journal with such an archive.
func archiving(t *testing.T) (path string, j *sqlite.Journal, s journal.Session, archive *meanwhile) {
	t.Helper()
	path, archive = filepath.Join(t.TempDir(), "journal.db"), new(meanwhile)
	j, err := sqlite.Open(path, sqlite.Options{Archive: archive})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	return path, j, s, archive
}
