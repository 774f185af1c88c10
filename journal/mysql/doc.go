// Package mysql keeps a journal in MySQL (8.0.22 or later) or MariaDB (10.6 or later), for services on several machines. All
// processes share the journal, and each finishes the operations left behind by another. The package's tests run on MariaDB
// 10.11. No test has run on MySQL: see docs/mysql.md.
//
//	if err := mysql.Migrate(ctx, ownersDSN, ""); err != nil { … } // once for each release
//	j, err := mysql.Open(ctx, dsn, mysql.Options{Deployment: "prod"})
//	if err != nil { … }
//	defer j.Close()
//	client, err := onceward.New(onceward.Config{Journal: j})
//
// A DSN is as for github.com/go-sql-driver/mysql: user:password@tcp(host:port)/database.
//
// # What is durable
//
// A method that writes returns once the commit is on the server's disk. Every commit checks
// innodb_flush_log_at_trx_commit and, with a binary log, sync_binlog. ErrUnsafe names a weaker setting. If the connection
// breaks at a COMMIT, the journal finds out whether the COMMIT landed before answering the caller. The result stays open only
// if the caller's context ends first, or the Journal is closed.
//
// # Commits
//
// Simultaneous events share a transaction with two round trips: the first finds and locks rows, the second writes and
// commits. The process keeps no operation in memory. Each of these commits raises the number of a lane's row, which shows what
// became of a commit with a lost answer. A process that takes over another one's operations raises the lane's tenure first, so
// a late commit fails.
//
// # Transactions of the application
//
// EnqueueTx, ReceiveTx and similar methods write within an application *sql.Tx (SQL, BeginTx). The application's
// tables and the journal's must be on one server, and may be in different databases. The journal's own statements lock
// only rows that exist, so REPEATABLE READ, the server's default, works. After a deadlock the server has rolled the whole
// transaction back. The error is journal.ErrTxAborted then. A statement that commits by itself, such as CREATE TABLE, ends
// the transaction. The journal's next method, or Commit of the journal.Tx, notices the end and returns journal.ErrTxAborted.
//
// # Sessions and time
//
// A session is a lease of fifteen seconds by the server's clock, as in package postgres. Events are stamped by an
// estimate of the server's clock.
package mysql
