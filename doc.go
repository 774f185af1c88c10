// Package onceward makes a call that changes something elsewhere (a charge, a payout, a message) take effect once,
// whatever happens to the network or to the calling process.
//
// A [Client] wraps an http.Client. The client gives each operation an idempotency key, and records the operation in a
// journal before the first byte leaves. The client sends an operation again only if a repeat is proven safe. After a
// restart the client finishes the last process's operations. If a repeat is not proven safe, the operation is unknown, and
// the client reconciles the operation. The README states the promise and the bounds, and docs/start.md has a whole program.
//
// [New] makes a Client. [Client.HTTPClient] is an http.Client for your code or a vendor's SDK. [Client.Run] sends
// waiting operations in the background. [Client.Shutdown] ends the client. Close the journal after that.
//
// [WithOperation] names a request's operation. After a crash, the next process asks by the same name and gets the
// recorded answer, or the client sends the same key again. A request without a name is protected only within the call,
// and against a crash during the call.
//
// A response with a nil error is the operation's outcome: the answer, or a refusal after which nothing can have taken
// effect. Any other result is an [*Error]. The Kind says how the operation stands, and docs/errors.md what to do.
//
// Package flow runs functions with several calls, and resumes them at the interrupted step.
package onceward
