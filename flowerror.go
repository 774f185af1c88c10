package onceward

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/secret"
)

// The kinds of FlowError, beside those of Error.
var (
	// ErrFlowFailed: the flow's function failed, with an error that is in the chain. The
	// flow is run again at Flow.DueAt, by Run or by whoever asks for it then.
	ErrFlowFailed = errors.New("the flow failed")

	// ErrFlowSetAside: the flow failed too often and is not run any more: see its
	// History, RetryFlow and GiveUpFlow.
	ErrFlowSetAside = errors.New("the flow is set aside")

	// ErrFlowGivenUp: the flow was given up, and what was made is undone. A new try is
	// another name.
	ErrFlowGivenUp = errors.New("the flow is given up")

	// ErrFlowChanged: the function does not make the steps that are recorded:
	// FlowError.Step was renamed, moved or removed, is of another kind, or returns
	// something else. It is not guessed what that means for a flow that is under way:
	// run it by the function that it was begun with, under that one's version.
	ErrFlowChanged = errors.New("the flow's function makes other steps than it did")

	// ErrFlowInput: the flow's input can't be made JSON, or what is recorded of it is
	// no longer what the function takes.
	ErrFlowInput = errors.New("the flow's input can't be recorded or read")

	// ErrFlowUnregistered: no function of that name and version is in Config.Flows.
	ErrFlowUnregistered = errors.New("the flow's function is not registered")

	// ErrUndoBlocked: a flow that is given up can't be undone yet, or not by itself: an
	// operation has no outcome, or took effect in a step that did not come to its end.
	ErrUndoBlocked = errors.New("the flow can't be undone")

	// ErrStep: a step is made in a way that could not be resumed: outside a flow, in
	// another step, under a name that is taken or not allowed, at the same time as
	// another one without Parallel, or with a result that is not JSON.
	ErrStep = errors.New("the step could not be resumed")

	// ErrOpenTransaction: an operation was asked for in a LocalStep. Its record would
	// wait for the transaction that waits for it. Nothing was recorded or sent.
	ErrOpenTransaction = errors.New("no operation is made while a local step's transaction is open")
)

// FlowError is what a flow, a step of it, or a method of Client about one returns.
// errors.Is finds its Kind as well as its cause. Its text, and what the journal and the
// log keep of it, holds of the cause's text no query, user or fragment of a URL, and
// nothing that is called a credential or looks like one.
type FlowError struct {
	Flow Flow   // as it now stands; zero if it never got that far
	Step string // the step that it is about; "": none
	Kind error  // one of the Err… values of this package
	Err  error  // the cause; nil if Kind says it all
}

func (e *FlowError) Error() string {
	var b strings.Builder
	b.WriteString("onceward: ")
	if e.Flow.ID != "" {
		b.WriteString("flow " + e.Flow.ID)
		if e.Flow.Scope != "" {
			b.WriteString(", scope " + e.Flow.Scope)
		}
		b.WriteString(": ")
	}
	if e.Step != "" {
		fmt.Fprintf(&b, "step %s: ", e.Step)
	}
	b.WriteString(e.Kind.Error())
	if e.Flow.State == FlowSetAside && e.Kind != ErrFlowSetAside {
		fmt.Fprintf(&b, "; %v", ErrFlowSetAside)
	}
	if e.Flow.State == FlowWaiting && !e.Flow.DueAt.IsZero() {
		fmt.Fprintf(&b, "; due %s", e.Flow.DueAt.Format(time.RFC3339))
	}
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, ": %s", secret.Text(e.Err.Error()))
	case e.Flow.Cause != "":
		fmt.Fprintf(&b, ": %s", e.Flow.Cause)
	case e.Flow.GivenUpFor != "":
		fmt.Fprintf(&b, ": %s", e.Flow.GivenUpFor)
	}
	return b.String()
}

// Unwrap returns the kind and the cause, and ErrFlowSetAside if it is.
func (e *FlowError) Unwrap() []error {
	errs := []error{e.Kind}
	if e.Flow.State == FlowSetAside && e.Kind != ErrFlowSetAside {
		errs = append(errs, ErrFlowSetAside)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// GiveUp is what a flow's function returns to have the flow given up: what its steps
// made is undone, latest first, by the undo that each was given (see WithUndo), each
// once. It begins when every operation of the flow is completed or cancelled: until
// then the flow waits, and one that is unknown is to be resolved first. Then the flow
// is ErrFlowGivenUp, with err in its chain where it is given up at once. GiveUp returns
// nil for nil.
func GiveUp(err error) error {
	if err == nil {
		return nil
	}
	return &giveUp{err}
}

type giveUp struct{ err error }

func (e *giveUp) Error() string { return "the flow is to be given up: " + e.err.Error() }
func (e *giveUp) Unwrap() error { return e.err }

const maxRecordedError = 1000

// recordable is what the journal keeps of a flow's error: its text, without what may be
// a credential, and within a limit.
func recordable(err error) string { return recordableText(err.Error()) }

func recordableText(text string) string {
	text = strings.ToValidUTF8(secret.Text(text), "?")
	if len(text) > maxRecordedError {
		text = strings.ToValidUTF8(text[:maxRecordedError], "") + "…"
	}
	return text
}
