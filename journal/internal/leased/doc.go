// Package leased has the common parts of the stores on a database server: one process's leases, and its memory of the
// database.
//
//   - Session is a lease. Sessions are this process's sessions, and Pace says how sessions are renewed.
//   - Observer watches the leases of other processes, and finds the dead ones.
//   - Member is the identity that the process writes under. Acknowledged has the latest commits of its lanes.
//   - Memory has its latest sighting of the database. A database that has gone back contradicts this memory.
//   - Estimate is the database's clock, without a query.
//
// The package knows no connection and no table, and asks nothing. The package must not decide the consequences if the
// database has gone back: the store decides, and records the decision.
package leased
