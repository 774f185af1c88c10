// Package machine has the journal's rules, and what a store and a client exchange by them.
//
// Next is the state machine and MaySend the resend rule. Both are pure. Every store calls Next inside its transaction.
// A store knows nothing of HTTP clients or providers. Package journaltest tests a store by [Store]'s promises.
//
// # What the rules rest on
//
// An exhaustive search over Next and MaySend (docs/verification.md draws the states that it saw) holds seventeen
// invariants to every history of two clients, a network, a provider and a clock. The search taught the following,
// beyond the comments of the functions:
//
//   - A refusal is the operation's answer only if nothing else of the operation may still take effect. No earlier
//     attempt is open, or the provider recognises the refused request (providers.Everything). Otherwise a delayed
//     request that arrives after the refusal is executed. Such a refusal leaves the operation unknown.
//   - The rule is asked at the very moment of an attempt, not only when the attempt is planned. Otherwise a process
//     that was stopped in between sends past the window.
//   - The claim itself checks its first attempt. A caller that lets time pass between the two checks the claim again.
//
// No rule here can detect these cases, so they are bounds:
//
//   - A clock ran ahead when an operation began, and was set back. No process asked before the time had caught up with
//     the journal's last time. The window then ends too late.
//   - A backup from before a next generation began is adopted. The earlier generation is then resent under its own
//     key, by which the provider does not recognise the later one's effect.
//   - Without an in-flight guard, Terms.Handling also covers a request's way to the provider, after the attempt was
//     given up. The rule assumes that the request arrives within the time, or never.
package machine
