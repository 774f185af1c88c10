package request_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	elsewhere := to(http.MethodPost, "https://elsewhere.example/orders")

	virtual(t, "to a provider, carries no key, names nothing: the ID is the key, a new UUIDv4", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		first, second := p.Ask(t.Context()), p.Ask(t.Context())
		require.NoError(t, first.Err)
		require.NoError(t, second.Err)
		require.Len(t, l.Sent(), 2)
		requireUUID(t, 4, l.Keys()[0])
		assert.NotEqual(t, l.Keys()[0], l.Keys()[1])
		assert.Equal(t, l.Keys()[0], first.Op.ID)
		assert.Equal(t, onceward.Key(first.Op.ID), first.Op.Key)
		assert.Equal(t, journal.Generated, p.Recorded(carriedRef(first.Op.ID)).Naming)
	})

	virtual(t, "to a provider, carries a key, names nothing: ID and key are that key", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		first, second := p.Ask(t.Context(), carrying("sdk-1")), p.Ask(t.Context(), carrying("sdk-1"))
		require.NoError(t, first.Err)
		require.NoError(t, second.Err)
		assert.Equal(t, []string{"sdk-1"}, l.Keys())
		assert.Equal(t, "sdk-1", first.Op.ID)
		assert.True(t, second.Op.Replayed)
		assert.Equal(t, paid, second.Body)
		op := p.Recorded(carriedRef("sdk-1"))
		assert.Equal(t, journal.Carried, op.Naming)
		assert.True(t, op.KeyCarried)
	})

	virtual(t, "named for the first time, carries a key: the name, that key", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Secret: secret})
		out := p.Ask(named(t, "invoice-1/charge"), carrying("sdk-1"))
		require.NoError(t, out.Err)
		assert.Equal(t, "invoice-1/charge", out.Op.ID)
		assert.Equal(t, []string{"sdk-1"}, l.Keys())
	})

	virtual(t, "named for the first time, carries none: the name, a new UUIDv4", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		out := p.Ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.Err)
		assert.Equal(t, "invoice-1/charge", out.Op.ID)
		requireUUID(t, 4, l.Keys()[0])
	})

	virtual(t, "named for the first time, with a secret: a derived key, the same after the loss of the journal", func(t *testing.T) {
		l := &line{}
		ctx := named(t, "invoice-1/charge")
		for range 2 {
			require.NoError(t, start(t, l, onceward.Config{Secret: secret}).Ask(ctx).Err)
		}
		p := start(t, l, onceward.Config{Secret: secret})
		require.NoError(t, p.Ask(named(t, "invoice-2/charge")).Err)
		require.NoError(t, p.Ask(onceward.WithScope(ctx, "tenant-42")).Err)
		require.NoError(t, start(t, l, onceward.Config{Secret: []byte("fedcba9876543210")}).Ask(ctx).Err)
		keys := l.Keys()
		require.Len(t, keys, 5)
		requireUUID(t, 8, keys[0])
		assert.Equal(t, keys[0], keys[1])
		for _, other := range keys[2:] {
			assert.NotEqual(t, keys[0], other)
		}
	})

	virtual(t, "named, seen before: the journal's key replaces a carried one, and Trace says so", func(t *testing.T) {
		l := (&line{}).Then(loses())
		var replaced []onceward.Key
		p := start(t, l, onceward.Config{Backoff: once, Trace: &onceward.Trace{
			KeyReplaced: func(_ context.Context, op onceward.Operation) { replaced = append(replaced, op.Key) },
		}})
		ctx := named(t, "invoice-1/charge")
		out := p.Ask(ctx, carrying("sdk-1"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		require.Empty(t, replaced)
		pass(time.Until(out.Op.DueAt))
		out = p.Ask(ctx, carrying("sdk-2"))
		require.NoError(t, out.Err)
		assert.Equal(t, []string{"sdk-1", "sdk-1"}, l.Keys())
		assert.Equal(t, []onceward.Key{"sdk-1"}, replaced)
		assert.Equal(t, onceward.Key("sdk-1"), out.Op.Key)
		assert.Equal(t, 2, out.Op.Attempts)
	})

	virtual(t, "under a parent: parent and step, the child key in place of a carried one; then the journal's", func(t *testing.T) {
		l := (&line{}).Then(loses())
		replaced := 0
		p := start(t, l, onceward.Config{Backoff: once, Trace: &onceward.Trace{
			KeyReplaced: func(context.Context, onceward.Operation) { replaced++ },
		}})
		parent := onceward.NewKey()
		ctx := onceward.WithParent(named(t, "charge"), parent)
		out := p.Ask(ctx, carrying("sdk-1"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.Equal(t, 1, replaced)
		assert.Equal(t, onceward.Ref{Parent: string(parent), ID: "charge"}, out.Op.Ref)
		pass(time.Until(out.Op.DueAt))
		require.NoError(t, p.Ask(ctx).Err)
		child := string(parent.Child("charge"))
		assert.Equal(t, []string{child, child}, l.Keys())
		require.NoError(t, p.Ask(onceward.WithParent(named(t, "charge"), onceward.NewKey())).Err)
		assert.NotEqual(t, child, l.Keys()[2])
	})

	virtual(t, "under a parent, names nothing: parent, and a step made up of method, host and path", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		parent := onceward.NewKey()
		out := p.Ask(onceward.WithParent(t.Context(), parent), carrying("sdk-1"))
		require.NoError(t, out.Err)
		assert.Equal(t, onceward.Ref{Parent: string(parent), ID: "POST api.stripe.com/v1/charges"}, out.Op.Ref)
		assert.Equal(t, []string{string(parent.Child("POST api.stripe.com/v1/charges"))}, l.Keys())
		assert.Equal(t, journal.Named, p.Recorded(out.Op.Ref).Naming)
	})

	for _, status := range []int{307, 308} {
		virtual(t, http.StatusText(status)+" to the same origin: followed within the operation with the same key", func(t *testing.T) {
			l := (&line{}).Then(says(status, "", "Location", "/v1/moved"))
			p := start(t, l, onceward.Config{})
			out := p.Ask(named(t, "invoice-1/charge"))
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 2)
			moved := l.Sent()[1]
			assert.Equal(t, "https://api.stripe.com/v1/moved", moved.URL)
			assert.Equal(t, http.MethodPost, moved.Method)
			assert.Equal(t, chargeForm, moved.Body)
			assert.Equal(t, l.Keys()[0], moved.Key)
			assert.Equal(t, onceward.StateCompleted, out.Op.State)
			assert.Len(t, p.Everything(), 1)
		})

		virtual(t, http.StatusText(status)+" to another origin: a hop of http.Client is refused", func(t *testing.T) {
			for _, other := range []string{"https://files.stripe.com/v1/charges", "https://elsewhere.example/", "http://api.stripe.com/v1/charges"} {
				l := (&line{}).Then(says(status, "", "Location", other))
				p := start(t, l, onceward.Config{Providers: redirecting()})
				out := p.Ask(named(t, "invoice-1/charge"))
				require.ErrorIs(t, out.Err, onceward.ErrRedirected)
				assert.Len(t, l.Sent(), 1)
				assert.Len(t, p.Everything(), 1)
			}
		})
	}

	virtual(t, "to another origin, and the caller follows nothing: the redirect is the answer", func(t *testing.T) {
		l := (&line{}).Then(says(307, "", "Location", "https://elsewhere.example/"))
		p := start(t, l, onceward.Config{Providers: redirecting(), HTTPClient: &http.Client{
			Transport:     l,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}})
		out := p.Ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.Err)
		assert.Equal(t, 307, out.Status)
		assert.Equal(t, "https://elsewhere.example/", out.Header.Get("Location"))
	})

	virtual(t, "to a host without a provider, names nothing: passes straight through", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{})
		out := p.Ask(t.Context(), elsewhere)
		require.ErrorIs(t, out.Err, errReset)
		out = p.Ask(t.Context(), elsewhere, carrying("sdk-1"))
		require.NoError(t, out.Err)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, http.Header{"Content-Type": {form}}, l.Sent()[0].Header)
		assert.Equal(t, "sdk-1", l.Sent()[1].Key)
		assert.Zero(t, out.Op)
		assert.Empty(t, p.Everything())
	})

	t.Run("to a host or path without a provider, named: journaled, never resent once a byte may have left", func(t *testing.T) {
		for _, row := range []struct {
			name     string
			script   []reply
			requests int
			status   int   // of the response, or of the one in the error; 0: there is none
			kind     error // of the error; nil: the response is handed over
			state    onceward.State
		}{
			{"2xx is final", []reply{says(201, paid)}, 1, 201, nil, onceward.StateCompleted},
			{"404 is final", []reply{says(404, "")}, 1, 404, nil, onceward.StateCompleted},
			{"401 is rejected", []reply{says(401, "")}, 1, 401, nil, onceward.StateCancelled},
			{"403 is rejected", []reply{says(403, "")}, 1, 403, nil, onceward.StateCancelled},
			{"407 is rejected", []reply{says(407, "")}, 1, 407, nil, onceward.StateCancelled},
			{"408 says nothing", []reply{says(408, "")}, 1, 408, onceward.ErrOutcomeUnknown, onceward.StateUnknown},
			{"409 says nothing", []reply{says(409, "")}, 1, 409, onceward.ErrOutcomeUnknown, onceward.StateUnknown},
			{"425 says nothing", []reply{says(425, "")}, 1, 425, onceward.ErrOutcomeUnknown, onceward.StateUnknown},
			{"429 says nothing", []reply{says(429, "", "Retry-After", "1")}, 1, 429, onceward.ErrOutcomeUnknown, onceward.StateUnknown},
			{"503 says nothing", []reply{says(503, "")}, 1, 503, onceward.ErrOutcomeUnknown, onceward.StateUnknown},
			{"304 says nothing", []reply{says(304, "")}, 1, 304, onceward.ErrOutcomeUnknown, onceward.StateUnknown},
			{"no answer", []reply{loses()}, 1, 0, onceward.ErrOutcomeUnknown, onceward.StateUnknown},
			{"no connection: nothing left, so it is sent later", []reply{refuses(), refuses()}, 1, 200, nil, onceward.StateCompleted},
		} {
			for _, url := range []string{"https://elsewhere.example/orders", "https://api.stripe.com/other/path"} {
				virtual(t, row.name+" at "+url, func(t *testing.T) {
					l := (&line{}).Then(row.script...)
					p := start(t, l, onceward.Config{})
					out := p.Ask(named(t, "order-1"), to(http.MethodPost, url))
					if row.kind == nil {
						require.NoError(t, out.Err)
					} else {
						require.ErrorIs(t, out.Err, row.kind)
					}
					assert.Equal(t, row.status, out.Status)
					require.Len(t, l.Sent(), row.requests)
					requireUUID(t, 4, l.Keys()[0])
					op := p.Recorded(onceward.Ref{ID: "order-1"})
					assert.Equal(t, row.state, op.State)
					assert.Equal(t, row.state, out.Op.State)
					assert.Empty(t, op.Provider)
				})
			}
		}
	})

	virtual(t, "to an endpoint that takes no key: the name, else a UUIDv4; no key, journaled all the same", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Secret: secret})
		remove := to(http.MethodDelete, "https://api.stripe.com/v1/customers/cus_1")
		byName, unnamed := p.Ask(named(t, "cus_1/delete"), remove), p.Ask(t.Context(), remove)
		require.NoError(t, byName.Err)
		require.NoError(t, unnamed.Err)
		assert.Equal(t, []string{"", ""}, l.Keys())
		assert.Equal(t, "cus_1/delete", byName.Op.ID)
		assert.Empty(t, byName.Op.Key)
		requireUUID(t, 4, unnamed.Op.ID)
		again := p.Ask(named(t, "cus_1/delete"), remove)
		require.NoError(t, again.Err)
		assert.True(t, again.Op.Replayed)
		assert.Len(t, l.Sent(), 2)
	})

	virtual(t, "a safe method, or an endpoint without effect: untouched, never journaled", func(t *testing.T) {
		api := own()
		api.Endpoints = append(api.Endpoints, providers.Endpoint{Pattern: "POST /search", NoEffect: true})
		l := &line{}
		p := start(t, l, onceward.Config{Providers: []providers.Provider{api}})
		ctx := named(t, "order-1")
		for _, call := range []option{
			to(http.MethodGet, ownURL), to(http.MethodHead, ownURL), to(http.MethodOptions, ownURL),
			to(http.MethodPost, "https://own.example/search"),
		} {
			out := p.Ask(ctx, call)
			require.NoError(t, out.Err)
			assert.Zero(t, out.Op)
		}
		for _, s := range l.Sent() {
			assert.Equal(t, http.Header{"Content-Type": {form}}, s.Header, s.Method)
		}
		assert.Empty(t, p.Everything())
		require.NoError(t, p.Ask(ctx, to(http.MethodPost, ownURL)).Err, "the name does not stick to them")
		assert.Len(t, p.Everything(), 1)
	})
}

