// Package dbclock has the two clocks of a journal, as one process knows them.
//
//   - Estimate is the database's clock, without a query.
//   - Journal is the latest time that the journal has seen, with its jumps and margins (store.Clock). Kept reads what the
//     tables record of it.
//
// The package knows the columns of the journal's clock. It must not know what a clock's jump does to an operation: a
// transaction decides that, and writes the clock.
package dbclock
