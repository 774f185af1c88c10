package reconcile_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// An event shows an earlier generation's effect while the next one is being sent, which then has no effect. No caller
// gets "no effect", nothing more is sent, and the operation needs attention.
func TestWebhookOfAnEarlierGenerationDuringTheNext(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		reply oncetest.Reply
	}{
		{"which never leaves", refuses()},
		{"which is refused", says(http.StatusPaymentRequired, `{"error":"no"}`)},
		{"which is lost", loses()},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Journal: onDisk(t)}, unlooked, func(p *providers.Provider) { p.Identity = providers.Identity{} })
			l.Box.Script(providertest.DropAfter())
			out := l.Pays("invoice-1")
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			l.Says("invoice-1", onceward.NotExecuted)
			via := &line{}
			next := l.Beside(via.Then(oncetest.Doing(func() {
				_, err := l.RecordEvent(context.Background(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
				require.NoError(t, err)
			}, row.reply)), quick, plain())
			again := next.Pays("invoice-1")
			require.ErrorIs(t, again.Err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, []string{"invoice-1"}, l.NeedsAttention())
			sent := len(via.Sent())
			require.Error(t, next.Pays("invoice-1").Err)
			l.Runs(time.Hour)
			assert.Len(t, via.Sent(), sent, "nothing more is sent")
			assert.Equal(t, 1, l.Effects())
			assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		})
	}
}

// A late answer proves an earlier generation's effect while the next one is pending or unknown. Nothing more is sent,
// and the operation needs attention. A caller frees the name only by stating that the answer is wrong.
func TestLateAnswerOfAnEarlierGenerationDuringTheNext(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		table func(*providers.Endpoint)
		then  onceward.State
	}{
		{"which waits", func(*providers.Endpoint) {}, onceward.StatePending},
		{"which is unknown", func(e *providers.Endpoint) { e.Remembers, e.Retention = providers.Nothing, 0 }, onceward.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			var told []onceward.Looked
			cfg := onceward.Config{Providers: []providers.Provider{own(row.table)}, Backoff: once, Reconcile: &onceward.Reconcile{
				OnUnknown: func(_ context.Context, _ onceward.Operation, looked onceward.Looked) error {
					told = append(told, looked)
					return nil
				},
			}}
			via := (&line{}).Then(takes(20*time.Second, says(201, `{"id":"late"}`)), loses())
			slow := start(t, via, cfg)
			caller := make(chan outcome, 1)
			asks := func(p *process) outcome { return p.Ask(named(t, "invoice-1"), to(http.MethodPost, ownURL)) }
			go func() { caller <- asks(slow) }()
			pass(time.Second)
			require.NoError(t, slow.Journal.Sessions()[0].End(t.Context())) // it is taken for dead while it is only slow
			cfg.Journal = slow.Journal.Store
			other := start(t, via, cfg)
			ref := onceward.Ref{ID: "invoice-1"}
			_, err := other.ResolveAs(ref, onceward.NotExecuted, nil)
			require.NoError(t, err)
			require.Error(t, asks(other).Err)
			require.Equal(t, row.then, other.Recorded(ref).State)
			require.ErrorIs(t, (<-caller).Err, onceward.ErrOutcomeUnknown)
			op := other.Recorded(ref)
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.Contains(t, op.Attention, "twice")
			_, err = other.ResolveAs(ref, onceward.NotExecuted, nil)
			require.ErrorIs(t, err, journal.ErrInvalidEvent)
			_, err = other.ResolveAs(ref, onceward.SendAgain, nil)
			require.ErrorIs(t, err, journal.ErrInvalidEvent)
			_, err = other.Resume(t.Context())
			require.NoError(t, err)
			assert.Len(t, via.Sent(), 2)
			if assert.Len(t, told, 1, "a person is called") {
				assert.Contains(t, told[0].Why, "twice")
			}
		})
	}
}

