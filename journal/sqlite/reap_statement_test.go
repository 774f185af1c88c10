//go:build unix

package sqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// reapable is a journal with operations of each reapable kind, some of them with marks.
func reapable(t *testing.T, folded bool) *scene {
	t.Helper()
	sc := &scene{path: filepath.Join(t.TempDir(), "journal.db"), now: time.Now().Truncate(time.Millisecond), names: []string{"named", "generated", "late", "cancelled", "unmarked"}}
	lived := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, lived)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	then := sc.now.Add(-2 * journal.EvidenceKeep)
	for _, name := range sc.names {
		ev := begin(name, s)
		if name == "generated" || name == "late" {
			ev = generate(name, s)
		}
		if ev.At = then; name == "unmarked" {
			ev.Intent.Key = ""
		} else if name != "late" {
			ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-"+name, true
		}
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		ev = complete(begun.Operation, s)
		ev.At, ev.Delivered = then, name != "late"
		if name == "cancelled" || name == "unmarked" {
			ev.Kind, ev.Answer, ev.Unsent = journal.EventCancel, nil, true
		}
		_, err = j.Apply(t.Context(), ev)
		require.NoError(t, err)
	}
	if folded {
		require.NoError(t, sqlite.Fold(j))
	}
	late := journal.Event{Kind: journal.EventDeliver, Ref: journal.Ref{ID: "late"}, At: then, Outcome: journal.StateCompleted}
	_, err = j.Apply(t.Context(), late)
	require.NoError(t, err)
	seenAt(t, j, sc.now.Add(-journal.Confirmation)) // so that now is no jump
	seenAt(t, j, sc.now)
	require.NoError(t, sqlite.Mark(j))
	copyAll(t, lived, sc.path)
	return sc
}

// If a statement of a reap by name fails, the operation is there as it was, or gone completely.
func TestBrokenStatementOfAReap(t *testing.T) {
	t.Parallel()
	for where, folded := range map[string]bool{"of the log": false, "of rows and blocks": true} {
		sc := reapable(t, folded)
		deeds, whole := make(map[string]deed), sc.enter(t)
		for _, name := range sc.names {
			deeds[name] = func(st *stage) error {
				return st.apply(journal.Event{Kind: journal.EventReap, Ref: journal.Ref{ID: name}})
			}
			require.NoError(t, deeds[name](whole))
			op, _ := whole.Get(t.Context(), journal.Ref{ID: name})
			require.True(t, op.State == journal.StateAbsent || op.Tombstone, name)
		}
		t.Run(where, func(t *testing.T) { sc.breaks(t, deeds) })
	}
}

// A reap keeps to its limit, though its clock is confirmed during the reap and makes more operations due.
func TestReapByAClockBelievedMeanwhile(t *testing.T) {
	b := newBreaker(t)
	path, j, s := joined(t)
	for n := range format.BlockSize {
		ev := begin(fmt.Sprint("completed-", n), s)
		if ev.Intent.Terms.Retention = 0; n%2 == 1 {
			ev.Intent.Terms.Retention = 50 * time.Hour
		}
		ended(t, j, s, ev, journal.EventComplete)
	}
	for n := range 10 {
		ev := begin(fmt.Sprint("cancelled-", n), s)
		ev.Intent.Terms.Retention = 0
		ended(t, j, s, ev, journal.EventCancel)
	}
	require.NoError(t, sqlite.Fold(j))
	at, limit := longAgo.Add(100*time.Hour), format.BlockSize+1
	believed := false
	b.meanwhile(func(statement string) {
		if !believed && strings.Contains(statement, "AND tombstone = 0") { // the reap has found those in blocks
			believed = true
			seenAt(t, j, at.Add(journal.Confirmation))
		}
	})
	n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at}, limit)
	require.NoError(t, err)
	assert.True(t, believed)
	assert.Equal(t, limit, n)
	assert.Equal(t, 9, one[int](t, anotherProcess(t, path), "SELECT count(*) FROM onceward_operations WHERE tombstone = 0"))
}
