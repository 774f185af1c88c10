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

	"github.com/onceward/onceward/journal"
)

func TestReapedDataIsGoneFromTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, phase := range []string{"blocks", "rows"} {
		sideBySide(1500, func(i int) {
			ev := begin(fmt.Sprint(phase, "-", i), s)
			ev.Intent.Fingerprint = fmt.Sprint("v1:digest-", i)
			ev.Intent.Request.Body = bytes.Repeat(fmt.Append(nil, "jane@example.com ", i, " "), 20)
			begun, err := j.Apply(t.Context(), ev)
			if !assert.NoError(t, err) {
				return
			}
			ev = complete(begun.Operation, s)
			ev.Answer.Body = bytes.Repeat(fmt.Append(nil, "receipt for jane ", i, " "), 20)
			if phase == "rows" {
				ev.Delivered = false
			}
			_, err = j.Apply(t.Context(), ev)
			assert.NoError(t, err)
			if phase == "rows" {
				_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: begun.Operation.Ref,
					Handle: begun.Operation.Handle, At: time.Now(), Outcome: journal.StateCompleted})
				assert.NoError(t, err)
			}
		})
	}
	now := time.Now()
	for _, step := range []struct {
		hours time.Duration
		want  int
	}{{12, 0}, {25, 3000}} { // the retention is a day, and neither step is a leap of the clock
		n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: now.Add(step.hours * time.Hour)}, 10_000)
		require.NoError(t, err)
		require.Equal(t, step.want, n)
	}
	others(t, j, s, "later") // overwrites the contents of the log's pages
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, what := range []string{"jane@", "receipt for"} {
		assert.Zero(t, bytes.Count(content, []byte(what)), what)
	}
	assert.Contains(t, string(content), "blocks-7", "its name stays")
}
