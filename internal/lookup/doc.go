// Package lookup finds out, by reading, whether a request whose answer was lost took effect, and whether an event
// proves it. [Plan] makes a [Sweep] of a table's look-up: the requests to send, page by page, and the items of their
// answers. [Sweep.Match] says which of the items is an operation's object, and [ReadEvents] returns the facts that an
// event proves.
//
// It does not trust a provider's filter: an item counts only if the fields that the table compares are the same in
// it. A list that was not read whole is inconclusive, never empty. Every [Finding] that settles nothing has a Why
// that an operator can act on. Except for the ids of objects, it holds no value of the request or the answer.
//
// Nothing here does I/O or knows of journals. Functions are safe for concurrent use. A Sweep must be used by one
// goroutine.
package lookup
