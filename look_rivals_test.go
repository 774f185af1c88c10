package onceward_test

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// blinded is a journal that can't read for a while.
type blinded struct {
	*memory.Journal
	unsettled, completed, finds int    // how many readings fail
	evidence                    int    // and how often what was found can't be recorded
	hints                       int    // or that something was heard
	looks                       int    // or that it is looked for
	unread                      string // the operation that can't be read by its name
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

func (j *blinded) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	fails := &j.unsettled
	if slices.Equal(f.States, []journal.State{journal.StateCompleted}) {
		fails = &j.completed
	}
	if f.Provider != "" && *fails > 0 {
		*fails--
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
		j.unsettled = 1
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown, "the object is the first one's")
		op := l.stands("second")
		assert.Equal(t, journal.FindingInconclusive, op.Evidence[0].Finding)
		assert.Contains(t, op.Evidence[0].Why, "journal")
		l.truly()
	})
	for _, row := range []struct {
		name  string
		fails func(*blinded)
	}{
		{"those that are completed are not known", func(j *blinded) { j.completed = 1 }},
		{"those with the reference are not known", func(j *blinded) { j.finds = 1 }},
	} {
		trap(t, row.name, func(t *testing.T) {
			j := &blinded{Journal: memory.New()}
			l := atBank(t, onceward.Config{Journal: j})
			l.box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.asks("first", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			row.fails(j)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, journal.FindingInconclusive, latest(l.stands("first")).Finding)
			assert.Contains(t, latest(l.stands("first")).Why, "journal")
			pass(time.Hour)
			_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "first"})
			require.NoError(t, err, "it can be read again")
			l.truly()
		})
	}
	trap(t, "what another sent is not known", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.Error(t, l.asks("first", "/transfers", text).Err)
		_, err := l.Resolve(t.Context(), l.stands("first").Seen, onceward.Executed, onceward.ResolveOptions{By: "ann", Why: "seen"})
		require.NoError(t, err)
		require.Error(t, l.asks("second", "/transfers", text).Err)
		j.unread = "first"
		_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, journal.FindingInconclusive, latest(l.stands("second")).Finding)
		assert.Contains(t, latest(l.stands("second")).Why, "journal")
		j.unread = ""
		pass(time.Hour)
		_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, journal.FindingAmbiguous, latest(l.stands("second")).Finding, "it can be read again")
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

// A payment that was begun long before it was sent is still the rival of one with the same reference.
func TestLookBesideAnOldRival(t *testing.T) {
	t.Parallel()
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.asks("first", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Resolve(t.Context(), l.stands("first").Seen, onceward.NotExecuted, onceward.ResolveOptions{By: "ann", Why: "not there"})
		require.NoError(t, err)
		pass(24 * time.Hour)
		l.box.Script(providertest.CutAt(5), providertest.DropBefore())
		_ = l.asks("first", "/transfers", order1)
		first := l.stands("first")
		require.Equal(t, onceward.StateCompleted, first.State)
		require.Empty(t, first.Object)
		require.Greater(t, time.Since(first.CreatedAt), 12*time.Hour)
		require.ErrorIs(t, l.asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
		l.runs(24 * time.Hour)
		second := l.stands("second")
		assert.Equal(t, onceward.StateUnknown, second.State, "the object is the first one's")
		assert.Equal(t, journal.FindingAmbiguous, latest(second).Finding)
		l.truly()
	})
}

// What is told by a reference of ours has no rivals, not even one of which nobody knows what it sent.
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

// What waits to be sent for the first time has made no object.
func TestLookBesideOneThatWasNotSent(t *testing.T) {
	for _, row := range alikes {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			refused := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }}
			client, err := onceward.New(onceward.Config{
				Journal: l.Journal.Journal, Providers: []providers.Provider{l.box.Provider()}, HTTPClient: &http.Client{Transport: refused}, Backoff: once, Reconcile: plain(),
				Authorize: func(r *http.Request) error { r.Header.Set("Authorization", tellerToken); return nil },
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Shutdown(t.Context()) })
			offline := &teller{process: &process{oncetest.Of(t, client, nil)}, box: l.box}
			require.ErrorIs(t, offline.asks("first", row.path, order1).Err, onceward.ErrPending)
			l.box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.asks("second", row.path, order1).Err, onceward.ErrOutcomeUnknown)
			_, err = l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			require.NoError(t, err)
			require.Equal(t, onceward.StatePending, l.stands("first").State)
			assert.Equal(t, onceward.StateCompleted, l.stands("second").State)
			l.truly()
		})
	}
}

