// Package connection makes the journal's connections to a server, and says how a transaction on them begins.
//
//   - Dialer connects, by itself or in a pool.
//   - Settings, SoundCommit and SoundSettings make a transaction durable, and prove the durability.
//   - Alone commits some statements in one round trip.
//
// The package knows the driver, and the server's settings. The package must not know the journal's tables, and does not
// check whether a journal is safe on the server (package check).
package connection
