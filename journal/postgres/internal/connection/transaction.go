package connection

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// SlowLock is how long a statement waits for a lock at most, unless a transaction says otherwise.
const SlowLock = "1000ms"

// BeginSQL begins a journal transaction.
const BeginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// Settings is the first statement of a transaction. $1 is the lock_timeout.
const Settings = SoundCommit + ", set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true), " +
	// The limit for a handler of the application's is another, whatever the role's setting is.
	"set_config('idle_in_transaction_session_timeout', '60s', true), " +
	// From PostgreSQL 17 on, a client that is cut off amid statements does not block others forever.
	"CASE WHEN current_setting('server_version_num')::int >= 170000 THEN set_config('transaction_timeout', '60s', true) END"

// SoundCommit makes a transaction's commit wait for the disk, and for standbys as the server says.
const SoundCommit = "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)"

// SoundSettings is SQL that is true if commits are durable and reads see only written data. $7 skips durability.
const SoundSettings = "($7 OR coalesce(current_setting('fsync', true), 'on') = 'on' AND coalesce(current_setting('full_page_writes', true), 'on') = 'on') " +
	"AND current_setting('synchronous_commit') IN ('on', 'remote_apply') AND current_setting('transaction_isolation') = 'read committed'"

// Alone commits some statements in one round trip, in a transaction that no guard fences.
func Alone(ctx context.Context, conn *pgx.Conn, queue func(b *pgx.Batch)) error {
	b := new(pgx.Batch)
	b.Queue(BeginSQL)
	b.Queue(Settings, SlowLock)
	queue(b)
	b.Queue("COMMIT")
	err := conn.SendBatch(ctx, b).Close()
	if err != nil && !conn.IsClosed() {
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	return err
}

// HangUp closes a connection. It waits for the server no longer than a second.
func HangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
