package providers_test

import (
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
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// feedPages are the last pages of lists, with a place for their events, and the first requests for the types a and b.
// events is the path of the events in the body of a webhook that brings several.
var feedPages = map[string]struct{ request, page, events string }{
	// As in stripe-go a1e3932 event.go and params.go.
	"stripe": {
		request: "GET https://api.stripe.com/v1/events?created[gte]=1795175999&created[lte]=1795262401&types%5B%5D=a&types%5B%5D=b&limit=100",
		page:    `{"object":"list","url":"/v1/events","has_more":false,"data":[%s]}`,
	},
	// As in increase-go ca1c95b event.go and packages/pagination.
	"increase": {
		request: "GET https://api.increase.com/events?created_at.on_or_after=2026-11-20T11%3A59%3A59Z&created_at.on_or_before=2026-11-21T12%3A00%3A01Z" +
			"&order_by.field=created_at&order_by.direction=ascending&category.in=a&limit=100",
		page: `{"data":[%s],"next_cursor":null}`,
	},
	// As in gocardless-pro-go 553b873 testdata/events.json.
	"gocardless": {
		request: "GET https://api.gocardless.com/events?created_at[gte]=2026-11-20T11%3A59%3A59Z&created_at[lte]=2026-11-21T12%3A00%3A01Z&resource_type=a&limit=500",
		page:    `{"events":[%s],"linked":{},"meta":{"cursors":{"after":null,"before":null},"limit":50}}`,
		events:  "events[]",
	},
	// As in square-go-sdk 3f484c5 events.go.
	"square": {
		request: `POST https://connect.squareup.com/v2/events {"limit":100,"query":{"filter":{"created_at":{"end_at":"2026-11-21T12:00:01Z","start_at":"2026-11-20T11:59:59Z"},` +
			`"event_types":["a","b"]},"sort":{"order":"ASC"}}}`,
		page: `{"events":[%s],"metadata":[{"event_id":"e","api_version":"2026-05-20"}]}`,
	},
	// As in paypal-rest-api-specifications ec4d8f3 notifications_webhooks_v1.
	"paypal": {
		request: "GET https://api-m.paypal.com/v1/notifications/webhooks-events?start_time=2026-11-20T11%3A59%3A59Z&end_time=2026-11-21T12%3A00%3A01Z&event_type=a&page_size=10",
		page:    `{"events":[%s],"count":1,"links":[{"href":"https://api.paypal.com/v1/notifications/webhooks-events","rel":"self","method":"GET"}]}`,
	},
}

func TestConformanceFeedRequests(t *testing.T) {
	t.Parallel()
	for _, p := range adapters() {
		if p.Feed == (providers.Feed{}) {
			continue
		}
		want, has := feedPages[p.Name]
		require.True(t, has, "%s has a list of events, and no page here", p.Name)
		plan, err := feed.Compile(&p)
		require.NoError(t, err)
		w := feed.Window{Since: conformanceTime, Until: conformanceTime.Add(24 * time.Hour), Types: plan.Batches([]string{"a", "b"})[0]}
		r, err := plan.Pages(w).Next()
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		assert.Equal(t, want.request, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)), p.Name)
	}
}

