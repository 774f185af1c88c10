package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// What is told of an operation is not told with a request or an answer that is not the one it was stored with.
func TestReplayOfWhatIsNotItsOwn(t *testing.T) {
	for name, damage := range map[string]string{
		"another's answer":       "UPDATE onceward_answers SET (answer, body) = (SELECT answer, body FROM onceward_answers WHERE handle = 2) WHERE handle = 1",
		"an answer without body": "UPDATE onceward_answers SET body = NULL WHERE handle = 1",
		"another's request body": "UPDATE onceward_operations SET request_body = (SELECT request_body FROM onceward_operations WHERE handle = 2) WHERE handle = 1",
		"a request without body": "UPDATE onceward_operations SET request_body = NULL WHERE handle = 1",
	} {
		t.Run(name, func(t *testing.T) {
			path, j, s := joined(t)
			for _, id := range []string{"invoice-1", "invoice-2"} {
				begun, err := j.Apply(t.Context(), begin(id, s))
				require.NoError(t, err)
				ev := complete(begun.Operation, s)
				ev.Delivered = false // so that it has a row
				_, err = j.Apply(t.Context(), ev)
				require.NoError(t, err)
			}
			require.NoError(t, sqlite.Fold(j))
			result, err := j.Apply(t.Context(), begin("invoice-1", s))
			require.NoError(t, err)
			require.Equal(t, journal.Replay, result.Decision)
			alter(t, path, damage)
			_, err = j.Apply(t.Context(), begin("invoice-1", s))
			require.ErrorContains(t, err, "damaged")
			assert.ErrorContains(t, err, "journal "+path)
			assert.ErrorContains(t, err, "restore a backup")
		})
	}
}

// The answer that somebody resolves an operation with is of the generation that was sent.
func TestResolvedAnswerHasItsGeneration(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	doubt := complete(begun.Operation, s)
	doubt.Kind, doubt.Answer, doubt.Open, doubt.Delivered = journal.EventDoubt, nil, true, false
	_, err = j.Apply(t.Context(), doubt)
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventResolve, Ref: doubt.Ref, At: time.Now(),
		Resolution: journal.Executed, Claim: begun.Operation.Claim, Answer: &journal.Answer{Status: 201, Body: []byte("paid")}})
	require.NoError(t, err)
	op, err := j.Get(t.Context(), doubt.Ref)
	require.NoError(t, err)
	assert.Equal(t, result.Operation.Answer, op.Answer)
	assert.Equal(t, begun.Operation.Generation, op.Answer.Generation)
}
