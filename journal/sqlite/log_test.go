package sqlite_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// others completes that many operations that earlier ones are no longer in the log.
func others(t *testing.T, j *sqlite.Journal, s journal.Session, name string) {
	t.Helper()
	sideBySide(1000, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint(name, "-", i), s))
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
}

// An operation is found, and goes on, wherever it is stored.
func TestOperationIsFoundWhereverItIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	apply := func(ev journal.Event, want journal.Decision) journal.Operation {
		t.Helper()
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, want.String(), result.Decision.String())
		return result.Operation
	}
	release := func(op journal.Operation, kind journal.EventKind) journal.Event {
		ev := complete(op, s)
		ev.Kind, ev.Answer, ev.Open, ev.Due = kind, nil, true, time.Now().Add(time.Hour)
		return ev
	}
	scoped := begin("completed", s)
	scoped.Ref.Scope = "tenant"
	kept := map[string]journal.Operation{}
	kept["completed in a scope"] = apply(complete(apply(scoped, journal.Execute), s), journal.Recorded)
	kept["completed"] = apply(complete(apply(begin("completed", s), journal.Execute), s), journal.Recorded)
	kept["generated"] = apply(complete(apply(generate("generated", s), journal.Execute), s), journal.Recorded)
	kept["in flight"] = apply(begin("in flight", s), journal.Execute)
	kept["pending"] = apply(release(apply(begin("pending", s), journal.Execute), journal.EventPark), journal.Recorded)
	kept["unknown"] = apply(release(apply(generate("unknown", s), journal.Execute), journal.EventDoubt), journal.Recorded)
	again := apply(release(apply(begin("sent again", s), journal.Execute), journal.EventDoubt), journal.Recorded)
	again = apply(journal.Event{Kind: journal.EventResolve, Ref: again.Ref, At: time.Now(), Session: s.ID(),
		Resolution: journal.SendAgain, Key: "the next key", Generation: again.Generation, Claim: again.Claim}, journal.Recorded)
	again = apply(journal.Event{Kind: journal.EventClaim, Ref: again.Ref, At: time.Now(), Session: s.ID()}, journal.Execute)
	kept["sent again"] = apply(complete(again, s), journal.Recorded)

	found := func(where string) {
		t.Helper()
		for name, want := range kept {
			op, err := j.Get(t.Context(), want.Ref)
			require.NoError(t, err, "%s, %s", name, where)
			assert.Equal(t, want.State, op.State, "%s, %s", name, where)
			assert.Equal(t, want.Handle, op.Handle, "%s, %s", name, where)
			assert.Equal(t, []byte(op.ID), op.Request.Body, "%s, %s", name, where)
			if op.State == journal.StateCompleted {
				require.NotNil(t, op.Answer, "%s, %s", name, where)
				assert.Equal(t, "paid "+op.ID, string(op.Answer.Body), "%s, %s", name, where)
			}
		}
		replayed := apply(begin("completed", s), journal.Replay)
		assert.Equal(t, "paid completed", string(replayed.Answer.Body), where)
		assert.Equal(t, "completed", string(replayed.Request.Body), where)
	}
	found("in the log")
	others(t, j, s, "a")
	found("elsewhere")

	late := complete(again, s)
	late.Claim, late.Generation, late.Answer = 1, 0, &journal.Answer{Status: 200, Body: []byte("late")}
	apply(late, journal.SecondEffect)
	apply(late, journal.SecondEffect)
	again, err = j.Get(t.Context(), again.Ref)
	require.NoError(t, err)
	assert.Equal(t, 2, again.SecondEffects)
	found("after one was changed")
	kept["in flight"] = apply(complete(kept["in flight"], s), journal.Recorded)
	others(t, j, s, "b")
	found("after one was completed late")

	require.NoError(t, j.Close())
	j = open(t, path)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	found("opened again")
	for _, i := range []int{0, 1, 499, 998, 999} {
		op, err := j.Get(t.Context(), journal.Ref{ID: fmt.Sprint("b-", i)})
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State)
	}
	_, err = j.Get(t.Context(), journal.Ref{ID: "completed", Parent: "tenant"})
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// A list is in order wherever its operations are stored.
func TestListIsInOrderWhereverKept(t *testing.T) {
	t.Parallel()
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	rare := begin("rare", s)
	rare.Intent.Provider = "rare"
	begun, err := j.Apply(t.Context(), rare)
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	sideBySide(3000, func(i int) {
		begun, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", i), s))
		if assert.NoError(t, err) && i%7 != 0 {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
	rare.Ref.ID = "rare too"
	_, err = j.Apply(t.Context(), rare)
	require.NoError(t, err)

	list := func(f journal.Filter) (ops []journal.Operation) {
		for op, err := range j.List(t.Context(), f) {
			require.NoError(t, err)
			ops = append(ops, op)
		}
		return ops
	}
	all := list(journal.Filter{})
	require.Len(t, all, 3002)
	for i, op := range all {
		require.Equal(t, int64(i+1), op.Handle)
	}
	assert.Equal(t, all[:777], list(journal.Filter{Limit: 777}))
	assert.Len(t, list(journal.Filter{States: []journal.State{journal.StateInFlight}}), 3000/7+2)
	assert.Len(t, list(journal.Filter{States: []journal.State{journal.StateCompleted}}), 3002-3000/7-2)
	found := list(journal.Filter{Provider: "rare"})
	require.Len(t, found, 2)
	assert.Equal(t, []string{"rare", "rare too"}, []string{found[0].ID, found[1].ID})
}

// A look-up by name waits for no writer once the hashes are loaded.
func TestNameLookupDoesNotWaitForWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	others(t, j, s, "a")
	others(t, j, s, "b")
	require.NoError(t, j.Close())
	j = open(t, path)
	sqlite.Preloaded(j)
	_, err = anotherProcess(t, path).ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	for _, id := range []string{"a-0", "a-999", "b-0", "b-999"} {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State)
	}
	_, err = j.Get(t.Context(), journal.Ref{ID: "c-0"})
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// A list needs no writer, and has the operations of the log in its order.
func TestListNeedsNoWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	now := time.Now().Truncate(time.Millisecond)
	park := func(from, to int) {
		sideBySide(to-from, func(i int) {
			begun, err := j.Apply(t.Context(), begin(fmt.Sprint("pending-", from+i), s))
			assert.NoError(t, err)
			ev := complete(begun.Operation, s)
			ev.Kind, ev.Answer, ev.Unsent = journal.EventPark, nil, true
			ev.Due = now.Add(time.Hour + time.Duration((from+i)*7919%1000)*time.Second)
			_, err = j.Apply(t.Context(), ev)
			assert.NoError(t, err)
		})
	}
	park(0, 500)
	require.NoError(t, sqlite.Fold(j))
	park(500, 800)
	begun, err := j.Apply(t.Context(), begin("undelivered", s))
	require.NoError(t, err)
	undelivered := complete(begun.Operation, s)
	undelivered.Delivered = false
	_, err = j.Apply(t.Context(), undelivered)
	require.NoError(t, err)

	other := anotherProcess(t, path)
	_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	list := func(f journal.Filter) (ops []journal.Operation) {
		for op, err := range j.List(t.Context(), f) {
			require.NoError(t, err)
			ops = append(ops, op)
		}
		return ops
	}
	byWake := list(journal.Filter{ByWake: true})
	require.Len(t, byWake, 800)
	assert.True(t, slices.IsSortedFunc(byWake, func(a, b journal.Operation) int {
		return cmp.Or(a.WakeAt.Compare(b.WakeAt), cmp.Compare(a.Handle, b.Handle))
	}))
	assert.Equal(t, byWake[:333], list(journal.Filter{ByWake: true, Limit: 333}))
	early := list(journal.Filter{WakeBefore: byWake[80].WakeAt})
	assert.Len(t, early, 80)
	assert.True(t, slices.IsSortedFunc(early, func(a, b journal.Operation) int { return cmp.Compare(a.Handle, b.Handle) }))
	found := list(journal.Filter{Undelivered: true})
	require.Len(t, found, 1)
	assert.Equal(t, "undelivered", found[0].ID)
	assert.Equal(t, 201, found[0].Answer.Status)
	assert.Nil(t, found[0].Answer.Body)
	all := list(journal.Filter{})
	require.Len(t, all, 801)
	for i, op := range all {
		require.Equal(t, int64(i+1), op.Handle)
	}
	assert.Empty(t, list(journal.Filter{States: []journal.State{journal.StateInFlight}}))
	_, err = other.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)

}

