package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// verify returns the findings of Verify in a sound or broken journal.
func verify(t *testing.T, j *sqlite.Journal) (says []string) {
	t.Helper()
	found, err := j.Verify(t.Context())
	require.NoError(t, err)
	for _, v := range found {
		says = append(says, v.String())
	}
	return says
}

const manyOthers = 400

// others completes some hundred operations, so that earlier ones are in other pages.
func others(t *testing.T, j *sqlite.Journal, s machine.Session, name string) {
	t.Helper()
	sideBySide(manyOthers, func(i int) {
		begun, err := j.Apply(t.Context(), generate(fmt.Sprint(name, "-", i), s))
		if assert.NoError(t, err) {
			_, err = j.Apply(t.Context(), complete(begun.Operation, s))
			assert.NoError(t, err)
		}
	})
}

// everything leaves a closed journal with operations in all states, a tombstone and a flow.
func everything(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	old := time.Now().Add(-1000 * time.Hour)
	apply := func(ev machine.Event) journal.Operation {
		t.Helper()
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return result.Operation
	}
	at := func(ev machine.Event) machine.Event { ev.At = old; return ev }
	release := func(op journal.Operation, kind machine.EventKind) machine.Event {
		ev := complete(op, s)
		ev.Kind, ev.Answer, ev.At = kind, nil, old
		ev.Unsent, ev.Open = kind != machine.EventMarkUnknown, kind == machine.EventMarkUnknown
		return ev
	}
	apply(at(complete(apply(at(begin("tombstone", s))), s)))
	apply(release(apply(at(begin("pending", s))), machine.EventPark))
	apply(release(apply(at(begin("unknown", s))), machine.EventMarkUnknown))
	apply(at(begin("in flight", s)))
	undelivered := complete(apply(at(begin("undelivered", s))), s)
	undelivered.Delivered = false
	apply(at(undelivered))
	seenAt(t, j, time.Now().Add(-machine.Confirmation)) // so that now is no jump
	n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now()}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	apply(release(apply(at(begin("cancelled", s))), machine.EventCancel))
	others(t, j, s, "generated")
	require.Empty(t, verify(t, j), "in use")

	flow, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "flow"}, At: time.Now(), Session: s.ID(),
		Function: journal.FlowFunction{Name: "f"}, InputDigest: "d"})
	require.NoError(t, err)
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Handle: flow.Flow.Handle, At: time.Now(), Claim: 1,
		Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "charge", At: time.Now()}}})
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.Empty(t, verify(t, j), "at its end")
	require.NoError(t, j.Close())
	j = open(t, path)
	require.Empty(t, verify(t, j), "opened again")
	require.NoError(t, j.Close())
	return path
}

// within has f write in a transaction, and commits it.
func within(t *testing.T, j *sqlite.Journal, f func(tx journal.Tx)) {
	t.Helper()
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	f(tx)
	require.NoError(t, tx.Commit(t.Context()))
}

// saysThat asserts that each wanted text is part of a finding, and that there are no other findings.
func saysThat(t *testing.T, says, want []string) {
	t.Helper()
	for _, want := range want {
		assert.True(t, slices.ContainsFunc(says, func(says string) bool { return strings.Contains(says, want) }), "it does not say that %s", want)
	}
	besides := slices.DeleteFunc(says, func(says string) bool {
		return slices.ContainsFunc(want, func(want string) bool { return strings.Contains(says, want) })
	})
	assert.Empty(t, besides[:min(len(besides), 3)], "besides")
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		require.NoError(t, t.Context().Err())
		runtime.Gosched()
	}
}
