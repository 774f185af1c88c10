package postgres_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/internal/pgproxy"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/server"
)

// payments is a service whose ledger is in the journal's database. It uses the application's own pool.
type payments struct {
	t       *testing.T
	journal *postgres.Journal
	ledger  string // its table
	url     string
	begins  func()                                          // called before each transaction begins, if not nil
	wrote   func(ctx context.Context, run int64, tx pgx.Tx) // called by the handler once it has written, if not nil
	runs    atomic.Int64
	pgx     bool // it uses Pool.Begin and Pgx, instead of Begin

	pool      *pgxpool.Pool
	dialsNone atomic.Bool
}

// serving starts a process of such a service. It reaches the database at dsn, and its journal is j.
func serving(t *testing.T, j *postgres.Journal, ledger, dsn string, mode pgx.QueryExecMode) *payments {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	cfg.MaxConns, cfg.ConnConfig.DefaultQueryExecMode = 4, mode
	if mode == pgx.QueryExecModeCacheStatement {
		cfg.ConnConfig.RuntimeParams["application_name"] = ledger
	}
	p := &payments{t: t, journal: j, ledger: ledger}
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p.dialsNone.Load() {
			return nil, errors.New("nothing is dialled any more")
		}
		return dial(ctx, network, addr)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	closes(t, pool)
	p.pool = pool
	srv, err := server.New(t.Context(), server.Options{
		Journal: j, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler),
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
		Begin: func(ctx context.Context) (journal.Tx, error) {
			if p.begins != nil {
				p.begins()
			}
			if p.pgx {
				return begins(pool)(ctx)
			}
			return postgres.Begin(pool)(ctx)
		},
	})
	require.NoError(t, err)
	web := httptest.NewServer(srv.Atomic("payments.create", http.HandlerFunc(p.pay), server.Endpoint{}))
	t.Cleanup(web.Close)
	p.url = web.URL
	return p
}

// pay books a payment, and enqueues a charge for it.
func (p *payments) pay(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "no body", http.StatusInternalServerError)
		return
	}
	tx, err := server.TxAs[pgx.Tx](r.Context())
	if err != nil {
		return
	}
	var id int64
	err = tx.QueryRow(r.Context(), "INSERT INTO "+p.ledger+" (payee) VALUES ($1) RETURNING id", string(body)).Scan(&id)
	if err == nil {
		_, err = p.journal.EnqueueTx(r.Context(), postgres.Pgx(tx), now(p.journal, enqueue(fmt.Sprint("charge of ", string(body), " ", id))))
	}
	if p.wrote != nil {
		p.wrote(r.Context(), p.runs.Add(1), tx)
	}
	if err != nil {
		http.Error(w, "booking failed", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "payment %d of %s", id, body)
}

