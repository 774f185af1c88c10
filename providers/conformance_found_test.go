package providers_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// look is a request whose answer was lost, and the finding of a look-up for it. The request was first sent at
// conformanceTime, with conformanceKey. If its reference is the one that a client fills in, it is ours.
type look struct {
	name    string
	request string

	// from is the index of the first look-up that is tried. It is above 0 for a look-up that comes behind others.
	from int

	// asks are the requests of the first look-up that serves the operation, with their bodies behind them. If the
	// page shows the operation's object, and the object is fetched by itself, the request for it follows.
	asks []string

	// page is the answer to the first request, in the provider's shape. more are the answers for the next pages, and
	// object is the answer to the last request. A line in front of an answer is a header.
	page, object string
	more         []string

	want finding
}

type finding struct {
	kind    lookup.Kind
	id      string
	outcome providers.Outcome
	fresh   bool // the object is the operation's answer
	exact   bool
}

// reference stands on the object of one operation only.
const reference = "5f0c6f5e-9a53-8b1e-8f8e-0f3c2a4b6d7e"

func TestConformanceLookups(t *testing.T) {
	t.Parallel()
	held := map[string]bool{}
	defer func() {
		for _, p := range adapters() {
			finds := slices.ContainsFunc(p.Endpoints, func(e providers.Endpoint) bool { return len(e.Lookups) > 0 })
			assert.Equal(t, finds, held[p.Name], "%s has look-ups: %v", p.Name, finds)
		}
	}()
	for _, c := range []struct {
		adapter providers.Provider
		looks   []look
	}{
		{providers.PayPal(), paypalLooks()},
		{providers.GoCardless(), gocardlessLooks()},
		{providers.Razorpay(0), razorpayLooks()},
		{providers.Square(0), squareLooks()},
		{providers.Mollie(), mollieLooks()},
		{providers.Stripe(), stripeLooks()},
		{providers.Increase(), increaseLooks()},
		{providers.Svix(), svixLooks()},
		{providers.ModernTreasury(), modernTreasuryLooks()},
		{providers.Dwolla(), dwollaLooks()},
		{providers.Checkout(), checkoutLooks()},
		{providers.Braintree(), braintreeLooks()},
		{providers.Wise(0), wiseLooks("")},
		{providers.Wise(0, "16"), wiseLooks("&profile=16")},
		{providers.Adyen("company"), adyenLooks()},
		{providers.Column(0), columnLooks()},
		{providers.Fireblocks(), fireblocksLooks()},
		{providers.Mangopay(), mangopayLooks()},
		{providers.MercadoPago(0), mercadoPagoLooks()},
		{providers.WorkOS(), workosLooks()},
		{providers.Paystack(), paystackLooks()},
		{providers.Finix(), finixLooks()},
		{providers.Marqeta("sandbox-api.marqeta.com"), marqetaLooks()},
		{providers.Lithic(), lithicLooks()},
		{providers.Airwallex(), airwallexLooks()},
		{providers.Rapyd(), rapydLooks()},
		{providers.Plaid(), plaidLooks()},
		{providers.ACP("shop.example.com"), acpLooks()},
		{providers.UCP("/ucp/v1", "business.example.com"), ucpLooks()},
		{providers.Chargebee(), chargebeeLooks()},
		{providers.Circle(), circleLooks()},
		{providers.Flutterwave(), flutterwaveLooks()},
		{providers.Telnyx(), telnyxLooks()},
	} {
		held[c.adapter.Name] = true
		used := map[string]bool{}
		for _, l := range c.looks {
			t.Run(c.adapter.Name+"/"+l.name, func(t *testing.T) { used[l.found(t, c.adapter)] = true })
		}
		for _, e := range c.adapter.Endpoints {
			for i := range e.Lookups {
				look := fmt.Sprintf("look-up %d of %s", i, identity(e))
				assert.True(t, used[look], "%s: nothing was found by %s", c.adapter.Name, look)
			}
		}
	}
}

