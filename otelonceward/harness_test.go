package otelonceward_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/otelonceward"
	"github.com/onceward/onceward/providers"
)

// canaries are secrets and names that the telemetry must not contain.
var canaries = []string{"sk_live_SECRET", "4242424242424242", "in_the_query", "customer-jane", "tenant-42", "in_baggage", "from-authorize", "order-77"}

var errLost = errors.New("the connection was lost, with in_the_query")

// setup is a client over a SQLite file, with exporters. The test scripts its provider's answers.
type setup struct {
	t         *testing.T
	client    *onceward.Client
	journal   *sqlite.Journal
	telemetry *otelonceward.Telemetry
	spans     *tracetest.InMemoryExporter
	tracers   *sdktrace.TracerProvider
	scrapes   *httptest.Server

	mu      sync.Mutex
	answers []func(*http.Request) (*http.Response, error)
	sent    []*http.Request
}

func (s *setup) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	s.mu.Lock()
	s.sent = append(s.sent, req)
	answer := says(200, `{"id":"ch_1"}`)
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	return answer(req)
}

func (s *setup) then(answers ...func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

func says(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Proto: "HTTP/2.0", ProtoMajor: 2, Request: req,
			Header: http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"sk_live_SECRET"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func loses() func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, errLost }
}

func newSetup(t *testing.T, change func(*onceward.Config), opts ...otelonceward.Option) *setup {
	t.Helper()
	s := &setup{t: t, spans: tracetest.NewInMemoryExporter()}
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans))
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(t, err)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	tables := []providers.Provider{providers.Stripe()}
	s.telemetry, err = otelonceward.New(append([]otelonceward.Option{otelonceward.WithTracerProvider(s.tracers),
		otelonceward.WithMeterProvider(meters), otelonceward.WithProviders(tables...)}, opts...)...)
	require.NoError(t, err)
	s.journal, err = sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Committed: s.telemetry.Committed("payments"), Volatile: true})
	require.NoError(t, err)
	cfg := onceward.Config{
		Journal: s.journal, Providers: tables, Trace: s.telemetry.Trace(), HTTPClient: &http.Client{Transport: s},
		Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond},
		Authorize: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer sk_live_SECRET")
			return nil
		},
		Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }},
	}
	if change != nil {
		change(&cfg)
	}
	s.client, err = onceward.New(cfg)
	require.NoError(t, err)
	_, err = s.telemetry.Observe("payments", s.journal)
	require.NoError(t, err)
	_, err = s.telemetry.ObserveClient(s.client)
	require.NoError(t, err)
	s.scrapes = httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	t.Cleanup(func() {
		require.NoError(t, s.client.Shutdown(context.Background()))
		require.NoError(t, s.journal.Close())
		s.scrapes.Close()
	})
	return s
}

// pay asks for a charge, with a canary everywhere.
func (s *setup) pay(ctx context.Context, name string) error {
	return s.payStep(onceward.WithOperation(ctx, name))
}

// payStep is pay under the name that ctx has.
func (s *setup) payStep(ctx context.Context) error {
	body := url.Values{"amount": {"4200"}, "card": {"4242424242424242"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"https://api.stripe.com/v1/charges?expand=in_the_query", strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Baggage", "user=in_baggage")
	resp, err := s.client.HTTPClient().Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// scrape is a real one.
func (s *setup) scrape() string {
	s.t.Helper()
	resp, err := http.Get(s.scrapes.URL)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode, string(text))
	return string(text)
}
