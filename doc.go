// Package onceward makes a call that changes something elsewhere (a charge, a payout, a message) take effect once,
// whatever happens to the network or to the calling process.
//
// A [Client] wraps an http.Client. It gives each operation an idempotency key and records the operation in a journal
// before the first byte leaves. It retries with the same key if that is proven safe. After a restart it finishes the
// operations of the last process. If resending is not proven safe, the operation is unknown, and the client reconciles
// it.
//
// # Make a client
//
// [New] makes a Client from a journal and the contracts of the APIs to be called, such as journal/sqlite and
// providers.Stripe. [Client.HTTPClient] is an http.Client for your code or a vendor's SDK. [Client.Run] sends waiting
// operations in the background. [Client.Shutdown] ends the client. Close the journal after that.
//
// # Name operations
//
// [WithOperation] names the operation of a request. After a crash, the next process asks by the same name and gets the
// recorded answer, or the client sends the same key again. A request without a name is protected only within its call
// and against a crash in its middle. [WithScope] separates the names of tenants. [WithAccount] labels the account if
// only the credential shows it. [WithParent] makes several operations steps of one key. [Client.Inbound] does that
// with the key of a request that your program serves.
//
// # Answers and errors
//
// A response with a nil error is the operation's outcome: its answer, or a refusal after which nothing can have taken
// effect. Any other result is an [*Error]. Its Kind says what is known and what to do: see docs/errors.md.
//
// # What is promised
//
//   - An operation is sent again only if that is proven safe.
//   - A recorded operation stays in the journal until its outcome is known and delivered and its keep has passed.
//   - If the journal can't record the operation, nothing is sent.
//   - Every caller of an operation gets the same recorded answer, or an error that says why the answer is gone.
//
// No client can promise delivery exactly once. A provider that recognizes keys gives one effect. At other providers,
// more operations end unknown.
//
// # Several calls that belong together
//
// Package flow runs functions of several calls, and resumes them at the interrupted step. Operations and flows run in
// your own requests and jobs. Work that waits for days, fans out over a fleet or needs workers belongs in a workflow
// engine, whose calls can be operations.
package onceward
