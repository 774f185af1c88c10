package journal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is what a look or an event told of one generation of an operation.
type Finding uint8

const (
	// FindingInconclusive: nothing can be told. Evidence.Why says what was missing.
	FindingInconclusive Finding = iota + 1
	// FindingAmbiguous: more than one object may be this operation's, or one contradicts it.
	FindingAmbiguous
	// FindingAbsent: there is no object, and Absence says what that is worth.
	FindingAbsent
	// FindingInProgress: the provider has it and has not decided.
	FindingInProgress
	// FindingRefused: the provider did its work and nothing took effect.
	FindingRefused
	// FindingTookEffect: it took effect.
	FindingTookEffect
	// FindingReversed: it took effect, and that was taken back later.
	FindingReversed
)

var findingNames = [...]string{"", "inconclusive", "ambiguous", "absent", "in progress", "refused", "took effect", "reversed"}

func (f Finding) String() string {
	if f > 0 && int(f) < len(findingNames) {
		return findingNames[f]
	}
	return fmt.Sprintf("Finding(%d)", f)
}

// TookEffect reports whether the finding says that there was an effect: one that was
// taken back later had taken place.
func (f Finding) TookEffect() bool { return f == FindingTookEffect || f == FindingReversed }

// Basis is what ties evidence to the operation, the weakest first. Only a mark of the operation settles it, or
// the word of the program's own look-up, which ranks like a person.
type Basis uint8

const (
	BasisNone      Basis = iota // nothing was found that could be tied to it
	BasisFields                 // fields that agree, and the caller's reference if another operation has it: no mark
	BasisPerson                 // somebody's word
	BasisReference              // the reference that was made for its generation, or one of the caller's that no other operation ever had; the one object that the request names
	BasisKey                    // its key
)

var basisNames = [...]string{"nothing", "fields", "a person", "our reference", "key"}

func (b Basis) String() string {
	if int(b) < len(basisNames) {
		return basisNames[b]
	}
	return fmt.Sprintf("Basis(%d)", b)
}

// The sources of evidence.
const (
	SourceLook   = "look"   // a look-up of ours
	SourceEvent  = "event"  // a signed event of the provider's
	SourceHook   = "hook"   // the program's own look-up
	SourceRepeat = "repeat" // a repeat under its own reference, by an earlier release
)

// Evidence is what was seen of an operation, elsewhere than in the answer to an attempt
// of it. It has no secret, no key and no body, but for Answer.
type Evidence struct {
	At         time.Time
	Generation int
	Source     string // one of the sources
	Actor      string // who looked or heard: a process, a person
	Target     string // what was looked at, without its query
	Status     int    // of the answer to the look
	Pages      int
	Finding    Finding
	Basis      Basis
	Object     string // kind and id of what was found, several by ", "; "" where nothing was
	Digest     string // of what was read
	Rule       string // source of the fact by which it was read
	Why        string // of what is not conclusive, what was missing; else ""

	// Answer is what is handed over if this completes the operation, while that is not
	// decided: as long as a claim is out.
	Answer *Answer
}

// Objects are kind and id of each object that was found: several, where they may be one
// operation's.
func (e *Evidence) Objects() []string {
	if e.Object == "" {
		return nil
	}
	return strings.Split(e.Object, ", ")
}

// maxEvidence is how much of it an operation keeps: the first and the latest.
const maxEvidence = 9

// MaxEvidenceAnswer is how large an answer's body is, in bytes, that is kept with evidence
// until the claim ends: of a larger one, the answer is kept as Omitted.
const MaxEvidenceAnswer = 64 << 10

// EvidenceKeep is how long an operation of which there is evidence, one that would be gone and may be
// named by an event, and the memory of an
// event that was heard, are kept at least: providers repeat their events for up to 30 days.
const EvidenceKeep = 35 * 24 * time.Hour

// Round is what an earlier generation could be recognised by.
type Round struct {
	Generation     int
	Key, Reference string
}

// maxRounds is how many earlier generations are kept, the latest.
const maxRounds = 16

// Field is a part of the request that an object which is this operation's has to agree with.
type Field struct{ Name, Value string }

// Absence is what is known of a look that found nothing. Nothing is proven by what is
// left zero.
type Absence struct {
	// Began is when the look began, by the asker's clock.
	Began time.Time
	// Whole: the answer was a 2xx, its list was there, and every page was read.
	Whole bool
	// ByRequest: what was looked for really was in the frozen request, and can't have
	// been changed since.
	ByRequest bool
	// Consistent: what exists is visible at once. Else it is after VisibleAfter, 0: not
	// stated.
	Consistent   bool
	VisibleAfter time.Duration
	// Horizon is how old an object is that the look may not show any more; 0: none is.
	Horizon time.Duration
	// Handling is today's word on how long one request is worked on at most; 0: not
	// stated. Terms.Handling counts too, and the longer one of the two.
	Handling time.Duration
	// Control is when a completed operation was first sent that the same look found, in
	// the same account and by the same path, and which its own answer completed; zero: none.
	Control time.Time
	// Account is the proven identity that was looked as; "": not proven.
	Account string
	// Skewed: the provider's clock and ours were apart by more than the margin, at some time.
	Skewed bool
}

