package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

var _ journal.LocalFlows = (*Journal)(nil)

// flowWriter is what the writer has for flows.
type flowWriter struct {
	sql *flowStatements // the writer's goroutine's; nil before the first use

	mu      sync.Mutex
	riding  []journal.FlowEvent
	carried bool // some that rode are in the batch
}

// ApplyFlow runs journal.NextFlow on the flow that ev names, and returns once what
// comes of it is durable. FlowRecord is only noted: the next commit of anybody in this
// process records it, or the end of a session, or Close. Where the context ends first,
// the event may be recorded.
func (j *Journal) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.open(ctx); err != nil {
		return journal.FlowResult{}, err
	}
	w := j.file.writer
	switch {
	case ev.At.IsZero():
		return journal.FlowResult{}, &journal.FlowEventError{Kind: ev.Kind, Reason: "needs the asker's clock"}
	case ev.Kind == journal.FlowRecord:
		w.flows.mu.Lock()
		w.flows.riding = append(w.flows.riding, ev)
		full := len(w.flows.riding)%maxBatch == 0
		w.flows.mu.Unlock()
		if full {
			return journal.FlowResult{Decision: journal.Recorded}, w.flush()
		}
		return journal.FlowResult{Decision: journal.Recorded}, nil
	}
	var result journal.FlowResult
	err := w.do(ctx, func(b *batch) (err error) {
		result, err = b.applyFlow(ev)
		return err
	})
	return result, err
}

// takeFlowRiders applies the records that came since the last time, before whatever
// was asked for after them.
func (b *batch) takeFlowRiders() {
	f := &b.writer.flows
	f.mu.Lock()
	riders := f.riding
	f.riding, f.carried = nil, f.carried || len(riders) > 0
	f.mu.Unlock()
	if len(riders) == 0 {
		return
	}
	b.committed = append(b.committed, func() {
		f.mu.Lock()
		f.carried = false
		f.mu.Unlock()
	})
	b.abandoned = append(b.abandoned, func() {
		f.mu.Lock()
		f.riding, f.carried = append(riders, f.riding...), false
		f.mu.Unlock()
	})
	for _, ev := range riders {
		// NextFlow refuses none whose flow there is. If the store fails, all ride on.
		_ = b.rideFlow(ev)
	}
}

// rideFlow records steps as applyFlow does, but without reading the flow: a record
// under the current claim is all that NextFlow lets through, and it changes nothing
// else.
func (b *batch) rideFlow(ev journal.FlowEvent) error {
	if ev.Handle == 0 {
		_, err := b.applyFlow(ev)
		return err
	}
	s, err := b.flowSQL()
	for _, step := range ev.Steps {
		if err == nil {
			err = b.write(s.ride, append(stepArgs(ev.Handle, step), ev.Claim)...)
		}
	}
	return err
}

// flushFlows commits what rides, so that a reader sees it.
func (j *Journal) flushFlows() error {
	f := &j.file.writer.flows
	f.mu.Lock()
	none := len(f.riding) == 0 && !f.carried
	f.mu.Unlock()
	if none {
		return nil
	}
	return j.file.writer.flush()
}

func (b *batch) flowSQL() (*flowStatements, error) {
	f := &b.writer.flows
	if f.sql == nil {
		var err error
		if f.sql, err = newFlowStatements(b.conn); err != nil {
			return nil, b.fail(err)
		}
	}
	return f.sql, nil
}

// applyFlow runs NextFlow on the flow that the event names.
func (b *batch) applyFlow(ev journal.FlowEvent) (journal.FlowResult, error) {
	s, err := b.flowSQL()
	if err != nil {
		return journal.FlowResult{}, err
	}
	switch ev.Kind {
	case journal.FlowBegin, journal.FlowGiveUp, journal.FlowRetry:
		if b.restored != nil && ev.Claim == 0 {
			return journal.FlowResult{}, b.restored
		}
	}
	if ev.Kind == journal.FlowBegin {
		if err := b.mine(ev.Session); err != nil {
			return journal.FlowResult{}, err
		}
	}
	var f journal.Flow
	if ev.Handle != 0 {
		f, err = b.flow(s.byHandle, ev.Handle)
	} else {
		f, err = b.flow(s.byRef, ev.Ref.ID, ev.Ref.Scope, ev.Ref.Parent)
	}
	if err != nil {
		return journal.FlowResult{}, err
	}
	return b.nextFlow(f, ev)
}