// ask asks once for a payment under a key.
func (p *payments) ask(key, payee string) (status int, body string, header http.Header) {
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/payments", strings.NewReader(payee))
	if !assert.NoError(p.t, err) {
		return 0, "", nil
	}
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if !assert.NoError(p.t, err) {
		return 0, "", nil
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	assert.NoError(p.t, err)
	return answer.StatusCode, string(read), answer.Header
}

// askUntil asks until the payment is answered.
func (p *payments) askUntil(key, payee string) (body string) {
	for p.t.Context().Err() == nil {
		status, body, _ := p.ask(key, payee)
		switch status {
		case http.StatusCreated:
			return body
		case http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable:
			continue // a client asks again; each try waits for the server's database
		default:
			assert.Fail(p.t, "the service answers", "%d: %s", status, body)
			return ""
		}
	}
	return ""
}

// ledgerOf makes the table of a service. It returns the table's name and a function that counts rows.
func ledgerOf(t *testing.T, cluster *postgrestest.Cluster, opts postgres.Options) (ledger string, rows func(query string) int) {
	t.Helper()
	ledger = pgx.Identifier{opts.Schema, "ledger"}.Sanitize()
	cluster.Exec(t, "CREATE TABLE "+ledger+" (id bigint GENERATED ALWAYS AS IDENTITY, payee text)")
	return ledger, func(query string) (n int) {
		t.Helper()
		require.NoError(t, cluster.Conn(t).QueryRow(t.Context(), query).Scan(&n))
		return n
	}
}

// A payment, the charge that it enqueues and its answer are one commit. A client that asks again gets that answer, also
// from another process.
func TestAtomicOnPostgreSQL(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	one, two := openAt(t, cluster.URL(), opts), openAt(t, cluster.URL(), opts)
	ledger, rows := ledgerOf(t, cluster, opts)
	first := serving(t, one, ledger, cluster.URL(), pgx.QueryExecModeCacheStatement)
	second := serving(t, two, ledger, cluster.URL(), pgx.QueryExecModeCacheStatement)
	inside, goOn := make(chan struct{}), make(chan struct{})
	first.wrote = func(_ context.Context, run int64, _ pgx.Tx) {
		if run == 1 {
			close(inside)
			<-goOn
		}
	}
	paid := make(chan string, 1)
	go func() { paid <- first.askUntil("key-0001", "ada") }()
	<-inside
	status, problem, header := second.ask("key-0001", "ada")
	assert.Equal(t, http.StatusConflict, status, "another process is at it")
	assert.Contains(t, problem, "is being served")
	assert.NotEmpty(t, header.Get("Retry-After"))
	status, _, _ = first.ask("key-0001", "ada")
	assert.Equal(t, http.StatusConflict, status)
	close(goOn)
	answer := <-paid
	for _, p := range []*payments{first, second} {
		status, body, header := p.ask("key-0001", "ada")
		assert.Equal(t, http.StatusCreated, status)
		assert.Equal(t, answer, body)
		assert.Equal(t, "true", header.Get("Idempotent-Replayed"))
		status, _, _ = p.ask("key-0001", "grace")
		assert.Equal(t, http.StatusUnprocessableEntity, status)
	}
	assert.Equal(t, 1, rows("SELECT count(*) FROM "+ledger))
	op, err := one.Get(t.Context(), journal.Ref{ID: "charge of ada 1"})
	require.NoError(t, err)
	assert.Equal(t, journal.StatePending, op.State)
	verified(t, one)
}

// If the connection is cut at a COMMIT, at any byte, the service finds out whether it was committed. If it is cut at BEGIN, which
// goes with the reservation and the handler's first statement, nothing was.
func TestAtomicWithAnInterruptedCommit(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	j := openAt(t, cluster.URL(), opts)
	ledger, rows := ledgerOf(t, cluster, opts)
	keys := 0
	for _, way := range []struct {
		pgxTx     bool
		statement string
	}{{false, "commit"}, {true, "commit"}, {false, "begin"}} {
		proxy, dsn := proxied(t, cluster)
		p := serving(t, j, ledger, dsn, pgx.QueryExecModeCacheStatement)
		p.pgx = way.pgxTx
		cuts := map[int]int{}
		cut := func(side pgproxy.Side, at int) (passed int) {
			key := fmt.Sprintf("key-%v-%s-%d-%d", way.pgxTx, way.statement, side, at)
			fault := proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool { return slices.Contains(e.SQL, way.statement) }, Side: side, Byte: at})
			for fired := false; !fired; {
				status, body, _ := p.ask(key, key)
				if way.statement == "commit" || status != http.StatusInternalServerError { // the handler's own, for its statement
					assert.Contains(t, []int{http.StatusCreated, http.StatusServiceUnavailable}, status, body)
				}
				cuts[status]++
				select {
				case <-fault.Done():
					fired = true
				default: // the client may be faster than the proxy, or it got a connection that was cut before
				}
			}
			p.askUntil(key, key)
			keys++
			return fault.Passed()
		}
		cut(pgproxy.Request, 1) // of a statement that is prepared
		for _, side := range []pgproxy.Side{pgproxy.Request, pgproxy.Answer} {
			for at := 0; cut(side, at) == at; at += soak.Times(120, 3) {
			}
		}
		assert.True(t, way.statement == "begin" || cuts[http.StatusCreated] > 0)
		assert.Positive(t, cuts[http.StatusServiceUnavailable])
	}
	oneEach(t, rows, ledger, opts, keys)
	t.Logf("%d cuts", keys)
	verified(t, j)
}

// If the connection breaks while the server still commits, the service answers the request only after the commit has
// ended.
func TestAtomicWithACommitThatOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	j := openAt(t, cluster.URL(), opts)
	ledger, rows := ledgerOf(t, cluster, opts)
	waits := pgx.Identifier{opts.Schema, "waits"}.Sanitize()
	cluster.Exec(t, "CREATE FUNCTION "+waits+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext(TG_TABLE_SCHEMA)); RETURN NULL; END $$")
	cluster.Exec(t, "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON "+ledger+" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+waits+"()")
	holder := cluster.Conn(t)
	_, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(hashtext($1))", opts.Schema)
	require.NoError(t, err)
	proxy, dsn := proxied(t, cluster)
	p := serving(t, j, ledger, dsn, pgx.QueryExecModeCacheStatement)
	// Two connections are made beforehand. From now on only the driver would dial, to cancel the COMMIT that it gave
	// up, and that would reach some of the commits in time.
	one, err := p.pool.Acquire(t.Context())
	require.NoError(t, err)
	another, err := p.pool.Acquire(t.Context())
	require.NoError(t, err)
	one.Release()
	another.Release()
	p.dialsNone.Store(true)
	begun := 0
	p.begins = func() {
		if begun++; begun == 3 { // the request's own, one that finds it under way, and one more
			_, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
			assert.NoError(t, err)
		}
	}
	fault := proxy.Arm(pgproxy.Fault{Match: func(e pgproxy.Exchange) bool { return slices.Contains(e.SQL, "commit") }, Side: pgproxy.Request, Byte: pgproxy.End, Then: pgproxy.Drop})
	defer fault.Release()
	status, body, _ := p.ask("key-0001", "ada")
	assert.Equal(t, http.StatusCreated, status, body)
	assert.Equal(t, 1, rows("SELECT count(*) FROM "+ledger))
	verified(t, j)
}

