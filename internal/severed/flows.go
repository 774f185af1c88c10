package severed

import (
	"context"

	"github.com/onceward/onceward/journal"
)

// Flows is a Journal that keeps flows, too.
type Flows struct {
	*Journal
	journal.Flows // of what Journal is cut off from
}

func (j *Flows) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.Alive(); err != nil {
		return journal.FlowResult{}, err
	}
	return j.Flows.ApplyFlow(ctx, ev)
}

func (j *Flows) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	return j.Flows.ClaimFlows(ctx, ev, limit)
}
