package clienttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// bank is an API that forgets keys as soon as it has answered, so that a lost answer leaves
// an operation unknown. Its payments can be found by their key and by the caller's reference, its
// transfers, which take no key, by what they look like.
func bank() providers.Provider {
	means := []providers.Meaning{
		{Field: "status", Equals: "failed", Is: providers.Refused},
		{Field: "status", Equals: "pending", Is: providers.InProgress},
		{Field: "status", Equals: "refunded", Is: providers.Reversed},
		{Field: "status", Equals: "succeeded", Is: providers.TookEffect},
	}
	payment := providers.Endpoint{
		Pattern: "POST /payments", Key: providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}, Object: "payment",
		Lookups: []providers.Lookup{{
			By: providers.ByKey, Path: "/payments", Query: "key={key}&limit=100", Items: "data[]", ID: "id", Created: "created",
			Same:  []providers.Same{{Field: "idempotency_key", Is: "{key}"}},
			Next:  providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "has_more", Size: 100},
			Means: means, SameShape: true, Source: "made up",
		}},
		Source: "made up",
	}
	transfer := providers.Endpoint{
		Pattern: "POST /transfers", Object: "transfer",
		Reference: providers.Reference{Place: providers.KeyJSONField, Name: "external_id", Source: "made up"},
		Lookups: []providers.Lookup{{
			By: providers.ByReference, Path: "/transfers", Query: "from={since}&to={until}&limit=100", TimeLayout: "unix", Items: "data[]", ID: "id", Created: "created",
			Same:  []providers.Same{{Field: "external_id", Is: "{reference}"}, {Field: "amount", Is: "{request.amount}", As: providers.AsDecimal}},
			Next:  providers.Paging{Style: providers.PageCursor, Param: "cursor", Cursor: "next", More: "has_more", Size: 100},
			Means: means, SameShape: true, Source: "made up",
		}},
		Source: "made up",
	}
	return providers.Provider{
		Name: "bank", Endpoints: []providers.Endpoint{payment, transfer}, Source: "made up",
		Identity: providers.Identity{Path: "/me", Field: "account.id", Source: "made up"},
		Events: []providers.EventRule{
			{Field: "type", Equals: "payment.succeeded", Endpoint: "POST /payments", Key: "request.key", ID: "id", Object: "data.id", Created: "data.created", At: "created", Is: providers.TookEffect, Source: "made up"},
			{Field: "type", Equals: "payment.failed", Endpoint: "POST /payments", Key: "request.key", ID: "id", Object: "data.id", Created: "data.created", At: "created", Is: providers.Refused, Source: "made up"},
		},
	}
}

// proving states what it takes for a payment or transfer that is not found to be proven absent.
func proving(p *providers.Provider) {
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		e.HandlingTime = 2 * time.Minute
		e.Lookups[0].Absent = providers.Absence{Consistent: true}
	}
}

// teller is a process that pays at a bank in a box, in virtual time.
type teller struct {
	*process
	box *providertest.Server
	via *faked
	log *bytes.Buffer

	mu      sync.Mutex
	unknown []onceward.Looked
	settled []onceward.Operation
	seen    []onceward.Evidence
}

const tellerToken = "Bearer t0ken"

// atBank opens a bank and a process that pays there.
func atBank(t *testing.T, cfg onceward.Config, adjust ...func(*providers.Provider)) *teller {
	t.Helper()
	return another(t, openBank(t, adjust...), cfg)
}

