// Package pgerr says what an error from a PostgreSQL server, or from the connection, means.
//
//   - FateOf says what becomes of the transaction: whether the statement alone is to blame, and whether another try
//     may succeed.
//   - IsStatements and IsLate say what is known about a statement, or about a COMMIT.
//   - Reason and ConnectionReason give the cause in Onceward's words, without names, addresses or parameters.
//
// The package knows SQLSTATEs, and the errors from pgx, TLS and the network. The package must not know the journal, the
// journal's tables, or the failed statement.
package pgerr
