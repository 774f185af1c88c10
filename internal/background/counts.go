package background

import (
	"time"

	"github.com/onceward/onceward/internal/engine/exchange"
	"github.com/onceward/onceward/internal/seam"
)

// Counts are the counts for one Resume pass, or for Run's passes so far. Package onceward makes a Report of Counts, and
// documents the fields there.
type Counts struct {
	Claimed, Completed, Parked, Unknown, Cancelled int
	Settled, Unsettled                             int
	Reaped                                         int
	PassedOver                                     int

	Problems []*exchange.Failure
	Flows    FlowCounts
	Elapsed  time.Duration
}

// FlowCounts are the flow counts.
type FlowCounts struct {
	Claimed, Finished, Waiting, SetAside, GivenUp, Unregistered int

	Problems []error
}

const maxProblems = 100

// problem adds why an operation has no answer.
func (c *Counts) problem(f *exchange.Failure) {
	if len(c.Problems) < maxProblems {
		c.Problems = append(c.Problems, f)
	}
}

// flow counts a flow's outcome, and adds an unfinished flow's problem.
func (c *FlowCounts) flow(what seam.Outcome, problem error) {
	switch what {
	case seam.Claimed:
		c.Claimed++
	case seam.Finished:
		c.Finished++
	case seam.Waiting:
		c.Waiting++
	case seam.SetAside:
		c.SetAside++
	case seam.GivenUp:
		c.GivenUp++
	case seam.Unregistered:
		c.Unregistered++
	}
	if problem != nil && len(c.Problems) < maxProblems {
		c.Problems = append(c.Problems, problem)
	}
}
