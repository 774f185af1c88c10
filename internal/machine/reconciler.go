package machine

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// MaxEvidenceAnswer is the largest body of an answer kept with evidence until the claim ends, in bytes. A larger one
// makes the answer Omitted.
const MaxEvidenceAnswer = 64 << 10

// EvidenceKeep is how long the journal at least keeps the memory of a heard event, and operations with evidence or
// that an event may still name. Providers repeat their events for up to 30 days.
const EvidenceKeep = 35 * 24 * time.Hour

// Absence describes a look-up that found nothing. A zero field proves nothing.
type Absence struct {
	// Began is when the look began, by the caller's clock.
	Began time.Time
	// Whole says that the answer was a 2xx, its list was there, and every page was read.
	Whole bool
	// ByRequest says that the searched value was in the frozen request, and can't have been changed since.
	ByRequest bool
	// Consistent says that an object is visible at once. Otherwise it is visible after VisibleAfter. Zero means not
	// stated.
	Consistent   bool
	VisibleAfter time.Duration
	// Horizon is an age: the look-up may no longer show objects that are as old or older. Zero means no limit.
	Horizon time.Duration
	// Handling is the longest time that the provider works on one request, by today's table. Zero means not stated.
	// The longer of this and Terms.Handling counts.
	Handling time.Duration
	// Control is the time of the first send of the canary. That is a completed operation that the same look-up found,
	// in the same account and by the same path, and that its own answer completed. Zero means that there is none.
	Control time.Time
	// Account is the proven identity of the look-up's credential. Empty means that it is not proven.
	Account string
	// Skewed says that the provider's clock and ours differed by more than the margin at some time.
	Skewed bool
}

// By selects the value for a look-up in the journal.
type By uint8

const (
	ByKey By = iota + 1
	ByReference
	ByObject
)

var byNames = [...]string{"", "key", "reference", "object"}

func (b By) String() string { return words.Of("By", byNames[:], b) }

// Match is an operation found by one of its identifying values, with the generation that has the value.
type Match struct {
	Operation  journal.Operation // without bodies
	Generation int
}

// Heard identifies an event of a provider.
type Heard struct {
	Provider, Account string
	ID                string // the event's own, or a digest that stands for it
}

// Reconciler is a Journal that can record what became of unknown operations. It is optional: without it no client
// looks for them. Its methods are safe for concurrent use like the Journal's. Looks and Hear return ErrRestored like
// them.
//
// An object proves one operation. So a Reconciler sets Event.Taken before it runs Next if another operation of the
// provider and account is proven by the event's object (Operation.Proves), reaped ones included. It does so for an
// EventEvidence or EventResolve that names an object, and for an EventComplete if evidence proved the other operation.
// For an EventEvidence that shows a caller's Reference it sets Event.Sole, unless another operation of the provider
// and account has that reference, or had it before it was reaped.
//
// This interface does not grow.
type Reconciler interface {
	// Looks applies ev, of kind EventLook and without Ref, in one commit to at most limit unknown operations whose
	// look-up is due at ev.At, those due longest first. It skips those that ev.From excludes. The results are whole,
	// with bodies.
	Looks(ctx context.Context, ev Event, limit int) ([]Result, error)

	// Hear records that an event was heard and applies evs, of the kinds EventEvidence and EventHint, in one commit.
	// If the journal remembers the event, Hear does nothing and first is false. If Next refuses an event, Hear returns
	// its *EventError and records nothing. It remembers an event for at least EvidenceKeep.
	Hear(ctx context.Context, heard Heard, evs []Event) (results []Result, first bool, err error)

	// FindBy returns the operations of the provider that have the value, in any state, tombstones included, those
	// created first coming first. An object is the value of every name of it ([SameObject]). It finds by key, reference and object every unsettled operation, and every one with
	// a reference, an object or evidence. It need not find others.
	FindBy(ctx context.Context, provider string, by By, value string) ([]Match, error)
}
