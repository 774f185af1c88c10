// Package fleet has the process's part in a shared journal: the leases, and the checks on the server and the database
// behind the leases.
//
//   - Dial connects and checks. A server that a journal is not safe on is refused. A journal that was restored or copied
//     counts as restored.
//   - Run renews the leases, and ends those of dead processes. Bury and Resign end some at once.
//   - Refused says why a transaction was fenced off, and mends what it can.
//   - CutOff ends all leases for an adoption.
//
// The package knows the server's settings, and the tables journal, sessions and lanes. It must not know an operation, or what a store's transaction
// does.
package fleet
