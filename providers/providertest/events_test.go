package providertest_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// telling is acme with events.
func telling() providers.Provider {
	p := acme()
	event := providers.EventRule{
		Field: "type", Endpoint: "POST /payments", Key: "data.object.idempotency_key", ID: "id", Object: "data.object.id",
		At: "created", Account: "account", Live: "livemode", Source: "made up",
	}
	for equals, is := range map[string]providers.Outcome{"payment.succeeded": providers.TookEffect, "payment.failed": providers.Refused, "payment.refunded": providers.Reversed} {
		rule := event
		rule.Equals, rule.Is = equals, is
		p.Events = append(p.Events, rule)
	}
	return p
}

// hook receives events.
type hook struct {
	*httptest.Server
	mu      sync.Mutex
	heard   []map[string]any
	refused []error
	status  []int // of the next answers; 200 after them
}

var hookSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes or more"))

func hooked(t *testing.T, serve func(http.Handler) *httptest.Server) *hook {
	h := &hook{}
	v, err := webhook.StandardWebhooks(hookSecret)
	require.NoError(t, err)
	h.Server = serve(&webhook.Handler{
		Verifier: v,
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			var body map[string]any
			assert.NoError(t, json.Unmarshal(text, &body))
			h.mu.Lock()
			defer h.mu.Unlock()
			h.heard = append(h.heard, body)
			if len(h.status) > 0 {
				w.WriteHeader(h.status[0])
				h.status = h.status[1:]
			}
		}),
		Refused: func(_ *http.Request, err error) { h.mu.Lock(); defer h.mu.Unlock(); h.refused = append(h.refused, err) },
	})
	t.Cleanup(h.Close)
	return h
}

// told returns the values at a path of the events that the hook has received.
func (h *hook) told(path ...string) (texts []any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.heard {
		texts = append(texts, at(body, path...))
	}
	return texts
}

// eventful is a box that sends its events to a hook, both in memory.
func eventful(t *testing.T) (lookBox, *hook) {
	h := hooked(t, providertest.ServeInMemory)
	b := looking(t, telling())
	b.EventClient = h.Client()
	b.Events(h.URL, hookSecret)
	return b, h
}

func TestEvents(t *testing.T) {
	t.Run("of an effect, over the network", func(t *testing.T) {
		h := hooked(t, httptest.NewServer)
		srv := providertest.NewServer(telling(), providertest.Objects("obj_"))
		defer srv.Close()
		b := lookBox{srv, t, http.Header{"Acme-Account": {"acct_1"}}}
		b.Events(h.URL, hookSecret)
		id := b.makes("POST", "/payments", "k", `{"amount":10}`)
		b.makes("POST", "/payments", "k", `{"amount":10}`)
		b.makes("POST", "/payments/p/refunds", "k2", `{}`)
		srv.Advance(time.Second)
		require.Len(t, h.heard, 1, "one for the effect, none for the repeat, none where no row tells of it")
		event := h.heard[0]
		assert.Equal(t, "payment.succeeded", event["type"])
		assert.Equal(t, "k", at(event, "data", "object", "idempotency_key"))
		assert.Equal(t, id, at(event, "data", "object", "id"))
		assert.EqualValues(t, 10, at(event, "data", "object", "amount"))
		assert.Equal(t, "acct_1", event["account"])
		assert.Equal(t, true, event["livemode"])
		assert.NotEmpty(t, event["id"])
		assert.NotEmpty(t, event["created"])
		require.Len(t, srv.Deliveries(), 1)
		assert.Equal(t, http.StatusOK, srv.Deliveries()[0].Status)
		assert.Equal(t, 1, srv.Deliveries()[0].Effect)
	})
	t.Run("of a later state", func(t *testing.T) {
		b, h := eventful(t)
		id := b.makes("POST", "/payments", "k", `{}`)
		b.Turn(id, providers.Reversed)
		b.Advance(time.Second)
		assert.ElementsMatch(t, []any{"payment.succeeded", "payment.refunded"}, h.told("type"))
		assert.Equal(t, []any{id, id}, h.told("data", "object", "id"))
	})
	t.Run("in virtual time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, h := eventful(t)
			b.EveryEvent(providertest.EventManner{Delay: 3 * time.Hour})
			b.makes("POST", "/payments", "k", `{}`)
			time.Sleep(3*time.Hour - time.Second)
			synctest.Wait()
			assert.Empty(t, h.told("type"))
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Len(t, h.told("type"), 1, "signed by the virtual clock")
		})
	})
	t.Run("by the kind of the object", func(t *testing.T) {
		p := telling()
		for i := range p.Events {
			p.Events[i].Endpoint = ""
		}
		h := hooked(t, providertest.ServeInMemory)
		b := looking(t, p)
		b.EventClient = h.Client()
		b.Events(h.URL, hookSecret)
		b.makes("POST", "/payments/p/refunds", "k", `{}`)
		b.makes("POST", "/payments", "k2", `{}`)
		b.Advance(time.Second)
		assert.Equal(t, []any{"k2"}, h.told("data", "object", "idempotency_key"))
	})
	t.Run("several in one body, by reference", func(t *testing.T) {
		p := telling()
		p.Events = []providers.EventRule{{Field: "action", Equals: "created", Endpoint: "POST /payments", Items: "events[]", Reference: "ref", Object: "links.payment", Created: "made", ID: "id", Also: []providers.Same{{Field: "kind", Is: "payments"}}, Is: providers.TookEffect, Source: "made up"}}
		h := hooked(t, providertest.ServeInMemory)
		b := looking(t, p)
		b.EventClient = h.Client()
		b.Events(h.URL, hookSecret)
		id := b.makes("POST", "/payments", "k", `{"external_id":"inv-1"}`)
		b.Advance(time.Second)
		require.Len(t, h.heard, 1)
		item := at(h.heard[0], "events").([]any)[0]
		assert.Equal(t, "inv-1", at(item, "ref"))
		assert.Equal(t, id, at(item, "links", "payment"))
		assert.Equal(t, "payments", at(item, "kind"))
	})
}