// openBank is a bank in a box, to which a credential is an account.
func openBank(t *testing.T, adjust ...func(*providers.Provider)) *providertest.Server {
	t.Helper()
	p := bank()
	for _, f := range adjust {
		f(&p)
	}
	srv := providertest.NewUnstartedServerInMemory(p, providertest.Objects("obj_"))
	srv.RetryAfter = -1
	srv.Account = func(r providertest.Request) string { return r.Header.Get("Authorization") }
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// another is a further process at the same bank.
func another(t *testing.T, srv *providertest.Server, cfg onceward.Config) *teller {
	t.Helper()
	return anotherAs(t, srv, cfg)
}

// anotherAs is another, with a table that is not the bank's own.
func anotherAs(t *testing.T, srv *providertest.Server, cfg onceward.Config, adjust ...func(*providers.Provider)) *teller {
	t.Helper()
	l := &teller{box: srv, log: &bytes.Buffer{}}
	if cfg.Reconcile == nil {
		cfg.Reconcile = &onceward.Reconcile{}
	}
	if cfg.Reconcile.OnUnknown == nil {
		cfg.Reconcile.OnUnknown = func(_ context.Context, _ onceward.Operation, looked onceward.Looked) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.unknown = append(l.unknown, looked)
			return nil
		}
	}
	if cfg.OnSettled == nil {
		cfg.OnSettled = func(_ context.Context, op onceward.Operation) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.settled = append(l.settled, op)
			return nil
		}
	}
	if cfg.Authorize == nil {
		cfg.Authorize = func(r *http.Request) error {
			if r.Header.Get("Authorization") == "" {
				r.Header.Set("Authorization", tellerToken)
			}
			return nil
		}
	}
	seen := &onceward.Trace{Looked: func(_ context.Context, _ onceward.Operation, e onceward.Evidence) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen = append(l.seen, e)
	}}
	if cfg.Trace == nil {
		cfg.Trace = seen
	}
	cfg.Logger = slog.New(slog.NewTextHandler(l.log, nil))
	table := srv.Provider().Clone()
	for _, f := range adjust {
		f(&table)
	}
	cfg.Providers = []providers.Provider{table}
	if cfg.Backoff == (backoff.Policy{}) {
		cfg.Backoff = once
	}
	l.via = &faked{via: srv.Client().Transport}
	l.process = oncetest.Start(t, l.via, cfg)
	return l
}

// pays asks for a payment by a name.
func (l *teller) pays(name string, options ...option) outcome {
	l.T.Helper()
	return l.asks(name, "/payments", `{"amount":10}`, options...)
}

func (l *teller) asks(name, path, text string, options ...option) outcome {
	l.T.Helper()
	all := []option{to(http.MethodPost, l.box.URL+path), body(text), with("Content-Type", "application/json")}
	return l.Ask(named(l.T, name), append(all, options...)...)
}

// runs runs in the background for a while.
func (l *teller) runs(d time.Duration) {
	l.T.Helper()
	ctx, stop := context.WithTimeout(l.T.Context(), d)
	defer stop()
	if d > time.Hour {
		ctx = seam.Seldom(ctx, time.Minute) // what is due is done in time all the same
	}
	assert.ErrorIs(l.T, l.Run(ctx), context.DeadlineExceeded)
	synctest.Wait()
}

// stands is how an operation stands in the journal.
func (l *teller) stands(name string) onceward.Operation {
	l.T.Helper()
	op, err := l.Lookup(context.Background(), onceward.Ref{ID: name})
	require.NoError(l.T, err)
	return op
}

func (l *teller) effects() int { return len(l.box.Effects()) }

// truly holds the journal against the bank's ledger.
func (l *teller) truly() { l.box.AssertSettledTruly(l.T, l.Journal.Journal) }

func (l *teller) told() []onceward.Looked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]onceward.Looked(nil), l.unknown...)
}

// plain is a Reconcile in tests that look by hand.
func plain() *onceward.Reconcile { return &onceward.Reconcile{} }