// A log is damaged if it claims operations that it lacks, or claims that the ones it needs are elsewhere, even if its
// rows are sealed.
func TestLogThatContradictsItself(t *testing.T) {
	path, j, s := joined(t)
	begins := func(ids ...string) {
		for _, id := range ids {
			_, err := j.Apply(t.Context(), begin(id, s))
			require.NoError(t, err)
		}
	}
	begins("a", "b")
	require.NoError(t, sqlite.Fold(j))
	begins("c")
	op, err := j.Get(t.Context(), journal.Ref{ID: "c"})
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), complete(op, s))
	require.NoError(t, err)
	begins("d")
	for name, row := range map[string]struct {
		newest, folded string
		damaged        bool
	}{
		"as it was":                        {"newest", "folded", false},
		"all of it is folded":              {"newest", "newest", false},
		"one more was begun":               {"newest + 1", "folded", true},
		"two more were begun":              {"newest + 2", "folded", true},
		"more is folded than begun":        {"newest", "newest + 1", true},
		"one less is folded":               {"newest", "folded - 1", true},
		"operations that were never begun": {"newest - 3", "folded", true},
		"one more, and all are folded":     {"newest + 1", "newest", true},
	} {
		t.Run(name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "journal.db")
			copyAll(t, path, copied)
			alter(t, copied, fmt.Sprintf(`UPDATE onceward_log SET newest = %[1]s, folded = %[2]s,
				records = sealed_log(records, seq, last_at, jumped_at, least_margin, %[1]s, %[2]s, number)
				WHERE seq = (SELECT max(seq) FROM onceward_log)`, row.newest, row.folded))
			j, err := sqlite.Open(copied, sqlite.Options{})
			if err == nil {
				defer j.Close()
				_, err = j.Join(t.Context())
			}
			if row.damaged {
				require.ErrorContains(t, err, "damaged")
			} else {
				require.NoError(t, err)
			}
		})
	}
	t.Run("a row is missing", func(t *testing.T) {
		copied := filepath.Join(t.TempDir(), "journal.db")
		copyAll(t, path, copied)
		alter(t, copied, "DELETE FROM onceward_log WHERE seq = (SELECT max(seq) - 1 FROM onceward_log)") // how c ended
		_, err := sqlite.Open(copied, sqlite.Options{})
		require.ErrorContains(t, err, "damaged")
	})
}
