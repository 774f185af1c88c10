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
	Settled   int // outcomes for which Outcomes.Handle returned nil
	Unsettled int // outcomes for which Outcomes.Handle failed; it receives them again
	Reaped    int // operations past their keep, shrunk or removed

	PassedOver int // due operations that it could not claim, and that stay pending: docs/runbook.md has the reasons

	Problems []*Error // of operations without an answer, at most the first hundred
	Flows    FlowReport
	Elapsed  time.Duration
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

	Problems []error // why flows have not finished, at most the first hundred; each is a *flow.Error
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
