// Package server checks whether a journal is safe on a server. It also has statements for package journal/internal/fleet.
//
//   - Conn is a connection of the journal's own, with these statements.
//   - Server handles promotions: all processes have to find their commits on the promoted server.
//   - Evict ends connections of stopped clients.
//
// The package knows the server's settings, and the tables journal, sessions and lanes. It must not know an operation, or
// what a store's transaction does.
package server
