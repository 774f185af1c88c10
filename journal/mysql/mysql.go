package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/fleet"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/myerr"
	"github.com/onceward/onceward/journal/mysql/internal/rows"
	"github.com/onceward/onceward/journal/mysql/internal/schema"
	"github.com/onceward/onceward/journal/mysql/internal/server"
	"github.com/onceward/onceward/seal"
)

// Options configures Open. Deployment is required. The zero value of every other field is the recommended one.
type Options struct {
	// Deployment names the journal's owner, such as "prod". The first Open records the name, and Open refuses any other
	// name with ErrDeployment. With ReadOnly or Existing the name may be "", for any deployment.
	Deployment string

	// Schema is the journal's own database: a-z, 0-9 and _, at most 63 characters. Default: DefaultSchema.
	Schema string

	// Migrate makes Open migrate (see Migrate), for programs with the right to do so. Without Migrate, Open checks the
	// version, and says what to run.
	Migrate bool

	// Existing opens another service's journal, running or not, for programs which change single operations or flows.
	// Such a Journal never migrates, claims a journal without a Deployment, joins, ends dead sessions, or writes to a
	// Witness.
	Existing bool

	// ReadOnly opens the journal for reading. Every writing method returns ErrReadOnly. ReadOnly implies Existing. A
	// replica will do, and shows the journal at the replica's position.
	ReadOnly bool

	// Durability says what makes acknowledged commits durable. The zero value requires the settings of a durable server.
	Durability Durability

	// Failover says what another server with the journal has of the acknowledged commits.
	Failover Failover

	// Witness detects an earlier state that was put back while no process was alive. The database itself can't detect
	// such a state. Nil means no Witness.
	Witness Witness

	// Seal seals the payloads: requests, answers, fingerprints, flows' inputs and steps' results. A journal that was
	// sealed once opens only with one of its keys. Otherwise Open returns journal.ErrSealed, which names the key. ReadOnly
	// and Existing open without keys. Nil means that payloads are in clear.
	Seal *seal.Ring

	// Unsafe accepts a server which may lose acknowledged commits, and events with any time. For tests only.
	Unsafe bool

	// Readers limits the connections for Get, List and other reads. Default: 4.
	Readers int

	// Committed receives every commit: the number of requests, and the transaction's duration. Several goroutines may
	// call Committed at once, and each waits, so return at once. Nil means no call.
	Committed func(requests int, took time.Duration)

	// Logger receives records for operators: lost connections and ended sessions. Logger never receives names, bodies or
	// parameters. Default: slog.Default().
	Logger *slog.Logger

	pace    leased.Pace   // tests change it. Zero means leased.UsualPace
	handler time.Duration // likewise: the time of DeliverTx's function. Zero means handlerTime
}

// Durability says what makes acknowledged commits durable.
type Durability uint8

const (
	// ServersDisk means the server's own disk, so innodb_flush_log_at_trx_commit must be 1, and sync_binlog too if there is
	// a binary log.
	ServersDisk Durability = iota
	// Provider means the cloud provider's storage, whatever these two settings are, as with Amazon Aurora.
	Provider
)

// Failover says what another server with the journal has of the acknowledged commits.
type Failover uint8

const (
	// FailoverUnknown has the journal count as restored if MySQL's server_uuid changes. MariaDB has no such identity.
	FailoverUnknown Failover = iota
	// LosesNothing asserts that a promoted server has everything. A live process still checks its own commits there.
	LosesNothing
)

// Witness keeps a number outside the database. See journal.Witness.
type Witness = journal.Witness

// WitnessFile is a Witness in a file. See journal.WitnessFile.
type WitnessFile = journal.WitnessFile

var (
	// ErrUnsafe means that the server's settings lose acknowledged commits, or do not suit a journal. The error names the
	// setting, and says what to set.
	ErrUnsafe = server.ErrUnsafe
	// ErrDeployment means that the journal belongs to another deployment, as in production's copy started as staging.
	ErrDeployment = rows.ErrDeployment
	// ErrReadOnly means that the journal was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("mysql: opened read-only; open it without Options.ReadOnly")
	// ErrClockAhead: the caller's clock is more than a minute ahead of the server's. Stamp events by Now.
	ErrClockAhead = rowstore.ErrClockAhead
)

// Error is the server's error, without parts that may hold secrets or personal data. Error wraps nothing.
type Error = myerr.Error

// errDSN gives no details, since the DSN may hold a password.
var errDSN = errors.New("mysql: the DSN can't be parsed: write user:password@tcp(host:port)/database")

// DefaultSchema is the journal's database if Options names none.
const DefaultSchema = schema.Default

// Migrations returns Migrate's SQL files for your own migration tool. Run the files in the order of their names. In the files,
// {{s}} stands for the database's quoted name. The files create neither the database nor the rows which each journal has, so
// call Migrate after them.
func Migrations() fs.FS { return schema.Migrations() }

// Migrate makes a journal in a database, or migrates a journal to this release. An empty schema means DefaultSchema.
// Several processes may call Migrate at once: one migrates. Migrate needs an account with the right to create the database
// and tables. After an error call Migrate again: finished statements stay. Migrate returns ErrUnsafe, and changes nothing, for a
// database without a journal that has a table by a name of the journal's.
func Migrate(ctx context.Context, dsn, name string) error {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return errDSN
	}
	return myerr.Explain(schema.Migrate(ctx, cfg, name))
}

// Journal is a journal in MySQL or MariaDB, shared by several processes. Open makes a Journal. The methods are safe for
// concurrent use.
type Journal struct {
	store
	driver *rows.Driver
	opts   Options
}

