package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/address"
	"github.com/onceward/onceward/internal/shown"
)

func (p *postgreSQL) checks() []check {
	return []check{p.examineServer, p.examineConnection, p.examineTables}
}

func (p *postgreSQL) examineServer(ctx context.Context, tx *sql.Tx, x *examination) error {
	var version, fsync, pages, commit, autovacuum, standbys string
	var standby bool
	var behind *float64
	err := tx.QueryRowContext(ctx, `SELECT current_setting('server_version'), coalesce(current_setting('fsync', true), 'on'), coalesce(current_setting('full_page_writes', true), 'on'),
		current_setting('synchronous_commit'), coalesce(current_setting('autovacuum', true), 'on'), coalesce(current_setting('synchronous_standby_names', true), ''),
		pg_is_in_recovery(), extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8`).
		Scan(&version, &fsync, &pages, &commit, &autovacuum, &standbys, &standby, &behind)
	if err != nil {
		return err
	}
	switch {
	case standby && behind != nil:
		x.finds(levelWarn, "server", fmt.Sprintf("version %s, a standby: what is said here is as of %s ago at most", version, shown.Duration(time.Duration(*behind*float64(time.Second)))),
			"ask the primary where that matters; nothing can be resolved here", "journal")
	case standby:
		x.finds(levelWarn, "server", "version "+version+", a standby: what is said here is as of what it has replayed", "ask the primary where that matters; nothing can be resolved here", "journal")
	default:
		x.ok("server", "version %s, a primary", version)
	}
	switch {
	case fsync != "on" || pages != "on":
		x.finds(levelFail, "durability", fmt.Sprintf("fsync is %s and full_page_writes %s: acknowledged commits are lost with the machine's power", fsync, pages),
			"set both on, and reload the server's configuration; where the provider's storage keeps what it acknowledges, see Options.Durability", "journal")
	case commit == "off" || commit == "local":
		x.finds(levelWarn, "durability", "synchronous_commit is "+commit+" by default; the journal's own commits set it",
			"other transactions of this database, as those that enqueue, may be lost with the server's power", "journal")
	case standbys != "":
		x.ok("durability", "commits wait for the server's disk and for standbys: %s", standbys)
	default:
		x.ok("durability", "commits wait for the server's disk, and for no standby")
	}
	x.judge(autovacuum == "on", "it is on", checked{"autovacuum", levelWarn, "autovacuum is off: tables and indices grow without end", "set it on", "journal"})
	return nil
}

// examineConnection checks this command's connection to the server.
func (p *postgreSQL) examineConnection(ctx context.Context, tx *sql.Tx, x *examination) error {
	var encrypted *bool
	var used, most int
	err := tx.QueryRowContext(ctx, `SELECT (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()),
		(SELECT sum(numbackends)::int FROM pg_stat_database), current_setting('max_connections')::int`).Scan(&encrypted, &used, &most)
	if err != nil {
		return err
	}
	x.encrypted(encrypted != nil && *encrypted, p.proven(), strings.HasPrefix(p.cfg.Host, "/") || address.IsLoopback(p.cfg.Host), "set sslmode=verify-full, for the application too")
	x.connections(used, most)
	return nil
}

// proven reports whether a certificate shows which server answers. Under sslmode=verify-ca, a function of the driver checks it.
func (p *postgreSQL) proven() bool {
	c := p.cfg.TLSConfig
	return c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil)
}

// examineTables looks for causes that keep the server from vacuuming.
func (p *postgreSQL) examineTables(ctx context.Context, tx *sql.Tx, x *examination) error {
	var bytes, live, dead int64
	var oldest sql.NullFloat64
	err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint,
		(SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::float8 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())
		FROM pg_stat_user_tables WHERE schemaname = $1`, p.schema).Scan(&bytes, &live, &dead, &oldest)
	if err != nil {
		return err
	}
	const few = 100_000
	x.judge(dead <= few || dead <= live, shown.Bytes(bytes), checked{"tables", levelWarn,
		fmt.Sprintf("%s, with %d rows that are dead and %d that live: autovacuum does not keep up", shown.Bytes(bytes), dead, live),
		"look for a transaction that is left open, a replication slot or a standby's feedback that holds rows; then VACUUM the journal's tables", "journal"})
	x.transactions(time.Duration(oldest.Float64*float64(time.Second)), "find it in pg_stat_activity, by xact_start, and end it")
	return nil
}
