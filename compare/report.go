package compare

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/words"
	"github.com/onceward/onceward/journal"
)

// Report is a comparison's result. It has no request and no answer. The ID of an unnamed operation is a key.
type Report struct {
	// Operations is how many operations in the window should have an object at the provider. Matched is how many of these
	// have one in the list, and AmountsCompared how many of the matched ones had their amount compared.
	Operations, Matched, AmountsCompared int

	// Objects is how many objects in the window the provider listed. An object that is listed twice counts twice.
	Objects int

	// NotCompared counts the operations, amounts and objects that could not be compared, by the reason.
	NotCompared map[string]int

	// Unlisted counts the operations of each kind of object that the list has none of. Either the list is not about the
	// kind, and Options.Kinds should say so, or something is missing.
	Unlisted map[string]int

	// OnlyThere has the objects without an operation and without a mark, by their kind. Nobody is at fault: people also
	// use dashboards and other programs.
	OnlyThere map[string]Sum

	// UnsettledBefore is how many operations without an outcome were sent before the window.
	UnsettledBefore int

	// Findings are the differences: first the objects', in the list's order, then the operations', first sent
	// first. Hidden counts the known ones (Options.Known), and Omitted those beyond the first 10000.
	Findings        []Finding
	Hidden, Omitted int

	empty bool // Options.AllowEmpty
}

// maxFindings bounds the findings that are held.
const maxFindings = 10000

// Sum counts objects, and adds their amounts by currency, in the smallest unit. A total that is too large for an int64
// stays at the largest or least one. The sums inform and decide nothing: a payment and a refund cancel.
type Sum struct {
	Objects int
	Minor   map[string]int64
}

// OK reports whether the provider has what the journals have, as far as Run could compare. No finding is grave, each kind
// of object is in the list, and at least one operation was matched. Options.AllowEmpty lifts the last condition if no
// operation in the window should have an object. OK says nothing about NotCompared.
func (r *Report) OK() bool {
	if len(r.Unlisted) > 0 || r.Omitted > 0 {
		return false
	}
	for i := range r.Findings {
		if r.Findings[i].Grave {
			return false
		}
	}
	return r.Matched > 0 || r.empty && r.Operations == 0
}

// Finding is one difference between the provider and the journals.
type Finding struct {
	// ID names the difference. Another run gives the same difference the same ID. Another object, amount of the
	// object or gravity gives another ID.
	ID   string
	Kind Kind

	// Grave means that the finding makes the report not OK.
	Grave bool

	Ref     journal.Ref // of the operation; zero if there is none
	Journal int         // the operation's journal, an index in Options.Journals
	Object  string      // kind and id at the provider; "" if none is known

	// Here is the amount of the operation's request, There the object's. Either is zero if it is not known.
	Here, There Money

	At  time.Time // the object's time, or when the operation was first sent
	Why string    // what differs and what to do, in a sentence
}

// Kind says where an object or an outcome is.
type Kind uint8

const (
	// OnlyHere: an operation took effect, and the provider does not list its object.
	OnlyHere Kind = iota + 1
	// OnlyThere: the provider lists an object with a mark, and no operation with the mark took effect.
	OnlyThere
	// SeveralThere: the provider lists several objects for one operation.
	SeveralThere
	// OtherAmount: the object has another amount or currency than the operation's request.
	OtherAmount
	// ReversedThere: the operation took effect, and the object was reversed or refused.
	ReversedThere
	// Unsettled: the operation has no outcome.
	Unsettled
)

var kindNames = [...]string{"", "only_here", "only_there", "several_there", "other_amount", "reversed_there", "unsettled"}

func (k Kind) String() string { return words.Of("Kind", kindNames[:], k) }

// idOf returns a finding's ID.
func idOf(kind Kind, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return kind.String() + "-" + hex.EncodeToString(sum[:10])
}

func (s *Sum) add(m Money) {
	s.Objects++
	if m.Currency == "" {
		return
	}
	if s.Minor == nil {
		s.Minor = map[string]int64{}
	}
	total := s.Minor[m.Currency]
	switch {
	case m.Minor > 0 && total > math.MaxInt64-m.Minor:
		total = math.MaxInt64
	case m.Minor < 0 && total < math.MinInt64-m.Minor:
		total = math.MinInt64
	default:
		total += m.Minor
	}
	s.Minor[m.Currency] = total
}
