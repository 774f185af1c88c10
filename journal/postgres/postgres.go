package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/rows"
	"github.com/onceward/onceward/journal/postgres/internal/server"
	"github.com/onceward/onceward/seal"
)

// Options configures Open. Deployment is required. The zero value of every other field is the recommended one.
type Options struct {
	// Deployment names the journal's owner, such as "prod". The first Open records the name, and Open refuses any other
	// name with ErrDeployment. Otherwise production's copy, started as staging, would send production's operations. With
	// ReadOnly or Existing the name may be "", for any deployment.
	Deployment string

	// Schema is the journal's schema: a-z, 0-9 and _, at most 63 characters. Default: DefaultSchema.
	Schema string

	// Migrate makes Open migrate (see Migrate), for programs with the right to do so. Without Migrate, Open checks the
	// version, and says what to run.
	Migrate bool

	// Existing opens another service's journal, running or not, for programs which change single operations or flows,
	// such as an operator's. Such a Journal never migrates, claims a journal without a Deployment, joins (Join is
	// refused), ends dead sessions, or writes to a Witness. If Open detects a copy or a promoted server, Open fails, and
	// leaves the record to the service. The open Journal has a row among the journal's sessions. The row fences and
	// identifies the Journal's commits, holds nothing, and is not counted.
	Existing bool

	// ReadOnly opens the journal for reading, whether the service runs or not. Get, List, GetFlow, ListFlows, FindBy,
	// Bookmark, ListBookmarks, ReadStats and Verify work. Every writing method returns ErrReadOnly. ReadOnly implies
	// Existing, and writes nothing, not even a session's row. Each statement runs in a READ ONLY transaction, so a standby
	// will do. The role needs USAGE on the schema and SELECT on the tables and the sequence. A standby shows the journal
	// at the standby's replay. Options.Readers limits the connections. Unsafe, Durability and Witness have no effect.
	ReadOnly bool

	// Pooled says that a pooler in transaction mode, such as PgBouncer, stands between. Onceward then uses no prepared
	// statements and no start parameters, at a cost for each statement.
	Pooled bool

	// Durability says what makes acknowledged commits durable. The zero value requires the settings of a durable
	// PostgreSQL server.
	Durability Durability

	// Failover says what to do after the server's timeline changed: a standby was promoted, or the database was
	// recovered to a point in time. If commits wait for no standby (synchronous_standby_names is empty), Open warns
	// once about the possible loss, unless Failover or Durability says otherwise.
	Failover Failover

	// Witness detects an earlier state of the same timeline, put back while no process was alive. Such states are a copy
	// of the storage, a base backup started without recovery, and a dump's data alone in emptied tables. The database
	// itself can't detect such a state. Nil means no Witness.
	Witness Witness

	// Seal seals the payloads: requests, answers, fingerprints, flows' inputs and steps' results. Names, keys, hosts,
	// states, times and sizes stay in clear. A sealed journal opens only with one of its keys. Otherwise Open returns
	// journal.ErrSealed, which names the key. ReadOnly and Existing open without keys. A journal that was in clear
	// before opens with what Ring.ReadClear returns. Nil means that payloads are in clear.
	Seal *seal.Ring

	// Unsafe accepts a server which may lose acknowledged commits (fsync off), and events with any time. For tests only.
	Unsafe bool

	// Readers limits the connections for Get, List and other reads. Default: 4.
	Readers int

	// BeforeConnect is called before each connection and may change the connection's configuration, such as for expiring
	// passwords.
	BeforeConnect func(ctx context.Context, cfg *pgx.ConnConfig) error

	// Committed receives every commit: the number of requests, and the transaction's duration. Several goroutines may
	// call Committed at once, and each waits, so return at once. Nil means no call.
	Committed func(requests int, took time.Duration)

	// Logger receives records for operators: lost connections, ended sessions, a missing standby. Logger never receives
	// names, bodies or parameters. Default: slog.Default().
	Logger *slog.Logger

	pace pace // tests shorten it. Zero means usualPace.
}

// Durability says what makes acknowledged commits durable.
type Durability uint8

const (
	// ServersDisk means the server's own disk, so fsync and full_page_writes must be on.
	ServersDisk Durability = iota
	// Provider means the cloud provider's storage, whatever these two settings are, as with Amazon Aurora or AlloyDB.
	Provider
)

