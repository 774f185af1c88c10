package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
)

func TestADamagedBodyStrandsNothingThatIsClaimedWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c"} {
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Unsent = journal.EventPark, nil, true
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_operations SET request_body = x'00' WHERE id = 'b'")
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
	require.ErrorContains(t, err, "operation 2, which is passed over")
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, op.ID == "b", op.State == journal.Pending, "it is nobody's: %s", op.ID)
	}
}
