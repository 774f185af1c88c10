package otelonceward_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/otelonceward"
	"github.com/onceward/onceward/providers"
)

// BenchmarkCost measures an operation of one attempt, over a transport and a journal in memory. The cost of the
// telemetry is the difference from the bare client.
func BenchmarkCost(b *testing.B) {
	meters := func() *metric.MeterProvider {
		return metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	}
	for _, row := range []struct {
		name string
		made func() []otelonceward.Option
	}{
		{"bare", nil},
		{"sampled out", func() []otelonceward.Option {
			return []otelonceward.Option{otelonceward.WithMeterProvider(meters()), otelonceward.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))}
		}},
		{"sampled", func() []otelonceward.Option {
			return []otelonceward.Option{otelonceward.WithMeterProvider(meters()), otelonceward.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter())))}
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			tables := []providers.Provider{providers.Stripe()}
			cfg := onceward.Config{Journal: memory.New(), Providers: tables, HTTPClient: &http.Client{Transport: roundTripper(says(200, `{"id":"ch_1"}`))}}
			if row.made != nil {
				t, err := otelonceward.New(append(row.made(), otelonceward.WithProviders(tables...))...)
				require.NoError(b, err)
				cfg.Trace = t.Trace()
			}
			client, err := onceward.New(cfg)
			require.NoError(b, err)
			over := client.Transport()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				req, err := http.NewRequestWithContext(onceward.WithOperation(b.Context(), strconv.Itoa(i)), http.MethodPost, "https://api.stripe.com/v1/charges", strings.NewReader("amount=4200"))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				resp, err := over.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}

// hooks returns a function that calls the hooks of such an operation, with spans sampled out.
func hooks(tb testing.TB) func() {
	now := time.Now()
	op := onceward.Operation{Seen: onceward.Seen{Ref: onceward.Ref{ID: "invoice-1"}, Claim: 1}, Provider: "stripe", Endpoint: "POST /v1/charges", Named: true,
		Method: http.MethodPost, URL: "https://api.stripe.com/v1/charges", State: onceward.StateInFlight, CreatedAt: now}
	done := op
	done.State, done.SettledAt, done.Attempts = onceward.StateCompleted, now.Add(time.Second), 1
	t, err := otelonceward.New(otelonceward.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
		otelonceward.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))))
	require.NoError(tb, err)
	trace, ctx := t.Trace(), tb.Context()
	return func() {
		_ = trace.Parent(ctx)
		claim := trace.Started(ctx, op, onceward.Why{Reason: onceward.ReasonNew})
		attempt := trace.AttemptStarted(claim, op, 1)
		trace.AttemptEnded(attempt, op, onceward.Attempt{Number: 1, Status: 200, Verdict: providers.Final})
		trace.Ended(claim, done, nil)
		trace.Asked(ctx, done, onceward.CallExecuted, nil, time.Second)
	}
}

// BenchmarkHooks measures the hooks of such an operation by themselves. On a busy machine this shows their cost
// better than a difference does.
func BenchmarkHooks(b *testing.B) {
	all := hooks(b)
	b.ReportAllocs()
	for b.Loop() {
		all()
	}
}

func TestHooksAllocateLittle(t *testing.T) {
	assert.LessOrEqual(t, testing.AllocsPerRun(100, hooks(t)), 20.0)
}
