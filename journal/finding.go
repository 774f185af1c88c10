package journal

import (
	"strings"
	"time"

	"github.com/onceward/onceward/internal/words"
)

// Finding is a look-up's or an event's result about one generation of an operation.
type Finding uint8

const (
	// FindingInconclusive settles nothing. Evidence.Why says what was missing.
	FindingInconclusive Finding = iota + 1
	// FindingAmbiguous: several objects may be the operation's, or one contradicts the operation.
	FindingAmbiguous
	// FindingAbsent: there is no object.
	FindingAbsent
	// FindingInProgress: the provider has the request and has not decided.
	FindingInProgress
	// FindingRefused: the provider processed the request and nothing took effect.
	FindingRefused
	// FindingTookEffect: the request took effect.
	FindingTookEffect
	// FindingReversed: the request took effect, and the effect was later reversed.
	FindingReversed
)

var findingNames = [...]string{"", "inconclusive", "ambiguous", "absent", "in progress", "refused", "took effect", "reversed"}

func (f Finding) String() string { return words.Of("Finding", findingNames[:], f) }

// TookEffect reports whether there was an effect. A reversed effect counts.
func (f Finding) TookEffect() bool { return f == FindingTookEffect || f == FindingReversed }

// Basis is the link between evidence and the operation, the weakest first. Evidence settles an operation only by the
// operation's mark, or as the finding of the program's own look-up, which ranks like a person.
type Basis uint8

const (
	BasisNone      Basis = iota // no found object belongs to the operation
	BasisFields                 // only fields agree, or a caller's reference shared with another operation: no mark
	BasisPerson                 // a person's decision
	BasisReference              // the reference made for the generation; a caller's reference that no other operation ever had; or the one object named by the request
	BasisKey                    // the operation's key
)

var basisNames = [...]string{"nothing", "fields", "a person", "our reference", "key"}

func (b Basis) String() string { return words.Of("Basis", basisNames[:], b) }

// The sources of evidence.
const (
	SourceLook  = "look"  // a look-up of ours
	SourceEvent = "event" // a provider's signed event
	SourceHook  = "hook"  // the program's own look-up
)

// Evidence is a finding about an operation from another source than the answer to an attempt. Evidence has no secret,
// no key and no body, except in Answer.
type Evidence struct {
	At         time.Time
	Generation int
	Source     string // one of the sources
	Actor      string // the process or person
	Target     string // the look-up's URL, without the query
	Status     int    // the look-up's answer
	Pages      int
	Finding    Finding
	Basis      Basis
	Object     string // each found object's kind and id, joined by ", "; "" if there is none
	Digest     string // digest of the read bytes
	Rule       string // source of the deciding fact
	Why        string // what was missing for a conclusive finding; else ""

	// Answer is the answer if this evidence completes the operation, kept only until the claim has ended.
	Answer *Answer
}

// Objects returns each found object's kind and id. Several objects may belong to one operation.
func (e *Evidence) Objects() []string {
	if e.Object == "" {
		return nil
	}
	return strings.Split(e.Object, ", ")
}

// Round identifies an earlier generation's object.
type Round struct {
	Generation     int
	Key, Reference string
}

// Field is a part of the request. An operation's object must agree with each Field.
type Field struct{ Name, Value string }

// OwnCredential is an operation's Account if only the credential shows the account. A look-up with the same credential
// is in the same account.
const OwnCredential = "(of its own credential)"

// Unsigned is an operation's Credential until one is recorded. No attempt is sent before, so none has been sent.
const Unsigned = "(unsigned)"

// NoKind stands before an object's id if the kind is not known.
const NoKind = "object"

// SameObject reports whether two names are one object's at a provider. A name has a kind, a space and an id. The ids are
// the same, and the kinds too, unless one is [NoKind]. An answer names no kind if the table has none, and the program's
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
