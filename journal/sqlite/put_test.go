//go:build unix

package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite"
)

// cancelled begins an operation and cancels it unsent.
func cancelled(t *testing.T, j *sqlite.Journal, ev journal.Event, s journal.Session) journal.Operation {
	t.Helper()
	begun, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	end := complete(begun.Operation, s)
	end.Kind, end.Answer, end.Unsent = journal.EventCancel, nil, true
	ended, err := j.Apply(t.Context(), end)
	require.NoError(t, err)
	return ended.Operation
}

// An event by a handle finds the latest state of the row.
func TestPutInARowIsFoundByItsHandle(t *testing.T) {
	_, j, s := joined(t)
	cancelled(t, j, begin("invoice-1", s), s)
	require.NoError(t, sqlite.Fold(j))
	again, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	require.Equal(t, journal.Execute, again.Decision)
	done := complete(again.Operation, s)
	done.Delivered = false
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	done.Answer = &journal.Answer{Status: 201, Body: []byte("another")}
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	op, err := j.Get(t.Context(), again.Operation.Ref)
	require.NoError(t, err)
	assert.Equal(t, "paid invoice-1", string(op.Answer.Body), "the first answer stays")
}

// If an operation was begun again with a window, that window counts, wherever the operation is stored.
func TestPutOfOneThatHasAWindowNow(t *testing.T) {
	for where, folded := range map[string]bool{"in the log": false, "in a row": true} {
		t.Run(where, func(t *testing.T) {
			_, j, s := joined(t)
			ev := begin("invoice-1", s)
			ev.Intent.Terms.Retention, ev.Intent.Fingerprint = 0, "v1:another"
			cancelled(t, j, ev, s)
			if folded {
				require.NoError(t, sqlite.Fold(j))
			}
			again, err := j.Apply(t.Context(), begin("invoice-1", s))
			require.NoError(t, err)
			require.Equal(t, journal.Execute, again.Decision)
			require.Positive(t, again.Operation.Terms.Window())
			assert.Empty(t, verify(t, j))
		})
	}
}

// Bytes that go to rows count in a commit's limit too. Later events go into the next commit.
func TestPutOfMuchInRows(t *testing.T) {
	t.Parallel()
	sizes := []int{33 << 20, 1} // the first is over the limit
	for what, answers := range map[string]bool{"answers": true, "requests": false} {
		t.Run(what, func(t *testing.T) {
			_, j, s := joined(t)
			var evs []journal.Event
			for n, size := range sizes {
				body := noise(size)
				ev := begin(fmt.Sprint("invoice-", n), s)
				if answers {
					begun, err := j.Apply(t.Context(), ev)
					require.NoError(t, err)
					ev = complete(begun.Operation, s)
					ev.Answer.Body = body
				} else {
					cancelled(t, j, ev, s)
					ev.Intent.Request.Body = body
				}
				evs = append(evs, ev)
			}
			require.NoError(t, sqlite.Fold(j))
			before := commitsOf(t, j)
			release := sqlite.Hold(j)
			var done []chan error
			for n, ev := range evs {
				done = append(done, queued(t, j, n, func() error { _, err := j.Apply(t.Context(), ev); return err }))
			}
			release()
			for _, err := range done {
				require.NoError(t, <-err)
			}
			assert.EqualValues(t, 2, commitsOf(t, j)-before)
		})
	}
}

// A tombstone keeps nothing of its answer, not even a sum.
func TestPutOfATombstone(t *testing.T) {
	for where, row := range map[string]struct{ folded, twice bool }{
		"from the log":                        {false, false},
		"from a row":                          {true, false},
		"from the log, after a second effect": {false, true},
	} {
		t.Run(where, func(t *testing.T) {
			path, j, s := joined(t)
			begun, err := j.Apply(t.Context(), begin("invoice-1", s))
			require.NoError(t, err)
			if row.folded {
				require.NoError(t, sqlite.Fold(j))
			}
			done := complete(begun.Operation, s)
			done.Object = "ch_1"
			ended, err := j.Apply(t.Context(), done)
			require.NoError(t, err)
			if row.twice {
				heard, err := j.Apply(t.Context(), tookEffect(ended.Operation, "ch_2"))
				require.NoError(t, err)
				require.NotEmpty(t, heard.Operation.Attention)
				_, err = j.Apply(t.Context(), journal.Event{Kind: journal.EventDeliver, Ref: begun.Operation.Ref, At: done.At, Outcome: journal.StateCompleted, Attention: heard.Operation.Attention})
				require.NoError(t, err)
			}
			at := begun.Last.Add(2 * journal.EvidenceKeep)
			seenAt(t, j, at)
			at = at.Add(journal.Confirmation)
			seenAt(t, j, at)
			reaped, err := j.Apply(t.Context(), journal.Event{Kind: journal.EventReap, Ref: begun.Operation.Ref, At: at})
			require.NoError(t, err)
			require.True(t, reaped.Operation.Tombstone)
			op, err := j.Get(t.Context(), begun.Operation.Ref)
			require.NoError(t, err)
			assert.True(t, op.Tombstone)
			require.NoError(t, sqlite.Fold(j))
			rows := rowsIn(t, path, format.Columns, "onceward_operations")
			require.Len(t, rows, 1)
			row, err := format.ReadRow(rows[0])
			require.NoError(t, err)
			require.True(t, row.Op.Tombstone)
			assert.Empty(t, row.Request)
			assert.Zero(t, row.AnswerSum)
			assert.Empty(t, rowsIn(t, path, "handle", "onceward_answers"))
			assert.Empty(t, verify(t, j))
		})
	}
}
