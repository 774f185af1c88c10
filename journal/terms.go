package journal

import (
	"time"

	"github.com/onceward/onceward/internal/memory"
)

// Terms has the provider's facts for the resend rule. The operation's Begin freezes the Terms. Later claims may narrow
// the Terms, never widen them.
type Terms struct {
	Remembers memory.Memory
	Retention time.Duration // how long the provider remembers a key; zero means no promise
	Guard     bool          // the provider does not execute a second request during the first
	Handling  time.Duration // without a guard, the longest work on one request; zero means not stated
}

// Narrow returns the stricter of t and u, clause by clause.
func (t Terms) Narrow(u Terms) Terms {
	return Terms{
		Remembers: min(t.Remembers, u.Remembers),
		Retention: min(t.Retention, u.Retention),
		Guard:     t.Guard && u.Guard,
		Handling:  stricterHandling(t.Guard, t.Handling, u.Guard, u.Handling),
	}
}

// stricterHandling returns the longer of two times. "Not stated" is stricter than any. A side with a guard need not
// state a time beside a side without.
func stricterHandling(guard bool, handling time.Duration, otherGuard bool, other time.Duration) time.Duration {
	switch {
	case guard && !otherGuard && handling <= 0:
		return other
	case otherGuard && !guard && other <= 0:
		return handling
	case handling <= 0 || other <= 0:
		return 0
	}
	return max(handling, other)
}

// Window is how long after the first send a resend is safe: the retention less the margin. The Window is 0 if resending
// is never proven safe.
func (t Terms) Window() time.Duration {
	if t.Remembers < memory.SuccessesLostAnswers || t.Retention <= 0 || (!t.Guard && t.Handling <= 0) {
		return 0
	}
	return t.Retention - t.Margin()
}

// Margin is the part of the retention reserved for clock differences and slow requests: a quarter, at most an hour.
func (t Terms) Margin() time.Duration { return min(t.Retention/4, MaxMargin) }

// MaxMargin is the longest Terms.Margin.
const MaxMargin = time.Hour