func TestEventBehaviors(t *testing.T) {
	run := func(name string, f func(t *testing.T)) { t.Run(name, func(t *testing.T) { synctest.Test(t, f) }) }
	makes := func(t *testing.T, manners ...providertest.EventManner) (lookBox, *hook) {
		b, h := eventful(t)
		b.ScriptEvents(manners...)
		for _, key := range []string{"k1", "k2", "k3"} {
			b.makes("POST", "/payments", key, `{}`)
		}
		return b, h
	}
	keys := func(h *hook) []any { return h.told("data", "object", "idempotency_key") }
	run("lost", func(t *testing.T) {
		b, h := makes(t, providertest.EventManner{}, providertest.EventManner{Lose: true})
		b.Advance(96 * time.Hour)
		assert.ElementsMatch(t, []any{"k1", "k3"}, keys(h))
	})
	run("twice and once more", func(t *testing.T) {
		b, h := makes(t, providertest.EventManner{Duplicates: 2})
		b.Advance(time.Minute)
		assert.Len(t, keys(h), 5)
		ids := map[any]int{}
		for _, id := range h.told("id") {
			ids[id]++
		}
		assert.Len(t, ids, 3, "a repeat has the same id")
	})
	run("out of order", func(t *testing.T) {
		b, h := makes(t, providertest.EventManner{Reorder: true}, providertest.EventManner{Delay: 2 * time.Second})
		b.Advance(time.Second)
		assert.Equal(t, []any{"k3", "k1"}, keys(h))
		b.Advance(2 * time.Hour)
		assert.Equal(t, []any{"k3", "k1", "k2"}, keys(h), "and only once")
	})
	run("held, and nothing comes after it", func(t *testing.T) {
		b, h := eventful(t)
		b.ScriptEvents(providertest.EventManner{Reorder: true})
		b.makes("POST", "/payments", "k1", `{}`)
		b.Advance(59 * time.Minute)
		assert.Empty(t, keys(h))
		b.Advance(time.Minute)
		assert.Equal(t, []any{"k1"}, keys(h))
	})
	run("before the response", func(t *testing.T) {
		b, h := eventful(t)
		b.EveryEvent(providertest.EventManner{BeforeResponse: true})
		b.Script(providertest.DropAfter())
		resp, err := b.do("POST", "/payments", "k1", `{}`)
		require.Error(t, err, "%v", resp)
		assert.Equal(t, []any{"k1"}, keys(h))
	})
	run("thin", func(t *testing.T) {
		b, h := makes(t, providertest.EventManner{Thin: true})
		b.Advance(time.Second)
		assert.ElementsMatch(t, []any{nil, "k2", "k3"}, keys(h))
		assert.NotContains(t, h.told("data", "object", "id"), nil)
	})
	run("forged", func(t *testing.T) {
		b, h := makes(t, providertest.EventManner{Forged: true})
		b.Advance(time.Second)
		assert.ElementsMatch(t, []any{"k2", "k3"}, keys(h))
		require.Len(t, h.refused, 1)
		assert.ErrorIs(t, h.refused[0], webhook.ErrSignature)
	})
	run("of another mode, of another account", func(t *testing.T) {
		b, h := makes(t, providertest.EventManner{OtherMode: true}, providertest.EventManner{Account: "acct_2"})
		b.Advance(time.Second)
		assert.ElementsMatch(t, []any{false, true, true}, h.told("livemode"))
		assert.ElementsMatch(t, []any{"acct_own", "acct_2", "acct_own"}, h.told("account"))
	})
	run("until they are taken", func(t *testing.T) {
		b, h := eventful(t)
		h.status = []int{500, 503}
		b.makes("POST", "/payments", "k1", `{}`)
		b.Advance(time.Second)
		assert.Len(t, keys(h), 1)
		b.Advance(time.Minute)
		assert.Len(t, keys(h), 2)
		b.Advance(72 * time.Hour)
		assert.Len(t, keys(h), 3)
		var statuses []int
		for _, d := range b.Deliveries() {
			statuses = append(statuses, d.Status)
		}
		assert.Equal(t, []int{500, 503, 200}, statuses)
	})
	run("given up", func(t *testing.T) {
		b, h := eventful(t)
		h.Close()
		b.makes("POST", "/payments", "k1", `{}`)
		b.Advance(100 * time.Hour)
		tried := len(b.Deliveries())
		assert.Greater(t, tried, 10)
		assert.Error(t, b.Deliveries()[0].Err)
		b.Advance(100 * time.Hour)
		assert.Len(t, b.Deliveries(), tried)
	})
	run("signed by a function", func(t *testing.T) {
		b, h := eventful(t)
		b.SignEvent = func(providertest.Signing, http.Header, []byte) ([]byte, error) { return nil, errors.New("no key") }
		b.makes("POST", "/payments", "k1", `{}`)
		b.Advance(time.Second)
		assert.Empty(t, keys(h))
		assert.ErrorContains(t, b.Deliveries()[0].Err, "no key")
	})
}
