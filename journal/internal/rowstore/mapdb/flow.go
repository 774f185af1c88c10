package mapdb

import (
	"cmp"
	"context"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// flowHandle and flowName are a flow and its name as something to be held.
type (
	flowHandle int64
	flowName   rowstore.Digest
)

// allFlows yields each flow as the view has it.
func (v *view) allFlows(yield func(*rowstore.Flow) bool) {
	var staged map[int64]*rowstore.Flow
	if v.t != nil {
		staged = v.t.flows
	}
	for _, f := range staged {
		if !yield(f) {
			return
		}
	}
	for handle, f := range v.db.flows {
		if staged[handle] == nil && !yield(f) {
			return
		}
	}
}

func (v *view) findFlow(handle int64, name rowstore.Digest) *rowstore.Flow {
	for f := range v.allFlows {
		if f.Handle == handle || handle == 0 && f.Name == name {
			return f
		}
	}
	return nil
}

// Flow implements rowstore.Reader.
func (v *view) Flow(ctx context.Context, handle int64, name rowstore.Digest, lock rowstore.Lock) (*rowstore.Flow, error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	f := v.findFlow(handle, name)
	if f == nil {
		return nil, nil
	}
	if v.t != nil && lock != rowstore.NoLock {
		switch is, err := v.db.take(ctx, v.t, flowHandle(f.Handle), lock); {
		case err != nil:
			return nil, err
		case !is:
			return &rowstore.Flow{Handle: f.Handle, Locked: true}, nil
		}
	}
	own := *v.findFlow(f.Handle, name)
	return &own, nil
}

// Steps implements rowstore.Reader.
func (v *view) Steps(_ context.Context, handle int64) ([]rowstore.Step, error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	return slices.Clone(v.stepsOf(handle)), nil
}

func (v *view) stepsOf(handle int64) []rowstore.Step {
	if v.t != nil {
		if steps, staged := v.t.steps[handle]; staged {
			return steps
		}
	}
	return v.db.steps[handle]
}

// Flows implements rowstore.Reader.
func (v *view) Flows(_ context.Context, scan rowstore.FlowScan) (page []*rowstore.Flow, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	type placed struct {
		at rowstore.Position
		f  *rowstore.Flow
	}
	var all []placed
	for f := range v.allFlows {
		if at, is := flowPlace(f, &scan); is && (scan.Newest || compare(at, scan.After) > 0) {
			own := *f
			all = append(all, placed{at, &own})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return compare(a.at, b.at) })
	if scan.Newest {
		slices.Reverse(all)
	}
	for _, p := range all[:min(len(all), scan.Limit)] {
		page = append(page, p.f)
	}
	return page, nil
}

func flowPlace(f *rowstore.Flow, s *rowstore.FlowScan) (at rowstore.Position, is bool) {
	at = rowstore.Position{Handle: f.Handle}
	state := journal.FlowState(f.State)
	switch s.Index {
	case rowstore.FlowsByDue:
		at.Key = f.Due
		return at, state == journal.FlowStateWaiting && -s.By <= f.Due && f.Due <= s.By
	case rowstore.FlowsRunning:
		return at, state == journal.FlowStateRunning
	case rowstore.FlowsAside:
		return at, state == journal.FlowStateSetAside
	case rowstore.FlowsEnded:
		at.Key = f.Ended
		return at, f.HasEnded && !f.Tombstone && f.Ended <= s.By
	}
	return at, s.Before == 0 || f.Handle < s.Before
}

// CountFlows implements rowstore.Reader.
func (v *view) CountFlows(_ context.Context, late int64) (n rowstore.FlowCount, err error) {
	v.db.mu.Lock()
	defer v.db.mu.Unlock()
	n.Begun = v.db.flow
	for f := range v.allFlows {
		switch journal.FlowState(f.State) {
		case journal.FlowStateRunning:
			n.Running++
		case journal.FlowStateWaiting:
			n.Waiting++
			if f.Due <= late {
				n.Late++
			}
		case journal.FlowStateSetAside:
			n.Aside++
		}
	}
	return n, nil
}

// FlowHandle implements rowstore.Tx.
func (t *tx) FlowHandle(context.Context) (int64, error) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.db.flow++ // as a sequence
	return t.db.flow, nil
}

// PutFlow implements rowstore.Tx.
func (t *tx) PutFlow(ctx context.Context, f *rowstore.Flow, insert bool) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if insert {
		if is, err := t.db.take(ctx, t, flowName(f.Name), t.lock); err != nil || !is {
			return cmp.Or(err, rowstore.ErrLocked)
		}
		if t.findFlow(0, f.Name) != nil {
			return rowstore.ErrMissed
		}
	}
	if t.flows == nil {
		t.flows = make(map[int64]*rowstore.Flow)
	}
	own := *f
	t.flows[f.Handle] = &own
	return nil
}

// AddSteps implements rowstore.Tx.
func (t *tx) AddSteps(_ context.Context, handle int64, steps []rowstore.Step) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	all := slices.Clone(t.stepsOf(handle))
	for _, s := range steps {
		if !slices.ContainsFunc(all, func(other rowstore.Step) bool { return other.Seq == s.Seq }) {
			s.Result = slices.Clone(s.Result)
			s.At = s.At.Truncate(1e6).UTC()
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b rowstore.Step) int { return cmp.Compare(a.Seq, b.Seq) })
	t.setSteps(handle, all)
	return nil
}

// RemoveSteps implements rowstore.Tx.
func (t *tx) RemoveSteps(_ context.Context, handle int64) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.setSteps(handle, nil)
	return nil
}

func (t *tx) setSteps(handle int64, steps []rowstore.Step) {
	if t.steps == nil {
		t.steps = make(map[int64][]rowstore.Step)
	}
	t.steps[handle] = steps
}
