// Package otelonceward exports an onceward.Client to OpenTelemetry: spans of operations and attempts, and metrics of both
// and of the journal.
//
//	t, err := otelonceward.New(otelonceward.WithProviders(tables...))
//	j, err := sqlite.Open(path, sqlite.Options{Committed: t.Committed("payments")})
//	client, err := onceward.New(onceward.Config{Journal: j, Providers: tables, Trace: t.Trace()})
//	_, err = t.Observe("payments", j)
//	_, err = t.ObserveClient(client)
//	s, err := server.New(ctx, server.Options{Journal: j, Observe: t.Served()})
//	_, err = t.ObserveReceipts("payments", j)
//
// # What is never recorded
//
// No span or metric holds a key, a name, a scope, a fingerprint, a header, a body, a URL query or the text of an
// error. The ID of a named operation is on spans only with WithOperationID. Its scope, which may be a tenant's, never
// is.
//
// # Spans
//
// A claim of an operation is a span of kind INTERNAL, such as "onceward stripe POST /v1/charges". Each attempt is a
// CLIENT span below the operation's, by the stable HTTP conventions
// (https://opentelemetry.io/docs/specs/semconv/http/http-spans/), with http.request.resend_count.
//
// Run and Resume start traces of their own. They link to the trace of the operation's first caller, and to the last
// claim if the claim was the process's. A call that sends nothing, for example because the answer is recorded, is a
// single span.
//
// Don't instrument the HTTP client below the client as well: such spans would have the URL's query, including the
// values from Config.Authorize.
//
// # Metrics
//
// Every instrument is bounded. Providers and endpoints come from tables, at most a thousand pairs of them, and all
// other attributes from closed lists. A journal's metrics cover all processes that share the journal: take the max over
// processes, not the sum.
package otelonceward