// What is found may be of an operation whose answer is still on its way.
func TestLookBesideOneInFlight(t *testing.T) {
	for _, row := range alikes {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.table)
			l.box.Script(providertest.DelayAfter(20*time.Second), providertest.DropBefore())
			first := make(chan outcome)
			go func() { first <- l.asks("first", row.path, order1) }()
			synctest.Wait()
			require.Equal(t, 1, l.effects())
			require.ErrorIs(t, l.asks("second", row.path, order1).Err, onceward.ErrOutcomeUnknown)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, journal.FindingAmbiguous, latest(l.stands("second")).Finding)
			require.NoError(t, (<-first).Err)
			l.truly()
		})
	}
}

// An endpoint that makes the same kind of object has rivals too, and one that makes another has none.
func TestLookBesideAnotherEndpoint(t *testing.T) {
	for kind, rivals := range map[string]bool{"transfer": true, "refund": false} {
		trap(t, kind, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
				other := p.Clone().Endpoints[1]
				other.Pattern, other.Object = "POST /v2/transfers", kind
				p.Endpoints = append(p.Endpoints, other)
			})
			l.box.Script(providertest.DropBefore(), providertest.DropAfter())
			require.ErrorIs(t, l.asks("first", "/v2/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			require.ErrorIs(t, l.asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			assert.Equal(t, rivals, errors.Is(err, onceward.ErrOutcomeUnknown), "%v", err)
			l.truly()
		})
	}
}

// Likewise where nothing is left of what the other has sent.
func TestLookBesideAForgottenOne(t *testing.T) {
	t.Parallel()
	for kind, rivals := range map[string]bool{"transfer": true, "refund": false} {
		trap(t, kind, func(t *testing.T) {
			r := plain()
			r.Schedule = []time.Duration{3 * time.Hour}
			l := atBank(t, onceward.Config{Keep: time.Hour, Reconcile: r}, func(p *providers.Provider) {
				other := p.Clone().Endpoints[1]
				other.Pattern, other.Object = "POST /v2/transfers", kind
				p.Endpoints = append(p.Endpoints, other)
			})
			l.box.Script(providertest.DropBefore(), providertest.DropAfter())
			require.ErrorIs(t, l.asks("first", "/v2/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			_, err := l.Resolve(t.Context(), l.stands("first").Seen, onceward.Executed, onceward.ResolveOptions{By: "ann", Why: "seen"})
			require.NoError(t, err)
			require.ErrorIs(t, l.asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			l.runs(24 * time.Hour)
			require.True(t, l.Recorded(onceward.Ref{ID: "first"}).Tombstone)
			assert.Equal(t, rivals, l.stands("second").State == onceward.StateUnknown, latest(l.stands("second")).Why)
			l.truly()
		})
	}
}

// What looks like an operation's and was refused may be somebody else's, of whom this journal knows
// nothing, while its own is not shown yet: whoever is told that it was refused pays again.
func TestLookOfAnothersRefusal(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	failed := providers.EventRule{
		Field: "type", Equals: "transfer.failed", Endpoint: "POST /transfers", Reference: "data.external_id", ID: "id", Object: "data.id", Created: "data.created",
		Also: []providers.Same{{Field: "data.amount", Is: "{request.amount}", As: providers.AsDecimal}}, Is: providers.Refused, Source: "made up",
	}
	refusedBesides := func(t *testing.T) *teller {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Events = append(p.Events, failed) })
		require.NoError(t, another(t, l.box, onceward.Config{}).asks("theirs", "/transfers", text).Err)
		require.True(t, l.box.Turn("obj_1", providers.Refused))
		l.box.Visible(time.Minute)
		return l
	}
	told := func() onceward.Event {
		return onceward.Event{Evidence: true, Body: []byte(`{"type":"transfer.failed","id":"evt_1","data":{"id":"obj_1","external_id":"order-1","amount":10,"created":` + unix(time.Now()) + `}}`)}
	}
	stays := func(l *teller) {
		op := l.stands("ours")
		assert.Equal(t, onceward.StateUnknown, op.State)
		require.NotEmpty(t, op.Evidence)
		assert.Equal(t, journal.FindingRefused, op.Evidence[0].Finding)
		assert.Contains(t, op.Evidence[0].Why, "another's")
		assert.Equal(t, 2, l.effects())
	}
	trap(t, "by a look", func(t *testing.T) {
		l := refusedBesides(t)
		pass(time.Minute) // theirs is shown, and ours is not
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.asks("ours", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		l.runs(30 * time.Second)
		stays(l)
	})
	trap(t, "in its parent", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			p.Endpoints = append(p.Endpoints, providers.Endpoint{
				Pattern: "POST /orders/{order}/capture", Object: "capture", Source: "made up",
				Lookups: []providers.Lookup{{
					By: providers.ByParent, Path: "/orders/{path.order}/captured", ID: "id", Created: "created",
					Means:  []providers.Meaning{{Field: "status", Equals: "failed", Is: providers.Refused}, {Field: "status", Equals: "succeeded", Is: providers.TookEffect}},
					Source: "made up",
				}},
			})
		})
		require.NoError(t, another(t, l.box, onceward.Config{}).asks("theirs", "/orders/7/capture", `{}`).Err)
		require.True(t, l.box.Turn("obj_1", providers.Refused))
		l.box.Script(providertest.DropBefore()) // it is still on its way
		require.ErrorIs(t, l.asks("ours", "/orders/7/capture", `{}`).Err, onceward.ErrOutcomeUnknown)
		l.runs(30 * time.Second)
		assert.Equal(t, onceward.StateUnknown, l.stands("ours").State, "%+v", l.stands("ours").Evidence)
	})
	trap(t, "by an event", func(t *testing.T) {
		l := refusedBesides(t)
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.asks("ours", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Hear(t.Context(), "bank", told())
		require.NoError(t, err)
		stays(l)
	})
}

