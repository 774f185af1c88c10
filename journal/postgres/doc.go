// Package postgres keeps a journal in PostgreSQL (14 or later), for services on several machines. All processes share the
// journal, and each finishes the operations left behind by another.
//
//	if err := postgres.Migrate(ctx, ownersURL, ""); err != nil { … } // once for each release
//	j, err := postgres.Open(ctx, url, postgres.Options{Deployment: "prod"})
//	if err != nil { … }
//	defer j.Close()
//	client, err := onceward.New(onceward.Config{Journal: j})
//
// # What is durable
//
// Apply returns once the commit is on the server's disk and on every standby required by the server's
// synchronous_standby_names:
//
//   - Every commit checks fsync, full_page_writes and synchronous_commit. ErrUnsafe names a weaker setting.
//   - If an operator cancels a COMMIT's wait for a standby, the COMMIT succeeds, without the standby.
//   - If the connection breaks at a COMMIT, Onceward finds out whether the COMMIT landed before answering the caller. The
//     result stays open only if the caller's context ends first, or the Journal is closed.
//
// # Commits
//
// Simultaneous events share a transaction with two round trips: the first finds and locks the rows, the second writes and
// commits. The process keeps no operation in memory. If another transaction holds an event's row, the event waits alone,
// and the others go on. Claims, look-ups and operators' work have separate transactions.
//
// Each of these transactions has a lane: a connection, and a row. The commit raises the row's number. The row shows what
// became of a commit with a lost answer. Every transaction begins with the guard, which locks the row. The guard fails if
// another process has raised the row's tenure, if a session of this process is not alive, or if a setting is not safe. The
// guard relies on nothing else: no setting of a connection, no advisory lock, no LISTEN. So a pooler in transaction mode
// works (Options.Pooled).
//
// # Receipts
//
// For packages server and consume, the application's own transaction reserves a key,
// holds the handler's writes, and records the answer. Begin the transaction with the application's pool and isolation
// level (Pgx, SQL), or by BeginTx. At most four transactions from BeginTx are open at a time.
//
// A unique index lets one transaction have a key. The transaction's advisory lock shows a second transaction that the key
// is being served. Under repeatable read or serializable, a transaction never executes a request which another has
// settled after the snapshot. After a serialization failure at the COMMIT nothing is recorded, and the key is free.
//
// # Sessions
//
// A session is a lease of fifteen seconds by the database's clock. The process renews the lease every three seconds on
// a separate connection. The session is lost twelve seconds after the last answered renewal, by the process's monotonic
// or wall clock. A lost session never revives, and the process joins anew. Another process ends the session, and claims
// the session's operations, after fifteen seconds of silence. The other process must have measured the silence by its
// own clocks, without missing a look, and the database must agree about the expired lease. So neither a database outage
// nor a jump in the database's clock ends a live session. An ended session, and a closed Journal's sessions, are dead
// at once.
//
// A request in flight at the session's loss may arrive after another process has sent the request again. The provider's
// idempotency covers this case. Without idempotency, the operation is unknown after a takeover, and not sent.
//
// # Time
//
// Events are stamped by an estimate of the database's clock. An event more than a minute ahead of the database's clock is
// rejected with ErrClockAhead.
//
// # A database that has gone back
//
// A restored, moved or copied journal counts as restored. Every process with this journal refuses to send, decide or
// forget, with journal.ErrRestored, until an operator calls Adopt or Confirm. A server without commits which were
// acknowledged to a live process also counts as restored, for example after failover to a lagging standby. Each lane
// remembers its last commit number, and each process the last beat and the journal's place. So a restarted old primary is
// detected.
//
// After a promotion all processes wait, a few seconds at most, until every live process has found its acknowledged
// commits. If a process is dead, its commits can't be checked, and the journal counts as restored (but see
// Options.Failover). If an earlier state on the same timeline is put back while no process is alive, the journal can't
// detect this from inside. Such states are a copy of the storage, a base backup started without recovery, and a dump's
// data alone in emptied tables. Use Options.Witness.
//
// Each new connection checks the server. As a pooler keeps its own connections, the guard and EnqueueTx check the server's
// start time too. A read may come from a server which no process has checked yet.
//
// # Privileges
//
// Migrate needs a role with the right to create the schema, or the schema's owner. The service's role needs USAGE on the
// schema, SELECT, INSERT, UPDATE and DELETE on the tables, and USAGE and SELECT on the sequences. Adopt and Confirm also
// need UPDATE on the sequences. A reader (Options.ReadOnly) needs USAGE on the schema, and SELECT on the tables and the
// sequences. Row security on the tables is rejected. No superuser or extension is needed.
package postgres
