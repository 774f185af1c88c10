package secret

import (
	"slices"
	"strings"
)

// propagated are the fields, in lower case, that carry a trace from a caller to a called server, with the source of
// each field. They belong to one call alone.
var propagated = []string{
	"traceparent", "tracestate", "traceresponse", // W3C Trace Context 1 and 2
	"baggage",                         // W3C Baggage
	"b3",                              // Zipkin, the single header (github.com/openzipkin/b3-propagation)
	"uber-trace-id",                   // Jaeger, as are the next two
	"jaeger-debug-id",                 //
	"jaeger-baggage",                  //
	"x-cloud-trace-context",           // Google Cloud Trace
	"grpc-trace-bin",                  // OpenCensus
	"x-amzn-trace-id",                 // AWS X-Ray
	"sentry-trace",                    // Sentry
	"elastic-apm-traceparent",         // Elastic APM, before it took W3C's
	"newrelic",                        // New Relic's distributed tracing
	"x-ot-span-context",               // Lightstep
	"correlation-context",             // W3C Baggage as a draft, and Azure's Application Insights with it
	"request-context",                 // Azure's Application Insights
	"sw8", "sw8-correlation", "sw8-x", // Apache SkyWalking, protocol 3
	"x-dynatrace",                               // Dynatrace
	"x-instana-t", "x-instana-s", "x-instana-l", // Instana
}

// propagatedPrefixes begin the names of such fields where there are several, or any number.
var propagatedPrefixes = []string{
	"x-b3-",      // Zipkin: -traceid, -spanid, -parentspanid, -sampled, -flags
	"uberctx-",   // Jaeger's baggage
	"x-datadog-", // Datadog: -trace-id, -parent-id, -sampling-priority, -origin, -tags
	"ot-tracer-", // OpenTracing's basic tracer
	"ot-baggage-",
}

// Propagated reports whether a header field of this name, in any case, says which trace a call belongs to. The field
// goes out only with its caller's own call. The field is neither written nor sent with another call, since no other
// call belongs to the trace.
func Propagated(name string) bool { return judgedOf(name)&propagates != 0 }

func isPropagated(name string) bool {
	return slices.ContainsFunc(propagatedPrefixes, func(p string) bool { return len(name) > len(p) && strings.EqualFold(name[:len(p)], p) }) ||
		slices.ContainsFunc(propagated, func(p string) bool { return len(name) == len(p) && strings.EqualFold(name, p) })
}