// Histories that break a server built in the obvious way, if they need PostgreSQL.
func TestHistoriesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	for _, history := range []struct {
		name string
		run  func(t *testing.T, j *postgres.Journal, ledger string, rows func() int)
	}{
		{"all connections are held by handlers that enqueue", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			const connections, requests = 4, 8
			cfg, err := pgxpool.ParseConfig(cluster.URL())
			require.NoError(t, err)
			cfg.MaxConns = connections
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			closes(t, pool)
			for name, begin := range map[string]func(context.Context) (journal.Tx, error){"journal": nil, "application": begins(pool), "beginner": postgres.Begin(pool)} {
				var inside atomic.Int64
				all := make(chan struct{})
				h := atomicOn(t, j, begin, nil, func(w http.ResponseWriter, r *http.Request) {
					tx, err := server.TxAs[pgx.Tx](r.Context())
					if err != nil {
						return
					}
					if inside.Add(1) == connections {
						close(all)
					}
					<-all
					_, err = j.EnqueueTx(r.Context(), postgres.Pgx(tx), now(j, enqueue(name+r.Header.Get("Idempotency-Key"))))
					assert.NoError(t, err)
					w.WriteHeader(http.StatusCreated)
				})
				var asked sync.WaitGroup
				for i := range requests {
					asked.Go(func() { assert.Equal(t, http.StatusCreated, asks(h, fmt.Sprint("key-of-", name, i))) })
				}
				asked.Wait()
			}
		}},
		{"the application's commits do not wait for the disk", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			settings := strings.Replace(ledger, "ledger", "settings", 1)
			cluster.Exec(t, "CREATE TABLE "+settings+" (synchronous text)")
			cluster.Exec(t, "CREATE FUNCTION "+settings+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "+settings+" VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$")
			cluster.Exec(t, "CREATE CONSTRAINT TRIGGER notes AFTER INSERT ON "+ledger+" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+settings+"()")
			cfg, err := pgxpool.ParseConfig(cluster.URL())
			require.NoError(t, err)
			cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			closes(t, pool)
			_, err = pool.Exec(t.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('eve')")
			require.NoError(t, err)
			for i, begin := range []func(context.Context) (journal.Tx, error){begins(pool), postgres.Begin(pool)} {
				h := atomicOn(t, j, begin, nil, func(w http.ResponseWriter, r *http.Request) {
					tx, err := server.TxAs[pgx.Tx](r.Context())
					if err != nil {
						return
					}
					_, err = tx.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('ann')")
					assert.NoError(t, err)
				})
				require.Equal(t, http.StatusOK, asks(h, fmt.Sprint("key-000", i)))
			}
			noted, err := cluster.Conn(t).Query(t.Context(), "SELECT synchronous FROM "+settings)
			require.NoError(t, err)
			at, err := pgx.CollectRows(noted, pgx.RowTo[string])
			require.NoError(t, err)
			assert.Equal(t, []string{"off", "on", "on"}, at, "at the commits")
		}},
		{"the error of a statement is overlooked", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			pool, err := pgxpool.New(t.Context(), cluster.URL())
			require.NoError(t, err)
			closes(t, pool)
			overlooks := true
			begin := begins(pool)
			h := atomicOn(t, j, func(ctx context.Context) (journal.Tx, error) { return begin(ctx) }, nil, func(w http.ResponseWriter, r *http.Request) {
				tx, err := server.TxAs[pgx.Tx](r.Context())
				if err != nil {
					return
				}
				_, err = tx.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('ann')")
				assert.NoError(t, err)
				if overlooks {
					_, _ = tx.Exec(r.Context(), "SELECT 1 / 0")
				}
				w.WriteHeader(http.StatusCreated)
			})
			for _, begin = range []func(context.Context) (journal.Tx, error){begins(pool), postgres.Begin(pool)} {
				for _, key := range []string{"key-0001", "key-0001", ""} {
					assert.Equal(t, http.StatusServiceUnavailable, asks(h, key), "PostgreSQL answers such a COMMIT by ROLLBACK, without an error")
					assert.Zero(t, rows())
				}
			}
			overlooks = false
			assert.Equal(t, http.StatusCreated, asks(h, "key-0001"))
			assert.Equal(t, 1, rows())
		}},
		{"a decline comes after a statement that failed", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			cluster.Exec(t, "ALTER TABLE "+ledger+" ADD UNIQUE (payee)")
			cluster.Exec(t, "INSERT INTO "+ledger+" (payee) VALUES ('eve')")
			sqlPool := stdlib.OpenDBFromPool(poolAt(t, cluster.URL(), 2))
			for name, begin := range map[string]func(context.Context) (journal.Tx, error){
				"journal": nil, "application": begins(poolAt(t, cluster.URL(), 2)), "beginner": postgres.Begin(poolAt(t, cluster.URL(), 2)),
				"database/sql": func(ctx context.Context) (journal.Tx, error) {
					tx, err := sqlPool.BeginTx(ctx, nil)
					return postgres.SQL(tx), err
				},
			} {
				status, runs := http.StatusConflict, 0
				h := atomicOn(t, j, begin, nil, func(w http.ResponseWriter, r *http.Request) {
					runs++
					tx, err := server.JournalTx(r.Context())
					assert.NoError(t, err)
					for _, payee := range []string{name, "eve"} {
						insert := "INSERT INTO " + ledger + " (payee) VALUES ($1)"
						if own, ok := tx.Driver().(*sql.Tx); ok {
							_, err = own.ExecContext(r.Context(), insert, payee)
						} else {
							_, err = tx.Driver().(pgx.Tx).Exec(r.Context(), insert, payee)
						}
					}
					assert.ErrorContains(t, err, "23505")
					w.WriteHeader(status)
				})
				for _, key := range []string{"key-0001 " + name, "key-0001 " + name, ""} {
					assert.Equal(t, http.StatusConflict, asks(h, strings.ReplaceAll(key, " ", "-")), name)
				}
				assert.Equal(t, 2, runs, "the decline is recorded")
				status = http.StatusCreated // the handler has overlooked the error
				assert.Equal(t, http.StatusServiceUnavailable, asks(h, strings.ReplaceAll("key-0002 "+name, " ", "-")), name)
			}
			assert.Equal(t, 1, rows())
		}},
		{"a decline breaks a deferred constraint", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			cluster.Exec(t, "ALTER TABLE "+ledger+" ADD UNIQUE (payee) DEFERRABLE INITIALLY DEFERRED")
			for name, begin := range map[string]func(context.Context) (journal.Tx, error){
				"journal": nil, "application": begins(poolAt(t, cluster.URL(), 2)), "beginner": postgres.Begin(poolAt(t, cluster.URL(), 2)),
			} {
				runs := 0
				h := atomicOn(t, j, begin, nil, func(w http.ResponseWriter, r *http.Request) {
					runs++
					tx, err := server.TxAs[pgx.Tx](r.Context())
					assert.NoError(t, err)
					_, err = tx.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('eve'), ('eve')")
					assert.NoError(t, err)
					w.WriteHeader(http.StatusConflict)
				})
				for _, key := range []string{"key-0001-" + name, "key-0001-" + name, ""} {
					assert.Equal(t, http.StatusConflict, asks(h, key), name)
				}
				assert.Equal(t, 2, runs, "the decline is recorded")
			}
			assert.Zero(t, rows())
		}},
		{"a statement follows a ROLLBACK that is a statement", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			for name, begin := range map[string]func(context.Context) (journal.Tx, error){"journal": nil, "beginner": postgres.Begin(poolAt(t, cluster.URL(), 2))} {
				for _, ends := range []string{"ROLLBACK", "rollback /* all */"} {
					h := atomicOn(t, j, begin, nil, func(w http.ResponseWriter, r *http.Request) {
						tx, err := server.TxAs[pgx.Tx](r.Context())
						assert.NoError(t, err)
						_, err = tx.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('ann')")
						assert.NoError(t, err)
						_, err = tx.Exec(r.Context(), ends)
						assert.NoError(t, err)
						_, err = tx.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('bob')")
						assert.ErrorContains(t, err, "a statement has ended the transaction")
						var id int64
						assert.Error(t, tx.QueryRow(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('carl') RETURNING id").Scan(&id))
						_, err = tx.Begin(r.Context())
						assert.Error(t, err)
						w.WriteHeader(http.StatusCreated)
					})
					for _, key := range []string{"key-0001", ""} {
						assert.GreaterOrEqual(t, asks(h, key), 500, name)
						assert.Zero(t, rows(), name)
					}
				}
			}
		}},
		{"messages are done within messages, as many as there are connections", func(t *testing.T, j *postgres.Journal, _ string, _ func() int) {
			c, err := consume.New(t.Context(), consume.Options{Journal: j, Name: "ledger", Keep: time.Hour})
			require.NoError(t, err)
			var inside, all sync.WaitGroup
			inside.Add(4)
			for i := range 4 {
				all.Go(func() {
					_, err := c.Do(t.Context(), consume.Message{ID: fmt.Sprint(i), Source: "orders"}, func(ctx context.Context, _ journal.Tx) error {
						inside.Done()
						inside.Wait()
						_, err := c.Do(ctx, consume.Message{ID: fmt.Sprint(i, " of it"), Source: "orders"}, func(context.Context, journal.Tx) error { return nil })
						return err
					})
					assert.ErrorIs(t, err, consume.ErrInTransaction)
				})
			}
			all.Wait()
		}},
		{"a handler holds its transaction for too long, and takes no notice of its context", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			for name, begin := range map[string]func(context.Context) (journal.Tx, error){"journal": nil, "application": begins(poolAt(t, cluster.URL(), 1)), "beginner": postgres.Begin(poolAt(t, cluster.URL(), 1))} {
				wrote := false
				h := atomicWithin(t, j, begin, nil, server.Endpoint{Held: 100 * time.Millisecond, Limit: 10 * time.Minute}, func(w http.ResponseWriter, r *http.Request) {
					tx, err := server.TxAs[pgx.Tx](r.Context())
					if err != nil {
						return // it took that long to begin
					}
					<-r.Context().Done()
					_, err = tx.Exec(context.WithoutCancel(r.Context()), "INSERT INTO "+ledger+" (payee) VALUES ('ann')")
					wrote = err == nil
					w.WriteHeader(http.StatusCreated)
				})
				for !wrote { // the transaction before may still be ending, on a busy machine
					require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusConflict}, asks(h, "key-0001"), name)
				}
				assert.Zero(t, rows(), name)
			}
		}},
		{"a handler writes by a pool of its own", func(t *testing.T, j *postgres.Journal, ledger string, rows func() int) {
			pool, err := pgxpool.New(t.Context(), cluster.URL())
			require.NoError(t, err)
			closes(t, pool)
			status := http.StatusInternalServerError
			var became []server.Kind
			h := atomicOn(t, j, begins(pool), func(_ context.Context, o server.Outcome) { became = append(became, o.Kind) }, func(w http.ResponseWriter, r *http.Request) {
				_, err := pool.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('ann')")
				assert.NoError(t, err)
				w.WriteHeader(status)
			})
			assert.Equal(t, status, asks(h, "key-0001"))
			status = http.StatusCreated
			assert.Equal(t, status, asks(h, "key-0001"))
			assert.Equal(t, 2, rows(), "such a write is outside of the promise")
			assert.Equal(t, []server.Kind{server.Released, server.Untouched}, became, "and is noticed")
		}},
	} {
		t.Run(history.name, func(t *testing.T) {
			t.Parallel()
			opts := durable(t, cluster)
			j := openAt(t, cluster.URL(), opts)
			ledger, rows := ledgerOf(t, cluster, opts)
			history.run(t, j, ledger, func() int { return rows("SELECT count(*) FROM " + ledger) })
		})
	}
}

