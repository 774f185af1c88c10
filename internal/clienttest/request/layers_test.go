package request_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// through is a layer that can't be looked into.
func through(base http.RoundTripper) http.RoundTripper { return roundTrip(base.RoundTrip) }

// repeating is a layer of go-retryablehttp that repeats three times without a pause.
func repeating(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport, c.Logger, c.RetryMax = base, nil, 3
	c.RetryWaitMin, c.RetryWaitMax = time.Nanosecond, time.Nanosecond
	return c.StandardClient().Transport
}

// lateDefault sends by the http.DefaultTransport of the moment.
var lateDefault = roundTrip(func(req *http.Request) (*http.Response, error) { return http.DefaultTransport.RoundTrip(req) })

// replaceDefault replaces http.DefaultTransport until the test ends. Such a test is not parallel.
func replaceDefault(t *testing.T, by http.RoundTripper) {
	original := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = original })
	http.DefaultTransport = by
}

func TestNewRefusesClientsAndRetryLayers(t *testing.T) {
	mine := start(t, &line{}, onceward.Config{}).HTTPClient().Transport
	for name, row := range map[string]struct {
		base http.RoundTripper
		says string
	}{
		"go-retryablehttp":              {repeating(http.DefaultTransport), "go-retryablehttp"},
		"a client's":                    {mine, "a client of this package"},
		"a client's, as a default":      {nil, "http.DefaultTransport"},
		"a function":                    {lateDefault, ""},
		"net/http's":                    {&http.Transport{}, ""},
		"go-retryablehttp, not visible": {through(repeating(http.DefaultTransport)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			replaceDefault(t, mine)
			_, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: anywhere(), HTTPClient: &http.Client{Transport: row.base}})
			if row.says == "" {
				require.NoError(t, err)
				return
			}
			var config *onceward.ConfigError
			require.ErrorAs(t, err, &config)
			assert.Equal(t, "HTTPClient", config.Field)
			assert.ErrorContains(t, err, row.says)
		})
	}
}

// A layer below the client must not repeat an attempt, wherever it is. Its second request does not leave.
func TestALayerBelowRepeatsNoAttempt(t *testing.T) {
	t.Parallel()
	closing := func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for name, fails := range map[string]func(http.ResponseWriter){
		"status 503": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"status 303": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusSeeOther)
		},
		"no answer": closing,
	} {
		for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			for layer, below := range map[string]func(http.RoundTripper) http.RoundTripper{
				"a function": func(base http.RoundTripper) http.RoundTripper { return through(repeating(base)) },
				"two":        func(base http.RoundTripper) http.RoundTripper { return through(through(repeating(through(base)))) },
			} {
				var requests atomic.Int32
				serving := func(t *testing.T) *httptest.Server {
					requests.Store(0)
					srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(io.Discard, r.Body)
						if requests.Add(1) == 1 {
							fails(w)
							return
						}
						pays(w, r)
					}))
					srv.EnableHTTP2, srv.Config.ErrorLog = http2, quiet
					srv.StartTLS()
					t.Cleanup(srv.Close)
					return srv
				}
				for text, form := range map[string]string{"with a body": "amount=1", "without a body": ""} {
					t.Run(name+", "+protocol+", "+layer+", "+text, func(t *testing.T) {
						srv := serving(t)
						p := start(t, below(srv.Client().Transport), onceward.Config{Providers: anywhere(noRetention), Backoff: quick})
						out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), body(form))
						require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
						require.ErrorContains(t, out.Err, "Config.HTTPClient")
						assert.EqualValues(t, 1, requests.Load())
						assert.Contains(t, p.Recorded(onceward.Ref{ID: "order-1"}).Cause, "a second request of one attempt")
					})
					t.Run(name+", "+protocol+", "+layer+", "+text+", and a repeat is safe", func(t *testing.T) {
						srv := serving(t)
						var attempts atomic.Int32
						p := start(t, below(srv.Client().Transport), onceward.Config{Providers: anywhere(), Backoff: quick, Trace: counting(&attempts)})
						out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), body(form))
						require.NoError(t, out.Err)
						assert.EqualValues(t, 2, requests.Load())
						assert.EqualValues(t, 2, attempts.Load())
					})
				}
			}
		}
	}
}

