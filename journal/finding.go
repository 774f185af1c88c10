package journal

import (
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
	// FindingAbsent means that there is no object.
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
	SourceLook  = "look"  // a look-up of ours
	SourceEvent = "event" // a signed event of the provider's
	SourceHook  = "hook"  // the program's own look-up
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

// Round identifies the object of an earlier generation.
type Round struct {
	Generation     int
	Key, Reference string
}

// Field is a part of the request that an object of this operation must agree with.
type Field struct{ Name, Value string }

// OwnCredential is the Account of an operation if only the credential shows it. A look-up with the same credential is
// in the same account, whichever that is.
const OwnCredential = "(of its own credential)"

// Unsigned is the Credential of an operation until it has one. No attempt is sent before its credential is recorded, so
// none has been sent.
const Unsigned = "(unsigned)"

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
