// Package onceward makes a call that changes something elsewhere (a charge, a payout, a
// message) take effect once, whatever happens to the network or to the calling process.
//
// A [Client] wraps an http.Client. It gives each logical operation an idempotency key and
// writes the operation to a local journal before the first byte leaves. It retries with
// the same key where that is proven safe, and finishes after a restart what the last
// process left. Where resending is not proven safe the operation is unknown, and is
// reconciled.
//
// # Make a client
//
// [New] makes a Client of a journal and of the contracts of the APIs to be called, such as
// journal/sqlite and providers.Stripe. [Client.HTTPClient] is an http.Client for the
// program's code or a vendor's SDK. [Client.Run] sends in the background what has to wait,
// and [Client.Shutdown] ends it. The journal is closed after that. A Client is safe for
// concurrent use.
//
// # Name operations
//
// [WithOperation] names the operation that a request is part of. A process that comes after
// a crash asks by the same name, and gets the recorded answer or sends the same key again. A
// request without a name is protected only within its call and against a crash in its
// middle. [WithScope] keeps the names of tenants apart, [WithAccount] says on whose behalf
// a request is made where only its credential tells, and [WithParent] makes several
// operations steps of one key. [Client.Inbound] does that for the key of a request that
// the program serves.
//
// # Answers and errors
//
// A response with a nil error is the operation's outcome: its answer, or a refusal after
// which nothing can have taken effect. Anything else is an [*Error], whose Kind says what
// is known and what to do: [ErrPending] is still to come, [ErrNotSent] took no effect, and
// [ErrOutcomeUnknown] waits for [Client.Resolve], by which somebody says what they found
// out. [Client.Lookup], [Client.Operations] and [Client.Wait] look at what is recorded.
//
// # What is promised
//
//   - An operation is sent again only where that is proven safe.
//   - An operation whose intent was recorded stays in the journal until its outcome is
//     known and delivered and its keep has passed.
//   - If the journal can't record the intent, nothing is sent.
//   - Everybody who asks for an operation gets the same recorded answer, or an error that
//     says why it is gone.
//
// What no client can promise is delivery exactly once. One effect can be had from a provider
// that recognises keys; at others, more operations end as unknown.
//
// # Several calls that belong together
//
// Package flow runs functions of several calls, which are resumed at the step that was cut
// off. Operations and flows run in the program's own requests and jobs. What waits for days,
// fans out over a fleet or wants workers is for a workflow engine, whose calls are
// operations in turn.
package onceward
