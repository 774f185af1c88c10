package flow

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// The kinds of Error, beside those of onceward.Error.
var (
	// ErrFailed: the flow's function failed, with an error that is in the chain. The
	// flow is run again at Flow.DueAt, by Run or by whoever asks for it then.
	ErrFailed = errors.New("the flow failed")

	// ErrSetAside: the flow failed too often, or is ErrChanged, and is not run any more: see its
	// History, Runner.Retry and Runner.GiveUp.
	ErrSetAside = errors.New("the flow is set aside")

	// ErrGivenUp: the flow was given up, and what was made is undone. A new try is
	// another name.
	ErrGivenUp = errors.New("the flow is given up")

	// ErrChanged: the function does not make the steps that are recorded:
	// Error.Step was renamed, moved or removed, is of another kind, or returns
	// something else. It is not guessed what that means for a flow that is under way:
	// run it by the function that it was begun with, under that one's version. The flow is set aside at once, and
	// logged as that. A process that starts later, and has a function of that name and version, tries it once more.
	ErrChanged = errors.New("the flow's function makes other steps than it did")

	// ErrInput: the flow's input can't be made JSON, or what is recorded of it is
	// no longer what the function takes.
	ErrInput = errors.New("the flow's input can't be recorded or read")

	// ErrUnregistered: no function of that name and version is registered.
	ErrUnregistered = errors.New("the flow's function is not registered")

	// ErrUndoBlocked: a flow that is given up can't be undone yet, or not by itself: an
	// operation has no outcome, or took effect in a step that did not come to its end.
	ErrUndoBlocked = errors.New("the flow can't be undone")

	// ErrStep: a step is made in a way that could not be resumed: outside a flow, in
	// another step, in a goroutine that its function does not wait for, under a name that is taken or not allowed, at the same time as
	// another one without Parallel, or with a result that is not JSON.
	ErrStep = errors.New("the step could not be resumed")
)

// Error is what a flow, a step of it, or a method of Runner about one returns.
// errors.Is finds its Kind as well as its cause. Its text, and what the journal and the
// log keep of it, holds of the cause's text no query, user or fragment of a URL, and
// nothing that is called a credential or looks like one.
type Error struct {
	Flow Flow   // as it now stands; zero if it never got that far
	Step string // the step that it is about; "": none
	Kind error  // one of the Err… values of this package or of package onceward
	Err  error  // the cause; nil if Kind says it all
}

func (e *Error) Error() string {
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
	if e.Flow.State == StateSetAside && e.Kind != ErrSetAside {
		fmt.Fprintf(&b, "; %v", ErrSetAside)
	}
	if e.Flow.State == StateWaiting && !e.Flow.DueAt.IsZero() {
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

// Unwrap returns the kind and the cause, and ErrSetAside if it is. While the flow has not ended, errors.Is does not find
// onceward.ErrAnswerGone and onceward.ErrKeyReused of one of its operations: of the flow itself they would be final.
func (e *Error) Unwrap() []error {
	errs := []error{e.Kind}
	if e.Flow.State == StateSetAside && e.Kind != ErrSetAside {
		errs = append(errs, ErrSetAside)
	}
	switch {
	case e.Err != nil && e.Flow.State.Ended():
		errs = append(errs, e.Err)
	case e.Err != nil:
		errs = append(errs, ofOperation{e.Err})
	}
	return errs
}

// ofOperation is the cause of a flow's error, in which errors.Is finds nothing that its caller would take for the end of
// the flow.
type ofOperation struct{ error }

func (e ofOperation) Is(target error) bool {
	return target != onceward.ErrAnswerGone && target != onceward.ErrKeyReused && errors.Is(e.error, target)
}

func (e ofOperation) As(target any) bool { return errors.As(e.error, target) }

// GiveUp makes the error by which a flow's function has the flow given up. What the steps
// made is undone by the undo that each was given (see [WithUndo]), each once and the latest
// first: a saga with compensations. Undoing begins when every operation of the flow is
// completed or cancelled. Until then the flow waits, and an operation that is unknown has
// to be resolved first. After that the flow is [ErrGivenUp], with err in its chain where
// it is given up at once. GiveUp returns nil for nil.
func GiveUp(err error) error {
	if err == nil {
		return nil
	}
	return &giveUp{err}
}

type giveUp struct{ err error }

func (e *giveUp) Error() string { return "the flow is to be given up: " + e.err.Error() }
func (e *giveUp) Unwrap() error { return e.err }

// recordable is what the journal keeps of a flow's error: its text, without what may be
// a credential, and within a limit.
func recordable(err error) string { return secret.Recorded(err.Error()) }

// noAnswer is the error of an operation without an answer.
func noAnswer(client seam.Client, op *journal.Operation) *onceward.Error {
	e, _ := client.Unanswered(op).(*onceward.Error)
	return e
}
