// Package postgres keeps a journal in PostgreSQL (14 or later), for services that run on several machines: all of them
// share it, and whatever one of them leaves behind another finishes.
//
//	if err := postgres.Migrate(ctx, ownersURL, ""); err != nil { … } // once for each release
//	j, err := postgres.Open(ctx, url, postgres.Options{Deployment: "prod"})
//	if err != nil { … }
//	defer j.Close()
//	client, err := onceward.New(onceward.Config{Journal: j})
//
// # What is durable
//
// Apply returns once what it did is committed, on the server's disk and on every standby that the server's
// synchronous_standby_names asks for. Nothing less is called done:
//
//   - fsync, full_page_writes and synchronous_commit are checked with every commit, and ErrUnsafe names what is weaker.
//   - A COMMIT whose wait for a standby is cancelled succeeds with a warning alone
//     (https://www.postgresql.org/docs/current/warm-standby.html, "Synchronous Replication"). Here it counts as undecided until a later
//     commit was replicated. So a pooler that keeps the server's notices to itself is refused beside a synchronous
//     standby.
//   - Where the connection breaks at a COMMIT, it is found out whether that landed before anybody is told anything. Only
//     where the caller's context ends first, or the Journal is closed, that stays open.
//
// # How it commits
//
// What the process can decide by what it knows, such as the begin of a new name or the answer of an operation that it
// holds, goes to a lane: a connection that commits all that waits for it as one transaction in one round trip. A row is
// written only at the revision that was decided on. Everything else, and whoever was too late, gets a transaction by itself
// that locks what it reads. Every transaction begins with the guard: it takes the lane's own row one number further, and
// fails if somebody has raised the tenure in it, if a session that is needed is not alive, or if a setting is not
// safe. Nothing else is relied on: no setting of a connection, no advisory lock, no LISTEN. So a pooler in
// transaction mode works (Options.Pooled).
//
// # Receipts
//
// Journal is a journal.Receipts, for packages server and consume: the application's own transaction reserves a key, holds what
// the handler writes, and records the answer. Begin it with the pool and the isolation level that the application uses (Pgx, SQL),
// or by BeginTx. At most four transactions of BeginTx are open at a time.
//
// A unique index lets one transaction have a key. An advisory lock of that transaction shows a second one that the key is being
// served. A transaction of repeatable reads or a serializable one never executes what another has settled after its snapshot. After a
// serialization failure at its COMMIT nothing is recorded, and the key is free.
//
// # Sessions
//
// A session is a lease by the database's clock of fifteen seconds, renewed every three on a connection that nothing else
// uses. It is lost by its own process's clocks, the monotonic one and the wall's, twelve seconds after the last renewal
// that was answered; it never revives, and its process joins anew. Others bury it, and claim what it held, when they have
// seen it be silent for fifteen seconds by their own clocks, with none of their own looks missed, and the database agrees
// that it has expired. So neither an outage of the database nor a leap of its clock costs anybody what it holds. A session
// that is ended, and those of a Journal that is closed, are dead at once.
//
// A request that is on its way when its session is lost may arrive after another process has sent it again. That is
// what the provider's idempotency is for; where there is none, the operation is unknown after a takeover, and not sent.
//
// # Time
//
// Journal is a journal.Clock: events are stamped by the database's clock, as far as it can be told without asking. An event
// that is more than a minute ahead of it is refused with ErrClockAhead.
//
// # A database that has gone back
//
// A journal that lies elsewhere than before, as after a restore or in a copy, counts as restored: what sends, decides or
// forgets is refused with journal.ErrRestored, by all who have it open, until somebody calls Adopt or Confirm. So does one that
// lacks what a process which is alive was told of, as when a standby that was behind took over: every lane knows the
// number of its last commit, and every process its last beat and where it has seen the journal; so an old primary that is started again is
// told from the one that took over. After a promotion everybody is held up until all
// who are alive have found what they were told of, which takes a few seconds at most; where one of them is dead, it can't be
// known, and the journal counts as restored (but see Options.Failover). What can't be told from inside is a copy of the
// storage that is put back while no process is alive: that takes Options.Witness.
//
// The server is looked at with each connection that is made and, as a pooler keeps its own, by the guard and by EnqueueTx, which compare when it was
// started. What is only read may be of a server that nobody has looked at yet.
//
// # Privileges
//
// Migrate needs a role that may create the schema, or owns it. The service's needs USAGE on the schema, SELECT, INSERT, UPDATE
// and DELETE on its tables, and USAGE and SELECT on its sequence; Adopt and Confirm also UPDATE on that. Who only looks
// (Options.ReadOnly) needs USAGE on the schema, and SELECT on its tables and its sequence. Row security on its
// tables is refused. There is nothing in it that needs a superuser or an extension.
package postgres
