package webhook_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/providers"
)

// A table may say that a webhook has the id of the listed event only if the webhook's scheme signs this id.
func TestAWebhookSignsTheIDOfTheListedEvent(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, p := range []providers.Provider{providers.Stripe(), providers.Increase(), providers.GoCardless(), providers.Square(0)} {
		require.True(t, p.Feed.SameID, p.Name)
		plan, err := feed.Compile(&p)
		require.NoError(t, err)
		f := p.Feed
		page := fmt.Sprintf(`{%q:[{%q:"evt_7",%q:"a",%q:%d}],"has_more":false}`, strings.TrimSuffix(f.Items, "[]"), f.ID, f.Type, f.At, now.Unix())
		w := feed.Window{Since: now.Add(-time.Hour), Until: now.Add(time.Hour), Types: []string{"a"}}
		if f.Owner == providers.OfApplication {
			page = strings.Replace(page, "[{", `[{"`+f.Account+`":"m",`, 1)
		}
		items, err := plan.Pages(w).Read(200, http.Header{"Content-Type": {"application/json"}}, []byte(page))
		require.NoError(t, err)
		require.Len(t, items, 1)
		i := slices.IndexFunc(schemes(), func(s scheme) bool { return s.name == p.WebhookSchemes[0] })
		require.GreaterOrEqual(t, i, 0, p.Name)
		s := schemes()[i]
		r := s.sign(s.secrets[0], string(items[0].Body), now)
		m, err := s.verifier(t, s.secrets[0]).Verify(r, bodyOf(t, r))
		require.NoError(t, err, p.Name)
		assert.True(t, m.Evidence, p.Name)
		assert.Equal(t, []string{"evt_7"}, m.Events, p.Name)
	}
	paypal := providers.PayPal()
	assert.False(t, paypal.Feed.SameID, "its signature does not cover the id")
}
