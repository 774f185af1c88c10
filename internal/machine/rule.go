package machine

import (
	"time"

	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// leapMargin is the margin, or the longest possible one without a retention, since a later table may state one.
func leapMargin(t journal.Terms) time.Duration {
	if t.Retention <= 0 {
		return journal.MaxMargin
	}
	return t.Margin()
}

// Question is the input to the resend rule.
type Question struct {
	MayHaveRun   bool
	Failed       bool // an attempt may have been answered by a failure that had an effect
	Terms        journal.Terms
	FirstSentAt  time.Time // when the first attempt of this generation may have left
	SentBy       time.Time // the latest possible FirstSentAt, if FirstSentAt is the earliest possible; else zero
	LastEndedAt  time.Time // when the last attempt ended or, after a takeover, the takeover
	WindowClosed bool
	Clock        time.Time // the caller's
	Last         time.Time // the latest time that the journal has seen
	Unconfirmed  time.Time // the clock has jumped, and is not believed until then; zero means that it is

	// Withdrawn means that an operator withdrew the operation.
	Withdrawn bool

	// Idempotent means that the caller's own call asks, and is still running. The method is idempotent by RFC 9110 section
	// 9.2.2, and the operation has neither name nor key.
	Idempotent bool
}

// IdleFor sets LastEndedAt for a process that has seen no attempt under way for so long, by the process's own time.
// now is the process's clock. Another clock may have written LastEndedAt, or this clock may have been set since. So
// the result is at most an hour later than the record, and never earlier. Zero sets no such bounds.
func (q *Question) IdleFor(idle time.Duration, now time.Time) {
	known, recorded := later(now, q.Last).Add(-idle), q.LastEndedAt
	if !recorded.IsZero() {
		known = later(recorded, earlier(known, recorded.Add(journal.MaxMargin)))
	}
	q.LastEndedAt = known
}

// MayRepeat asks MaySend whether the request of a completed operation may go out once more, under its key, for the
// missing answer. It returns Never if a repeat might execute. A repeat might if only a person said that the operation
// took effect, or if the provider refused the operation and remembers no refusals. today is the operation's present
// contract. The other arguments are those of Operation.Question.
func MayRepeat(op *journal.Operation, today Today, clock, last, unconfirmed time.Time) Permission {
	a := op.Answer
	switch {
	case !op.AnswerMissing():
		return never("the journal has its answer, or it has none")
	case a.ByHand:
		return never("a person said that it took effect, and the provider may not have its key")
	case a.Generation != op.Generation, op.SecondEffects > 0, op.Attention != "":
		return never("the evidence about it is contradictory")
	case a.Refused && (op.Terms.Remembers != memory.Everything || today.Terms.Remembers != memory.Everything):
		return never("it was refused, and the provider remembers no refusals")
	case op.Form != today.Form:
		return never(otherForm)
	}
	q := QuestionOf(op, clock, last, unconfirmed)
	q.Terms = op.Terms.Narrow(today.Terms)
	return MaySend(q)
}

const otherForm = "the key was sent in another place or form, and would not be recognised"

// Progress has a claim holder's knowledge beside the claimed record. Durations are by the process's own time,
// which no clock changes.
type Progress struct {
	Open, Failed bool // as in Event
	Sent         bool // an attempt of this claim is not proven unsent
	Idempotent   bool // the caller's own call is running, and its method is idempotent

	Now         time.Time     // the process's clock
	Last        time.Time     // the latest time that the journal had seen at the claim
	Unconfirmed time.Time     // as in Question, at the claim
	Held        time.Duration // since the claim
	Idle        time.Duration // since when it is known that no attempt is under way
}

// Question returns the question for MaySend about one more attempt, at that time, under the claim of op.
func (p Progress) Question(op *journal.Operation, at time.Time) Question {
	q := QuestionOf(op, at, p.Last, p.Unconfirmed)
	q.MayHaveRun, q.Failed = op.Found.MayHaveRun || p.Open, op.Found.Failed || p.Failed
	q.Idempotent = p.Idempotent && op.Naming == journal.Generated && op.Key == ""
	if op.Found.FirstSentAt.IsZero() { // this clock began the window, and tells its age, wherever it stands
		q.FirstSentAt, q.Last, q.Unconfirmed = op.FirstSentAt, op.FirstSentAt, time.Time{}
	}
	steppedBack := op.UpdatedAt.Sub(at) > op.Terms.Margin()
	leapt := q.Unconfirmed.IsZero() && p.Now.Sub(op.UpdatedAt)-p.Held > Leap // the journal has not seen that time
	if steppedBack || leapt {
		q.Unconfirmed = at.Add(Confirmation)
	}
	if p.Sent {
		q.LastEndedAt = time.Time{} // this claim's own attempt ended last
	}
	q.IdleFor(p.Idle, p.Now)
	return q
}

// Permission is the resend rule's answer.
type Permission struct {
	Answer PermissionAnswer
	At     time.Time // for NotBefore
	Reason string    // why not now; "" for SendNow
}

// PermissionAnswer is one of SendNow, NotBefore and Never.
type PermissionAnswer uint8

const (
	Never     PermissionAnswer = iota // resending is not proven safe, and waiting will not prove it
	NotBefore                         // safe from Permission.At on, as far as is known
	SendNow                           // safe
)

var permissionNames = [...]string{"never", "not before", "now"}

func (p PermissionAnswer) String() string { return words.Of("PermissionAnswer", permissionNames[:], p) }

// MaySend is the resend rule: the one place that decides whether an operation may be sent, first or again. MaySend is
// pure. It returns Never for a withdrawn operation. Otherwise it returns SendNow if and only if
//
//   - nothing may have run; or
//   - the provider deduplicates the call by its key, and the window that began with the first send is still open; or
//   - the caller's own call is running, and its method is idempotent and neither named nor keyed.
//
// A provider without an in-flight guard might execute a second request beside the first. So the window opens only after
// the stated handling time. A clock behind the journal's by more than the margin proves nothing about the window before
// it has caught up. A clock that has jumped proves, until the jump is confirmed, only a window's end, and only if the
// journal's time agrees.
func MaySend(q Question) Permission {
	if q.Withdrawn {
		return never("an operator withdrew it")
	}
	if !q.MayHaveRun || q.Idempotent {
		return Permission{Answer: SendNow}
	}
	if q.Failed && q.Terms.Remembers == memory.SuccessesLostAnswers {
		return never("the provider forgets failures, and an attempt may have been answered by one that had an effect")
	}
	return q.inside()
}

// inside checks that now is inside the window since the first send. Without a guard, inside also checks that earlier
// requests are over.
func (q *Question) inside() Permission {
	window := q.Terms.Window()
	switch {
	case window == 0:
		return never(noWindow(q.Terms))
	case q.WindowClosed:
		return never("the clock may have run ahead when it was first sent, so the end of its retention is unknown")
	case !q.Unconfirmed.IsZero() && !earlier(q.Clock, q.Last).Before(later(q.FirstSentAt, q.SentBy).Add(window)):
		return never(retentionPassed)
	case !q.Unconfirmed.IsZero():
		return Permission{Answer: NotBefore, At: later(q.Clock, q.Unconfirmed), Reason: "the clock has jumped, and nothing is resent until it has run steadily for a while"}
	}
	behind := q.Last.Sub(q.Clock) > q.Terms.Margin()
	if behind && q.FirstSentAt.After(q.Clock) {
		return never("the clock stands behind the time at which it was first sent")
	}
	now := later(q.Clock, q.Last)
	at, reason := now, "the clock stands behind the journal, and nothing is resent until it has caught up"
	if !q.Terms.Guard {
		at = later(at, q.LastEndedAt.Add(q.Terms.Handling))
	}
	if !at.Before(q.FirstSentAt.Add(window)) {
		return never(retentionPassed)
	}
	if !behind {
		reason = "the provider may still be working on it"
	}
	if behind || at.After(now) {
		return Permission{Answer: NotBefore, At: at, Reason: reason}
	}
	return Permission{Answer: SendNow}
}

const retentionPassed = "the provider's retention has passed, or will have"

func never(reason string) Permission { return Permission{Answer: Never, Reason: reason} }

// noWindow returns why resending is never proven safe under these terms.
func noWindow(t journal.Terms) string {
	switch {
	case t.Remembers == memory.Nothing:
		return "the provider recognises no key here"
	case t.Remembers < memory.SuccessesLostAnswers:
		return "the provider remembers successes only, and this may have been a failure with an effect"
	case t.Retention <= 0:
		return "the provider's retention is not known"
	}
	return "the provider has no in-flight guard, and no handling time is declared"
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
