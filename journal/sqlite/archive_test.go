package sqlite_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// ripe completes n operations with an old time, so that most are in blocks. It also makes a cancelled and an
// undelivered one.
func ripe(t *testing.T, j *sqlite.Journal, n int) {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	old := time.Now().Add(-1000 * time.Hour)
	apply := func(ev journal.Event) journal.Operation {
		ev.At = old
		result, err := j.Apply(t.Context(), ev)
		assert.NoError(t, err)
		return result.Operation
	}
	sideBySide(n, func(i int) {
		ev := begin(fmt.Sprint("named-", i), s)
		if i%2 == 1 {
			ev = generate(fmt.Sprint("generated-", i), s)
		}
		apply(complete(apply(ev), s))
	})
	cancel := complete(apply(begin("cancelled", s)), s)
	cancel.Kind, cancel.Answer, cancel.Unsent = journal.EventCancel, nil, true
	apply(cancel)
	undelivered := complete(apply(begin("undelivered", s)), s)
	undelivered.Delivered = false
	apply(undelivered)
	seenAt(t, j, time.Now().Add(-journal.Confirmation)) // so that now is no jump
}

func reap(t *testing.T, j *sqlite.Journal, limit int) (int, error) {
	return j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now(), Keep: 100 * time.Hour}, limit)
}

// An operation that can't be archived stays, and keeps no other of its segment from being reaped.
func TestArchiveBesideADamagedBody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c"} {
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		done := complete(begun.Operation, s)
		done.Delivered = false // so that it has a row
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: begun.Operation.Ref,
			Handle: begun.Operation.Handle, At: time.Now(), Outcome: journal.StateCompleted})
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_requests SET body = x'00' WHERE handle = (SELECT handle FROM onceward_rows WHERE instr(record, CAST('key-of-b' AS BLOB)) > 0)")
	var archive bytes.Buffer
	j, err = sqlite.Open(path, sqlite.Options{Archive: &archive})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	at := time.Now().Add(25 * time.Hour)
	seenAt(t, j, at.Add(-journal.Confirmation))
	n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at}, 10)
	require.ErrorContains(t, err, "operation 2")
	assert.Equal(t, 2, n)
	assert.Equal(t, 2, bytes.Count(archive.Bytes(), []byte("\n")))
}

func TestReapedOperationsAreArchivedOnce(t *testing.T) {
	t.Parallel()
	for _, bodies := range []bool{false, true} {
		dir := t.TempDir()
		file, err := os.Create(filepath.Join(dir, "archive.jsonl"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		j, err := sqlite.Open(filepath.Join(dir, "journal.db"), sqlite.Options{Archive: file, ArchiveBodies: bodies})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		ripe(t, j, 2500)
		reaped := 0
		for {
			n, err := reap(t, j, 150)
			require.NoError(t, err)
			if reaped += n; n == 0 {
				break
			}
		}
		assert.Equal(t, 2501, reaped)
		require.Empty(t, verify(t, j))

		lines := map[string]int{}
		content, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		scanner := bufio.NewScanner(bytes.NewReader(content))
		for scanner.Scan() {
			var line struct {
				ID        string    `json:"id"`
				Naming    string    `json:"naming"`
				State     string    `json:"state"`
				SettledAt time.Time `json:"settled_at"`
				Request   struct {
					URL  string `json:"url"`
					Body []byte `json:"body"`
				} `json:"request"`
				Answer *struct {
					Status int    `json:"status"`
					Body   []byte `json:"body"`
				} `json:"answer"`
			}
			require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
			lines[line.ID]++
			assert.False(t, line.SettledAt.IsZero())
			assert.Equal(t, "https://ledger.example.com/charges", line.Request.URL)
			if line.ID == "cancelled" {
				assert.Equal(t, "cancelled", line.State)
				assert.Nil(t, line.Answer)
				continue
			}
			assert.Equal(t, "completed", line.State)
			require.NotNil(t, line.Answer)
			assert.Equal(t, http.StatusCreated, line.Answer.Status)
			if bodies {
				assert.Equal(t, "paid "+line.ID, string(line.Answer.Body))
				assert.Equal(t, line.ID, string(line.Request.Body))
			} else {
				assert.Empty(t, line.Answer.Body)
				assert.Empty(t, line.Request.Body)
			}
		}
		require.Len(t, lines, 2501)
		for id, n := range lines {
			assert.Equal(t, 1, n, id)
		}
		assert.NotContains(t, lines, "undelivered")
	}
}

// writer is an archive that fails in the way that fails names.
type writer struct {
	bytes.Buffer
	fails                    string
	written, flushed, synced int
}

var errFull = errors.New("the archive is full")

func (w *writer) do(what string, n *int) error {
	if w.fails == what {
		return errFull
	}
	*n++
	return nil
}

func (w *writer) Write(p []byte) (int, error) {
	if err := w.do("write", &w.written); err != nil {
		return 0, err
	}
	return w.Buffer.Write(p)
}
func (w *writer) Flush() error { return w.do("flush", &w.flushed) }
func (w *writer) Sync() error  { return w.do("sync", &w.synced) }

func TestNothingIsReapedThatCantBeArchived(t *testing.T) {
	to := &writer{}
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Archive: to})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	ripe(t, j, 1200)
	for _, to.fails = range []string{"write", "flush", "sync"} {
		n, err := reap(t, j, 100)
		require.ErrorIs(t, err, errFull, to.fails)
		assert.Zero(t, n)
		op, err := j.Get(t.Context(), journal.Ref{ID: "named-0"})
		require.NoError(t, err)
		assert.False(t, op.Tombstone)
	}
	to.fails = ""
	n, err := reap(t, j, 100)
	require.NoError(t, err)
	assert.Equal(t, 100, n)
	assert.Positive(t, to.synced)
}

