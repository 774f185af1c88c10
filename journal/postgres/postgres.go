package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// Options say how a journal is opened. Deployment has to be set; for the rest, the zero value is what is recommended.
type Options struct {
	// Deployment names whose journal it is, such as "prod". The first Open writes it down, and any other is refused
	// with ErrDeployment: a copy of production that is started as staging would send what production is to send. With
	// ReadOnly or Existing it may be "", for whichever it is.
	Deployment string

	// Schema is the one that the journal lies in, "" for DefaultSchema: a-z, 0-9 and _, at most 63 characters.
	Schema string

	// Migrate has Open migrate (see Migrate), for programs whose role may do so. Else it checks, and says what to run.
	Migrate bool

	// Existing opens the journal of somebody else's service, running or not, for programs that change single operations or
	// flows in it, such as an operator's. It never migrates, claims a journal that nobody has opened for a
	// Deployment, joins (Join is refused), buries the dead, or tells a Witness. What Open finds of a copy or
	// a promoted server it refuses by, and leaves to the service to write down. While it is open it has a row among the
	// journal's sessions, by which its commits are fenced and found out as any other's, and which holds nothing and is
	// counted nowhere.
	Existing bool

	// ReadOnly opens the journal for programs that look at it while its service runs, or does not: Get, List, GetFlow,
	// ListFlows, FindBy, ReadStats and Verify work, and everything that writes returns ErrReadOnly. It implies Existing. Nothing is
	// written, not even a session's row: each statement runs in a transaction that is READ ONLY, so that a standby will do, and a role
	// with USAGE on the schema and SELECT on its tables and its sequence. A standby shows the journal as of what it has replayed.
	// Options.Readers bounds its connections; Unsafe, Durability, Lanes and Witness are without effect.
	ReadOnly bool

	// Pooled says that a pooler in transaction mode, such as PgBouncer, stands between. Then no prepared
	// statements and no parameters at start are used, at a cost for each statement. Beside a synchronous standby the
	// pooler has to pass on notices, else Open fails with ErrUnsafe, and so does what is recorded once commits wait for one.
	Pooled bool

	// Durability says who keeps what the server acknowledges. The zero value asks for the settings by which PostgreSQL
	// does.
	Durability Durability

	// Failover says what is done where the server's timeline is another than before: a standby was promoted, or a point
	// in time recovered to. Where commits wait for no standby (synchronous_standby_names is empty), Open warns of what a failover loses,
	// once, unless this or Durability says otherwise.
	Failover Failover

	// Witness tells of a copy of the database's storage that was put back while no process was alive, which the
	// database itself can't. nil: there is none.
	Witness Witness

	// Unsafe accepts a server that may lose what it acknowledged (fsync off), and events of any time. It is for
	// tests.
	Unsafe bool

	// Lanes is how many connections at most commit for Apply side by side: each after the first only while as many wait
	// as are being committed. 0: one. Two overlap what the server does with what its clients do, for some more of its
	// CPU, which is worth it where it is a millisecond or more away.
	Lanes int

	// Readers bounds the connections for Get, List and the like. 0: 4.
	Readers int

	// BeforeConnect is called before each connection, which it may change: for passwords that expire. nil: nothing is.
	BeforeConnect func(ctx context.Context, cfg *pgx.ConnConfig) error

	// Archive is written what Reap is about to shrink or remove, nil: nothing. It gets whole lines, each a JSON object of one
	// operation (journal.Archived; RFC 8259, JSON lines) with its times, its request and its answer; credentials are in none of
	// them, since the journal has none. Write is called by one goroutine at a time, and then Flush() error and Sync()
	// error, where the writer has them, before the commit in which the operations go. Where one of them fails, so does Reap, and nothing
	// goes. What was being written then, or in a crash, may be a torn line: the next one begins on a line of its own.
	// An operation may be in it twice, after a crash for instance, or though it was kept in the end. Each process has its own: what
	// it reaps is in it. The caller closes it, after the Journal.
	Archive io.Writer
	// ArchiveBodies has the bodies in it too, in base64.
	ArchiveBodies bool

	// Committed receives every commit: how many requests it carried, and how long its transaction took. Several
	// goroutines may call it at once, and each waits for it, so it returns at once. Zero means that nothing is called.
	Committed func(requests int, took time.Duration)

	// Logger is told of what somebody ought to know of: lost connections, sessions that were buried, a standby that is
	// missing. Never of names, bodies or parameters. nil: slog.Default().
	Logger *slog.Logger

	pace pace // tests shorten it. Zero means usualPace.
}

