package providers_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// look is a request whose answer was lost, and what a look at the provider makes of it. Its
// request was first sent at conformanceTime, with conformanceKey and, where the reference is
// the one that a client fills in, ours.
type look struct {
	name    string
	request string

	// asks are the look-ups' requests: of the first that serves the operation. Where the page
	// shows its object and that is got by itself, the request for it follows.
	asks []string

	// page is the answer to the first, in the provider's shape, and object that to the second.
	page, object string

	want finding
}

type finding struct {
	kind    lookup.Kind
	id      string
	outcome providers.Outcome
	fresh   bool // the object is the operation's answer
	exact   bool
}

// reference is one that stands on the object of one operation only.
const reference = "5f0c6f5e-9a53-8b1e-8f8e-0f3c2a4b6d7e"

func TestConformanceLooks(t *testing.T) {
	for _, c := range []struct {
		adapter providers.Provider
		looks   []look
	}{
		{providers.PayPal(), paypalLooks()},
		{providers.GoCardless(), gocardlessLooks()},
		{providers.Razorpay(0), razorpayLooks()},
		{providers.Square(0), squareLooks()},
		{providers.Mollie(), mollieLooks()},
	} {
		for _, l := range c.looks {
			t.Run(c.adapter.Name+"/"+l.name, func(t *testing.T) { l.found(t, c.adapter) })
		}
	}
}

// found takes the first look-up that serves the request.
func (l look) found(t *testing.T, p providers.Provider) {
	e, about := subject(t, p, l.request)
	var sweep *lookup.Sweep
	for i := range e.Lookups {
		var err error
		if sweep, err = lookup.Plan(&p, e, &e.Lookups[i], about, about.Window(conformanceTime.Add(time.Hour))); err == nil {
			break
		}
		sweep = nil
	}
	if len(l.asks) == 0 {
		assert.Nil(t, sweep, "no look-up serves it")
		return
	}
	require.NotNil(t, sweep)
	json := http.Header{"Content-Type": {"application/json"}}
	r := sweep.Next()
	require.NotNil(t, r, sweep.Why())
	asked := []string{r.Method + " " + r.URL.RequestURI()}
	sweep.Read(200, json, []byte(l.page))
	for sweep.Next() != nil { // lists that are read by offset end with a page of nothing
		sweep.Read(200, json, []byte(`{"items":[]}`))
	}
	f := sweep.Match([]lookup.Subject{about}, func(string) bool { return false })[0]
	if r, err := sweep.Fetch(about, f); assert.NoError(t, err) && r != nil {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		f = sweep.Fetched(f, 200, json, []byte(l.object))
	}
	assert.Equal(t, l.asks, asked)
	got := finding{kind: f.Kind, outcome: f.Outcome, fresh: f.Fresh, exact: f.Exact}
	if len(f.Objects) > 0 {
		got.id = f.Objects[0]
	}
	assert.Equal(t, l.want, got, f.Why)
}

// subject is what is known of an operation, and the endpoint it was sent to.
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
		URL:    req.URL,
		Header: req.Header,
		Values: lookup.Values(&p, e, req.Method, req.URL, message),
		First:  conformanceTime,
		Last:   conformanceTime.Add(time.Minute),
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