func TestReconcileConfig(t *testing.T) {
	for _, row := range []struct {
		name string
		set  func(*onceward.Config)
		says string
	}{
		{"a pause that is too short", func(c *onceward.Config) { c.Reconcile.Schedule = []time.Duration{time.Minute, 1} }, "Schedule[1]"},
		{"to give up before the first look", func(c *onceward.Config) { c.Reconcile.GiveUpAfter = time.Second }, "GiveUpAfter"},
		{"a negative time", func(c *onceward.Config) { c.Reconcile.GiveUpAfter = -1 }, "GiveUpAfter"},
		{"a budget that can't be used", func(c *onceward.Config) { c.Reconcile.Budget.Capacity = -1 }, "Budget"},
		{"references of no kind", func(c *onceward.Config) { c.Reconcile.References = 9 }, "References"},
		{"a journal that can't", func(c *onceward.Config) { c.Journal = struct{ journal.Journal }{memory.New()} }, "journal.Reconciler"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}, Reconcile: plain()}
			row.set(&cfg)
			_, err := onceward.New(cfg)
			require.ErrorContains(t, err, row.says)
		})
	}
	given := onceward.Reconcile{Schedule: []time.Duration{time.Minute}}
	_, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}, Reconcile: &given})
	require.NoError(t, err)
	assert.Zero(t, given.GiveUpAfter, "the caller's is not changed")
	least := onceward.Reconcile{Schedule: []time.Duration{time.Second}, GiveUpAfter: time.Second}
	_, err = onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}, Reconcile: &least})
	require.NoError(t, err, "the least that can be used")
}

// Without Config.Reconcile nothing is asked or kept.
func TestReconcileIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		without, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{l.box.Provider()}, HTTPClient: l.box.Client()})
		require.NoError(t, err)
		defer without.Shutdown(t.Context())
		ref := onceward.Ref{ID: "invoice-1"}
		_, err = without.Reconcile(t.Context(), ref)
		require.ErrorIs(t, err, journal.ErrNotFound)
		req, err := http.NewRequestWithContext(named(t, ref.ID), http.MethodPost, l.box.URL+"/payments", strings.NewReader(`{}`))
		require.NoError(t, err)
		l.box.Script(providertest.DropAfter())
		_, err = without.HTTPClient().Do(req)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		_, err = without.Reconcile(t.Context(), ref)
		require.ErrorContains(t, err, "Config.Reconcile is nil")
		_, err = without.Hear(t.Context(), "bank", onceward.Event{Body: []byte(`{}`), Evidence: true})
		require.ErrorContains(t, err, "Config.Reconcile is nil")
		assert.Equal(t, 1, l.box.Requests())
	})
}

// Who asks gets what was found, as the create would have answered it.
func TestReconcileOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.box.Script(providertest.DropAfter())
		out := l.pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment obj_1", op.Object)
		assert.True(t, op.Answer.Found)
		require.Len(t, op.Evidence, 1)
		e := op.Evidence[0]
		assert.Equal(t, journal.FindingTookEffect, e.Finding)
		assert.Equal(t, journal.BasisKey, e.Basis)
		assert.Equal(t, "Client.Reconcile", e.Actor)
		assert.NotContains(t, e.Target, "?")
		assert.Equal(t, 200, e.Status)
		assert.Equal(t, 1, e.Pages)
		var made struct{ ID string }
		require.NoError(t, json.Unmarshal(op.Answer.Body, &made))
		assert.Equal(t, "obj_1", made.ID)

		again := l.pays("invoice-1")
		require.NoError(t, again.Err)
		assert.Contains(t, again.Body, "obj_1")
		assert.Equal(t, 1, l.effects())
		l.truly()
	})
}

// Resume looks once for what is due.
func TestReconcileByResume(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.box.Script(providertest.DropAfter())
		require.Error(t, l.pays("invoice-1").Err)
		_, err := l.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, l.stands("invoice-1").State)
		time.Sleep(time.Minute)
		l.box.ScriptLooks(providertest.DelayAfter(5 * time.Second))
		_, err = l.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, l.stands("invoice-1").State)
		l.mu.Lock()
		defer l.mu.Unlock()
		assert.Len(t, l.settled, 1, "whoever waits for it is told of it by the same Resume")
	})
}

// The schedule is the one that the client was made with, and no look comes before its pause is over.
func TestReconcileKeepsItsSchedule(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		given := &onceward.Reconcile{Schedule: []time.Duration{time.Minute}}
		l := atBank(t, onceward.Config{Reconcile: given})
		given.Schedule[0] = time.Hour
		l.loses("invoice-1", providertest.DropAfter())
		op := l.stands("invoice-1")
		assert.GreaterOrEqual(t, op.LookAt.Sub(op.SettledAt), time.Minute)
		assert.LessOrEqual(t, op.LookAt.Sub(op.SettledAt), 66*time.Second)
		l.runs(2 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.stands("invoice-1").State)
	})
}