// An event has the same meaning whether a webhook brings the event or a list shows the event.
func TestConformanceFeedEvents(t *testing.T) {
	t.Parallel()
	isJSON := http.Header{"Content-Type": {"application/json"}}
	read := map[string]int{}
	for _, c := range hears() {
		p := c.adapter
		if p.Feed == (providers.Feed{}) {
			continue
		}
		plan, err := feed.Compile(&p)
		require.NoError(t, err)
		for _, ev := range c.events {
			delivered, problem := tables.Items(isJSON, []byte(ev.body), feedPages[p.Name].events)
			require.Empty(t, problem)
			var texts []string
			for _, one := range delivered {
				texts = append(texts, string(one))
			}
			pages := plan.Pages(feed.Window{Since: conformanceTime.Add(-48 * time.Hour), Until: conformanceTime.Add(48 * time.Hour)})
			items, err := pages.Read(200, isJSON, fmt.Appendf(nil, feedPages[p.Name].page, strings.Join(texts, ",")))
			require.NoError(t, err, "%s: %s", p.Name, ev.name)
			require.Len(t, items, len(delivered))
			next, err := pages.Next()
			require.NoError(t, err)
			require.Nil(t, next)

			want, _ := lookup.ReadEvents(&p, isJSON, []byte(ev.body))
			var got []lookup.Heard
			for _, item := range items {
				heard, problem := lookup.ReadEvents(&p, isJSON, item.Body)
				require.Empty(t, problem)
				for _, h := range heard {
					assert.Equal(t, h.ID, item.ID)
					assert.Equal(t, h.At, item.At)
					assert.Contains(t, []string{h.Account, ""}, item.Account)
				}
				got = append(got, heard...)
			}
			assert.Equal(t, want, got, "%s: %s", p.Name, ev.name)
			read[p.Name] += len(got)
		}
	}
	for name := range feedPages {
		assert.NotZero(t, read[name], "no event of %s was read", name)
	}
}

