// Package model explores every interleaving of the life of one operation: two
// clients, the network, a provider, the journal and the clock, within a budget of
// faults.
//
// The state machine and the resend rule are not modelled: each step asks
// machine.Next and machine.MaySend themselves, with real times. The model has the
// parts around them:
//
//   - The clients act between two commits as the root package does: begin, attempt,
//     judge, record, and Resume's claim. A client may crash or pause, its context may
//     end, and its journal may fail.
//   - The network delivers, dawdles and loses.
//   - The provider executes, remembers and forgets as its contract says, and no better.
//
// Beside the journal's record a state has the facts known to an onlooker: the effects, the true first send, and each
// caller's answer. The seventeen Invariants compare the two. A search is breadth first, so that the history of a
// violation is a shortest one.
//
// # Why it is finite
//
//   - The clock goes by steps that are longer than any call and shorter than the
//     window. A stamp's age is inside the window for one step, in the margin at two
//     and past the retention at three. Times are kept as ages, and an age that is past
//     everything does not grow further. So the clock itself has no end.
//   - Claims are renamed in their order: Next only compares them.
//   - The two clients are interchangeable, and a crashed client is a new one.
//   - Each kind of fault has a budget, in Budget. Attempts, claims, and answers that prove that nothing ran have no
//     marks.
//
// # What it assumes
//
//   - A request that was sent inside the window arrives or is lost before the
//     retention has passed since the first send. The margin is for that.
//
//   - With no in-flight guard, a request arrives, if it ever does, and is worked off
//     within the stated handling time after our attempt ended.
//
//   - A provider may remember lost answers and forget failures. There a request arrives
//     while its client waits for the answer, or never. If it dawdled, it would be executed
//     after its repeat was answered with a failure.
//
//   - Nothing happens between a check and the allowed step: between the checks before an attempt and the first byte,
//     and, for the loss of the session, between a claim and the first attempt. A process that is stopped there sends
//     late.
//
//   - The journal sees a clock that is wrong by more than the margin, and the clock is set
//     right within a step. Until it has gone on for machine.Confirmation no time passes
//     otherwise. It is wrong by less than machine.Leap.
//
//   - A restored backup has the operation's record. No generation of the operation began after the backup was made,
//     unless the backup has the operation as cancelled, unknown or completed.
//
//   - If the program's own look-up says that nothing was executed, no effect is there.
//     A request is executed within the stated handling time after our attempt ended, or
//     never. In one world that is wrong. There the look-up counts as a false decision,
//     and the late effect has to be recorded.
//
// The first three and the last three are bounds of any promise. Package journal says
// what follows if they don't hold.
//
// # What is left out
//
// Requests that the provider calls a misuse of the key, changed credentials, calls that share an execution within one
// process, and Shutdown, which parks operations like a caller that gives up, and ends the session. Of looks and events:
// leases, refusals, other accounts, and objects of other operations.
package model