// found takes the first look-up that serves the request, and returns its endpoint and its number.
func (l look) found(t *testing.T, p providers.Provider) (used string) {
	e, about := subject(t, p, l.request)
	var sweep *lookup.Sweep
	var items string
	var numbered bool
	for i := l.from; i < len(e.Lookups); i++ {
		var err error
		if sweep, err = lookup.Plan(&p, e, &e.Lookups[i], about, about.Window(conformanceTime.Add(time.Hour))); err == nil {
			used = fmt.Sprintf("look-up %d of %s", i, identity(*e))
			style := e.Lookups[i].Next.Style
			items, numbered = e.Lookups[i].Items, style == providers.PageOffset || style == providers.PageNumber
			break
		}
		sweep = nil
	}
	if len(l.asks) == 0 {
		assert.Nil(t, sweep, "no look-up serves it")
		return ""
	}
	require.NotNil(t, sweep)
	var asked []string
	pages := append([]string{l.page}, l.more...)
	for r := sweep.Next(); r != nil; r = sweep.Next() {
		if len(pages) == 0 && numbered { // which ends at a page without items
			sweep.Read(answer(without(items)))
			continue
		}
		asked = append(asked, asText(t, r))
		require.NotEmpty(t, pages, "there is no page for %s", asked)
		sweep.Read(answer(pages[0]))
		pages = pages[1:]
	}
	assert.Empty(t, pages, "the list was not read to its end: %s", sweep.Why())
	f := sweep.Match(about, func(string) bool { return false })
	if r, err := sweep.Fetch(about, f); assert.NoError(t, err) && r != nil {
		asked = append(asked, asText(t, r))
		status, header, body := answer(l.object)
		f = sweep.Fetched(f, status, header, body)
	}
	assert.Equal(t, l.asks, asked)
	got := finding{kind: f.Kind, outcome: f.Outcome, fresh: f.Fresh, exact: f.Exact}
	if len(f.Objects) > 0 {
		got.id = f.Objects[0]
	}
	assert.Equal(t, l.want, got, f.Why)
	return used
}

// without is a page that has no items where they stand.
func without(items string) string {
	page := "[]"
	for _, name := range slices.Backward(strings.Split(strings.TrimSuffix(items, "[]"), ".")) {
		if name != "" {
			page = `{"` + name + `":` + page + `}`
		}
	}
	return page
}

func asText(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return strings.TrimSuffix(r.Method+" "+r.URL.RequestURI()+"\n"+string(body), "\n")
}

// answer is a success in JSON, with the header that stands in front of its body.
func answer(text string) (status int, header http.Header, body []byte) {
	header = http.Header{"Content-Type": {"application/json"}}
	if line, rest, ok := strings.Cut(text, "\n"); ok {
		if name, value, ok := strings.Cut(line, ": "); ok && !strings.ContainsAny(name, "{[") {
			header.Set(name, value)
			text = rest
		}
	}
	return 200, header, []byte(text)
}

// subject returns the known facts of an operation, and the endpoint that it was sent to.
func subject(t *testing.T, p providers.Provider, text string) (*providers.Endpoint, lookup.Subject) {
	t.Helper()
	req, message := request(t, text)
	rt := newRouter(t, p).Route(req.Method, req.URL).For(message)
	require.False(t, rt.Undecided)
	i := slices.IndexFunc(p.Endpoints, func(e providers.Endpoint) bool {
		return e.Pattern == rt.Endpoint.Pattern && e.Action == rt.Endpoint.Action
	})
	require.GreaterOrEqual(t, i, 0, text)
	e := &p.Endpoints[i]
	about := lookup.Subject{
		URL:     req.URL,
		Header:  req.Header,
		Values:  tables.NewCompared(&p, e).Values(req.Method, req.URL, message),
		Account: "acct-1",
		First:   conformanceTime,
		Last:    conformanceTime.Add(time.Minute),
	}
	if e.Key.Place != providers.KeyNone {
		about.Key = conformanceKey
	}
	if e.Reference.Place != providers.KeyNone {
		carried, _, err := tables.Reference(e.Reference).Carried(message)
		require.NoError(t, err)
		about.Reference, about.ReferenceOurs = carried, carried == reference
	}
	return e, about
}
