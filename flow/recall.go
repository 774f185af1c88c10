package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

// Reason is an error which errors.Is still finds after the error was recorded. Return a Reason wherever a flow's
// function, or the caller, decides by an error of your own:
//
//	const errSoldOut = flow.Reason("sold out")
//
// An error is recorded in two cases: a step fails and the function goes on or returns, or the function gives up. The
// record keeps the text, the Reasons, and the errors from this package, package onceward and package context. A later
// caller of the flow finds these by errors.Is, as the first caller did.
//
// Two Reasons with the same text are one.
type Reason string

func (r Reason) Error() string { return string(r) }

// recorded are the errors which errors.Is finds in a recorded error, by their names
// in the journal. A name is never given to another error.
var recorded = []struct {
	name string
	err  error
}{
	{"pending", onceward.ErrPending},
	{"outcome_unknown", onceward.ErrOutcomeUnknown},
	{"not_sent", onceward.ErrNotSent},
	{"key_reused", onceward.ErrKeyReused},
	{"in_flight", onceward.ErrInFlight},
	{"answer_gone", onceward.ErrAnswerGone},
	{"journal", onceward.ErrJournal},
	{"journal_restored", onceward.ErrJournalRestored},
	{"credential_missing", onceward.ErrCredentialMissing},
	{"credential_refused", onceward.ErrCredentialRefused},
	{"invalid_request", onceward.ErrInvalidRequest},
	{"invalid_key", onceward.ErrInvalidKey},
	{"name_needed", onceward.ErrNameNeeded},
	{"unprotected", onceward.ErrUnprotected},
	{"redirected", onceward.ErrRedirected},
	{"moved", onceward.ErrMoved},
	{"retry_budget", onceward.ErrRetryBudget},
	{"shutdown", onceward.ErrShutdown},
	{"flow_failed", ErrFailed},
	{"flow_set_aside", ErrSetAside},
	{"flow_given_up", ErrGivenUp},
	{"flow_changed", ErrChanged},
	{"flow_input", ErrInput},
	{"flow_unregistered", ErrUnregistered},
	{"undo_blocked", ErrUndoBlocked},
	{"step", ErrStep},
	{"open_transaction", onceward.ErrOpenTransaction},
	{"withdrawn", onceward.ErrWithdrawn},
	{"cancelled", context.Canceled},
	{"deadline_exceeded", context.DeadlineExceeded},
}

// failure is what the journal keeps about an error, as JSON.
type failure struct {
	Text      string           `json:"error"`
	Is        []string         `json:"is,omitempty"`
	Reasons   []Reason         `json:"reasons,omitempty"`
	Operation *failedOperation `json:"operation,omitempty"` // of an *onceward.Error
}

type failedOperation struct {
	Seen  onceward.Seen `json:"seen"`
	State journal.State `json:"state"`
	Kind  string        `json:"kind"`
}

const maxReasons, maxReason = 8, 200

func encodeFailure(err error) []byte {
	f := failure{Text: recordable(err)}
	for _, known := range recorded {
		if errors.Is(err, known.err) {
			f.Is = append(f.Is, known.name)
		}
	}
	eachReason(err, func(r Reason) {
		if len(f.Reasons) < maxReasons && len(r) <= maxReason && !slices.Contains(f.Reasons, r) {
			f.Reasons = append(f.Reasons, r)
		}
	})
	if e, ok := errors.AsType[*onceward.Error](err); ok {
		f.Operation = &failedOperation{Seen: e.Operation.Seen, State: e.Operation.State, Kind: nameOfKind(e.Kind)}
	}
	encoded, _ := json.Marshal(f) // it has none that can't be encoded
	return encoded
}

// eachReason finds the Reasons in an error's tree.
func eachReason(err error, found func(Reason)) {
	if r, ok := err.(Reason); ok {
		found(r)
	}
	switch e := err.(type) {
	case ofOperation:
		eachReason(e.error, found)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			eachReason(one, found)
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			eachReason(inner, found)
		}
	}
}

func nameOfKind(kind error) string {
	for _, known := range recorded {
		if known.err == kind {
			return known.name
		}
	}
	return ""
}

func kindOfName(name string) error {
	for _, known := range recorded {
		if known.name == name {
			return known.err
		}
	}
	return nil
}

// recall makes an error from what the journal has about one. A text alone is one of an earlier
// release.
func recall(encoded []byte) error {
	var f failure
	if err := json.Unmarshal(encoded, &f); err != nil || !bytes.HasPrefix(encoded, []byte(`{"error":`)) {
		return errors.New(string(encoded))
	}
	e := &recalled{text: f.Text}
	for _, name := range f.Is {
		if kind := kindOfName(name); kind != nil {
			e.is = append(e.is, kind)
		}
	}
	for _, r := range f.Reasons {
		e.is = append(e.is, r)
	}
	if op := f.Operation; op != nil {
		if kind := kindOfName(op.Kind); kind != nil {
			e.is = append(e.is, &onceward.Error{Operation: onceward.Operation{Seen: op.Seen, State: op.State}, Kind: kind})
		}
	}
	return e
}

// recalled is an error from the journal.
type recalled struct {
	text string
	is   []error
}

func (e *recalled) Error() string   { return e.text }
func (e *recalled) Unwrap() []error { return e.is }

// gaveUpFor returns the recorded error from a flow's own GiveUp, or nil.
func gaveUpFor(steps []journal.StepRecord) error {
	for i := range steps {
		if steps[i].Kind == journal.StepGaveUp {
			return recall(steps[i].Result)
		}
	}
	return nil
}

// returned is what a finished flow's function returned, as JSON, or nil.
func returned(steps []journal.StepRecord) []byte {
	for i := range steps {
		if steps[i].Kind == journal.StepReturned {
			return steps[i].Result
		}
	}
	return nil
}
