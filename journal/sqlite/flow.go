package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/statements"
)

var _ journal.LocalFlows = (*logJournal)(nil)

// flowWriter is the writer's state for flows.
type flowWriter struct {
	sql *statements.Flows // the writer's goroutine's; nil before the first use

	mu       sync.Mutex
	deferred []*journal.FlowEvent
	carried  bool // some that rode are in the batch
}

// ApplyFlow runs journal.NextFlow on the flow that ev names, and returns once the result is durable.
// FlowEventRecord is only noted: the next commit of this process, the end of a session, or Close records it.
// If the context ends first, the event may be recorded.
func (j *logJournal) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.writable(ctx); err != nil {
		return journal.FlowResult{}, err
	}
	if err := store.CheckApplyFlow(ev); err != nil {
		return journal.FlowResult{}, err
	}
	w := j.file.writer
	if ev.Kind == journal.FlowEventRecord {
		w.flows.mu.Lock()
		w.flows.deferred = append(w.flows.deferred, &ev)
		full := len(w.flows.deferred)%maxBatch == 0
		w.flows.mu.Unlock()
		if full {
			return journal.FlowResult{Decision: journal.Recorded}, w.flush()
		}
		return journal.FlowResult{Decision: journal.Recorded}, nil
	}
	var result journal.FlowResult
	err := w.do(ctx, func(b *batch) (err error) {
		if err := b.observeClock(ev.At); err != nil {
			return err
		}
		result, err = b.applyFlow(ev)
		return err
	})
	return result, err
}

// takeDeferredFlows applies the records that arrived since the last time, before later requests.
func (b *batch) takeDeferredFlows() {
	f := &b.writer.flows
	f.mu.Lock()
	riders := f.deferred
	if len(riders) == 0 {
		f.mu.Unlock()
		return
	}
	f.deferred, f.carried = nil, true
	f.mu.Unlock()
	b.committed = append(b.committed, func() {
		f.mu.Lock()
		f.carried = false
		f.mu.Unlock()
	})
	b.abandoned = append(b.abandoned, func() {
		f.mu.Lock()
		f.deferred, f.carried = append(riders, f.deferred...), false
		f.mu.Unlock()
	})
	for _, ev := range riders {
		// NextFlow rejects none if its flow exists. If the store fails, all stay noted.
		_ = b.recordDeferred(ev)
	}
}

// recordDeferred records steps like applyFlow, but without reading the flow: NextFlow accepts only a record
// under the current claim, which changes nothing else.
func (b *batch) recordDeferred(ev *journal.FlowEvent) error {
	if ev.Handle == 0 {
		_, err := b.applyFlow(*ev)
		return err
	}
	if f, ok := b.running[ev.Handle]; ok && f.Claim == ev.Claim {
		return b.addSteps(ev.Handle, ev.Steps)
	}
	s, err := b.flowSQL()
	for _, step := range ev.Steps {
		if err == nil {
			err = b.write(s.InsertDeferred, append(format.StepArgs(ev.Handle, step), ev.Handle, ev.Claim)...)
		}
	}
	return err
}

// flushFlows commits the noted records for a reader.
func (j *logJournal) flushFlows() error {
	f := &j.file.writer.flows
	f.mu.Lock()
	none := len(f.deferred) == 0 && !f.carried
	f.mu.Unlock()
	if none {
		return nil
	}
	return j.file.writer.flush()
}

func (b *batch) flowSQL() (*statements.Flows, error) {
	f := &b.writer.flows
	if f.sql == nil {
		var err error
		if f.sql, err = statements.NewFlows(b.conn); err != nil {
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
	case journal.FlowEventBegin, journal.FlowEventGiveUp, journal.FlowEventRetry:
		if b.restored != nil && ev.Claim == 0 {
			return journal.FlowResult{}, b.restored
		}
	}
	if ev.Kind == journal.FlowEventBegin {
		if err := b.requireSession(ev.Session); err != nil {
			return journal.FlowResult{}, err
		}
	}
	handle := ev.Handle
	if handle == 0 {
		if err := b.read(s.HandleOf, func(v []driver.Value) error {
			handle = v[0].(int64)
			return nil
		}, ev.Ref.ID, ev.Ref.Scope, ev.Ref.Parent); err != nil {
			return journal.FlowResult{}, err
		}
	}
	f, err := b.flow(handle)
	if err != nil {
		return journal.FlowResult{}, err
	}
	return b.nextFlow(f, ev)
}

// flow returns a flow without its steps, or the zero Flow if there is none.
func (b *batch) flow(handle int64) (f journal.Flow, err error) {
	if f, ok := b.running[handle]; ok || handle == 0 {
		f.Input, f.History = slices.Clone(f.Input), slices.Clone(f.History)
		return f, nil
	}
	_, err = b.writer.flows.sql.ByHandle.First(func(v []driver.Value) error {
		f, err = format.ReadFlow(v)
		return err
	}, handle)
	return f, b.fail(err)
}

// maxRunningInput bounds the input of a flow that the writer remembers, in bytes.
const maxRunningInput = 4 << 10

// rememberFlow keeps a running flow, which its holder changes next. The caller keeps what the slices of f share.
func (w *writer) rememberFlow(f journal.Flow) {
	if f.State != journal.FlowStateRunning || len(f.Input) > maxRunningInput {
		delete(w.running, f.Handle)
		return
	}
	if len(w.running) >= cacheSize {
		clear(w.running)
	}
	f.Input, f.History, f.Steps = slices.Clone(f.Input), slices.Clone(f.History), nil
	w.running[f.Handle] = f
}

// nextFlow runs NextFlow on f, without its steps, and writes the result.
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
	// The steps are read before the claim: a caller that cannot read them would hold the flow in vain.
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
		if err == nil && ev.Kind != journal.FlowEventRecord {
			next, err = b.storeFlow(f, next)
		}
	}
	return journal.FlowResult{Flow: next, Decision: decision}, err
}

