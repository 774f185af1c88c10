package core

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Observer has the log, and the Trace hooks, which package onceward documents. A nil hook is not called. Each hook gets a
// copy of the operation as it stands.
type Observer struct {
	Log    *slog.Logger
	Logged func(op *journal.Operation) slog.Attr // what logs tell about an operation

	Parent         func(ctx context.Context) string
	Started        func(ctx context.Context, op *journal.Operation, background bool) context.Context
	AttemptStarted func(ctx context.Context, op *journal.Operation, n int) context.Context
	AttemptEnded   func(ctx context.Context, op *journal.Operation, a Attempt)
	KeyReplaced    func(ctx context.Context, op *journal.Operation)
	Delayed        func(ctx context.Context, op *journal.Operation, pause time.Duration)
	Conflicted     func(ctx context.Context, op *journal.Operation, status int, secondEffect bool)
	Ended          func(ctx context.Context, op *journal.Operation, err error, replayed bool)
	Looked         func(ctx context.Context, op *journal.Operation, e journal.Evidence)
	Settled        func(ctx context.Context, op *journal.Operation, err error)
	Resolved       func(ctx context.Context, op *journal.Operation, resolution journal.Resolution)
	JournalFailed  func(ctx context.Context, op *journal.Operation, event string, err error)
	Reaped         func(ctx context.Context, n int)
	SessionLost    func(ctx context.Context)
	PassFailed     func(ctx context.Context, err error)
}

// Attempt is one try on the wire, as hooks get it.
type Attempt struct {
	Number   int
	Status   int
	Proto    string
	Verdict  providers.Verdict
	Unsent   bool
	Err      error
	Duration time.Duration
}

// KindOf returns the kind of error for an operation without an answer.
func KindOf(s journal.State) error {
	switch s {
	case journal.StateCancelled:
		return fault.ErrNotSent
	case journal.StateUnknown:
		return fault.ErrOutcomeUnknown
	case journal.StateInFlight:
		return fault.ErrInFlight
	case journal.StateCompleted:
		return fault.ErrAnswerGone
	}
	return fault.ErrPending
}

// copied keeps the caller's operation off the heap if there is no hook.
func copied(op *journal.Operation) *journal.Operation {
	told := *op
	return &told
}

// Note logs a line about an operation. A handler may find in ctx the trace that the line belongs to.
func (c *Core) Note(ctx context.Context, level slog.Level, event LogEvent, msg string, op *journal.Operation, args ...any) {
	if log := c.Observer.Log; log.Enabled(ctx, level) {
		log.Log(ctx, level, msg, append([]any{"event", string(event), c.Observer.Logged(copied(op))}, args...)...)
	}
}

// Say logs a line that is not about one operation.
func (c *Core) Say(ctx context.Context, level slog.Level, event LogEvent, msg string, args ...any) {
	if log := c.Observer.Log; log.Enabled(ctx, level) {
		log.Log(ctx, level, msg, append([]any{"event", string(event)}, args...)...)
	}
}

// TraceParent returns the traceparent for an operation's record: the hook's, or ofRequest from the request's header.
func (c *Core) TraceParent(ctx context.Context, ofRequest string) string {
	if hook := c.Observer.Parent; hook != nil {
		return seam.TraceParent(hook(ctx))
	}
	return seam.TraceParent(ofRequest)
}

// Started reports that a claim was recorded, and returns the claim's context.
func (c *Core) Started(ctx context.Context, op *journal.Operation, background bool) context.Context {
	if hook := c.Observer.Started; hook != nil {
		if of := hook(ctx, copied(op), background); of != nil {
			return of
		}
	}
	return ctx
}

// AttemptStarted reports that a claim's n-th attempt is next. The result is the hook's context, or nil without a
// hook.
func (c *Core) AttemptStarted(ctx context.Context, op *journal.Operation, n int) context.Context {
	if hook := c.Observer.AttemptStarted; hook != nil {
		return hook(ctx, copied(op), n)
	}
	return nil
}

// AttemptEnded reports that an attempt has ended.
func (c *Core) AttemptEnded(ctx context.Context, op *journal.Operation, a Attempt) {
	c.Note(ctx, slog.LevelDebug, LogAttempt, "attempt", op, "number", a.Number, "status", a.Status, "unsent", a.Unsent, "error", a.Err)
	if hook := c.Observer.AttemptEnded; hook != nil {
		hook(ctx, copied(op), a)
	}
}

// KeyReplaced reports that another key is sent than the request carried.
func (c *Core) KeyReplaced(ctx context.Context, op *journal.Operation) {
	if hook := c.Observer.KeyReplaced; hook != nil {
		hook(ctx, copied(op))
	}
}

// Delayed reports a wait of an operation before the next attempt.
func (c *Core) Delayed(ctx context.Context, op *journal.Operation, pause time.Duration) {
	if hook := c.Observer.Delayed; hook != nil {
		hook(ctx, copied(op), pause)
	}
}

