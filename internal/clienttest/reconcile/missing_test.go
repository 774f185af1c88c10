package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// lasting makes the bank remember keys and everything under them for a day.
func lasting(p *providers.Provider) {
	e := &p.Endpoints[0]
	e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
}

// byID lets a payment be got by its id.
func byID(p *providers.Provider) { p.Endpoints[0].Lookups[0].Fetch = "/payments/{id}" }

// payments is a one-step flow, whose result is the id in the answer. It hides each error of its call, as some SDKs do.
func payments(l *teller) *flow.Func[string, string] {
	return flow.Define("pay", 1, func(ctx context.Context, _ string) (string, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Box.URL+"/payments", strings.NewReader(`{"amount":10}`))
			if err != nil {
				return "", err
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := l.HTTP.Do(req)
			if err != nil {
				return "", fmt.Errorf("the SDK failed: %v", err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				return "", fmt.Errorf("the SDK failed: %v", err)
			}
			var paid struct{ ID string }
			return paid.ID, json.Unmarshal(text, &paid)
		})
	})
}

// A flow ends with the provider's answer, even if the first answer is lost and the webhook comes first.
func TestFlowGetsTheAnswerThoughAWebhookWasFirst(t *testing.T) {
	t.Parallel()
	forgets := func(*providers.Provider) {}
	for bank, adjust := range map[string][]func(*providers.Provider){
		"a bank that remembers keys, and has no look-up": {lasting, unlooked},
		"a bank that remembers keys":                     {lasting},
		"a bank that forgets keys":                       {forgets},
		"a bank that shows a payment by its id":          {forgets, byID},
		"a bank whose answer is a secret":                {lasting, unlooked, func(p *providers.Provider) { p.Endpoints[0].SecretResponse = true }},
	} {
		for spoilt, fault := range map[string]providertest.Fault{
			"lost": providertest.DropAfter(), "cut in its head": providertest.CutResponseAt(20), "cut": providertest.CutAt(9), "late": providertest.DelayAfter(70 * time.Second),
		} {
			for when, event := range map[string]providertest.EventManner{
				"before it": {BeforeResponse: true}, "at once": {Delay: 30 * time.Millisecond}, "after a while": {Delay: 3 * time.Second}, "late": {Delay: 40 * time.Second},
			} {
				name := bank + "/its answer is " + spoilt + "/the webhook comes " + when
				if !sample.TakesName(name, 3) {
					continue
				}
				virtual(t, name, func(t *testing.T) {
					l := tellerOfFlows(t, atBank(t, onceward.Config{}, adjust...).Box, onceward.Config{})
					pay := payments(l)
					require.NoError(t, l.Flows.Register(pay))
					l.Hears(200)
					l.Box.EveryEvent(event)
					l.Box.Script(fault)
					_, _ = pay.Run(t.Context(), l.Flows, "order-1", "x")
					l.Runs(5 * time.Minute)
					f := l.Order()
					require.Equal(t, flow.StateFinished, f.State, "%s: %v", f.Cause, f.History)
					assert.Zero(t, f.Failures)
					id, err := pay.Run(t.Context(), l.Flows, "order-1", "x")
					require.NoError(t, err)
					assert.Equal(t, "obj_1", id)
					assert.Equal(t, 1, l.Effects())
					l.Truly()
				})
			}
		}
	}
}

// A flow waits for an answer that can't be fetched yet, without a failure. Within a day it is on the list of what needs attention.
func TestFlowWaitsForAnAnswerThatMayCome(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, onceward.Config{})
		pay := payments(l)
		require.NoError(t, l.Flows.Register(pay))
		l.Box.Script(providertest.DropAfter())
		_, err := pay.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		_, err = l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Charge().Key, "obj_1", time.Now()))
		require.NoError(t, err)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/payments" {
				return answers(500, "{}")
			}
			return nil
		})
		l.Runs(time.Hour)
		f := l.Order()
		assert.Equal(t, flow.StateWaiting, f.State)
		assert.Zero(t, f.Failures)
		assert.Contains(t, f.Cause, "completed, and its answer is not kept")
		_, err = pay.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrPending)
		require.NotErrorIs(t, err, onceward.ErrAnswerGone, "the flow has not ended")
		l.Runs(25 * time.Hour)
		recorded, err := l.Journal.Store.(machine.Flows).GetFlow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		assert.Contains(t, recorded.NeedsAttention(time.Now()), "each run for a day was put off")
		l.Fakes(func(*http.Request) *http.Response { return nil })
		l.Runs(15 * time.Minute)
		assert.Equal(t, flow.StateFinished, l.Order().State, "it goes on by itself")
		assert.Equal(t, 1, l.Effects())
	})
}

