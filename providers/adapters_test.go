package providers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

func TestUnlistedAnswers(t *testing.T) {
	rt := route(t, newRouter(t, providers.Stripe()), "POST", "https://nobody.example.com/things")
	require.False(t, rt.Listed)
	checkRows(t, rt, refusedRows)
	checkRows(t, rt, []row{
		{"a success", 204, "", "", final, final},
		{"a refusal", 422, "", "", final, final},
		{"408", 408, "", "", indeterminate, indeterminate},
		{"409", 409, "", "", indeterminate, indeterminate},
		{"425", 425, "", "", indeterminate, indeterminate},
		{"429", 429, "", "", indeterminate, indeterminate},
		{"500", 500, "", "", indeterminate, indeterminate},
		{"a redirect", 307, "", "", indeterminate, indeterminate},
	})
}

func TestAnAdaptersTableIsTheCallersToChange(t *testing.T) {
	t.Parallel()
	for i, c := range contracts() {
		before := c.adapter
		first := &before.Endpoints[0]
		rule := len(first.Rules) > 0
		first.Pattern, first.Retention = "/changed", 1
		if rule {
			first.Rules[0].Verdict = providers.Verdict(99)
		}
		after := adapters()[i].Endpoints[0]
		assert.NotEqual(t, "/changed", after.Pattern, before.Name)
		if rule {
			assert.NotEqual(t, providers.Verdict(99), after.Rules[0].Verdict, before.Name)
		}
	}

	changed := providers.Stripe()
	router := newRouter(t, changed)
	changed.Endpoints[0].Retention = 0
	assert.Equal(t, day, route(t, router, "POST", "https://api.stripe.com/v1/charges").Endpoint.Retention)
}

func TestUndocumentedRetentionIsRefused(t *testing.T) {
	for _, p := range []providers.Provider{providers.Raw(0), providers.IETF(0), providers.Raw(-time.Hour)} {
		var invalid *providers.ValidationError
		require.ErrorAs(t, p.Validate(), &invalid, p.Name)
		assert.Equal(t, "Endpoints[0].Retention", invalid.Field)
	}
}

func TestANegativeRetentionIsRefused(t *testing.T) {
	for _, p := range []providers.Provider{providers.Square(-1), providers.Wise(-1), providers.Razorpay(-1), providers.MercadoPago(-1)} {
		assert.ErrorContains(t, p.Validate(), "Retention", p.Name)
	}
}
