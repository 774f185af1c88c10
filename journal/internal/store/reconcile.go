package store

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// CheckLooks refuses an event that Looks can't take, with a *machine.EventError.
func CheckLooks(ev machine.Event) error {
	if ev.Kind != machine.EventLook || ev.At.IsZero() || ev.Due.IsZero() {
		return &machine.EventError{Kind: ev.Kind, Reason: "Looks needs a look, the caller's clock and Due, the end of the lease"}
	}
	return nil
}

// CheckEvent does so for RecordEvent.
func CheckEvent(heard machine.Heard, evs []machine.Event) error {
	if heard.ID == "" {
		return &machine.EventError{Kind: machine.EventEvidence, Reason: "RecordEvent needs the event's ID, or a digest in its place"}
	}
	for _, ev := range evs {
		if ev.Kind != machine.EventEvidence && ev.Kind != machine.EventHint || ev.At.IsZero() {
			return &machine.EventError{Kind: ev.Kind, Reason: "RecordEvent needs evidence and hints, and the caller's clock"}
		}
	}
	return nil
}

// LookIsDue tells whether a Looks at that time takes the operation.
func LookIsDue(ev machine.Event, op *journal.Operation) bool {
	return op.State == journal.StateUnknown && !op.LookAt.IsZero() && !op.LookAt.After(ev.At) &&
		(ev.From == nil || slices.Contains(ev.From, op.Provider))
}

// HeardBefore returns the time before which an EventReap may forget heard events. passed is the time that has passed
// for the EventReap.
func HeardBefore(keep time.Duration, passed time.Time) time.Time {
	return passed.Add(-max(keep, machine.EvidenceKeep))
}

// NamesObject tells whether the event is one whose object may be taken.
func NamesObject(ev machine.Event) bool {
	return ev.Object != "" && (ev.Kind == machine.EventEvidence || ev.Kind == machine.EventComplete || ev.Kind == machine.EventResolve)
}

// ByFound is for objects that a look or an event found.
const ByFound machine.By = 255

// TakenBy returns the kind of marks for a search after ev's object. Only a found object contradicts the object in an
// operation's own answer.
func TakenBy(ev machine.Event) machine.By {
	if ev.Kind == machine.EventComplete {
		return ByFound
	}
	return machine.ByObject
}

// Takes tells whether other is proven by the object that ev names for op.
func Takes(other, op *journal.Operation, ev machine.Event) bool {
	account := cmp.Or(op.Account, ev.Account)
	if other.Handle == op.Handle || other.Provider != op.Provider || !machine.Proves(other, account, ev.Object) {
		return false
	}
	return ev.Kind != machine.EventComplete || slices.ContainsFunc(other.Evidence, func(e journal.Evidence) bool {
		return e.Finding.TookEffect() && journal.SameObject(e.Object, ev.Object)
	})
}

// ByReaped is for the callers' references of removed operations.
const ByReaped machine.By = 254

// Reaped returns the mark that stays after an operation's removal, and whether there is one. A later operation with
// the same caller's reference is then not the reference's only operation.
func Reaped(op *journal.Operation) (m Mark, is bool) {
	return reapedAs(op.Provider, op.Reference), op.Reference != "" && !op.ReferenceOurs
}

func reapedAs(provider, reference string) Mark { return Mark{ByReaped, provider + "\x00" + reference} }

// NamesReference reports whether the event shows a caller's reference. NamesReference returns the marks from reaped
// operations with the same reference.
func NamesReference(op *journal.Operation, ev machine.Event) (reaped []Mark, is bool) {
	if ev.Kind != machine.EventEvidence || ev.Reference == "" {
		return nil, false
	}
	return []Mark{reapedAs(op.Provider, ev.Reference)}, true
}

// Shares reports whether other has, or had, op's reference in ev, in an account and mode that may be op's.
func Shares(other, op *journal.Operation, ev machine.Event) bool {
	return other.Handle != op.Handle && other.Provider == op.Provider && machine.MayBeIn(other, op.Account) &&
		(other.Mode == op.Mode || other.Mode == "" || op.Mode == "") &&
		(other.Reference == ev.Reference || slices.ContainsFunc(other.Rounds, func(r journal.Round) bool { return r.Reference == ev.Reference }))
}

// Mark is something that an operation is found by.
type Mark struct {
	By    machine.By
	Value string
}

// MarkValue returns the value for a search by marks. All names for one object have the same value: the id without a
// kind.
func MarkValue(by machine.By, value string) string {
	if by != machine.ByObject && by != ByFound {
		return value
	}
	if _, id, found := strings.Cut(value, " "); found {
		value = id
	}
	return journal.NoKind + " " + value
}

// AllMarks returns Marks, and MarkValue for each object. An earlier release's journal has only Marks.
func AllMarks(op *journal.Operation) []Mark {
	marks := Marks(op)
	for _, m := range marks {
		if m.Value = MarkValue(m.By, m.Value); !slices.Contains(marks, m) {
			marks = append(marks, m)
		}
	}
	return marks
}

// Marks are what the operation can be found by: in all its generations, each once.
func Marks(op *journal.Operation) (marks []Mark) {
	add := func(by machine.By, value string) {
		if m := (Mark{by, value}); value != "" && !slices.Contains(marks, m) {
			marks = append(marks, m)
		}
	}
	add(machine.ByKey, op.Key)
	add(machine.ByReference, op.Reference)
	for _, r := range op.Rounds {
		add(machine.ByKey, r.Key)
		add(machine.ByReference, r.Reference)
	}
	add(machine.ByObject, op.Object)
	for _, e := range op.Evidence {
		for _, object := range e.Objects() {
			add(machine.ByObject, object)
		}
		if e.Finding.TookEffect() {
			add(ByFound, e.Object)
		}
	}
	return marks
}

// Match returns an operation that a value found, with the operation's answer if there is one. The answer may be from
// an earlier generation than the latest.
func Match(op journal.Operation, by machine.By, value string) machine.Match {
	generation, _ := machine.RoundBy(&op, by, value)
	return machine.Match{Operation: op, Generation: generation}
}

// Marked reports whether marks must find an operation: the operation has no final outcome, or has a mark that other
// evidence may show.
func Marked(op *journal.Operation) bool {
	return op.State != journal.StateCompleted || op.Reference != "" || op.Object != "" || len(op.Evidence) > 0
}