// Two customers pay the same for the same order number: what looks like both of their payments is neither's, as one
// would be refunded in the other's place. Of two requests that are the same it is all one.
func TestLookOfTwoCustomers(t *testing.T) {
	for _, row := range []struct {
		name, customer string
		state          onceward.State
	}{{"of two", "ann", onceward.StateUnknown}, {"of one, twice", "bob", onceward.StateCompleted}} {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			for name, customer := range map[string]string{"first": "bob", "second": row.customer} {
				l.box.Script(providertest.DropAfter())
				require.ErrorIs(t, l.asks(name, "/transfers", `{"amount":10,"external_id":"order-1","customer":"`+customer+`"}`).Err, onceward.ErrOutcomeUnknown)
			}
			l.runs(time.Hour)
			for _, name := range []string{"first", "second"} {
				assert.Equal(t, row.state, l.stands(name).State)
			}
			l.truly()
		})
	}
}

// What happens to an object later says no more of an operation than what the object was found by: one of
// two that may be its own is still one of two.
func TestHearOfAnObjectThatMayBeIts(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	later := func(p *providers.Provider) {
		for kind, is := range map[string]providers.Outcome{"transfer.settled": providers.TookEffect, "transfer.failed": providers.Refused} {
			p.Events = append(p.Events, providers.EventRule{Field: "type", Equals: kind, Endpoint: "POST /transfers", ID: "id", Object: "data.id", Is: is, Source: "made up"})
		}
	}
	for _, row := range []struct {
		name    string
		theirs  int    // how many of somebody else's look like it
		kind    string // of the event
		state   onceward.State
		finding journal.Finding
	}{
		{"one of two", 2, "transfer.settled", onceward.StateUnknown, journal.FindingAmbiguous},
		{"one that only looks like it, refused", 1, "transfer.failed", onceward.StateUnknown, journal.FindingRefused},
		{"one that only looks like it", 1, "transfer.settled", onceward.StateCompleted, journal.FindingTookEffect},
	} {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, later)
			elsewhere := another(t, l.box, onceward.Config{})
			for i := range row.theirs {
				require.NoError(t, elsewhere.asks("theirs-"+strconv.Itoa(i), "/transfers", text).Err)
				require.True(t, l.box.Turn("obj_"+strconv.Itoa(i+1), providers.InProgress))
			}
			l.box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.asks("ours", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			l.runs(30 * time.Second)
			_, err := l.Hear(t.Context(), "bank", onceward.Event{Evidence: true, Body: []byte(`{"type":"` + row.kind + `","id":"evt_1","data":{"id":"obj_1"}}`)})
			require.NoError(t, err)
			op := l.stands("ours")
			assert.Equal(t, row.state, op.State)
			assert.Equal(t, row.finding, op.Evidence[len(op.Evidence)-1].Finding)
			if row.state == onceward.StateCompleted {
				assert.Equal(t, journal.BasisFields, op.Evidence[len(op.Evidence)-1].Basis)
			}
		})
	}
}

