package rowstore

import (
	"context"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// ApplyFlow implements machine.Flows. A step's record is durable when it returns, too.
func (s *Store) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (result machine.FlowResult, err error) {
	if err := s.writable(ctx); err != nil {
		return result, err
	}
	if err := store.CheckApplyFlow(ev); err != nil {
		return result, err
	}
	err = s.do(ctx, &request{flow: ev.Ref, run: func(b *batch) (err error) {
		if err := b.mayApplyFlow(&ev); err != nil {
			return err
		}
		if ev.Kind == machine.FlowEventBegin {
			if err := s.sessions.require(ev.Session); err != nil {
				return err
			}
		}
		if err := b.see(ev.At); err != nil {
			return err
		}
		result, err = b.applyFlow(ev, b.lock)
		return err
	}})
	return result, err
}

// ApplyFlowTx implements machine.LocalFlows.
func (s *Store) ApplyFlowTx(ctx context.Context, tx journal.Tx, ev machine.FlowEvent) (result machine.FlowResult, err error) {
	if err := s.writable(ctx); err != nil {
		return result, err
	}
	if err := store.CheckApplyFlowTx(ev); err != nil {
		return result, err
	}
	lock := WaitLock
	if ev.Kind == machine.FlowEventRecord {
		lock = ShareLock // local steps that run at once don't wait for each other
	}
	err = s.decideIn(ctx, tx, nil, func(b *batch) (err error) {
		result, err = b.applyFlow(ev, lock)
		return err
	})
	return result, err
}

// mayApplyFlow is mayApply for a flow's event. The end of a flow's claim is recorded.
func (b *batch) mayApplyFlow(ev *machine.FlowEvent) error {
	switch ev.Kind {
	case machine.FlowEventBegin, machine.FlowEventGiveUp, machine.FlowEventRetry:
		if ev.Claim == 0 {
			return b.maySend()
		}
	case machine.FlowEventClaim:
		return b.maySend()
	case machine.FlowEventReap:
		return b.head.trusted()
	}
	return nil
}
