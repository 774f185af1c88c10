//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

func TestWebhookInARestoredJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	leave(t, path)
	require.NoError(t, os.Remove(path+"-sidecar"))
	j := open(t, path)
	_, _, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: "evt_1"}, nil)
	require.ErrorIs(t, err, journal.ErrRestored)
}

// If an event may name an unreadable operation, it is an error, and a repeat of the event can be heard later.
func TestWebhookOfADamagedOperation(t *testing.T) {
	for name, damage := range map[string]string{
		"its facts":   "UPDATE onceward_rows SET record = zeroblob(length(record))",
		"its request": "UPDATE onceward_requests SET head = zeroblob(length(head))",
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
				_, _, err = j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: "evt_1"}, []machine.Event{ev})
				require.ErrorContains(t, err, "damaged")
			}
		})
	}
}

// If a damaged operation makes Looks read again, it returns no more than its limit.
func TestLookupsKeepTheirLimit(t *testing.T) {
	_, j := unknowns(t, 6, damagedRow)
	now := time.Now().Add(time.Hour)
	var ids []string
	for _, many := range []int{2, 2, 1} {
		results, err := j.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: now, Due: now.Add(time.Hour)}, 2)
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
	hears := func(id string) error {
		ev := tookEffect(begun.Operation, "charge ch_1")
		ev.Answer = nil
		_, first, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: id}, []machine.Event{ev})
		assert.Equal(t, err == nil, first)
		return err
	}
	require.NoError(t, hears("evt_1"))
	alter(t, path, "UPDATE onceward_answers SET body = CAST('not what was paid' AS BLOB)")
	require.ErrorContains(t, hears("evt_2"), "damaged")
}
