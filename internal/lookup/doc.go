// Package lookup finds out by reading what became of a request whose answer was lost, and
// what an event says of one. [Plan] makes a [Sweep] of a table's look-up: the requests to
// send, page by page, and the items of their answers. [Sweep.Match] says which of the items
// is an operation's object, [ReadEvents] what an event proves.
//
// Nothing is trusted that was asked for: an item counts only where what the table compares
// is the same in it. All that is not a whole list, read to its end, is inconclusive, never
// empty. Every [Finding] that settles nothing has a Why that somebody can act on, without a
// value of the request or of the answer in it but for the ids of objects.
//
// Nothing here does I/O or knows of journals. Functions are safe for concurrent use; a
// Sweep is one goroutine's.
package lookup