// Failover says what a promoted standby has of the acknowledged commits.
type Failover uint8

const (
	// FailoverUnknown goes on if every process which was alive still is, and finds its acknowledged commits. Otherwise
	// the journal counts as restored.
	FailoverUnknown Failover = iota
	// LosesNothing asserts that the standby has everything, since only a synchronous standby is ever promoted.
	LosesNothing
	// MayLose is FailoverUnknown without Open's warning about commits without a standby.
	MayLose
)

// Witness keeps a number outside the database. See journal.Witness.
type Witness = journal.Witness

// WitnessFile is a Witness in a file. See journal.WitnessFile.
type WitnessFile = journal.WitnessFile

// pace is how leases are renewed, and how long others may take.
type pace struct {
	leased.Pace
	testify time.Duration // between two reports to the witness
	close   time.Duration // how long Close waits for the server: once for commits under way, and once to end the sessions
	handler time.Duration // of DeliverTx
	commit  time.Duration // of a transaction, with all its waits. Zero means 30 s
}

var usualPace = pace{Pace: leased.UsualPace, testify: 10 * time.Second, close: 5 * time.Second, handler: 25 * time.Second}

// Open opens the journal in connString's database, a URL or list of keywords as for libpq. Open dials its own
// connections: one for the heartbeat, at most ten for commits, at most four for BeginTx, four for handlers of
// DeliverTx (Outcomes.HandleTx), and Options.Readers. The caller closes the Journal.
//
// A restored or copied journal opens, and sends nothing until the journal is adopted: see Adopt.
//
// Errors say what to do. errors.Is finds journal.ErrVersion, ErrUnsafe and ErrDeployment. errors.As finds *Error.
func Open(ctx context.Context, connString string, opts Options) (*Journal, error) {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, errConnString
	}
	return open(ctx, cfg, opts)
}

// OpenPool is Open with the application's pool's configuration, including BeforeConnect. OpenPool uses none of the pool's
// connections, so an exhausted pool stops no heartbeat.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, opts Options) (*Journal, error) {
	cfg := pool.Config()
	if opts.BeforeConnect == nil {
		opts.BeforeConnect = cfg.BeforeConnect
	}
	return open(ctx, cfg.ConnConfig, opts)
}

func open(ctx context.Context, cfg *pgx.ConnConfig, opts Options) (*Journal, error) {
	opts.Existing = opts.Existing || opts.ReadOnly
	if opts.Deployment == "" && !opts.Existing {
		return nil, errors.New("postgres: Options.Deployment is needed: the name of the deployment whose journal it is, such as \"prod\"")
	}
	opts.Logger, opts.pace = cmp.Or(opts.Logger, slog.Default()), cmp.Or(opts.pace, usualPace)
	if opts.Migrate && !opts.Existing {
		if err := migrate(ctx, cfg, opts.Schema, opts.Logger, Migrations()); err != nil {
			return nil, err
		}
	}
	d, err := rows.Open(ctx, cfg, rows.Options{
		Options: server.Options{
			Options: fleet.Options{
				Log: opts.Logger, Pace: opts.pace.Pace, Testify: opts.pace.testify, Patience: opts.pace.close, Time: opts.pace.commit, Deployment: opts.Deployment, ReadOnly: opts.ReadOnly, Existing: opts.Existing, Witness: opts.Witness,
				AnyTime: opts.Unsafe,
			},
			Pooled: opts.Pooled, Durable: opts.Durability == ServersDisk && !opts.Unsafe, Promotable: opts.Failover == LosesNothing, MayLose: opts.Failover == MayLose,
		},
		Schema: opts.Schema, BeforeConnect: opts.BeforeConnect, Readers: max(opts.Readers, 0),
	})
	if err != nil {
		return nil, explain("open", err)
	}
	j := &Journal{driver: d, opts: opts}
	if opts.ReadOnly {
		j.store, err = rowstore.OpenToRead(ctx, d, opts.Seal, ErrReadOnly)
	} else {
		j.store, err = rowstore.Open(ctx, d, rowstore.Options{Logger: opts.Logger, Committed: opts.Committed, Seal: opts.Seal, Existing: opts.Existing})
	}
	if err != nil {
		_ = d.Close()
		return nil, explain("open", err)
	}
	return j, nil
}