// A flow whose answer can't be had any more is set aside, with the reason and the remedy. Each remedy lets it end.
func TestFlowWhoseAnswerCanNotBeHadIsSetAside(t *testing.T) {
	t.Parallel()
	secretly := func(p *providers.Provider) {
		p.Endpoints[0].SecretResponse, p.Endpoints[0].Lookups[0].SameShape = true, false
	}
	for name, row := range map[string]struct {
		adjust []func(*providers.Provider)
		spoils func(l *teller)
		cause  string
	}{
		"no look-up, and the window is over":     {[]func(*providers.Provider){lasting, unlooked}, func(*teller) { pass(24 * time.Hour) }, "retention has passed"},
		"a secret, and the window is over":       {[]func(*providers.Provider){lasting, secretly}, func(*teller) { pass(24 * time.Hour) }, "is a secret"},
		"it has changed":                         {nil, func(l *teller) { changes(l) }, "has changed since"},
		"no look-up, and keys are forgotten":     {[]func(*providers.Provider){unlooked}, func(*teller) {}, "recognises no key"},
		"it shows another shape than the answer": {[]func(*providers.Provider){func(p *providers.Provider) { p.Endpoints[0].Lookups[0].SameShape = false }}, func(*teller) {}, "another shape"},
	} {
		for remedy, mend := range map[string]func(t *testing.T, l *teller){
			"ResolveStep": func(t *testing.T, l *teller) {
				_, err := l.Flows.ResolveStep(t.Context(), onceward.Ref{ID: "order-1"}, "charge", "obj_1", onceward.ResolveOptions{By: "ada"})
				require.NoError(t, err)
			},
			"Resolve": func(t *testing.T, l *teller) {
				_, err := l.Resolve(t.Context(), l.Charge().Seen, onceward.Executed, onceward.ResolveOptions{By: "ada", Answer: &onceward.Answer{Status: 200, Body: []byte(`{"id":"obj_1"}`)}})
				require.NoError(t, err)
				_, err = l.Flows.Retry(t.Context(), onceward.Ref{ID: "order-1"})
				require.NoError(t, err)
			},
		} {
			virtual(t, name+"/"+remedy, func(t *testing.T) {
				l := tellerOfFlows(t, atBank(t, onceward.Config{}, row.adjust...).Box, onceward.Config{})
				pay := payments(l)
				require.NoError(t, l.Flows.Register(pay))
				l.Box.Script(providertest.DropAfter())
				_, err := pay.Run(t.Context(), l.Flows, "order-1", "x")
				require.Error(t, err)
				_, err = l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Charge().Key, "obj_1", time.Now()))
				require.NoError(t, err)
				row.spoils(l)
				l.Runs(2 * time.Hour)
				f := l.Order()
				require.Equal(t, flow.StateSetAside, f.State)
				assert.Contains(t, f.Cause, row.cause)
				assert.Contains(t, f.Cause, "supply it by Resolve, or give the result of step", "and what helps")
				mend(t, l)
				l.Runs(time.Minute)
				assert.Equal(t, flow.StateFinished, l.Order().State)
				assert.Equal(t, 1, l.Effects())
			})
		}
	}
}

// changes makes look-ups show that the payment was refunded.
func changes(l *teller) {
	l.Fakes(func(r *http.Request) *http.Response {
		if r.Method != http.MethodGet || r.URL.Path != "/payments" {
			return nil
		}
		return answers(200, fmt.Sprintf(`{"has_more":false,"data":[{"id":"obj_1","status":"refunded","created":%d,"idempotency_key":%q}]}`, time.Now().Unix(), l.Charge().Key))
	})
}

