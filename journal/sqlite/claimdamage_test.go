package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// A damaged body does not prevent the claim of other operations.
func TestClaimBesideADamagedBody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c"} {
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Unsent = machine.EventPark, nil, true
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_requests SET body = x'00' WHERE handle = (SELECT handle FROM onceward_rows WHERE instr(record, CAST('key-of-b' AS BLOB)) > 0)")
	j = open(t, path)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	ev := claim(s)
	ev.At = ev.At.Add(time.Hour)
	results, err := j.Claim(t.Context(), ev, 10)
	require.NoError(t, err, "the sound ones are their asker's")
	require.Len(t, results, 2)
	assert.Equal(t, []string{"a", "c"}, []string{results[0].Operation.ID, results[1].Operation.ID})
	_, err = j.Claim(t.Context(), ev, 10)
	require.ErrorContains(t, err, "operation 2")
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, op.ID == "b", op.State == journal.StatePending, "it is nobody's: %s", op.ID)
	}
}

// A flow is not claimed if it, or one of its steps, can't be read. It does not prevent the claim of others.
func TestClaimBesideADamagedFlow(t *testing.T) {
	for name, damage := range map[string]string{
		"its input": "UPDATE onceward_flows SET input = x'00' WHERE id = 'b'",
		"its step":  "UPDATE onceward_steps SET result = x'00' WHERE flow = 2",
	} {
		t.Run(name, func(t *testing.T) { aDamagedFlowStrandsNone(t, damage) })
	}
}

func aDamagedFlowStrandsNone(t *testing.T, damage string) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c"} {
		recordStep(t, j, beginFlow(t, j, s, id), 1, "create")
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, damage)
	j = open(t, path)
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	taken, err := claimFlows(t, j, s)
	require.NoError(t, err, "the sound ones are their asker's")
	assert.Equal(t, []string{"a", "c"}, taken)
	_, err = claimFlows(t, j, s)
	require.ErrorContains(t, err, "flow 2")
	var held string
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(),
		"SELECT group_concat(id, ' ' ORDER BY id) FROM onceward_flows WHERE holder = ?", s.ID()).Scan(&held))
	assert.Equal(t, "a c", held, "the damaged one is nobody's")
}

// An outcome with an unreadable answer is not delivered, and does not block others.
func TestClaimBesideADamagedAnswer(t *testing.T) {
	for _, damage := range []string{"body = CAST('not what was paid' AS BLOB)", "body = NULL", "head = (SELECT head FROM onceward_answers WHERE handle = 1)"} {
		path, j, s := joined(t)
		for _, id := range []string{"a", "b", "c"} {
			begun, err := j.Apply(t.Context(), begin(id, s))
			require.NoError(t, err)
			done := complete(begun.Operation, s)
			done.Delivered = false
			_, err = j.Apply(t.Context(), done)
			require.NoError(t, err)
		}
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close())
		alter(t, path, "UPDATE onceward_answers SET "+damage+" WHERE handle = 2")
		j = open(t, path)
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 3}, claimed(t, j, claim(s), 10), damage)
		_, err = j.Claim(t.Context(), claim(s), 10)
		require.ErrorContains(t, err, "operation 2", damage)
		assert.Zero(t, one[int](t, anotherProcess(t, path), "SELECT count(*) FROM onceward_rows WHERE handle = 2 AND holder = '"+s.ID()+"'"), "it is nobody's")
	}
}

// claimed claims up to limit operations, and returns their handles.
func claimed(t *testing.T, j *sqlite.Journal, ev machine.Event, limit int) (handles []int64) {
	t.Helper()
	results, err := j.Claim(t.Context(), ev, limit)
	require.NoError(t, err)
	for _, r := range results {
		handles = append(handles, r.Operation.Handle)
	}
	return handles
}
