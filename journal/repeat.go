package journal

import (
	"slices"
	"time"
)

// Unique is what a provider promises of a reference that was made for one request: it takes
// a second request with it for the first one, or refuses it. The zero Unique promises nothing.
type Unique struct {
	For      time.Duration // at least, counted from the first request
	Guard    bool          // two that arrive at once are one, too
	Handling time.Duration // without a guard: the longest that a request is worked on; 0: not stated
}

// Window is how long after the first send a repeat is safe: For less the margin. It is 0 where a
// repeat is never proven safe.
func (u Unique) Window() time.Duration {
	if u.For <= 0 || !u.Guard && u.Handling <= 0 {
		return 0
	}
	return u.For - marginOf(u.For)
}

// narrow returns the stricter of u and v, clause by clause.
func (u Unique) narrow(v Unique) Unique {
	return Unique{
		For:      min(u.For, v.For),
		Guard:    u.Guard && v.Guard,
		Handling: stricterHandling(u.Guard, u.Handling, v.Guard, v.Handling),
	}
}

// noWindow says why a repeat is never proven safe.
func (u Unique) noWindow() string {
	if u.For <= 0 {
		return "the provider is not known to take two requests with one reference for one"
	}
	return "two requests with one reference may run beside each other, and no handling time is stated"
}

// repeat claims an unknown operation for one who asks for it and has looked for it first, if the
// provider takes a second request with its own reference for the first.
func repeat(op Operation, ev Event) (Operation, Decision, error) {
	again := op
	again.Terms = termsBy(op, ev.Intent)
	if !mayRepeat(op, ev) || op.DueAt.After(ev.At) || MaySend(repeating(again, ev)).Answer != SendNow {
		return op, Stop, nil
	}
	again.Form, again.LookAt = ev.Intent.Form, time.Time{}
	return hold(again, ev), Execute, nil
}

// mayRepeat: nothing that is recorded of an unknown operation forbids to repeat it.
func mayRepeat(op Operation, ev Event) bool {
	switch {
	case !ev.Repeats:
		return false
	case ev.Claim != op.Claim || ev.Generation != op.Generation:
		return false // it has moved since it was looked for
	case op.Looks == 0:
		return false // nobody has looked since it became unknown
	case !op.ReferenceOurs || op.Reference == "":
		return false // the caller's own may be another request's too
	case op.ReferenceName != ev.Intent.ReferenceName:
		return false // the provider promises nothing of a field that is elsewhere
	case onHold(op) || op.Adopted:
		return false // what the journal lacks may have sent it under another one
	case op.Account == "" || op.Account != ev.Intent.Account && op.Account != OwnCredential:
		return false // in another account it would be another's; whose it is, the very credential tells that is sent
	}
	return !slices.ContainsFunc(op.Evidence, func(e Evidence) bool {
		return e.Generation == op.Generation && e.forbidsRepeat()
	})
}

// repeating is what MaySend is asked of an unknown operation that is to be repeated.
func repeating(op Operation, ev Event) Question {
	q := question(op, true, ev.At, ev)
	q.Repeats = true
	q.LastEndedAt = later(op.LastEndedAt, op.SettledAt) // a refusal that does not stand says nothing of the attempts before it
	return q
}

// doubted: its latest claim was made when its caller had been told that it was unknown.
func (op *Operation) doubted() bool { return op.Found.State == StateUnknown }
