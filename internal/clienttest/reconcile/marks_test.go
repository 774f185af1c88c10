package reconcile_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers/providertest"
)

// An operation's only attempt never left. An object that another program made does not complete it.
func TestAnOperationThatNeverLeftIsNotCompletedByEvidence(t *testing.T) {
	for _, row := range []struct {
		name   string
		shows  journal.Basis
		before func(*teller)
		needs  bool
	}{
		{"the caller's reference", journal.BasisFields, func(*teller) {}, false},
		{"its key", journal.BasisKey, func(*teller) {}, true},
		{"the caller's reference, while it is on hold", journal.BasisFields, func(l *teller) { l.Says("invoice-1", onceward.Hold) }, false},
		{"its key, while it is on hold", journal.BasisKey, func(l *teller) { l.Says("invoice-1", onceward.Hold) }, true},
		{"its key, after it was resolved as not executed", journal.BasisKey, func(l *teller) { l.Says("invoice-1", onceward.NotExecuted) }, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			require.ErrorIs(t, l.Offline().Pays("invoice-1").Err, onceward.ErrPending)
			row.before(l)
			for _, object := range []string{"payment p_1", "payment p_1"} {
				op := l.Stands("invoice-1")
				_, err := l.Journal.Apply(t.Context(), machine.Event{
					Kind: machine.EventEvidence, Ref: op.Ref, At: time.Now(), Claim: op.Claim, Object: object,
					Evidence: &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: row.shows},
				})
				require.NoError(t, err)
			}
			op := l.Stands("invoice-1")
			assert.NotEqual(t, onceward.StateCompleted, op.State)
			assert.Equal(t, row.needs, op.Attention != "", "a person has to see to it")
			recorded := l.Recorded(onceward.Ref{ID: "invoice-1"})
			assert.False(t, recorded.MayHaveRun, "it is not claimed that it ran")
			assert.Zero(t, recorded.LookAt, "it is not looked for")
			l.Runs(time.Hour)
			if row.needs {
				assert.Zero(t, l.Effects())
			}
		})
	}
}

// Config.Reconcile.Lookup settles no operation that an operator holds, or has decided on. Its "absent" does not count
// when it comes too early.
func TestLookupHookDoesNotOverrideAnOperator(t *testing.T) {
	absent := func() *onceward.Reconcile {
		return &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			return onceward.Finding{Found: journal.FindingAbsent, Why: "it is not in the ledger"}, nil
		}}
	}
	virtual(t, "an operation on hold", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: absent()}, unlooked)
		require.ErrorIs(t, l.Offline().Pays("invoice-1").Err, onceward.ErrPending)
		l.Says("invoice-1", onceward.Hold)
		l.Runs(24 * time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		assert.Error(t, l.Pays("invoice-1").Err)
		assert.Zero(t, l.Effects())
	})
	virtual(t, "a quarter of an hour", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: absent()}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		l.Runs(15 * time.Minute)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		l.Runs(10 * time.Minute)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCancelled, op.State)
		assert.Equal(t, "Config.Reconcile.Lookup", op.Resolved.By)
	})
}

// The object of a payment that waited out a long outage completes no other payment with the same reference and amount.
func TestAPaymentOfBeforeAnOutageCompletesNoOther(t *testing.T) {
	t.Parallel()
	for _, row := range alikes {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			require.ErrorIs(t, l.Offline().Asks("first", row.path, order1).Err, onceward.ErrPending)
			pass(7 * time.Hour)
			l.Box.Script(providertest.CutAt(5), providertest.DropBefore())
			l.Runs(time.Minute)
			require.Equal(t, onceward.StateCompleted, l.Stands("first").State)
			require.ErrorIs(t, l.Asks("second", row.path, order1).Err, onceward.ErrOutcomeUnknown)
			l.Runs(24 * time.Hour)
			assert.Equal(t, onceward.StateUnknown, l.Stands("second").State, "it was never made")
			l.Truly()
		})
	}
}

// A caller's reference completes no operation if a reaped one had it too, even though only that use is remembered.
func TestAReferenceOfAReapedOperationIsNoMark(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Keep: time.Hour})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Asks("first", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		l.Says("first", onceward.NotExecuted)
		pass(40 * 24 * time.Hour)
		l.Runs(2 * time.Hour)
		_, err := l.Operation(t.Context(), onceward.Ref{ID: "first"})
		require.ErrorIs(t, err, onceward.ErrNotFound)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		l.Runs(time.Hour)
		op := l.Stands("second")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Equal(t, "transfer obj_1", latest(op).Object, "it is a candidate")
	})
}

// A restored journal has lost its latest operations, and one of them may have had the caller's reference. The reference
// completes no operation then.
func TestAReferenceInARestoredJournalIsNoMark(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		dir := t.TempDir()
		j := openSQLite(t, filepath.Join(dir, "a.db"))
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Asks("first", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, j.Backup(t.Context(), filepath.Join(dir, "b.db")))
		require.NoError(t, l.Asks("second", "/transfers", order1).Err)
		restored := openSQLite(t, filepath.Join(dir, "b.db"))
		require.NoError(t, restored.Adopt(t.Context()))
		l = another(t, l.Box, onceward.Config{Journal: restored})
		l.Runs(time.Hour)
		op := l.Stands("first")
		assert.Equal(t, onceward.StateUnknown, op.State, "it was never made")
		assert.Equal(t, "transfer obj_1", latest(op).Object, "it is a candidate")
	})
}

// An object that differs from the operation only in its reference is a candidate. The provider may have trimmed the
// reference.
func TestObjectWithATrimmedReference(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()})
		trims := true
		l.Fakes(func(r *http.Request) *http.Response {
			if trims && r.Method == http.MethodPost {
				sent, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				sent = regexp.MustCompile(`("external_id":"[^"]{20})[^"]+"`).ReplaceAll(sent, []byte(`$1"`))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
			}
			return nil
		})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		trims = false
		pass(3 * time.Minute)
		require.NoError(t, l.Asks("control", "/transfers", `{"amount":11}`).Err)
		l.Runs(24 * time.Hour)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Equal(t, "transfer obj_1", latest(op).Object, "it is a candidate")
		l.Truly()
	})
}