// A webhook shows one object while the operation is being sent, and its own answer shows another. It needs attention at
// once, even if the caller has an answer, and whatever hooks there are.
func TestAnswerBesideAnotherObjectNeedsAttention(t *testing.T) {
	t.Parallel()
	for name, outcomes := range map[string]*onceward.Outcomes{
		"with OnUnknown alone":        nil,
		"with OnUnknown and Outcomes": {Handle: func(context.Context, onceward.Operation) error { return nil }},
	} {
		virtual(t, name, func(t *testing.T) {
			var told []onceward.Looked
			box := openBank(t, func(p *providers.Provider) { p.Identity = providers.Identity{} })
			l := &teller{Box: box}
			via := &line{}
			l.Process = start(t, via, onceward.Config{Providers: []providers.Provider{box.Provider()}, Backoff: once, Outcomes: outcomes, Reconcile: &onceward.Reconcile{
				OnUnknown: func(_ context.Context, _ onceward.Operation, looked onceward.Looked) error {
					told = append(told, looked)
					return nil
				},
			}, Authorize: func(r *http.Request) error { r.Header.Set("Authorization", tellerToken); return nil }})
			via.Then(oncetest.Doing(func() {
				_, err := l.RecordEvent(context.Background(), "bank", l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_9", time.Now()))
				require.NoError(t, err)
			}, says(http.StatusOK, `{"id":"obj_1","status":"succeeded","amount":10}`)))
			require.NoError(t, l.Pays("invoice-1").Err)
			assert.NotEmpty(t, l.Stands("invoice-1").Attention)
			l.Runs(time.Minute)
			require.Len(t, told, 1)
		})
	}
}

// An event shows a second effect during the delivery of an outcome, to Outcomes.Handle or to a caller that has not
// closed the body. Only the outcome counts as delivered, and Outcomes.Handle gets the second effect.
func TestWebhookOfASecondEffectDuringTheDelivery(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		virtual(t, map[bool]string{false: "to its caller", true: "to Outcomes.Handle"}[all], func(t *testing.T) {
			var l *teller
			var told []string
			hears := func() { l.EvidenceOf("invoice-1", "payment obj_9") }
			l = atBank(t, onceward.Config{Outcomes: &onceward.Outcomes{Heard: all, Handle: func(_ context.Context, op onceward.Operation) error {
				told = append(told, op.Attention)
				if all && len(told) == 1 {
					hears()
				}
				return nil
			}}})
			req, err := http.NewRequestWithContext(named(t, "invoice-1"), http.MethodPost, l.Box.URL+"/payments", strings.NewReader(`{"amount":10}`))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := l.HTTP.Do(req)
			require.NoError(t, err)
			if !all {
				hears()
			}
			require.NoError(t, resp.Body.Close())
			l.Runs(time.Hour)
			require.NotEmpty(t, told)
			assert.Contains(t, told[len(told)-1], "twice")
		})
	}
}

// A release drops a provider's table during its outage, so nothing sends its pending operations. They need
// attention once they are overdue by a day, until a process has the table again.
func TestPendingThatNoProcessSendsNeedsAttention(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		via := (&line{}).Then(refuses())
		l := &teller{Process: start(t, via, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Backoff: once})}
		require.ErrorIs(t, l.Ask(named(t, "invoice-1"), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
		require.NoError(t, l.Shutdown(t.Context()))
		next := &teller{Process: start(t, via, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe()}, Backoff: once})}
		next.Runs(23 * time.Hour)
		assert.Empty(t, next.NeedsAttention())
		next.Runs(3 * time.Hour)
		assert.Equal(t, []string{"invoice-1"}, next.NeedsAttention())
		assert.Empty(t, via.Sent())
		require.NoError(t, next.Shutdown(t.Context()))
		again := &teller{Process: start(t, via, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Backoff: once})}
		again.Runs(time.Minute)
		assert.Empty(t, again.NeedsAttention())
		assert.Equal(t, onceward.StateCompleted, again.Recorded(onceward.Ref{ID: "invoice-1"}).State)
	})
}
