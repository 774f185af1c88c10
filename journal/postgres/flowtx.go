package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

// findFlow reads the flow that the event names, without its steps, and locks it; the zero Flow where there is none.
func (t *tx) findFlow(ev journal.FlowEvent, lock string) (journal.Flow, error) {
	if ev.Handle != 0 {
		f, err := t.flow(" WHERE handle = $1"+lock, ev.Handle)
		if err != nil || f.Handle != 0 && (ev.Ref == journal.Ref{} || ev.Ref == f.Ref) {
			return f, err
		}
	}
	if ev.Ref == (journal.Ref{}) && ev.Kind != journal.FlowEventBegin && ev.Kind != journal.FlowEventEnqueue {
		return journal.Flow{}, nil
	}
	return t.flow(" WHERE identity = $1"+lock, record.Digest(ev.Ref))
}

func (t *tx) flow(where string, args ...any) (journal.Flow, error) {
	f, err := record.ScanFlow(t.one(record.SelectFlow+where, args...))
	if errors.Is(err, pgx.ErrNoRows) {
		return journal.Flow{}, nil
	}
	return f, err
}

// nextFlow runs NextFlow on f, without its steps, and writes what comes of it.
func (t *tx) nextFlow(f journal.Flow, ev journal.FlowEvent) (journal.FlowResult, error) {
	if t.amid != nil {
		f, _, _ = journal.NextFlow(f, false, flowClock(*t.amid)) // it has no error
	}
	live := false
	if f.Holder != "" && ev.Claim == 0 {
		var err error
		if live, err = t.live(f.Holder); err != nil {
			return journal.FlowResult{}, err
		}
	}
	next, decision, err := journal.NextFlow(f, live, ev)
	if err != nil {
		return journal.FlowResult{}, err
	}
	// Before the claim: a process that can't read the steps would hold it for nothing.
	if (decision == journal.Execute || decision == journal.Replay) && f.Handle != 0 {
		if next.Steps, err = t.stepsOf(f.Handle); err != nil {
			return journal.FlowResult{}, err
		}
	}
	switch decision {
	case journal.Execute:
		next, err = t.storeFlow(f, next)
	case journal.Recorded:
		if ev.Claim != 0 {
			err = t.addSteps(f.Handle, ev.Steps)
		}
		if err == nil && ev.Kind != journal.FlowEventRecord {
			next, err = t.storeFlow(f, next)
		}
	}
	return journal.FlowResult{Flow: next, Decision: decision}, err
}

func (t *tx) storeFlow(was, f journal.Flow) (journal.Flow, error) {
	if was.Handle == 0 {
		err := t.one(record.InsertFlow, record.Digest(f.Ref), []byte(f.Scope), []byte(f.Parent), []byte(f.ID), []byte(f.Function.Name), f.Function.Version,
			int64(f.State), format.Nullable(f.Holder), f.Claim, format.FromTime(format.Due(&f)), record.FlowFacts(f), f.Input).Scan(&f.Handle)
		if errors.Is(err, pgx.ErrNoRows) {
			err = errLost
		}
		return f, err
	}
	facts := record.FlowFacts(f)
	if f.Tombstone && !was.Tombstone {
		if _, err := t.do(record.ReapFlow, f.Handle, record.Digest(f.Ref), facts); err != nil {
			return f, err
		}
		_, err := t.do(record.DropSteps, f.Handle)
		return f, err
	}
	args := []any{f.Handle, record.Digest(f.Ref), int64(f.State), format.Nullable(f.Holder), f.Claim, format.FromTime(format.Due(&f)), format.FromTime(f.EndedAt), facts}
	if t.puttingOff {
		t.laterFlows = append(t.laterFlows, args)
		return f, nil
	}
	_, err := t.do(record.UpdateFlow, args...)
	return f, err
}

func (t *tx) addSteps(flow int64, steps []journal.StepRecord) error {
	for _, step := range steps {
		if _, err := t.do(record.InsertStep, record.StepArgs(flow, step)...); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) stepsOf(flow int64) (steps []journal.StepRecord, err error) {
	err = t.each(func(row record.Scanner) error {
		var of int64
		step, err := record.ScanStep(row, &of)
		steps = append(steps, step)
		return err
	}, record.StepsOfFlows, []int64{flow})
	return steps, err
}

// flowClock is for flows what ev is for operations.
func flowClock(ev journal.Event) journal.FlowEvent {
	return journal.FlowEvent{Kind: journal.FlowEventClock, At: ev.At, Last: ev.Last}
}
