package postgres

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// configure returns the configuration of the journal's connections. Keep-alives detect a lost server or network
// within seconds. Without Options.ReadOnly, only a server that writes is accepted.
func configure(cfg *pgx.ConnConfig, opts Options) *pgx.ConnConfig {
	cfg = cfg.Copy()
	dialer := &net.Dialer{Timeout: dialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}
	cfg.DialFunc = dialer.DialContext
	cfg.ConnectTimeout = dialTime
	if cfg.ValidateConnect == nil && !opts.ReadOnly {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if opts.Pooled {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
		cfg.StatementCacheCapacity, cfg.DescriptionCacheCapacity = 0, 0
		clear(cfg.RuntimeParams)
		return cfg
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "onceward"
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8" // not the role's setting: else other processes would read other names
	// A server that waits for a client which is gone holds its locks meanwhile.
	cfg.RuntimeParams["tcp_keepalives_idle"], cfg.RuntimeParams["tcp_keepalives_interval"], cfg.RuntimeParams["tcp_keepalives_count"] = "5", "5", "3"
	cfg.RuntimeParams["tcp_user_timeout"] = "15000"
	return cfg
}

// newPool makes a pool of at most so many connections. After use it keeps those that are fit. If fit is nil, it keeps
// all.
func (j *Journal) newPool(ctx context.Context, most int, fit func(*pgx.Conn) bool) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig = j.cfg.Copy()
	cfg.BeforeConnect = j.opts.BeforeConnect
	cfg.MaxConns, cfg.AfterRelease = int32(most), fit
	cfg.MaxConnIdleTime = time.Minute
	return pgxpool.NewWithConfig(ctx, cfg)
}

// notices are what the server says on a connection beside its answers, as the driver reads it.
type notices struct {
	warned atomic.Bool // a warning came: the commit may not be on a standby that it should have waited for
	looked atomic.Bool // commits wait for a standby, and it was seen that warnings come
}

// dial connects, and checks whether the database is still the same. told receives the server's notices. Nil means
// that they are not needed.
func (j *Journal) dial(ctx context.Context, told *notices) (*pgx.Conn, error) {
	if told == nil {
		told = new(notices)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	defer context.AfterFunc(j.background, cancel)()
	conn, err := j.connect(ctx, told)
	if err != nil {
		return nil, err
	}
	if err := j.check(ctx, conn, told); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// connect connects without a check of the server or the journal.
func (j *Journal) connect(ctx context.Context, told *notices) (*pgx.Conn, error) {
	cfg := j.cfg.Copy()
	if j.opts.BeforeConnect != nil {
		if err := j.opts.BeforeConnect(ctx, cfg); err != nil {
			return nil, fmt.Errorf("postgres: Options.BeforeConnect: %w", err)
		}
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			told.warned.Store(true)
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err == nil {
		registerBytes(conn)
	}
	return conn, err
}

// evict ends connections of this role that hold lanes' rows for too long. Each waits for a client that is gone or
// stopped. A stopped client finds out the result of its commit once it goes on.
func (j *Journal) evict(ctx context.Context, where string, args ...any) {
	watcher, err := j.connect(ctx, new(notices)) // a check of the database may be waiting for this
	if err != nil {
		return
	}
	defer watcher.Close(context.WithoutCancel(ctx))
	waiter, err := j.connect(ctx, new(notices))
	if err != nil {
		return
	}
	defer waiter.Close(context.WithoutCancel(ctx))
	waits := make(chan error, 1)
	go func() {
		waits <- commitAlone(ctx, j, waiter, func(b *pgx.Batch) {
			b.Queue("SELECT 1 FROM "+j.schema+".lanes WHERE "+where+" ORDER BY process, lane FOR UPDATE", args...)
		})
	}()
	for {
		var ended int
		// By what it waits for: behind a pooler, which connection is whose changes from one transaction to the next.
		err := watcher.QueryRow(ctx, "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a WHERE a.usename = current_user "+
			"AND a.state_change < clock_timestamp() - interval '500 ms' AND a.pid IN (SELECT pg_catalog.unnest(pg_blocking_pids(w.pid)) FROM pg_stat_activity w "+
			"WHERE w.usename = current_user AND w.wait_event_type = 'Lock' AND w.query LIKE '%' || $1 || '.lanes%')", j.schema).Scan(&ended)
		if err == nil && ended > 0 {
			j.log.Warn("onceward: connections that held lanes of the journal, and whose client is gone or stopped, were ended", "connections", ended)
		}
		select {
		case <-waits:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
