package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// During a rollout, pods of this release write operations in which the next release has recorded more fields: in a
// batch, alone, and in a reap. Those fields survive.
func TestOlderPodKeepsNewerFields(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	require.NoError(t, postgres.MigrateBy(t.Context(), server.URL(), opts.Schema, later(t, map[string]string{
		"9001_expand.sql": "ALTER TABLE {{schema}}.operations ADD COLUMN hint int NOT NULL DEFAULT 7; UPDATE {{schema}}.journal SET schema_version = 9001;"})))
	s := join(t, j)
	newer := []byte{0x80, 0x08, 2, 'o', 'n'} // tag 1024
	ref := journal.Ref{ID: "order"}
	apply := func(ev machine.Event) machine.Result {
		t.Helper()
		ev.Ref, ev.At, ev.Session = ref, time.Now(), s.ID()
		r, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		op, err := j.Get(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, newer, op.Newer, "after %v", ev.Kind)
		return r
	}
	begun, err := j.Apply(t.Context(), begin(ref.ID, s))
	require.NoError(t, err)
	require.NoError(t, postgres.Change(t.Context(), j, ref, func(op *journal.Operation) { op.Newer = newer }))
	of := func(kind machine.EventKind) machine.Event {
		return machine.Event{Kind: kind, Handle: begun.Operation.Handle, Claim: begun.Operation.Claim}
	}
	require.Equal(t, machine.Recorded, apply(of(machine.EventPark)).Decision)
	claimed, err := j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now().Add(time.Second), Session: s.ID()}, 1)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	begun = claimed[0]
	assert.Equal(t, newer, begun.Operation.Newer)
	done := complete(begun.Operation, s)
	done.Delivered = false
	require.Equal(t, machine.Recorded, apply(done).Decision)
	deliver := machine.Event{Kind: machine.EventDeliver, Handle: begun.Operation.Handle, Generation: begun.Operation.Generation, Outcome: journal.StateCompleted}
	require.Equal(t, machine.Recorded, apply(deliver).Decision)
	reaped, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now().Add(time.Minute), Keep: time.Millisecond}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, reaped)
	op, err := j.Get(t.Context(), ref)
	require.NoError(t, err)
	require.True(t, op.Tombstone)
	assert.Equal(t, newer, op.Newer, "of a tombstone")
	assert.Equal(t, "7", setting(t, server.Conn(t), `SELECT hint::text FROM "`+opts.Schema+`".operations`), "and so is the column that this one doesn't know")
	violations, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, violations)
}
