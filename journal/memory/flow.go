package memory

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// flows are the flows of a Journal, whose mutex guards them.
type flows struct {
	rows  []journal.Flow // by handle, which is the index and one
	byRef map[journal.Ref]int64
}

var _ journal.Flows = (*Journal)(nil)

// ApplyFlow runs journal.NextFlow on the flow that ev names and records the result, for
// journal.FlowEventRecord at once, too.
func (j *Journal) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return journal.FlowResult{}, err
	}
	if err := store.CheckApplyFlow(ev); err != nil {
		return journal.FlowResult{}, err
	}
	if ev.Kind == journal.FlowEventBegin && !j.live(ev.Session) {
		return journal.FlowResult{}, journal.ErrSessionLost
	}
	j.see(ev.At)
	handle := ev.Handle
	if handle == 0 {
		handle = j.flows.byRef[ev.Ref]
	}
	return j.applyFlow(handle, ev)
}

// applyFlow runs NextFlow on the flow with this handle, 0 for none.
func (j *Journal) applyFlow(handle int64, ev journal.FlowEvent) (journal.FlowResult, error) {
	var f journal.Flow
	if handle > 0 && handle <= int64(len(j.flows.rows)) {
		f = j.flows.rows[handle-1]
	}
	ev.Input, ev.Steps = bytes.Clone(ev.Input), copySteps(ev.Steps)
	next, decision, err := journal.NextFlow(f, j.live(f.Holder), ev)
	if err != nil {
		return journal.FlowResult{}, err
	}
	if decision == journal.Execute || decision == journal.Recorded {
		if decision == journal.Recorded && ev.Claim != 0 {
			next.Steps = appendSteps(next.Steps, ev.Steps)
		}
		next = j.putFlow(next)
	}
	return journal.FlowResult{Flow: copyFlow(next), Decision: decision}, nil
}

// appendSteps leaves out those that are recorded already.
func appendSteps(steps, more []journal.StepRecord) []journal.StepRecord {
	steps = slices.Clip(steps)
	for _, s := range more {
		i, recorded := slices.BinarySearchFunc(steps, s.Seq, func(s journal.StepRecord, seq int) int { return s.Seq - seq })
		if !recorded {
			steps = slices.Insert(steps, i, s)
		}
	}
	return steps
}

func (j *Journal) putFlow(f journal.Flow) journal.Flow {
	if f.Handle == 0 {
		f.Handle = int64(len(j.flows.rows)) + 1
		j.flows.rows = append(j.flows.rows, f)
		if j.flows.byRef == nil {
			j.flows.byRef = make(map[journal.Ref]int64)
		}
		j.flows.byRef[f.Ref] = f.Handle
	}
	j.flows.rows[f.Handle-1] = f
	return f
}

// ClaimFlows applies ev to at most limit flows that need a claim.
func (j *Journal) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckClaimFlows(ev); err != nil {
		return nil, err
	}
	if !j.live(ev.Session) {
		return nil, journal.ErrSessionLost
	}
	j.see(ev.At)
	var mine, others []journal.Flow
	for i := range j.flows.rows {
		f := &j.flows.rows[i]
		switch {
		case f.State == journal.FlowStateRunning && j.live(f.Holder), f.State == journal.FlowStateWaiting && f.DueAt.After(ev.At),
			f.State != journal.FlowStateRunning && f.State != journal.FlowStateWaiting:
		case slices.Contains(ev.Functions, f.Function):
			mine = append(mine, *f)
		default:
			others = append(others, *f)
		}
	}
	slices.SortStableFunc(mine, func(a, b journal.Flow) int { return a.DueAt.Compare(b.DueAt) })
	mine = mine[:min(max(limit, 0), len(mine))]
	slices.SortFunc(mine, func(a, b journal.Flow) int { return int(a.Handle - b.Handle) })
	var results []journal.FlowResult
	for _, f := range mine {
		result, err := j.applyFlow(f.Handle, ev)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	for _, f := range others[:min(max(limit, 0)-len(results), len(others))] {
		results = append(results, journal.FlowResult{Flow: copyFlow(f), Decision: journal.Ignored})
	}
	return results, nil
}

// GetFlow returns a copy of the whole flow, or journal.ErrNotFound.
func (j *Journal) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(ctx); err != nil {
		return journal.Flow{}, err
	}
	handle := j.flows.byRef[ref]
	if handle == 0 {
		return journal.Flow{}, journal.ErrNotFound
	}
	return copyFlow(j.flows.rows[handle-1]), nil
}

// ListFlows yields copies of the flows that filter selects, in their state at the start of the iteration. No
// lock is held while it yields.
func (j *Journal) ListFlows(ctx context.Context, filter journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return func(yield func(journal.Flow, error) bool) {
		selected, err := j.selectedFlows(ctx, filter)
		for _, f := range selected {
			if err = ctx.Err(); err != nil || !yield(f, nil) {
				break
			}
		}
		if err != nil {
			yield(journal.Flow{}, err)
		}
	}
}

func (j *Journal) selectedFlows(ctx context.Context, filter journal.FlowFilter) ([]journal.Flow, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	var selected []journal.Flow
	for _, f := range j.flows.rows {
		if filter.ByDue && (f.State != journal.FlowStateWaiting || f.PutOff()) || filter.Scope != nil && *filter.Scope != f.Scope || filter.ID != "" && filter.ID != f.ID ||
			len(filter.States) > 0 && !slices.Contains(filter.States, f.State) ||
			len(filter.Functions) > 0 && !slices.Contains(filter.Functions, f.Function) {
			continue
		}
		f = copyFlow(f)
		f.Input = nil
		for i := range f.Steps {
			f.Steps[i].Result = nil
		}
		selected = append(selected, f)
	}
	if filter.Newest && !filter.ByDue {
		slices.Reverse(selected)
	}
	if filter.ByDue {
		slices.SortStableFunc(selected, func(a, b journal.Flow) int { return a.DueAt.Compare(b.DueAt) })
	}
	if filter.Limit > 0 {
		selected = selected[:min(filter.Limit, len(selected))]
	}
	return selected, nil
}

// ReapFlows applies ev to the flows that it can shrink, at most limit.
func (j *Journal) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.openToWrite(ctx); err != nil {
		return 0, err
	}
	if err := store.CheckReapFlows(ev); err != nil {
		return 0, err
	}
	j.see(ev.At)
	ev.At = j.clock.Passed(ev.At)
	reaped := 0
	for i := range j.flows.rows {
		if reaped >= limit {
			break
		}
		result, err := j.applyFlow(int64(i)+1, ev)
		if err != nil {
			return reaped, err
		}
		if result.Decision == journal.Recorded {
			reaped++
		}
	}
	return reaped, nil
}

// sweepFlows gives every flow the FlowEventClock that is due with ev.
func (j *Journal) sweepFlows(ev journal.Event) {
	for _, f := range j.flows.rows {
		// FlowEventClock has no error.
		if next, decision, _ := journal.NextFlow(f, false, journal.FlowEvent{Kind: journal.FlowEventClock, At: ev.At, Last: ev.Last}); decision == journal.Recorded {
			j.putFlow(next)
		}
	}
}

func copyFlow(f journal.Flow) journal.Flow {
	f.Input, f.History, f.Steps = bytes.Clone(f.Input), slices.Clone(f.History), copySteps(f.Steps)
	return f
}

func copySteps(steps []journal.StepRecord) []journal.StepRecord {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Result = bytes.Clone(steps[i].Result)
		steps[i].At = time.UnixMilli(steps[i].At.UnixMilli()).UTC()
	}
	return steps
}
