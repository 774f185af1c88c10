// Package fleet has one process's part in a journal that several processes share on a database server.
//
//   - Dial connects and checks. A journal that was restored or copied, or whose database has gone back, counts as restored.
//   - Start renews the process's leases, and ends those of dead processes. Join, Leave and Bury begin and end leases.
//   - Lane commits transactions, and finds out the result of a commit whose answer was lost. Begin says why a transaction
//     was fenced off, and mends the cause if possible.
//   - Adopt and Confirm end the restored state.
//
// A driver gives the statements: Database, Conn and Tx. The package decides their order, and the meaning of their answers.
// The package must not know an operation, or SQL.
package fleet
