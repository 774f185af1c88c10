//go:build unix

package rows_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

func begin(id string, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id,
			Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

func complete(op journal.Operation, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(),
		Claim: op.Claim, Generation: op.Generation, Attempts: 1, Answer: &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)},
	}
}

func joined(t *testing.T, path string) (*rowstore.Store, machine.Session) {
	t.Helper()
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	return j, s
}

// execute runs SQL in a journal's file, as another program.
func execute(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(text)
	require.NoError(t, err)
}

func TestHistories(t *testing.T) {
	rowstoretest.Histories(t, func(t *testing.T) rowstoretest.Database {
		path := filepath.Join(t.TempDir(), "journal.db")
		return rowstoretest.Database{
			Open:   func(t *testing.T) *rowstore.Store { return open(t, path) },
			Driver: func(t *testing.T) rowstore.Driver { return driver(t, path) },
			Damage: func(t *testing.T, handle int64) {
				execute(t, path, fmt.Sprint("UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE handle = ", handle))
			},
			DamageReceipt: func(t *testing.T, handle int64) {
				execute(t, path, fmt.Sprint("UPDATE onceward_receipts SET place = 'elsewhere' WHERE handle = ", handle))
			},
			Refuse: func(t *testing.T, provider string, handle int64) {
				execute(t, path, fmt.Sprintf(`
					CREATE TRIGGER no_insert BEFORE INSERT ON onceward_rows WHEN new.provider = '%s' BEGIN SELECT raise(ABORT, 'no'); END;
					CREATE TRIGGER no_update BEFORE UPDATE ON onceward_rows WHEN new.handle = %d BEGIN SELECT raise(ABORT, 'no'); END;`, provider, handle))
			},
		}
	})
}

func TestAFileOfAnotherLayoutIsRefused(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old.db")
	execute(t, old, "CREATE TABLE onceward_schema (one INTEGER PRIMARY KEY, version INTEGER NOT NULL); CREATE TABLE onceward_log (seq INTEGER PRIMARY KEY)")
	_, err := rows.Open(old, rows.Options{})
	require.ErrorIs(t, err, rows.ErrLayout)
	require.ErrorContains(t, err, "give another path")

	newer := filepath.Join(t.TempDir(), "newer.db")
	require.NoError(t, open(t, newer).Close())
	execute(t, newer, "UPDATE onceward_head SET version = version + 1")
	_, err = rows.Open(newer, rows.Options{})
	assert.ErrorIs(t, err, rows.ErrLayout)
}

func TestAHeadThatIsNotAsItWasWrittenIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path).Close())
	execute(t, path, "UPDATE onceward_head SET last_at = last_at + 1")
	_, err := rows.Open(path, rows.Options{})
	assert.ErrorIs(t, err, format.ErrDamaged)
}

// A session whose file is gone may live elsewhere: its operations are left alone, and others are claimed.
func TestASessionWithoutItsFileKeepsItsOperations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j, s := joined(t, path)
	_, err := j.Apply(t.Context(), begin("a", s))
	require.NoError(t, err)
	next, own := joined(t, path)
	require.NoError(t, os.Remove(path+"-session-"+s.ID()))
	_, err = next.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: own.ID()}, 10)
	require.ErrorIs(t, err, journal.ErrRestored)
	_, err = next.Apply(t.Context(), begin("a", own))
	assert.ErrorIs(t, err, journal.ErrRestored)
	_, err = next.Apply(t.Context(), begin("b", own))
	assert.NoError(t, err)
}

// A process with 16 callers is killed again and again. What it said to be recorded is, and the next one claims the rest.
func TestKilledProcessesLoseNothing(t *testing.T) {
	if path := os.Getenv("ONCEWARD_ROWS_CHILD"); path != "" {
		child(path)
		return
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	told := map[string]string{}
	for round := range soak.Times(3, 40) {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), "ONCEWARD_ROWS_CHILD="+path, fmt.Sprint("ONCEWARD_ROWS_ROUND=", round))
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		lines := 0
		for s := bufio.NewScanner(out); s.Scan(); {
			if did, id, is := strings.Cut(s.Text(), " "); is && (did == "begun" || did == "done") && strings.HasSuffix(id, ".") {
				told[id] = did
				if lines++; lines == 300+97*round {
					require.NoError(t, c.Process.Kill())
				}
			}
		}
		_ = c.Wait()
		require.GreaterOrEqual(t, lines, 300)
	}
	j, s := joined(t, path)
	for id, did := range told {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		if did == "done" {
			require.Equal(t, journal.StateCompleted, op.State)
			require.Equal(t, "paid "+id, string(op.Answer.Body))
		}
	}
	require.Empty(t, verify(t, j))
	seen := make(map[string]bool)
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		require.False(t, seen[op.ID], "%s is there twice", op.ID)
		seen[op.ID] = true
		if op.State == journal.StateCompleted && len(seen)%20 == 0 {
			result, err := j.Apply(t.Context(), begin(op.ID, s))
			require.NoError(t, err)
			require.Equal(t, machine.Replay, result.Decision, op.ID)
		}
	}
	claimed, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: s.ID()}, 1_000_000)
	require.NoError(t, err)
	assert.NotEmpty(t, claimed)
	for op, err := range j.List(t.Context(), journal.Filter{States: []journal.State{journal.StateInFlight}}) {
		require.NoError(t, err)
		assert.Equal(t, s.ID(), op.Holder)
	}
}

// child begins and completes operations, and says so, until it is killed.
func child(path string) {
	d, err := rows.Open(path, rows.Options{})
	var j *rowstore.Store
	if err == nil {
		j, err = rowstore.Open(context.Background(), d, rowstore.Options{})
	}
	var s machine.Session
	if err == nil {
		s, err = j.Join(context.Background())
	}
	if err != nil {
		panic(err)
	}
	lines := make(chan string)
	for caller := range 16 {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%s-%d-%d.", os.Getenv("ONCEWARD_ROWS_ROUND"), caller, n)
				result, err := j.Apply(context.Background(), begin(id, s))
				if err != nil || result.Decision != machine.Execute {
					panic(fmt.Sprint(result.Decision, err))
				}
				lines <- "begun " + id
				ev := complete(result.Operation, s)
				ev.Delivered = true
				if _, err := j.Apply(context.Background(), ev); err != nil {
					panic(err)
				}
				lines <- "done " + id
			}
		}()
	}
	for line := range lines {
		fmt.Println(line)
	}
}
