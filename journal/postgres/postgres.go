package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres/internal/batching"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
	"github.com/onceward/onceward/journal/postgres/internal/dbclock"
	"github.com/onceward/onceward/journal/postgres/internal/fence"
	"github.com/onceward/onceward/journal/postgres/internal/fleet"
	"github.com/onceward/onceward/journal/postgres/internal/known"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// Options configures Open. Deployment is required. The zero value of every other field is the recommended one.
type Options struct {
	// Deployment names the deployment that owns the journal, such as "prod". The first Open records it, and Open
	// refuses any other with ErrDeployment. Otherwise a copy of production that is started as staging would send
	// production's operations. With ReadOnly or Existing it may be "", for any deployment.
	Deployment string

	// Schema is the journal's schema: a-z, 0-9 and _, at most 63 characters. Default: DefaultSchema.
	Schema string

	// Migrate makes Open migrate (see Migrate), for programs whose role may do so. Without it Open checks the version,
	// and says what to run.
	Migrate bool

	// Existing opens the journal of another service, running or not, for programs that change single operations or
	// flows, such as an operator's. It never migrates, claims a journal without a Deployment, joins (Join is refused),
	// ends dead sessions, or writes to a Witness. If Open detects a copy or a promoted server, it fails, and leaves
	// the service to record that. While it is open it has a row among the journal's sessions. The row fences and
	// identifies its commits, holds nothing, and is not counted.
	Existing bool

	// ReadOnly opens the journal for reading, whether its service runs or not. Get, List, GetFlow, ListFlows, FindBy,
	// ReadStats and Verify work. Every writing method returns ErrReadOnly. It implies Existing, and writes nothing,
	// not even a session's row. Each statement runs in a READ ONLY transaction, so a standby will do. The role needs
	// USAGE on the schema and SELECT on its tables and its sequence. A standby shows the journal as of its replay.
	// Options.Readers limits its connections. Unsafe, Durability, Lanes and Witness have no effect.
	ReadOnly bool

	// Pooled says that a pooler in transaction mode, such as PgBouncer, stands between. Onceward then uses no prepared
	// statements and no start parameters, at a cost for each statement. Beside a synchronous standby the pooler must
	// pass on notices. Otherwise Open fails with ErrUnsafe, and so does every write once commits wait for a standby.
	Pooled bool

	// Durability says what makes acknowledged commits durable. The zero value requires the settings of a durable
	// PostgreSQL server.
	Durability Durability

	// Failover says what to do after the server's timeline changed: a standby was promoted, or the database was
	// recovered to a point in time. If commits wait for no standby (synchronous_standby_names is empty), Open warns
	// once of the possible loss, unless this or Durability says otherwise.
	Failover Failover

	// Witness detects a state of the same timeline that was put back while no process was alive. Such states are a copy
	// of the storage, a base backup started as it is, and the data alone of a dump in emptied tables. The database itself
	// can't detect that. Nil means that there is none.
	Witness Witness

	// Unsafe accepts a server that may lose acknowledged commits (fsync off), and events of any time. It is for tests.
	Unsafe bool

	// Lanes limits the connections that commit for Apply concurrently. A further one is used only while as many events
	// wait as are being committed. Two overlap the work of the server and its clients, for some more of its CPU. That
	// pays off if the server is a millisecond or more away. Default: 1.
	Lanes int

	// Readers limits the connections for Get, List and other reads. Default: 4.
	Readers int

	// BeforeConnect is called before each connection and may change its configuration, such as for passwords that
	// expire.
	BeforeConnect func(ctx context.Context, cfg *pgx.ConnConfig) error

	// Committed receives every commit: how many requests it carried, and how long its transaction took. Several
	// goroutines may call it at once, and each waits for it, so it returns at once. Zero means that nothing is called.
	Committed func(requests int, took time.Duration)

	// Logger receives records for operators: lost connections, ended sessions, a missing standby. It never receives
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
	// FailoverUnknown goes on if every process that was alive still is, and finds its acknowledged commits. Otherwise
	// the journal counts as restored.
	FailoverUnknown Failover = iota
	// LosesNothing asserts that it has everything, since only a synchronous standby is ever promoted.
	LosesNothing
	// MayLose is FailoverUnknown without the warning of Open that commits wait for no standby.
	MayLose
)

