package postgres_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/server"
)

// watching is an answer whose first write looks at something.
type watching struct {
	*httptest.ResponseRecorder
	looks func()
}

func (w watching) Write(b []byte) (int, error) {
	w.looks()
	return w.ResponseRecorder.Write(b)
}

// A handler finds that another process has answered meanwhile. That answer may be long, and its caller slow. No connection is
// held meanwhile.
func TestReplayWithoutAConnection(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	openAt(t, cluster.URL(), opts) // migrates
	ask := func(h http.Handler, w http.ResponseWriter) {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", "key-0001")
		h.ServeHTTP(w, r)
	}
	other := atomicOn(t, openAt(t, cluster.URL(), opts), nil, nil, func(w http.ResponseWriter, r *http.Request) {
		_, err := server.TxAs[pgx.Tx](r.Context())
		assert.NoError(t, err)
		_, _ = io.WriteString(w, "a long answer")
	})
	pool := poolAt(t, cluster.URL(), 1)
	h := atomicOn(t, openAt(t, cluster.URL(), opts), postgres.Begin(pool), nil, func(_ http.ResponseWriter, r *http.Request) {
		ask(other, httptest.NewRecorder())
		_, err := server.TxAs[pgx.Tx](r.Context())
		assert.ErrorIs(t, err, server.ErrReplayed)
	})
	looked := false
	w := watching{ResponseRecorder: httptest.NewRecorder(), looks: func() {
		looked = true
		assert.Zero(t, pool.Stat().AcquiredConns())
	}}
	ask(h, w)
	assert.True(t, looked)
	assert.Equal(t, "a long answer", w.Body.String())
	assert.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
}

// writing is a rewriter of a query that writes by the connection.
type writing struct{ sql string }

func (w writing) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, args []any) (string, []any, error) {
	_, err := conn.Exec(ctx, w.sql)
	return sql, args[:0], err
}

// panics is a rewriter that panics.
type panics struct{}

func (panics) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	panic(http.ErrAbortHandler)
}

