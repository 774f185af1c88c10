package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// fill fills a schema with that many operations, nearly all of them settled, and others in every state.
const fill = `
SET synchronous_commit = off;
INSERT INTO {{s}}.operations
SELECT (1::bigint << 40) + i, s, CASE WHEN s = 2 OR s = 3 AND i %% 400 = 3 THEN 'session-' || i / 20 %% 10 END, CASE WHEN s IN (1, 4) THEN CASE WHEN i %% 5 = 0 THEN 0 ELSE i END END,
	CASE WHEN s > 2 THEN i END, s = 3 AND i %% 400 <> 3, s = 3 AND i %% 3 = 0, 'ledger', decode(repeat('ab', 200), 'hex')
FROM (SELECT i, CASE WHEN i %% 100 < 96 THEN 3 WHEN i %% 100 = 96 THEN 1 WHEN i %% 100 = 97 THEN 2 WHEN i %% 100 = 98 THEN 4 ELSE 5 END AS s
	FROM generate_series(1, %[1]d) i) x;
INSERT INTO {{s}}.names SELECT substr(sha256(handle::text::bytea), 1, 16), handle FROM {{s}}.operations;
INSERT INTO {{s}}.requests SELECT handle, decode(repeat('ab', 300), 'hex'), decode(repeat('ab', 300), 'hex') FROM {{s}}.operations;
INSERT INTO {{s}}.answers SELECT handle, decode(repeat('ab', 300), 'hex'), decode(repeat('ab', 300), 'hex') FROM {{s}}.operations WHERE state = 3;
INSERT INTO {{s}}.marks SELECT ('x' || substr(md5(handle::text), 1, 15))::bit(60)::bigint, handle FROM {{s}}.operations;
INSERT INTO {{s}}.heard SELECT sha256(i::text::bytea), i FROM generate_series(1, %[1]d / 10) i;
INSERT INTO {{s}}.flows
SELECT i, substr(sha256(i::text::bytea), 1, 16), '', '', ('flow-' || i)::bytea, 'ride', 1, CASE WHEN i %% 50 = 0 THEN 1 WHEN i %% 50 = 1 THEN 2 WHEN i %% 500 = 2 THEN 5 ELSE 3 END,
	CASE WHEN i %% 50 = 0 THEN 'session-' || i %% 10 END, CASE WHEN i %% 50 = 1 THEN i END, CASE WHEN i %% 50 > 1 THEN i END, i %% 50 > 10, 1, '{}'
FROM generate_series(1, %[1]d / 10) i;
INSERT INTO {{s}}.flow_steps SELECT handle, seq, 1, 'create', seq, false, 1, '{}', 1 FROM {{s}}.flows, generate_series(1, 5) seq;
INSERT INTO {{s}}.receipts
SELECT i, substr(sha256(i::text::bytea), 1, 16), pg_current_xact_id(), 't acme', ('key-of-' || i)::bytea, 'orders.create', CASE WHEN i %% 100 = 0 THEN 1 ELSE 2 END, i,
	decode(repeat('ab', 200), 'hex'), decode(repeat('ab', 300), 'hex') FROM generate_series(1, %[1]d / 10) i;
INSERT INTO {{s}}.heads SELECT substr(sha256(i::text::bytea), 1, 16), 'orders', i::text::bytea, i FROM generate_series(1, %[1]d / 10) i;
`

// grows are the tables that have a row for each operation, flow, receipt or event.
var grows = []string{"operations", "names", "requests", "answers", "marks", "heard", "flows", "flow_steps", "receipts", "heads"}

// readsAll are statements of Verify and CountReceipts, which say that they read the whole journal.
var readsAll = []string{"WHERE NOT EXISTS (SELECT 1 FROM {{s}}.operations WHERE handle = r.handle)", "SELECT count(*), count(*) FILTER (WHERE ends_at = $1)"}

// statement is a statement as it was sent.
type statement struct {
	sql  string
	args []any
}

// sent are the statements of journals, each with the settings of its transaction.
type sent struct {
	mu       sync.Mutex
	settings map[*pgx.Conn]statement
	all      map[statementText]statement
}

type statementText struct{ settings, sql string }

// ofSchema notes what a journal of one schema sends.
type ofSchema struct {
	roundTrips
	to     *sent
	schema string
}

func (o ofSchema) TraceQueryStart(ctx context.Context, conn *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	o.note(conn, q.SQL, q.Args)
	return ctx
}

func (o ofSchema) TraceBatchStart(ctx context.Context, conn *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		o.note(conn, q.SQL, q.Arguments)
	}
	return ctx
}

var counted = regexp.MustCompile(`count\(\*\) = \d+`)

