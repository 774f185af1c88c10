package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/leased"
)

const (
	// Lanes is how many transactions a process has at most: for the group, waiters and scans, and three for sessions.
	Lanes = 10
	// DialTime limits the time to connect.
	DialTime = 10 * time.Second
	// commitTime is the default of Options.Time.
	commitTime = 30 * time.Second
	// closePatience is the default of Options.Patience.
	closePatience = 5 * time.Second
)

// Options say whose leases these are.
type Options struct {
	Store    string // the store's package, with which errors begin
	Log      *slog.Logger
	Pace     leased.Pace   // zero means leased.UsualPace
	Testify  time.Duration // between two reports to the witness. Zero means 10 s
	Time     time.Duration // of a transaction, with all its waits. Zero means 30 s
	Patience time.Duration // how long Close and Leave wait for the server. Zero means 5 s

	Deployment    string
	ErrDeployment error // a journal of another deployment
	ReadOnly      bool
	Existing      bool
	Movable       bool // another system that has the journal lacks nothing
	AnyTime       bool // events may be ahead of the server's clock
	LocalBeats    bool // beats wait for no standby, which may lack some
	Witness       journal.Witness

	Standbys Standbys                  // nil if a connection stays on one server
	Evict    func(ctx context.Context) // ends connections that hold lanes' rows for a stopped client; nil if the server does
}

// Fleet is this process's part in a journal. It is safe for concurrent use.
type Fleet struct {
	db   Database
	opts Options

	Sessions     *leased.Sessions
	Memory       leased.Memory
	Acknowledged leased.Acknowledged
	Time         leased.Estimate

	enrolling sync.Mutex
	member    atomic.Pointer[leased.Member]
	restored  atomic.Pointer[string] // why; nil: not restored
	adoption  adoption
	sealed    atomic.Pointer[string] // rowstore.Head.Sealed at the last look
	outdated  atomic.Bool            // only later releases may write

	background context.Context // ends with Close
	stop       context.CancelCauseFunc
	heart      sync.WaitGroup

	// Only the beating goroutine has these.
	observer     leased.Observer
	upkeepDue    time.Time
	testimonyDue time.Time

	slots chan struct{} // one for each lane in use
	mu    sync.Mutex
	idle  []*Lane
	made  int // how many lanes there are
}

// New returns a Fleet that has not seen the database yet. The caller closes the Fleet.
func New(db Database, opts Options) *Fleet {
	opts.Pace, opts.Log = cmp.Or(opts.Pace, leased.UsualPace), cmp.Or(opts.Log, slog.Default())
	opts.Testify, opts.Time, opts.Patience = cmp.Or(opts.Testify, 10*time.Second), cmp.Or(opts.Time, commitTime), cmp.Or(opts.Patience, closePatience)
	f := &Fleet{db: db, opts: opts, Sessions: leased.NewSessions(opts.Pace), slots: make(chan struct{}, Lanes)}
	f.background, f.stop = context.WithCancelCause(context.Background())
	return f
}

// Start checks the server and the journal, makes this process a member, and starts the heartbeat.
func (f *Fleet) Start(ctx context.Context) error {
	c, err := f.Dial(ctx)
	if err != nil {
		return err
	}
	if f.opts.ReadOnly {
		c.HangUp()
		return nil
	}
	if _, err = f.enroll(ctx, c); err == nil {
		err = f.hearWitness(ctx, c)
	}
	if err != nil {
		c.HangUp()
		return err
	}
	f.heart.Go(func() { f.run(c) })
	return nil
}

// Close ends this process's sessions, the heartbeat, and the lanes. If the server does not answer, the sessions expire.
func (f *Fleet) Close() {
	defer f.stop(journal.ErrClosed)
	if f.member.Load() != nil {
		ctx, cancel := context.WithTimeout(context.Background(), f.opts.Patience)
		defer cancel()
		if err := f.resign(ctx); err != nil {
			f.opts.Log.Warn("onceward: the sessions of a closed journal could not be ended; they expire by themselves", "error", f.db.Explain("close", err))
		}
	}
	f.stop(journal.ErrClosed)
	f.heart.Wait()
	for range Lanes { // once each transaction has ended
		f.slots <- struct{}{}
	}
	for _, l := range f.idle {
		l.HangUp()
	}
}

// Dial connects, and checks whether the database is still the same.
func (f *Fleet) Dial(ctx context.Context) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTime)
	defer cancel()
	defer context.AfterFunc(f.background, cancel)()
	c, err := f.db.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.Check(ctx); err != nil {
		c.HangUp()
		return nil, err
	}
	return c, nil
}

// Options returns the options with their defaults.
func (f *Fleet) Options() Options { return f.opts }

// Background ends once the process waits for the server no more.
func (f *Fleet) Background() context.Context { return f.background }

// Limited returns a context for the statements of a transaction that begins now. It ends with the Fleet too.
func (f *Fleet) Limited(ctx context.Context) (context.Context, func()) {
	limited, cancel := context.WithTimeout(ctx, f.opts.Time)
	stop := context.AfterFunc(f.background, cancel)
	return limited, func() { stop(); cancel() }
}

// ended returns journal.ErrClosed if the Fleet was closed, or else why ctx has ended.
func (f *Fleet) ended(ctx context.Context) error {
	if f.background.Err() != nil {
		return journal.ErrClosed
	}
	return context.Cause(ctx)
}

// Member returns this process as a writer, after Start. A process that only reads has no member.
func (f *Fleet) Member() *leased.Member { return f.member.Load() }

// Now implements rowstore.Driver. A journal for events of any time has no clock.
func (f *Fleet) Now() time.Time {
	if f.opts.AnyTime {
		return time.Time{}
	}
	return f.Clock()
}

// Clock returns this process's estimate of the server's time, which never goes back.
func (f *Fleet) Clock() time.Time { return f.Time.Now() }

// Sealed returns rowstore.Head.Sealed, as of the last look.
func (f *Fleet) Sealed() string { return *f.sealed.Load() }

// SetSealed records what a commit has changed it to.
func (f *Fleet) SetSealed(sealed string) { f.sealed.Store(&sealed) }

// enroll makes this process a member.
func (f *Fleet) enroll(ctx context.Context, c Conn) (m *leased.Member, err error) {
	m = &leased.Member{ID: rand.Text()}
	for { // each try waits by itself
		if m.Epoch, err = c.Enroll(ctx, m.ID); err == nil || !f.db.FateOf(err).Locked || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	m.Heard.Store(time.Now().UnixNano())
	f.member.Store(m)
	return m, nil
}

// current returns this process's member. If the process was buried or cut off, it makes the process a member again. The
// process's earlier sessions are lost then.
func (f *Fleet) current(ctx context.Context) (*leased.Member, error) {
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
	c, err := f.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.HangUp()
	return f.enroll(ctx, c)
}

// Hostname is this machine's name, or "".
func Hostname() string {
	name, _ := os.Hostname()
	return name
}