// A release that brings a row with look-ups finds operations that were begun without it. They are not looked for
// by what was not recorded of them, and who is told learns what to do; but they are rivals of those that are.
func TestLookSinceTheRowIsThere(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	wide := func(p *providers.Provider) {
		p.Endpoints = append(p.Endpoints[:1:1], providers.Endpoint{Pattern: "/", Source: "made up"})
	}
	for _, row := range []struct {
		name, amount string
		lost         providertest.Fault
		state        onceward.State
	}{
		{"one that looks alike", "10", providertest.DropBefore(), onceward.StateUnknown},
		{"another amount", "11", providertest.DropAfter(), onceward.StateCompleted},
	} {
		trap(t, row.name, func(t *testing.T) {
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
			box.Script(row.lost)
			require.ErrorIs(t, l.asks("new", "/transfers", `{"amount":`+row.amount+`,"external_id":"order-1"}`).Err, onceward.ErrOutcomeUnknown)
			l.runs(time.Minute)
			assert.Equal(t, row.state, l.stands("new").State, "%+v", l.stands("new").Evidence)
			op := l.stands("old")
			require.NotEmpty(t, op.Evidence)
			assert.Contains(t, op.Evidence[0].Why, `"/"`)
			assert.Contains(t, op.Evidence[0].Why, "Client.Resolve")
			assert.Positive(t, asked)
		})
	}
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

// Of another only what was listed is read, unless more decides: where it can't be read for now, what is found is told all the same.
func TestLookBesideWhatDecidesNothing(t *testing.T) {
	for _, row := range []struct {
		name, text string
		lost       providertest.Fault
		resolved   bool
	}{
		{"said to be executed, of another amount", `{"amount":11,"external_id":"order-1"}`, providertest.DropBefore(), true},
		{"unknown, and the same", order1, providertest.DropAfter(), false},
		{"unknown, and of no amount", `{"external_id":"order-1"}`, providertest.DropBefore(), false},
	} {
		trap(t, row.name, func(t *testing.T) {
			j := &blinded{Journal: memory.New()}
			l := atBank(t, onceward.Config{Journal: j})
			l.box.Script(row.lost, providertest.DropAfter())
			require.ErrorIs(t, l.asks("first", "/transfers", row.text).Err, onceward.ErrOutcomeUnknown)
			if row.resolved {
				_, err := l.Resolve(t.Context(), l.stands("first").Seen, onceward.Executed, onceward.ResolveOptions{By: "ann", Why: "seen"})
				require.NoError(t, err)
			}
			require.ErrorIs(t, l.asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			j.unread = "first"
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			require.NoError(t, err, "%+v", latest(l.stands("second")))
			assert.Equal(t, onceward.StateCompleted, l.stands("second").State)
		})
	}
}

// What a body would tell that is not kept can't be read from it: any object of the same kind may be its own.
func TestLookBesideASecretBody(t *testing.T) {
	for _, row := range []struct {
		name, text string
		state      onceward.State
	}{
		{"a body that is not kept", `{"amount":11,"external_id":"order-1","card":{"number":"4242424242424242"}}`, onceward.StateUnknown},
		{"a body of another amount", `{"amount":11,"external_id":"order-1"}`, onceward.StateCompleted},
	} {
		trap(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Endpoints[1].SecretRequest = []string{"card.number"} })
			plain := l.beside(l.box.Provider(), nil)
			l.box.Script(providertest.DropBefore(), providertest.DropAfter())
			require.ErrorIs(t, plain.asks("first", "/transfers", row.text).Err, onceward.ErrOutcomeUnknown)
			require.ErrorIs(t, l.asks("second", "/transfers", order1).Err, onceward.ErrOutcomeUnknown)
			_, _ = l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			assert.Equal(t, row.state, l.stands("second").State, latest(l.stands("second")).Why)
		})
	}
}

// What was sent for another account of the credential is no rival.
func TestLookBesideAnotherAccount(t *testing.T) {
	for account, rivals := range map[string]bool{"acct_1": false, "acct_2": true} {
		trap(t, account, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
				p.AccountHeaders, p.Identity = []string{"Bank-Account"}, providers.Identity{}
			})
			l.box.Script(providertest.DropBefore(), providertest.DropAfter())
			require.ErrorIs(t, l.asks("first", "/transfers", order1, with("Bank-Account", account)).Err, onceward.ErrOutcomeUnknown)
			require.ErrorIs(t, l.asks("second", "/transfers", order1, with("Bank-Account", "acct_2")).Err, onceward.ErrOutcomeUnknown)
			_, _ = l.Reconcile(t.Context(), onceward.Ref{ID: "second"})
			assert.Equal(t, rivals, l.stands("second").State == onceward.StateUnknown, latest(l.stands("second")).Why)
		})
	}
}