// What a look that somebody asks for finds out is told of at once: in the log, to Trace, and to OnSettled.
func TestReconcileIsToldAtOnce(t *testing.T) {
	trap(t, "found", func(t *testing.T) {
		var looked []onceward.Operation
		l := atBank(t, onceward.Config{Trace: &onceward.Trace{Looked: func(_ context.Context, op onceward.Operation, _ onceward.Evidence) {
			looked = append(looked, op)
		}}})
		l.loses("invoice-1", providertest.DropAfter())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(context.Background()) }()
		oncetest.Pass(time.Second)
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		oncetest.Pass(20 * time.Millisecond)
		l.mu.Lock()
		assert.Len(t, l.settled, 1)
		l.mu.Unlock()
		require.Len(t, looked, 1)
		assert.Equal(t, onceward.StateCompleted, looked[0].State)
		assert.Nil(t, looked[0].Answer)
		assert.Contains(t, l.log.String(), `level=INFO msg="found out"`)
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
	trap(t, "given up", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Schedule: []time.Duration{time.Minute, 24 * time.Hour}, GiveUpAfter: 10 * time.Minute}})
		l.loses("invoice-1", providertest.DropBefore())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(context.Background()) }()
		oncetest.Pass(5 * time.Minute)
		ask := func() string {
			l.log.Reset()
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			return l.log.String()
		}
		assert.Empty(t, ask(), "it is looked for again")
		oncetest.Pass(10*time.Minute + 1234*time.Millisecond) // no poll of its own comes just then
		assert.Contains(t, ask(), `level=WARN msg="it can't be found out, and needs attention"`)
		assert.Contains(t, l.stands("invoice-1").Attention, "given up after")
		oncetest.Pass(20 * time.Millisecond)
		assert.Len(t, l.told(), 1)
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
	trap(t, "nothing, of which nobody has to be told", func(t *testing.T) {
		j := &claimsNot{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.loses("invoice-1", providertest.DropBefore())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(context.Background()) }()
		oncetest.Pass(1234 * time.Millisecond)
		passes := j.fails.Load()
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		oncetest.Pass(20 * time.Millisecond)
		assert.Equal(t, passes, j.fails.Load(), "Run has nothing to do for it")
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
	trap(t, "a hook that panics", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			panic("a nil ledger")
		}}})
		l.loses("invoice-1", providertest.DropBefore())
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		seen := l.stands("invoice-1").Evidence
		require.NotEmpty(t, seen)
		assert.Equal(t, "Client.Reconcile", seen[len(seen)-1].Actor)
		assert.Contains(t, seen[len(seen)-1].Why, "a hook panicked")
		assert.Contains(t, l.log.String(), "a nil ledger")
	})
}

// Who asks for a look waits for it twenty seconds at most.
func TestReconcileThatHangs(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.loses("invoice-1", providertest.DropAfter())
		l.box.EveryLook(providertest.DelayBefore(time.Hour))
		asked := time.Now()
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.LessOrEqual(t, time.Since(asked), 20*time.Second)
	})
}

// Who asks hears of a journal that fails, but for the reading of what was found.
func TestReconcileOfAJournalThatFails(t *testing.T) {
	for _, row := range []struct {
		name  string
		fails func(*blinded)
	}{
		{"to begin the look", func(j *blinded) { j.looks = 1 }},
		{"to record what was found", func(j *blinded) { j.evidence = 1 }},
	} {
		trap(t, row.name, func(t *testing.T) {
			j := &blinded{Journal: memory.New()}
			l := atBank(t, onceward.Config{Journal: j})
			l.loses("invoice-1", providertest.DropAfter())
			row.fails(j)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, errBlinded)
			assert.Equal(t, onceward.StateUnknown, l.stands("invoice-1").State)
		})
	}
	trap(t, "to read what was found", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			j.unread = "invoice-1"
			return onceward.Finding{Found: journal.FindingTookEffect, Object: "payment p_1"}, nil
		}}}, unlookedFor)
		l.loses("invoice-1", providertest.DropAfter())
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment p_1", op.Object)
	})
}

