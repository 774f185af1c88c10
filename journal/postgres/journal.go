package postgres

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/rows"
)

// Journal is a journal in PostgreSQL, shared by all processes that open it. Open makes one. Its methods are safe for
// concurrent use.
type Journal struct {
	store  *rowstore.Store
	driver *rows.Driver
	opts   Options
}

var (
	_ machine.Store          = (*Journal)(nil)
	_ machine.Clock          = (*Journal)(nil)
	_ machine.ClockResetter  = (*Journal)(nil)
	_ machine.HookKeeper     = (*Journal)(nil)
	_ journal.StatsReader    = (*Journal)(nil)
	_ journal.Bookmarks      = (*Journal)(nil)
	_ machine.LocalFlows     = (*Journal)(nil)
	_ machine.Outbox         = (*Journal)(nil)
	_ journal.ReceiptCounter = (*Journal)(nil)
	_ machine.Reconciler     = (*Journal)(nil)
)

// Close ends the process's sessions at once. Other processes claim their operations. It waits for running commits. If
// the server does not answer for five seconds, their result stays open.
func (j *Journal) Close() error {
	err := j.store.Close()
	if err == nil || errors.Is(err, journal.ErrClosed) || errors.Is(err, rows.ErrStillOpen) {
		return err
	}
	j.opts.Logger.Warn("onceward: the last commit of a closed journal failed, so an outcome may be delivered once more", "error", explain("close", err))
	return nil
}

// Now returns this process's estimate of the database's clock. It never goes back. See machine.Clock.
func (j *Journal) Now() time.Time { return j.driver.Clock() }

// explained has the errors of a list explained.
func explained[T any](list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for one, err := range list {
			if !yield(one, explain("read", err)) {
				return
			}
		}
	}
}

// Apply runs machine.Next on the operation that ev names, and returns once the result is durable. It rejects an event
// without its caller's clock with a *machine.EventError, and one whose clock is more than a minute ahead of the
// database's with ErrClockAhead. If ctx ends first, the event may be recorded. Later events of the same operation in
// this process come after it all the same.
func (j *Journal) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	result, err := j.store.Apply(ctx, ev)
	return result, explain("apply", err)
}

// Get returns the whole operation, or journal.ErrNotFound.
func (j *Journal) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	op, err := j.store.Get(ctx, ref)
	return op, explain("read", err)
}

// List yields operations without bodies, in pages. Nothing is open between two pages, so a slow reader pins nothing.
func (j *Journal) List(ctx context.Context, filter journal.Filter) iter.Seq2[journal.Operation, error] {
	return explained(j.store.List(ctx, filter))
}

// Claim applies ev, of kind EventClaim, to at most limit claimable operations, oldest first. It skips operations that
// another transaction is changing, so fewer than limit results mean that no other was claimable and unlocked. If an
// error follows the first results, Claim returns those, and the next claim fails.
func (j *Journal) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	result, err := j.store.Claim(ctx, ev, limit)
	return result, explain("claim", err)
}

// Reap applies ev, of kind EventReap, to at most limit operations, those settled first coming first. It returns how
// many were shrunk or removed, also with an error. It takes 100 a commit, so that no caller waits long. It skips
// operations that another transaction is changing, as of another process that reaps. It skips an operation whose row is
// damaged, and returns its error if there is nothing else to reap. An operation whose answer alone is damaged is reaped.
func (j *Journal) Reap(ctx context.Context, ev machine.Event, limit int) (int, error) {
	reaped, err := j.store.Reap(ctx, ev, limit)
	return reaped, explain("reap", err)
}

// Join starts a session. It is renewed in the background until it is ended or the Journal is closed.
func (j *Journal) Join(ctx context.Context) (machine.Session, error) {
	s, err := j.store.Join(ctx)
	return s, explain("join", err)
}

// Looks applies ev, of kind EventLook, in one commit to at most limit unknown operations whose look-up is due, those
// due longest first. It skips operations that another transaction is changing, and unreadable ones. If nothing else is
// due, it returns the error of the unreadable one.
func (j *Journal) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	result, err := j.store.Looks(ctx, ev, limit)
	return result, explain("look up", err)
}

// RecordEvent records in one commit that an event was heard, and its results. A process that hears the same event at the same
// time waits, and then gets first as false.
func (j *Journal) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) (results []machine.Result, first bool, err error) {
	results, first, err = j.store.RecordEvent(ctx, heard, evs)
	return results, first, explain("hear", err)
}

