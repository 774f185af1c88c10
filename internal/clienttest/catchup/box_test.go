package catchup_test

import (
	"context"
	"net/http"
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

// The answer to a payment is lost, and so is the payment's event. The box's list has the event, and the pass settles
// the operation.
func TestCatchUpSettlesByTheListOfABox(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		table := providers.Square(day)
		for i := range table.Endpoints {
			table.Endpoints[i].Lookups = nil // the event alone settles the payment
		}
		box := providertest.NewUnstartedServerInMemory(table, providertest.Objects("pay_"))
		box.StartTLS()
		defer box.Close()
		box.Events("https://shop.example.com/webhooks", "secret")
		box.EveryEvent(providertest.EventManner{Lose: true})
		client, err := onceward.New(onceward.Config{
			Journal: memory.New(), Providers: []providers.Provider{box.Provider()}, HTTPClient: box.Client(), Reconcile: &onceward.Reconcile{},
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer token"); return nil },
		})
		require.NoError(t, err)
		defer client.Close()
		began := time.Now()
		pass(time.Minute)

		box.Script(providertest.DropAfter())
		ctx, cancel := context.WithTimeout(onceward.WithOperation(t.Context(), "invoice-1"), time.Minute)
		defer cancel()
		body := `{"idempotency_key":"00000000-0000-4000-8000-000000000001","source_id":"ccof:1","amount_money":{"amount":100,"currency":"USD"},"reference_id":"order-7"}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, box.URL+"/v2/payments", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		_, err = client.HTTPClient().Do(req)
		require.Error(t, err)
		op, err := client.Operation(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		require.Equal(t, journal.StateUnknown, op.State)

		pass(time.Hour)
		box.ScriptLooks(providertest.Status(http.StatusTooManyRequests, http.Header{"Retry-After": {"7"}}))
		result, err := client.CatchUp(t.Context(), "square", onceward.CatchUp{From: began, Types: []string{"payment.created"}})
		require.NoError(t, err)
		assert.Equal(t, 1, result.Read)
		op, err = client.Operation(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, op.State)
		assert.Len(t, box.Effects(), 1)
	})
}

// PayPal's list has small pages, and no next page that could be requested. A pass reads it window by window.
func TestCatchUpReadsAListWithoutANextPage(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		box := providertest.NewUnstartedServerInMemory(providers.PayPal(), providertest.Objects("cap_"))
		box.StartTLS()
		defer box.Close()
		box.Events("https://shop.example.com/webhooks", "secret")
		box.EveryEvent(providertest.EventManner{Lose: true})
		client, err := onceward.New(onceward.Config{
			Journal: memory.New(), Providers: []providers.Provider{box.Provider()}, HTTPClient: box.Client(), Reconcile: &onceward.Reconcile{},
			Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer token"); return nil },
		})
		require.NoError(t, err)
		defer client.Close()
		began := time.Now()
		for range 25 {
			pass(time.Minute)
			resp, err := box.Client().Post(box.URL+"/v2/payments/authorizations/A1/capture", "application/json", strings.NewReader(`{"invoice_id":"i"}`))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		pass(time.Hour)
		result, err := client.CatchUp(t.Context(), "paypal", onceward.CatchUp{From: began, Types: []string{"PAYMENT.CAPTURE.COMPLETED"}})
		require.NoError(t, err)
		assert.Equal(t, 25, result.Read)
		assert.True(t, result.GapUnknown)
	})
}
