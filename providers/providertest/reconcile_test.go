package providertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// forgetful is an API that takes keys for payments and shows them, but does not recognize a repeat by its key. For
// transfers it takes no key, and shows the caller's reference. A caller who does not know whether one was made has to
// look for it.
func forgetful() providers.Provider {
	p := telling()
	payment := &p.Endpoints[0]
	payment.Retention, payment.Remembers, payment.InFlightGuard = 0, providers.Nothing, false
	payment.HandlingTime = 2 * time.Minute
	payment.Lookups = payment.Lookups[:1]
	transfer := acme().Endpoints[0]
	transfer.Pattern, transfer.Object, transfer.Key = "POST /transfers", "transfer", providers.Key{}
	transfer.Retention, transfer.Remembers, transfer.InFlightGuard = 0, providers.Nothing, false
	transfer.HandlingTime = 2 * time.Minute
	look := payment.Lookups[0]
	look.By, look.Path, look.Query, look.TimeLayout = providers.ByReference, "/transfers", "from={since}&to={until}&limit=100", "unix"
	look.Same = []providers.Same{{Field: "external_id", Is: "{reference}"}, {Field: "amount", Is: "{request.amount}", As: providers.AsDecimal}}
	transfer.Lookups = []providers.Lookup{look}
	p.Endpoints = []providers.Endpoint{*payment, transfer}
	return p
}

// Faults hit requests, look-ups and events, within the limits that the table states. A completed operation has one
// effect and a cancelled one has none. In the end nearly all operations are settled.
func TestReconciliationMatchesTheLedger(t *testing.T) {
	t.Parallel()
	settled, lives := map[journal.State]int{}, soak.Times(1, 20)
	for n := range lives {
		t.Run(fmt.Sprint("life ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seed := soak.Seed(t, 1) + uint64(n)
				srv := providertest.NewUnstartedServerInMemory(forgetful(), providertest.Objects("obj_"))
				srv.PageSize = 3
				srv.Start()
				defer srv.Close()
				srv.Lag(0, 50*time.Minute)
				srv.Seed(seed, providertest.Mix{
					DropBefore: 0.1, DropAfter: 0.15, PageAfter: 0.05, PageBefore: 0.05, FailAfter: 0.05, Status: 0.05, Cut: 0.05,
					Straggle: 0.1, MaxStraggle: 100 * time.Second,
				})
				srv.SeedEvents(seed, providertest.EventMix{
					Lose: 0.5, Duplicate: 0.2, Reorder: 0.2, BeforeResponse: 0.2, Thin: 0.2, Forged: 0.1, MaxDelay: 6 * time.Hour,
				})
				j := memory.New()
				client, err := onceward.New(onceward.Config{
					Journal: j, Providers: []providers.Provider{srv.Provider()}, HTTPClient: srv.Client(),
					Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer live_1"); return nil },
					Backoff:   backoff.Policy{MaxAttempts: 1},
					Reconcile: &onceward.Reconcile{},
				})
				require.NoError(t, err)
				v, err := webhook.StandardWebhooks(hookSecret)
				require.NoError(t, err)
				hooks := providertest.ServeInMemory(client.WebhookHandler("acme", v, nil))
				defer hooks.Close()
				srv.EventClient = hooks.Client()
				srv.Events(hooks.URL, hookSecret)

				ctx, stop := context.WithCancel(seam.Seldom(t.Context(), 10*time.Minute)) // no other process leaves operations
				ran := make(chan error, 1)
				go func() { ran <- client.Run(ctx) }()
				for n := range 45 {
					named := onceward.WithOperation(t.Context(), fmt.Sprint("payment ", n))
					// Two transfers after each other are alike, and settled by a person.
					target, body := "/payments", fmt.Sprintf(`{"amount":%d}`, n)
					if n%3 > 0 {
						target, body = "/transfers", fmt.Sprintf(`{"amount":10,"external_id":"invoice %d"}`, n/3)
					}
					req, err := http.NewRequestWithContext(named, http.MethodPost, srv.URL+target, strings.NewReader(body))
					require.NoError(t, err)
					req.Header.Set("Content-Type", "application/json")
					if resp, err := client.HTTPClient().Do(req); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body) // a cut is in the record
						resp.Body.Close()
					}
					time.Sleep(30 * time.Minute)
				}
				srv.Seed(seed, providertest.Mix{}) // the outage is over
				time.Sleep(8 * 24 * time.Hour)
				stop()
				if err := <-ran; !errors.Is(err, context.Canceled) {
					assert.NoError(t, err)
				}
				assert.NoError(t, client.Shutdown(context.Background()))

				srv.AssertSettledTruly(t, j)
				for op, err := range j.List(t.Context(), journal.Filter{}) {
					require.NoError(t, err)
					settled[op.State]++
					if op.State == journal.StateUnknown {
						t.Logf("%s: %s", op.ID, op.Attention)
					}
				}
			})
		})
	}
	t.Log(settled)
	assert.Greater(t, settled[journal.StateCompleted], 20*lives)
	assert.Positive(t, settled[journal.StateUnknown], "an empty list proves no absence")
}