// FindBy returns the operations of the provider that have the value, in the order of their creation.
func (j *Journal) FindBy(ctx context.Context, provider string, by machine.By, value string) ([]machine.Match, error) {
	matches, err := j.store.FindBy(ctx, provider, by, value)
	return matches, explain("read", err)
}

// ReadStats returns the Stats, for all processes. Begun counts since the journal was last adopted or confirmed,
// including rolled-back operations. A damaged operation is counted, but has no age.
func (j *Journal) ReadStats(ctx context.Context) (journal.Stats, error) {
	stats, err := j.store.ReadStats(ctx)
	return stats, explain("read", err)
}

// Bookmark returns the bookmark of a name. See journal.Bookmarks.
func (j *Journal) Bookmark(ctx context.Context, name string) (journal.Bookmark, error) {
	b, err := j.store.Bookmark(ctx, name)
	return b, explain("read", err)
}

// SetBookmark records a bookmark that its caller has read. See journal.Bookmarks.
func (j *Journal) SetBookmark(ctx context.Context, b journal.Bookmark) (journal.Bookmark, error) {
	b, err := j.store.SetBookmark(ctx, b)
	return b, explain("set a bookmark", err)
}

// ListBookmarks yields all bookmarks by name. See journal.Bookmarks.
func (j *Journal) ListBookmarks(ctx context.Context) iter.Seq2[journal.Bookmark, error] {
	return explained(j.store.ListBookmarks(ctx))
}

// ResetClock sets the latest time of the journal to now, in one commit. Other processes use it before they commit
// anything else. Then it corrects operations that a clock ahead of now has dated. After an error the clock may be set, and
// other calls correct the rest: call it again to be sure.
func (j *Journal) ResetClock(ctx context.Context, now time.Time) error {
	return explain("reset the clock", j.store.ResetClock(ctx, now))
}

// KeepHook records whether outcomes are for a hook, in a transaction of its own.
func (j *Journal) KeepHook(ctx context.Context, kept bool) error {
	return explain("record that there is a hook", j.store.KeepHook(ctx, kept))
}

// HasHook reports whether outcomes are for a hook.
func (j *Journal) HasHook(ctx context.Context) (bool, error) {
	kept, err := j.store.HasHook(ctx)
	return kept, explain("read", err)
}

// Adopt ends the restored state: the journal no longer returns journal.ErrRestored. If it was not restored, Adopt does
// nothing.
//
// The caller asserts that no other copy of the journal is, or will be, in use. The journal does not know what happened
// after the copy was made. Every operation without an answer counts as sent, from its creation until now. It is
// pending or unknown by the resend rule, and cancelled ones are unknown. Names that were begun after the copy are not
// known, and execute when a caller asks again: adoption can't close that gap.
//
// Outcomes that were delivered after the copy was made are delivered once more, those of cancelled operations as
// unknown. Outcomes delivered before are not.
//
// Adopt ends all sessions, in every process. The processes start others. The journal's history (journal.history)
// records the adoption.
//
// Adopt corrects the operations without an answer in commits of some hundred, so late answers are recorded in between.
// The journal counts as restored until the last of these commits, so a partly adopted journal sends nothing. If Adopt
// returns an error, or its process dies, call it again. It begins anew, and a second adoption changes nothing. If the
// error names a damaged operation, the journal was adopted, and that operation stays as it is.
func (j *Journal) Adopt(ctx context.Context) error { return explain("adopt", j.store.Adopt(ctx)) }

// Confirm ends the restored state without changing an operation: after a planned move, a promotion without loss, or an
// upgrade to another major version. The caller asserts that nothing was lost, and that no other copy is, or will be,
// in use. It ends all sessions. If the journal does not count as restored, it does nothing.
func (j *Journal) Confirm(ctx context.Context) error {
	if j.opts.ReadOnly {
		return ErrReadOnly
	}
	return explain("confirm", j.driver.Confirm(ctx))
}

// Violation is a state of a journal that the state machine or its tables' format rules out.
type Violation = journal.Violation

// Verify reads the whole journal and returns its violations, at most 1,000. It checks that every operation, flow,
// receipt and bookmark is as it was written, that no row contradicts or lacks another, and the state machine's invariants
// (machine.Violations, machine.FlowViolations). A sound journal has none. For the database's files use amcheck and
// checksums.
//
// It runs in pages beside other use of the journal, and changes nothing. It may omit operations begun meanwhile. An
// error means that it could not read the whole journal.
func (j *Journal) Verify(ctx context.Context) ([]Violation, error) {
	violations, err := j.store.Verify(ctx)
	return violations, explain("read", err)
}
