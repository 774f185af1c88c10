// Package leased has what the stores on a database server share: the leases of one process, and its memory of the
// database.
//
//   - Session is a lease. Sessions are those of this process, and Pace says how they are renewed.
//   - Observer watches the leases of other processes, and finds the dead ones.
//   - Member is the identity that the process writes under. Acknowledged has the latest commits of its lanes.
//   - Memory has its latest sighting of the database. A database that has gone back contradicts it.
//   - Estimate is the database's clock, without a query.
//
// The package knows no connection and no table, and asks nothing. It must not decide what follows from a database that
// has gone back: that is up to the store, which writes it down.
package leased