// By says what an operation is looked up by.
type By uint8

const (
	ByKey By = iota + 1
	ByReference
	ByObject
)

var byNames = [...]string{"", "key", "reference", "object"}

func (b By) String() string {
	if b > 0 && int(b) < len(byNames) {
		return byNames[b]
	}
	return fmt.Sprintf("By(%d)", b)
}

// Match is an operation that was found by what it can be recognised by, and in which of
// its generations.
type Match struct {
	Operation  Operation // without bodies
	Generation int
}

// Heard names an event of a provider's.
type Heard struct {
	Provider, Account string
	ID                string // the event's own, or a digest that stands for it
}

// Reconciler is what a Journal does besides that finds out what became of unknown
// operations. It is optional: without it nothing is looked for. Its methods are safe for
// concurrent use as the Journal's are, and refuse with ErrRestored as it does what
// decides: Looks and Hear.
//
// An object proves one operation: before it runs Next on an EventEvidence that names one, a
// Reconciler sets Event.Taken where another operation of the provider and account is proven
// by it (Operation.Proves), reaped ones included; likewise for an EventResolve that names one; and for an EventComplete, where
// evidence proved the other. For an EventEvidence that shows a caller's Reference it sets Event.Sole, unless another
// operation of the provider and account has that, or had it before it was reaped.
//
// This interface does not grow.
type Reconciler interface {
	// Looks applies ev, of kind EventLook and without Ref, in one commit to at most limit
	// unknown operations whose look is due at ev.At, those due longest coming first,
	// passing over those that ev.From leaves out. The results are whole, bodies included.
	Looks(ctx context.Context, ev Event, limit int) ([]Result, error)

	// Hear records that an event was heard and applies evs, of the kinds EventEvidence and
	// EventHint, in one commit. Where it was heard before, and remembered, nothing is done
	// and first is false. An event that Next refuses is reported by its *EventError, and
	// nothing of the others is recorded. It remembers for EvidenceKeep at least.
	Hear(ctx context.Context, heard Heard, evs []Event) (results []Result, first bool, err error)

	// FindBy returns the operations of the provider that can be recognised by value, in
	// whichever state, tombstones included, those created first coming first. It finds by
	// key, reference and object those that are unsettled, and every one that has a
	// reference, an object or evidence; others, whose answer came without anything of
	// this, it need not.
	FindBy(ctx context.Context, provider string, by By, value string) ([]Match, error)
}

// RoundBy returns the latest generation of the operation which can be recognised by value
// and of which something may have been sent, and whether there is one. By an object the generation may be that of the
// operation's answer, which has to be there then; whether there is one does not depend on it.
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
		if slices.Contains(e.Objects(), object) {
			return e.Generation, true
		}
	}
	switch {
	case op.Object != object:
		return 0, false
	case op.Answer != nil:
		return op.Answer.Generation, true
	}
	return op.Generation, true
}

// OwnCredential is the Account of an operation where only the credential tells whose it is: a look
// with the same one is in its account, whichever that is.
const OwnCredential = "(of its own credential)"

// isName: the account is known by a name of the provider's.
func isName(account string) bool { return account != "" && account != OwnCredential }

// Proves reports whether the operation is proven by this object, in this account, or will
// be once its claim has ended. An account that is not known is every account.
func (op *Operation) Proves(account, object string) bool {
	return op.MayBeIn(account) && (sameObject(op.Object, object) || slices.ContainsFunc(op.Evidence, func(e Evidence) bool { return e.Finding.TookEffect() && sameObject(e.Object, object) }))
}

// MayBeIn reports whether the operation may be one of the account. One that is not known may be every account's.
func (op *Operation) MayBeIn(account string) bool {
	return !isName(account) || !isName(op.Account) || account == op.Account
}

// NoKind is the word before the id of an object whose kind nothing states.
const NoKind = "object"

// sameObject compares what two of those say who name an operation's objects. Where one of them knows no kind, the ids are
// all that there is to compare: an answer names no kind where its table has none, and a program's own look-up may.
func sameObject(a, b string) bool {
	if a == b {
		return true
	}
	kind, id, _ := strings.Cut(a, " ")
	other, otherID, _ := strings.Cut(b, " ")
	return (kind == NoKind || other == NoKind) && id == otherID
}