// flow reads one without its steps; the zero Flow where there is none.
func (b *batch) flow(s *stmt, args ...any) (f journal.Flow, err error) {
	_, err = s.first(func(v []driver.Value) error {
		f, err = readFlow(v)
		return err
	}, args...)
	return f, b.fail(err)
}

// nextFlow runs NextFlow on f, without its steps, and writes what comes of it.
func (b *batch) nextFlow(f journal.Flow, ev journal.FlowEvent) (journal.FlowResult, error) {
	live := false
	if f.Holder != "" && ev.Claim == 0 {
		switch err := b.alive(f.Holder); {
		case err == nil:
			live = true
		case !errors.Is(err, errDead):
			return journal.FlowResult{}, err
		}
	}
	next, decision, err := journal.NextFlow(f, live, ev)
	if err != nil {
		return journal.FlowResult{}, err
	}
	// Before it is anybody's: whoever can't read them would hold it for nothing.
	if (decision == journal.Execute || decision == journal.Replay) && f.Handle != 0 {
		if next.Steps, err = b.readSteps(f.Handle); err != nil {
			return journal.FlowResult{}, err
		}
	}
	switch decision {
	case journal.Execute:
		next, err = b.storeFlow(f, next)
	case journal.Recorded:
		if ev.Claim != 0 {
			err = b.addSteps(f.Handle, ev.Steps)
		}
		if err == nil && ev.Kind != journal.FlowRecord {
			next, err = b.storeFlow(f, next)
		}
	}
	return journal.FlowResult{Flow: next, Decision: decision}, err
}

func (b *batch) storeFlow(was, f journal.Flow) (journal.Flow, error) {
	s := b.writer.flows.sql
	if was.Handle == 0 {
		err := b.read(s.nextHandle, func(v []driver.Value) error {
			f.Handle = v[0].(int64)
			return nil
		})
		if err == nil {
			err = b.write(s.insert, f.Handle, f.Scope, f.Parent, f.ID, f.Function.Name, f.Function.Version, int64(f.State), nullable(f.Holder),
				f.Claim, encodeFlowFacts(f), f.Input)
		}
		return f, err
	}
	facts := encodeFlowFacts(f)
	if f.Tombstone && !was.Tombstone {
		err := b.write(s.reap, facts, f.Handle)
		if err == nil {
			err = b.write(s.dropSteps, f.Handle)
		}
		return f, err
	}
	return f, b.write(s.update, int64(f.State), nullable(f.Holder), f.Claim, fromTime(f.DueAt), fromTime(f.EndedAt), facts, f.Handle)
}

