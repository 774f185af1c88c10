// Package member has what one process is to a journal, and what it has seen of the journal's database.
//
//   - Member is the identity by which the process writes.
//   - Acknowledged has the latest commit of each of its lanes.
//   - Memory has its latest sighting of the database, which a database that has gone back contradicts.
//
// The package knows no connection and no table, and asks nothing. It must not decide that a database has gone back:
// that is up to the journal, which writes it down.
package member
