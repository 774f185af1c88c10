package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/postgres/internal/record"
)

var _ journal.Flows = (*laneJournal)(nil)

// ApplyFlow runs journal.NextFlow on the flow that ev names, and returns once the result is durable, also for
// FlowEventRecord. If ctx ends first, the event may be recorded.
func (j *laneJournal) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (result journal.FlowResult, err error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return journal.FlowResult{}, err
	}
	defer leave()
	if err := store.CheckApplyFlow(ev); err != nil {
		return journal.FlowResult{}, err
	}
	a := ask{doing: "apply a flow's event", at: ev.At}
	switch ev.Kind {
	case journal.FlowEventBegin:
		a.needs, a.decides = []string{ev.Session}, true
		if err := j.joined(ev.Session); err != nil {
			return journal.FlowResult{}, err
		}
	case journal.FlowEventGiveUp, journal.FlowEventRetry:
		a.decides = ev.Claim == 0
	}
	err = j.tx(ctx, a, func(t *tx) error {
		f, err := t.findFlow(ev, " FOR UPDATE")
		if err == nil {
			result, err = t.nextFlow(f, ev)
		}
		return err
	})
	if err != nil {
		return journal.FlowResult{}, err
	}
	if ev.Kind == journal.FlowEventRecord {
		result.Flow = journal.Flow{}
	}
	return result, nil
}

