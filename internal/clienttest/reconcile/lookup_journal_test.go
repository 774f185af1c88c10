package reconcile_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// A look-up settles nothing if the journal can't say which operations own the objects.
func TestLookupWithAFailingJournal(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	virtual(t, "the object's owner can't be read", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		j.Finds = 1
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, journal.FindingInconclusive, latest(l.Stands("first")).Finding)
		assert.Contains(t, latest(l.Stands("first")).Why, "journal")
		pass(time.Hour)
		_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.NoError(t, err, "it can be read again")
		l.Truly()
	})
	virtual(t, "the object's owner can't be read, and the program's own look-up does not see the object", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j, Reconcile: saysAbsent()})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		pass(time.Hour)
		j.Finds = 1
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		pass(time.Hour)
		_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.NoError(t, err, "it can be read again")
		l.Truly()
	})
	virtual(t, "the finding can't be recorded", func(t *testing.T) {
		j := &blinded{Journal: memory.New(), Evidence: 2}
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.ErrorIs(t, err, errBlinded)
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Empty(t, l.Seen, "nobody is told what is not recorded")
		l.Runs(time.Hour)
		assert.Zero(t, j.Evidence)
		assert.Equal(t, onceward.StateCompleted, l.Stands("first").State, "it is looked for again")
		assert.Len(t, l.Seen, 1)
		assert.Equal(t, 2, strings.Count(l.Log.String(), "could not be recorded"))
		l.Truly()
	})
	virtual(t, "the operations that match an object can't be read", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		j.Finds = 2
		l.Runs(2 * time.Minute)
		op := l.Stands("invoice-1")
		assert.Empty(t, op.Attention)
		assert.Equal(t, journal.FindingInconclusive, op.Evidence[0].Finding)
		l.Runs(10 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Truly()
	})
}

// An operation with a generated reference is found by it, whatever other operations have sent.
func TestLookupByAGeneratedReference(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		r := filling()
		r.Schedule = []time.Duration{3 * time.Hour}
		l := atBank(t, onceward.Config{Keep: time.Hour, Reconcile: r})
		plain := l.Beside(nil, once, nil)
		l.Box.Script(providertest.DropAfter(), providertest.DropAfter())
		require.ErrorIs(t, plain.Asks("first", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Resolve(t.Context(), l.Stands("first").Seen, onceward.Executed, onceward.ResolveOptions{By: "ann", Why: "seen"})
		require.NoError(t, err)
		require.ErrorIs(t, l.Asks("second", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		l.Runs(24 * time.Hour)
		require.True(t, l.Recorded(onceward.Ref{ID: "first"}).Tombstone)
		assert.Equal(t, onceward.StateCompleted, l.Stands("second").State)
		l.Truly()
	})
}

// A release adds a row with look-ups, and finds operations that were recorded without it. They are not looked up by
// fields that were not recorded, and the evidence says what to do.
func TestLookupOnceTheTableHasARow(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	wide := func(p *providers.Provider) {
		p.Endpoints = append(p.Endpoints[:1:1], providers.Endpoint{Pattern: "/", Source: "made up"})
	}
	virtual(t, "", func(t *testing.T) {
		j, box := memory.New(), openBank(t, func(p *providers.Provider) {
			p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "/", Source: "made up"})
		})
		old := another(t, box, onceward.Config{Journal: j}, wide)
		box.Script(providertest.DropAfter())
		require.ErrorIs(t, old.Asks("old", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, old.Shutdown(t.Context()))
		asked := 0
		l := another(t, box, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			asked++
			return onceward.Finding{}, nil
		}}})
		l.Runs(time.Minute)
		op := l.Stands("old")
		require.NotEmpty(t, op.Evidence)
		assert.Contains(t, op.Evidence[0].Why, `"/"`)
		assert.Contains(t, op.Evidence[0].Why, "Client.Resolve")
		assert.Positive(t, asked)
	})
}

// An event with a caller's reference that two operations have settles neither.
func TestWebhookOfASharedReference(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const text = `{"amount":10,"external_id":"order-1"}`
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			p.Events = append(p.Events, providers.EventRule{
				Field: "type", Equals: "transfer.made", Endpoint: "POST /transfers", Reference: "data.external_id", ID: "id", Object: "data.id", Created: "data.created",
				Also: []providers.Same{{Field: "data.amount", Is: "{request.amount}", As: providers.AsDecimal}}, Is: providers.TookEffect, Source: "made up",
			})
			p.Endpoints[1].Lookups = nil
		})
		l.Box.Script(providertest.DropBefore(), providertest.DropAfter())
		require.ErrorIs(t, l.Asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.Asks("second", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		told := `{"type":"transfer.made","id":"evt_1","data":{"id":"obj_1","external_id":"order-1","amount":10,"created":` + unix(time.Now()) + `}}`
		_, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Body: []byte(told), Evidence: true})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, l.Stands("first").State, "its request did not arrive")
		l.Truly()
	})
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
