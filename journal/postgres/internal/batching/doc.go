// Package batching has the writes that wait for a commit, and makes statements of them.
//
//   - Write is a row of an operation on its way into the database.
//   - Queue says which writes are the next batch of a lane.
//   - Part is the statement that makes one write, or several that are alike.
//
// The package knows rows (package record) and the order of their locks. It must not know a connection, a guard, or the
// result of a commit: the lanes send the batches, and end the writes.
package batching
