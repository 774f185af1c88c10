package rowstore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/seal"
)

// Store is a journal over a driver.
type Store struct {
	source   Source
	driver   Driver // nil: the store only reads
	refusal  error  // of methods that write then
	key      format.HashKey
	codec    format.Codec
	opts     Options
	most     int         // bytes of bodies in the results of Looks
	noting   atomic.Bool // a clock that came with a transaction of the application's is about to be seen
	log      *slog.Logger
	clock    clock
	sessions sessions
	refusals refusals
	group    group
	aside    aside
	sweeps   sweeps
	untold   atomic.Bool // the head has leaps that an operation may not have been told

	life   context.Context // ends with Close
	end    context.CancelFunc
	ctx    context.Context // ends once Close has no more patience
	cancel context.CancelFunc
	once   sync.Once
}

var (
	_ machine.Store          = (*Store)(nil)
	_ machine.ClockResetter  = (*Store)(nil)
	_ machine.HookKeeper     = (*Store)(nil)
	_ journal.StatsReader    = (*Store)(nil)
	_ machine.Outbox         = (*Store)(nil)
	_ journal.ReceiptCounter = (*Store)(nil)
	_ machine.LocalFlows     = (*Store)(nil)
	_ journal.Bookmarks      = (*Store)(nil)
)

// patience is how long Close and a session's end wait for deliveries whose rows other transactions hold.
const patience = 5 * time.Second

// mostBytes limits the bodies that Looks returns at once, except for a single operation's bodies.
const mostBytes = 16 << 20

// LimitBytes limits the bodies that Looks returns at once, for tests.
func LimitBytes(s *Store, most int) { s.most = most }

// Options are a Store's settings. The zero value has none.
type Options struct {
	Logger *slog.Logger // of warnings; nil means none

	// Committed is called after each commit, with the number of requests and the transaction's duration. Several
	// goroutines may call Committed at once, and each waits for the call. Nil means no call.
	Committed func(requests int, took time.Duration)

	// DeliverAtOnce gives each delivery a separate commit. By default the next commit includes the delivery.
	DeliverAtOnce bool

	Seal     *seal.Ring // seals payloads; nil means that they are in clear
	Existing bool       // the journal is another program's: it is not sealed here for the first time, and opens without keys
}

// Open returns a journal over the driver's database. Close also closes the driver. Open returns ErrSealed if the ring lacks
// the journal's keys.
func Open(ctx context.Context, d Driver, opts Options) (*Store, error) {
	head, err := mark(ctx, d, &opts)
	if err != nil {
		return nil, err
	}
	s := newStore(d, &head, opts.Seal)
	s.driver, s.opts, s.most = d, opts, mostBytes
	if opts.Logger != nil {
		s.log = opts.Logger
	}
	s.sessions = sessions{driver: d, own: make(map[string]*session)}
	s.group.s = s
	s.aside.start(s)
	return s, nil
}

