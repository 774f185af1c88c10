package sqlite_test

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Large bodies come back unchanged, however they are stored.
func TestLargeBodiesComeBack(t *testing.T) {
	repeats := bytes.Repeat([]byte(`{"id":"ch_1","amount":100}`), 10_000)
	random := make([]byte, 100_000)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	bodies := map[string][]byte{"repeats": repeats, "random": random, "small": []byte("ok"), "empty": {}, "none": nil}
	check := func(op journal.Operation, where string) {
		t.Helper()
		want := bodies[op.ID]
		assert.True(t, bytes.Equal(want, op.Request.Body) && (want == nil) == (op.Request.Body == nil), "%s of %s", where, op.ID)
		if op.Answer != nil {
			assert.True(t, bytes.Equal(want, op.Answer.Body) && (want == nil) == (op.Answer.Body == nil), "%s of %s", where, op.ID)
		}
	}
	for id, body := range bodies {
		ev := begin(id, s)
		ev.Intent.Request.Body = body
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		check(begun.Operation, "the begin")
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Open = machine.EventPark, nil, true
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	claimed, err := j.Claim(t.Context(), claim(s), 10)
	require.NoError(t, err)
	require.Len(t, claimed, len(bodies))
	for _, result := range claimed {
		check(result.Operation, "the claim")
		done := complete(result.Operation, s)
		done.Answer.Body = bodies[result.Operation.ID]
		_, err := j.Apply(t.Context(), done)
		require.NoError(t, err)
		replayed, err := j.Apply(t.Context(), begin(result.Operation.ID, s))
		require.NoError(t, err)
		require.Equal(t, machine.Replay, replayed.Decision)
		check(replayed.Operation, "the replay")
	}
	got := func(where string) {
		for id := range bodies {
			op, err := j.Get(t.Context(), journal.Ref{ID: id})
			require.NoError(t, err)
			check(op, where)
		}
	}
	got("written")
	require.Empty(t, verify(t, j))
	require.NoError(t, j.Close())
	stored := one[int](t, anotherProcess(t, path), "SELECT sum(length(body)) FROM onceward_answers")
	assert.Less(t, stored, len(random)+len(repeats)/2)
	j = open(t, path)
	got("opened again")
}
