// Package server answers requests that come with idempotency keys: each takes effect once, and a repeated request
// gets the first answer.
//
// [Server.Atomic] wraps a handler whose effects are writes to the journal's database. The handler's writes through
// [Tx], the operations that it enqueues and its answer are one commit. A crash, a panic, a 5xx or a lost connection
// leaves nothing, and the key free. Effects elsewhere are outside of the commit: in another database, by mail, or
// through a plain http.Client.
//
// The keys belong to a tenant: the same key of two tenants is two keys. The endpoint, the method, the path, the
// query, the body and the caller within the tenant are compared. A request that differs in any of them is refused,
// and learns nothing of the first.
//
// The header is that of draft-ietf-httpapi-idempotency-key-header-07.
package server