// Another request under a used name is refused, and the error describes it.
func TestAnotherRequestUnderAUsedName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := own()
		api.AccountHeaders = []string{"X-Account"}
		l := &line{}
		p := start(t, l, onceward.Config{Providers: []providers.Provider{api}})
		ctx := named(t, "order-1")
		first := []option{to(http.MethodPost, ownURL+"?page=1"), with("X-Account", "a")}
		require.NoError(t, p.Ask(ctx, first...).Err)
		for _, row := range []struct {
			name    string
			options []option
			differs []string // nil: it is the same request
		}{
			{"the same", nil, nil},
			{"another header that is no account", []option{with("X-Request-Id", "2")}, nil},
			{"another credential", []option{with("Authorization", "Bearer other")}, nil},
			{"a withheld query parameter", []option{to(http.MethodPost, ownURL+"?api_key=1&page=1")}, nil},
			{"the form's fields in another order", []option{body("currency=eur&amount=100")}, nil},
			{"another method", []option{to(http.MethodPut, ownURL+"?page=1")}, []string{"method"}},
			{"another URL", []option{to(http.MethodPost, ownURL+"?page=2")}, []string{"URL"}},
			{"another account", []option{with("X-Account", "b")}, []string{"account"}},
			{"another body", []option{body("amount=200&currency=eur")}, []string{"body"}},
			{"all of it", []option{to(http.MethodPut, ownURL), with("X-Account", "b"), body("")}, []string{"method", "URL", "account", "body"}},
		} {
			out := p.Ask(ctx, append(first[:2:2], row.options...)...)
			if row.differs == nil {
				require.NoError(t, out.Err, row.name)
				assert.True(t, out.Op.Replayed, row.name)
				continue
			}
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e, row.name)
			require.ErrorIs(t, e, onceward.ErrKeyReused, row.name)
			assert.Equal(t, row.differs, e.Differs, row.name)
			assert.Nil(t, e.Operation.Answer, "%s: the stored answer is not revealed", row.name)
		}
		assert.Len(t, l.Sent(), 1)
	})
}

