package rows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal/internal/format"
)

// tables are the tables of a journal, in the schema {{s}}.
const tables = `
CREATE SEQUENCE {{s}}.row_handles INCREMENT BY 256 MINVALUE 1;
CREATE SEQUENCE {{s}}.row_commits;
CREATE TABLE {{s}}.row_head (one int PRIMARY KEY CHECK (one = 1), version int NOT NULL, identity text NOT NULL, key bytea NOT NULL, hook boolean NOT NULL, naming text NOT NULL);

-- One for each transaction that a process has open at once. Its number shows whether a commit has landed.
CREATE TABLE {{s}}.row_lanes (id text PRIMARY KEY, number bigint NOT NULL, seq bigint NOT NULL, last_at bigint NOT NULL, jumped_at bigint NOT NULL, least_margin bigint NOT NULL) WITH (fillfactor = 10);

CREATE TABLE {{s}}.rows (
	handle bigint PRIMARY KEY, state smallint NOT NULL, holder text, wake_at bigint, settled_at bigint, told boolean NOT NULL, reaped boolean NOT NULL,
	provider bytea NOT NULL, record bytea NOT NULL
);
CREATE INDEX rows_held        ON {{s}}.rows (holder, handle)     WHERE holder IS NOT NULL;
CREATE INDEX rows_wake        ON {{s}}.rows (wake_at, handle)    WHERE state = 1;
CREATE INDEX rows_looks       ON {{s}}.rows (wake_at, handle)    WHERE state = 4;
CREATE INDEX rows_unanswered  ON {{s}}.rows (handle)             WHERE state <> 3;
CREATE INDEX rows_undelivered ON {{s}}.rows (handle)             WHERE NOT told AND state > 2 AND holder IS NULL;
CREATE INDEX rows_flagged     ON {{s}}.rows (handle)             WHERE state > 2 AND state <> 4 AND wake_at = 0;
CREATE INDEX rows_settled     ON {{s}}.rows (settled_at, handle) WHERE told AND NOT reaped AND settled_at IS NOT NULL;
CREATE TABLE {{s}}.row_names    (digest bytea PRIMARY KEY, handle bigint NOT NULL);
CREATE TABLE {{s}}.row_requests (handle bigint PRIMARY KEY, head bytea NOT NULL, body bytea);
CREATE TABLE {{s}}.row_answers  (handle bigint PRIMARY KEY, head bytea NOT NULL, body bytea);
CREATE TABLE {{s}}.row_marks    (mark bigint, handle bigint, PRIMARY KEY (mark, handle));
CREATE TABLE {{s}}.row_heard    (digest bytea PRIMARY KEY, at bigint NOT NULL);
CREATE INDEX row_heard_at ON {{s}}.row_heard (at);
CREATE SEQUENCE {{s}}.row_receipt_handles;
CREATE TABLE {{s}}.row_receipts (
	handle bigint PRIMARY KEY, identity bytea NOT NULL UNIQUE, written_in xid8 NOT NULL, scope bytea NOT NULL, key bytea NOT NULL, place bytea NOT NULL,
	state smallint NOT NULL, ends_at bigint NOT NULL, facts bytea NOT NULL, answer bytea, body bytea
);
CREATE INDEX row_receipts_ends ON {{s}}.row_receipts (ends_at, handle);
CREATE TABLE {{s}}.row_entities (identity bytea PRIMARY KEY, source bytea NOT NULL, entity bytea NOT NULL, seq bigint NOT NULL);
CREATE SEQUENCE {{s}}.row_flow_handles;
CREATE TABLE {{s}}.row_flows (
	handle bigint PRIMARY KEY, name bytea NOT NULL UNIQUE, scope bytea NOT NULL, parent bytea NOT NULL, id bytea NOT NULL, function bytea NOT NULL, version bigint NOT NULL,
	state smallint NOT NULL, holder text, due_at bigint, ended_at bigint, tombstone boolean NOT NULL, claim bigint NOT NULL, facts bytea NOT NULL, input bytea
);
CREATE INDEX row_flows_due     ON {{s}}.row_flows (due_at, handle)   WHERE state = 2;
CREATE INDEX row_flows_running ON {{s}}.row_flows (handle)           WHERE state = 1;
CREATE INDEX row_flows_aside   ON {{s}}.row_flows (handle)           WHERE state = 5;
CREATE INDEX row_flows_ended   ON {{s}}.row_flows (ended_at, handle) WHERE ended_at IS NOT NULL AND NOT tombstone;
CREATE TABLE {{s}}.row_steps (
	flow bigint NOT NULL, seq bigint NOT NULL, kind smallint NOT NULL, name bytea NOT NULL, position bigint NOT NULL, parallel boolean NOT NULL, at bigint NOT NULL,
	result bytea, sum bigint NOT NULL, PRIMARY KEY (flow, seq)
);
CREATE TABLE {{s}}.row_members  (id text PRIMARY KEY);
`

// version is of tables, and is never edited.
const version = 1

// ErrLayout means that the schema has a journal of another layout.
var ErrLayout = errors.New("the schema has a journal of another layout: open it with the release that wrote it, or begin a new schema")

// Migrate makes the tables in a schema, unless they are there.
func Migrate(ctx context.Context, url, schema string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	in := func(text string) string { return strings.ReplaceAll(text, "{{s}}", pgx.Identifier{schema}.Sanitize()) }
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))", "onceward rows "+schema); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", in("{{s}}.row_head")).Scan(&there); err != nil {
			return err
		}
		if there {
			var is int
			if err := tx.QueryRow(ctx, in("SELECT version FROM {{s}}.row_head")).Scan(&is); err != nil {
				return err
			}
			if is != version {
				return fmt.Errorf("%w (version %d, and not %d)", ErrLayout, is, version)
			}
			return nil
		}
		if _, err := tx.Exec(ctx, in("CREATE SCHEMA IF NOT EXISTS {{s}};"+tables)); err != nil {
			return err
		}
		key := format.NewHashKey()
		_, err := tx.Exec(ctx, in("INSERT INTO {{s}}.row_head VALUES (1, $1, $2, $3, false, '')"), version, newID(), key.Sealed())
		return err
	})
}

// toColumn is a time in milliseconds, 0 for none.
func toColumn(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromColumn(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
