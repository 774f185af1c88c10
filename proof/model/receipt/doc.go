// Package receipt explores every interleaving of the life of one key at a service: two callers, two processes, the
// database, an operator, the reaper and the clock.
//
// The state machine is not modelled. Each step calls machine.NextReceipt with real times, and receipts.Kept says which
// answers are recorded. The model has the parts around them:
//
//   - A process serves a request as package server does. It looks at the receipt, calls the handler, reserves the key,
//     records and commits the answer, settles a commit in doubt, and answers. It may die between any two of these steps.
//   - The database has one transaction at a time, as SQLite's file has, or one for a key, as PostgreSQL's has. A commit may
//     land after its process has lost the connection, or has died.
//   - Handlers decline and fail. They may commit the transaction themselves, or overlook that the database has ended
//     the transaction.
//   - Callers repeat their request at both processes, also once they are answered. They hang up, and lose answers.
//
// Beside the receipt, a state has the facts known to an onlooker: the rows, the first recorded answer, and the callers'
// answers. The Invariants compare them. A search is breadth first, so that the history of a violation is a shortest
// one.
//
// # Why it is finite
//
// The clock goes by steps of a day, and times are kept as days from now on. An answer is given for a day, and its key
// is refused for another one. No fault has a budget: a process may die any number of times, since each death leads to a
// known state. An answer has the smallest number that is free.
//
// # What it assumes
//
//   - No day passes while a handler runs, or while a clock is wrong. A clock that leaps is not confirmed.
//   - At most one transaction at a time outlives its process or connection. A further one has landed, or not, at once.
//   - An operator looks at the rows as they are, and may act on that long afterwards.
//   - The calls of a repeatable handler take effect once: that is package model's subject.
//
// # What is left out
//
// Keys of two tenants, a restored journal, and receipts of a newer release. A handler that overlooks the transaction's
// end, and writes on. Endpoint.Wait, since it asks again. Of package consume, the order guard: Consumer.Do itself is
// the transaction of an Atomic handler.
package receipt