// OpenToRead returns a journal that only reads, and starts nothing. Methods that write return refusal. Close also
// closes the source.
func OpenToRead(ctx context.Context, src Source, ring *seal.Ring, refusal error) (*Store, error) {
	var head Head
	err := src.Read(ctx, func(r Reader) (err error) {
		head, err = r.Head(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := newStore(src, &head, ring)
	if err := checkMarks(head.Sealed, s.codec); err != nil {
		return nil, err
	}
	s.refusal = refusal
	return s, nil
}

func newStore(src Source, head *Head, ring *seal.Ring) *Store {
	s := &Store{source: src, key: head.Key, codec: format.Codec{Ring: ring, Journal: head.Key}, log: slog.New(slog.DiscardHandler)}
	s.life, s.end = context.WithCancel(context.Background())
	ctx, cancel := context.WithCancelCause(context.Background())
	s.ctx, s.cancel = ctx, func() { cancel(journal.ErrClosed) }
	s.clock.take(head)
	return s
}

func (s *Store) open(ctx context.Context) error {
	if s.life.Err() != nil {
		return journal.ErrClosed
	}
	return ctx.Err()
}

// writable is open for methods that write.
func (s *Store) writable(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.refusal
}

// trusted returns ErrRestored if the journal may have a gap.
func (s *Store) trusted(ctx context.Context) error {
	return s.source.Read(ctx, func(r Reader) error { return trusted(ctx, r) })
}

// now returns the database's time, or this process's time if the database has no clock.
func (s *Store) now() time.Time {
	if s.driver != nil {
		if now := s.driver.Now(); !now.IsZero() {
			return now
		}
	}
	return time.Now()
}

// Apply implements machine.Store.
func (s *Store) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if err := s.writable(ctx); err != nil {
		return machine.Result{}, err
	}
	if err := store.CheckApply(ev); err != nil {
		return machine.Result{}, err
	}
	p := s.prepare(ev)
	if ev.Kind == machine.EventDeliver && !s.opts.DeliverAtOnce {
		return s.ride(ctx, p)
	}
	var out *outcome
	err := s.do(ctx, &request{event: p, run: func(b *batch) (err error) {
		out, err = b.apply(p)
		return err
	}})
	if err != nil {
		return machine.Result{}, err
	}
	return out.result(s.codec)
}

// ride notes a delivery for the next commit. Only a great many make one.
func (s *Store) ride(ctx context.Context, p *prepared) (machine.Result, error) {
	r := newRequest(context.Background(), &request{event: p, rides: true})
	r.run = func(b *batch) error {
		_, err := b.apply(p)
		return err
	}
	result := machine.Result{Decision: machine.Recorded, Last: s.clock.outcome(p.At).last}
	if s.group.defers(r) {
		return result, s.Flush(ctx)
	}
	return result, nil
}

// Flush commits the noted deliveries, and waits for deliveries that other transactions hold up.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.do(ctx, &request{flushes: true, run: func(*batch) error { return nil }}); err != nil {
		return err
	}
	return s.aside.wait(ctx)
}

// ResetClock implements machine.ClockResetter. Once the leap is recorded, no process decides by the former clock.
func (s *Store) ResetClock(ctx context.Context, now time.Time) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	if !s.aside.enter() {
		return journal.ErrClosed
	}
	defer s.aside.running.Done()
	ctx, cancel := until(ctx, s.life)
	defer cancel()
	number, err := s.leap(ctx, true, func(c *store.Clock) bool {
		c.Reset(now)
		return true
	})
	if err != nil {
		return err
	}
	return s.swept(ctx, number, true)
}

// KeepHook implements machine.HookKeeper.
func (s *Store) KeepHook(ctx context.Context, kept bool) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	return s.alone(ctx, &request{run: func(b *batch) error {
		b.keep, b.head.Hook = kept != b.head.Hook, kept
		return nil
	}})
}

// HasHook implements machine.HookKeeper.
func (s *Store) HasHook(ctx context.Context) (kept bool, err error) {
	if err := s.open(ctx); err != nil {
		return false, err
	}
	err = s.source.Read(ctx, func(r Reader) error {
		head, err := r.Head(ctx)
		kept = head.Hook
		return err
	})
	return kept, err
}

var errLate = errors.New("the database did not answer in time")

// Close implements journal.Journal. Requests that wait for other transactions end with ErrClosed. Deliveries have
// some seconds to be recorded.
func (s *Store) Close() error {
	err := journal.ErrClosed
	s.once.Do(func() {
		s.end()
		if s.driver == nil {
			s.cancel()
			err = s.source.Close()
			return
		}
		defer time.AfterFunc(patience, s.cancel).Stop()
		if err = s.group.end(); errors.Is(err, journal.ErrClosed) { // by its patience, and not by an earlier Close
			err = errLate
		}
		s.aside.end()
		s.cancel()
		s.sessions.end()
		err = errors.Join(err, s.driver.Close())
	})
	return err
}
