package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

func TestReapedDataIsGoneFromTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	const many = 600
	for i := range many { // one after the other, so that the pages are the same each time
		ev := begin(fmt.Sprint("invoice-", i), s)
		ev.Intent.Fingerprint = fmt.Sprint("v1:digest-", i, ".")
		ev.Intent.Request.Body = bytes.Repeat(fmt.Append(nil, "jane@example.com ", i, " "), 20)
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		ev = complete(begun.Operation, s)
		ev.Answer.Body = bytes.Repeat(fmt.Append(nil, "receipt for jane ", i, " "), 20)
		ev.Delivered = i%2 == 0
		_, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
		if !ev.Delivered {
			_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: begun.Operation.Ref,
				Handle: begun.Operation.Handle, At: time.Now(), Outcome: journal.StateCompleted})
			require.NoError(t, err)
		}
	}
	now := time.Now()
	for _, step := range []struct {
		hours time.Duration
		want  int
	}{{12, 0}, {25, many}} { // the retention is a day, and neither step is a leap of the clock
		n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: now.Add(step.hours * time.Hour)}, 10_000)
		require.NoError(t, err)
		require.Equal(t, step.want, n)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, what := range []string{"jane@", "receipt for"} {
		assert.Zero(t, bytes.Count(content, []byte(what)), what)
	}
	assert.Contains(t, string(content), "invoice-7", "its name stays")
	assert.Less(t, bytes.Count(content, []byte("v1:digest-")), many/50, "a piece of a row may stay where SQLite has moved it")
}
