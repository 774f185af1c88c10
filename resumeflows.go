package onceward

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// resumeFlows runs once what was cut off or is due, or reports what waits for a process
// that can.
func (p *pass) resumeFlows(ctx context.Context) error {
	if flows := p.client.core.Flows.Runner(); flows != nil {
		return flows.Resume(ctx, p.countFlow)
	}
	store, ok := p.client.core.Journal.(journal.Flows)
	if !ok {
		return nil
	}
	return p.client.core.Session.Do(ctx, func(session string) error {
		results, err := store.ClaimFlows(ctx, journal.FlowEvent{Kind: journal.FlowEventClaim, At: p.client.core.Now(), Session: session}, p.client.core.Concurrency)
		for i := range results {
			p.countFlow(seam.Unregistered, fmt.Errorf("flow %s waits for a process that runs flows: see flow.New", results[i].Flow.ID))
		}
		return err
	})
}

// runFlows is Run's part for flows, from when there is somebody who runs them.
func (p *pass) runFlows(ctx context.Context) {
	select {
	case <-p.client.core.Flows.Attached():
		p.client.core.Flows.Runner().Run(ctx, p.countFlow)
	case <-p.client.core.Lifecycle.Closing():
	case <-ctx.Done():
	}
}

// FlowReport is what one pass of Resume, or the passes of Run so far, did with flows.
type FlowReport struct {
	Claimed      int // flows that were taken over or whose time had come
	Finished     int // of these, those that have come to their end
	Waiting      int // … that wait for an operation, or for another try
	SetAside     int // … that failed too often
	GivenUp      int // … that are undone
	Unregistered int // flows that wait for a function which is not registered; not claimed

	// Problems are what stands in the way of flows that have not finished, the first
	// hundred of them: a *flow.Error each, where this process runs flows.
	Problems []error
}

// String returns nothing where there was nothing to do.
func (r FlowReport) String() string {
	if r.Claimed == 0 && r.Unregistered == 0 {
		return ""
	}
	return fmt.Sprintf("; flows claimed %d: finished %d, waiting %d, set aside %d, given up %d; of an unknown function %d",
		r.Claimed, r.Finished, r.Waiting, r.SetAside, r.GivenUp, r.Unregistered)
}

func (p *pass) countFlow(what seam.Outcome, problem error) {
	p.count(func(total *Report) {
		r := &total.Flows
		switch what {
		case seam.Claimed:
			r.Claimed++
		case seam.Finished:
			r.Finished++
		case seam.Waiting:
			r.Waiting++
		case seam.SetAside:
			r.SetAside++
		case seam.GivenUp:
			r.GivenUp++
		case seam.Unregistered:
			r.Unregistered++
		}
		if problem != nil && len(r.Problems) < maxProblems {
			r.Problems = append(r.Problems, problem)
		}
	})
}
