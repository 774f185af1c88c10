// Package providertest is a provider in a box: a real HTTP server on the
// loopback interface that keeps the idempotency contract of a
// [providers.Provider], in the manner of net/http/httptest.
//
// The handler given to [NewServer] is the provider's business: it runs once for
// each execution. Around it the server does what the provider's table says, and
// answers from that same table:
//
//   - It reads the key as the endpoint takes it; a malformed one gets 400.
//   - It reserves the key before it works. A second request meanwhile gets the
//     answer that the table reads as InFlight, with Retry-After; where the table
//     claims no guard, it executes too.
//   - A known key with another method, URL or body gets the answer that the
//     table reads as Misuse; where the table has none, the misuse goes
//     unnoticed and the first result is given again.
//   - A repeat is answered from memory, with the provider's replay mark. What is
//     kept follows Remembers. An answer of the handler's that the table reads as
//     Rejected or NotExecuted was not executed, and is not kept.
//   - Keys are forgotten at the end of their retention, on a clock that
//     [Server.Advance] moves. A provider without a retention never forgets.
//
// Every execution that ends with a status below 400 is an effect, listed by
// [Server.Effects]: a refusal has none. Faults are scripted by [Server.Script]
// or drawn by [Server.Seed], repeatably.
//
// Everything is kept in memory, and all methods are safe for concurrent use.
package providertest
