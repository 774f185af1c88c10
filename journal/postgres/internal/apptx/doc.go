// Package apptx runs the journal's statements in an application transaction.
//
//   - FromPgx and FromSQL take a transaction that the application has begun, with pgx or database/sql.
//   - Pooled is a transaction on a connection of a pool, and saves two round trips.
//   - NewOwn makes one on one of the journal's own connections, for the application.
//   - RunnerOf returns what runs statements in any of them.
//
// The package knows the drivers. It must not know the journal's tables, nor what the statements mean.
package apptx
