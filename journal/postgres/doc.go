// Package postgres keeps a journal in PostgreSQL (14 or later), for services on several machines. All of them share
// it, and each finishes the operations that another left behind.
//
//	if err := postgres.Migrate(ctx, ownersURL, ""); err != nil { … } // once for each release
//	j, err := postgres.Open(ctx, url, postgres.Options{Deployment: "prod"})
//	if err != nil { … }
//	defer j.Close()
//	client, err := onceward.New(onceward.Config{Journal: j})
//
// # What is durable
//
// Apply returns once its commit is on the server's disk and on every standby that the server's
// synchronous_standby_names requires:
//
//   - Every commit checks fsync, full_page_writes and synchronous_commit. ErrUnsafe names a weaker setting.
//   - A COMMIT whose wait for a standby an operator cancels succeeds, without the standby.
//   - If the connection breaks at a COMMIT, Onceward finds out whether it landed before it answers the caller. It
//     stays open only if the caller's context ends first, or the Journal is closed.
//
// # How it commits
//
// Events that arrive together share a transaction of two round trips: the first finds and locks their rows, the second
// writes and commits. The process keeps no operation in memory. An event whose row another transaction holds waits on
// its own, and the others go on. Claims, look-ups and the work of operators have transactions of their own.
//
// Each of these transactions has a lane: a connection, and a row whose number its commit raises. The row shows what
// became of a commit whose answer was lost. Every transaction begins with the guard, which locks the row. The guard
// fails if another process has raised the tenure in that row, if a session of this process is not alive, or if a
// setting is not safe. It relies on nothing else: no setting of a connection, no advisory lock, no LISTEN. So a pooler
// in transaction mode works (Options.Pooled).
//
// # Receipts
//
// For packages server and consume, the application's own transaction reserves a key,
// holds the handler's writes, and records the answer. Begin it with the application's pool and isolation level (Pgx,
// SQL), or by BeginTx. At most four transactions of BeginTx are open at a time.
//
// A unique index lets one transaction have a key. An advisory lock of that transaction shows a second one that the key
// is being served. A transaction of repeatable reads or a serializable one never executes a request that another has
// settled after its snapshot. After a serialization failure at its COMMIT nothing is recorded, and the key is free.
//
// # Sessions
//
// A session is a lease of fifteen seconds by the database's clock. The process renews it every three seconds on a
// connection of its own. It is lost twelve seconds after the last answered renewal, by the process's monotonic or wall
// clock. A lost session never revives, and its process joins anew. Another process ends it, and claims its operations,
// after it was silent for fifteen seconds. That process must have measured this by its own clocks, missed no look of
// its own, and the database must agree that the lease has expired. So neither an outage of the database nor a jump of
// its clock ends a live session. An ended session, and those of a closed Journal, are dead at once.
//
// A request in flight when its session is lost may arrive after another process has sent it again. The provider's
// idempotency covers that. Without it, the operation is unknown after a takeover, and not sent.
//
// # Time
//
// Events are stamped by an estimate of the database's clock. An event more than a minute
// ahead of that clock is rejected with ErrClockAhead.
//
// # A database that has gone back
//
// A restored, moved or copied journal counts as restored. Every process that has it open refuses to send, decide or
// forget, with journal.ErrRestored, until an operator calls Adopt or Confirm. A server that has lost commits
// acknowledged to a live process also counts as restored, for example after failover to a lagging standby. Each lane
// remembers its last commit number, and each process its last beat and the journal's place. So an old primary that is
// started again is detected.
//
// After a promotion all processes wait, a few seconds at most, until every live process has found its acknowledged
// commits. If one of them is dead, that can't be known, and the journal counts as restored (but see Options.Failover).
// A state on the same timeline that is put back while no process is alive can't be detected from inside. Such states are
// a copy of the storage, a base backup started as it is, and the data alone of a dump in emptied tables. Use
// Options.Witness.
//
// Each new connection checks the server. As a pooler keeps its own connections, the guard and EnqueueTx check when the
// server was started too. A read may come from a server that no process has checked yet.
//
// # Privileges
//
// Migrate needs a role that may create the schema, or owns it. The service's role needs USAGE on the schema, SELECT,
// INSERT, UPDATE and DELETE on its tables, and USAGE and SELECT on its sequences. Adopt and Confirm also need UPDATE on
// the sequences. A reader (Options.ReadOnly) needs USAGE on the schema, and SELECT on its tables and its sequences. Row
// security on the tables is rejected. No superuser or extension is needed.
package postgres
