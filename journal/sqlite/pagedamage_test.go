//go:build unix

package sqlite_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// toldOf asks a journal everything about the contents of everything. Each question has an answer, or "error". Each is
// asked by itself, so that no error hides another.
func toldOf(t *testing.T, path string) map[string]string {
	t.Helper()
	told := map[string]string{}
	say := func(question string, err error, answer ...any) {
		if errors.Is(err, journal.ErrNotFound) {
			told[question] = "not found"
		} else if err != nil {
			told[question] = "error"
		} else {
			told[question] = fmt.Sprint(answer...)
		}
	}
	ask := func(about string, questions func(j *sqlite.Journal, s machine.Session)) {
		j, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			return
		}
		defer j.Close()
		s, err := j.Join(t.Context())
		if err != nil {
			return
		}
		questions(j, s)
	}
	names := []string{"tombstone", "pending", "unknown", "in flight", "undelivered", "cancelled", "generated-0", "generated-399"}
	ask("what is there", func(j *sqlite.Journal, s machine.Session) {
		for _, id := range names {
			op, err := j.Get(t.Context(), journal.Ref{ID: id})
			say("get "+id, err, op.State, op.Generation, op.Answer != nil)
		}
		f, err := j.GetFlow(t.Context(), journal.Ref{ID: "flow"})
		say("get flow", err, f.State, len(f.Steps))
		for name, filter := range map[string]journal.Filter{
			"list": {}, "list pending": {States: []journal.State{journal.StatePending}}, "list by wake": {ByWake: true}, "list undelivered": {Undelivered: true},
		} {
			n, err := 0, error(nil)
			for _, e := range j.List(t.Context(), filter) {
				if n++; e != nil {
					err = e
				}
			}
			say(name, err, n)
		}
		for name, filter := range map[string]journal.FlowFilter{"list flows": {}, "list flows by due": {ByDue: true}} {
			n, err := 0, error(nil)
			for f, e := range j.ListFlows(t.Context(), filter) {
				if n += 1 + len(f.Steps); e != nil {
					err = e
				}
			}
			say(name, err, n)
		}
	})
	ask("what is begun", func(j *sqlite.Journal, s machine.Session) {
		for _, id := range names {
			if id != "pending" && id != "in flight" && id != "cancelled" { // these are sent again
				result, err := j.Apply(t.Context(), begin(id, s))
				say("begin "+id, err, result.Decision)
			}
		}
	})
	ask("what is claimed", func(j *sqlite.Journal, s machine.Session) {
		ev := claim(s)
		ev.At = ev.At.Add(2 * time.Hour)
		claimed := 0
		results, err := j.Claim(t.Context(), ev, 1000)
		for ; len(results) > 0; results, err = j.Claim(t.Context(), ev, 1000) { // one at a time if the file can't record all of them at once
			claimed += len(results)
		}
		say("claim", err, claimed)
		flows, err := j.ClaimFlows(t.Context(), machine.FlowEvent{
			Kind: machine.FlowEventClaim, At: ev.At, Session: s.ID(), Functions: []journal.FlowFunction{{Name: "f"}},
		}, 1000)
		say("claim flows", err, len(flows))
	})
	return told
}

// pagesOf returns the first pages of the journal's tables and indices, by their names.
func pagesOf(t *testing.T, path string) (size int, roots map[string]int) {
	t.Helper()
	db := anotherProcess(t, path)
	require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&size))
	rows, err := db.QueryContext(t.Context(), "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND name GLOB '*onceward_*'")
	require.NoError(t, err)
	defer rows.Close()
	roots = map[string]int{}
	for rows.Next() {
		var name string
		var page int
		require.NoError(t, rows.Scan(&name, &page))
		roots[name] = page
	}
	require.NoError(t, rows.Err())
	return size, roots
}

// Contents of an unreadable page are an error in every query. They never count as absent.
func TestPageThatCantBeReadIsNoAbsence(t *testing.T) {
	path := everything(t)
	pageSize, roots := pagesOf(t, path)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	dir := t.TempDir()
	look := func(t *testing.T, name string, file []byte) map[string]string {
		to := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(to, file, 0o600))
		copyFile(t, path+"-sidecar", to+"-sidecar")
		return toldOf(t, to)
	}
	want := look(t, "whole", whole)
	for question, says := range want {
		require.NotEqual(t, "error", says, question)
	}
	var noticed atomic.Int32
	t.Run("without", func(t *testing.T) { // returns once all of its subtests have ended
		for i, name := range slices.Sorted(maps.Keys(roots)) {
			if !sample.Takes(i, 2) {
				continue
			}
			page := roots[name]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				damaged := append([]byte(nil), whole...)
				clear(damaged[(page-1)*pageSize : page*pageSize])
				for question, says := range look(t, name, damaged) {
					if says == "error" {
						noticed.Add(1)
						continue
					}
					assert.Equal(t, want[question], says, question)
				}
			})
		}
	})
	assert.Positive(t, noticed.Load())
}

// If the operations of a dead session can't be found, that is an error.
func TestPageOfADeadSessionsOperations(t *testing.T) {
	for _, damaged := range []string{"onceward_rows_held", "onceward_flows_running", ""} {
		path := filepath.Join(t.TempDir(), "journal.db")
		j := open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), begin("invoice-1", s))
		require.NoError(t, err)
		recordStep(t, j, beginFlow(t, j, s, "order-991"), 1, "create")
		sqlite.Kill(s)
		require.NoError(t, j.Close())
		if damaged != "" {
			size, roots := pagesOf(t, path)
			require.Positive(t, roots[damaged])
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(make([]byte, size), int64((roots[damaged]-1)*size))
			require.NoError(t, errors.Join(err, f.Close()))
		}

		j = open(t, path)
		s, err = j.Join(t.Context())
		require.NoError(t, err)
		results, err := j.Claim(t.Context(), claim(s), 10)
		if damaged == "onceward_rows_held" {
			require.ErrorContains(t, err, "damaged")
		} else {
			require.NoError(t, err)
			assert.Len(t, results, 1)
		}
		flows, err := claimFlows(t, j, s)
		if damaged == "onceward_flows_running" {
			require.ErrorContains(t, err, "damaged")
		} else {
			require.NoError(t, err)
			assert.Equal(t, []string{"order-991"}, flows)
		}
	}
}