// What a look finds waits for OnSettled or OnUnknown where there is one, and for nobody else.
func TestReconcileTellsWhoThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := openBank(t, unlookedFor)
		for _, listens := range []bool{true, false} {
			var heard []string
			cfg := onceward.Config{Backoff: once, Providers: []providers.Provider{box.Provider()}, Reconcile: plain()}
			if listens {
				cfg.Reconcile.OnUnknown = func(_ context.Context, op onceward.Operation, _ onceward.Looked) error {
					heard = append(heard, op.ID)
					return nil
				}
			}
			p := start(t, box.Client().Transport, cfg)
			l := &teller{process: p, box: box}
			l.loses("invoice-1", providertest.DropAfter())
			_, err := p.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			require.NotEmpty(t, l.stands("invoice-1").Attention)
			assert.Equal(t, !listens, p.Recorded(onceward.Ref{ID: "invoice-1"}).Delivered)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			if listens {
				assert.Equal(t, []string{"invoice-1"}, heard)
				assert.Equal(t, 1, report.Settled)
			} else {
				assert.Zero(t, report.Settled)
			}
		}
	})
}

// Who asks again and again does not use up the schedule.
func TestReconcileSchedule(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.box.Script(providertest.DropBefore())
		require.Error(t, l.pays("invoice-1").Err)
		for range 5 {
			time.Sleep(time.Minute)
			require.Error(t, l.pays("invoice-1").Err)
		}
		op := l.stands("invoice-1")
		assert.Equal(t, 5, op.Looks)
		assert.Less(t, time.Until(op.LookAt), 5*time.Minute)
		require.Error(t, l.pays("invoice-1").Err)
		assert.Equal(t, 5, l.stands("invoice-1").Looks, "once a minute")
		assert.Zero(t, l.effects())
	})
}

// Many who ask for an unknown operation at once share one look.
func TestReconcileSharesALook(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.box.Script(providertest.DropAfter())
		require.Error(t, l.pays("invoice-1").Err)
		before := l.box.Requests()
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() { assert.NoError(t, l.pays("invoice-1").Err) })
		}
		asking.Wait()
		assert.Equal(t, before+1, l.box.Requests())
		assert.Equal(t, 1, l.effects())
	})
}

// A look that waits for its budget does not hold up Shutdown.
func TestReconcileShutsDown(t *testing.T) {
	trap(t, "", func(t *testing.T) {
		r := plain()
		r.Budget.Capacity, r.Budget.ProbeEvery, r.Budget.PerSuccess = 1, 2*time.Minute, 0.001
		l := atBank(t, onceward.Config{Reconcile: r})
		for i := range 5 {
			l.box.Script(providertest.DropAfter())
			require.Error(t, l.pays("invoice-"+string(rune('a'+i))).Err)
		}
		done := make(chan error, 1)
		go func() { done <- l.Run(context.Background()) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		asked := time.Now()
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-done)
		assert.Equal(t, asked, time.Now(), "at once")

		next := another(t, l.box, onceward.Config{Journal: l.Journal.Journal})
		var given string // not the one whose look was cut off: that one was looked for
		for i := range 5 {
			if op := next.stands("invoice-" + string(rune('a'+i))); op.State == onceward.StateUnknown && op.Looks == 0 {
				given = op.ID
			}
		}
		require.NotEmpty(t, given)
		last, err := next.Reconcile(t.Context(), onceward.Ref{ID: given})
		require.NoError(t, err, "who asks need not wait for a look that was given back")
		assert.Equal(t, onceward.StateCompleted, last.State)
		next.runs(3 * time.Minute) // the one that was cut off may have a budget's pause before it; a lease is ten minutes
		for i := range 5 {
			assert.Equal(t, onceward.StateCompleted, next.stands("invoice-"+string(rune('a'+i))).State, "what was not looked for was given back")
		}
	})
}

