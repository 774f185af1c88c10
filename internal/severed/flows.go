package severed

import (
	"context"
	"iter"

	"github.com/onceward/onceward/journal"
)

// Flows is a Journal that keeps flows, too.
type Flows struct {
	*Journal
	Flows journal.Flows // of what Journal is cut off from
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

func (j *Flows) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	return j.Flows.GetFlow(ctx, ref)
}

func (j *Flows) ListFlows(ctx context.Context, f journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return j.Flows.ListFlows(ctx, f)
}

func (j *Flows) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (int, error) {
	return j.Flows.ReapFlows(ctx, ev, limit)
}
