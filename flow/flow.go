package flow

import (
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// State is where a flow stands.
type State = journal.FlowState

// The states of a flow.
const (
	StateRunning  = journal.FlowStateRunning  // its function runs, or its process died
	StateWaiting  = journal.FlowStateWaiting  // it goes on at a time
	StateFinished = journal.FlowStateFinished // its function came to its end
	StateGivenUp  = journal.FlowStateGivenUp  // given up, and its steps are undone
	StateSetAside = journal.FlowStateSetAside // it failed too often or its function changed; see Runner.Retry and Runner.GiveUp
)

// StepRecord is one thing that a flow has behind it: mostly a completed step, by name,
// with what it returned as JSON.
type StepRecord = journal.StepRecord

// Failure is one failed run of a flow.
type Failure = journal.FlowFailure

// Flow is what is recorded of one flow.
type Flow struct {
	onceward.Ref
	Function   string // name of the registered function; "" for one of Runner.Do
	Version    int
	State      State
	Undoing    bool   // it is being given up
	GivenUpFor string // why
	Trace      string // the W3C traceparent of whoever asked for it first; "": none
	CreatedAt  time.Time
	EndedAt    time.Time
	DueAt      time.Time    // waiting: not run before this
	WaitsFor   onceward.Ref // waiting: for this operation's outcome; zero: for none
	Cause      string       // why it waits or is set aside
	Failures   int          // in a row
	History    []Failure
	Steps      []StepRecord // in the order in which they were recorded
	Result     []byte       // finished: what its function returned, as JSON; nil for one of Runner.Do

	operations string // Ref.Parent of its operations
}

func flowOf(f *journal.Flow) Flow {
	return Flow{
		Ref: f.Ref, Function: f.Function.Name, Version: f.Function.Version, State: f.State, Undoing: f.Undoing, GivenUpFor: f.GivenUpFor,
		Trace: f.Trace, CreatedAt: f.CreatedAt, EndedAt: f.EndedAt, DueAt: f.DueAt, WaitsFor: f.WaitsFor, Cause: f.Cause,
		Failures: f.Failures, History: f.History, Steps: f.Steps, Result: returned(f.Steps), operations: seam.ParentOf(f),
	}
}

// Operation names the operation that a step made without a name: see Client.Lookup.
func (f Flow) Operation(step string) onceward.Ref {
	return onceward.Ref{Scope: f.Scope, Parent: f.operations, ID: step}
}

// String draws how far it has come: "started → create → charge → finished".
func (f Flow) String() string {
	path := []string{"started"}
	for _, s := range f.Steps {
		switch s.Kind {
		case journal.StepDone, journal.StepLocal, journal.StepTime, journal.StepUUID:
			path = append(path, s.Name)
		case journal.StepByHand:
			path = append(path, s.Name+" by hand")
		case journal.StepUndone:
			path = append(path, "undone "+s.Name)
		}
	}
	if f.State != StateRunning {
		path = append(path, strings.ReplaceAll(f.State.String(), "_", " "))
	}
	return strings.Join(path, " → ")
}