// The lists of objects: their first request, and entries with the objects that they are about. As in stripe-go a1e3932
// balancetransaction.go, charge.go, payout.go and refund.go.
func TestConformanceListings(t *testing.T) {
	t.Parallel()
	type list struct {
		request string
		entries map[string]feed.Object // by the entry
	}
	cases := map[string]list{
		"stripe": {
			request: "GET https://api.stripe.com/v1/balance_transactions?created[gte]=1795175999&created[lte]=1795262401&expand[]=data.source&limit=100",
			entries: map[string]feed.Object{
				`"type":"charge","source":{"object":"charge","id":"ch_1","payment_intent":null,"amount":2000,"amount_captured":2000,"currency":"eur","status":"succeeded","metadata":{"onceward":"r"}}`: {
					ID: "ch_1", Kind: "charge", Reference: "r", Amount: "2000", Currency: "eur", State: providers.TookEffect},
				`"type":"charge","source":{"object":"charge","id":"ch_2","payment_intent":"pi_2","amount":2000,"amount_captured":500,"currency":"eur","status":"succeeded"}`: {
					ID: "pi_2", Kind: "payment_intent", Amount: "500", Currency: "eur", State: providers.TookEffect},
				`"type":"payment","source":{"object":"charge","id":"py_3","amount":2000,"amount_captured":2000,"currency":"eur","status":"pending"}`: {
					ID: "py_3", Kind: "charge", Amount: "2000", Currency: "eur", State: providers.InProgress},
				`"type":"payment_failure_refund","source":{"object":"charge","id":"py_3","amount":2000,"amount_captured":2000,"currency":"eur","status":"failed"}`: {
					ID: "py_3", Kind: "charge", Amount: "2000", Currency: "eur", State: providers.Refused},
				`"type":"refund","amount":-500,"source":{"object":"refund","id":"re_4","amount":500,"currency":"eur","status":"failed"}`: {
					ID: "re_4", Kind: "refund", Amount: "500", Currency: "eur", State: providers.Reversed},
				`"type":"payout_failure","source":{"object":"payout","id":"po_5","amount":700,"currency":"eur","status":"failed"}`: {
					ID: "po_5", Kind: "payout", Amount: "700", Currency: "eur", State: providers.Reversed},
				`"type":"transfer","source":{"object":"transfer","id":"tr_6","amount":70,"currency":"eur","reversed":false}`: {
					ID: "tr_6", Kind: "transfer", Amount: "70", Currency: "eur", State: providers.TookEffect},
				`"type":"topup","source":{"object":"topup","id":"tu_7","amount":70,"currency":"eur","status":"reversed"}`: {
					ID: "tu_7", Kind: "topup", Amount: "70", Currency: "eur", State: providers.Reversed},
				`"type":"stripe_fee","source":null`:                             {ID: "txn_1", Kind: "stripe_fee", State: providers.TookEffect},
				`"type":"adjustment","source":{"object":"dispute","id":"dp_1"}`: {ID: "txn_1", Kind: "adjustment", State: providers.TookEffect},
			},
		},
	}
	// As in increase-go ca1c95b achtransfer.go and its siblings.
	for kind, more := range map[string]string{
		"account_transfer": "", "ach_transfer": "", "card_push_transfer": "", "check_transfer": "", "fednow_transfer": "",
		"real_time_payments_transfer": "", "swift_transfer": "instructed_", "wire_transfer": "",
	} {
		one := feed.Object{ID: "t_1", Kind: kind, Key: "k", Amount: "-150", Currency: "USD", State: providers.TookEffect}
		entry := fmt.Sprintf(`"type":%q,"id":"t_1","idempotency_key":"k","%samount":-150,"%scurrency":"USD","status":`, kind, more, more)
		if kind == "card_push_transfer" {
			one.Amount, one.Decimal = "1.50", true
			entry = `"type":"card_push_transfer","id":"t_1","idempotency_key":"k","presentment_amount":{"currency":"USD","value":"1.50"},"status":`
		}
		l := list{
			request: "GET https://api.increase.com/" + kind + "s?created_at.on_or_after=2026-11-20T11%3A59%3A59Z&created_at.on_or_before=2026-11-21T12%3A00%3A01Z&limit=100",
			entries: map[string]feed.Object{},
		}
		for state, outcome := range map[string]providers.Outcome{
			"pending_approval": providers.TookEffect, "complete": providers.TookEffect, "submitted": providers.TookEffect, "returned": providers.Reversed, "canceled": providers.Reversed,
		} {
			one.State = outcome
			l.entries[entry+`"`+state+`"`] = one
		}
		cases["increase "+kind] = l
	}
	// As in gocardless-pro-go 553b873 testdata/payments.json and testdata/refunds.json.
	for kind, state := range map[string]string{"payment": "charged_back", "refund": "bounced"} {
		one := feed.Object{ID: "PM123", Kind: kind, Reference: "r", Amount: "1000", Currency: "EUR", State: providers.TookEffect}
		turned := one
		turned.State = providers.Reversed
		entry := `"id":"PM123","created_at":"2014-01-01T12:00:00.000Z","amount":1000,"currency":"EUR","reference":"WINEBOX001","metadata":{"onceward":"r"},"status":`
		cases["gocardless "+kind] = list{
			request: "GET https://api.gocardless.com/" + kind + "s?created_at[gte]=2026-11-20T11%3A59%3A59Z&created_at[lte]=2026-11-21T12%3A00%3A01Z&limit=500",
			entries: map[string]feed.Object{entry + `"submitted"`: one, entry + `"` + state + `"`: turned},
		}
	}
	for _, p := range adapters() {
		for i := range p.Listings {
			name := p.Name
			if len(p.Listings) > 1 {
				name += " " + p.Listings[i].Objects[0].Kind
			}
			want, has := cases[name]
			require.True(t, has, "%s has a list of objects, and no entry here", name)
			plan, objects, err := feed.CompileListing(&p, &p.Listings[i])
			require.NoError(t, err)
			r, err := plan.Pages(feed.Window{Since: conformanceTime, Until: conformanceTime.Add(24 * time.Hour)}).Next()
			require.NoError(t, err)
			assert.Equal(t, want.request, r.Method+" "+r.URL.String())
			for entry, object := range want.entries {
				got, err := objects.Read(&feed.Item{ID: "txn_1", Type: typeOf(entry), Body: []byte("{" + entry + "}")})
				require.NoError(t, err, entry)
				assert.Equal(t, object, got, entry)
			}
		}
	}
}

// typeOf returns the type of an entry, which begins with it.
func typeOf(entry string) string {
	_, text, _ := strings.Cut(entry, `:"`)
	text, _, _ = strings.Cut(text, `"`)
	return text
}
