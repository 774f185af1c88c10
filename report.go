package onceward

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/background"
)

// Report sums up one pass of Resume, or the passes of Run so far.
type Report struct {
	Claimed   int // operations claimed from dead processes, or because they were due
	Completed int // of these, completed
	Parked    int // … pending, due later
	Unknown   int // … unknown
	Cancelled int // … cancelled
	Settled   int // outcomes for which OnSettled returned nil
	Unsettled int // outcomes for which OnSettled failed; it receives them again
	Reaped    int // operations past their keep, shrunk or removed

	// PassedOver counts due operations that Resume could not claim. They stay pending. Reasons:
	//
	//   - no table has their provider, or none had when they began
	//   - a credential that is withheld and can't be added, or that has changed
	//   - an unnamed operation and NamedOnly
	//   - a provider whose last attempts failed
	//   - a request of another process that the provider may still be working on
	PassedOver int

	// Problems has the errors of operations without an answer, at most the first hundred. errors.Is finds
	// ErrCredentialMissing, ErrOutcomeUnknown, ErrPending and ErrKeyReused.
	Problems []*Error

	Flows FlowReport

	Elapsed time.Duration
}

func (r Report) String() string {
	return fmt.Sprintf("claimed %d: completed %d, parked %d, unknown %d, cancelled %d; settled %d, unsettled %d; reaped %d%s; in %v",
		r.Claimed, r.Completed, r.Parked, r.Unknown, r.Cancelled, r.Settled, r.Unsettled, r.Reaped, r.Flows.text(), r.Elapsed.Round(time.Millisecond))
}

// FlowReport sums up the flows of one pass of Resume, or of the passes of Run so far.
type FlowReport struct {
	Claimed      int // flows claimed from dead processes, or because they were due
	Finished     int // of these, ended
	Waiting      int // … waiting for an operation or the next try
	SetAside     int // … failed too often
	GivenUp      int // … undone
	Unregistered int // flows without a registered function; not claimed

	// Problems says why flows have not finished, for at most the first hundred. If this process runs flows, each is a
	// *flow.Error.
	Problems []error
}

// text returns the flows' part of Report.String, or "" if there were none.
func (r FlowReport) text() string {
	if r.Claimed == 0 && r.Unregistered == 0 {
		return ""
	}
	return fmt.Sprintf("; flows claimed %d: finished %d, waiting %d, set aside %d, given up %d; of an unknown function %d",
		r.Claimed, r.Finished, r.Waiting, r.SetAside, r.GivenUp, r.Unregistered)
}

// reportOf makes a Report from the counts.
func reportOf(n *background.Counts) Report {
	r := Report{
		Claimed: n.Claimed, Completed: n.Completed, Parked: n.Parked, Unknown: n.Unknown, Cancelled: n.Cancelled,
		Settled: n.Settled, Unsettled: n.Unsettled, Reaped: n.Reaped, PassedOver: n.PassedOver,
		Flows: FlowReport(n.Flows), Elapsed: n.Elapsed,
	}
	for _, f := range n.Problems {
		r.Problems = append(r.Problems, errorOf(f))
	}
	return r
}
