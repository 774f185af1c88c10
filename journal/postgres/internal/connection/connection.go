package connection

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DialTime limits the time to connect.
const DialTime = 10 * time.Second

// Dialer makes connections. It has no state, and is safe for concurrent use.
type Dialer struct {
	cfg           *pgx.ConnConfig
	beforeConnect func(context.Context, *pgx.ConnConfig) error
}

// Options says how connections are made.
type Options struct {
	Pooled   bool // a pooler in transaction mode stands between
	ReadOnly bool // a server that does not write will do
	// BeforeConnect is called before each connection, and may change its configuration. Nil means that there is none.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

// NewDialer returns the Dialer of the server that cfg names. Keep-alives detect a lost server or network within
// seconds.
func NewDialer(cfg *pgx.ConnConfig, opts Options) *Dialer {
	return &Dialer{configure(cfg, opts), opts.BeforeConnect}
}

// Config returns the configuration of the connections, without BeforeConnect. The caller does not change it.
func (d *Dialer) Config() *pgx.ConnConfig { return d.cfg }

func configure(cfg *pgx.ConnConfig, opts Options) *pgx.ConnConfig {
	cfg = cfg.Copy()
	dialer := &net.Dialer{Timeout: DialTime, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}
	cfg.DialFunc = dialer.DialContext
	cfg.ConnectTimeout = DialTime
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
	// A server that waits for a vanished client holds the locks meanwhile.
	cfg.RuntimeParams["tcp_keepalives_idle"], cfg.RuntimeParams["tcp_keepalives_interval"], cfg.RuntimeParams["tcp_keepalives_count"] = "5", "5", "3"
	cfg.RuntimeParams["tcp_user_timeout"] = "15000"
	return cfg
}

// Pool makes a pool of at most so many connections. After use it keeps the fit connections. If fit is nil, it keeps
// all.
func (d *Dialer) Pool(ctx context.Context, most int, fit func(*pgx.Conn) bool) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig = d.cfg.Copy()
	cfg.BeforeConnect = d.beforeConnect
	cfg.MaxConns, cfg.AfterRelease = int32(most), fit
	cfg.MaxConnIdleTime = time.Minute
	return pgxpool.NewWithConfig(ctx, cfg)
}

// Connect makes a connection. It checks neither the server nor the journal.
func (d *Dialer) Connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := d.cfg.Copy()
	if d.beforeConnect != nil {
		if err := d.beforeConnect(ctx, cfg); err != nil {
			return nil, fmt.Errorf("postgres: Options.BeforeConnect: %w", err)
		}
	}
	return pgx.ConnectConfig(ctx, cfg)
}
