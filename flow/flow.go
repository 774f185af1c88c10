package flow

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// State is a flow's state.
type State = journal.FlowState

// A flow's states.
const (
	StateRunning  = journal.FlowStateRunning  // the function runs, or the process died
	StateWaiting  = journal.FlowStateWaiting  // the flow goes on at DueAt
	StateFinished = journal.FlowStateFinished // the function returned without an error
	StateGivenUp  = journal.FlowStateGivenUp  // given up, and the steps are undone
	StateSetAside = journal.FlowStateSetAside // the flow failed too often or the function changed; see Runner.Retry and Runner.GiveUp
)

// StepRecord is one entry in a flow's record: usually a completed step, by name, with the result as JSON.
type StepRecord = journal.StepRecord

// Failure is one failed run of a flow.
type Failure = journal.FlowFailure

// Flow is one flow's record.
type Flow struct {
	onceward.Ref
	Function   string // the registered function's name; empty for a flow that Runner.Do runs
	Version    int
	State      State
	Undoing    bool   // the flow is being given up
	GivenUpFor string // the reason
	Trace      string // the W3C traceparent from the first caller; empty if there was none
	CreatedAt  time.Time
	EndedAt    time.Time
	DueAt      time.Time    // for a waiting flow: no run before this
	WaitsFor   onceward.Ref // for a waiting flow: the awaited operation; zero if none
	Cause      string       // why the flow waits or is set aside
	Failures   int          // in a row
	History    []Failure
	Steps      []StepRecord // in the order in which they were recorded
	Result     []byte       // for a finished flow: the result as JSON; nil for a flow that Runner.Do runs

	operations string // the operations' Ref.Parent
}

// flowOf returns the record with a copy of the steps. A run's steps may be noted and not yet written, and later steps read
// these steps.
func flowOf(f *journal.Flow) Flow {
	steps := slices.Clone(f.Steps)
	for i := range steps {
		steps[i].Result = bytes.Clone(steps[i].Result)
	}
	return Flow{
		Ref: f.Ref, Function: f.Function.Name, Version: f.Function.Version, State: f.State, Undoing: f.Undoing, GivenUpFor: f.GivenUpFor,
		Trace: f.Trace, CreatedAt: f.CreatedAt, EndedAt: f.EndedAt, DueAt: f.DueAt, WaitsFor: f.WaitsFor, Cause: f.Cause,
		Failures: f.Failures, History: f.History, Steps: steps, Result: returned(steps), operations: seam.ParentOf(f),
	}
}

// Operation returns the name for a step's unnamed operation, for Client.Operation.
func (f Flow) Operation(step string) onceward.Ref {
	return onceward.Ref{Scope: f.Scope, Parent: f.operations, ID: step}
}

// String draws the flow's progress, such as "started → create → charge → finished".
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
