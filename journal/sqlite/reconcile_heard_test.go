//go:build unix

package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

func TestWebhookInARestoredJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	require.NoError(t, os.Remove(path+"-sidecar"))
	j := open(t, path)
	_, _, err := j.Hear(t.Context(), journal.Heard{Provider: "ledger", ID: "evt_1"}, nil)
	require.ErrorIs(t, err, journal.ErrRestored)
}

// If an event may name an unreadable operation, it is an error, and a repeat of the event can be heard later.
func TestWebhookOfADamagedOperation(t *testing.T) {
	for name, damage := range map[string]string{
		"its facts":   "UPDATE onceward_operations SET facts = zeroblob(length(facts))",
		"its request": "UPDATE onceward_operations SET request = zeroblob(length(request))",
	} {
		t.Run(name, func(t *testing.T) {
			path, j, s := joined(t)
			op, err := doubt(t.Context(), j, "invoice-1", s)
			require.NoError(t, err)
			require.NoError(t, s.End(t.Context()))
			require.NoError(t, j.Close())
			alter(t, path, damage)
			j = open(t, path)
			ev := tookEffect(op, "charge ch_1")
			if name == "its request" {
				ev.Answer = nil
			}
			for range 2 {
				_, _, err = j.Hear(t.Context(), journal.Heard{Provider: "ledger", ID: "evt_1"}, []journal.Event{ev})
				require.ErrorContains(t, err, "damaged")
			}
		})
	}
}

// A refused event does not fail other events in its commit.
func TestWebhookRefusedBesideABegin(t *testing.T) {
	_, j, s := joined(t)
	op, err := doubt(t.Context(), j, "invoice-1", s)
	require.NoError(t, err)
	refused := tookEffect(op, "charge ch_1")
	refused.Claim = op.Claim + 1
	release := sqlite.Hold(j)
	begun := queued(t, j, 0, func() error {
		_, err := j.Apply(t.Context(), begin("invoice-2", s))
		return err
	})
	heard := queued(t, j, 1, func() error {
		_, _, err := j.Hear(t.Context(), journal.Heard{Provider: "ledger", ID: "evt_1"}, []journal.Event{tookEffect(op, "charge ch_1"), refused})
		return err
	})
	release()
	require.NoError(t, <-begun)
	var is *journal.EventError
	require.ErrorAs(t, <-heard, &is)
	again, err := j.Get(t.Context(), op.Ref)
	require.NoError(t, err)
	assert.Equal(t, journal.StateUnknown, again.State, "the other of the event's was not recorded either")
	_, first, err := j.Hear(t.Context(), journal.Heard{Provider: "ledger", ID: "evt_1"}, []journal.Event{tookEffect(op, "charge ch_1")})
	require.NoError(t, err)
	assert.True(t, first)
}

// All events that were heard too long ago are forgotten, however many there are.
func TestHeardLongAgoIsForgotten(t *testing.T) {
	path, j, s := joined(t)
	_, err := doubt(t.Context(), j, "invoice-1", s)
	require.NoError(t, err)
	hint := journal.Event{Kind: journal.EventHint, Ref: journal.Ref{ID: "invoice-1"}, At: time.Now()}
	sideBySide(2100, func(i int) {
		_, _, err := j.Hear(t.Context(), journal.Heard{Provider: "ledger", ID: fmt.Sprint("evt_", i)}, []journal.Event{hint})
		assert.NoError(t, err)
	})
	require.Len(t, rowsIn(t, path, "at", "onceward_heard"), 2100)
	at := time.Now().Add(2 * journal.EvidenceKeep)
	seenAt(t, j, at)
	at = at.Add(journal.Confirmation)
	seenAt(t, j, at)
	_, err = j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at, Keep: time.Hour}, 10)
	require.NoError(t, err)
	assert.Empty(t, rowsIn(t, path, "at", "onceward_heard"))
}

// If a damaged operation makes Looks read again, it returns no more than its limit.
func TestLookupsKeepTheirLimit(t *testing.T) {
	_, j := unknowns(t, 6, "facts = zeroblob(length(facts))")
	now := time.Now().Add(time.Hour)
	var ids []string
	for _, many := range []int{2, 2, 1} {
		results, err := j.Looks(t.Context(), journal.Event{Kind: journal.EventLook, At: now, Due: now.Add(time.Hour)}, 2)
		require.NoError(t, err)
		require.Len(t, results, many)
		for _, r := range results {
			ids = append(ids, r.Operation.ID)
		}
	}
	assert.Equal(t, []string{"op-1", "op-2", "op-3", "op-4", "op-5"}, ids)
}

// An answer with an unreadable body is an error, instead of an answer without a body. This also holds for an event
// about its operation.
func TestWebhookOfADamagedAnswer(t *testing.T) {
	path, j, s := joined(t)
	begun, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	done := complete(begun.Operation, s)
	done.Delivered = false // so that it has a row
	_, err = j.Apply(t.Context(), done)
	require.NoError(t, err)
	require.NoError(t, sqlite.Fold(j))
	hears := func(id string) error {
		ev := tookEffect(begun.Operation, "charge ch_1")
		ev.Answer = nil
		_, first, err := j.Hear(t.Context(), journal.Heard{Provider: "ledger", ID: id}, []journal.Event{ev})
		assert.True(t, first)
		return err
	}
	require.NoError(t, hears("evt_1"))
	alter(t, path, "UPDATE onceward_answers SET body = CAST('not what was paid' AS BLOB)")
	require.ErrorContains(t, hears("evt_2"), "damaged")
}
