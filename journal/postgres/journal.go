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

// Journal is a journal in PostgreSQL, shared by several processes. Open makes a Journal. The methods are safe for
// concurrent use.
type Journal struct {
	store  *rowstore.Store
	driver *rows.Driver
	opts   Options
}

var (
	_ machine.Store          = (*Journal)(nil)
	_ machine.Clock          = (*Journal)(nil)
	_ machine.Expirer        = (*Journal)(nil)
	_ machine.ClockResetter  = (*Journal)(nil)
	_ machine.HookKeeper     = (*Journal)(nil)
	_ journal.StatsReader    = (*Journal)(nil)
	_ journal.Bookmarks      = (*Journal)(nil)
	_ machine.LocalFlows     = (*Journal)(nil)
	_ machine.Outbox         = (*Journal)(nil)
	_ journal.ReceiptCounter = (*Journal)(nil)
	_ machine.Reconciler     = (*Journal)(nil)
)

// Close ends the process's sessions at once. Other processes claim the sessions' operations. Close waits for running
// commits. If the server does not answer for five seconds, the commits' result stays open.
func (j *Journal) Close() error {
	err := j.store.Close()
	if err == nil || errors.Is(err, journal.ErrClosed) || errors.Is(err, rows.ErrStillOpen) {
		return err
	}
	j.opts.Logger.Warn("onceward: the last commit of a closed journal failed, so an outcome may be delivered once more", "error", explain("close", err))
	return nil
}

// Now returns this process's estimate of the database's clock. The estimate never goes back. See machine.Clock.
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

// Apply runs machine.Next on the operation named by ev, and returns once the result is durable. Apply rejects an event
// without the caller's clock with a *machine.EventError. If the event's clock is more than a minute ahead of the
// database's, the error is ErrClockAhead. If ctx ends first, the event may be recorded. Later events of the same
// operation in the process come after it all the same.
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

// Claim applies ev, of kind EventClaim, to at most limit claimable operations, oldest first. Claim skips operations
// locked by another transaction, so fewer than limit results mean: no other operation was claimable and unlocked. If an
// error follows the first results, Claim returns these results, and the next claim fails.
func (j *Journal) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	result, err := j.store.Claim(ctx, ev, limit)
	return result, explain("claim", err)
}

// Reap applies ev, of kind EventReap, to at most limit operations, the first settled first. Reap returns the number of
// shrunk or removed operations, also with an error. Reap takes 100 a commit, so no caller waits long. Reap skips
// operations locked by another transaction, such as another process's reaping. Reap skips an operation with a damaged row,
// and returns the row's error if there is nothing else to reap. If only the answer is damaged, the operation is reaped.
func (j *Journal) Reap(ctx context.Context, ev machine.Event, limit int) (int, error) {
	reaped, err := j.store.Reap(ctx, ev, limit)
	return reaped, explain("reap", err)
}

// Join starts a session, which is renewed in the background until the session is ended or the Journal is closed.
func (j *Journal) Join(ctx context.Context) (machine.Session, error) {
	s, err := j.store.Join(ctx)
	return s, explain("join", err)
}

// AwaitExpired waits, 24 seconds at most, while another process's expired session holds operations or flows. See
// machine.Expirer.
func (j *Journal) AwaitExpired(ctx context.Context) error {
	return explain("watch the sessions", j.driver.AwaitExpired(ctx))
}

// Looks applies ev, of kind EventLook, in one commit to at most limit unknown operations whose look-up is due, the longest
// due first. Looks skips operations locked by another transaction, and unreadable ones. If nothing else is due, Looks
// returns the unreadable operation's error.
func (j *Journal) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	result, err := j.store.Looks(ctx, ev, limit)
	return result, explain("look up", err)
}

// RecordEvent records an event and its results in one commit. A process that receives the same event at the same time
// waits, and then gets first as false.
func (j *Journal) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) (results []machine.Result, first bool, err error) {
	results, first, err = j.store.RecordEvent(ctx, heard, evs)
	return results, first, explain("hear", err)
}

// FindBy returns the provider's operations with the value, oldest first.
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

