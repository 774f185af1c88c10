// Package known has what one process knows of operations without a query.
//
//   - Held has the rows of the operations that the process holds, to decide their events.
//   - Locked has the names, and Refused the operations, that the process leaves alone for a while.
//   - LowMarks says where claims of many operations start.
//   - Leftovers has the operations of events whose callers have left.
//
// Nothing here is recorded, and each of them may be forgotten at any time, but for Leftovers. The package must not know
// a connection or a table.
package known
