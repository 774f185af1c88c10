package rowstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		if f, err = decodeFlow(row); err != nil {
			return result, err
		}
		if ev.Ref != (journal.Ref{}) && f.Ref != ev.Ref {
			return result, fmt.Errorf("flow %d has another name: %w", f.Handle, format.ErrDamaged)
		}
	}
	return b.nextFlow(f, ev)
}

func (b *batch) nextFlow(f journal.Flow, ev machine.FlowEvent) (result machine.FlowResult, err error) {
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
		// Before the flow is written: one whose steps are damaged is no one's.
		if steps, err = stepsOf(b.ctx, b.tx, f.Handle); err != nil {
			if !errors.Is(err, format.ErrDamaged) {
				err = b.fail(err)
			}
			return result, err
		}
	}
	if decision == machine.Execute || decision == machine.Recorded {
		if err := b.putFlow(&f, &next, ev); err != nil {
			return result, b.fail(err)
		}
	}
	if decision == machine.Execute || decision == machine.Replay {
		next.Steps = steps
	}
	return machine.FlowResult{Flow: next, Decision: decision}, nil
}

// putFlow writes the next flow and the event's steps.
func (b *batch) putFlow(f, next *journal.Flow, ev machine.FlowEvent) (err error) {
	b.keep = true
	insert := f.State == journal.FlowStateAbsent
	if insert {
		if next.Handle, err = b.tx.FlowHandle(b.ctx); err != nil {
			return err
		}
	}
	if ev.Kind != machine.FlowEventRecord {
		if err := b.tx.PutFlow(b.ctx, encodeFlow(&b.s.key, next), insert); err != nil {
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
		steps[i] = Step{s, format.StepSum(next.Handle, s)}
	}
	return b.tx.AddSteps(b.ctx, next.Handle, steps)
}

func encodeFlow(key *format.HashKey, f *journal.Flow) *Flow {
	row := &Flow{
		Handle: f.Handle, Name: NameDigest(key, f.Ref), Ref: f.Ref, Function: f.Function, State: uint8(f.State), Holder: f.Holder,
		Tombstone: f.Tombstone, Claim: f.Claim, Facts: format.EncodeFlowFacts(*f), Input: f.Input,
	}
	if due := format.Due(f); !due.IsZero() {
		row.HasDue, row.Due = true, due.UnixMilli()
	}
	if !f.EndedAt.IsZero() {
		row.HasEnded, row.Ended = true, f.EndedAt.UnixMilli()
	}
	return row
}

func decodeFlow(row *Flow) (journal.Flow, error) {
	f := journal.Flow{
		Handle: row.Handle, Ref: row.Ref, Function: row.Function, State: journal.FlowState(row.State), Holder: row.Holder,
		Tombstone: row.Tombstone, Claim: row.Claim,
	}
	if len(row.Input) > 0 {
		f.Input = slices.Clone(row.Input)
	}
	if row.HasDue {
		f.DueAt = time.UnixMilli(row.Due).UTC()
	}
	if row.HasEnded {
		f.EndedAt = time.UnixMilli(row.Ended).UTC()
	}
	err := format.DecodeFlow(&f, row.Facts)
	if err != nil {
		err = fmt.Errorf("flow %d: %w", row.Handle, err)
	}
	return f, err
}

// stepsOf reads a flow's steps.
func stepsOf(ctx context.Context, r FlowReader, handle int64) (steps []journal.StepRecord, err error) {
	rows, err := r.Steps(ctx, handle)
	for _, row := range rows {
		if format.StepSum(handle, row.StepRecord) != row.Sum {
			return nil, fmt.Errorf("flow %d: %w", handle, format.ErrSum)
		}
		if len(row.Result) == 0 {
			row.Result = nil
		}
		steps = append(steps, row.StepRecord)
	}
	return steps, err
}
