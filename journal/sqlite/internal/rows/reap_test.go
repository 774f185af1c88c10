//go:build unix

package rows_test

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
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// seen shows a journal the time.
func seen(t *testing.T, j *rowstore.Store, at time.Time) {
	t.Helper()
	_, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventClock, At: at})
	require.NoError(t, err)
}

// has returns the texts that are in the journal's file or in its WAL.
func has(t *testing.T, path string, texts []string) (found []string) {
	t.Helper()
	for _, name := range []string{path, path + "-wal"} {
		content, err := os.ReadFile(name)
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				found = append(found, text)
			}
		}
	}
	return found
}

// Nothing of a removed operation stays in the file, and of a named one only its name and its outcome. Their space is used
// again.
func TestReapedDataIsOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, s := joined(t, path)
	then := time.Now().Add(-1000 * time.Hour)
	var secrets, names []string
	fill := func(round string) {
		for n := range 30 {
			name := fmt.Sprintf("the-name-of-%s-%d.", round, n)
			ev := begin(name, s)
			if ev.At = then; n%2 == 0 {
				ev.Intent.Naming, ev.New = journal.Generated, true
				secrets = append(secrets, name)
			} else {
				names = append(names, name)
			}
			body := bytes.Repeat([]byte(fmt.Sprintf("the-body-of-%s-%d.", round, n)), 40*n+1) // in a page, and in several
			ev.Intent.Request.Body, ev.Intent.Fingerprint, ev.Intent.Key = body, "the-fingerprint-of-"+name, "the-key-of-"+name
			result, err := j.Apply(t.Context(), ev)
			require.NoError(t, err)
			require.Equal(t, machine.Execute, result.Decision)
			done := complete(result.Operation, s)
			done.At, done.Delivered, done.Answer.Body = then, true, []byte("the-answer-of-"+name)
			_, err = j.Apply(t.Context(), done)
			require.NoError(t, err)
			secrets = append(secrets, fmt.Sprintf("the-body-of-%s-%d.", round, n), "the-fingerprint-of-"+name, "the-answer-of-"+name)
		}
	}
	fill("first")
	require.NotEmpty(t, has(t, path, secrets))
	seen(t, j, time.Now().Add(-machine.Confirmation))
	reap := func() {
		n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now()}, 1000)
		require.NoError(t, err)
		require.Equal(t, 30, n)
		require.Empty(t, verify(t, j))
	}
	reap()
	before, err := j.ReadStats(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	assert.Empty(t, has(t, path, secrets))
	assert.Len(t, has(t, path, names), len(names))

	then = time.Now().Add(-time.Hour)
	j, s = joined(t, path)
	fill("second")
	after, err := j.ReadStats(t.Context())
	require.NoError(t, err)
	assert.Less(t, after.FileBytes, before.FileBytes+before.FileBytes/4, "freed space is used again")
}