// tearing is an archive that fails in the middle of a line.
type tearing struct {
	bytes.Buffer
	left  int  // bytes until it fails; negative: it never fails
	short bool // it reports the failure by a short count alone
}

func (w *tearing) Write(p []byte) (int, error) {
	if w.left < 0 || len(p) <= w.left {
		return w.Buffer.Write(p)
	}
	n, _ := w.Buffer.Write(p[:w.left])
	w.left = -1
	if w.short {
		return n, nil
	}
	return n, errFull
}

// archivedIn returns the operations with a complete line.
func archivedIn(content []byte) (ids map[string]bool, others int) {
	ids = map[string]bool{}
	for line := range bytes.Lines(content) {
		var op struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(line, &op) == nil && bytes.HasSuffix(line, []byte("\n")) {
			ids[op.ID] = true
		} else if len(bytes.TrimSpace(line)) > 0 {
			others++
		}
	}
	return ids, others
}

// A torn write costs the archive no operation.
func TestArchiveTornWriteCostsNoOperation(t *testing.T) {
	for _, short := range []bool{false, true} {
		to := &tearing{left: 100, short: short}
		j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Archive: to})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		ripe(t, j, 200)
		_, err = reap(t, j, 10_000)
		require.Error(t, err)
		n, err := reap(t, j, 10_000)
		require.NoError(t, err)
		ids, others := archivedIn(to.Bytes())
		assert.Len(t, ids, n)
		assert.Equal(t, 1, others, "what was torn is a line by itself")
	}
}

// If a crash has torn the archive's last line, the journal continues on a new line.
func TestArchiveTornByACrashGoesOn(t *testing.T) {
	for name, before := range map[string]string{"new": "", "whole": "{\"id\":\"before\"}\n", "torn": "{\"id\":\"before\"}\n{\"id\":\"to"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "archive.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		j, err := sqlite.Open(filepath.Join(dir, "journal.db"), sqlite.Options{Archive: file})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		ripe(t, j, 200)
		n, err := reap(t, j, 10_000)
		require.NoError(t, err)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		ids, _ := archivedIn(content)
		delete(ids, "before")
		assert.Len(t, ids, n, name)
		assert.Equal(t, bytes.Count(content, []byte("\n\n")), 0, "%s: no line is empty", name)
	}
}
