package clienttest_test

import (
	"context"
	"errors"
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

// blinded is a journal that can't read for a while.
type blinded struct {
	*memory.Journal
	finds    int    // how many readings fail
	evidence int    // and how often what was found can't be recorded
	hints    int    // or that something was heard
	looks    int    // or that it is looked for
	unread   string // the operation that can't be read by its name
}

func (j *blinded) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if ref.ID == j.unread {
		return journal.Operation{}, errBlinded
	}
	return j.Journal.Get(ctx, ref)
}

func (j *blinded) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if ev.Kind == journal.EventEvidence && j.evidence > 0 {
		j.evidence--
		return journal.Result{}, errBlinded
	}
	if ev.Kind == journal.EventLook && j.looks > 0 {
		j.looks--
		return journal.Result{}, errBlinded
	}
	if ev.Kind == journal.EventHint && j.hints > 0 {
		j.hints--
		return journal.Result{}, errBlinded
	}
	return j.Journal.Apply(ctx, ev)
}

var errBlinded = errors.New("disk I/O error")

func (j *blinded) FindBy(ctx context.Context, provider string, by journal.By, value string) ([]journal.Match, error) {
	if j.finds > 0 {
		j.finds--
		return nil, errBlinded
	}
	return j.Journal.FindBy(ctx, provider, by, value)
}

// A look tells nothing if the journal does not say whose the objects are.
func TestLookWithAJournalThatFails(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	trap(t, "whose the object is is not known", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		j.finds = 1
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, journal.FindingInconclusive, latest(l.stands("first")).Finding)
		assert.Contains(t, latest(l.stands("first")).Why, "journal")
		pass(time.Hour)
		_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.NoError(t, err, "it can be read again")
		l.truly()
	})
	trap(t, "what was found can't be recorded", func(t *testing.T) {
		j := &blinded{Journal: memory.New(), evidence: 2}
		l := atBank(t, onceward.Config{Journal: j})
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
		require.ErrorIs(t, err, errBlinded)
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Empty(t, l.seen, "nobody is told what is not recorded")
		l.runs(time.Hour)
		assert.Zero(t, j.evidence)
		assert.Equal(t, onceward.StateCompleted, l.stands("first").State, "it is looked for again")
		assert.Len(t, l.seen, 1)
		assert.Equal(t, 2, strings.Count(l.log.String(), "could not be recorded"))
		l.truly()
	})
	trap(t, "what an object proves is not known", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		j.finds = 2
		l.runs(2 * time.Minute)
		op := l.stands("invoice-1")
		assert.Empty(t, op.Attention)
		assert.Equal(t, journal.FindingInconclusive, op.Evidence[0].Finding)
		l.runs(10 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.stands("invoice-1").State)
		l.truly()
	})
}

// An operation with a reference of ours is found by it, whatever other operations have sent.
func TestLookByAReferenceOfOurs(t *testing.T) {
	t.Parallel()
	trap(t, "", func(t *testing.T) {
		r := filling()
		r.Schedule = []time.Duration{3 * time.Hour}
		l := atBank(t, onceward.Config{Keep: time.Hour, Reconcile: r})
		plain := l.beside(l.box.Provider(), nil)
		l.box.Script(providertest.DropAfter(), providertest.DropAfter())
		require.ErrorIs(t, plain.asks("first", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Resolve(t.Context(), l.stands("first").Seen, onceward.Executed, onceward.ResolveOptions{By: "ann", Why: "seen"})
		require.NoError(t, err)
		require.ErrorIs(t, l.asks("second", "/transfers", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		l.runs(24 * time.Hour)
		require.True(t, l.Recorded(onceward.Ref{ID: "first"}).Tombstone)
		assert.Equal(t, onceward.StateCompleted, l.stands("second").State)
		l.truly()
	})
}

// A release that brings a row with look-ups finds operations that were begun without it. They are not looked for
// by what was not recorded of them, and who is told learns what to do.
func TestLookSinceTheRowIsThere(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	wide := func(p *providers.Provider) {
		p.Endpoints = append(p.Endpoints[:1:1], providers.Endpoint{Pattern: "/", Source: "made up"})
	}
	trap(t, "", func(t *testing.T) {
		j, box := memory.New(), openBank(t, func(p *providers.Provider) {
			p.Endpoints = append(p.Endpoints, providers.Endpoint{Pattern: "/", Source: "made up"})
		})
		old := anotherAs(t, box, onceward.Config{Journal: j}, wide)
		box.Script(providertest.DropAfter())
		require.ErrorIs(t, old.asks("old", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, old.Shutdown(t.Context()))
		asked := 0
		l := another(t, box, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			asked++
			return onceward.Finding{}, nil
		}}})
		l.runs(time.Minute)
		op := l.stands("old")
		require.NotEmpty(t, op.Evidence)
		assert.Contains(t, op.Evidence[0].Why, `"/"`)
		assert.Contains(t, op.Evidence[0].Why, "Client.Resolve")
		assert.Positive(t, asked)
	})
}

// An event with the caller's reference, which two operations have, is neither's.
func TestHearBesideARival(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		const text = `{"amount":10,"external_id":"order-1"}`
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			p.Events = append(p.Events, providers.EventRule{
				Field: "type", Equals: "transfer.made", Endpoint: "POST /transfers", Reference: "data.external_id", ID: "id", Object: "data.id", Created: "data.created",
				Also: []providers.Same{{Field: "data.amount", Is: "{request.amount}", As: providers.AsDecimal}}, Is: providers.TookEffect, Source: "made up",
			})
			p.Endpoints[1].Lookups = nil
		})
		l.box.Script(providertest.DropBefore(), providertest.DropAfter())
		require.ErrorIs(t, l.asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.asks("second", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		told := `{"type":"transfer.made","id":"evt_1","data":{"id":"obj_1","external_id":"order-1","amount":10,"created":` + unix(time.Now()) + `}}`
		_, err := l.Hear(t.Context(), "bank", onceward.Event{Body: []byte(told), Evidence: true})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, l.stands("first").State, "its request did not arrive")
		l.truly()
	})
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
