package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// inTransaction calls write, and commits write's changes with the step's record. The commit includes the records not yet
// written, because the changes may depend on them.
func (st *step) inTransaction(ctx context.Context, begin func(context.Context) (journal.Tx, error), write func(context.Context, journal.Tx) ([]byte, error)) ([]byte, error) {
	r := st.run
	local, ok := r.store.(machine.LocalFlows)
	if !ok {
		return nil, st.misuse("the journal lies in no database", nil)
	}
	if begin == nil {
		begin = local.BeginTx
	}
	tx, err := begin(ctx)
	if err != nil {
		return nil, &Error{Step: st.name, Kind: onceward.ErrJournal, Err: fmt.Errorf("begin a transaction: %w", err)}
	}
	defer grace.Rollback(ctx, tx)
	result, err := write(seam.InTransaction(ctx), tx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.seq++
	rec := journal.StepRecord{Seq: r.seq, Kind: st.kind, Name: st.name, Position: st.position, Parallel: st.parallel, Result: result, At: r.core.Now()}
	noted := len(r.flow.Steps)
	ev := r.underClaim(machine.FlowEvent{Kind: machine.FlowEventRecord, Steps: append(slices.Clone(r.flow.Steps[r.saved:]), rec)})
	r.mu.Unlock()
	commit := func() error {
		if err := st.Begin(); err != nil {
			return err
		}
		defer st.Begun()
		res, err := local.ApplyFlowTx(ctx, tx, ev)
		switch {
		case err != nil:
			return err
		case res.Decision != machine.Recorded:
			return errors.New("the claim is no longer held")
		}
		return tx.Commit(ctx)
	}
	switch err := commit(); {
	case errors.Is(err, journal.ErrTxAborted):
		return nil, err // write overlooked its statement's error, and the next run would again
	case err != nil:
		st.doubted = true // the next run reads whether it landed
		return nil, &Error{Step: st.name, Kind: onceward.ErrJournal, Err: err}
	}
	st.recorded = true
	r.mu.Lock()
	r.flow.Steps = append(r.flow.Steps, rec)
	if len(r.flow.Steps) == noted+1 {
		noted++ // else parallel steps have noted others meanwhile
	}
	r.saved = max(r.saved, noted)
	r.mu.Unlock()
	r.stepped(rec)
	return result, nil
}
