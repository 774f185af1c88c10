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
	doubt.Kind, doubt.Answer, doubt.Open, doubt.Delivered = machine.EventDoubt, nil, true, false
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

// A cancelled operation begins again with its original key. Neither unused names nor its own second name prevent that.
func TestBeginAgainWithItsOwnKey(t *testing.T) {
	_, j, s := joined(t)
	ev := begin("invoice-1", s)
	ev.Intent.KeyCarried, ev.Intent.Alias, ev.Intent.FormerAliases = true, aliasOf("invoice-1"), []journal.Ref{aliasOf("nobody's")}
	for range 3 {
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		require.Equal(t, machine.Execute, result.Decision)
		cancel := complete(result.Operation, s)
		cancel.Kind, cancel.Answer, cancel.Unsent = machine.EventCancel, nil, true
		_, err = j.Apply(t.Context(), cancel)
		require.NoError(t, err)
	}
}

// With the decision Later a caller gets the operation as it is recorded.
func TestLaterDecisionIsAsRecorded(t *testing.T) {
	_, j, s := joined(t)
	ev := begin("invoice-1", s)
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	park := complete(begun.Operation, s)
	park.Kind, park.Answer, park.Due = machine.EventPark, nil, park.At.Add(time.Hour)
	_, err = j.Apply(t.Context(), park)
	require.NoError(t, err)
	ev.At = park.At.Add(time.Minute)
	result, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	require.Equal(t, machine.Later, result.Decision)
	op, err := j.Get(t.Context(), ev.Ref)
	require.NoError(t, err)
	assert.Equal(t, op.UpdatedAt, result.Operation.UpdatedAt)
}

// An event for an operation in a block, by its handle, is recorded like any other event.
func TestSecondEffectOfAnOperationInABlock(t *testing.T) {
	_, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	doubt := complete(begun.Operation, s)
	doubt.Kind, doubt.Answer, doubt.Open = machine.EventDoubt, nil, true
	_, err = j.Apply(t.Context(), doubt)
	require.NoError(t, err)
	_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventResolve, Ref: doubt.Ref, At: time.Now(),
		Resolution: journal.SendAgain, Key: "the next key", Claim: begun.Operation.Claim})
	require.NoError(t, err)
	taken, err := j.Claim(t.Context(), claim(s), 1)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	_, err = j.Apply(t.Context(), complete(taken[0].Operation, s))
	require.NoError(t, err)

	late := complete(begun.Operation, s)
	late.Answer = &journal.Answer{Status: 200, Body: []byte("late")}
	result, err := j.Apply(t.Context(), late)
	require.NoError(t, err)
	require.Equal(t, machine.SecondEffect, result.Decision)
	op, err := j.Get(t.Context(), doubt.Ref)
	require.NoError(t, err)
	assert.Equal(t, 1, op.SecondEffects)
	assert.Equal(t, "paid invoice-1", string(op.Answer.Body))
	assert.Empty(t, verify(t, j))
}
