package severed

import (
	"context"

	"github.com/onceward/onceward/internal/machine"
)

// Flows is a Journal that keeps flows, too.
type Flows struct {
	*Journal
	machine.Flows // of what Journal is cut off from
}

func (j *Flows) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if err := j.Alive(); err != nil {
		return machine.FlowResult{}, err
	}
	return j.Flows.ApplyFlow(ctx, ev)
}

func (j *Flows) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	return j.Flows.ClaimFlows(ctx, ev, limit)
}
