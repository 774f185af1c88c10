package providers

import (
	"fmt"
	"math"
	"strings"
)

// Rule reads one kind of answer. Its conditions all have to hold; one that is
// left at its zero value always does.
type Rule struct {
	// Status is the answer's status code, or with Through the first of a
	// range: {Status: 500, Through: 599}. 0 means any.
	Status, Through int

	// Header is a response header that has to be present, once or with the
	// same value each time. Value, if not empty, is what it has to say,
	// compared without regard to case.
	Header, Value string

	// Field is a dotted path to a string, number or boolean in a JSON body:
	// "error.code", "errors[].reason" for any element of an array, or
	// "data.*.code" for any member of an object. Equals is its text, compared
	// exactly; empty, the field has to be there. A body that is not JSON, or
	// cut short, or that names the field twice, has no field.
	Field, Equals string

	// Without is a path, as of Field, that has to lead to nothing.
	Without string

	// On restricts the rule to a first or a later attempt.
	On Occasion

	// Verdict is what such an answer means.
	Verdict Verdict

	// Pointer is, for AlreadyDone and there required, the path of the field
	// that names the resource. An answer without it, or with several in an
	// array or object, does not match.
	Pointer string

	// Credential says, of a Rejected, that it is the credential itself that was
	// refused: another request with it would be refused too. 401 and 407 say so
	// without it.
	Credential bool

	// Source names where the fact comes from.
	Source string
}

// Occasion says on which attempts a rule speaks.
type Occasion uint8

const (
	// AnyAttempt is the first and every later attempt.
	AnyAttempt Occasion = iota

	// FirstAttempt: no earlier attempt under this key can have run.
	FirstAttempt

	// LaterAttempt: an earlier attempt under this key may have run.
	LaterAttempt

	// FirstAttemptOwnKey: as FirstAttempt, and the key was made at random for this
	// operation, so that nobody else can have sent it: not a caller, and not from a secret
	// and a name, as the same operation would be given it again after a journal was lost.
	FirstAttemptOwnKey
)

// String returns the occasion in words, "first attempt" for FirstAttempt.
func (o Occasion) String() string {
	switch o {
	case AnyAttempt:
		return "any attempt"
	case FirstAttempt:
		return "first attempt"
	case LaterAttempt:
		return "later attempt"
	case FirstAttemptOwnKey:
		return "first attempt, with a key made for it"
	}
	return fmt.Sprintf("occasion(%d)", uint8(o))
}

func (o Occasion) valid() bool { return o <= FirstAttemptOwnKey }

// covers reports whether o is every occasion that p is.
func (o Occasion) covers(p Occasion) bool {
	return o == AnyAttempt || o == p || o == FirstAttempt && p == FirstAttemptOwnKey
}

// statuses is the closed range of status codes that the rule speaks of.
func (r Rule) statuses() (first, last int) {
	switch {
	case r.Status == 0:
		return math.MinInt, math.MaxInt
	case r.Through == 0:
		return r.Status, r.Status
	}
	return r.Status, r.Through
}

// covers reports whether every answer that o matches is matched by r too.
func (r Rule) covers(o Rule) bool {
	first, last := r.statuses()
	oFirst, oLast := o.statuses()
	return first <= oFirst && last >= oLast &&
		r.On.covers(o.On) &&
		(r.Header == "" || strings.EqualFold(r.Header, o.Header) && (r.Value == "" || strings.EqualFold(r.Value, o.Value))) &&
		(r.Field == "" || r.Field == o.Field && (r.Equals == "" || r.Equals == o.Equals)) &&
		(r.Without == "" || r.Without == o.Without) &&
		r.Verdict != AlreadyDone // which also needs its pointer
}
