// Package onceward makes a call that changes something elsewhere (a charge, a payout, a message) take effect once,
// whatever happens to the network or to the calling process.
//
// A [Client] wraps an http.Client. It gives each operation an idempotency key and records the operation in a journal
// before the first byte leaves. It sends an operation again only if that is proven safe. After a restart it finishes the
// operations of the last process. If resending is not proven safe, the operation is unknown, and the client reconciles
// it. The README states the promise and its bounds, and docs/start.md has a whole program.
//
// [New] makes a Client. [Client.HTTPClient] is an http.Client for your code or a vendor's SDK. [Client.Run] sends
// waiting operations in the background. [Client.Shutdown] ends the client. Close the journal after that.
//
// [WithOperation] names the operation of a request. After a crash, the next process asks by the same name and gets the
// recorded answer, or the client sends the same key again. A request without a name is protected only within its call
// and against a crash in its middle.
//
// A response with a nil error is the operation's outcome: its answer, or a refusal after which nothing can have taken
// effect. Any other result is an [*Error]. Its Kind says what is known and what to do: see docs/errors.md.
//
// Package flow runs functions of several calls, and resumes them at the interrupted step.
package onceward