// What died since nothing could look for it is looked for again by a release that can.
func TestReconcileByALaterRelease(t *testing.T) {
	t.Parallel()
	trap(t, "a look-up", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		before := anotherAs(t, l.box, onceward.Config{Journal: l.Journal.Journal}, unlooked)
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, before.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		before.runs(time.Hour)
		require.Len(t, before.told(), 1)
		require.NotEmpty(t, before.stands("invoice-1").Attention)
		before.runs(time.Hour)
		require.Len(t, before.told(), 1, "the same release has nothing more to look by")
		l.runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.stands("invoice-1").State)
	})
	trap(t, "a hook", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.runs(time.Hour)
		require.NotEmpty(t, l.stands("invoice-1").Attention)
		with := plain()
		with.Lookup = func(context.Context, onceward.Operation) (onceward.Finding, error) {
			return onceward.Finding{Found: journal.FindingTookEffect, Object: "payment obj_1"}, nil
		}
		next := another(t, l.box, onceward.Config{Journal: l.Journal.Journal, Reconcile: with})
		next.runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, next.stands("invoice-1").State)
		assert.Equal(t, "payment obj_1", next.stands("invoice-1").Object)
	})
	trap(t, "a look-up, beside a journal that fails", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		before := anotherAs(t, l.box, onceward.Config{Journal: j}, unlooked)
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, before.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		before.runs(time.Hour)
		require.NotEmpty(t, before.stands("invoice-1").Attention)
		j.hints = 1
		l.runs(time.Minute)
		require.Equal(t, onceward.StateUnknown, l.stands("invoice-1").State)
		assert.Contains(t, l.log.String(), errBlinded.Error())
		l.runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.stands("invoice-1").State, "it is tried again")
	})
	trap(t, "a credential", func(t *testing.T) {
		l := atBank(t, onceward.Config{Authorize: func(*http.Request) error { return nil }})
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.pays("invoice-1", with("Authorization", tellerToken)).Err, onceward.ErrOutcomeUnknown)
		l.runs(36 * time.Hour) // a look comes up to a tenth of its pause late
		require.NotEmpty(t, l.stands("invoice-1").Attention)
		assert.Len(t, l.told(), 1)
		next := another(t, l.box, onceward.Config{Journal: l.Journal.Journal})
		next.runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, next.stands("invoice-1").State)
	})
}

// The program's own look-up is asked where the table's found nothing, and knows that they did.
func TestReconcileHookAfterLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []onceward.Evidence
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(_ context.Context, op onceward.Operation) (onceward.Finding, error) {
			asked = append(asked, op.Evidence[len(op.Evidence)-1])
			return onceward.Finding{Found: journal.FindingAbsent, Why: "they say so"}, nil
		}}})
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.runs(30 * time.Minute)
		require.Len(t, asked, 4)
		assert.Equal(t, journal.FindingAbsent, asked[0].Finding)
		assert.Equal(t, journal.SourceLook, asked[0].Source)
		assert.Equal(t, onceward.StateCancelled, l.stands("invoice-1").State)
		l.runs(time.Minute)
		l.mu.Lock()
		assert.Len(t, l.settled, 1)
		l.mu.Unlock()
		require.NoError(t, l.pays("invoice-1").Err)
		l.truly()
		require.NoError(t, l.Shutdown(t.Context()))
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrShutdown)
	})
}

// What the program's own look-up tells changes nothing of what was sent again meanwhile, and is told as that.
func TestReconcileHookThatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *teller
		l = atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			_, err := l.ResolveAs(onceward.Ref{ID: "invoice-1"}, onceward.NotExecuted, nil)
			require.NoError(t, err)
			require.NoError(t, l.pays("invoice-1").Err)
			return onceward.Finding{Found: journal.FindingAbsent, Why: "they say so"}, nil
		}}})
		l.box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Empty(t, op.Resolved.By, "the word of before")
		assert.NotContains(t, l.log.String(), "found out")
		assert.NotContains(t, l.log.String(), "needs attention")
		l.truly()
	})
}

// What came beside an error is leased, and looked for.
func TestReconcileLooksBesideAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &claimsNot{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		j.failsBeside.Store(1)
		l.runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.stands("invoice-1").State)
		l.truly()
	})
}
