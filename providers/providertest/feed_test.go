package providertest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/feed"
	"github.com/onceward/onceward/internal/lookup"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// listing is a table with events, in a list that begins where the table's look-up does.
func listing() providers.Provider {
	p := telling()
	p.Hosts = []string{"acme.example.com"}
	p.Feed = providers.Feed{
		Path: "/events", Query: "from={since}&to={until}", TimeLayout: "rfc3339", Items: "data[]",
		Next:  providers.Paging{Style: providers.PageLastID, Param: "after", More: "has_more", Size: 100},
		Types: "type[]", Limit: "limit", Undelivered: "delivered=false",
		ID: "id", At: "created", Type: "type", Account: "account", SameID: true,
		Owner: providers.OfAccountHeader, Horizon: 30 * 24 * time.Hour, Needs: "events:read", Source: "made up",
	}
	return p
}

// listed is a box whose events nothing receives.
func listed(t *testing.T, p providers.Provider) lookBox {
	b := looking(t, p)
	b.Events("http://nowhere.example.com", hookSecret)
	b.EveryEvent(providertest.EventManner{Lose: true})
	return b
}

// reads returns the events of a window, as a client reads them.
func (b lookBox) reads(p providers.Provider, w feed.Window) (items []feed.Item, err error) {
	b.t.Helper()
	plan, err := feed.Compile(&p)
	require.NoError(b.t, err)
	pages := plan.Pages(w)
	for {
		r, err := pages.Next()
		if r == nil || err != nil {
			return items, err
		}
		for name, values := range b.header {
			r.Header[name] = values
		}
		resp, err := b.Detour().RoundTrip(r)
		require.NoError(b.t, err)
		body, err := io.ReadAll(io.LimitReader(resp.Body, lookup.MaxBody+1))
		require.NoError(b.t, err)
		require.NoError(b.t, resp.Body.Close())
		page, err := pages.Read(resp.StatusCode, resp.Header, body)
		items = append(items, page...)
		if err != nil {
			return items, err
		}
	}
}

// around is the window of an hour on either side of the box's time.
func (b lookBox) around(types ...string) feed.Window {
	return feed.Window{Since: b.Now().Add(-time.Hour), Until: b.Now().Add(time.Hour), Types: types}
}

func eventIDs(items []feed.Item) (ids []string) {
	for _, item := range items {
		ids = append(ids, item.ID)
	}
	return ids
}

