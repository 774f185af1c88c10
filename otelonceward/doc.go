// Package otelonceward tells OpenTelemetry what an onceward.Client does: spans of operations
// and attempts, and metrics of both and of the journal.
//
//	t, err := otelonceward.New(otelonceward.WithProviders(tables...))
//	j, err := sqlite.Open(path, sqlite.Options{Committed: t.Committed("payments")})
//	client, err := onceward.New(onceward.Config{Journal: j, Providers: tables, Trace: t.Trace()})
//	_, err = t.Observe("payments", j)
//	_, err = t.ObserveClient(client)
//
// # What is never told
//
// No key, name, scope, fingerprint, header, body or URL query is in any span or metric, and no
// text of an error. The ID of a named operation is on spans only if WithOperationID is given,
// and its scope, which may be a tenant's, never is.
//
// # Spans
//
// A claim of an operation is a span of kind INTERNAL, "onceward stripe POST /v1/charges", and
// each of its attempts a CLIENT span below it by the stable HTTP conventions
// (https://opentelemetry.io/docs/specs/semconv/http/http-spans/), with
// http.request.resend_count. What Run and Resume do are traces of their own, with a link to the
// trace of whoever asked for the operation, and one to its last claim, if that was this process's. A call that sends nothing, since the answer is
// recorded for instance, is a span alone.
//
// Don't use another instrumentation of the HTTP client below the client as well: its spans
// would have the URL's query, with what Config.Authorize adds to it.
//
// # Metrics
//
// Every instrument is bounded: providers and endpoints are those of tables, at most a thousand
// pairs of them, and all other attributes are from closed lists. Those of a journal are of all
// processes that share it: take the max over processes, not the sum.
package otelonceward
