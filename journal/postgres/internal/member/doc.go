// Package member has the identity of one process for a journal, and its view of the journal's database.
//
//   - Member is the identity that the process writes under.
//   - Acknowledged has the latest commit of each of its lanes.
//   - Memory has its latest sighting of the database. A database that has gone back contradicts it.
//
// The package knows no connection and no table, and asks nothing. It must not decide that a database has gone back:
// that is up to the journal, which writes it down.
package member
