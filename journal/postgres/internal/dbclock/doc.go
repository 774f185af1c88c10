// Package dbclock has the journal's clock as one process knows it: Journal is the latest time that the journal has
// seen, with its jumps and margins (store.Clock). Kept reads what the tables record of it.
//
// The package knows the columns of the journal's clock. It must not know what a clock's jump does to an operation: a
// transaction decides that, and writes the clock.
package dbclock
