package catchup_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/webhook"
)

// Each shipped table that has a list is read at its host, and the handler gets a webhook's body.
func TestCatchUpByTheShippedTables(t *testing.T) {
	for name, row := range map[string]struct {
		table        providers.Provider
		host         string
		answer, body string // %s is the event's time
		account      string
	}{
		"Stripe": {providers.Stripe(), "api.stripe.com",
			`{"data":[{"id":"evt_1","type":"payout.failed","created":%d}],"has_more":false}`, `{"id":"evt_1","type":"payout.failed","created":%d}`, "acct_1"},
		"Increase": {providers.Increase(), "api.increase.com",
			`{"data":[{"id":"evt_1","category":"a","created_at":%q}],"next_cursor":null}`, `{"id":"evt_1","category":"a","created_at":%q}`, ""},
		"GoCardless": {providers.GoCardless(), "api.gocardless.com",
			`{"events":[{"id":"evt_1","resource_type":"payments","created_at":%q}],"meta":{"cursors":{"after":null}}}`, `{"events":[{"id":"evt_1","resource_type":"payments","created_at":%q}]}`, ""},
		"Square": {providers.Square(day), "connect.squareup.com",
			`{"events":[{"event_id":"evt_1","type":"a","created_at":%q,"merchant_id":"m"}]}`, `{"event_id":"evt_1","type":"a","created_at":%q,"merchant_id":"m"}`, "m"},
		"PayPal": {providers.PayPal(), "api-m.paypal.com",
			`{"events":[{"id":"evt_1","event_type":"a","create_time":%q}],"links":[]}`, `{"id":"evt_1","event_type":"a","create_time":%q}`, ""},
	} {
		virtual(t, name, func(t *testing.T) {
			from := time.Now()
			at := func(text string) string {
				if strings.Contains(text, "%d") {
					return fmt.Sprintf(text, from.Unix())
				}
				return fmt.Sprintf(text, from.UTC().Format(time.RFC3339))
			}
			var asked []string
			via := oncetest.RoundTrip(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.Host)
				assert.Equal(t, "Bearer key", r.Header.Get("Authorization"))
				if row.table.Identity.Path != "" && strings.HasPrefix(row.table.Identity.Path, r.URL.Path) {
					return answers(http.StatusOK, `{"id":"acct_1"}`), nil
				}
				return answers(http.StatusOK, at(row.answer)), nil
			})
			client, err := onceward.New(onceward.Config{
				Journal: memory.New(), Providers: []providers.Provider{row.table}, HTTPClient: &http.Client{Transport: via}, Reconcile: &onceward.Reconcile{},
				Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer key"); return nil },
			})
			require.NoError(t, err)
			defer client.Close()
			pass(time.Hour)
			var got []string
			h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				text, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				m, _ := webhook.MessageOf(r.Context())
				got = append(got, string(text), m.Events[0])
			})
			_, err = client.CatchUp(t.Context(), row.table.Name, onceward.CatchUp{From: from, Types: []string{"*"}, Handler: h, Account: row.account})
			require.NoError(t, err)
			assert.Equal(t, []string{at(row.body), "evt_1"}, got)
			for _, host := range asked {
				assert.Equal(t, row.host, host)
			}
		})
	}
}