func TestNoTwoOperationsShareAKey(t *testing.T) {
	secret := []byte("0123456789abcdef")
	for name, cfg := range map[string]onceward.Config{"random keys": {}, "derived keys": {Secret: secret}} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Always(wrongKey)
			p := start(t, l, cfg)
			asked := 0
			for _, scope := range []string{"", "a", "b"} {
				for _, parent := range []onceward.Key{"", "parent-1", "parent-2"} {
					for _, id := range []string{"charge", "refund"} {
						ctx := onceward.WithScope(named(t, id), scope)
						if parent != "" {
							ctx = onceward.WithParent(ctx, parent)
						}
						for generation := range 3 {
							out := p.Ask(ctx, body("generation="+string(rune('0'+generation))))
							require.Equal(t, 401, out.Status)
							require.Equal(t, generation, out.Op.Generation)
							asked++
						}
					}
				}
			}
			assert.Len(t, distinct(l.Keys()), asked)
			assert.Len(t, l.Sent(), asked)
		})
	}
}

// A quoted key is understood and sent in quotes.
func TestQuotedKeyIsSentInQuotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Providers: []providers.Provider{providers.IETF(24*time.Hour, "own.example")}})
		carried := p.Ask(t.Context(), to(http.MethodPost, ownURL), carrying(`"sdk-1"`))
		require.NoError(t, carried.Err)
		assert.Equal(t, onceward.Key("sdk-1"), carried.Op.Key)
		made := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		require.NoError(t, made.Err)
		assert.Equal(t, []string{`"sdk-1"`, `"` + string(made.Op.Key) + `"`}, l.Keys())
		out := p.Ask(named(t, "order-2"), to(http.MethodPost, ownURL), carrying("bare"))
		require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
	})
}

func TestScopesKeepNamesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		ctx := named(t, "invoice-1/charge")
		require.NoError(t, p.Ask(ctx).Err)
		out := p.Ask(onceward.WithScope(ctx, "tenant-42"))
		require.NoError(t, out.Err)
		assert.Equal(t, onceward.Ref{Scope: "tenant-42", ID: "invoice-1/charge"}, out.Op.Ref)
		assert.Len(t, l.Sent(), 2)
	})
}

// A request that cannot be recorded is refused before anything is recorded or sent.
func TestRequestThatCanNotBeJournaled(t *testing.T) {
	name := func(id string) func(*testing.T, *process) outcome {
		return func(t *testing.T, p *process) outcome { return p.Ask(named(t, id)) }
	}
	under := func(options ...option) func(*testing.T, *process) outcome {
		return func(t *testing.T, p *process) outcome { return p.Ask(named(t, "invoice-1"), options...) }
	}
	for title, call := range map[string]func(*testing.T, *process) outcome{
		"an empty name":                name(""),
		"a huge name":                  name(strings.Repeat("x", 513)),
		"a name that is not UTF-8":     name("\xff"),
		"a name with a newline":        name("a\nb"),
		"a carried key too long":       under(carrying(strings.Repeat("k", 256))),
		"a carried key with an @":      under(carrying("me@example.com")),
		"a carried key in quotes":      under(carrying(`"quoted"`)),
		"two carried keys":             under(func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }),
		"an unnamed, invalid key":      func(t *testing.T, p *process) outcome { return p.Ask(t.Context(), carrying("a b")) },
		"userinfo in the URL":          under(to(http.MethodPost, "https://me:pw@api.stripe.com/v1/charges")),
		"a named streaming request":    under(func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }),
		"a named upgrade":              under(with("Upgrade", "websocket")),
		"a header's control character": under(func(r *http.Request) { r.Header["X-Note"] = []string{"a\nb"} }),
		"a body shorter than said":     under(func(r *http.Request) { r.ContentLength = 1000 }),
	} {
		virtual(t, title, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{})
			out := call(t, p)
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
			assert.NotContains(t, out.Err.Error(), "me@example.com")
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.Everything())
		})
	}
}

