package onceward_test

import (
	"context"
	"errors"
	"iter"
	"strconv"
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
	lists, finds int // how many readings fail
}

var errBlinded = errors.New("disk I/O error")

func (j *blinded) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	if len(f.States) == 3 && j.lists > 0 {
		j.lists--
		return func(yield func(journal.Operation, error) bool) { yield(journal.Operation{}, errBlinded) }
	}
	return j.Journal.List(ctx, f)
}

func (j *blinded) FindBy(ctx context.Context, provider string, by journal.By, value string) ([]journal.Match, error) {
	if j.finds > 0 {
		j.finds--
		return nil, errBlinded
	}
	return j.Journal.FindBy(ctx, provider, by, value)
}

// What looks alike can't be told where the journal does not say who else there is.
func TestLookWithAJournalThatFails(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	trap(t, "the others are not known", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.asks("second", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		j.lists = 1
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown, "the object is the first one's")
		op := l.stands("second")
		assert.Equal(t, journal.FindingInconclusive, op.Evidence[0].Finding)
		assert.Contains(t, op.Evidence[0].Why, "journal")
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
		assert.Empty(t, op.Dead)
		assert.Equal(t, journal.FindingInconclusive, op.Evidence[0].Finding)
		l.runs(10 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.stands("invoice-1").State)
		l.truly()
	})
}

// refunds adds refunds, which are told by their parent and what they look like.
func refunds(p *providers.Provider) {
	p.Endpoints = append(p.Endpoints, providers.Endpoint{
		Pattern: "POST /payments/{payment}/refunds", Object: "refund",
		Lookups: []providers.Lookup{{
			By: providers.ByParent, Path: "/payments/{path.payment}/refunds", Query: "limit=100", Items: "data[]", ID: "id", Created: "created",
			Same:   []providers.Same{{Field: "amount", Is: "{request.amount}", As: providers.AsDecimal}},
			Next:   providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "has_more", Size: 100},
			Source: "made up",
		}},
		Source: "made up",
	})
}

// Equal refunds of two payments are nobody's but their own payment's.
func TestLookOfEqualRefunds(t *testing.T) {
	trap(t, "of two payments", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, refunds)
		l.box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/payments/a/refunds", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.asks("second", "/payments/b/refunds", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		l.runs(10 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.stands("first").State, "%+v", l.stands("first").Evidence)
		assert.Equal(t, onceward.StateUnknown, l.stands("second").State)
		l.truly()
	})
	trap(t, "of one payment, at the same second", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, refunds)
		l.box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/payments/a/refunds", `{"amount":10}`).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.asks("second", "/payments/a/refunds", `{"amount":10.00}`).Err, onceward.ErrOutcomeUnknown)
		l.runs(time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.stands("first").State)
		assert.Equal(t, onceward.StateUnknown, l.stands("second").State)
		l.truly()
	})
}

// What somebody said was executed has an object that nobody knows: the one that is found may
// be that one.
func TestLookBesideAnObjectNotKnown(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	trap(t, "resolved by hand", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Resolve(t.Context(), l.stands("first").Seen, onceward.Executed, onceward.ResolveOptions{By: "ann", Why: "seen"})
		require.NoError(t, err)
		require.ErrorIs(t, l.asks("second", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		l.runs(time.Minute)
		assert.Equal(t, onceward.StateUnknown, l.stands("second").State)
		l.truly()
	})
}

// An endpoint that makes the same kind of object has rivals too.
func TestLookBesideAnotherEndpoint(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		const text = `{"amount":10,"external_id":"order-1"}`
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			other := p.Clone().Endpoints[1]
			other.Pattern = "POST /v2/transfers"
			p.Endpoints = append(p.Endpoints, other)
		})
		l.box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/v2/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.asks("second", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		l.truly()
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