func (o ofSchema) note(conn *pgx.Conn, sql string, args []any) {
	o.to.mu.Lock()
	defer o.to.mu.Unlock()
	first, _, _ := strings.Cut(sql, " ")
	text := counted.ReplaceAllString(strings.ReplaceAll(sql, `"`+o.schema+`"`, "{{s}}"), "count(*) = 1")
	switch {
	case first == "BEGIN" || first == "COMMIT" || first == "ROLLBACK":
		delete(o.to.settings, conn)
	case strings.Contains(sql, "set_config('lock_timeout'"):
		o.to.settings[conn] = statement{sql, args}
	case !slices.Contains([]string{"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}, first):
	case slices.ContainsFunc(readsAll, func(is string) bool { return strings.Contains(text, is) }):
	case slices.ContainsFunc(grows, func(table string) bool { return strings.Contains(text, "{{s}}."+table) }):
		o.to.all[statementText{o.to.settings[conn].sql, text}] = statement{text, args}
	}
}

// requirePlanned fails if a statement that was sent reads a whole table that grows, whether the server plans it for its
// arguments or generically. The plans of a new journal's writes are made while its tables are empty.
func (s *sent) requirePlanned(t *testing.T, server *postgrestest.Cluster) {
	conn := server.Conn(t)
	for _, full := range []bool{false, true} {
		opts := options(t, server)
		schema := pgx.Identifier{opts.Schema}.Sanitize()
		require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
		many := soak.Times(100_000, 500_000)
		if full {
			fillTables(t, conn, schema, many)
		}
		for _, of := range slices.SortedFunc(maps.Keys(s.all), func(a, b statementText) int { return strings.Compare(a.sql, b.sql) }) {
			modes := []string{"force_generic_plan", "force_custom_plan"}
			switch {
			case full:
			case of.settings == "":
				continue
			default:
				modes = modes[:1]
			}
			for _, mode := range modes {
				plan := explain(t, conn, of.settings, mode, strings.ReplaceAll(of.sql, "{{s}}", schema), s.all[of].args)
				for _, node := range plan.all() {
					if !slices.Contains(grows, node.Table) {
						continue
					}
					what := fmt.Sprintf("%s, full: %v: %s\n%v", mode, full, of.sql, s.all[of].args)
					assert.NotEqual(t, "Seq Scan", node.Type, what)
					assert.LessOrEqual(t, (node.Rows+node.Filtered+node.Rechecked)*max(node.Loops, 1), float64(many/20), what)
				}
			}
		}
	}
	assert.GreaterOrEqual(t, len(s.all), 60, "statements")
}

func fillTables(t *testing.T, conn *pgx.Conn, schema string, many int) {
	t.Helper()
	_, err := conn.Exec(t.Context(), strings.ReplaceAll(fmt.Sprintf(fill, many), "{{s}}", schema))
	require.NoError(t, err)
	for _, table := range grows {
		_, err = conn.Exec(t.Context(), "VACUUM ANALYZE "+schema+"."+table)
		require.NoError(t, err)
	}
}

// planned is a node of a plan.
type planned struct {
	Type      string  `json:"Node Type"`
	Table     string  `json:"Relation Name"`
	Rows      float64 `json:"Actual Rows"`
	Loops     float64 `json:"Actual Loops"`
	Filtered  float64 `json:"Rows Removed by Filter"`
	Rechecked float64 `json:"Rows Removed by Index Recheck"`
	Plans     []planned
}

func (p planned) all() []planned {
	nodes := []planned{p}
	for _, q := range p.Plans {
		nodes = append(nodes, q.all()...)
	}
	return nodes
}

// explain returns the plan of a statement. It runs the statement, unless that fails since the rows are not there.
func explain(t *testing.T, conn *pgx.Conn, settings, mode, sql string, args []any) planned {
	t.Helper()
	for _, how := range []string{"ANALYZE, TIMING OFF, ", ""} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		exec := func(sql string, args ...any) {
			t.Helper()
			_, err := tx.Exec(t.Context(), sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
			require.NoError(t, err, sql)
		}
		if settings != "" {
			exec(settings, "1000ms")
		}
		exec("SET LOCAL plan_cache_mode = " + mode)
		exec("PREPARE p AS " + sql)
		execute := "EXECUTE p"
		if len(args) > 0 {
			var params []string
			for i := range args {
				params = append(params, fmt.Sprint("$", i+1))
			}
			execute += "(" + strings.Join(params, ", ") + ")"
		}
		var text []byte
		err = tx.QueryRow(t.Context(), "EXPLAIN ("+how+"COSTS OFF, FORMAT JSON) "+execute, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text)
		_ = tx.Rollback(t.Context())
		_, _ = conn.Exec(t.Context(), "DEALLOCATE ALL")
		if err != nil && how != "" {
			continue
		}
		require.NoError(t, err, "%s\n%v", sql, args)
		var plans []struct{ Plan planned }
		require.NoError(t, json.Unmarshal(text, &plans))
		return plans[0].Plan
	}
	panic("unreachable")
}