// A handler may end its transaction by itself, or leave it unable to record anything. Its row is there at most once, and as
// the answers say.
func TestHandlersThatEndTheirTransactionOnPostgreSQL(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	j := openAt(t, cluster.URL(), opts)
	ledger, _ := ledgerOf(t, cluster, opts)
	reads := cluster.Conn(t)
	harms := map[string]func(ctx context.Context, tx pgx.Tx){
		"commits":    func(ctx context.Context, tx pgx.Tx) { assert.NoError(t, tx.Commit(ctx)) },
		"rolls back": func(ctx context.Context, tx pgx.Tx) { assert.NoError(t, tx.Rollback(ctx)) },
		"rows left": func(ctx context.Context, tx pgx.Tx) {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 100000)")
			assert.NoError(t, err)
		},
		"half a savepoint": func(ctx context.Context, tx pgx.Tx) {
			inner, err := tx.Begin(ctx)
			assert.NoError(t, err)
			_, err = inner.Exec(ctx, "SELECT 1 / 0")
			assert.Error(t, err)
			assert.NoError(t, inner.Rollback(ctx))
		},
	}
	for _, statement := range []string{"COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT; BEGIN", "ROLLBACK; BEGIN", "SET TRANSACTION READ ONLY", "SELECT 1 / 0"} {
		harms[statement] = func(ctx context.Context, tx pgx.Tx) {
			for part := range strings.SplitSeq(statement, "; ") {
				_, _ = tx.Exec(ctx, part)
			}
		}
	}
	for beginner, begin := range map[string]func(context.Context) (journal.Tx, error){
		"journal": nil, "application": begins(poolAt(t, cluster.URL(), 2)), "beginner": postgres.Begin(poolAt(t, cluster.URL(), 2)),
	} {
		h := atomicOn(t, j, begin, nil, func(w http.ResponseWriter, r *http.Request) {
			tx, err := server.TxAs[pgx.Tx](r.Context())
			if !assert.NoError(t, err) {
				return
			}
			_, err = tx.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ($1)", r.URL.Query().Get("payee"))
			assert.NoError(t, err)
			harms[r.URL.Query().Get("harm")](r.Context(), tx)
			if r.URL.Query().Has("logged out") {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		for harm := range harms {
			for _, answer := range []string{"success", "logged out"} {
				name := beginner + ", " + harm + ", " + answer
				for range 2 {
					r := httptest.NewRequest(http.MethodPost, "/payments?"+url.Values{"harm": {harm}, answer: {""}, "payee": {name}}.Encode(), nil)
					r.Header.Set("Idempotency-Key", fmt.Sprintf("%x", sha256.Sum256([]byte(name))))
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					var rows int
					require.NoError(t, reads.QueryRow(t.Context(), "SELECT count(*) FROM "+ledger+" WHERE payee = $1", name).Scan(&rows))
					assert.LessOrEqual(t, rows, 1, name)
					if free := w.Header().Get("Idempotency-Recorded") == "false"; free {
						assert.Zero(t, rows, name)
					} else if w.Code < 300 {
						assert.Equal(t, 1, rows, name)
					}
				}
			}
		}
	}
	verified(t, j)
}

// begins begins transactions in a pool.
func begins(pool *pgxpool.Pool) func(context.Context) (journal.Tx, error) {
	return func(ctx context.Context) (journal.Tx, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		return postgres.Pgx(tx), nil
	}
}

// atomicOn is an endpoint on a journal.
func atomicOn(t *testing.T, j *postgres.Journal, begin func(context.Context) (journal.Tx, error), observe func(context.Context, server.Outcome), h http.HandlerFunc) http.Handler {
	t.Helper()
	return atomicWithin(t, j, begin, observe, server.Endpoint{Optional: true}, h)
}

func atomicWithin(t *testing.T, j *postgres.Journal, begin func(context.Context) (journal.Tx, error), observe func(context.Context, server.Outcome), e server.Endpoint, h http.HandlerFunc) http.Handler {
	t.Helper()
	srv, err := server.New(t.Context(), server.Options{
		Journal: j, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler), Begin: begin, Observe: observe,
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	})
	require.NoError(t, err)
	return srv.Atomic("payments.create", h, e)
}

// asks asks an endpoint under a key, "" for none, and returns the status.
func asks(h http.Handler, key string) int {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("{}"))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Two processes have looked, and found no receipt. The second handler asks for its transaction while the first one runs, or
// after it was answered. Only the first takes effect, whatever the second does with the error.
func TestHandlersThatReserveAtOnceOnPostgreSQL(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	openAt(t, cluster.URL(), opts) // migrates
	ledger, rows := ledgerOf(t, cluster, opts)
	ask := func(h http.Handler, key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	process := func(h http.HandlerFunc) http.Handler {
		return atomicOn(t, openAt(t, cluster.URL(), opts), postgres.Begin(poolAt(t, cluster.URL(), 2)), nil, h)
	}
	pays := func(w http.ResponseWriter, r *http.Request) {
		tx, err := server.TxAs[pgx.Tx](r.Context())
		if assert.NoError(t, err) {
			_, err = tx.Exec(r.Context(), "INSERT INTO "+ledger+" (payee) VALUES ('one')")
			assert.NoError(t, err)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "one")
	}
	for _, overlooks := range []bool{false, true} {
		refused := func(want error) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				_, err := server.TxAs[pgx.Tx](r.Context())
				assert.ErrorIs(t, err, want)
				if overlooks {
					w.WriteHeader(http.StatusCreated)
				} else {
					http.Error(w, "booking failed", http.StatusInternalServerError)
				}
			}
		}
		key := fmt.Sprint("key-000-", overlooks)
		var second *httptest.ResponseRecorder
		beside := process(refused(server.ErrRefused))
		first := ask(process(func(w http.ResponseWriter, r *http.Request) {
			_, err := server.TxAs[pgx.Tx](r.Context())
			assert.NoError(t, err)
			second = ask(beside, key)
			pays(w, r)
		}), key)
		assert.Equal(t, http.StatusCreated, first.Code)
		assert.Equal(t, http.StatusConflict, second.Code)
		assert.Contains(t, second.Body.String(), "is being served")

		key += "-answered"
		payer := process(pays)
		second = ask(process(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, http.StatusCreated, ask(payer, key).Code)
			refused(server.ErrReplayed)(w, r)
		}), key)
		assert.Equal(t, http.StatusCreated, second.Code)
		assert.Equal(t, "one", second.Body.String())
		assert.Equal(t, "true", second.Header().Get("Idempotent-Replayed"))
	}
	assert.Equal(t, 4, rows("SELECT count(*) FROM "+ledger))
}

