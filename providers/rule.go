package providers

import (
	"math"
	"strings"

	"github.com/onceward/onceward/internal/words"
)

// Rule matches one kind of answer. All conditions must hold. A condition with the zero value always
// holds.
type Rule struct {
	// Status is the answer's status code, or, with Through, the first of a range: {Status: 500, Through:
	// 599}. Zero means any.
	Status, Through int

	// Header is a required response header, there once or with the same value each time. Value, if not empty,
	// is the required value. Case does not matter.
	Header, Value string

	// Field is a dotted path to a string, number or boolean in a JSON body: "error.code", "errors[].reason" for any
	// array element, or "data.*.code" for any object member. Equals is the text of the field, compared exactly. If
	// Equals is empty, the field must exist. The field is missing if the body is not JSON, is cut short, or names the
	// field twice. If Answers lists a type that ends in xml, an answer in XML has the fields of the elements within the
	// root: "Errors.Error.Code".
	//
	// One element or member with the text is enough, unless the verdict is Rejected or NotExecuted. These say that the
	// attempt had no effect, so all elements must have the text, and * must be the only member of the object.
	Field, Equals string

	// Without is a path, as of Field, that must lead to nothing: to no member at all, or only to null, "", {}
	// or []. An object, a list and a scalar count alike. An answer without a body has nothing. A rule with
	// Without does not match a body that can't be read as JSON.
	//
	// A rule for a 2xx that says Rejected or NotExecuted needs Without if the answer may have a result beside the
	// errors, as GraphQL's may.
	Without string

	// On restricts the rule to a first or a later attempt.
	On Occasion

	// Verdict is the answer's meaning.
	Verdict Verdict

	// Pointer is the path of the field with the resource's name. AlreadyDone requires a Pointer. An answer without
	// the field, or with several in an array or object, does not match.
	Pointer string

	// Credential, with Rejected, means: the credential itself was refused, and other requests with this credential
	// will be refused too. 401 and 407 need no such mark.
	Credential bool

	// Source is the source of the fact.
	Source string
}

// Occasion defines the attempts to which a rule applies.
type Occasion uint8

const (
	// AnyAttempt is the first and every later attempt.
	AnyAttempt Occasion = iota

	// FirstAttempt: no earlier attempt under this key can have run.
	FirstAttempt

	// LaterAttempt: an earlier attempt under this key may have run.
	LaterAttempt

	// FirstAttemptOwnKey: as FirstAttempt, and the client made the key at random for this operation. Neither
	// a caller nor another process can have sent it. A key derived from a secret and a name does not count,
	// because the operation would get the same key again after the loss of a journal.
	FirstAttemptOwnKey
)

var occasionNames = [...]string{
	AnyAttempt:         "any attempt",
	FirstAttempt:       "first attempt",
	LaterAttempt:       "later attempt",
	FirstAttemptOwnKey: "first attempt, with a key made for it",
}

// String returns the occasion in words, "first attempt" for FirstAttempt.
func (o Occasion) String() string { return words.Of("occasion", occasionNames[:], o) }

func (o Occasion) valid() bool { return o <= FirstAttemptOwnKey }

// covers reports whether o includes every occasion of p.
func (o Occasion) covers(p Occasion) bool {
	return o == AnyAttempt || o == p || o == FirstAttempt && p == FirstAttemptOwnKey
}

// needsAll reports whether every array element, or an object's only member, must have the text.
func (r Rule) needsAll() bool {
	return (r.Verdict == Rejected || r.Verdict == NotExecuted) && strings.ContainsAny(r.Field, "[*")
}

// excludes reports whether a value at a path means that another path does not lead to nothing.
func excludes(path, without string) bool {
	at, parent := strings.Split(path, "."), strings.Split(without, ".")
	if len(parent) > len(at) {
		return false
	}
	for i, step := range parent {
		name, array := strings.CutSuffix(step, "[]")
		in, inArray := strings.CutSuffix(at[i], "[]")
		last := i == len(parent)-1
		if name != "*" && name != in || array != inArray && (array || !last) {
			return false
		}
	}
	return true
}

// statuses returns the closed range of status codes to which the rule applies.
func (r Rule) statuses() (first, last int) {
	switch {
	case r.Status == 0:
		return math.MinInt, math.MaxInt
	case r.Through == 0:
		return r.Status, r.Status
	}
	return r.Status, r.Through
}

// covers reports whether r matches every answer that o matches.
func (r Rule) covers(o Rule) bool {
	first, last := r.statuses()
	oFirst, oLast := o.statuses()
	return first <= oFirst && last >= oLast &&
		r.On.covers(o.On) &&
		(r.Header == "" || strings.EqualFold(r.Header, o.Header) && (r.Value == "" || strings.EqualFold(r.Value, o.Value))) &&
		(r.Field == "" || r.Field == o.Field && (r.Equals == "" || r.Equals == o.Equals) && (!r.needsAll() || o.needsAll())) &&
		(r.Without == "" || r.Without == o.Without) &&
		r.Verdict != AlreadyDone // which also needs its pointer
}
