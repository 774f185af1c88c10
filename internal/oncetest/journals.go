package oncetest

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/seal"
)

// Journals opens a journal of each kind.
var Journals = map[string]func(t *testing.T) machine.Store{
	"memory": func(*testing.T) machine.Store { return memory.New() },
	"sqlite": OnDisk,
}

// OnDisk opens a new SQLite file.
func OnDisk(t *testing.T) machine.Store {
	t.Helper()
	return OpenSQLite(t, filepath.Join(t.TempDir(), "journal.db"))
}

// OpenSQLite opens the SQLite file at path, until the test ends.
func OpenSQLite(t *testing.T, path string) *sqlite.Journal {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// Each runs a test in virtual time with a journal in memory. A sample of these tests runs with a SQLite file too.
func Each(t *testing.T, name string, f func(t *testing.T, j machine.Store)) {
	t.Helper()
	for kind, open := range Journals {
		if kind == "memory" || sample.TakesName(t.Name()+name, 3) {
			Virtual(t, strings.TrimSpace(name+" ("+kind+")"), func(t *testing.T) { f(t, open(t)) })
		}
	}
}

// EachJournal runs a test over every journal kind. open opens the test's one journal, as each process does for itself.
func EachJournal(t *testing.T, f func(t *testing.T, open func() machine.Store)) {
	t.Run("memory", func(t *testing.T) {
		j := memory.New()
		t.Cleanup(func() { _ = j.Close() })
		f(t, func() machine.Store { return j })
	})
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		f(t, func() machine.Store { return OpenSQLite(t, path) })
	})
}

// SeesTheClock begins another operation from another session at the given time, and cancels the operation. The journal
// does not believe at once a clock that is days ahead of the seen times.
func SeesTheClock(t *testing.T, j machine.Store, at time.Time) {
	t.Helper()
	s, err := j.Join(context.Background())
	require.NoError(t, err)
	other := machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: "somebody's " + at.String()}, At: at, Session: s.ID(), Intent: &machine.Intent{Fingerprint: "f"}}
	begun, err := j.Apply(context.Background(), other)
	require.NoError(t, err)
	_, err = j.Apply(context.Background(), machine.Event{Kind: machine.EventCancel, Ref: other.Ref, At: at, Session: s.ID(),
		Claim: begun.Operation.Claim, Unsent: true, Delivered: true})
	require.NoError(t, err)
	require.NoError(t, s.End(context.Background()))
}

// Ring returns a key ring with these IDs, the same in each process. Nil means no keys.
func Ring(ids ...string) *seal.Ring {
	if len(ids) == 0 {
		return nil
	}
	var keys []seal.Key
	for _, id := range ids {
		keys = append(keys, seal.Key{ID: id, Secret: bytes.Repeat([]byte(id+"-"), seal.SecretSize)[:seal.SecretSize]})
	}
	ring, err := seal.NewRing(keys...)
	if err != nil {
		panic(err)
	}
	return ring
}
