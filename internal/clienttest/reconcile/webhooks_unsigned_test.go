package reconcile_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// losesAnswers loses the answer to each request.
type losesAnswers struct{}

func (losesAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// Adyen signs a notification's items, and nothing beside them. A stranger who knows such an item adds to it what looks like an
// transfer event. It settles nothing, while the same event settles the transfer if it is signed itself.
func TestTrapEventBesideSignedItems(t *testing.T) {
	const (
		key      = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
		transfer = `{"amount":{"value":1000,"currency":"EUR"},"balanceAccountId":"BA1","category":"bank","reference":"payroll-7"}`
		item     = `{"NotificationRequestItem":{"pspReference":"7914073381342284","merchantAccountCode":"ShopCOM","merchantReference":"order-7",
			"amount":{"value":1130,"currency":"EUR"},"eventCode":"AUTHORISATION","success":"true"}}`
	)
	const event = `"type":"balancePlatform.transfer.updated","timestamp":"NOW","data":{"id":"1W1UG35U8A9J5ZLG","amount":{"value":1000,"currency":"EUR"},
		"category":"bank","createdAt":"NOW","reference":"payroll-7","status":"refused"}`
	items, err := webhook.Adyen(key)
	require.NoError(t, err)
	whole, err := webhook.AdyenPlatform(key)
	require.NoError(t, err)
	for name, row := range map[string]struct {
		body string
		v    *webhook.Verifier
		want onceward.State
	}{
		"beside items": {`{"live":"false","notificationItems":[` + item + `],` + event + `}`, items, onceward.StatePending},
		"by itself":    {`{` + event + `}`, whole, onceward.StateCompleted},
	} {
		virtual(t, name, func(t *testing.T) {
			now := time.Now().UTC().Add(time.Second).Format(time.RFC3339)
			j := memory.New()
			client, err := onceward.New(onceward.Config{
				Journal: j, Providers: []providers.Provider{providers.Adyen("")}, HTTPClient: &http.Client{Transport: losesAnswers{}},
				Reconcile: &onceward.Reconcile{}, Authorize: func(*http.Request) error { return nil },
			})
			require.NoError(t, err)
			defer func() { _ = client.Shutdown(context.Background()) }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(onceward.WithOperation(ctx, "payroll-7"), http.MethodPost, "https://balanceplatform-api-test.adyen.com/btl/v4/transfers", strings.NewReader(transfer))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			_, err = client.HTTPClient().Do(r)
			require.ErrorIs(t, err, onceward.ErrPending)

			d := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks", nil)
			d.Header.Set("Content-Type", "application/json")
			body, err := providertest.Sign("adyen", providertest.Signing{Secret: key}, d.Header, []byte(strings.ReplaceAll(row.body, "NOW", now)))
			require.NoError(t, err)
			d.Body = io.NopCloser(bytes.NewReader(body))
			w := httptest.NewRecorder()
			client.WebhookHandler("adyen", row.v, nil).ServeHTTP(w, d)
			require.Equal(t, http.StatusNoContent, w.Code)
			op, err := client.Operation(t.Context(), onceward.Ref{ID: "payroll-7"})
			require.NoError(t, err)
			assert.Equal(t, row.want, op.State)
		})
	}
}
