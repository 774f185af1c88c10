package core

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/burst"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/retry"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/throttle"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Core is the part of a client that the other parts share.
type Core struct {
	Settings

	Observer Observer

	Journal machine.Store
	Router  *tables.Router
	Base    http.RoundTripper // what attempts go through
	Clock   func() time.Time
	Budgets map[string]*retry.Bucket // by provider; "" for hosts that none serves

	Lifecycle    *Lifecycle
	Session      *Session
	Singleflight Singleflight
	Backlog      *Backlog
	Throttle     *throttle.Throttle
	Idle         Idle
	Flows        *Flows
	Hook         *Hook

	askers atomic.Int64
	bursts burst.Lines
	Wakes  chan struct{} // tells Run that something is due earlier than it knew; one fits in
}

// Settings are the client's settings for its parts. Package onceward documents them.
type Settings struct {
	Providers  []providers.Provider
	HTTPClient *http.Client
	Authorize  func(*http.Request) error
	Secret     []byte

	Backoff   backoff.Policy
	RetrySafe func(*http.Request) bool
	NamedOnly bool
	Strict    bool

	MaxWait         time.Duration
	AttemptTimeout  time.Duration
	Concurrency     int
	MaxRequestBody  int64
	MaxResponseBody int64
	Keep            time.Duration
}

// Now returns the journal's time if the journal has a clock (machine.Clock), and this machine's otherwise. Contexts
// go by this machine's clock.
func (c *Core) Now() time.Time { return c.Clock() }

// Until returns a context that ends at a time by Now's clock.
func (c *Core) Until(ctx context.Context, t time.Time) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.Sub(c.Now()))
}

// Within returns a context for reads and writes of the journal in a call that ends at the time ends. If ctx has a
// deadline, the deadline counts instead.
func (c *Core) Within(ctx context.Context, ends time.Time) (context.Context, context.CancelFunc) {
	if _, own := ctx.Deadline(); own {
		return ctx, func() {}
	}
	return c.Until(ctx, ends)
}

// Ending is Within for an event that has to be recorded even after the call's time. It leaves grace.Period.
func (c *Core) Ending(ctx context.Context, ends time.Time) (context.Context, context.CancelFunc) {
	within, cancel := c.Within(ctx, ends)
	ending, end := grace.After(within)
	return ending, func() {
		end()
		cancel()
	}
}

// EndOfWait returns the time by which a wait under ctx has to end: a little before ctx's deadline. After the deadline,
// net/http keeps no more of an error than the text.
func (c *Core) EndOfWait(ctx context.Context) time.Time {
	left := c.MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
		left -= min(time.Second, left/10)
	}
	return c.Now().Add(left)
}

// Sleep reports whether a pause was slept until its end, which is not after ends.
func (c *Core) Sleep(ctx context.Context, pause time.Duration, ends time.Time) bool {
	if c.Now().Add(pause).After(ends) {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
	case <-c.Lifecycle.Closing():
	}
	return false
}

// Wake makes Run look for due operations now.
func (c *Core) Wake() {
	select {
	case c.Wakes <- struct{}{}:
	default:
	}
}

// NextAsker numbers the next Begin or Claim.
func (c *Core) NextAsker() int64 { return c.askers.Add(1) }

// lastReadTime is the time in which a call may read the journal once its time is up.
const lastReadTime = 100 * time.Millisecond

// LastRead returns a context to read the journal once more under, though ctx may have ended.
func LastRead(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastReadTime)
}

// Read reads an operation, once more if ctx has ended meanwhile.
func (c *Core) Read(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	op, err := c.Journal.Get(ctx, ref)
	if err == nil || ctx.Err() == nil {
		return op, err
	}
	ctx, cancel := LastRead(ctx)
	defer cancel()
	return c.Journal.Get(ctx, ref)
}

// IsUndone reports whether err, of an event that takes a claim back, leaves nothing more to take back.
func IsUndone(err error) bool {
	return err == nil || errors.Is(err, journal.ErrNotFound) || seam.Certain(err) && !errors.Is(err, journal.ErrRestored) && !errors.Is(err, journal.ErrSealed)
}

// Composer returns a composer of requests from the frozen request. They carry the credentials of caller, or the
// background's if it is nil.
func (c *Core) Composer(caller *http.Request, query string, route *tables.Route, frozen *journal.Request) wire.Composer {
	return wire.Composer{Authorize: c.Authorize, Jar: c.HTTPClient.Jar, Caller: caller, Query: query, Route: route, Frozen: frozen}
}
