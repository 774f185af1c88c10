package flow

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// The Error kinds, beside onceward.Error's kinds.
var (
	// ErrFailed: the flow's function returned an error, which is in the chain. The flow runs again from Flow.DueAt
	// on, by Run or by the next caller.
	ErrFailed = errors.New("the flow failed")

	// ErrSetAside: the flow failed too often, or is ErrChanged, and no longer runs. See Flow.History, Runner.Retry and
	// Runner.GiveUp.
	ErrSetAside = errors.New("the flow is set aside")

	// ErrGivenUp: the flow was given up, and the steps are undone. Use another name for a new try.
	ErrGivenUp = errors.New("the flow is given up")

	// ErrChanged: the function does not make the recorded steps. Error.Step was renamed, moved or removed, is of
	// another kind, or returns something else. Onceward never guesses the meaning for a flow under way: run the flow by
	// its original function, under the original version. The flow is set aside at once, and logged so. A process
	// that starts later with a function under the same name and version tries the flow once more.
	ErrChanged = errors.New("the flow's function makes other steps than it did")

	// ErrInput: the flow's input can't be made JSON, or the recorded input no longer fits the function.
	ErrInput = errors.New("the flow's input can't be recorded or read")

	// ErrUnregistered: no function is registered under this name and version.
	ErrUnregistered = errors.New("the flow's function is not registered")

	// ErrUndoBlocked: a flow that is given up can't be undone yet, or not by itself. An operation has no outcome, or
	// took effect in an unfinished step.
	ErrUndoBlocked = errors.New("the flow can't be undone")

	// ErrStep: the step could not be resumed in this form. Reasons:
	//   - the step is outside a flow, or in another step;
	//   - the step is in a goroutine, and the function does not wait;
	//   - the name is taken or not allowed;
	//   - the step runs at the same time as another one without Parallel;
	//   - the result is not JSON.
	ErrStep = errors.New("the step could not be resumed")
)

// Error is the error from a flow, a step, or a Runner's method about a flow. errors.Is finds the Kind as well as the
// cause. The text leaves out URLs' queries, users and fragments from the cause's text, and anything called a credential
// or like one. The journal and the log keep no more than this text.
type Error struct {
	Flow Flow   // the present state; zero if the flow was not recorded
	Step string // the step that failed; empty if none did
	Kind error  // an Err… value from this package or from package onceward
	Err  error  // the cause; may be nil
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

// Unwrap returns the kind, the cause, and ErrSetAside if the flow is set aside. While the flow has not ended,
// errors.Is does not find an operation's onceward.ErrAnswerGone or onceward.ErrKeyReused, nor the
// ErrGivenUp from another flow, because for the flow itself they would be final.
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

// ofOperation is the cause in a flow's error. errors.Is finds nothing in ofOperation which a caller would take for the
// flow's end.
type ofOperation struct{ error }

func (e ofOperation) Is(target error) bool {
	return target != onceward.ErrAnswerGone && target != onceward.ErrKeyReused && target != ErrGivenUp && errors.Is(e.error, target)
}

func (e ofOperation) As(target any) bool { return errors.As(e.error, target) }

// GiveUp returns an error. A flow's function gives the flow up by returning this error. Each step is then undone once,
// the latest first, by the function given to [WithUndo]: a saga with compensations. Undoing begins when every operation
// in the flow is completed or cancelled. Until then the flow waits, and an unknown operation has to be resolved first.
// After the undoing the flow is [ErrGivenUp]. If the flow is given up at once, err is in the chain. GiveUp returns nil
// for nil.
func GiveUp(err error) error {
	if err == nil {
		return nil
	}
	return &giveUp{err}
}

type giveUp struct{ err error }

func (e *giveUp) Error() string { return "the flow is to be given up: " + e.err.Error() }
func (e *giveUp) Unwrap() error { return e.err }

// recordable returns the error's text for the journal: without possible credentials, and within a limit.
func recordable(err error) string { return secret.Recorded(err.Error()) }

// noAnswer returns the error for an operation without an answer.
func noAnswer(client *onceward.Client, op *journal.Operation) *onceward.Error {
	return &onceward.Error{
		Operation: core.OperationOf(client, op), Kind: core.KindOf(op.State),
		InBackground: op.State == journal.StatePending && core.Of(client).InBackground(op, &op.Request),
	}
}