// SealStatus counts sealed and clear payloads. SealStatus reads all records, needs no key, passes over damaged records, and
// returns the error of one too.
func (j *Journal) SealStatus(ctx context.Context) (journal.SealStatus, error) {
	status, err := j.store.SealStatus(ctx)
	return status, explain("read", err)
}

// Bookmark returns the bookmark of a name. See journal.Bookmarks.
func (j *Journal) Bookmark(ctx context.Context, name string) (journal.Bookmark, error) {
	b, err := j.store.Bookmark(ctx, name)
	return b, explain("read", err)
}

// SetBookmark records a bookmark that the caller has read. See journal.Bookmarks.
func (j *Journal) SetBookmark(ctx context.Context, b journal.Bookmark) (journal.Bookmark, error) {
	b, err := j.store.SetBookmark(ctx, b)
	return b, explain("set a bookmark", err)
}

// ListBookmarks yields all bookmarks by name. See journal.Bookmarks.
func (j *Journal) ListBookmarks(ctx context.Context) iter.Seq2[journal.Bookmark, error] {
	return explained(j.store.ListBookmarks(ctx))
}

// ResetClock sets the journal's latest time to now, in one commit. Other processes use this time before they commit
// anything else. Then ResetClock corrects operations dated by a clock ahead of now. After an error the clock may be set,
// and other calls correct the rest: call ResetClock again to be sure.
func (j *Journal) ResetClock(ctx context.Context, now time.Time) error {
	return explain("reset the clock", j.store.ResetClock(ctx, now))
}

// KeepHook records whether outcomes are for a hook, in a separate transaction.
func (j *Journal) KeepHook(ctx context.Context, kept bool) error {
	return explain("record that there is a hook", j.store.KeepHook(ctx, kept))
}

// HasHook reports whether outcomes are for a hook.
func (j *Journal) HasHook(ctx context.Context) (bool, error) {
	kept, err := j.store.HasHook(ctx)
	return kept, explain("read", err)
}

// Adopt ends the restored state: the journal no longer returns journal.ErrRestored. If the journal was not restored, Adopt
// does nothing.
//
// The caller asserts that no other copy of the journal is, or will be, in use. The journal does not know events since the
// copy. Every operation without an answer counts as sent, from its creation until now. The operation is pending or unknown
// by the resend rule, and cancelled operations are unknown. Names begun since the copy are not known, and execute when a
// caller asks again: adoption can't close this gap.
//
// Outcomes delivered since the copy are delivered once more, cancelled operations' outcomes as unknown. Outcomes delivered
// before are not.
//
// Adopt ends all sessions, in every process. The processes start others. The journal's history (journal.history)
// records the adoption.
//
// Adopt corrects the operations without an answer in commits of some hundred, so late answers are recorded in between.
// The journal counts as restored until the last commit, so a partly adopted journal sends nothing. If Adopt returns an
// error, or the process dies, call Adopt again. Adopt begins anew, and a second adoption changes nothing. If the error
// names a damaged operation, the journal was adopted, and this operation stays unchanged.
func (j *Journal) Adopt(ctx context.Context) error { return explain("adopt", j.store.Adopt(ctx)) }

// Confirm ends the restored state without changing an operation: after a planned move, a promotion without loss, or an
// upgrade to another major version. The caller asserts that nothing was lost, and that no other copy is, or will be, in
// use. Confirm ends all sessions. If the journal does not count as restored, Confirm does nothing.
func (j *Journal) Confirm(ctx context.Context) error {
	if j.opts.ReadOnly {
		return ErrReadOnly
	}
	return explain("confirm", j.driver.Confirm(ctx))
}

// Violation is a fact in a journal which the state machine or the tables' format excludes.
type Violation = journal.Violation

// Verify reads the whole journal and returns the violations, at most 1,000. Verify checks three things: every operation,
// flow, receipt and bookmark is unchanged since its write, no row contradicts or lacks another, and the state machine's
// invariants hold (machine.Violations, machine.FlowViolations). A sound journal has none. For the database's files use amcheck and
// checksums.
//
// Verify runs in pages beside other use of the journal, and changes nothing. Verify may omit operations begun meanwhile.
// An error means that Verify could not read the whole journal.
func (j *Journal) Verify(ctx context.Context) ([]Violation, error) {
	violations, err := j.store.Verify(ctx)
	return violations, explain("read", err)
}