// ClaimFlows applies ev, of kind FlowEventClaim, to at most limit claimable flows. It skips flows that another
// transaction is changing, and unreadable ones. If there is nothing else to claim, it returns the error of the
// unreadable one.
func (j *laneJournal) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) (results []journal.FlowResult, err error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := store.CheckClaimFlows(ev); err != nil {
		return nil, err
	}
	if err := j.joined(ev.Session); err != nil {
		return nil, err
	}
	err = j.tx(ctx, ask{doing: "claim flows", at: ev.At, needs: []string{ev.Session}, decides: true}, func(t *tx) error {
		results, err = t.claimFlows(ev, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (t *tx) claimFlows(ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	if limit <= 0 {
		return nil, nil
	}
	dead, err := t.deadHolders("flows")
	if err != nil {
		return nil, err
	}
	var results []journal.FlowResult
	p := &passedFlows{handles: []int64{}}
	for before := -1; before < len(p.handles) && len(results) < limit; { // in the place of those that are damaged, there may be others
		before = len(p.handles)
		mine, err := t.flowsThatWant(ev, dead, limit-len(results), p)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(mine, func(a, b journal.Flow) int { return cmp.Compare(a.Handle, b.Handle) })
		for _, f := range mine {
			result, err := t.nextFlow(f, ev)
			if p.pass(f.Handle, err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			results = append(results, result)
		}
	}
	if len(results) == 0 && p.damaged != nil {
		return nil, p.damaged
	}
	if len(results) == limit {
		return results, nil
	}
	return results, t.others(ev, dead, limit-len(results), p, func(f journal.Flow) {
		results = append(results, journal.FlowResult{Flow: f, Decision: journal.Ignored})
	})
}

// passedFlows are flows that a claim, or who reaps, passes over, since they can't be read.
type passedFlows struct {
	handles []int64
	damaged error
}

func (p *passedFlows) pass(handle int64, err error) bool {
	if !record.IsDamaged(err) {
		return false
	}
	p.handles, p.damaged = append(p.handles, handle), fmt.Errorf("postgres: flow %d is passed over: %w", handle, err)
	return true
}

// functionsOf are the names and the versions of functions.
func functionsOf(functions []journal.FlowFunction) (names [][]byte, versions []int64) {
	names, versions = make([][]byte, 0, len(functions)), make([]int64, 0, len(functions))
	for _, f := range functions {
		names, versions = append(names, []byte(f.Name)), append(versions, int64(f.Version))
	}
	return names, versions
}

const (
	heldFlows = ` WHERE state = 1 AND holder >= $1 AND holder <= $1 AND %s ((function, version) IN (SELECT * FROM unnest($2::bytea[], $3::bigint[])))
		AND handle <> ALL($5) ORDER BY holder, handle LIMIT $4`
	dueFlows = ` WHERE state = 2 AND due_at BETWEEN -$1::bigint AND $1 AND %s ((function, version) IN (SELECT * FROM unnest($2::bytea[], $3::bigint[]))) AND handle <> ALL($5) ORDER BY due_at, handle LIMIT $4`
)

// flowsThatWant reads and locks at most limit flows that want a claim and whose function the caller has. Flows of
// dead sessions come first, then the flows that are due longest.
func (t *tx) flowsThatWant(ev journal.FlowEvent, dead []string, limit int, p *passedFlows) (flows []journal.Flow, err error) {
	names, versions := functionsOf(ev.Functions)
	take := func(row record.Scanner) error {
		var handle int64
		f, err := record.ScanFlow(record.KeepFirst(row, &handle))
		if p.pass(handle, err) {
			return nil
		}
		flows = append(flows, f)
		return err
	}
	const lock = " FOR UPDATE SKIP LOCKED"
	for _, holder := range dead {
		if err == nil && len(flows) < limit {
			err = t.each(take, record.SelectFlow+fmt.Sprintf(heldFlows, "")+lock, holder, names, versions, limit-len(flows), p.handles)
		}
	}
	if err == nil && len(flows) < limit {
		err = t.each(take, record.SelectFlow+fmt.Sprintf(dueFlows, "")+lock, ev.At.UnixMilli(), names, versions, limit-len(flows), p.handles)
	}
	return flows, err
}

// others calls show for at most limit flows that want a claim and have another function.
func (t *tx) others(ev journal.FlowEvent, dead []string, limit int, p *passedFlows, show func(journal.Flow)) error {
	names, versions := functionsOf(ev.Functions)
	n := 0
	take := func(row record.Scanner) error {
		var handle int64
		f, err := record.ScanFlow(record.KeepFirst(row, &handle))
		if p.pass(handle, err) {
			return nil
		}
		if err == nil {
			show(f)
			n++
		}
		return err
	}
	for _, holder := range dead {
		if n == limit {
			break
		}
		if err := t.each(take, record.SelectFlow+fmt.Sprintf(heldFlows, "NOT"), holder, names, versions, limit-n, p.handles); err != nil {
			return err
		}
	}
	if n == limit {
		return nil
	}
	return t.each(take, record.SelectFlow+fmt.Sprintf(dueFlows, "NOT"), ev.At.UnixMilli(), names, versions, limit-n, p.handles)
}

// ReapFlows applies ev, of kind FlowEventReap, to at most limit flows, 100 a commit. It returns how many were reaped,
// also with an error. It skips damaged flows, and returns their error if there is nothing else to reap.
func (j *laneJournal) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (reaped int, err error) {
	leave, err := j.enterToWrite(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := store.CheckReapFlows(ev); err != nil {
		return 0, err
	}
	p := &passedFlows{handles: []int64{}}
	for reaped < limit {
		n, left := 0, false
		size := min(reapBatch, limit-reaped)
		err := j.tx(ctx, ask{doing: "reap flows", at: ev.At, decides: true}, func(t *tx) error {
			n, left = 0, false
			passed := t.passed(ev.At)
			of := ev
			of.At = passed
			var ended []journal.Flow
			before := len(p.handles)
			err := t.each(func(row record.Scanner) error {
				var handle int64
				f, err := record.ScanFlow(record.KeepFirst(row, &handle))
				if p.pass(handle, err) {
					return nil
				}
				ended = append(ended, f)
				return err
			}, record.SelectFlow+" WHERE ended_at <= $1 AND NOT tombstone AND handle <> ALL($3) ORDER BY ended_at, handle LIMIT $2 FOR UPDATE SKIP LOCKED",
				passed.Add(-ev.Keep).UnixMilli(), size, p.handles)
			if err != nil {
				return err
			}
			for _, f := range ended {
				result, err := t.nextFlow(f, of)
				if err != nil {
					return err
				}
				if result.Decision == journal.Recorded {
					n++
				}
			}
			left = len(p.handles) > before || n > 0 && len(ended) == size
			return nil
		})
		if err != nil {
			return reaped, err
		}
		reaped += n
		if !left {
			return reaped, p.damaged
		}
	}
	return reaped, nil
}