// The guarantees hold behind a pooler in transaction mode, by either protocol that works there.
func TestAtomicBehindPgBouncer(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Start(t)
	pool := behindPgBouncer(t, cluster.URL(), 6)
	opts := durable(t, cluster)
	openAt(t, cluster.URL(), opts) // migrates, past the pooler
	opts.Pooled, opts.Migrate = true, false
	j := openAt(t, pool.url, opts)
	ledger, rows := ledgerOf(t, cluster, opts)
	var services []*payments
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		services = append(services, serving(t, j, ledger, pool.url, mode))
	}
	const keys = 6
	pays(t, services, keys)
	assert.Equal(t, keys, rows("SELECT count(*) FROM "+ledger))
	verified(t, j)
}

// pays asks for that many payments. For each it asks all services at once until they answer, with the same answer.
func pays(t *testing.T, services []*payments, keys int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range keys {
		key := fmt.Sprintf("key-%04d", i)
		answers := make([]string, len(services))
		var both sync.WaitGroup
		for n, p := range services {
			both.Go(func() { answers[n] = p.askUntil(key, key) })
		}
		all.Go(func() {
			both.Wait()
			for _, answer := range answers {
				assert.NotEmpty(t, answer)
				assert.Equal(t, answers[0], answer, key)
			}
		})
	}
	all.Wait()
}

