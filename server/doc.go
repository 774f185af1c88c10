// Package server answers requests that come with idempotency keys: each takes effect once, and a repeated request
// gets the first answer.
//
// [Server.Atomic] wraps a handler whose effects are writes to the journal's database. The handler's writes through [Tx],
// the enqueued operations and the answer are one commit. A crash, a panic, a 5xx or a lost connection leaves nothing, and
// the key free. Effects elsewhere are outside the commit: in another database, by mail, or through a plain http.Client.
//
// The keys belong to a tenant: the same key from two tenants is two keys. The server compares the endpoint, the method,
// the path, the query, the body and the caller within the tenant. A request with any difference is refused, and learns
// nothing about the first request.
//
// The header follows draft-ietf-httpapi-idempotency-key-header-07.
package server