// store has the methods of a journal on rows. Their errors are explained by the driver.
type store interface {
	machine.Store
	machine.ClockResetter
	machine.HookKeeper
	machine.LocalFlows
	machine.Outbox
	machine.Receipts
	machine.Reconciler
	journal.StatsReader
	journal.Bookmarks
	journal.ReceiptCounter
	SealStatus(ctx context.Context) (journal.SealStatus, error)
	Adopt(ctx context.Context) error
	Verify(ctx context.Context) ([]journal.Violation, error)
}

var (
	_ machine.Clock   = (*Journal)(nil)
	_ machine.Expirer = (*Journal)(nil)
)

// Open opens the journal on the DSN's server. Open dials its own connections: one for the heartbeat, at most ten for commits,
// six for single statements, four for BeginTx, four for handlers of DeliverTx (Outcomes.HandleTx), and Options.Readers. The
// caller closes the Journal.
//
// A restored or copied journal opens, and sends nothing until the journal is adopted: see Adopt.
//
// Errors say what to do. errors.Is finds journal.ErrVersion, ErrUnsafe and ErrDeployment. errors.As finds *Error.
func Open(ctx context.Context, dsn string, opts Options) (*Journal, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errDSN
	}
	opts.Existing = opts.Existing || opts.ReadOnly
	if opts.Deployment == "" && !opts.Existing {
		return nil, errors.New("mysql: Options.Deployment is needed: the name of the deployment whose journal it is, such as \"prod\"")
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Migrate && !opts.Existing {
		if err := schema.Migrate(ctx, cfg, opts.Schema); err != nil {
			return nil, myerr.Explain(err)
		}
	}
	d, err := rows.Open(ctx, cfg, rows.Options{
		Options: fleet.Options{
			Log: opts.Logger, Pace: opts.pace, Deployment: opts.Deployment, ReadOnly: opts.ReadOnly, Existing: opts.Existing, Movable: opts.Failover == LosesNothing, Witness: opts.Witness,
			AnyTime: opts.Unsafe,
		},
		Schema: opts.Schema, Durable: opts.Durability == ServersDisk && !opts.Unsafe, Readers: max(opts.Readers, 0),
	})
	if err != nil {
		return nil, myerr.Explain(err)
	}
	j := &Journal{driver: d, opts: opts}
	if opts.ReadOnly {
		j.store, err = rowstore.OpenToRead(ctx, d, opts.Seal, ErrReadOnly)
	} else {
		j.store, err = rowstore.Open(ctx, d, rowstore.Options{Logger: opts.Logger, Committed: opts.Committed, Seal: opts.Seal, Existing: opts.Existing})
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return j, nil
}

// Now returns this process's estimate of the server's clock. The estimate never goes back. See machine.Clock.
func (j *Journal) Now() time.Time { return j.driver.Clock() }

// AwaitExpired waits, 24 seconds at most, while another process's expired session holds operations or flows. See
// machine.Expirer.
func (j *Journal) AwaitExpired(ctx context.Context) error { return j.driver.AwaitExpired(ctx) }

// handlerTime is how long DeliverTx waits for its function.
const handlerTime = 25 * time.Second

// errSlowHandler says what to do about a slow handler. Otherwise each retry of the delivery would end the same way.
var errSlowHandler = errors.New("mysql: deliver: the handler took longer than 25 seconds, and nothing is recorded: let it only write, and do slow work elsewhere")

// DeliverTx applies ev, of kind EventDeliver, and calls f to write in the same transaction, by a Tx whose Driver is a
// *sql.Tx. The connection ends with the transaction, and so do the session's settings. After 25 seconds f's context ends, the
// server ends f's statement, and nothing is recorded. Four handlers run at a time, and delay only each other. Until f has returned, the operation's other
// callers wait. Close waits some seconds for f.
func (j *Journal) DeliverTx(ctx context.Context, ev machine.Event, f func(context.Context, journal.Tx) error) (machine.Result, error) {
	return j.store.DeliverTx(ctx, ev, func(ctx context.Context, tx journal.Tx) error {
		ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(j.opts.handler, handlerTime), errSlowHandler)
		defer cancel()
		stop := context.AfterFunc(ctx, func() { j.driver.End(tx) })
		err := f(ctx, tx)
		stop()
		if over := ctx.Err(); over != nil && (err == nil || errors.Is(err, over)) {
			err = context.Cause(ctx)
		}
		return err
	})
}

// Confirm ends the restored state without changing an operation: after a planned move, or a failover without loss. The caller
// asserts that nothing was lost, and that no other copy is, or will be, in use. Confirm ends all sessions. If the journal does
// not count as restored, Confirm does nothing.
func (j *Journal) Confirm(ctx context.Context) error {
	if j.opts.ReadOnly {
		return ErrReadOnly
	}
	return j.driver.Confirm(ctx)
}

// SQL makes a journal.Tx from the application's transaction on the journal's server, for Client.Enqueue, a flow's local step,
// and Journal.EnqueueTx. The Driver is tx.
func SQL(tx *sql.Tx) journal.Tx { return rows.FromSQL(tx) }

// Begin returns a function for server.Options.Begin and consume.Options.Begin, which begins transactions in db, by opts. Nil
// opts mean the server's default isolation level. A transaction's Driver is a *sql.Tx.
func Begin(db *sql.DB, opts *sql.TxOptions) func(context.Context) (journal.Tx, error) {
	return func(ctx context.Context) (journal.Tx, error) {
		tx, err := db.BeginTx(ctx, opts)
		if err != nil {
			return nil, myerr.Explain(err)
		}
		return SQL(tx), nil
	}
}
