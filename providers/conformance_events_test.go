package providers_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
)

// event is an event of a provider, and its meaning for a request that was first sent at conformanceTime, see [look].
type event struct {
	name    string
	request string
	knows   string // the id of the object that the operation is known by, if any
	body    string // as it is sent
	says    said   // of the request; zero: nothing
}

type said struct {
	object  string
	outcome providers.Outcome
	thin    bool // that it is time to look
	exact   bool // by a mark of this operation alone
	account string
}

// heard are the events of one adapter.
type heard struct {
	adapter providers.Provider
	events  []event
}

func hears() []heard {
	return []heard{
		{providers.PayPal(), paypalHears()},
		{providers.GoCardless(), gocardlessHears()},
		{providers.Razorpay(0), razorpayHears()},
		{providers.Square(0), squareHears()},
		{providers.Mollie(), mollieHears()},
		{providers.Adyen(""), slices.Concat(adyenHears(), adyenTransferHears())},
		{providers.Stripe(), stripeHears()},
		{providers.ModernTreasury(), modernTreasuryHears()},
		{providers.Checkout(), checkoutHears()},
		{providers.Wise(0), wiseHears()},
		{providers.Dwolla(), dwollaHears()},
		{providers.Plaid(), plaidHears()},
		{providers.Increase(), increaseHears()},
	}
}

func TestConformanceEvents(t *testing.T) {
	t.Parallel()
	for _, c := range hears() {
		for _, ev := range c.events {
			t.Run(c.adapter.Name+"/"+ev.name, func(t *testing.T) { ev.heard(t, c.adapter) })
		}
	}
}

func (ev event) heard(t *testing.T, p providers.Provider) {
	e, about := subject(t, p, ev.request)
	about.Object = ev.knows
	events, problem := lookup.ReadEvents(&p, http.Header{"Content-Type": {"application/json"}}, []byte(ev.body))
	require.Empty(t, problem)
	var got said
	var why string
	for _, h := range events {
		assert.NotEmpty(t, h.ID)
		assert.WithinDuration(t, conformanceTime, h.At, 48*time.Hour, "it says when it happened")
		fits, exact, reason := h.Of(e, &about)
		if why += reason; !fits {
			continue
		}
		require.Empty(t, got, "two rules speak of one request")
		got = said{object: h.Object, outcome: h.Rule.Is, thin: h.Rule.Thin, exact: exact, account: h.Account}
	}
	assert.Equal(t, ev.says, got, why)
}

// Every rule of every adapter has an event that it speaks for.
func TestEveryEventRuleIsReached(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	for _, c := range hears() {
		for _, ev := range c.events {
			events, _ := lookup.ReadEvents(&c.adapter, http.Header{"Content-Type": {"application/json"}}, []byte(ev.body))
			for _, h := range events {
				reached[c.adapter.Name+h.Rule.Equals+h.Rule.Endpoint+h.Rule.Is.String()] = true
			}
		}
	}
	for _, p := range adapters() {
		for _, r := range p.Events {
			assert.True(t, reached[p.Name+r.Equals+r.Endpoint+r.Is.String()], "%s: %s of %s", p.Name, r.Equals, r.Endpoint)
			assert.Regexp(t, sources, r.Source, "%s: %s", p.Name, r.Equals)
			assert.NotRegexp(t, `\[(M|\?)\]`, r.Source, "%s: %s", p.Name, r.Equals)
		}
	}
}