// Durability says who keeps what the server acknowledges.
type Durability uint8

const (
	// ServersDisk: the server's own disk does, so that fsync and full_page_writes have to be on.
	ServersDisk Durability = iota
	// Provider: the provider's storage does, whatever these two say, as with Amazon Aurora or AlloyDB.
	Provider
)

// Failover says what a promoted standby has of what was acknowledged.
type Failover uint8

const (
	// FailoverUnknown: it goes on where every process that was alive is there still, and finds what it was told; else the
	// journal counts as restored.
	FailoverUnknown Failover = iota
	// LosesNothing asserts that it has everything, as where nothing but a synchronous standby is ever promoted.
	LosesNothing
	// MayLose is FailoverUnknown, where it is known that commits wait for no standby: Open doesn't warn of that.
	MayLose
)

// Journal is a journal in PostgreSQL, shared by all processes that open it. Open makes one. Its methods are safe for
// concurrent use.
type Journal struct {
	opts   Options
	schema string // quoted
	sql    statements
	cfg    *pgx.ConnConfig
	pool   *pgxpool.Pool // for reads
	app    appPool
	lows   lowMarks
	id     atomic.Pointer[string] // of the journal
	log    *slog.Logger
	pace   pace
	// What is reaped is written there; nil: nowhere.
	archive *store.Archive
	// How many batches a lane's row is used for.
	rotateAfter int
	sweepPage   int
	claimScans  int
	readBytes   int
	commitTime  time.Duration

	background context.Context // ends with Close
	stop       context.CancelCauseFunc
	goroutines sync.WaitGroup
	closed     atomic.Bool
	inside     sync.RWMutex // held for reading while something is asked

	group    *group
	slow     chan *lane // those that are free
	handlers chan *lane
	held     held

	enrolling sync.Mutex
	member    atomic.Pointer[member]

	mu       sync.Mutex
	sessions map[string]*session // neither ended nor lost

	clockMu  sync.Mutex
	clock    store.Clock
	resets   int           // of the clock that are known of
	clockJob chan struct{} // held by the transaction that changes where the clock stands
	sweeps   chan struct{} // held by the call that sweeps before it does

	time     dbClock
	restored atomic.Pointer[restoration] // nil: it is not
	adoption adoption
	timeline atomic.Pointer[string]    // of the server, when it was seen last
	started  atomic.Pointer[time.Time] // the server that was looked at, by when it was; nil: it can't tell
	memory   memory
	left     leftovers

	outdated atomic.Bool // later releases alone write to it

	granted atomic.Bool // what the role needs was looked for
	awaited atomic.Bool // commits wait for a standby

	acknowledged acknowledgements
	locked       lockedNames
	refused      refusedClaims
	patient      chan struct{} // who waits for somebody else's lock: connections are left for others
	observed     observer
}

var (
	_ journal.ClockResetter = (*Journal)(nil)
	_ journal.Clock         = (*Journal)(nil)
)

// slowLanes is how many connections there are for what is not committed in batches, and handlerLanes how many handlers of
// DeliverTx run at a time, each on one of its own: it may take longer than others can wait.
const (
	slowLanes    = 4
	handlerLanes = 4
)

// Open opens the journal in the database that connString names, a URL or list of keywords as libpq has them. It dials
// connections of its own: one for the heartbeat, one for each lane, some for what needs a transaction by itself, four at most
// for handlers of DeliverTx, and Options.Readers. The caller closes the Journal.
//
// A journal that was restored or copied opens, and sends nothing until it is adopted: see Adopt.
//
// Errors say what to do. Found by errors.Is: journal.ErrVersion, ErrUnsafe, ErrDeployment; by errors.As: *Error.
func Open(ctx context.Context, connString string, opts Options) (*Journal, error) {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return nil, errConnString
	}
	return open(ctx, cfg, opts)
}

