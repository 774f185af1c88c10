// Package lookup finds out, by reading, whether a request without an answer took effect, and whether an event proves
// the effect. [Plan] makes a [Sweep] from a table's look-up: the requests, page by page, and the answers' items.
// [Sweep.Match] says which item is an operation's object. [ReadEvents] returns the facts that an event proves.
//
// The package does not trust a provider's filter: an item counts only if the fields compared by the table are the same.
// A list that was not read whole is inconclusive, never empty. Every [Finding] that settles nothing has a Why that an
// operator can act on. A Finding holds object ids, and no other value from the request or the answer.
//
// Nothing here does I/O or knows journals. Functions are safe for concurrent use. One goroutine must use a Sweep.
package lookup