// Every caller by the name gets the answer of an operation that a webhook completed, and so does Client.Reconcile.
func TestCallersGetTheAnswerThoughAWebhookWasFirst(t *testing.T) {
	t.Parallel()
	lost := func(t *testing.T, adjust ...func(*providers.Provider)) *teller {
		l := atBank(t, onceward.Config{Backoff: once}, adjust...)
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Pays("invoice-1").Err)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now()))
		require.NoError(t, err)
		require.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		return l
	}
	posts := func(l *teller) int { return strings.Count(l.Box.Ledger(), "POST /payments") }
	virtual(t, "callers at the same time", func(t *testing.T) {
		l := lost(t, lasting, unlooked)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				out := l.Pays("invoice-1")
				assert.NoError(t, out.Err)
				assert.Contains(t, out.Body, "obj_1")
				assert.True(t, out.Op.Replayed)
			})
		}
		all.Wait()
		assert.Equal(t, 2, posts(l), "one of them asks the bank")
		op := l.Stands("invoice-1")
		assert.False(t, op.Answer.Found)
		assert.Equal(t, "payment obj_1", op.Object)
		l.Truly()
	})
	virtual(t, "a caller whose credential is another account's", func(t *testing.T) {
		l := lost(t, lasting, unlooked)
		out := l.Pays("invoice-1", with("Authorization", "Bearer another"))
		require.ErrorIs(t, out.Err, onceward.ErrAnswerGone)
		assert.Equal(t, 1, posts(l), "it would be another effect there")
		assert.Equal(t, 1, l.Effects())
	})
	virtual(t, "once a minute, while the bank is down", func(t *testing.T) {
		l := lost(t, lasting, unlooked)
		l.Box.Script(providertest.Status(503, nil), providertest.Status(503, nil))
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrAnswerGone)
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrAnswerGone)
		assert.Contains(t, out.Err.Error(), "ask again later")
		assert.Equal(t, 2, posts(l))
		pass(time.Minute)
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrAnswerGone)
		pass(time.Minute)
		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	})
	virtual(t, "Client.Reconcile", func(t *testing.T) {
		l := lost(t, lasting, unlooked)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Contains(t, string(op.Answer.Body), "obj_1")
		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 2, posts(l))
	})
	virtual(t, "Client.Reconcile, in vain", func(t *testing.T) {
		l := lost(t, unlooked)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrAnswerGone)
		assert.Contains(t, err.Error(), "recognises no key")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, 1, posts(l))
	})
	virtual(t, "by the known id, once the list does not show it any more", func(t *testing.T) {
		l := lost(t, byID)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && r.URL.Path == "/payments" {
				return answers(200, `{"has_more":false,"data":[]}`)
			}
			return nil
		})
		pass(40 * 24 * time.Hour)
		out := l.Pays("invoice-1")
		require.NoError(t, out.Err)
		assert.Contains(t, out.Body, "obj_1")
		assert.Equal(t, 1, posts(l))
	})
	virtual(t, "withdrawn, so that nothing is sent", func(t *testing.T) {
		l := lost(t, lasting, unlooked)
		op := l.Stands("invoice-1")
		_, err := l.Withdraw(t.Context(), op.Ref, onceward.ResolveOptions{By: "ada"})
		require.ErrorIs(t, err, onceward.ErrInvalidEvent, "it has taken effect")
		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 1, l.Effects())
	})
}

// A process that is killed in the middle of a charge leaves its flow to the next one, which gets the answer.
func TestFlowGoesOnAfterAKillThoughAWebhookWasFirst(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		j := memory.New()
		box := atBank(t, onceward.Config{}, lasting, unlooked).Box
		l := tellerOfFlows(t, box, onceward.Config{Journal: j})
		pay := payments(l)
		require.NoError(t, l.Flows.Register(pay))
		box.Script(providertest.DelayAfter(20 * time.Second))
		go func() { _, _ = pay.Run(context.Background(), l.Flows, "order-1", "x") }()
		pass(time.Second)
		l.Crash()
		synctest.Wait()

		next := tellerOfFlows(t, box, onceward.Config{Journal: j})
		require.NoError(t, next.Flows.Register(payments(next)))
		_, err := next.RecordEvent(t.Context(), "bank", next.Happened("evt_1", "payment.succeeded", next.Charge().Key, "obj_1", time.Now()))
		require.NoError(t, err)
		next.Runs(5 * time.Minute)
		f := next.Order()
		assert.Equal(t, flow.StateFinished, f.State)
		assert.Zero(t, f.Failures)
		assert.Equal(t, 1, next.Effects())
	})
}