// laneJournal is the engine that keeps rows in memory.
type laneJournal struct {
	opts   Options
	schema string // quoted
	sql    statements
	dialer *connection.Dialer
	pool   *pgxpool.Pool // for reads
	app    appPool
	lows   known.LowMarks
	fleet  *fleet.Fleet
	log    *slog.Logger
	pace   pace
	// The number of batches that use one row of a lane.
	rotateAfter int
	sweepPage   int
	claimScans  int
	readBytes   int
	commitTime  time.Duration

	background context.Context // ends with Close
	stop       context.CancelCauseFunc
	goroutines sync.WaitGroup
	closed     atomic.Bool
	inside     sync.RWMutex // held for reading during each call

	group    *group
	slow     chan *lane // the free ones
	handlers chan *lane
	held     known.Held

	clock    dbclock.Journal
	clockJob chan struct{} // held by the transaction that moves the clock
	sweeps   chan struct{} // held by the call that sweeps first

	left known.Leftovers

	locked  known.Locked
	refused known.Refused
	patient chan struct{} // callers that wait for a foreign lock: connections are left for others
}

var (
	_ journal.ClockResetter = (*laneJournal)(nil)
	_ journal.Clock         = (*laneJournal)(nil)
)

// slowLanes is the number of connections for transactions outside of batches. handlerLanes limits the concurrent
// handlers of DeliverTx. Each handler has its own connection, since it may take longer than others can wait.
const (
	slowLanes    = 4
	handlerLanes = 4
)

// rotateAfter is the default of Journal.rotateAfter. A lane's row has a version for each batch while an old snapshot is
// held, and the guard goes past all of them. So the lane gets another row now and then.
const rotateAfter = 10_000

// sweepPage is how many operations are swept at a time.
const sweepPage = 256

// claimScans is how many pending operations a claim of some providers goes through in one commit to find theirs.
const claimScans = 4096

func openLanes(ctx context.Context, dialer *connection.Dialer, schema string, opts Options) (*laneJournal, error) {
	j := &laneJournal{
		opts: opts, schema: schema, sql: newStatements(schema), log: opts.Logger, pace: cmp.Or(opts.pace, usualPace),
		dialer:      dialer,
		rotateAfter: rotateAfter, sweepPage: sweepPage, claimScans: claimScans, readBytes: batching.MaxBytes, commitTime: connection.CommitTime,
		slow: make(chan *lane, slowLanes), handlers: make(chan *lane, handlerLanes), patient: make(chan struct{}, slowLanes/2), clockJob: make(chan struct{}, 1), sweeps: make(chan struct{}, 1),
	}
	var err error
	if j.pool, err = j.dialer.Pool(ctx, cmp.Or(max(opts.Readers, 0), defaultReaders), nil); err != nil {
		return nil, explain("open", err)
	}
	j.background, j.stop = context.WithCancelCause(context.Background())
	j.fleet = fleet.New(j.fleetOptions())
	if err := j.start(ctx); err != nil {
		j.stop(err)
		j.goroutines.Wait()
		j.pool.Close()
		return nil, explain("open", err)
	}
	return j, nil
}

// start checks the database, registers this process, and starts its heartbeat.
func (j *laneJournal) start(ctx context.Context) error {
	conn, err := j.fleet.Dial(ctx, nil)
	if err != nil {
		return err
	}
	if j.opts.ReadOnly {
		return errors.Join(j.readTime(ctx, conn), conn.Close(ctx))
	}
	if _, err := j.fleet.Enroll(ctx, conn); err != nil {
		_ = conn.Close(ctx)
		return err
	}
	j.fleet.WarnOfLoss()
	if err := errors.Join(j.readClock(ctx, conn), j.fleet.HearWitness(ctx, conn)); err != nil {
		_ = conn.Close(ctx)
		return err
	}
	for i := range slowLanes {
		j.slow <- j.newLane(firstSlow + i)
	}
	for i := range handlerLanes {
		j.handlers <- j.newLane(firstSlow + slowLanes + i)
	}
	j.group = j.newGroup(max(j.opts.Lanes, 1))
	for i := range j.group.lanes {
		j.goroutines.Go(func() { j.group.run(i) })
	}
	j.goroutines.Go(func() { j.fleet.Run(conn) })
	return nil
}

