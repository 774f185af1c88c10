package postgres_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// joined is a journal that keeps the first session of its process, for a test to kill.
type joined struct {
	*postgres.Journal
	first *atomic.Pointer[machine.Session]
}

func (j *joined) Join(ctx context.Context) (machine.Session, error) {
	s, err := j.Journal.Join(ctx)
	j.first.CompareAndSwap(nil, &s)
	return s, err
}

// An order whose process is killed in the middle of a charge ends in another process, with the provider's answer, though the
// webhook of the charge came first.
func TestOrderEndsAfterAKillAndAWebhook(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	charged, left := make(chan struct{}, 8), make(chan flow.Flow, 8)
	box := providertest.NewUnstartedServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charged <- struct{}{}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"ch_1","object":"charge","status":"succeeded","refunded":false,"amount":2000,"currency":"eur"}`)
	}))
	box.Start()
	t.Cleanup(box.Close)
	process := func(j machine.Store) (*onceward.Client, *flow.Runner, *flow.Func[int, string]) {
		client, err := onceward.New(onceward.Config{
			Journal: j, Providers: []providers.Provider{box.Provider()}, HTTPClient: box.Client(), Reconcile: &onceward.Reconcile{},
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer sk_test_1"); return nil },
		})
		require.NoError(t, err)
		pay := flow.Define("pay", 1, func(ctx context.Context, cents int) (string, error) {
			return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, box.URL+"/v1/charges", strings.NewReader("amount=2000&currency=eur"))
				if err != nil {
					return "", err
				}
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				resp, err := client.HTTPClient().Do(req)
				if err != nil {
					return "", err
				}
				defer resp.Body.Close()
				var c struct{ ID string }
				return c.ID, json.NewDecoder(resp.Body).Decode(&c)
			})
		})
		flows, err := flow.New(client, flow.Config{Definitions: []flow.Definition{pay}, Trace: &flow.Trace{Left: func(f flow.Flow) { left <- f }}})
		require.NoError(t, err)
		return client, flows, pay
	}
	j := open(t, server, opts)
	var first atomic.Pointer[machine.Session]
	_, flows, pay := process(&joined{j, &first})
	survivor, _, _ := process(open(t, server, opts))
	v, err := webhook.Stripe("whsec_of_this_test_alone")
	require.NoError(t, err)
	hook := httptest.NewServer(survivor.WebhookHandler("stripe", v, nil))
	t.Cleanup(hook.Close)
	box.Events(hook.URL, "whsec_of_this_test_alone")
	box.EveryEvent(providertest.EventManner{BeforeResponse: true})

	box.Script(providertest.DelayAfter(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() { defer close(gone); _, _ = pay.Run(ctx, flows, "order-1", 2000) }()
	defer func() { cancel(); <-gone }()
	<-charged
	f, err := j.GetFlow(t.Context(), onceward.Ref{ID: "order-1"})
	require.NoError(t, err)
	require.Equal(t, (*first.Load()).ID(), f.Holder)
	require.NoError(t, postgres.Kill(t.Context(), *first.Load()))
	running, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = survivor.Run(running) }()
	defer func() { stop(); <-done }()
	for f := range left {
		if f.State == flow.StateFinished {
			break
		}
		require.NotEqual(t, flow.StateSetAside, f.State, f.Cause)
		require.Zero(t, f.Failures, f.Cause)
	}
	assert.Len(t, box.Effects(), 1)
}
