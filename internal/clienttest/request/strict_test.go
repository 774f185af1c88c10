package request_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// ported is the table own at a host with a port.
func ported() providers.Provider {
	p := own()
	p.Name, p.Hosts = "ported", []string{"ported.example:8443"}
	return p
}

// elsewhereKeyed takes its key in a header of another name.
func elsewhereKeyed() providers.Provider {
	p := own(func(e *providers.Endpoint) { e.Key.Name = "X-Order-Idempotency" })
	p.Name, p.Hosts = "keyed", []string{"keyed.example"}
	return p
}

// bodyKeyed takes its key in the body.
func bodyKeyed() providers.Provider {
	p := own(func(e *providers.Endpoint) { e.Key = providers.Key{Place: providers.KeyJSONField, Name: "key"} })
	p.Name, p.Hosts = "body", []string{"body.example"}
	return p
}

// listed has only one endpoint.
func listed() providers.Provider {
	p := own(func(e *providers.Endpoint) { e.Pattern = "POST /v1/charges" })
	p.Name, p.Hosts = "listed", []string{"listed.example"}
	return p
}

// wild covers all hosts of a domain, at a port.
func wild() providers.Provider {
	p := own()
	p.Name, p.Hosts = "wild", []string{"*.wild.example:8443"}
	return p
}

func gapTables() []providers.Provider {
	return []providers.Provider{own(), wild(), ported(), elsewhereKeyed(), bodyKeyed(), stampedKey(), listed(), providers.Stripe()}
}

// stampedKey takes the first attempt's time beside its key.
func stampedKey() providers.Provider {
	p := own(func(e *providers.Endpoint) {
		e.Key.Name, e.Key.FirstSent = "X-Order-Idempotency", "X-Idempotency-Since"
	})
	p.Name, p.Hosts = "stamped", []string{"stamped.example"}
	return p
}

// gapRows are requests that look protected but are not, with the advice for each.
var gapRows = []struct {
	name, url, says string
	named           bool
	options         []option
}{
	{name: "an unnamed effect at an unlisted host", url: "https://slack.example/post", says: "add a table for the host"},
	{name: "a DELETE there", url: "https://slack.example/post/1", says: "WithOperation", options: []option{func(r *http.Request) { r.Method = http.MethodDelete }}},
	{name: "a host without its port", url: "https://ported.example/orders", says: `the host "ported.example:8443"`},
	{name: "a host without its port, named", url: "https://ported.example/orders", says: `the host "ported.example:8443"`, named: true},
	{name: "a host with a port", url: "https://own.example:8443/orders", says: `the host "own.example"`},
	{name: "a host with a port, named", url: "https://own.example:8443/orders", says: `the host "own.example"`, named: true},
	{name: "a host below another's, without its port", url: "https://a.wild.example/orders", says: `the host "*.wild.example:8443"`},
	{name: "the host above it", url: "https://wild.example/orders", says: "add a table for the host"},
	{name: "a host below one that stands for itself", url: "https://a.own.example/orders", says: "add a table for the host"},
	{name: "a path with an empty segment", url: "https://listed.example//v1/charges", says: "write it as https://listed.example/v1/charges"},
	{name: "a path with an empty segment, named", url: "https://listed.example//v1/charges", says: "write it as https://listed.example/v1/charges", named: true},
	{name: "Stripe's path with one", url: "https://api.stripe.com//v1/charges", says: "write it as https://api.stripe.com/v1/charges"},
	{name: "a path with dots", url: "https://listed.example/v1/x/../charges", says: "write it as", named: true},
	{name: "a path with an escaped slash", url: "https://listed.example/v1%2Fcharges", says: "write it as"},
	{name: "a path with an empty segment, and a slash at its end", url: "https://listed.example//v1/charges/", says: "no endpoint of listed matches it, and it has no name"},
	{name: "another path", url: "https://listed.example/v1/refunds", says: "no endpoint of listed matches it"},
	{name: "a chunked body", url: ownURL, says: "known length", options: []option{func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }}},
	{name: "a key in the usual header", url: "https://keyed.example/orders", says: "header X-Order-Idempotency", options: []option{with("Idempotency-Key", "1")}},
	{name: "a key in the usual header, named", url: "https://keyed.example/orders", says: "header X-Order-Idempotency", named: true, options: []option{with("Idempotency-Key", "1")}},
	{name: "a key in a header of one's own", url: ownURL, says: "Idempotency-Key", options: []option{with("X-Idempotency-Key", "1")}},
	{name: "PayPal's header", url: ownURL, says: "Paypal-Request-Id", options: []option{with("PayPal-Request-Id", "1")}},
	{name: "a header where the key is in the body", url: "https://body.example/orders", says: "JSON field key", options: []option{with("Idempotency-Key", "1"), json1(`{"a":1}`)}},
}