// Connections of two processes are terminated while clients ask both for each payment. Each key has one row, one charge
// and one answer.
func TestAtomicStorm(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	journals := []*postgres.Journal{openAt(t, cluster.URL(), opts), openAt(t, cluster.URL(), opts)}
	ledger, rows := ledgerOf(t, cluster, opts)
	keys, kills := soak.Times(40, 100), int64(soak.Times(50, 500))
	var killed atomic.Int64
	var services []*payments
	for _, j := range journals {
		p := serving(t, j, ledger, cluster.URL(), pgx.QueryExecModeCacheStatement)
		p.pgx = len(services) > 0
		killers := cluster.Conn(t)
		var mu sync.Mutex
		p.wrote = func(ctx context.Context, run int64, tx pgx.Tx) {
			if killed.Add(1) > kills {
				return
			}
			kill := func(pid uint32) {
				mu.Lock()
				defer mu.Unlock()
				_, err := killers.Exec(context.WithoutCancel(ctx), "SELECT pg_terminate_backend($1)", int32(pid))
				assert.NoError(t, err)
			}
			own := tx.Conn().PgConn().PID()
			if run%2 == 0 {
				kill(own) // before the answer is recorded
			} else {
				go kill(own) // during that, or during the COMMIT
			}
		}
		services = append(services, p)
	}
	pays(t, services, keys)
	assert.GreaterOrEqual(t, killed.Load(), kills)
	oneEach(t, rows, ledger, opts, keys)
	verified(t, services[0].journal)
}

