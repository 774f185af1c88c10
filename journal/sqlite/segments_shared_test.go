//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// childBegins begins as many operations as its input says, completes every other one, and prints a line.
func childBegins(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	begun, in := 0, bufio.NewReader(os.Stdin)
	for {
		var many int
		if _, err := fmt.Fscanln(in, &many); err != nil {
			return nil
		}
		for range many {
			ev := begin(fmt.Sprint("theirs-", begun), s)
			ev.Intent.Alias = aliasOf(ev.Ref.ID)
			result, err := j.Apply(ctx, ev)
			if err == nil && begun%2 == 0 { // the others have rows of their own
				_, err = j.Apply(ctx, complete(result.Operation, s))
			}
			if err != nil {
				return err
			}
			begun++
		}
		fmt.Println("begun")
	}
}

// Names are found around the ends of segments, whichever process begins them, whichever looks for them meanwhile, and
// whichever commit fails.
func TestSegmentsOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	path, j, s := joined(t)
	random, db := seeded(t), application(t, path)
	_, in, out := startTalking(t, "begin", path)
	var names []string
	theirs, ours := 0, 0
	finds := func(name string) {
		t.Helper()
		require.True(t, has(t, j, name), name)
	}
	enqueues := func(name string, there bool) {
		t.Helper()
		tx, err := db.Begin()
		require.NoError(t, err)
		defer tx.Rollback()
		result, err := j.EnqueueTx(t.Context(), sqlite.Tx(tx), enqueue(name))
		require.NoError(t, err, name)
		require.Equal(t, there, result.Decision != journal.Recorded, name)
	}
	goOn(t, j, "first") // in a block when the other process begins
	require.NoError(t, sqlite.Fold(j))
	_, err := io.WriteString(in, "1\n")
	require.NoError(t, err)
	require.True(t, out.Scan())
	names, theirs = []string{"first", "theirs-0"}, 1
	finds("theirs-0")
	for len(names) < 6*sqlite.SegmentSize {
		many := 1 + random.IntN(3)
		if left := sqlite.SegmentSize - (len(names)+1)%sqlite.SegmentSize; left > 10 { // to the end of the segment, or around it
			many = left - 5 + random.IntN(8)
		}
		if random.IntN(2) == 0 {
			_, err := io.WriteString(in, fmt.Sprintln(many))
			require.NoError(t, err)
			require.True(t, out.Scan())
			require.Equal(t, "begun", out.Text())
			for range many {
				names = append(names, fmt.Sprint("theirs-", theirs))
				theirs++
			}
		} else {
			for range many {
				names = append(names, fmt.Sprint("ours-", ours))
				ours++
			}
			sideBySide(many, func(i int) {
				begun, err := j.Apply(t.Context(), begin(names[len(names)-1-i], s))
				if assert.NoError(t, err) && i%2 == 0 { // the others have rows of their own
					_, err = j.Apply(t.Context(), complete(begun.Operation, s))
					assert.NoError(t, err)
				}
			})
		}
		if random.IntN(4) == 0 {
			sqlite.FailCommit(j)
		}
		latest := names[max(0, len(names)-1-random.IntN(12)):]
		switch random.IntN(4) {
		case 0:
			for _, name := range latest {
				finds(name)
			}
			require.False(t, has(t, j, "none"))
		case 1:
			for _, name := range latest {
				enqueues(name, true)
			}
			enqueues("none", false)
		case 2:
			result, err := j.Apply(t.Context(), begin(latest[0], s))
			require.NoError(t, err)
			require.NotEqual(t, journal.Execute, result.Decision, latest[0])
		}
		if random.IntN(2) == 0 {
			require.NoError(t, sqlite.Fold(j))
		}
	}
	require.NoError(t, in.Close())
	for _, name := range names {
		isOneCandidate(t, j, name)
	}
	assert.Empty(t, verify(t, j))
	require.NoError(t, sqlite.Fold(j))
	assert.Empty(t, verify(t, j))
}

// Memory may give up a segment that another process seals. Its names are then read again, whichever commit fails
// meanwhile. Here they are known up to the last folded operation, so that nothing else would be read.
func TestTailThatAnotherProcessSeals(t *testing.T) {
	path, j, s := joined(t)
	db := application(t, path)
	_, in, out := startTalking(t, "begin", path)
	const ours = sqlite.SegmentSize - 4 // handles begin with 1
	sideBySide(ours, func(i int) {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("ours-", i), s))
		if assert.NoError(t, err) { // the others have rows of their own
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	require.False(t, has(t, j, "none"))
	require.NoError(t, sqlite.Fold(j))
	_, err := io.WriteString(in, "3\n")
	require.NoError(t, err)
	require.True(t, out.Scan())
	sqlite.FailCommit(j)
	for _, name := range []string{"ours-0", fmt.Sprint("ours-", ours-1)} {
		result, _, err := wouldEnqueue(t, j, db, enqueue(name))
		require.NoError(t, err)
		assert.NotEqual(t, journal.Recorded, result.Decision, name)
	}
	require.NoError(t, in.Close())
}