func (b *batch) storeFlow(was, f journal.Flow) (journal.Flow, error) {
	s := b.writer.flows.sql
	if was.Handle == 0 {
		var err error
		if b.newestFlow == 0 {
			err = b.read(s.Newest, func(v []driver.Value) error {
				b.newestFlow = v[0].(int64)
				return nil
			})
		}
		f.Handle = b.newestFlow + 1
		if err == nil {
			err = b.write(s.Insert, statements.InsertFlowArgs(&f)...)
		}
		if err == nil {
			b.newestFlow = f.Handle
			b.rememberFlow(f)
		}
		return f, err
	}
	facts := format.EncodeFlowFacts(f)
	if f.Tombstone && !was.Tombstone {
		err := b.write(s.Reap, facts, f.Handle)
		if err == nil {
			err = b.write(s.DropSteps, f.Handle)
		}
		return f, err
	}
	err := b.write(s.Update, int64(f.State), format.Nullable(f.Holder), f.Claim, format.FromTime(format.Due(&f)), format.FromTime(f.EndedAt), facts, f.Handle)
	if err == nil {
		b.rememberFlow(f)
	}
	return f, err
}

func (b *batch) addSteps(handle int64, steps []journal.StepRecord) error {
	for _, step := range steps {
		if err := b.write(b.writer.flows.sql.InsertStep, format.StepArgs(handle, step)...); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) readSteps(handle int64) (steps []journal.StepRecord, err error) {
	err = b.read(b.writer.flows.sql.Steps, func(v []driver.Value) error {
		step, err := format.ReadStep(handle, v)
		steps = append(steps, step)
		return err
	}, handle)
	return steps, err
}

// ClaimFlows applies ev, of kind FlowEventClaim, to at most limit flows that need a claim. It skips flows
// whose session has lost its file. If it finds nothing else, it returns journal.ErrRestored for them.
func (j *logJournal) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	if err := j.writable(ctx); err != nil {
		return nil, err
	}
	if err := store.CheckClaimFlows(ev); err != nil {
		return nil, err
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
	if err := b.requireSession(ev.Session); err != nil {
		return nil, err
	}
	if err := b.observeClock(ev.At); err != nil {
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
		if !errors.Is(err, format.ErrDamaged) || b.broken != nil {
			return false
		}
		passed[handle] = true
		damaged = fmt.Errorf("flow %d is passed over: %w", handle, err)
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
			f, err := b.flow(handle)
			var result journal.FlowResult
			if err == nil {
				result, err = b.nextFlow(f, ev)
			}
			if err == nil {
				results = append(results, result)
			} else if !pass(handle, err) {
				return nil, b.giveUp(err) // the earlier claims of this batch are undone
			}
		}
		if len(passed) > before && len(results) < limit {
			continue // there may be others
		}
		if len(results) == 0 && (damaged != nil || restored != nil) {
			return nil, errors.Join(damaged, restored)
		}
		for _, handle := range others[:min(limit-len(results), len(others))] {
			f, err := b.flow(handle)
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

// flowsThatWant lists at most limit flows that need a claim and whose function the caller has, and as many
// others: first those of dead sessions, then due ones, without the passed ones. restored is not nil if the
// holders of some flows are unknown.
func (b *batch) flowsThatWant(s *statements.Flows, ev journal.FlowEvent, limit int, passed map[int64]bool) (mine, others []int64, restored, err error) {
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
			return conn.ErrEnough
		}
		mine = append(mine, v[0].(int64))
		return nil
	}
	for holder := ""; ; {
		found, err := s.NextHolder.First(func(v []driver.Value) error {
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
			if err := b.read(s.HeldBy, take, holder); err != nil && !errors.Is(err, conn.ErrEnough) {
				return nil, nil, nil, err
			}
		}
	}
	if err := b.read(s.Due, take, ev.At.UnixMilli()); err != nil && !errors.Is(err, conn.ErrEnough) {
		return nil, nil, nil, err
	}
	return mine, others, restored, nil
}

// ReapFlows applies ev, of kind FlowEventReap, to at most limit flows, in one commit. It passes over damaged ones, and
// returns their error too if it reaps fewer.
func (j *logJournal) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (reaped int, err error) {
	if err := j.writable(ctx); err != nil {
		return 0, err
	}
	if err := store.CheckReapFlows(ev); err != nil {
		return 0, err
	}
	var damaged error
	err = j.file.writer.do(ctx, func(b *batch) error {
		if b.restored != nil {
			return b.restored
		}
		if err := b.observeClock(ev.At); err != nil {
			return err
		}
		ev.At = b.clock.Passed(ev.At)
		s, err := b.flowSQL()
		if err != nil {
			return err
		}
		passed := make(map[int64]bool)
		for reaped < limit {
			handles, err := b.handles(s.Ended, ev.At.Add(-ev.Keep).UnixMilli(), limit-reaped+len(passed))
			handles = slices.DeleteFunc(handles, func(handle int64) bool { return passed[handle] })
			if err != nil || len(handles) == 0 {
				return err
			}
			for _, handle := range handles {
				f, err := b.flow(handle)
				var result journal.FlowResult
				if err == nil {
					result, err = b.nextFlow(f, ev)
				} else if errors.Is(err, format.ErrDamaged) {
					damaged, err = fmt.Errorf("flow %d is passed over: %w", handle, err), nil
				}
				if err != nil {
					return err
				}
				if result.Decision == journal.Recorded {
					reaped++
				} else {
					passed[handle] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if reaped < limit {
		return reaped, damaged
	}
	return reaped, nil
}