// OpenPool is Open with the configuration of a pool of the application's, BeforeConnect included. None of the pool's
// connections is used, so that one that is exhausted stops nobody's heart.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, opts Options) (*Journal, error) {
	cfg := pool.Config()
	if opts.BeforeConnect == nil {
		opts.BeforeConnect = cfg.BeforeConnect
	}
	return open(ctx, cfg.ConnConfig, opts)
}

func open(ctx context.Context, cfg *pgx.ConnConfig, opts Options) (*Journal, error) {
	if opts.ReadOnly {
		opts.Existing = true
	}
	if opts.Deployment == "" && !opts.Existing {
		return nil, errors.New("postgres: Options.Deployment is needed: the name of the deployment whose journal it is, such as \"prod\"")
	}
	schema, err := quoted(opts.Schema)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	j := &Journal{
		opts: opts, schema: schema, sql: newStatements(schema), cfg: configure(cfg, opts), log: opts.Logger, pace: cmp.Or(opts.pace, usualPace), rotateAfter: rotateAfter, sweepPage: sweepPage, claimScans: claimScans, readBytes: maxBatchBytes, commitTime: commitTime,
		slow: make(chan *lane, slowLanes), handlers: make(chan *lane, handlerLanes), patient: make(chan struct{}, slowLanes/2), sessions: make(map[string]*session), clockJob: make(chan struct{}, 1), sweeps: make(chan struct{}, 1),
	}
	if opts.Archive != nil {
		j.archive = store.NewArchive(opts.Archive, opts.ArchiveBodies)
	}
	if opts.Migrate && !opts.Existing {
		if err := migrate(ctx, j.cfg, opts.Schema, j.log, Migrations()); err != nil {
			return nil, err
		}
	}
	if j.pool, err = j.newPool(ctx, cmp.Or(max(opts.Readers, 0), defaultReaders), nil); err != nil {
		return nil, explain("open", err)
	}
	j.background, j.stop = context.WithCancelCause(context.Background())
	if err := j.start(ctx); err != nil {
		j.stop(err)
		j.goroutines.Wait()
		j.pool.Close()
		return nil, explain("open", err)
	}
	return j, nil
}

// start checks the database, enrols this process, and has its heart beat.
func (j *Journal) start(ctx context.Context) error {
	conn, err := j.dial(ctx, nil)
	if err != nil {
		return err
	}
	if j.opts.ReadOnly {
		return errors.Join(j.readTime(ctx, conn), conn.Close(ctx))
	}
	if _, err := j.enroll(ctx, conn); err != nil {
		_ = conn.Close(ctx)
		return err
	}
	j.warnOfLoss()
	if err := errors.Join(j.readClock(ctx, conn), j.hearWitness(ctx, conn)); err != nil {
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
	j.goroutines.Go(func() { j.beat(conn) })
	return nil
}

// newSessionID returns 128 random bits or more.
func newSessionID() string { return rand.Text() }

// Close ends the process's sessions as its death would, but at once: what they hold is left for others. It waits for
// what is being committed, for five seconds where the server does not answer: then what became of it stays open. A handler
// of DeliverTx has its own time.
func (j *Journal) Close() error {
	if j.closed.Swap(true) {
		return journal.ErrClosed
	}
	// Where the server does not answer, nobody who waits for it is waited for any longer.
	defer time.AfterFunc(j.pace.close, func() { j.stop(journal.ErrClosed) }).Stop()
	j.inside.Lock() // for those who are inside
	//lint:ignore SA2001 they are waited for, and nobody comes in any more
	j.inside.Unlock()
	_ = j.left.waitForAll(j.background)
	j.mu.Lock()
	for _, s := range j.sessions {
		s.lost.Store(true)
	}
	clear(j.sessions)
	j.mu.Unlock()
	if j.opts.ReadOnly {
		j.stop(journal.ErrClosed)
		j.pool.Close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.pace.close)
	defer cancel()
	err := j.resign(ctx)
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
		j.log.Warn("onceward: the sessions of a journal that was closed are left to expire", "error", explain("close", err))
	}
	return nil
}

