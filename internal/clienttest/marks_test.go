package clienttest_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// offline is another process of the teller's, which reaches nobody.
func (l *teller) offline() *teller {
	l.T.Helper()
	refused := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }}
	client, err := onceward.New(onceward.Config{
		Journal: l.Journal.Journal, Providers: []providers.Provider{l.box.Provider()}, HTTPClient: &http.Client{Transport: refused}, Backoff: once, Reconcile: plain(),
		Authorize: func(r *http.Request) error { r.Header.Set("Authorization", tellerToken); return nil },
	})
	require.NoError(l.T, err)
	l.T.Cleanup(func() { _ = client.Shutdown(context.Background()) })
	return &teller{process: oncetest.Of(l.T, client, nil), box: l.box}
}

// An operation whose only attempt never left is not completed by an object that another program made.
func TestAnOperationThatNeverLeftIsNotCompletedByEvidence(t *testing.T) {
	for _, row := range []struct {
		name   string
		shows  journal.Basis
		before func(*teller)
		needs  bool
	}{
		{"the caller's reference", journal.BasisFields, func(*teller) {}, false},
		{"its key", journal.BasisKey, func(*teller) {}, true},
		{"the caller's reference, while it is on hold", journal.BasisFields, func(l *teller) { l.says("invoice-1", onceward.Hold) }, false},
		{"its key, while it is on hold", journal.BasisKey, func(l *teller) { l.says("invoice-1", onceward.Hold) }, true},
		{"its key, after it was resolved as not executed", journal.BasisKey, func(l *teller) { l.says("invoice-1", onceward.NotExecuted) }, true},
	} {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			require.ErrorIs(t, l.offline().pays("invoice-1").Err, onceward.ErrPending)
			row.before(l)
			for _, object := range []string{"payment p_1", "payment p_1"} {
				op := l.stands("invoice-1")
				_, err := l.Journal.Apply(t.Context(), journal.Event{
					Kind: journal.EventEvidence, Ref: op.Ref, At: time.Now(), Claim: op.Claim, Object: object,
					Evidence: &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: row.shows},
				})
				require.NoError(t, err)
			}
			op := l.stands("invoice-1")
			assert.NotEqual(t, onceward.StateCompleted, op.State)
			assert.Equal(t, row.needs, op.Attention != "", "a person has to see to it")
			recorded := l.Recorded(onceward.Ref{ID: "invoice-1"})
			assert.False(t, recorded.MayHaveRun, "it is not claimed that it ran")
			assert.Zero(t, recorded.LookAt, "it is not looked for")
			l.runs(time.Hour)
			if row.needs {
				assert.Zero(t, l.effects())
			}
		})
	}
}

// says has a person decide on an operation.
func (l *teller) says(name string, what onceward.Resolution) {
	l.T.Helper()
	_, err := l.Resolve(context.Background(), l.stands(name).Seen, what, onceward.ResolveOptions{By: "ann", Why: "seen"})
	require.NoError(l.T, err)
}

// The program's own look-up settles nothing that a person holds, or has decided on, and says too early
// that an operation was not executed.
func TestTheProgramsOwnLookUpOverridesNobody(t *testing.T) {
	absent := func() *onceward.Reconcile {
		return &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			return onceward.Finding{Found: journal.FindingAbsent, Why: "it is not in the ledger"}, nil
		}}
	}
	trap(t, "an operation on hold", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: absent()}, unlooked)
		require.ErrorIs(t, l.offline().pays("invoice-1").Err, onceward.ErrPending)
		l.says("invoice-1", onceward.Hold)
		l.runs(24 * time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.stands("invoice-1").State)
		assert.Error(t, l.pays("invoice-1").Err)
		assert.Zero(t, l.effects())
	})
	trap(t, "a quarter of an hour", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: absent()}, unlooked)
		l.loses("invoice-1", providertest.DropBefore())
		l.runs(15 * time.Minute)
		assert.Equal(t, onceward.StateUnknown, l.stands("invoice-1").State)
		l.runs(10 * time.Minute)
		op := l.stands("invoice-1")
		assert.Equal(t, onceward.StateCancelled, op.State)
		assert.Equal(t, "Config.Reconcile.Lookup", op.Resolved.By)
	})
}

// The object of a payment that waited out a long outage completes no other one, though the other has the
// same reference and amount.
func TestAPaymentOfBeforeAnOutageCompletesNoOther(t *testing.T) {
	t.Parallel()
	for _, row := range alikes {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			require.ErrorIs(t, l.offline().asks("first", row.path, order1).Err, onceward.ErrPending)
			pass(7 * time.Hour)
			l.box.Script(providertest.CutAt(5), providertest.DropBefore())
			l.runs(time.Minute)
			require.Equal(t, onceward.StateCompleted, l.stands("first").State)
			require.ErrorIs(t, l.asks("second", row.path, order1).Err, onceward.ErrOutcomeUnknown)
			l.runs(24 * time.Hour)
			assert.Equal(t, onceward.StateUnknown, l.stands("second").State, "it was never made")
			l.truly()
		})
	}
}

// Nor is it completed once nothing is left of the other operation but that it had the reference.
func TestAReferenceOfAReapedOperationIsNoMark(t *testing.T) {
	t.Parallel()
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Keep: time.Hour})
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		l.says("first", onceward.NotExecuted)
		l.runs(40 * 24 * time.Hour)
		_, err := l.Lookup(t.Context(), onceward.Ref{ID: "first"})
		require.ErrorIs(t, err, onceward.ErrNotFound)
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		l.runs(time.Hour)
		op := l.stands("second")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Equal(t, "transfer obj_1", latest(op).Object, "it is a candidate")
	})
}

// A restored journal has lost its latest operations. One of them may have had the caller's reference.
func TestAReferenceInARestoredJournalIsNoMark(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		dir := t.TempDir()
		j := openSQLite(t, filepath.Join(dir, "a.db"))
		l := atBank(t, onceward.Config{Journal: j})
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, j.Backup(t.Context(), filepath.Join(dir, "b.db")))
		require.NoError(t, l.asks("second", "/transfers", order1).Err)
		restored := openSQLite(t, filepath.Join(dir, "b.db"))
		require.NoError(t, restored.Adopt(t.Context()))
		l = another(t, l.box, onceward.Config{Journal: restored})
		l.runs(time.Hour)
		op := l.stands("first")
		assert.Equal(t, onceward.StateUnknown, op.State, "it was never made")
		assert.Equal(t, "transfer obj_1", latest(op).Object, "it is a candidate")
	})
}

// No absence is proven beside an object that differs from the operation in nothing but its reference, as the
// provider may have trimmed that.
func TestNoAbsenceBesideATrimmedReference(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: filling()}, proving)
		trims := true
		l.fakes(func(r *http.Request) *http.Response {
			if trims && r.Method == http.MethodPost {
				sent, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				sent = regexp.MustCompile(`("external_id":"[^"]{20})[^"]+"`).ReplaceAll(sent, []byte(`$1"`))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
			}
			return nil
		})
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.asks("invoice-1", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		trims = false
		pass(3 * time.Minute)
		require.NoError(t, l.asks("control", "/transfers", `{"amount":11}`).Err)
		l.runs(24 * time.Hour)
		op := l.stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Equal(t, "transfer obj_1", latest(op).Object, "it is a candidate")
		l.truly()
	})
}
