package background

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
)

// resumeFlows runs once what was cut off or is due, or reports what waits for a process
// that can.
func (p *pass) resumeFlows(ctx context.Context) error {
	if flows := p.worker.Flows.Runner(); flows != nil {
		return flows.Resume(ctx, p.countFlow)
	}
	store, ok := p.worker.Journal.(machine.Flows)
	if !ok {
		return nil
	}
	return p.worker.Session.Do(ctx, func(session string) error {
		results, err := store.ClaimFlows(ctx, machine.FlowEvent{Kind: machine.FlowEventClaim, At: p.worker.Now(), Session: session}, p.worker.Concurrency)
		for i := range results {
			p.countFlow(seam.Unregistered, fmt.Errorf("flow %s waits for a process that runs flows: see flow.New", results[i].Flow.ID))
		}
		return err
	})
}

// runFlows does Run's work for flows, once there is a Runner.
func (p *pass) runFlows(ctx context.Context) {
	select {
	case <-p.worker.Flows.Attached():
		p.worker.Flows.Runner().Run(ctx, p.countFlow)
	case <-p.worker.Lifecycle.Closing():
	case <-ctx.Done():
	}
}

func (p *pass) countFlow(what seam.Outcome, problem error) {
	p.count(func(c *Counts) { c.Flows.flow(what, problem) })
}
