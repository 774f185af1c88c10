// Package model explores every interleaving of the life of one operation: two
// clients, the network, a provider, the journal and the clock, within a budget of
// faults.
//
// The state machine and the resend rule are not modelled: each step asks
// journal.Next and journal.MaySend themselves, with real times. What is modelled is
// what is around them. The clients do between two commits what the root package
// does (begin, attempt, judge, record; Resume's claim; a crash, a pause, a context
// that ends, a journal that fails); the network delivers, dawdles and loses; the
// provider executes, remembers and forgets as its contract says, and no better.
//
// Beside the journal's record a state holds what an onlooker knows: the effects,
// the true first send, who was given which answer. The seventeen Invariants compare
// the two. A search is breadth first, so that the history of a violation is a
// shortest one.
//
// # Why it is finite
//
//   - The clock goes by steps that are longer than any call and shorter than the
//     window: a stamp's age is inside the window for one step, in the margin at two
//     and past the retention at three. Times are kept as ages, and one that is past
//     everything does not grow further; so the clock itself has no end.
//   - Claims are renamed in their order: Next only compares them.
//   - The two clients are interchangeable, and a crashed client is a new one.
//   - Whatever costs a fault has a budget, of Budget. Attempts, claims, and answers
//     that prove that nothing ran have none.
//
// # What it assumes
//
//   - A request that was sent inside the window arrives or is lost before the
//     retention has passed since the first send. The margin is for that.
//
//   - With no in-flight guard, a request arrives, if it ever does, and is worked off
//     within the stated handling time after our attempt ended.
//
//   - Of a provider that remembers lost answers and forgets failures, a request arrives
//     while its client waits for the answer, or never: one that dawdles would be executed
//     after a failure that its repeat was answered by.
//
//   - Between a check and what it allows nothing happens: between the checks before an
//     attempt and its first byte, and between a claim and its first attempt, as far as
//     the loss of the session goes. A process that is stopped there sends late.
//
//   - A clock that is wrong by more than the margin is seen by the journal, and set
//     right within a step; until it has gone on for journal.Confirmation no time passes
//     otherwise. It is wrong by less than journal.Leap.
//
//   - A backup that is restored has the operation's record, and no generation of it
//     began after the backup was made, unless the backup has it as cancelled, unknown
//     or completed.
//
//   - Where absence is proven, a request is executed within the stated handling time after
//     our attempt ended, or never, and what took effect is visible within the stated time.
//     One world has the first of it be wrong: then the proof counts as a false word, and what
//     must hold is that the late effect is recorded.
//
// The first three and the last three are bounds of what can be promised; package journal
// says what follows where they don't hold.
//
// # What is left out
//
// Requests that the provider calls a misuse of their key, changed credentials, calls
// that share an execution within one process, and Shutdown, which parks as a caller
// does that gives up, and ends the session. Of looks and events: leases, refusals, other
// accounts, objects of other operations, and looks without a control.
package model