// enter refuses whoever comes after Close. Who is let in calls leave.
func (j *Journal) enter(ctx context.Context) (leave func(), err error) {
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

// defaultReaders is Options.Readers where that is not set.
const defaultReaders = 4

// statements are the SQL texts of a schema.
type statements struct {
	settings, indexSettings, togetherSettings, togetherPlans, guard, guardBlindly, resolve, addLane, insert, insertMarked, update, updateMarked, lockObject, answer, rotate, find, findNamed, byHandle string
	insertNew, insertNamed, followRows                                                                                                                                                                 string
}

func newStatements(s string) statements {
	update := "UPDATE " + s + ".operations SET provider = $4, state = $5, holder = $6, wake_at = $7, settled_at = $8, delivered = $9, tombstone = $10, facts = $11, alias = $12, " +
		"revision = revision + 1 WHERE handle = $1 AND revision = $2 AND identity IS NOT DISTINCT FROM $3 RETURNING handle"
	in := func(sql string) string { return strings.ReplaceAll(sql, "{{schema}}", s) }
	settings := soundCommit + ", set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true), " +
		// A handler of DeliverTx has its time (pace.handler), whatever the role's is.
		"set_config('idle_in_transaction_session_timeout', '60s', true), " +
		// From PostgreSQL 17 on, a client that is cut off amid its statements does not hold up others for ever.
		"CASE WHEN current_setting('server_version_num')::int >= 170000 THEN set_config('transaction_timeout', '60s', true) END"
	const (
		byIndex = "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"
		// One plan for each, however many rows there are: to make it anew would take longer than to run it. And the table of
		// which it was made is soon much larger.
		together = "set_config('plan_cache_mode', 'force_generic_plan', true), " + byIndex +
			", set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true)"
	)
	guard := "WITH g AS (UPDATE " + s + ".lanes SET batch = $3, last_at = greatest(last_at, $6), " +
		"least_margin = CASE WHEN $7::bigint = 0 THEN least_margin WHEN least_margin = 0 THEN $7 ELSE least(least_margin, $7) END " +
		"WHERE process = $1 AND lane = $2 AND batch = $3 - 1 AND tenure = $4 AND {{place}} " +
		"AND EXISTS (SELECT 1 FROM " + s + ".sessions WHERE id = $1 AND epoch = $5 AND buried_at IS NULL) " +
		"AND (SELECT count(*) FROM " + s + ".sessions WHERE id = ANY($8) AND epoch = $5 AND buried_at IS NULL AND expires_at > clock_timestamp()) = pg_catalog.cardinality($8) " +
		// Who is to wait for a standby from now on looks first whether he is told that he did not.
		"AND ($11 OR coalesce(current_setting('synchronous_standby_names', true), '') = '') " +
		"AND " + soundSettings("$9") + " RETURNING 1) SELECT 1 / count(*), clock_timestamp() FROM g"
	return statements{
		settings: settings, indexSettings: settings + ", " + byIndex,
		togetherSettings: settings + ", " + together, togetherPlans: "SELECT " + together,
		insertNew: in(insertNew), insertNamed: in(insertNamed), followRows: in(followRows),
		guard: strings.Replace(guard, "{{place}}", serverStart+" = $10::timestamptz", 1),
		// Where the server can't tell, with each beat alone it is looked whether it is what it was.
		guardBlindly: strings.Replace(guard, "{{place}}", "$10::timestamptz IS NULL", 1),
		resolve:      "UPDATE " + s + ".lanes SET tenure = tenure + 1 WHERE process = $1 AND lane = $2 RETURNING batch, tenure",
		addLane:      "INSERT INTO " + s + ".lanes (process, lane) VALUES ($1, $2) ON CONFLICT (process, lane) DO UPDATE SET tenure = lanes.tenure + 1 RETURNING batch, tenure",
		insert: "WITH o AS (INSERT INTO " + s + ".operations (identity, alias, scope, parent, id, naming, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts) " +
			"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING RETURNING handle) " +
			"INSERT INTO " + s + ".requests (handle, head, body) SELECT handle, $15::bytea, $16::bytea FROM o RETURNING handle",
		insertMarked: "WITH o AS (INSERT INTO " + s + ".operations (identity, alias, scope, parent, id, naming, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts) " +
			"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING RETURNING handle), " +
			"m AS (INSERT INTO " + s + ".marks (hash, handle) SELECT pg_catalog.unnest($17::bigint[]), handle FROM o ON CONFLICT DO NOTHING) " +
			"INSERT INTO " + s + ".requests (handle, head, body) SELECT handle, $15::bytea, $16::bytea FROM o RETURNING handle",
		update: update,
		// An object of $17, if any, must not be that of another operation: who asks for it is in line (lockObject).
		updateMarked: "WITH o AS (" + strings.Replace(update, " RETURNING", " AND NOT EXISTS (SELECT 1 FROM "+s+".marks WHERE hash = $17::bigint AND handle <> $1) RETURNING", 1) + "), " +
			"a AS (INSERT INTO " + s + ".answers (handle, head, body) SELECT handle, $13::bytea, $14::bytea FROM o WHERE $13::bytea IS NOT NULL " +
			"ON CONFLICT (handle) DO UPDATE SET head = excluded.head, body = excluded.body), " +
			"m AS (INSERT INTO " + s + ".marks (hash, handle) SELECT pg_catalog.unnest($15::bigint[]), handle FROM o ON CONFLICT DO NOTHING), " +
			"d AS (DELETE FROM " + s + ".marks WHERE hash = ANY($16::bigint[]) AND handle IN (SELECT handle FROM o)) SELECT handle FROM o",
		lockObject: "INSERT INTO " + s + ".marks (hash, handle) VALUES ($1, 0) ON CONFLICT (hash, handle) DO UPDATE SET handle = 0",
		answer: "WITH o AS (" + update + ") INSERT INTO " + s + ".answers (handle, head, body) SELECT handle, $13::bytea, $14::bytea FROM o " +
			"ON CONFLICT (handle) DO UPDATE SET head = excluded.head, body = excluded.body RETURNING handle",
		// What a lane has seen of the time goes along. A row that lacks batches stays, for the guard to tell.
		rotate: "WITH o AS (DELETE FROM " + s + ".lanes WHERE process = $1 AND lane = $2 AND batch = $4 RETURNING tenure, last_at, least_margin) " +
			"INSERT INTO " + s + ".lanes (process, lane, tenure, last_at, least_margin) SELECT $1, $3, tenure, last_at, least_margin FROM o RETURNING batch, tenure",
		find:      "(" + in(find) + ")",
		findNamed: "(" + in(findNamed) + ")",
		byHandle:  "SELECT 1 FROM " + s + ".operations WHERE handle = ",
	}
}

// soundCommit has the commit of a transaction wait for the disk, and for standbys as the server says, and its warnings be told.
const soundCommit = "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), " +
	"set_config('client_min_messages', 'warning', true)"

// soundSettings is true where a commit will be kept and nothing but what was written is read. $unsafe: durability is not
// asked for.
func soundSettings(unsafe string) string {
	return "(" + unsafe + " OR coalesce(current_setting('fsync', true), 'on') = 'on' AND coalesce(current_setting('full_page_writes', true), 'on') = 'on') " +
		"AND current_setting('synchronous_commit') IN ('on', 'remote_apply') AND current_setting('client_min_messages') <> 'error' " +
		"AND current_setting('transaction_isolation') = 'read committed'"
}

// Now is the time of the database's clock, as far as this process can tell without asking it, and never goes back. See
// journal.Clock.
func (j *Journal) Now() time.Time { return j.time.now() }

// aheadOf is how far an asker's clock may be ahead of the database's.
const aheadOf = time.Minute

// checkTime refuses a time that is ahead of the database's clock, which would be everybody's latest time from then on.
func (j *Journal) checkTime(at time.Time) error {
	if j.opts.Unsafe {
		return nil
	}
	if lead := at.Sub(j.time.now()); lead > aheadOf {
		return fmt.Errorf("%w by %s: stamp events by Now, or set the clock right", ErrClockAhead, lead.Round(time.Second))
	}
	return nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64 + 1
	}
	return t.UnixMilli()
}