// soundRows are requests without a fault.
var soundRows = []struct {
	name, url string
	named     bool
	options   []option
}{
	{name: "listed", url: ownURL},
	{name: "listed and named", url: ownURL, named: true},
	{name: "with its key", url: "https://keyed.example/orders", options: []option{with("X-Order-Idempotency", "1")}},
	{name: "with its key, and another's", url: "https://keyed.example/orders", options: []option{with("X-Order-Idempotency", "1"), with("Idempotency-Key", "1")}},
	{name: "with its key in the body, and a header", url: "https://body.example/orders", options: []option{with("Idempotency-Key", "1"), json1(`{"key":"1"}`)}},
	{name: "with an empty header of another's", url: "https://keyed.example/orders", options: []option{with("Idempotency-Key", "")}},
	{name: "with a header without values", url: "https://keyed.example/orders", options: []option{func(r *http.Request) { r.Header["Idempotency-Key"] = nil }}},
	{name: "with the time of its first attempt", url: "https://stamped.example/orders", options: []option{with("X-Idempotency-Since", "Wed, 21 Oct 2015 07:28:00 GMT")}},
	{name: "named, at an unlisted host", url: "https://slack.example/post", named: true},
	{name: "named, at an unlisted path", url: "https://listed.example/v1/refunds", named: true},
	{name: "its scheme's port", url: "https://own.example:443/orders"},
	{name: "safe", url: "https://slack.example//post", options: []option{func(r *http.Request) { r.Method = http.MethodGet }}},
}

func TestStrictRefusesUnprotectedRequests(t *testing.T) {
	t.Parallel()
	for _, row := range gapRows {
		t.Run(row.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Strict: true, Providers: gapTables()})
			ctx := t.Context()
			if row.named {
				ctx = named(t, invoice)
			}
			out := p.Ask(ctx, append([]option{to(http.MethodPost, row.url+"?token="+canary)}, row.options...)...)
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e)
			require.ErrorIs(t, e, onceward.ErrUnprotected)
			assert.ErrorContains(t, e.Err, row.says)
			assert.NotContains(t, e.Error(), canary)
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.Everything())
		})
	}
	for _, row := range soundRows {
		t.Run(row.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Strict: true, Providers: gapTables()})
			ctx := t.Context()
			if row.named {
				ctx = named(t, invoice)
			}
			require.NoError(t, p.Ask(ctx, append([]option{to(http.MethodPost, row.url)}, row.options...)...).Err)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

func TestUnprotectedHostIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, row := range gapRows {
		t.Run(row.name, func(t *testing.T) {
			var log strings.Builder
			p := start(t, &line{}, onceward.Config{Providers: gapTables(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			ask := func(url string, i int) {
				ctx := t.Context()
				if row.named {
					ctx = named(t, fmt.Sprint(i))
				}
				require.NoError(t, p.Ask(ctx, append([]option{to(http.MethodPost, url+"?token="+canary)}, row.options...)...).Err)
			}
			for i := range 3 {
				ask(row.url, i)
			}
			assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
			assert.Contains(t, strings.ReplaceAll(log.String(), `\"`, `"`), row.says)
			assert.NotContains(t, log.String(), canary)
		})
	}
	for _, row := range soundRows {
		t.Run(row.name, func(t *testing.T) {
			var log strings.Builder
			p := start(t, &line{}, onceward.Config{Providers: gapTables(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			ctx := t.Context()
			if row.named {
				ctx = named(t, invoice)
			}
			require.NoError(t, p.Ask(ctx, append([]option{to(http.MethodPost, row.url)}, row.options...)...).Err)
			assert.Empty(t, log.String())
		})
	}
	t.Run("of two hosts twice", func(t *testing.T) {
		var log strings.Builder
		p := start(t, &line{}, onceward.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, host := range []string{"a.example", "b.example", "a.example"} {
			require.NoError(t, p.Ask(t.Context(), to(http.MethodPost, "https://"+host)).Err)
		}
		assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"))
	})
}

// An SDK repeats a payment with its own key, at a server that takes any header and reads another. The payment is
// refused, because it would be made twice.
func TestWrongKeyHeaderIsNotPaidTwice(t *testing.T) {
	for strict, effects := range map[bool]int{false: 2, true: 0} {
		paidFor := map[string]bool{}
		made := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if key := r.Header.Get("Idempotency-Key"); key == "" || !paidFor[key] {
				paidFor[key] = true
				made++
			}
			pays(w, r)
		}))
		t.Cleanup(srv.Close)
		api := own(func(e *providers.Endpoint) { e.Key.Name = "X-Request-Key" })
		api.Hosts = []string{strings.TrimPrefix(srv.URL, "http://")}
		p := start(t, srv.Client().Transport, onceward.Config{Strict: strict, Providers: []providers.Provider{api}})
		for range 2 {
			out := p.Ask(t.Context(), to(http.MethodPost, srv.URL+"/orders"), with("X-Idempotency-Key", "invoice-1"))
			if strict {
				require.ErrorIs(t, out.Err, onceward.ErrUnprotected)
			} else {
				require.NoError(t, out.Err)
			}
		}
		assert.Equal(t, effects, made)
	}
}

// The README says that go-retryablehttp above makes an unnamed payment twice, since nothing connects the two calls. A
// name prevents that.
func TestGoRetryablehttpAbovePaysTwice(t *testing.T) {
	for name, made := range map[string]int{"": 2, invoice: 1} {
		t.Run(name, func(t *testing.T) {
			virtual(t, "", func(t *testing.T) {
				executed := map[string]bool{}
				l := (&line{}).Then(loses()).Always(says(200, paid))
				p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, Backoff: once})
				above := retryablehttp.NewClient()
				above.HTTPClient, above.Logger = p.HTTPClient(), nil
				above.RetryWaitMin, above.RetryWaitMax = time.Hour, time.Hour
				ctx := context.Background()
				if name != "" {
					ctx = onceward.WithOperation(ctx, name)
				}
				req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodPost, ownURL, []byte(chargeForm))
				require.NoError(t, err)
				resp, err := above.Do(req)
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
				for _, key := range l.Keys() {
					executed[key] = true
				}
				assert.Len(t, executed, made)
			})
		})
	}
}

func TestAMalformedKeyIsNoGap(t *testing.T) {
	p := start(t, &line{}, onceward.Config{Strict: true, Providers: gapTables()})
	out := p.Ask(t.Context(), to(http.MethodPost, "https://body.example/orders"), with("Idempotency-Key", "1"), json1(`{"key":["a"]}`))
	require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
}

func TestThousandUnprotectedHostsAreLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p := start(t, &line{}, onceward.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 1030 {
		require.NoError(t, p.Ask(t.Context(), to(http.MethodPost, fmt.Sprintf("https://host-%d.example/", i))).Err)
	}
	assert.Equal(t, 1024, strings.Count(log.String(), "level=WARN"))
}
