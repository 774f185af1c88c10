package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/server"
)

// openPostgres starts a server, with a journal and a ledger in one database.
func openPostgres(ctx context.Context, o options) (all []contender, describe string, end func(), err error) {
	cluster, err := postgrestest.New()
	if err != nil {
		return nil, "", nil, err
	}
	ends := []func(){cluster.Close}
	stopAll := func() {
		for i := range ends {
			ends[len(ends)-1-i]()
		}
	}
	defer func() {
		if err != nil {
			stopAll()
		}
	}()
	cfg, err := pgxpool.ParseConfig(cluster.URL())
	if err != nil {
		return nil, "", nil, err
	}
	cfg.MaxConns = int32(o.callers)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, "", nil, err
	}
	ends = append(ends, pool.Close)
	if _, err = pool.Exec(ctx, `CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payee text NOT NULL);
		CREATE TABLE keys (key text PRIMARY KEY, answer bytea)`); err != nil {
		return nil, "", nil, err
	}
	atomic := func(schema string) (http.Handler, error) {
		j, err := postgres.Open(ctx, cluster.URL(), postgres.Options{Deployment: "benchmark", Schema: schema, Migrate: true, Readers: o.callers, Failover: postgres.MayLose})
		if err != nil {
			return nil, err
		}
		ends = append(ends, func() { _ = j.Close() })
		s, err := newServer(ctx, j, postgres.Begin(pool))
		if err != nil {
			return nil, err
		}
		return s.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			tx, err := server.TxAs[pgx.Tx](r.Context())
			if err != nil {
				return
			}
			if _, err := tx.Exec(r.Context(), insertPostgres, string(body)); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answerPaid(w)
		}), server.Endpoint{}), nil
	}
	h, err := atomic("onceward")
	if err != nil {
		return nil, "", nil, err
	}
	all, stop, err := serveAll(postgresLedger{pool}, h)
	if err != nil {
		return nil, "", nil, err
	}
	ends = append(ends, stop)
	if o.rows > 0 {
		all = nil
		for _, rows := range []int{0, o.rows} {
			schema := fmt.Sprintf("beside_%d", rows)
			h, err := atomic(schema)
			if err != nil {
				return nil, "", nil, err
			}
			one, stop, err := beside(ctx, h, rows, func() error { return fillPostgres(ctx, pool, schema, rows) })
			if err != nil {
				return nil, "", nil, err
			}
			ends = append(ends, stop)
			all = append(all, one)
		}
	}
	var version, fsync string
	var postmaster int
	err = pool.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int`).
		Scan(&version, &fsync, &postmaster)
	for i := range all {
		all[i].postmaster = postmaster
	}
	return all, "PostgreSQL " + version + " (fsync " + fsync + ")", stopAll, err
}

const insertPostgres = "INSERT INTO ledger (payee) VALUES ($1)"

type postgresLedger struct{ pool *pgxpool.Pool }

func (l postgresLedger) book(ctx context.Context, payee []byte) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertPostgres, string(payee))
		return err
	})
}

func (l postgresLedger) reserve(ctx context.Context, key string) (bool, []byte, error) {
	tag, err := l.pool.Exec(ctx, "INSERT INTO keys (key) VALUES ($1) ON CONFLICT DO NOTHING", key)
	if err != nil || tag.RowsAffected() == 1 {
		return err == nil, nil, err
	}
	answer, err := l.get(ctx, key)
	return false, answer, err
}

func (l postgresLedger) finish(ctx context.Context, key string, answer []byte) error {
	_, err := l.pool.Exec(ctx, "UPDATE keys SET answer = $2 WHERE key = $1", key, answer)
	return err
}

func (l postgresLedger) get(ctx context.Context, key string) (answer []byte, err error) {
	err = l.pool.QueryRow(ctx, "SELECT answer FROM keys WHERE key = $1", key).Scan(&answer)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return answer, err
}

func (l postgresLedger) set(ctx context.Context, key string, value []byte) error {
	_, err := l.pool.Exec(ctx, "INSERT INTO keys (key, answer) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET answer = excluded.answer", key, value)
	return err
}
