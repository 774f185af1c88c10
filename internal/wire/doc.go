// Package wire has requests and answers as bytes: it composes the request of an attempt from what was frozen, keeps
// credentials and traces out of what is recorded, reads and decodes answers up to a limit, and proves of an attempt that
// nothing was sent.
//
// It knows what a provider's table says of a place on the wire. It knows no journal's state, no resend rule and no client,
// and it decides nothing: whether a request is sent is its callers' to say.
package wire
