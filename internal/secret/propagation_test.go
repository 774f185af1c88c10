package secret_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/secret"
)

func TestTraceHeadersAreKnownByName(t *testing.T) {
	for _, name := range []string{
		"traceparent", "Traceparent", "TRACESTATE", "baggage", "b3", "B3", "X-B3-TraceId", "x-b3-sampled", "X-B3-Flags",
		"uber-trace-id", "Uberctx-Session", "X-Cloud-Trace-Context", "X-Amzn-Trace-Id", "sentry-trace", "x-datadog-parent-id",
		"grpc-trace-bin", "elastic-apm-traceparent", "newrelic", "Ot-Tracer-Spanid", "sw8", "Correlation-Context",
	} {
		assert.True(t, secret.Propagated(name), name)
	}
	for _, name := range []string{
		"", "x", "X-Request-Id", "X-B3-", "B3x", "Traceparent2", "X-Trace", "Trace-Order", "X-Amzn-Requestid", "Baggage-Weight",
		"Idempotency-Key", "Authorization", "Content-Type", "X-Datadog", "Uberctx",
	} {
		assert.False(t, secret.Propagated(name), name)
	}
}
