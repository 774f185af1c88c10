package reconcile_test

import (
	"context"
	"fmt"
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
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// takenBack makes the bank report refunds of a payment, and that a payment came back.
func takenBack(p *providers.Provider) {
	for kind, is := range map[string]providers.Outcome{"payment.refunded": providers.Reversed, "payment.reinstated": providers.TookEffect} {
		p.Events = append(p.Events, providers.EventRule{
			Field: "type", Equals: kind, Endpoint: "POST /payments", ID: "id", Object: "data.id", At: "created", Is: is, Source: "made up",
		})
	}
}

// A payment is completed, and its states that come late are kept with it, each event once. The hook has its outcome, and is
// not called again.
func TestLateStatesOfAPayment(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := atBank(t, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Heard: true}}, takenBack)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				return answers(http.StatusOK, `{"id":"obj_7"}`)
			}
			return nil
		})
		ref := paysAs(t, l, t.Context(), "a")
		l.Runs(time.Minute)
		hears := func(id, kind string) {
			_, err := l.RecordEvent(t.Context(), "bank", l.Happened(id, kind, "", "obj_7", time.Now()))
			require.NoError(t, err)
		}
		hears("evt_0", "payment.succeeded") // says no more than the answer
		assert.Empty(t, findings(t, l, ref))
		for n, kind := range []string{"payment.refunded", "payment.refunded", "payment.reinstated", "payment.refunded"} {
			for range 2 {
				hears(fmt.Sprint("evt_", n+1), kind)
			}
			l.Runs(time.Minute)
		}
		hears("evt_1", "payment.refunded")
		hears("evt_3", "payment.reinstated")
		took, reversed := journal.FindingTookEffect, journal.FindingReversed
		assert.Equal(t, []journal.Finding{reversed, reversed, took, reversed}, findings(t, l, ref))
		for n := range 30 {
			hears(fmt.Sprint("flood_", n), []string{"payment.reinstated", "payment.refunded"}[n%2])
		}
		op, err := l.Operation(t.Context(), ref)
		require.NoError(t, err)
		require.Len(t, op.Evidence, 9)
		assert.Equal(t, "evt_1", op.Evidence[0].Actor)
		assert.Equal(t, "flood_29", op.Evidence[8].Actor)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, onceward.EffectExecuted, op.Effect)
		assert.Empty(t, op.Attention)
		assert.Equal(t, 34, strings.Count(l.Log.String(), "event=operation.heard"))
		assert.NotContains(t, l.Log.String(), "event=operation.found", "it was settled before")
		l.Runs(time.Hour)
		l.Mu.Lock()
		defer l.Mu.Unlock()
		assert.Len(t, l.Settled, 1)
	})
}

// A transfer that was made fails later. The provider's own event list says so.
func TestLateStateInAListedEvent(t *testing.T) {
	for _, row := range []struct {
		table                   providers.Provider
		url, body, made, listed string
		location                string
	}{
		{
			table: providers.Dwolla(), url: "https://api.dwolla.com/transfers", body: `{"amount":{"value":"10.00","currency":"USD"}}`,
			location: "https://api.dwolla.com/transfers/81BA6F36",
			listed:   `{"_links":{},"id":"03c7e14c","created":"2000-01-05T12:00:05.207Z","topic":"transfer_failed","resourceId":"81BA6F36"}`,
		},
		{
			table: providers.Plaid(), url: "https://production.plaid.com/transfer/create", body: `{"authorization_id":"a_1","account_id":"acc_1","description":"rent"}`,
			made:   `{"transfer":{"id":"460cbe92","status":"pending"},"request_id":"mdqf"}`,
			listed: `{"transfer_events":[{"event_id":7,"event_type":"returned","transfer_id":"460cbe92","timestamp":"2000-01-05T12:00:06Z"}],"has_more":false}`,
		},
	} {
		virtual(t, row.table.Name, func(t *testing.T) {
			client, err := onceward.New(onceward.Config{
				Journal: memory.New(), Providers: []providers.Provider{row.table}, Reconcile: &onceward.Reconcile{},
				Authorize: func(*http.Request) error { return nil },
				HTTPClient: &http.Client{Transport: oncetest.RoundTrip(func(*http.Request) (*http.Response, error) {
					resp := answers(http.StatusCreated, row.made)
					if row.location != "" {
						resp.Header.Set("Location", row.location)
					}
					return resp, nil
				})},
			})
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(onceward.WithOperation(t.Context(), "rent-7"), http.MethodPost, row.url, strings.NewReader(row.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.HTTPClient().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())

			ops, err := client.RecordEvent(t.Context(), row.table.Name, onceward.Event{Body: []byte(row.listed), Evidence: true})
			require.NoError(t, err)
			require.Len(t, ops, 1)
			assert.Equal(t, "rent-7", ops[0].ID)
			assert.Equal(t, onceward.EffectExecuted, ops[0].Effect)
			require.Len(t, ops[0].Evidence, 1)
			assert.Equal(t, journal.FindingReversed, ops[0].Evidence[0].Finding)
			require.NoError(t, client.Shutdown(t.Context()))
		})
	}
}

// A tenant's payment is refunded, and the money comes back. An unsigned event, and one at another tenant's endpoint, adds
// nothing to the payment's evidence.
func TestLateStatesFromElsewhereAreNotKept(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := atBank(t, onceward.Config{Journal: j}, unlooked, takenBack, func(p *providers.Provider) { p.KeysPerScope = true })
		l.Fakes(sameObject)
		own := onceward.WithScope(t.Context(), "a")
		ref := paysAs(t, l, own, "a")
		hears := func(ctx context.Context, id, kind string, evidence bool) {
			e := l.Happened(id, kind, "", "obj_7", time.Now())
			e.Evidence = evidence
			_, err := l.RecordEvent(ctx, "bank", e)
			require.NoError(t, err)
		}
		hears(own, "evt_1", "payment.refunded", true)
		for _, kind := range []string{"payment.reinstated", "payment.refunded"} {
			hears(own, "evt_2", kind, false)
			hears(t.Context(), "evt_2", kind, true)
			hears(onceward.WithScope(t.Context(), "b"), "evt_2", kind, true)
		}
		assert.Equal(t, []journal.Finding{journal.FindingReversed}, findings(t, l, ref))
		hears(own, "evt_2", "payment.reinstated", true) // an event elsewhere does not keep the genuine one out
		assert.Equal(t, []journal.Finding{journal.FindingReversed, journal.FindingTookEffect}, findings(t, l, ref))
	})
}
