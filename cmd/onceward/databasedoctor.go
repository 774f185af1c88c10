package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/shown"
)

// longTransaction is the age at which an open transaction begins to hinder the server's vacuum.
const longTransaction = 10 * time.Minute

// examine checks the server, and the journal's users.
func (d *database) examine(ctx context.Context, x *examination) {
	err := d.look(ctx, func(tx pgx.Tx) error {
		for _, examine := range []func(context.Context, pgx.Tx, *examination) error{
			d.examineServer, d.examineConnection, d.examineTime, d.examineDeployment, d.examineHolders, d.examineTables,
		} {
			if err := examine(ctx, tx, x); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		x.failed("server", err)
	}
}

func (d *database) examineServer(ctx context.Context, tx pgx.Tx, x *examination) error {
	var version, fsync, pages, commit, autovacuum, standbys string
	var standby bool
	var behind *float64
	err := tx.QueryRow(ctx, `SELECT current_setting('server_version'), coalesce(current_setting('fsync', true), 'on'), coalesce(current_setting('full_page_writes', true), 'on'),
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
func (d *database) examineConnection(ctx context.Context, tx pgx.Tx, x *examination) error {
	var encrypted *bool
	var used, most int
	err := tx.QueryRow(ctx, `SELECT (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()),
		(SELECT sum(numbackends)::int FROM pg_stat_database), current_setting('max_connections')::int`).Scan(&encrypted, &used, &most)
	if err != nil {
		return err
	}
	ip := net.ParseIP(d.cfg.Host)
	near := strings.HasPrefix(d.cfg.Host, "/") || d.cfg.Host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case encrypted != nil && *encrypted:
		x.ok("tls", "the connection is encrypted")
	case near:
		x.ok("tls", "the connection stays on this machine")
	default:
		x.finds(levelWarn, "tls", "the connection is not encrypted, or ends at a pooler: others on the network can read bodies", "set sslmode=verify-full, for the application too", "journal")
	}
	x.judge(used*5 <= most*4, fmt.Sprintf("%d of %d are taken", used, most), checked{"connections", levelWarn,
		fmt.Sprintf("%d of %d connections are taken: a process that can't connect loses its sessions", used, most), "raise max_connections, or find the program that holds so many", "journal"})
	return nil
}

// examineTime compares the clocks on this machine, in the database and in the journal.
func (d *database) examineTime(ctx context.Context, tx pgx.Tx, x *examination) error {
	sent := time.Now()
	var now time.Time
	var lastAt int64
	if err := tx.QueryRow(ctx, d.in("SELECT clock_timestamp(), coalesce(max(last_at), 0) FROM {{schema}}.lanes")).Scan(&now, &lastAt); err != nil {
		return err
	}
	took := time.Since(sent)
	behind := max(0, time.UnixMilli(lastAt).Sub(now))
	x.judge(behind <= time.Minute, "the database's is not behind the journal", checked{"clock", levelFail,
		fmt.Sprintf("the database's clock stands %s behind the journal: one of the two is wrong, and nothing is resent meanwhile", shown.Duration(behind)),
		"synchronise the clock; if it was ahead before, see ResetClock", "clock"})
	apart := now.Sub(sent.Add(took / 2)).Abs()
	x.judge(apart <= time.Minute, "this machine's clock and the database's agree", checked{"clock-sync", levelWarn,
		fmt.Sprintf("this machine's clock and the database's are %s apart", shown.Duration(apart)), "run chrony or systemd-timesyncd on both; the journal goes by the database's", "clock"})
	return nil
}

func (d *database) examineDeployment(ctx context.Context, tx pgx.Tx, x *examination) error {
	var deployment sql.NullString
	if err := tx.QueryRow(ctx, d.in("SELECT deployment FROM {{schema}}.journal")).Scan(&deployment); err != nil {
		return err
	}
	x.judge(deployment.Valid, deployment.String,
		checked{"deployment", levelWarn, "no application has opened it yet", "is it the database, and the schema, that the application uses?", "journal"})
	return nil
}

// examineHolders reports live sessions, and what dead ones hold.
func (d *database) examineHolders(ctx context.Context, tx pgx.Tx, x *examination) error {
	var alive, silent, held int
	err := tx.QueryRow(ctx, d.in(`SELECT (SELECT count(*) FROM {{schema}}.sessions WHERE id <> process AND buried_at IS NULL AND expires_at > clock_timestamp()),
		(SELECT count(*) FROM {{schema}}.sessions WHERE id <> process AND buried_at IS NULL AND expires_at <= clock_timestamp()),
		(SELECT count(*) FROM {{schema}}.operations o WHERE o.state = 2 AND o.holder IS NOT NULL AND NOT EXISTS
			(SELECT 1 FROM {{schema}}.sessions s WHERE s.id = o.holder AND s.buried_at IS NULL AND s.expires_at > clock_timestamp()))`)).Scan(&alive, &silent, &held)
	if err != nil {
		return err
	}
	x.judge(held == 0, fmt.Sprintf("%d alive, %d that have not been heard of hold nothing", alive, silent), checked{"sessions", levelWarn,
		fmt.Sprintf("%d alive; %d operations are held by none of them", alive, held), "another process takes them over within a minute; is one running, with Run or Resume?", "in-flight"})
	return nil
}

// examineTables looks for causes that keep the server from vacuuming.
func (d *database) examineTables(ctx context.Context, tx pgx.Tx, x *examination) error {
	var bytes, live, dead int64
	var oldest sql.NullFloat64
	err := tx.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint,
		(SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::float8 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())
		FROM pg_stat_user_tables WHERE schemaname = $1`, d.schema).Scan(&bytes, &live, &dead, &oldest)
	if err != nil {
		return err
	}
	const few = 100_000
	x.judge(dead <= few || dead <= live, shown.Bytes(bytes), checked{"tables", levelWarn,
		fmt.Sprintf("%s, with %d rows that are dead and %d that live: autovacuum does not keep up", shown.Bytes(bytes), dead, live),
		"look for a transaction that is left open, a replication slot or a standby's feedback that holds rows; then VACUUM the journal's tables", "journal"})
	x.judge(oldest.Float64 <= longTransaction.Seconds(), "none is open for long", checked{"transactions", levelWarn,
		fmt.Sprintf("a transaction in this database has been open for %s: nothing that died since is cleared up", shown.Duration(time.Duration(oldest.Float64*float64(time.Second)))),
		"find it in pg_stat_activity, by xact_start, and end it", "journal"})
	return nil
}
