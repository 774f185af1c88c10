// Package proxy serves callers in any language: a request that the caller names takes effect once. The handler that [New]
// returns stands in front of one provider on the caller's machine. The caller changes the base URL, and sends the
// operation's name in the header Onceward-Operation.
//
// docs/proxy.md shows how to call from Node, Python and PHP. The program cmd/onceward-proxy serves such handlers.
package proxy
