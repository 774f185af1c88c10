package journal

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Finding is the result of a look-up or an event about one generation of an operation.
type Finding uint8

const (
	// FindingInconclusive settles nothing. Evidence.Why says what was missing.
	FindingInconclusive Finding = iota + 1
	// FindingAmbiguous means that several objects may be the operation's, or that one contradicts it.
	FindingAmbiguous
	// FindingAbsent means that there is no object. Absence says what that proves.
	FindingAbsent
	// FindingInProgress means that the provider has the request and has not decided.
	FindingInProgress
	// FindingRefused means that the provider processed the request and nothing took effect.
	FindingRefused
	// FindingTookEffect means that it took effect.
	FindingTookEffect
	// FindingReversed means that it took effect and the effect was later reversed.
	FindingReversed
)

var findingNames = [...]string{"", "inconclusive", "ambiguous", "absent", "in progress", "refused", "took effect", "reversed"}

func (f Finding) String() string { return words.Of("Finding", findingNames[:], f) }

// TookEffect reports whether there was an effect. A reversed effect counts.
func (f Finding) TookEffect() bool { return f == FindingTookEffect || f == FindingReversed }

// Basis is the link between evidence and the operation, the weakest first. Evidence settles an operation only by a
// mark of it, or as the finding of the program's own look-up, which ranks like a person.
type Basis uint8

const (
	BasisNone      Basis = iota // nothing was found that belongs to it
	BasisFields                 // only fields agree, or the caller's reference if another operation has it: no mark
	BasisPerson                 // a person's decision
	BasisReference              // the reference made for its generation; a caller's that no other operation ever had; or the one object that the request names
	BasisKey                    // its key
)

var basisNames = [...]string{"nothing", "fields", "a person", "our reference", "key"}

func (b Basis) String() string { return words.Of("Basis", basisNames[:], b) }

// The sources of evidence.
const (
	SourceLook   = "look"   // a look-up of ours
	SourceEvent  = "event"  // a signed event of the provider's
	SourceHook   = "hook"   // the program's own look-up
	SourceRepeat = "repeat" // a repeat under its own reference, by an earlier release
)

// Evidence is a finding about an operation from another source than the answer to its own attempt. It has no secret,
// no key and no body, except in Answer.
type Evidence struct {
	At         time.Time
	Generation int
	Source     string // one of the sources
	Actor      string // the process or person that looked or heard
	Target     string // the URL of the look-up, without its query
	Status     int    // of the look-up's answer
	Pages      int
	Finding    Finding
	Basis      Basis
	Object     string // kind and id of each found object, joined by ", "; "" if there is none
	Digest     string // of the bytes that were read
	Rule       string // source of the fact that decided
	Why        string // what was missing for a conclusive finding; else ""

	// Answer is the answer if this evidence completes the operation. It is kept only until the claim has ended.
	Answer *Answer
}

// Objects returns kind and id of each found object. Several may belong to one operation.
func (e *Evidence) Objects() []string {
	if e.Object == "" {
		return nil
	}
	return strings.Split(e.Object, ", ")
}

// maxEvidence limits the evidence that an operation keeps: the first and the latest.
const maxEvidence = 9

// MaxEvidenceAnswer is the largest body of an answer kept with evidence until the claim ends, in bytes. A larger one
// makes the answer Omitted.
const MaxEvidenceAnswer = 64 << 10

// EvidenceKeep is how long the journal at least keeps the memory of a heard event, and operations with evidence or
// that an event may still name. Providers repeat their events for up to 30 days.
const EvidenceKeep = 35 * 24 * time.Hour

// Round identifies the object of an earlier generation.
type Round struct {
	Generation     int
	Key, Reference string
}

// maxRounds limits the earlier generations that are kept, the latest ones.
const maxRounds = 16

// Field is a part of the request that an object of this operation must agree with.
type Field struct{ Name, Value string }

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
	Operation  Operation // without bodies
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

// RoundBy returns the latest generation that has the value and may have been sent, and reports whether any has the
// value. If only the current generation has it, RoundBy returns that one, sent or not. By an object, it may return
// the generation of the operation's answer, which must be loaded then. Whether there is one does not depend on the
// answer.
func (op *Operation) RoundBy(by By, value string) (generation int, found bool) {
	if value == "" {
		return 0, false
	}
	if by == ByObject {
		return op.roundOfObject(value)
	}
	of := func(key, reference string) bool {
		return by == ByKey && key == value || by == ByReference && reference == value
	}
	if of(op.Key, op.Reference) {
		generation, found = op.Generation, true
		if op.MayHaveRun || op.State == StateInFlight {
			return generation, true
		}
	}
	for _, r := range slices.Backward(op.Rounds) {
		if of(r.Key, r.Reference) {
			return r.Generation, true
		}
	}
	return generation, found
}

func (op *Operation) roundOfObject(object string) (int, bool) {
	for _, e := range slices.Backward(op.Evidence) {
		if slices.ContainsFunc(e.Objects(), func(o string) bool { return SameObject(o, object) }) {
			return e.Generation, true
		}
	}
	switch {
	case op.Object == "" || !SameObject(op.Object, object):
		return 0, false
	case op.Answer != nil:
		return op.Answer.Generation, true
	}
	return op.Generation, true
}

// OwnCredential is the Account of an operation if only the credential shows it. A look-up with the same credential is
// in the same account, whichever that is.
const OwnCredential = "(of its own credential)"

// Unsigned is the Credential of an operation until it has one. No attempt is sent before its credential is recorded, so
// none has been sent.
const Unsigned = "(unsigned)"

// isName reports whether the account is known by a name of the provider's.
func isName(account string) bool { return account != "" && account != OwnCredential }

// Proves reports whether this object, in this account, proves the operation, or will once its claim has ended. An
// unknown account matches every account.
func (op *Operation) Proves(account, object string) bool {
	return op.MayBeIn(account) && (SameObject(op.Object, object) || slices.ContainsFunc(op.Evidence, func(e Evidence) bool { return e.Finding.TookEffect() && SameObject(e.Object, object) }))
}

// MayBeIn reports whether the operation may belong to the account. An unknown account may be any.
func (op *Operation) MayBeIn(account string) bool {
	return !isName(account) || !isName(op.Account) || account == op.Account
}

// NoKind is the word before the id of an object without a known kind.
const NoKind = "object"

// SameObject reports whether two names are of one object of a provider: a kind, a space and an id each. Both have the same
// id, and the same kind unless one has none ([NoKind]). An answer names no kind if its table has none, and the program's
// own look-up may name one.
func SameObject(a, b string) bool {
	if a == b {
		return true
	}
	kind, id := kindOf(a)
	other, otherID := kindOf(b)
	return (kind == NoKind || other == NoKind) && id == otherID
}

// kindOf returns the parts of an object's name. A bare id has no kind.
func kindOf(object string) (kind, id string) {
	kind, id, found := strings.Cut(object, " ")
	if !found {
		return NoKind, object
	}
	return kind, id
}
