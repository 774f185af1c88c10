package machine

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// MaxEvidenceAnswer is the largest answer body kept with evidence until the claim ends, in bytes. A larger one
// makes the answer Omitted.
const MaxEvidenceAnswer = 64 << 10

// EvidenceKeep is how long the journal at least keeps the memory of a heard event, and operations with evidence or
// that an event may still name. Providers repeat their events for up to 30 days.
const EvidenceKeep = 35 * 24 * time.Hour

// Absence describes a look-up of the program's own that found nothing.
type Absence struct {
	// Began is when the look began, by the caller's clock.
	Began time.Time
	// Handling is the longest time that the provider works on one request, by today's table. Zero means not stated.
	// The longer of this and Terms.Handling counts.
	Handling time.Duration
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

// Match is an operation found by an identifying value, with the generation of the value.
type Match struct {
	Operation  journal.Operation // without bodies
	Generation int
}

// Heard identifies a provider's event.
type Heard struct {
	Provider, Account string
	ID                string // the event's own, or a digest that stands for it
}

// Reconciler is a Journal that can record what became of unknown operations. It is optional, and without a Reconciler
// no client looks for unknown operations. The methods are safe for concurrent use like the Journal's. Looks and
// RecordEvent return ErrRestored like the Journal's methods.
//
// An object proves one operation. So a Reconciler sets Event.Taken before Next if the event's object proves another
// operation of the provider and account (Operation.Proves), a reaped one included. This holds for an EventEvidence or
// EventResolve with an object, and for an EventComplete if evidence proved the other operation. For an EventEvidence
// with a caller's Reference, a Reconciler sets Event.Sole, unless another operation of the provider and account has
// the reference, or had it before it was reaped.
//
// This interface does not grow.
type Reconciler interface {
	// Looks applies ev, of kind EventLook and without Ref, in one commit to at most limit unknown operations with a
	// look-up due at ev.At. Operations that are due longest come first. Looks skips operations that ev.From excludes. The
	// results are whole, with bodies.
	Looks(ctx context.Context, ev Event, limit int) ([]Result, error)

	// RecordEvent records that an event was heard and applies evs, of the kinds EventEvidence and EventHint, in one commit.
	// If the journal remembers the event, RecordEvent does nothing and first is false. If Next refuses an event,
	// RecordEvent returns its *EventError and records nothing. The journal remembers an event for at least EvidenceKeep.
	RecordEvent(ctx context.Context, heard Heard, evs []Event) (results []Result, first bool, err error)

	// FindBy returns the provider's operations with the value, in any state, tombstones included, oldest first. An
	// object is the value of every name of it ([SameObject]). By key, reference and object, FindBy finds every unsettled
	// operation, and every one with a reference, an object or evidence. FindBy need not find others.
	FindBy(ctx context.Context, provider string, by By, value string) ([]Match, error)
}