// Conflicted reports a second answer for an operation with an answer.
func (c *Core) Conflicted(ctx context.Context, op *journal.Operation, status int, secondEffect bool) {
	if hook := c.Observer.Conflicted; hook != nil {
		hook(ctx, copied(op), status, secondEffect)
	}
}

// Ended reports that a claim on an operation has ended.
func (c *Core) Ended(ctx context.Context, op *journal.Operation, err error, replayed bool) {
	switch op.State {
	case journal.StateCompleted:
		c.Note(ctx, slog.LevelDebug, LogCompleted, "completed", op, "attempts", op.Attempts, "replayed", replayed)
	case journal.StateUnknown:
		c.Note(ctx, slog.LevelWarn, LogUnknown, "outcome unknown", op, "cause", op.Cause)
	case journal.StatePending:
		c.Note(ctx, slog.LevelInfo, LogPending, "pending", op, "cause", op.Cause, "due", op.DueAt)
	default:
		c.Note(ctx, slog.LevelInfo, LogCancelled, op.State.String(), op, "cause", op.Cause)
	}
	hook := c.Observer.Ended
	if hook == nil {
		return
	}
	if err == nil && op.State != journal.StateCompleted {
		err = KindOf(op.State)
	}
	hook(ctx, copied(op), err, replayed)
}

// Looked reports that a look-up, or an event, has brought evidence on an operation.
func (c *Core) Looked(ctx context.Context, op *journal.Operation, e *journal.Evidence) {
	if hook := c.Observer.Looked; hook != nil {
		hook(ctx, copied(op), *e)
	}
}

// Settled reports that a hook was called with an outcome, and the hook's error.
func (c *Core) Settled(ctx context.Context, op *journal.Operation, err error) {
	if hook := c.Observer.Settled; hook != nil {
		hook(ctx, copied(op), err)
	}
}

// Resolved calls the hook with the same name after an operation's resolution was recorded.
func (c *Core) Resolved(ctx context.Context, op *journal.Operation, resolution journal.Resolution) {
	if hook := c.Observer.Resolved; hook != nil {
		hook(ctx, copied(op), resolution)
	}
}

// Reaped reports that n operations or flows were reaped.
func (c *Core) Reaped(ctx context.Context, n int) {
	if hook := c.Observer.Reaped; hook != nil {
		hook(ctx, n)
	}
}

// KeepUnsaved takes an event that could not be recorded because of err.
func (c *Core) KeepUnsaved(ctx context.Context, ev machine.Event, op journal.Operation, err error) {
	c.Backlog.Add(ev, op) // before any hook, which may panic
	c.JournalFailed(ctx, &op, ev.Kind, "the journal failed; the event is kept in memory and tried again", err)
}

// JournalFailed reports that an event could not be recorded. Each failure calls the hook, and the log has a line a
// minute.
func (c *Core) JournalFailed(ctx context.Context, op *journal.Operation, event machine.EventKind, msg string, err error) {
	if omitted, logged := c.bursts.Logs(msg, c.Now()); logged {
		c.Note(ctx, slog.LevelError, LogJournalFailed, msg, op, "journal_event", event.String(), "error", err, "omitted", omitted)
	}
	if hook := c.Observer.JournalFailed; hook != nil {
		hook(ctx, copied(op), event.String(), err)
	}
}

// PassFailed reports a pass over the journal that failed and is made again. Each failure calls the hook, and the log
// has a line a minute.
func (c *Core) PassFailed(ctx context.Context, text string, err error) {
	if omitted, logged := c.bursts.Logs(text, c.Now()); logged {
		c.Say(ctx, slog.LevelError, LogPassFailed, text, "error", err, "omitted", omitted)
	}
	if hook := c.Observer.PassFailed; hook != nil {
		defer func() { c.Survived(recover()) }()
		hook(ctx, err)
	}
}

// SessionLost reports that the journal has given the client's operations to others.
func (c *Core) SessionLost(ctx context.Context) {
	c.Say(ctx, slog.LevelError, LogSessionLost, "the journal's session is lost: its operations in flight count as sent, and a new session continues")
	if hook := c.Observer.SessionLost; hook != nil {
		hook(ctx)
	}
}

// HookFound reports that the outcomes of the client's operations are for another program's hook.
func (c *Core) HookFound() {
	c.Say(context.Background(), slog.LevelWarn, LogHookMissing, "another program of this journal has Config.Outcomes, and this client has none: its outcomes wait for that program")
}

// Survived reports a panic that was recovered from, if v is one.
func (c *Core) Survived(v any) {
	if v != nil {
		c.Say(context.Background(), slog.LevelError, LogHookPanicked, "a hook panicked", "panic", secret.Text(fmt.Sprint(v)), "stack", string(debug.Stack()))
	}
}
