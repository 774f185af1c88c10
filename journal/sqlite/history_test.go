package sqlite_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/journaltest"
	"github.com/onceward/onceward/journal/sqlite"
)

// The journal gives the same answers whatever happens, and wherever an operation is stored.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	for i, seed := range []struct {
		seed  uint64
		steps int
	}{
		{soak.Seed(t, 1), soak.Times(150, 1500)},
		{15740741067116398134, 400}, // a clock that had gone back left an operation pending that may have run and has no window
		{1471465738229, 300},        // likewise
		{3198372648012, 300},        // a checkpoint used the connection that wrote the sidecar
	} {
		if !sample.Takes(i, 2) {
			continue
		}
		t.Run(strconv.FormatUint(seed.seed, 10), func(t *testing.T) { longHistory(t, seed.seed, seed.steps) })
	}
}

func longHistory(t *testing.T, seed uint64, steps int) {
	path := filepath.Join(t.TempDir(), "journal.db")
	h := harness(t, path)
	h.Seed = seed
	h.Upkeep = func(t *testing.T, opened machine.Store, n int) {
		j := opened.(*sqlite.Journal)
		switch n % 8 {
		case 0, 1:
		case 2:
			require.NoError(t, sqlite.Mark(j))
		case 3:
			require.NoError(t, sqlite.Flush(j))
		case 4:
			violations, err := j.Verify(t.Context())
			require.NoError(t, err)
			require.Empty(t, violations)
		default:
			readBeside(t, path, j, n/8)
		}
	}
	journaltest.LongHistory(t, h, steps)
}

// readBeside reads the journal as another program does, and asserts that it sees the same.
func readBeside(t *testing.T, path string, j *sqlite.Journal, n int) {
	t.Helper()
	require.NoError(t, sqlite.Flush(j))
	beside, err := sqlite.Open(path, sqlite.Options{ReadOnly: true, Seal: rowstoretest.HalfSealed(t)})
	require.NoError(t, err)
	defer func() { assert.NoError(t, beside.Close()) }()
	f := journal.Filter{Newest: n%2 == 0, Undelivered: n%5 == 0, ByWake: n%7 == 0}
	want, got := listed(t, j, f), listed(t, beside, f)
	require.Equal(t, want, got)
	step := 1 + len(want)/8
	for i := n % step; i < len(want); i += step {
		ref := want[i].Ref
		if a := want[i].Alias; a != (journal.Ref{}) && n%3 == 0 {
			ref = a
		}
		whole, err := j.Get(t.Context(), ref)
		require.NoError(t, err)
		theirs, err := beside.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, whole, theirs)
		for by, value := range map[machine.By]string{machine.ByKey: whole.Key, machine.ByReference: whole.Reference, machine.ByObject: whole.Object} {
			ours, err := j.FindBy(t.Context(), whole.Provider, by, value)
			require.NoError(t, err)
			theirs, err := beside.FindBy(t.Context(), whole.Provider, by, value)
			require.NoError(t, err)
			require.Equal(t, ours, theirs)
		}
	}
	_, err = beside.Get(t.Context(), journal.Ref{Scope: "nobody", ID: "nothing"})
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func listed(t *testing.T, j *sqlite.Journal, f journal.Filter) (all []journal.Operation) {
	t.Helper()
	for op, err := range j.List(t.Context(), f) {
		require.NoError(t, err)
		all = append(all, op)
	}
	return all
}
