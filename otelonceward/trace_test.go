package otelonceward_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/otelonceward"
	"github.com/onceward/onceward/providers"
)

const charges = "onceward stripe POST /v1/charges"

func attributesOf(s tracetest.SpanStub) map[string]any {
	all := map[string]any{}
	for _, kv := range s.Attributes {
		all[string(kv.Key)] = kv.Value.AsInterface()
	}
	return all
}

func eventsOf(s tracetest.SpanStub) (names []string) {
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

func spansNamed(s *setup, name string) (found []tracetest.SpanStub) {
	for _, span := range s.spans.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

func TestSpansOfACall(t *testing.T) {
	s := newSetup(t, nil)
	s.then(loses(), says(503, ""))
	ctx, caller := s.tracers.Tracer("test").Start(t.Context(), "caller")
	require.NoError(t, s.pay(ctx, "order-77"))
	require.NoError(t, s.pay(ctx, "order-77"))
	caller.End()

	ops := spansNamed(s, charges)
	require.Len(t, ops, 2, "the claim, and the call that got the recorded answer")
	claim := ops[0]
	assert.Equal(t, trace.SpanKindInternal, claim.SpanKind)
	assert.Equal(t, caller.SpanContext().SpanID(), claim.Parent.SpanID())
	assert.Equal(t, codes.Unset, claim.Status.Code, "retries that ended well are no error")
	got := attributesOf(claim)
	assert.Equal(t, map[string]any{
		"onceward.provider": "stripe", "onceward.endpoint": "POST /v1/charges", "onceward.claim.reason": "new", "onceward.background": false,
		"onceward.operation.generation": int64(0), "onceward.operation.attempts": int64(3), "onceward.state": "completed", "onceward.effect": "took effect",
	}, got)
	assert.Equal(t, []string{"intent durable", "delayed", "delayed", "recorded"}, eventsOf(claim))
	assert.Equal(t, otelonceward.ScopeName, claim.InstrumentationScope.Name)
	assert.NotEmpty(t, claim.InstrumentationScope.SchemaURL)

	attempts := spansNamed(s, "POST /v1/charges")
	require.Len(t, attempts, 3)
	for i, a := range attempts {
		assert.Equal(t, trace.SpanKindClient, a.SpanKind)
		assert.Equal(t, claim.SpanContext.SpanID(), a.Parent.SpanID())
		got := attributesOf(a)
		assert.Equal(t, "POST", got["http.request.method"])
		assert.Equal(t, "api.stripe.com", got["server.address"])
		assert.Equal(t, int64(443), got["server.port"])
		assert.Equal(t, "https://api.stripe.com/v1/charges", got["url.full"])
		assert.Equal(t, "/v1/charges", got["url.template"])
		switch i {
		case 0:
			assert.NotContains(t, got, "http.request.resend_count")
			assert.Equal(t, "connection", got["error.type"])
			assert.Equal(t, codes.Error, a.Status.Code)
		case 1:
			assert.Equal(t, int64(1), got["http.request.resend_count"])
			assert.Equal(t, "503", got["error.type"])
			assert.Equal(t, int64(503), got["http.response.status_code"])
			assert.Equal(t, "2", got["network.protocol.version"])
		case 2:
			assert.Equal(t, int64(2), got["http.request.resend_count"])
			assert.NotContains(t, got, "error.type")
			assert.Equal(t, codes.Unset, a.Status.Code)
		}
	}
	assert.Equal(t, "replayed", attributesOf(ops[1])["onceward.outcome"])
	assert.Equal(t, caller.SpanContext().SpanID(), ops[1].Parent.SpanID())
}

// The background sends an operation in a trace of its own, with a link to the caller who asked for it.
func TestSpansInTheBackground(t *testing.T) {
	s := newSetup(t, func(cfg *onceward.Config) {
		cfg.Backoff = backoff.Policy{MaxAttempts: 1, Initial: time.Millisecond, Max: time.Millisecond}
	})
	s.then(loses())
	ctx, caller := s.tracers.Tracer("test").Start(t.Context(), "caller")
	require.ErrorIs(t, s.pay(ctx, "order-77"), onceward.ErrPending)
	caller.End()
	op, err := s.client.Operation(t.Context(), onceward.Ref{ID: "order-77"})
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("00-%s-%s-01", caller.SpanContext().TraceID(), caller.SpanContext().SpanID()), op.Trace)

	main, end := s.tracers.Tracer("test").Start(t.Context(), "main")
	require.Eventually(t, func() bool {
		_, err := s.client.Resume(main)
		op, err2 := s.client.Operation(t.Context(), onceward.Ref{ID: "order-77"})
		return assert.NoError(t, err) && assert.NoError(t, err2) && op.State == onceward.StateCompleted
	}, 10*time.Second, 5*time.Millisecond)
	end.End()

	ops := spansNamed(s, charges)
	require.Len(t, ops, 2)
	assert.Equal(t, "pending", attributesOf(ops[0])["error.type"])
	assert.Equal(t, codes.Error, ops[0].Status.Code)
	background := ops[1]
	assert.False(t, background.Parent.IsValid(), "a root")
	assert.NotEqual(t, caller.SpanContext().TraceID(), background.SpanContext.TraceID())
	require.Len(t, background.Links, 2)
	assert.Equal(t, caller.SpanContext().SpanID(), background.Links[0].SpanContext.SpanID())
	assert.Equal(t, caller.SpanContext().TraceID(), background.Links[0].SpanContext.TraceID())
	assert.Equal(t, ops[0].SpanContext.SpanID(), background.Links[1].SpanContext.SpanID(), "its last claim")
	assert.Equal(t, true, attributesOf(background)["onceward.background"])
	attempts := spansNamed(s, "POST /v1/charges")
	assert.Equal(t, int64(1), attributesOf(attempts[len(attempts)-1])["http.request.resend_count"])
}

func TestSpansOfUnsentOperations(t *testing.T) {
	s := newSetup(t, nil, otelonceward.WithOperationID())
	require.NoError(t, s.pay(t.Context(), "invoice-1"))
	req, err := http.NewRequestWithContext(onceward.WithOperation(t.Context(), "invoice-1"), http.MethodPost, "https://api.stripe.com/v1/charges", strings.NewReader("amount=1"))
	require.NoError(t, err)
	_, err = s.client.HTTPClient().Do(req)
	require.ErrorIs(t, err, onceward.ErrKeyReused)
	ops := spansNamed(s, charges)
	require.Len(t, ops, 2)
	assert.Equal(t, "invoice-1", attributesOf(ops[0])["onceward.operation.id"])
	got := attributesOf(ops[1])
	assert.Equal(t, "key_reused", got["onceward.outcome"])
	assert.Equal(t, "key_reused", got["error.type"])
	assert.Equal(t, codes.Error, ops[1].Status.Code)
}

// A refusal that is the recorded answer is no error of the span, and neither is its attempt.
func TestSpanOfARefusalThatIsTheAnswer(t *testing.T) {
	s := newSetup(t, nil)
	s.then(says(402, `{"error":{"type":"card_error","code":"card_declined"}}`))
	require.NoError(t, s.pay(t.Context(), "order-77"))
	claim := spansNamed(s, charges)[0]
	assert.Equal(t, codes.Unset, claim.Status.Code)
	assert.NotContains(t, attributesOf(claim), "error.type")
}

// A conflict which says that the request was executed before is the answer. Neither the operation's span nor its
// attempt's is an error.
func TestSpanOfAnAlreadyDoneOperation(t *testing.T) {
	table := providers.Raw(24*time.Hour, "ledger.example.com")
	rule := providers.Rule{Status: http.StatusConflict, Field: "error", Equals: "exists", Verdict: providers.AlreadyDone, Pointer: "id", Source: "a test"}
	table.Endpoints[0].Rules = append([]providers.Rule{rule}, table.Endpoints[0].Rules...)
	s := newSetup(t, func(cfg *onceward.Config) { cfg.Providers = []providers.Provider{table} })
	s.then(loses(), says(409, `{"error":"exists","id":"PM123"}`))
	req, err := http.NewRequestWithContext(onceward.WithOperation(t.Context(), "order-77"), http.MethodPost, "https://ledger.example.com/payments", strings.NewReader(`{"payments":{}}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.HTTPClient().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusConflict, resp.StatusCode)
	claim := spansNamed(s, "onceward raw /")[0]
	assert.Equal(t, "completed", attributesOf(claim)["onceward.state"])
	assert.Equal(t, codes.Unset, claim.Status.Code)
	attempts := spansNamed(s, "POST /")
	require.Len(t, attempts, 2)
	assert.Equal(t, codes.Error, attempts[0].Status.Code)
	got := attributesOf(attempts[1])
	assert.Equal(t, int64(409), got["http.response.status_code"])
	assert.Equal(t, "already done", got["onceward.verdict"])
	assert.Equal(t, "/", got["url.template"])
	assert.NotContains(t, got, "error.type")
	assert.Equal(t, codes.Unset, attempts[1].Status.Code)
}

// A provider gets no header of the trace. A transport finds the attempt's span, and may inject it.
func TestTraceHeaderIsTheTransports(t *testing.T) {
	for name, inject := range map[string]bool{"nowhere": false, "by the transport": true} {
		t.Run(name, func(t *testing.T) {
			var s *setup
			s = newSetup(t, func(cfg *onceward.Config) {
				cfg.HTTPClient = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
					if inject {
						req = req.Clone(req.Context())
						propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(req.Header))
					}
					return s.RoundTrip(req)
				})}
			})
			require.NoError(t, s.pay(t.Context(), "order-77"))
			require.Len(t, s.sent, 1)
			parent := s.sent[0].Header.Get("Traceparent")
			if !inject {
				assert.Empty(t, parent)
				return
			}
			attempt := spansNamed(s, "POST /v1/charges")[0]
			assert.Contains(t, parent, attempt.SpanContext.SpanID().String())
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// No span and no metric has a secret or the name of a customer, tenant or operator.
func TestTelemetryHasNoSecrets(t *testing.T) {
	s := newSetup(t, func(cfg *onceward.Config) {
		cfg.Backoff = backoff.Policy{MaxAttempts: 2, Initial: time.Millisecond, Max: time.Millisecond}
	})
	ctx := onceward.WithAccount(onceward.WithScope(t.Context(), "tenant-42"), "customer-jane")
	s.then(loses(), loses())
	require.Error(t, s.pay(ctx, "order-77"))
	require.NoError(t, s.pay(ctx, "order-77-again"))
	require.NoError(t, s.pay(ctx, "order-77-again"))
	op, err := s.client.Operation(t.Context(), onceward.Ref{Scope: "tenant-42", ID: "order-77"})
	require.NoError(t, err)
	_, err = s.client.Resolve(t.Context(), op.Seen, onceward.Executed, onceward.ResolveOptions{By: "customer-jane", Why: "in_the_query"})
	require.NoError(t, err)
	require.Error(t, newSetup(t, func(cfg *onceward.Config) {
		cfg.Trace = s.telemetry.Trace()
		cfg.Authorize = func(*http.Request) error { return fmt.Errorf("no token from-authorize %w", context.Canceled) }
	}).pay(ctx, "order-77"))

	spans, err := json.Marshal(s.spans.GetSpans())
	require.NoError(t, err)
	var text strings.Builder
	for _, span := range s.spans.GetSpans() {
		fmt.Fprintf(&text, "%+v\n", span)
		for _, kv := range span.Attributes {
			assert.Contains(t, []attribute.Type{attribute.STRING, attribute.INT64, attribute.BOOL, attribute.FLOAT64}, kv.Value.Type())
		}
	}
	require.Contains(t, text.String(), "POST /v1/charges")
	scraped := s.scrape()
	require.Contains(t, scraped, "onceward_call_duration_seconds_count")
	for _, canary := range append(canaries, string(op.Key)) {
		for where, said := range map[string]string{"spans": text.String() + string(spans), "metrics": scraped} {
			assert.False(t, strings.Contains(said, canary), "%s is in %s", canary, where)
		}
	}
}