// A server that restarts amid its commits books no payment twice.
func TestAtomicOverRestarts(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Start(t)
	opts := durable(t, cluster)
	journals := []*postgres.Journal{openAt(t, cluster.URL(), opts), openAt(t, cluster.URL(), opts)}
	ledger, rows := ledgerOf(t, cluster, opts)
	restarts := soak.Times(2, 50)
	due := make(chan struct{})
	var services []*payments
	for _, j := range journals {
		p := serving(t, j, ledger, cluster.URL(), pgx.QueryExecModeCacheStatement)
		p.pgx = len(services) > 0
		p.wrote = func(context.Context, int64, pgx.Tx) {
			select {
			case due <- struct{}{}: // a restart begins, in parallel to the payments that follow
			default:
			}
		}
		services = append(services, p)
	}
	stop, paid := make(chan struct{}), make(chan int)
	for client := range 4 {
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					paid <- n
					return
				default:
				}
				key := fmt.Sprintf("key-%d-%06d", client, n)
				answers := []string{services[n%2].askUntil(key, key), services[(n+1)%2].askUntil(key, key)}
				assert.NotEmpty(t, answers[0])
				assert.Equal(t, answers[0], answers[1], key)
				n++
			}
		}()
	}
	for range restarts {
		<-due
		cluster.Restart(t, postgrestest.Immediate)
	}
	close(stop)
	keys := 0
	for range 4 {
		keys += <-paid
	}
	oneEach(t, rows, ledger, opts, keys)
	t.Logf("%d restarts, %d keys", restarts, keys)
	verified(t, journals[0])
}

// oneEach asserts that each of that many keys has one row in the ledger, one charge and one answer.
func oneEach(t *testing.T, rows func(query string) int, ledger string, opts postgres.Options, keys int) {
	t.Helper()
	table := func(name string) string { return pgx.Identifier{opts.Schema, name}.Sanitize() }
	for _, query := range []string{
		"SELECT count(*) FROM " + ledger, "SELECT count(DISTINCT payee) FROM " + ledger, "SELECT count(*) FROM " + table("operations"),
		"SELECT count(*) FROM " + table("receipts"), "SELECT count(*) FROM " + table("receipts") + " WHERE state = 2",
	} {
		assert.Equal(t, keys, rows(query), query)
	}
}