// A handler may overlook whatever becomes of its first statement. Its row is there if and only if its answer is recorded.
func TestFirstStatementsThatHandlersOverlook(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	j := openAt(t, cluster.URL(), opts)
	ledger, _ := ledgerOf(t, cluster, opts)
	reads := cluster.Conn(t)
	insert := func(name string) string { return "INSERT INTO " + ledger + " (payee) VALUES ('" + name + "')" }
	exec := func(sql string, args ...any) func(context.Context, pgx.Tx, string) {
		return func(ctx context.Context, tx pgx.Tx, _ string) { _, _ = tx.Exec(ctx, sql, args...) }
	}
	query := func(sql string, args ...any) func(context.Context, pgx.Tx, string) {
		return func(ctx context.Context, tx pgx.Tx, _ string) {
			rows, _ := tx.Query(ctx, sql, args...)
			rows.Close()
		}
	}
	firsts := map[string]func(ctx context.Context, tx pgx.Tx, name string){
		"nothing":                 func(context.Context, pgx.Tx, string) {},
		"syntax":                  exec("SELEKT 1"),
		"syntax with an argument": exec("SELEKT $1::int", 1),
		"syntax of a query":       query("SELEKT 1"),
		"too few arguments":       exec("SELECT $1::int + $2::int", 1),
		"can't be encoded":        exec("SELECT $1::int", make(chan int)),
		"divides":                 exec("SELECT 1 / $1::int", 0),
		"divides in a query":      query("SELECT 1 / 0"),
		"serialization failure":   query("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"),
		"empty":                   query(";"),
		"comment":                 query("-- nothing"),
		"begins":                  query("BEGIN"),
		"isolates":                query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
		"isolates by Exec":        exec("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
		"read only":               query("SET TRANSACTION READ ONLY"),
		"locks":                   query("LOCK TABLE " + ledger),
		"commit":                  query("COMMIT"),
		"commit and chain":        query("COMMIT AND CHAIN"),
		"rollback and chain":      query("ROLLBACK AND CHAIN"),
		"commit by Exec":          exec("COMMIT"),
		"commit by arguments":     exec("COMMIT", pgx.NamedArgs{}),
		"Commit":                  func(ctx context.Context, tx pgx.Tx, _ string) { _ = tx.Commit(ctx) },
		"Rollback":                func(ctx context.Context, tx pgx.Tx, _ string) { _ = tx.Rollback(ctx) },
		"savepoint": func(ctx context.Context, tx pgx.Tx, _ string) {
			query("SAVEPOINT a")(ctx, tx, "")
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			_, _ = tx.Exec(ctx, "ROLLBACK TO SAVEPOINT a")
		},
		"Begin and half": func(ctx context.Context, tx pgx.Tx, _ string) {
			inner, err := tx.Begin(ctx)
			if err == nil {
				_, _ = inner.Exec(ctx, "SELECT 1/0")
				_ = inner.Rollback(ctx)
			}
		},
		"terminated": query("SELECT pg_terminate_backend(pg_backend_pid())"),
		"its context ends": func(ctx context.Context, tx pgx.Tx, _ string) {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_, _ = tx.Exec(short, "SELECT pg_sleep($1)", 0.2)
		},
		"over": func(ctx context.Context, tx pgx.Tx, _ string) {
			over, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = tx.Exec(over, "SELECT $1::int", 1)
		},
		"rows left": func(ctx context.Context, tx pgx.Tx, _ string) {
			_, _ = tx.Query(ctx, "SELECT generate_series(1, 100000)")
		},
		"few rows left": func(ctx context.Context, tx pgx.Tx, _ string) { _, _ = tx.Query(ctx, "SELECT 1") },
		"row left":      func(ctx context.Context, tx pgx.Tx, _ string) { _ = tx.QueryRow(ctx, "SELECT 1") },
		"no rows": func(ctx context.Context, tx pgx.Tx, _ string) {
			_ = tx.QueryRow(ctx, "SELECT 1 WHERE false").Scan(new(int))
		},
		"batch": func(ctx context.Context, tx pgx.Tx, _ string) {
			b := new(pgx.Batch)
			b.Queue("SELECT 1")
			_ = tx.SendBatch(ctx, b).Close()
		},
		"batch left": func(ctx context.Context, tx pgx.Tx, _ string) {
			b := new(pgx.Batch)
			b.Queue("SELECT 1")
			_ = tx.SendBatch(ctx, b)
		},
		"Prepare fails": func(ctx context.Context, tx pgx.Tx, _ string) { _, _ = tx.Prepare(ctx, "p", "SELEKT") },
		"CopyFrom fails": func(ctx context.Context, tx pgx.Tx, _ string) {
			_, _ = tx.CopyFrom(ctx, pgx.Identifier{"missing"}, []string{"a"}, pgx.CopyFromRows([][]any{{1}}))
		},
		"LargeObjects": func(ctx context.Context, tx pgx.Tx, _ string) {
			o := tx.LargeObjects()
			_, _ = o.Open(ctx, 1, pgx.LargeObjectModeRead)
		},
		"Conn": func(ctx context.Context, tx pgx.Tx, _ string) { _, _ = tx.Conn().Exec(ctx, "SELECT 1") },
		"rewriter": func(ctx context.Context, tx pgx.Tx, name string) {
			_, _ = tx.Exec(ctx, "SELECT 1/0", writing{insert(name)})
		},
		"rewriter of rows": func(ctx context.Context, tx pgx.Tx, name string) {
			query("SELECT 1/0", writing{insert(name)})(ctx, tx, "")
		},
		"named":          exec("SELECT @a::int", pgx.NamedArgs{"a": 1}),
		"strictly named": exec("SELECT @a::int", pgx.StrictNamedArgs{"b": 1}),
		"panics":         exec("SELECT 1", panics{}),
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		cfg, err := pgxpool.ParseConfig(cluster.URL())
		require.NoError(t, err)
		cfg.MaxConns, cfg.ConnConfig.DefaultQueryExecMode = 2, mode
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		closes(t, pool)
		again := false
		h := atomicOn(t, j, postgres.Begin(pool), nil, func(w http.ResponseWriter, r *http.Request) {
			tx, err := server.TxAs[pgx.Tx](r.Context())
			if again && errors.Is(err, server.ErrRefused) { // the server may still be ending the transaction of the first request
				return
			}
			if !assert.NoError(t, err) {
				return
			}
			name := r.URL.Query().Get("payee")
			firsts[r.URL.Query().Get("first")](r.Context(), tx, name)
			_, _ = tx.Exec(r.Context(), insert(name))
			if r.URL.Query().Has("unauthorized") {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		for first := range firsts {
			for _, answer := range []string{"success", "unauthorized"} {
				name := fmt.Sprint(mode, ", ", first, ", ", answer)
				for _, again = range []bool{false, true} {
					r := httptest.NewRequest(http.MethodPost, "/payments?"+url.Values{"first": {first}, answer: {""}, "payee": {name}}.Encode(), nil)
					r.Header.Set("Idempotency-Key", fmt.Sprintf("%x", sha256.Sum256([]byte(name))))
					w := httptest.NewRecorder()
					if first == "panics" {
						assert.Panics(t, func() { h.ServeHTTP(w, r) })
						w.Code = http.StatusInternalServerError
					} else {
						h.ServeHTTP(w, r)
					}
					var rows int
					require.NoError(t, reads.QueryRow(t.Context(), "SELECT count(*) FROM "+ledger+" WHERE payee = $1", name).Scan(&rows))
					switch {
					case strings.Contains(first, "commit"): // the handler ends its transaction itself, and writes behind that
						assert.LessOrEqual(t, rows, 1, name)
					case w.Code == http.StatusOK:
						assert.Equal(t, 1, rows, name)
					default:
						assert.Zero(t, rows, name)
					}
				}
			}
		}
	}
	verified(t, j)
}
