package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
	"github.com/onceward/onceward/journal/postgres/internal/apptx"
	"github.com/onceward/onceward/journal/postgres/internal/connection"
)

// Options say whose leases these are, and what the database has to be like.
type Options struct {
	Schema     string // quoted
	Dialer     *connection.Dialer
	Log        *slog.Logger
	Pace       leased.Pace   // zero means leased.UsualPace
	Testify    time.Duration // between two reports to the witness. Zero means 10 s
	Background context.Context

	Deployment string
	Pooled     bool
	ReadOnly   bool
	Existing   bool
	Durable    bool // commits have to be durable by the server's own disk
	Promotable bool // a promoted standby has all commits
	MayLose    bool // no warning if commits wait for no standby
	Witness    journal.Witness

	// Transact runs f in a fenced transaction.
	Transact func(ctx context.Context, doing string, f func(context.Context, apptx.Runner) error) error
}

// Fleet is this process's part in a journal. It is safe for concurrent use.
type Fleet struct {
	opts   Options
	schema string

	Sessions     *leased.Sessions
	Memory       leased.Memory
	Acknowledged leased.Acknowledged
	Time         leased.Estimate

	enrolling sync.Mutex
	member    atomic.Pointer[leased.Member]
	restored  atomic.Pointer[restoration] // nil: not restored
	adoption  adoption
	timeline  atomic.Pointer[string]    // of the server, when it was last seen
	started   atomic.Pointer[time.Time] // start time of the checked server

	sealed atomic.Pointer[string] // rowstore.Head.Sealed at the last beat; nil before the first

	outdated atomic.Bool // only later releases may write to it
	granted  atomic.Bool // the role's privileges were checked
	awaited  atomic.Bool // commits wait for a standby

	// Only the beating goroutine has these.
	observer     leased.Observer
	upkeepDue    time.Time
	testimonyDue time.Time
}

// New returns a Fleet that has not seen the database yet.
func New(opts Options) *Fleet {
	opts.Pace = cmp.Or(opts.Pace, leased.UsualPace)
	opts.Testify = cmp.Or(opts.Testify, 10*time.Second)
	return &Fleet{opts: opts, schema: opts.Schema, Sessions: leased.NewSessions(opts.Pace)}
}

// in is a statement with the schema's name.
func (f *Fleet) in(text string) string { return strings.ReplaceAll(text, "{{s}}", f.schema) }

// ErrLost means that another process was faster. Try again.
var ErrLost = errors.New("postgres: another transaction was faster")

// NewID returns 128 random bits or more.
func NewID() string { return rand.Text() }

// Member is the identity under which this process writes, after Enroll.
func (f *Fleet) Member() *leased.Member { return f.member.Load() }

// Started is when the checked server was started.
func (f *Fleet) Started() time.Time { return *f.started.Load() }

// Outdated reports whether a later release has excluded this one. Then connections are checked again before their use.
func (f *Fleet) Outdated() bool { return f.outdated.Load() }

// Sealed returns rowstore.Head.Sealed, as of the last beat.
func (f *Fleet) Sealed() string {
	if sealed := f.sealed.Load(); sealed != nil {
		return *sealed
	}
	return ""
}

// Unsafe reports whether commits need not be durable by the server's own disk.
func (f *Fleet) Unsafe() bool { return !f.opts.Durable }

// Enroll makes this process a member.
func (f *Fleet) Enroll(ctx context.Context, conn *pgx.Conn) (*leased.Member, error) {
	m := &leased.Member{ID: NewID()}
	err := connection.Alone(ctx, f.opts.Background, conn, func(b *pgx.Batch) {
		b.Queue("INSERT INTO "+f.schema+".sessions (id, process, epoch, expires_at, host, pid, timeline) "+
			"SELECT $1, $1, epoch, clock_timestamp() + $2::interval, $3, $4, $5 FROM "+f.schema+".journal RETURNING epoch", m.ID, f.opts.Pace.TTL, hostname(), os.Getpid(), f.timeline.Load()).
			QueryRow(func(r pgx.Row) error { return r.Scan(&m.Epoch) })
	})
	if err != nil {
		return nil, err
	}
	m.Heard.Store(time.Now().UnixNano())
	f.member.Store(m)
	return m, nil
}

// Current returns this process's member. If the process was buried or cut off, it makes the process a member again. The
// process's earlier sessions are lost then.
func (f *Fleet) Current(ctx context.Context) (*leased.Member, error) {
	was := f.member.Load()
	if !was.Gone.Load() {
		return was, nil
	}
	f.enrolling.Lock()
	defer f.enrolling.Unlock()
	if m := f.member.Load(); m != was && !m.Gone.Load() {
		return m, nil
	}
	f.Sessions.LoseAll()
	conn, err := f.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer connection.HangUp(conn)
	return f.Enroll(ctx, conn)
}

// Join adds the row of a new session to a transaction.
func (f *Fleet) Join(ctx context.Context, conn apptx.Runner, s *leased.Session) error {
	m := f.member.Load()
	s.Renewed(time.Now())
	_, err := conn.Exec(ctx, "INSERT INTO "+f.schema+".sessions (id, process, epoch, expires_at, host, pid) VALUES ($1, $2, $3, clock_timestamp() + $4::interval, $5, $6)",
		s.ID(), m.ID, m.Epoch, f.opts.Pace.TTL, hostname(), os.Getpid())
	return err
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

// Note adds a line to the journal's history.
func (f *Fleet) Note(ctx context.Context, conn apptx.Runner, what string) error {
	_, err := conn.Exec(ctx, "UPDATE "+f.schema+".journal SET history = history || clock_timestamp()::text || ' ' || current_user || ' on ' || $1::text || ': ' || $2::text || E'\\n'", hostname(), what)
	return err
}

// Evict ends the role's connections that hold lanes' rows, and wait for a vanished or stopped client. A stopped client
// learns the commit's result after going on.
func (f *Fleet) Evict(ctx context.Context) {
	conn, err := f.opts.Dialer.Connect(ctx) // a check of the database may be waiting for this
	if err != nil {
		return
	}
	defer connection.HangUp(conn)
	var ended int
	err = conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a WHERE a.usename = current_user AND a.wait_event_type = 'Client' "+
		"AND a.state_change < clock_timestamp() - interval '500 ms' AND a.pid IN (SELECT pid FROM pg_locks WHERE relation = $1::text::regclass)", f.schema+".lanes").Scan(&ended)
	if err == nil && ended > 0 {
		f.opts.Log.Warn("onceward: connections that held lanes of the journal were ended, since their client is gone or stopped", "connections", ended)
	}
}
