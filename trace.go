package onceward

import (
	"context"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Trace is a set of hooks, in the manner of net/http/httptrace. Any may be nil.
// They are called synchronously, some of them concurrently, and must return
// soon. What they get holds no secret, header or body.
type Trace struct {
	// Begun is called when the intent is durable and the first attempt is next.
	Begun func(Operation)

	// KeyReplaced is called when a request carried a key and the journal's, or a
	// parent's, was sent instead.
	KeyReplaced func(Operation)

	// Attempted is called after each attempt.
	Attempted func(Operation, Attempt)

	// Delayed is called before an operation waits for its next attempt.
	Delayed func(Operation, time.Duration)

	// Left is called when a call, or Resume, is done with an operation: completed,
	// parked, unknown or cancelled. Operation.Replayed tells an answer recorded
	// before from a new one.
	Left func(Operation)

	// Conflicted is called when a second answer came for an operation that has one.
	// The recorded one was handed over. secondEffect says that the second proves an
	// effect of its own.
	Conflicted func(op Operation, status int, secondEffect bool)

	// Looked is called when a look, or a webhook, has told something of an operation, which is
	// as it stands after that.
	Looked func(Operation, Evidence)

	// JournalFailed is called when an event could not be recorded. It is kept in
	// memory and tried again.
	JournalFailed func(Operation, error)

	// Progress is called by Resume and Run at most once a second, and once at the
	// end of a pass that did something.
	Progress func(Report)
}

// Attempt is one try on the wire.
type Attempt struct {
	Number   int               // within this call, from 1
	Status   int               // 0 if there was no answer
	Verdict  providers.Verdict // 0 if there was no answer
	Unsent   bool              // proven: no server has processed it
	Err      error             // the transport's own error
	Duration time.Duration
}

// note logs something about an operation, if anybody listens.
func (c *Client) note(level slog.Level, msg string, op *journal.Operation, args ...any) {
	if ctx := context.Background(); c.log.Enabled(ctx, level) {
		c.log.Log(ctx, level, msg, append(logged(op), args...)...)
	}
}

// logged is what logs tell of an operation.
func logged(op *journal.Operation) []any {
	o := operationOf(op)
	title := o.title()
	if o.URL != "" {
		title += " " + o.Method + " " + secret.URL(parsed(o.URL))
	}
	args := []any{"operation", title, "generation", o.Generation, "claim", o.Claim}
	if o.Scope != "" {
		args = append(args, "scope", o.Scope)
	}
	if kind, parent := o.parent(); parent != "" {
		args = append(args, kind, parent)
	}
	return args
}
