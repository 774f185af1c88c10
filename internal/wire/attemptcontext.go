package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/naming"
)

// Why an attempt is broken off.
var (
	ErrAttemptTimeout = fmt.Errorf("the attempt took longer than Config.AttemptTimeout: %w", context.DeadlineExceeded)
	ErrOutOfTime      = fmt.Errorf("the call's time is up: %w", context.DeadlineExceeded)

	// ErrLeaseOver ends an attempt whose session was lost before its first byte, as it was still connecting.
	ErrLeaseOver = errors.New("the session was lost before anything was sent")

	// ErrRepeated ends an attempt whose transport got a connection for a second request. That request is not sent.
	ErrRepeated = errors.New("a layer in Config.HTTPClient made a second request of one attempt, and Onceward did not let it out: " +
		"remove the retries or redirects of that layer. Config.Backoff is the policy of retries")
)

// AttemptContext is one attempt's context: the run's, but that it names no
// operation, and ends at the attempt's deadline or sooner. It may be used concurrently.
type AttemptContext struct {
	context.Context
	trace connTrace // how far the attempt has got

	mu        sync.Mutex
	deadline  *time.Timer
	unbounded bool
}

func (c *AttemptContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c
	}
	if nothing, is := naming.Hidden(key); is {
		return nothing
	}
	return c.Context.Value(key)
}

type attemptKey struct{}

// Start makes a zero c the context that ends with ctx or, for cause, after so long.
func (c *AttemptContext) Start(ctx context.Context, left time.Duration, cause error) {
	ctx, end := context.WithCancelCause(ctx)
	c.Context, c.trace.end = ctx, end
	c.deadline = time.AfterFunc(left, func() { end(cause) })
}

// Guard says whether an attempt may go on. It may be asked at any time, by any goroutine.
type Guard interface {
	// Holds reports whether the session that holds the claim still lives.
	Holds(session string) bool

	// Late returns why it is too late for a request that was to be sent first by a time, or nil. Zero means at any time.
	Late(by time.Time) error
}

// Follow returns the context to send under. It learns how far the attempt gets. A connection stays unused if the session is
// lost, or if it is too late for a first request.
func (c *AttemptContext) Follow(guard Guard, session string, by time.Time) context.Context {
	c.trace.guard, c.trace.session, c.trace.by = guard, session, by
	return c.trace.follow(c)
}

// Sends notes the attempt's request before it is sent. A second request like it is refused.
func (c *AttemptContext) Sends(req *http.Request) { c.trace.sends(req) }

// Redirected notes that a redirect is followed, so that something was sent. It is called between two requests.
func (c *AttemptContext) Redirected() { c.trace.hopped = true }

// Unsent reports whether it is proven of an attempt, which ended with this error of its transport, that no server has
// processed anything of it.
func (c *AttemptContext) Unsent(err error) bool { return c.trace.unsent(err) }

// Traced returns the context that a hook returned for given, made to end with given. A context that is not derived from
// given would not tell how far the attempt got: given takes its place.
func (c *AttemptContext) Traced(given, returned context.Context) context.Context {
	switch {
	case returned.Value(attemptKey{}) != any(c):
		return given
	case returned.Done() == given.Done():
		return returned
	}
	ctx, end := context.WithCancelCause(returned)
	context.AfterFunc(given, func() { end(context.Cause(given)) })
	return ctx
}

// ExtendDeadline lets an attempt that is not known to be connecting still take so much more.
func (c *AttemptContext) ExtendDeadline(first, rest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline.Stop()
	if c.unbounded {
		return
	}
	c.deadline = time.AfterFunc(first, func() {
		if c.trace.asked.Load() && !c.trace.got.Load() {
			c.trace.end(ErrAttemptTimeout)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.unbounded {
			c.deadline = time.AfterFunc(rest, func() { c.trace.end(ErrOutOfTime) })
		}
	})
}

// RemoveDeadline lets the attempt take any time.
func (c *AttemptContext) RemoveDeadline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unbounded = true
	c.deadline.Stop()
}

// Cancel ends the context for cause.
func (c *AttemptContext) Cancel(cause error) {
	c.RemoveDeadline()
	c.trace.end(cause)
}
