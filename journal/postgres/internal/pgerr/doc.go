// Package pgerr says what an error of a PostgreSQL server, or of the connection to it, means.
//
//   - FateOf says what becomes of the transaction: whether the statement alone is to blame, and whether another try
//     may succeed.
//   - IsStatements and IsLate say what is known of a statement, or of a COMMIT.
//   - Reason and ConnectionReason give the cause in Onceward's words, without names, addresses or parameters.
//
// The package knows SQLSTATEs, and the errors of pgx, of TLS and of the network. The package must not know the journal,
// the journal's tables, or the failed statement.
package pgerr
