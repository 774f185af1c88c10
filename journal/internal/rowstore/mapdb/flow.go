package mapdb

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

func (v *view) allFlows() iter.Seq2[int64, *flow] { return all(v.changed.flows, v.db.flows) }

// flow returns the flow with a handle, or with a name if the handle is 0.
func (v *view) flow(handle int64, name rowstore.Digest) *flow {
	if handle != 0 {
		return get(v.changed.flows, v.db.flows, handle)
	}
	for _, f := range v.allFlows() {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func (v *view) Flow(ctx context.Context, handle int64, name rowstore.Digest, lock rowstore.Lock) (*rowstore.Flow, error) {
	defer v.db.lock()()
	f := v.flow(handle, name)
	if f == nil {
		return nil, nil
	}
	if v.tx != nil && lock != rowstore.NoLock {
		if is, err := v.db.take(ctx, v.tx, flowHandle(f.Handle), lock); err != nil || !is {
			return &rowstore.Flow{Handle: f.Handle, Locked: true}, err
		}
	}
	own := v.flow(f.Handle, name).Flow
	return &own, nil
}

func (v *view) Steps(_ context.Context, handle int64) ([]rowstore.Step, error) {
	defer v.db.lock()()
	if f := v.flow(handle, rowstore.Digest{}); f != nil {
		return slices.Clone(f.steps), nil
	}
	return nil, nil
}

func (v *view) Flows(_ context.Context, scan rowstore.FlowScan) (found []*rowstore.Flow, err error) {
	defer v.db.lock()()
	place := func(f *flow) (rowstore.Position, bool) { return flowPlace(f, &scan) }
	for _, p := range page(v.allFlows(), place, scan.After, scan.Newest, scan.Limit) {
		own := p.row.Flow
		found = append(found, &own)
	}
	return found, nil
}

func flowPlace(f *flow, s *rowstore.FlowScan) (at rowstore.Position, is bool) {
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

func (v *view) CountFlows(_ context.Context, late int64) (n rowstore.FlowCount, err error) {
	defer v.db.lock()()
	n.Begun = v.db.latestFlow
	for _, f := range v.allFlows() {
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

func (t *tx) FlowHandle(context.Context) (int64, error) {
	defer t.db.lock()()
	t.db.latestFlow++ // as a sequence
	return t.db.latestFlow, nil
}

func (t *tx) PutFlow(ctx context.Context, f *rowstore.Flow, insert bool) error {
	defer t.db.lock()()
	is := &flow{Flow: *f}
	if insert {
		if held, err := t.db.take(ctx, t, flowName(f.Name), t.lock); err != nil || !held {
			return cmp.Or(err, rowstore.ErrLocked)
		}
		if t.flow(0, f.Name) != nil {
			return rowstore.ErrMissed
		}
	} else {
		is.steps = t.flow(f.Handle, f.Name).steps
	}
	set(&t.changed.flows, f.Handle, is)
	return nil
}

func (t *tx) AddSteps(_ context.Context, handle int64, steps []rowstore.Step) error {
	defer t.db.lock()()
	is := *t.flow(handle, rowstore.Digest{})
	is.steps = slices.Clone(is.steps)
	for _, s := range steps {
		at, there := slices.BinarySearchFunc(is.steps, s.Seq, func(s rowstore.Step, seq int) int { return cmp.Compare(s.Seq, seq) })
		if !there {
			s.Result = slices.Clone(s.Result)
			s.At = s.At.Truncate(1e6).UTC()
			is.steps = slices.Insert(is.steps, at, s)
		}
	}
	set(&t.changed.flows, handle, &is)
	return nil
}

func (t *tx) RemoveSteps(_ context.Context, handle int64) error {
	defer t.db.lock()()
	set(&t.changed.flows, handle, &flow{Flow: t.flow(handle, rowstore.Digest{}).Flow})
	return nil
}