func TestTheListOfEvents(t *testing.T) {
	t.Run("has the events that no webhook brought, the newest first", func(t *testing.T) {
		p := listing()
		b := listed(t, p)
		b.PageSize = 2
		id := ""
		for i := range 5 {
			id = b.makes("POST", "/payments", fmt.Sprint("k", i), `{}`)
		}
		b.Turn(id, providers.Reversed)
		items, err := b.reads(p, b.around())
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_6", "evt_5", "evt_4", "evt_3", "evt_2", "evt_1"}, eventIDs(items))
		items, err = b.reads(p, b.around("payment.refunded"))
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_6"}, eventIDs(items))
		w := b.around()
		w.Until = w.Since.Add(time.Minute)
		items, err = b.reads(p, w)
		require.NoError(t, err)
		assert.Empty(t, items)
	})
	t.Run("has the body of the webhook", func(t *testing.T) {
		p := listing()
		h := hooked(t, providertest.ServeInMemory)
		b := looking(t, p)
		b.EventClient = h.Client()
		b.Events(h.URL, hookSecret)
		b.makes("POST", "/payments", "k", `{"amount":10}`)
		b.Advance(time.Second)
		b.EveryEvent(providertest.EventManner{Lose: true})
		b.makes("POST", "/payments", "k2", `{}`)
		items, err := b.reads(p, b.around())
		require.NoError(t, err)
		require.Equal(t, []string{"evt_2", "evt_1"}, eventIDs(items))
		assert.Equal(t, []any{"evt_1"}, h.told("id"))
		heard, _ := lookup.ReadEvents(&p, http.Header{"Content-Type": {"application/json"}}, items[1].Body)
		require.Len(t, heard, 1)
		assert.Equal(t, "k", heard[0].Key)
		w := b.around()
		w.Undelivered = true
		items, err = b.reads(p, w)
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_2"}, eventIDs(items))
	})
	t.Run("shows an event late, and no longer after its horizon", func(t *testing.T) {
		p := listing()
		b := listed(t, p)
		b.Visible(time.Minute)
		b.makes("POST", "/payments", "k", `{}`)
		for _, seen := range []struct {
			after time.Duration
			want  []string
		}{{0, nil}, {time.Minute, []string{"evt_1"}}, {31 * 24 * time.Hour, nil}} {
			w := feed.Window{Since: b.Now().Add(-time.Hour), Until: b.Now().Add(time.Hour)}
			b.Advance(seen.after)
			items, err := b.reads(p, w)
			require.NoError(t, err)
			assert.Equal(t, seen.want, eventIDs(items), seen.after)
		}
	})
	t.Run("lacks an event that was never created", func(t *testing.T) {
		p := listing()
		b := listed(t, p)
		b.ScriptEvents(providertest.EventManner{Never: true})
		b.makes("POST", "/payments", "k", `{}`)
		b.makes("POST", "/payments", "k2", `{}`)
		b.Advance(time.Minute)
		items, err := b.reads(p, b.around())
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_2"}, eventIDs(items))
		assert.Empty(t, b.Deliveries())
	})
	t.Run("has the events of one account, unless it is an application's", func(t *testing.T) {
		p := listing()
		b := listed(t, p)
		b.as("Acme-Account", "acct_2").makes("POST", "/payments", "k", `{}`)
		items, err := b.reads(p, b.around())
		require.NoError(t, err)
		assert.Empty(t, items)
		w := b.around()
		w.Account = "acct_2"
		items, err = b.reads(p, w)
		require.NoError(t, err)
		require.Equal(t, []string{"evt_1"}, eventIDs(items))
		assert.Equal(t, "acct_2", items[0].Account)

		p.Feed.Owner = providers.OfApplication
		b = listed(t, p)
		b.as("Acme-Account", "acct_2").makes("POST", "/payments", "k", `{}`)
		items, err = b.reads(p, b.around())
		require.NoError(t, err)
		require.Equal(t, []string{"evt_1"}, eventIDs(items))
		assert.Equal(t, "acct_2", items[0].Account)
	})
	t.Run("has pages that are too large", func(t *testing.T) {
		p := listing()
		b := listed(t, p)
		b.EveryEvent(providertest.EventManner{Lose: true, Bulk: lookup.MaxBody / 3})
		for i := range 4 {
			b.makes("POST", "/payments", fmt.Sprint("k", i), `{}`)
		}
		_, err := b.reads(p, b.around())
		assert.ErrorIs(t, err, feed.ErrPageTooLarge)
		w := b.around()
		w.Limit = 2
		items, err := b.reads(p, w)
		require.NoError(t, err)
		assert.Len(t, items, 4)
	})
	t.Run("fails as a look-up does", func(t *testing.T) {
		p := listing()
		b := listed(t, p)
		b.makes("POST", "/payments", "k", `{}`)
		b.Advance(2 * time.Hour)
		b.makes("POST", "/payments", "k2", `{}`)
		var refused *feed.Error
		b.ScriptLooks(providertest.Status(http.StatusTooManyRequests, http.Header{"Retry-After": {"7"}}))
		_, err := b.reads(p, b.around())
		require.True(t, errors.As(err, &refused))
		assert.Equal(t, http.StatusTooManyRequests, refused.Status)
		b.ScriptLooks(providertest.Unfiltered())
		items, err := b.reads(p, b.around("payment.succeeded"))
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_2"}, eventIDs(items), "the filter was ignored, and the reader has its own")
		b.ScriptLooks(providertest.EmptyList())
		items, err = b.reads(p, b.around())
		require.NoError(t, err)
		assert.Empty(t, items)
		b.ScriptLooks(providertest.PageLoop(), providertest.PageLoop())
		_, err = b.reads(p, b.around())
		assert.ErrorContains(t, err, "circles")
		b.ScriptLooks(providertest.NoList())
		_, err = b.reads(p, b.around())
		assert.ErrorContains(t, err, "does not")

		b = lookBox{providertest.NewUnstartedServerInMemory(p, providertest.Objects("obj_")), t, http.Header{}}
		b.MayLook = func(providertest.Request) bool { return false }
		b.Start()
		t.Cleanup(b.Close)
		_, err = b.reads(p, b.around())
		assert.ErrorContains(t, err, "events:read")
	})
}

// Each adapter's list shows the event of an effect.
func TestTheListsOfTheAdapters(t *testing.T) {
	for _, tc := range []struct {
		adapter           providers.Provider
		path, media, body string
	}{
		{providers.Stripe(), "/v1/charges", "application/x-www-form-urlencoded", "amount=10&currency=eur"},
		{providers.Increase(), "/ach_transfers", "application/json", `{"amount":10}`},
		{providers.GoCardless(), "/payments", "application/json", `{"payments":{"amount":10,"currency":"EUR","links":{"mandate":"MD1"}}}`},
		{providers.Square(time.Hour), "/v2/payments", "application/json", `{"idempotency_key":"k","source_id":"s","amount_money":{"amount":10,"currency":"USD"},"reference_id":"r"}`},
		{providers.PayPal(), "/v2/payments/authorizations/A/capture", "application/json", `{"invoice_id":"i"}`},
	} {
		t.Run(tc.adapter.Name, func(t *testing.T) {
			b := listed(t, tc.adapter)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+tc.path, strings.NewReader(tc.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", tc.media)
			resp, err := b.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Len(t, b.Effects(), 1)
			items, err := b.reads(tc.adapter, b.around())
			require.NoError(t, err)
			require.NotEmpty(t, items)
			heard, problem := lookup.ReadEvents(&tc.adapter, http.Header{"Content-Type": {"application/json"}}, items[0].Body)
			require.Empty(t, problem)
			require.NotEmpty(t, heard)
			assert.Equal(t, items[0].ID, heard[0].ID)
			items, err = b.reads(tc.adapter, b.around("other"))
			require.NoError(t, err)
			assert.Empty(t, items)
		})
	}
}
