package rowstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// applyFlow runs NextFlow on the flow that ev names, and writes the result.
func (b *batch) applyFlow(ev machine.FlowEvent, lock Lock) (result machine.FlowResult, err error) {
	row, err := b.tx.Flow(b.ctx, ev.Handle, NameDigest(&b.s.key, ev.Ref), lock)
	if err != nil {
		return result, b.fail(err)
	}
	var f journal.Flow
	if row != nil {
		if row.Locked {
			return result, errHeld
		}
		if f, err = decodeFlow(b.s.codec, row); err != nil {
			return result, err
		}
		if ev.Ref != (journal.Ref{}) && f.Ref != ev.Ref {
			return result, fmt.Errorf("flow %d has another name: %w", f.Handle, format.ErrDamaged)
		}
		if ev.Kind != machine.FlowEventReap && ev.Kind != machine.FlowEventClock && f.SealedBy != "" {
			return result, sealedFlow(&f)
		}
	}
	return b.nextFlow(row, f, ev)
}

func sealedFlow(f *journal.Flow) error {
	return fmt.Errorf("flow %d: %w", f.Handle, format.Sealed(f.SealedBy))
}

func (b *batch) nextFlow(row *Flow, f journal.Flow, ev machine.FlowEvent) (result machine.FlowResult, err error) {
	live := false
	if f.State == journal.FlowStateRunning && (ev.Kind == machine.FlowEventBegin || ev.Kind == machine.FlowEventClaim || ev.Kind == machine.FlowEventGiveUp) {
		if live, err = b.live(f.Holder); err != nil {
			return result, err
		}
	}
	next, decision, err := machine.NextFlow(f, live, ev)
	if err != nil {
		return result, err
	}
	var steps []journal.StepRecord
	if f.Handle != 0 && (decision == machine.Execute || decision == machine.Replay) {
		// Before the flow is written: one whose steps are damaged or sealed is no one's.
		if steps, err = b.s.stepsOf(b.ctx, b.tx, &f); err == nil && f.SealedBy != "" {
			err = sealedFlow(&f)
		}
		if err != nil {
			if !skips(err) {
				err = b.fail(err)
			}
			return result, err
		}
	}
	if decision == machine.Execute || decision == machine.Recorded {
		if err := b.putFlow(row, &f, &next, ev); err != nil {
			return result, b.fail(err)
		}
	}
	if decision == machine.Execute || decision == machine.Replay {
		next.Steps = steps
	}
	return machine.FlowResult{Flow: next, Decision: decision}, nil
}

// putFlow writes the next flow and the event's steps. row is the flow's row, or nil.
func (b *batch) putFlow(row *Flow, f, next *journal.Flow, ev machine.FlowEvent) (err error) {
	b.keep = true
	insert := f.State == journal.FlowStateAbsent
	if insert {
		if next.Handle, err = b.tx.FlowHandle(b.ctx); err != nil {
			return err
		}
	}
	if ev.Kind != machine.FlowEventRecord {
		if err := b.tx.PutFlow(b.ctx, b.s.encodeFlow(row, f, next), insert); err != nil {
			return err
		}
	}
	if next.Tombstone && !f.Tombstone {
		return b.tx.RemoveSteps(b.ctx, next.Handle)
	}
	if ev.Claim == 0 || len(ev.Steps) == 0 {
		return nil
	}
	steps := make([]Step, len(ev.Steps))
	for i, s := range ev.Steps {
		s.Result = b.s.codec.EncodeStep(next.Ref, &s)
		steps[i] = Step{s, format.StepSum(next.Handle, s)}
	}
	return b.tx.AddSteps(b.ctx, next.Handle, steps)
}

// encodeFlow returns a flow's row. stored is the earlier row, of the earlier flow, or nil.
func (s *Store) encodeFlow(stored *Flow, was, f *journal.Flow) *Flow {
	row := &Flow{
		Handle: f.Handle, Name: NameDigest(&s.key, f.Ref), Ref: f.Ref, Function: f.Function, State: uint8(f.State), Holder: f.Holder,
		Tombstone: f.Tombstone, Claim: f.Claim,
	}
	var parts format.StoredFlow
	if stored != nil {
		parts = format.StoredFlow{Box: stored.box, Input: stored.Input}
	}
	row.Facts, row.Input = s.codec.EncodeFlow(f, was, parts)
	if due := format.Due(f); !due.IsZero() {
		row.HasDue, row.Due = true, due.UnixMilli()
	}
	if !f.EndedAt.IsZero() {
		row.HasEnded, row.Ended = true, f.EndedAt.UnixMilli()
	}
	return row
}

func decodeFlow(c format.Codec, row *Flow) (journal.Flow, error) {
	f := journal.Flow{
		Handle: row.Handle, Ref: row.Ref, Function: row.Function, State: journal.FlowState(row.State), Holder: row.Holder,
		Tombstone: row.Tombstone, Claim: row.Claim,
	}
	if row.HasDue {
		f.DueAt = time.UnixMilli(row.Due).UTC()
	}
	if row.HasEnded {
		f.EndedAt = time.UnixMilli(row.Ended).UTC()
	}
	var err error
	if row.box, err = c.DecodeFlow(&f, row.Facts, row.Input); err != nil {
		err = fmt.Errorf("flow %d: %w", row.Handle, err)
	}
	return f, err
}

// stepsOf reads a flow's steps. If a key is missing, f.SealedBy has it.
func (s *Store) stepsOf(ctx context.Context, r FlowReader, f *journal.Flow) (steps []journal.StepRecord, err error) {
	rows, err := r.Steps(ctx, f.Handle)
	for _, row := range rows {
		if format.StepSum(f.Handle, row.StepRecord) != row.Sum {
			return nil, fmt.Errorf("flow %d: %w", f.Handle, format.ErrSum)
		}
		by, err := s.codec.DecodeStep(f.Ref, &row.StepRecord)
		if err != nil {
			return nil, fmt.Errorf("flow %d: %w", f.Handle, err)
		}
		f.SealedBy = cmp.Or(f.SealedBy, by)
		steps = append(steps, row.StepRecord)
	}
	return steps, err
}