// Close ends the process's sessions at once. Other processes claim their operations. It waits for running commits. If
// the server does not answer for five seconds, their result stays open. A handler of DeliverTx has its own time.
func (j *laneJournal) Close() error {
	if j.closed.Swap(true) {
		return journal.ErrClosed
	}
	// If the server does not answer, waiting callers are released.
	defer time.AfterFunc(j.pace.close, func() { j.stop(journal.ErrClosed) }).Stop()
	j.inside.Lock() // wait for running calls
	//lint:ignore SA2001 they are waited for, and nobody comes in any more
	j.inside.Unlock()
	_ = j.left.WaitForAll(j.background)
	j.fleet.Sessions.LoseAll()
	if j.opts.ReadOnly {
		j.stop(journal.ErrClosed)
		j.pool.Close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.pace.close)
	defer cancel()
	err := j.fleet.Resign(ctx)
	j.stop(journal.ErrClosed)
	j.goroutines.Wait()
	for range slowLanes {
		(<-j.slow).hangUp()
	}
	for range handlerLanes {
		(<-j.handlers).hangUp()
	}
	j.pool.Close()
	if err != nil {
		j.log.Warn("onceward: the sessions of a closed journal could not be ended; they expire by themselves", "error", explain("close", err))
	}
	return nil
}

// enter rejects calls after Close. An admitted caller calls leave.
func (j *laneJournal) enter(ctx context.Context) (leave func(), err error) {
	j.inside.RLock()
	if j.closed.Load() {
		err = journal.ErrClosed
	} else {
		err = ctx.Err()
	}
	if err != nil {
		j.inside.RUnlock()
		return nil, err
	}
	return j.inside.RUnlock, nil
}

// enterToWrite is enter for calls that change the journal. It returns ErrReadOnly if Options.ReadOnly is set.
func (j *laneJournal) enterToWrite(ctx context.Context) (leave func(), err error) {
	leave, err = j.enter(ctx)
	if err == nil && j.opts.ReadOnly {
		leave()
		return nil, ErrReadOnly
	}
	return leave, err
}

// defaultReaders is the default of Options.Readers.
const defaultReaders = 4

// statements holds the SQL texts for a schema.
type statements struct {
	find, findNamed, byHandle string
	rows                      batching.SQL
	fence                     fence.SQL
	receipts                  receiptStatements
}

func newStatements(s string) statements {
	in := func(sql string) string { return strings.ReplaceAll(sql, "{{schema}}", s) }
	return statements{
		rows:      batching.NewSQL(s),
		fence:     fence.NewSQL(s),
		receipts:  newReceiptStatements(in),
		find:      "(" + in(record.Find) + ")",
		findNamed: "(" + in(record.FindNamed) + ")",
		byHandle:  "SELECT 1 FROM " + s + ".operations WHERE handle = ",
	}
}

// Now returns this process's estimate of the database's clock. It never goes back. See journal.Clock.
func (j *laneJournal) Now() time.Time { return j.fleet.Time.Now() }

// aheadOf is how far a caller's clock may be ahead of the database's.
const aheadOf = time.Minute

// checkTime rejects a time ahead of the database's clock, which would become the latest time for all processes.
func (j *laneJournal) checkTime(at time.Time) error {
	if j.opts.Unsafe {
		return nil
	}
	if lead := at.Sub(j.fleet.Time.Now()); lead > aheadOf {
		return fmt.Errorf("postgres: %w by %s: stamp events by Now, or set the clock right", ErrClockAhead, lead.Round(time.Second))
	}
	return nil
}
