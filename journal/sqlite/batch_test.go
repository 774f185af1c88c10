package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// A replay is an error if the operation's request or answer is not the one that was stored with it.
func TestReplayNeedsItsOwnAnswer(t *testing.T) {
	for name, damage := range map[string]string{
		"another's answer":       "UPDATE onceward_answers SET (head, body) = (SELECT head, body FROM onceward_answers WHERE handle = 2) WHERE handle = 1",
		"an answer without body": "UPDATE onceward_answers SET body = NULL WHERE handle = 1",
		"another's request body": "UPDATE onceward_requests SET body = (SELECT body FROM onceward_requests WHERE handle = 2) WHERE handle = 1",
		"a request without body": "UPDATE onceward_requests SET body = NULL WHERE handle = 1",
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
			result, err := j.Apply(t.Context(), begin("invoice-1", s))
			require.NoError(t, err)
			require.Equal(t, machine.Replay, result.Decision)
			alter(t, path, damage)
			_, err = j.Apply(t.Context(), begin("invoice-1", s))
			require.ErrorContains(t, err, "damaged")
			assert.ErrorContains(t, err, "journal "+path)
			assert.ErrorContains(t, err, "restore a backup")
		})
	}
}

// If a person resolves an operation with an answer, the answer belongs to the generation that was sent.
func TestResolvedAnswerHasItsGeneration(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	doubt := complete(begun.Operation, s)
	doubt.Kind, doubt.Answer, doubt.Open, doubt.Delivered = machine.EventMarkUnknown, nil, true, false
	_, err = j.Apply(t.Context(), doubt)
	require.NoError(t, err)
	result, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventResolve, Ref: doubt.Ref, At: time.Now(),
		Resolution: journal.Executed, Claim: begun.Operation.Claim, Answer: &journal.Answer{Status: 201, Body: []byte("paid")}})
	require.NoError(t, err)
	op, err := j.Get(t.Context(), doubt.Ref)
	require.NoError(t, err)
	assert.Equal(t, result.Operation.Answer, op.Answer)
	assert.Equal(t, begun.Operation.Generation, op.Answer.Generation)
}