func (b *batch) addSteps(handle int64, steps []journal.StepRecord) error {
	for _, step := range steps {
		if err := b.write(b.writer.flows.sql.insertStep, stepArgs(handle, step)...); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) readSteps(handle int64) (steps []journal.StepRecord, err error) {
	err = b.read(b.writer.flows.sql.steps, func(v []driver.Value) error {
		step, err := readStep(handle, v)
		steps = append(steps, step)
		return err
	}, handle)
	return steps, err
}

// ClaimFlows applies ev, of kind FlowClaim, to at most limit flows that want a claim.
// Flows whose session has lost its file are passed over; where there is nothing else to
// claim they are reported by journal.ErrRestored.
func (j *Journal) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	if ev.Kind != journal.FlowClaim || ev.At.IsZero() {
		return nil, &journal.FlowEventError{Kind: ev.Kind, Reason: "ClaimFlows needs a claim and the asker's clock"}
	}
	var results []journal.FlowResult
	err := j.file.writer.do(ctx, func(b *batch) (err error) {
		results, err = b.claimFlows(ev, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (b *batch) claimFlows(ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	if b.restored != nil {
		return nil, b.restored
	}
	if err := b.mine(ev.Session); err != nil {
		return nil, err
	}
	s, err := b.flowSQL()
	if err != nil {
		return nil, err
	}
	var results []journal.FlowResult
	var damaged error
	passed := make(map[int64]bool) // for they are damaged
	pass := func(handle int64, err error) bool {
		if !errors.Is(err, errFormat) || b.broken != nil {
			return false
		}
		passed[handle] = true
		damaged = fmt.Errorf("flow %d, which is passed over: %w", handle, err)
		return true
	}
	for {
		mine, others, restored, err := b.flowsThatWant(s, ev, limit-len(results), passed)
		if err != nil {
			return nil, err
		}
		before := len(passed)
		slices.Sort(mine)
		for _, handle := range mine {
			f, err := b.flow(s.byHandle, handle)
			var result journal.FlowResult
			if err == nil {
				result, err = b.nextFlow(f, ev)
			}
			if err == nil {
				results = append(results, result)
			} else if !pass(handle, err) {
				return nil, b.giveUp(err) // what was claimed before it is nobody's
			}
		}
		if len(passed) > before && len(results) < limit {
			continue // there may be others
		}
		if len(results) == 0 && (damaged != nil || restored != nil) {
			return nil, errors.Join(damaged, restored)
		}
		for _, handle := range others[:min(limit-len(results), len(others))] {
			f, err := b.flow(s.byHandle, handle)
			if err == nil {
				results = append(results, journal.FlowResult{Flow: f, Decision: journal.Ignored})
			} else if !pass(handle, err) {
				return nil, b.giveUp(err)
			}
		}
		if len(results) == 0 {
			return nil, damaged
		}
		return results, nil
	}
}

// flowsThatWant lists at most limit flows that want a claim and whose function is
// among the asker's, and as many others: first what dead sessions hold, then what is
// due, without those that were passed over. restored is not nil if there are flows of which nobody can say whether they are
// held.
func (b *batch) flowsThatWant(s *flowStatements, ev journal.FlowEvent, limit int, passed map[int64]bool) (mine, others []int64, restored, err error) {
	take := func(v []driver.Value) error {
		if passed[v[0].(int64)] {
			return nil
		}
		function := journal.FlowFunction{Name: v[1].(string), Version: int(v[2].(int64))}
		if !slices.Contains(ev.Functions, function) {
			if len(others) < limit {
				others = append(others, v[0].(int64))
			}
			return nil
		}
		if len(mine) >= limit {
			return errEnough
		}
		mine = append(mine, v[0].(int64))
		return nil
	}
	for holder := ""; ; {
		found, err := s.nextHolder.first(func(v []driver.Value) error {
			holder = v[0].(string)
			return nil
		}, holder)
		if err != nil {
			return nil, nil, nil, b.fail(err)
		}
		if !found {
			break
		}
		switch err := b.alive(holder); {
		case err == nil:
		case errors.Is(err, journal.ErrRestored):
			restored = err
		case !errors.Is(err, errDead):
			return nil, nil, nil, err
		default:
			if err := b.read(s.heldBy, take, holder); err != nil && !errors.Is(err, errEnough) {
				return nil, nil, nil, err
			}
		}
	}
	if err := b.read(s.due, take, ev.At.UnixMilli()); err != nil && !errors.Is(err, errEnough) {
		return nil, nil, nil, err
	}
	return mine, others, restored, nil
}

// ReapFlows applies ev, of kind FlowReap, to at most limit flows, in one commit.
func (j *Journal) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (reaped int, err error) {
	if err := j.open(ctx); err != nil {
		return 0, err
	}
	if ev.Kind != journal.FlowReap || ev.At.IsZero() {
		return 0, &journal.FlowEventError{Kind: ev.Kind, Reason: "ReapFlows needs a reap and the asker's clock"}
	}
	err = j.file.writer.do(ctx, func(b *batch) error {
		if b.restored != nil {
			return b.restored
		}
		if !b.clock.Unconfirmed(ev.At).IsZero() {
			return nil
		}
		s, err := b.flowSQL()
		if err != nil {
			return err
		}
		handles, err := b.handles(s.ended, ev.At.Add(-ev.Keep).UnixMilli(), limit)
		for _, handle := range handles {
			if err != nil {
				break
			}
			var f journal.Flow
			if f, err = b.flow(s.byHandle, handle); err == nil {
				var result journal.FlowResult
				if result, err = b.nextFlow(f, ev); result.Decision == journal.Recorded {
					reaped++
				}
			}
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return reaped, nil
}

// flowFacts are what is kept of a flow without a column of its own.
type flowFacts struct {
	Key        string                `json:"key"`
	Input      string                `json:"input_digest"`
	Undoing    bool                  `json:"undoing,omitempty"`
	GivenUpFor string                `json:"given_up_for,omitempty"`
	Cause      string                `json:"cause,omitempty"`
	WaitsFor   *journal.Ref          `json:"waits_for,omitempty"`
	Failures   int                   `json:"failures,omitempty"`
	History    []journal.FlowFailure `json:"history,omitempty"`
	Created    int64                 `json:"created"`
	Updated    int64                 `json:"updated"`
}

func encodeFlowFacts(f journal.Flow) []byte {
	facts := flowFacts{
		Key: f.Key, Input: f.InputDigest, Undoing: f.Undoing, GivenUpFor: f.GivenUpFor, Cause: f.Cause,
		Failures: f.Failures, History: f.History, Created: f.CreatedAt.UnixMilli(), Updated: f.UpdatedAt.UnixMilli(),
	}
	if f.WaitsFor != (journal.Ref{}) {
		facts.WaitsFor = &f.WaitsFor
	}
	encoded, _ := json.Marshal(facts) // strings, numbers and times: it can't fail
	return binary.LittleEndian.AppendUint32(encoded, sumOfFlow(encoded, f))
}

// sumOfFlow is the sum of facts and of everything else that is in the flow's row.
func sumOfFlow(facts []byte, f journal.Flow) uint32 {
	var e encoder
	e.int(f.Handle)
	for _, s := range [...]string{f.Scope, f.Parent, f.ID, f.Function.Name, f.Holder} {
		e.string(s)
	}
	e.int(int64(f.Function.Version))
	e.byte(byte(f.State))
	e.bools(f.Tombstone)
	e.int(f.Claim)
	e.time(f.DueAt)
	e.time(f.EndedAt)
	e.bytes(f.Input)
	return crc32.Update(sum(facts), castagnoli, e.buf)
}

// readFlow returns errSum as readRow does.
func readFlow(v []driver.Value) (journal.Flow, error) {
	tombstone := toByte(v[10])
	if tombstone > 1 {
		return journal.Flow{}, errFormat
	}
	f := journal.Flow{
		Handle:    v[0].(int64),
		Ref:       journal.Ref{Scope: v[1].(string), Parent: v[2].(string), ID: v[3].(string)},
		Function:  journal.FlowFunction{Name: v[4].(string), Version: int(v[5].(int64))},
		State:     journal.FlowState(toByte(v[6])),
		Holder:    toString(v[7]),
		DueAt:     toTime(v[8]),
		EndedAt:   toTime(v[9]),
		Tombstone: tombstone == 1,
		Claim:     v[13].(int64),
	}
	if input := toBytes(v[12]); len(input) > 0 {
		f.Input = slices.Clone(input)
	}
	encoded, sealed := toBytes(v[11]), sumIn(toBytes(v[11]))
	encoded = encoded[:max(0, len(encoded)-sumSize)]
	whole := sealed == sumOfFlow(encoded, f)
	var facts flowFacts
	if err := json.Unmarshal(encoded, &facts); err != nil {
		return journal.Flow{}, errors.Join(errFormat, err)
	}
	f.Key, f.InputDigest, f.Undoing, f.GivenUpFor = facts.Key, facts.Input, facts.Undoing, facts.GivenUpFor
	f.Cause, f.Failures, f.History = facts.Cause, facts.Failures, facts.History
	f.CreatedAt, f.UpdatedAt = time.UnixMilli(facts.Created).UTC(), time.UnixMilli(facts.Updated).UTC()
	if facts.WaitsFor != nil {
		f.WaitsFor = *facts.WaitsFor
	}
	if !whole {
		return f, errSum
	}
	return f, nil
}

func stepArgs(flow int64, s journal.StepRecord) []any {
	return []any{flow, s.Seq, int64(s.Kind), s.Name, s.Position, s.Parallel, s.At.UnixMilli(), s.Result, int64(sumOfStep(flow, s))}
}

// sumOfStep is the sum of a step's row.
func sumOfStep(flow int64, s journal.StepRecord) uint32 {
	var e encoder
	for _, n := range [...]int64{flow, int64(s.Seq), int64(s.Kind), int64(s.Position), s.At.UnixMilli()} {
		e.int(n)
	}
	e.bools(s.Parallel)
	e.string(s.Name)
	e.bytes(s.Result)
	return sum(e.buf)
}

// readStep reads one of the flow's, and returns errSum as readRow does.
func readStep(flow int64, v []driver.Value) (journal.StepRecord, error) {
	parallel := toByte(v[4])
	s := journal.StepRecord{
		Seq: int(v[0].(int64)), Kind: journal.StepKind(toByte(v[1])), Name: v[2].(string),
		Position: int(v[3].(int64)), Parallel: parallel == 1, At: toTime(v[5]),
	}
	if result := toBytes(v[6]); len(result) > 0 {
		s.Result = slices.Clone(result)
	}
	if parallel > 1 || v[7].(int64) != int64(sumOfStep(flow, s)) {
		return s, errSum
	}
	return s, nil
}