// Two simultaneous deliveries of a message take effect once. An older message of an entity has no effect.
func TestConsumeOnPostgreSQL(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	j := openAt(t, cluster.URL(), opts)
	ledger, rows := ledgerOf(t, cluster, opts)
	db, err := sql.Open("pgx", cluster.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for name, begin := range map[string]func(context.Context) (journal.Tx, error){
		"sql": func(ctx context.Context) (journal.Tx, error) {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
			if err != nil {
				return nil, err
			}
			return postgres.SQL(tx), nil
		},
		"pool": postgres.Begin(poolAt(t, cluster.URL(), 4)),
	} {
		c, err := consume.New(t.Context(), consume.Options{Journal: j, Name: name, Keep: time.Hour, Begin: begin})
		require.NoError(t, err)
		book := func(ctx context.Context, tx journal.Tx) (err error) {
			switch own := tx.Driver().(type) {
			case *sql.Tx:
				_, err = own.ExecContext(ctx, "INSERT INTO "+ledger+" (payee) VALUES ($1)", name)
			case pgx.Tx:
				_, err = own.Exec(ctx, "INSERT INTO "+ledger+" (payee) VALUES ($1)", name)
			}
			return err
		}
		deliver := func(id string, seq int64, do func(context.Context, journal.Tx) error) (consume.Result, error) {
			return c.Do(t.Context(), consume.Message{ID: id, Source: "orders of " + name, Entity: "order-1", Seq: seq}, do)
		}
		first, err := deliver("m-2", 2, func(ctx context.Context, tx journal.Tx) error {
			_, err := deliver("m-2", 2, book)
			assert.ErrorIs(t, err, consume.ErrBusy, "it is being worked on")
			return book(ctx, tx)
		})
		require.NoError(t, err)
		assert.Equal(t, consume.Done, first)
		again, err := deliver("m-2", 2, book)
		require.NoError(t, err)
		assert.Equal(t, consume.Duplicate, again)
		older, err := deliver("m-1", 1, book)
		require.NoError(t, err)
		assert.Equal(t, consume.Stale, older)
		assert.Equal(t, 1, rows("SELECT count(*) FROM "+ledger+" WHERE payee = '"+name+"'"))
	}
}

// A connection that is killed in the middle of a batch loses no message of a log, and none is done twice, however many messages
// share a transaction. A message that another delivery works on ends the batch.
func TestInOrderOnPostgreSQL(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Shared(t)
	opts := durable(t, cluster)
	j := openAt(t, cluster.URL(), opts)
	ledger, rows := ledgerOf(t, cluster, opts)
	pool := poolAt(t, cluster.URL(), 2)
	for name, begin := range map[string]func(context.Context) (journal.Tx, error){"journal": nil, "application": begins(pool), "beginner": postgres.Begin(pool)} {
		for _, together := range []int{1, 3, 100} {
			name := fmt.Sprint(name, " ", together)
			c, err := consume.New(t.Context(), consume.Options{Journal: j, Name: "log", Keep: time.Hour, Begin: begin, Together: together})
			require.NoError(t, err)
			var messages []consume.Message
			for i := range 8 {
				messages = append(messages, consume.Message{ID: fmt.Sprint(i), Source: name})
			}
			committed := 0
			inOrder := func(harm func(ctx context.Context, tx pgx.Tx, i int) error) (done int, err error) {
				first := committed
				done, err = c.InOrder(t.Context(), messages[first:], func(ctx context.Context, tx journal.Tx, i int) error {
					own := tx.Driver().(pgx.Tx)
					if _, err := own.Exec(ctx, "INSERT INTO "+ledger+" (payee) VALUES ($1)", name); err != nil {
						return err
					}
					return harm(ctx, own, first+i)
				})
				committed += done
				return done, err
			}
			later := func(harm func(ctx context.Context, tx pgx.Tx, i int) error) error {
				for {
					if _, err := inOrder(harm); !errors.Is(err, consume.ErrBusy) {
						return err
					}
				}
			}
			harmless := func(context.Context, pgx.Tx, int) error { return nil }

			_, err = inOrder(func(ctx context.Context, tx pgx.Tx, i int) error {
				if i == 2 {
					_, err := tx.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
					assert.Error(t, err)
				}
				return nil // the error is overlooked
			})
			require.Error(t, err, name)
			assert.LessOrEqual(t, committed, 2, name) // fewer, if the killed backend still held the messages
			assert.Equal(t, committed, rows("SELECT count(*) FROM "+ledger+" WHERE payee = '"+name+"'"), name)

			err = later(func(ctx context.Context, tx pgx.Tx, i int) error {
				if i == 4 {
					_, _ = tx.Exec(ctx, "SELECT 1 / 0") // overlooked, too
				}
				return nil
			})
			require.ErrorIs(t, err, journal.ErrTxAborted, name)
			assert.Equal(t, 4, committed, name)

			_, err = c.Do(t.Context(), messages[6], func(context.Context, journal.Tx) error {
				_, err := inOrder(harmless)
				assert.ErrorIs(t, err, consume.ErrBusy, name)
				return errors.New("not today")
			})
			require.Error(t, err, name)
			assert.Equal(t, 6, committed, name)

			_, err = inOrder(harmless)
			require.NoError(t, err, name)
			assert.Equal(t, 8, committed, name)
			assert.Equal(t, 8, rows("SELECT count(*) FROM "+ledger+" WHERE payee = '"+name+"'"), name)
		}
	}
}
