// Package journal keeps what must survive a crash: one record for each logical
// effect, written before its first byte leaves.
//
// Next is the state machine and MaySend the resend rule. Both are pure; every
// store calls Next inside its transaction. A store knows nothing of HTTP clients
// or providers. Package journaltest holds a store to the promises below.
//
// # What the rules rest on
//
// An exhaustive search over Next and MaySend (docs/verification.md draws the states that it
// saw) holds seventeen invariants to every history of two clients, a network, a provider
// and a clock. What it taught, beyond the comments of the functions:
//
//   - A refusal is the operation's answer only where nothing else of the operation may
//     still take effect: no earlier attempt is open, or the provider recognises what it
//     refused (providers.Everything). Elsewhere a request that timed out, dawdled and
//     arrives after the refusal is executed. Such a refusal leaves it unknown.
//   - The rule is asked at the very moment of an attempt, not only when the attempt is
//     planned: a process that was stopped in between sends past the window otherwise.
//   - The first attempt of a claim is checked by the claim itself. Whoever lets time
//     pass between the two checks the claim again.
//
// And what no rule here can tell, so that it is a bound:
//
//   - A clock that ran ahead when an operation began, and is set back only once the
//     time that it showed has come, leaves a window that ends too late, though the
//     journal sees the step: the recorded first send no longer lies ahead of the clock.
//     So does a clock that falls behind and stays behind after it has caught up with
//     the journal's last time.
//   - A backup from before a next generation began. Adopted, the earlier generation is
//     resent under its own key, which the later one's effect is not recognised by.
//   - Without an in-flight guard, Terms.Handling counts a request's way to the provider
//     too, after the attempt was given up: it arrives within that time, or never.
package journal