// redirecting is Stripe's table if Stripe took redirects for outcomes.
func redirecting() []providers.Provider {
	p := providers.Stripe()
	p.Endpoints = slices.Clone(p.Endpoints)
	for i := range p.Endpoints {
		if !p.Endpoints[i].NoEffect {
			redirectIsFinal(&p.Endpoints[i])
		}
	}
	return []providers.Provider{p}
}

func jsonText(text string) option {
	return func(r *http.Request) {
		body(text)(r)
		r.Header.Set("Content-Type", "application/json")
	}
}

// A partner refunds for one sub-merchant, and by the same name for another. The second does not get the first one's
// answer.
func TestRefundOfAnotherSubMerchant(t *testing.T) {
	virtual(t, "Razorpay", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Providers: []providers.Provider{providers.Razorpay(24 * time.Hour)}})
		refund := to(http.MethodPost, "https://api.razorpay.com/v1/payments/pay_1/refund")
		require.NoError(t, p.Ask(named(t, "refund-7"), refund, with("X-Razorpay-Account", "acc_A")).Err)
		out := p.Ask(named(t, "refund-7"), refund, with("X-Razorpay-Account", "acc_B"))
		require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
		assert.NoError(t, p.Ask(named(t, "refund-7"), refund, with("X-Razorpay-Account", "acc_A")).Err)
	})
}

func TestAHeadersSpellingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spelled := http.Header{"authorization": {"Bearer x"}, "idempotency-key": {"sdk-1"}, "x-odd-Case": {"1"}}
		l := &line{}
		p := start(t, l, onceward.Config{})
		out := p.Ask(named(t, "invoice-1/charge"), func(r *http.Request) {
			maps.Copy(r.Header, spelled)
		})
		require.NoError(t, out.Err)
		require.Len(t, l.Sent(), 1)
		got := l.Sent()[0].Header
		assert.Equal(t, http.Header{
			"Content-Type": {form}, "Idempotency-Key": {"sdk-1"}, "authorization": {"Bearer x"}, "x-odd-Case": {"1"},
		}, got)
		assert.NotContains(t, p.Recorded(out.Op.Ref).Request.Header, "authorization")
	})
}

// An unsent operation was recorded while its endpoint took no key. Once it takes one, the operation has the key that
// every process derives from its name.
func TestKeyOfAnEndpointThatTakesOneLater(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		keyless := func(e *providers.Endpoint) { *e = providers.Endpoint{Pattern: e.Pattern} }
		l, j, secret := (&line{}).Then(refuses()), onDisk(t), []byte("0123456789abcdef")
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Secret: secret, Providers: []providers.Provider{own(keyless)}})
		require.Error(t, was.Ask(named(t, invoice), toOwn).Err)
		pass(2 * time.Hour)
		cfg := onceward.Config{Backoff: once, Secret: secret, Providers: []providers.Provider{own()}}
		elsewhere := start(t, l, cfg)
		cfg.Journal = j
		for _, p := range []*process{start(t, l, cfg), elsewhere} {
			require.NoError(t, p.Ask(named(t, invoice), toOwn).Err)
		}
		require.Len(t, l.Sent(), 2)
		assert.NotEmpty(t, l.Keys()[0])
		assert.Equal(t, l.Keys()[1], l.Keys()[0])
	})
}

// A request without a host is not recorded. The transport reports the error.
func TestRequestWithoutAHost(t *testing.T) {
	for name, u := range map[string]*url.URL{"no URL": nil, "no host": {Scheme: "https", Path: "/orders"}} {
		virtual(t, name, func(t *testing.T) {
			p := start(t, roundTrip(func(*http.Request) (*http.Response, error) { return nil, errReset }), onceward.Config{})
			req, err := http.NewRequestWithContext(named(t, invoice), http.MethodPost, ownURL, nil)
			require.NoError(t, err)
			req.URL = u
			_, err = p.HTTP.Transport.RoundTrip(req)
			require.ErrorIs(t, err, errReset)
			assert.Empty(t, p.Everything())
		})
	}
}

// A request that can't be repeated can't have a name, even if its body is a GraphQL query. Its body is known only once
// it is sent.
func TestQueryThatCantBeRepeated(t *testing.T) {
	for name, option := range map[string]option{
		"with a trailer": func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} },
		"an upgrade":     with("Upgrade", "websocket"),
	} {
		virtual(t, name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{graph()}})
			require.ErrorIs(t, p.Ask(named(t, invoice), append(graphQL(aQuery), option)...).Err, onceward.ErrInvalidRequest)
			assert.Empty(t, l.Sent())
		})
	}
}