// A client below another would record the operation twice. It refuses what the upper one sends.
func TestAClientBelowAnotherRefuses(t *testing.T) {
	l := (&line{}).Always(says(200, paid))
	lower := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
	for name, layer := range map[string]http.RoundTripper{
		"in a function":     through(lower.HTTP.Transport),
		"below a repeating": through(repeating(lower.HTTP.Transport)),
	} {
		upper := start(t, layer, onceward.Config{Providers: []providers.Provider{own()}, Backoff: backoff.Policy{MaxAttempts: 1}})
		out := upper.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		require.Error(t, out.Err, name)
		assert.ErrorContains(t, out.Err, "leads back to a client", name)
	}
	assert.Empty(t, l.Sent())
	_, err := lower.Operation(t.Context(), onceward.Ref{ID: "order-1"})
	assert.ErrorIs(t, err, onceward.ErrNotFound)
}

// calls is a client for the API at srv, and for no other host.
func calls(t *testing.T, srv *httptest.Server, base http.RoundTripper) *onceward.Client {
	t.Helper()
	p := own()
	p.Hosts = []string{strings.TrimPrefix(srv.URL, "http://")}
	c, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{p}, HTTPClient: &http.Client{Transport: base}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	return c
}

// served is a server that notes each request's key.
func served(t *testing.T) (srv *httptest.Server, keys *[]string) {
	keys = new([]string)
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*keys = append(*keys, r.Header.Get("Idempotency-Key"))
		pays(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv, keys
}

// byDefault sends a request to /orders by http.DefaultClient, and returns the answer's body.
func byDefault(ctx context.Context, method, server string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, server+"/orders", strings.NewReader(`{"amount":1}`))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestAsDefaultTransport(t *testing.T) {
	srv, keys := served(t)
	other, otherKeys := served(t)
	var closed atomic.Int32
	c := calls(t, srv, closer{http.DefaultTransport, &closed})
	replaceDefault(t, c.Transport())
	for range 2 {
		text, err := byDefault(named(t, "order-1"), http.MethodPost, srv.URL)
		require.NoError(t, err)
		assert.JSONEq(t, paid, text)
		_, err = byDefault(t.Context(), http.MethodPost, other.URL)
		require.NoError(t, err)
	}
	assert.Len(t, *keys, 1, "the second answer is the recorded one")
	assert.Equal(t, []string{"", ""}, *otherKeys, "an unnamed request to another host passes through")
	http.DefaultClient.CloseIdleConnections()
	assert.EqualValues(t, 1, closed.Load())
}

// closer counts the calls to CloseIdleConnections.
type closer struct {
	http.RoundTripper
	n *atomic.Int32
}

func (c closer) CloseIdleConnections() { c.n.Add(1) }

// A transport that reads http.DefaultTransport for each request would lead back to the client.
func TestALateDefaultTransportIsAnError(t *testing.T) {
	for name, base := range map[string]http.RoundTripper{"as it is": lateDefault, "in a client": through(lateDefault)} {
		t.Run(name, func(t *testing.T) {
			srv, keys := served(t)
			c := calls(t, srv, base)
			replaceDefault(t, c.Transport())
			for name, ctx := range map[string]context.Context{"order-1": named(t, "order-1"), "": t.Context()} {
				for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
					_, err := byDefault(ctx, method, srv.URL)
					require.ErrorContains(t, err, "leads back to a client", "%s %s", method, name)
					require.ErrorIs(t, err, onceward.ErrNotSent)
				}
			}
			assert.Empty(t, *keys)
		})
	}
}

// A transport may make other requests by the client, such as one for a token, under an attempt's context.
func TestALayerMayAskForAToken(t *testing.T) {
	srv, keys := served(t)
	original := http.DefaultTransport
	c := calls(t, srv, roundTrip(func(req *http.Request) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/token") {
			return original.RoundTrip(req)
		}
		token, err := http.NewRequestWithContext(req.Context(), http.MethodGet, srv.URL+"/token", nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(token)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		return original.RoundTrip(req)
	}))
	replaceDefault(t, c.Transport())
	text, err := byDefault(named(t, "order-1"), http.MethodPost, srv.URL)
	require.NoError(t, err)
	assert.JSONEq(t, paid, text)
	require.Len(t, *keys, 2)
	assert.Empty(t, (*keys)[0])
	assert.NotEmpty(t, (*keys)[1])
}

func TestAReadKeepsItsResponsesRequest(t *testing.T) {
	srv, _ := served(t)
	c := calls(t, srv, closer{http.DefaultTransport, nil})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/orders", nil)
	require.NoError(t, err)
	resp, err := c.Transport().RoundTrip(req)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Same(t, req, resp.Request)
}
