package rowstore_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// What another process does to an operation is decided on at once, whatever this process has seen of it.
func TestADecisionReadsWhatOtherProcessesWrote(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		op := b.executed("x")
		a.decide(a.begin("x"), machine.Wait)
		assert.Empty(t, a.claim(10))
		b.decide(b.park(op, 0), machine.Recorded)
		assert.Len(t, a.claim(10), 1)

		parked := a.decide(a.park(a.executed("y"), time.Hour), machine.Recorded)
		again := b.of(machine.EventResolve, parked)
		again.Session, again.Resolution, again.By, again.Cause, again.Key = "", journal.SendAgain, "ann", "checked", "key-2"
		b.decide(again, machine.Recorded)
		assert.Len(t, a.claim(10), 1)
	})
}

// Two processes claim one operation at a time, while each transaction of the other is open. Both get one as long as
// there are some.
func TestClaimsLockHardlyMoreRowsThanTheyTake(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		for i := range 30 {
			a.decide(a.park(a.executed(fmt.Sprint("due-", i)), 0), machine.Recorded)
		}
		for range 15 {
			release := db.BlockCommits()
			claimed := make(chan int, 2)
			for _, p := range []*process{a, b} {
				go func() { claimed <- len(p.claim(1)) }()
				synctest.Wait()
			}
			assert.LessOrEqual(t, db.Held(), 3)
			release()
			require.Equal(t, 2, <-claimed+<-claimed)
		}
		assert.Empty(t, a.claim(1))
	})
}

func TestAClaimSkipsRowsThatOthersHold(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		var held []int64
		for i := range 20 {
			op := p.decide(p.park(p.executed(fmt.Sprint("due-", i)), 0), machine.Recorded)
			if i < 15 {
				held = append(held, op.Handle)
			}
		}
		release := db.Hold(held, nil)
		assert.Len(t, p.claim(2), 2, "it goes on behind the held ones")
		assert.Len(t, p.claim(10), 3)
		release()
		assert.Len(t, p.claim(100), 15)
	})
}

func TestASessionOfWhichNoOneKnowsKeepsItsOperationsAlone(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		b.executed("unsure")
		a.decide(a.park(a.executed("due"), 0), machine.Recorded)
		db.Unsure(b.s.ID())
		assert.Len(t, a.claim(10), 1)
		replies := a.together(db, append(a.strangers(4), a.begin("unsure"))...)
		requireExecuted(t, replies[:4])
		assert.Error(t, replies[4].err)
		_, err := a.j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: a.now, Session: a.s.ID()}, 10)
		assert.Error(t, err, "a claim that gets nothing says why")
	})
}

func TestADamagedRowIsPassedOverByClaims(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		damaged := p.decide(p.park(p.executed("damaged"), 0), machine.Recorded)
		p.decide(p.park(p.executed("due"), 0), machine.Recorded)
		db.Damage(damaged.Handle)
		assert.Len(t, p.claim(10), 1)
	})
}

// A claim goes past operations that another transaction holds, however many they are.
func TestAClaimGoesPastManyThatAreHeld(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		var held []int64
		for i := range 100 {
			held = append(held, p.decide(p.park(p.executed(fmt.Sprint("held-", i)), 0), machine.Recorded).Handle)
		}
		p.decide(p.park(p.executed("free"), 0), machine.Recorded)
		release := db.Hold(held, nil)
		defer release()
		claimed := p.claim(1)
		require.Len(t, claimed, 1)
		assert.Equal(t, "free", claimed[0].Operation.ID)
	})
}

// So it does if each of two indexes has only some of them.
func TestAClaimGoesPastHeldOperationsOfTwoIndexes(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		var held []int64
		for i := range 50 {
			held = append(held, a.decide(a.park(a.executed(fmt.Sprint("due-", i)), 0), machine.Recorded).Handle, b.executed(fmt.Sprint("left-", i)).Handle)
		}
		rowstore.Kill(b.s)
		a.decide(a.park(a.executed("free"), 0), machine.Recorded)
		release := db.Hold(held, nil)
		defer release()
		claimed := a.claim(1)
		require.Len(t, claimed, 1)
		assert.Equal(t, "free", claimed[0].Operation.ID)
	})
}

// A sweep leaves out no operation: it waits for those that others hold.
func TestAResetOfTheClockWaitsForHeldRows(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		before := p.now
		p.now = before.Add(2 * time.Hour)
		var held journal.Operation
		for _, id := range []string{"x", "y"} {
			held = p.decide(p.park(p.executed(id), time.Minute), machine.Recorded)
		}
		release := db.Hold([]int64{held.Handle}, nil)
		reset := make(chan error, 1)
		go func() { reset <- p.j.ResetClock(t.Context(), before) }()
		synctest.Wait()
		assert.Empty(t, reset)
		p.executed("meanwhile")
		release()
		require.NoError(t, <-reset)
		for _, id := range []string{"x", "y"} {
			assert.True(t, p.get(id).WindowClosed, id)
		}
	})
}

// owes has the commit of a leap fail that closes the window of x.
func owes(t *testing.T, db *faultdb.Database, p *process) {
	t.Helper()
	before := p.now
	p.now = before.Add(2 * time.Hour)
	p.decide(p.park(p.executed("x"), time.Minute), machine.Recorded)
	p.now = before
	p.executed("while the clock is behind")
	p.now = before.Add(machine.Confirmation)
	db.NextCommits(faultdb.Fails)
	_, err := p.j.Apply(t.Context(), p.begin("once it is believed"))
	require.Error(t, err)
	require.False(t, p.get("x").WindowClosed)
}

// A caller whose clock leaps is answered although another transaction holds a row. The sweep tells the row once it is free.
func TestALeapOfTheClockWaitsForNoHeldRow(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		before := p.now
		p.now = before.Add(2 * time.Hour)
		var held journal.Operation
		for _, id := range []string{"x", "y"} {
			held = p.decide(p.park(p.executed(id), time.Minute), machine.Recorded)
		}
		p.now = before
		p.executed("while the clock is behind")
		p.now = before.Add(machine.Confirmation)
		release := db.Hold([]int64{held.Handle}, nil)
		began := time.Now()
		p.executed("once it is believed")
		assert.Zero(t, time.Since(began))
		assert.True(t, p.get("x").WindowClosed)
		assert.False(t, p.get("y").WindowClosed)
		release()
		synctest.Wait()
		assert.True(t, p.get("y").WindowClosed)
		assert.NotContains(t, db.Head().Leaps, "at", "all were told")
	})
}

// A transaction of the application's is decided although its caller's clock shows a leap that is not recorded yet.
func TestAnEnqueueIsRecordedThoughALeapIsDue(t *testing.T) {
	history(t, func(t *testing.T, _ *faultdb.Database, p *process) {
		before := p.now
		p.now = before.Add(2 * time.Hour)
		p.decide(p.park(p.executed("x"), time.Minute), machine.Recorded)
		p.now = before
		p.executed("while the clock is behind")
		p.now = before.Add(machine.Confirmation)
		ev := p.begin("enqueued")
		ev.Kind, ev.Session, ev.Asker, ev.Intent.Naming = machine.EventEnqueue, "", 0, journal.Named
		tx, err := p.j.BeginTx(t.Context())
		require.NoError(t, err)
		result, err := p.j.EnqueueTx(t.Context(), tx, ev)
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, result.Decision)
		require.NoError(t, tx.Commit(t.Context()))
		synctest.Wait()
		assert.True(t, p.get("x").WindowClosed, "the leap is recorded beside it")
	})
}

// A leap whose commit failed is recorded by the next transaction.
func TestALeapThatFailedIsRepeated(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		owes(t, db, p)
		p.executed("next")
		assert.True(t, p.get("x").WindowClosed)
	})
}

// A leap whose commit failed is not forgotten by a transaction that is rolled back because it has nothing to record.
func TestALeapThatFailedOutlivesAnEventWithoutOperation(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		owes(t, db, p)
		_, first, err := p.j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: "evt_1"}, nil)
		require.NoError(t, err)
		require.True(t, first)
		p.executed("next")
		assert.True(t, p.get("x").WindowClosed)
	})
}

// A reset of the clock whose commit failed changes nothing, however often it fails.
func TestAResetOfTheClockThatFails(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		before := p.now
		p.now = before.Add(2 * time.Hour)
		p.decide(p.park(p.executed("x"), time.Minute), machine.Recorded)
		for range 3 {
			db.NextCommits(faultdb.Fails)
			require.Error(t, p.j.ResetClock(t.Context(), before))
		}
		assert.Equal(t, p.now.UnixMilli(), p.apply(p.begin("y")).Last.UnixMilli())
		assert.False(t, p.get("x").WindowClosed)
		require.NoError(t, p.j.ResetClock(t.Context(), before))
		assert.True(t, p.get("x").WindowClosed)
		p.now = before
		assert.Equal(t, before.UnixMilli(), p.apply(p.begin("z")).Last.UnixMilli())
	})
}

// If the clock is reset after a process has decided by it, and before that is committed, the process decides anew.
func TestADecisionBeforeAResetIsNotCommittedAfterIt(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		right := a.now
		a.now = right.Add(30 * time.Hour)
		a.apply(machine.Event{Kind: machine.EventClock, At: a.now})
		a.now = a.now.Add(machine.Confirmation)
		a.executed("x")
		db.StepCommits(true)
		late := make(chan machine.Result, 1)
		go func() { late <- a.apply(a.begin("late")) }()
		synctest.Wait()
		require.Equal(t, 1, db.Commits())
		reset := make(chan error, 1)
		go func() { reset <- b.j.ResetClock(t.Context(), right) }()
		synctest.Wait()
		require.Equal(t, 2, db.Commits())
		db.LetCommit(1, faultdb.Lands)
		synctest.Wait()
		db.StepCommits(false)
		require.NoError(t, <-reset)
		assert.Equal(t, right.UnixMilli(), (<-late).Operation.SentSince.UnixMilli(), "its window does not begin when a clock said that was reset")
		assert.True(t, a.get("x").WindowClosed)
	})
}

// A reset goes behind what this process recorded last. It need not go behind what another process recorded before.
func TestAProcessFollowsAResetBehindItsOwnLatestCommit(t *testing.T) {
	pair(t, func(t *testing.T, _ *faultdb.Database, a, b *process) {
		before := a.now
		a.executed("x")
		a.now = before.Add(10 * time.Minute)
		a.executed("y")
		between := before.Add(5 * time.Minute)
		require.NoError(t, b.j.ResetClock(t.Context(), between))
		a.now = between
		assert.Equal(t, between.UnixMilli(), a.apply(a.begin("z")).Last.UnixMilli())
	})
}

func TestAProcessFollowsTheClockOfAnother(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		b.now = b.now.Add(machine.Leap)
		b.executed("w")
		last := a.apply(a.begin("z")).Last
		assert.Equal(t, b.now.UnixMilli(), last.UnixMilli())
	})
}

func (p *process) flow(id string) machine.FlowEvent {
	return machine.FlowEvent{
		Kind: machine.FlowEventBegin, Ref: ref(id), At: p.now, Session: p.s.ID(),
		Function: journal.FlowFunction{Name: "ride", Version: 1}, Key: "key-of-" + id, Input: []byte("{}"), InputDigest: "v1:" + id,
	}
}

// waits begins a flow and parks it for an hour.
func (p *process) waits(id string) journal.Flow {
	p.t.Helper()
	begun, err := p.j.ApplyFlow(p.t.Context(), p.flow(id))
	require.NoError(p.t, err)
	f := begun.Flow
	parked, err := p.j.ApplyFlow(p.t.Context(), machine.FlowEvent{
		Kind: machine.FlowEventPark, Ref: f.Ref, Handle: f.Handle, At: p.now, Session: p.s.ID(), Claim: f.Claim, Due: p.now.Add(time.Hour),
	})
	require.NoError(p.t, err)
	return parked.Flow
}

// A clock ran ahead by days, and is reset. No flow waits for the days to pass, not even one that another transaction
// holds.
func TestAResetOfTheClockWaitsForHeldFlows(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, p, other *process) {
		before := p.now
		p.now = before.Add(3 * 24 * time.Hour)
		f := p.waits("held")
		d := db.Open()
		tx, _, _, err := d.Begin(t.Context(), rowstore.Keys{})
		require.NoError(t, err)
		_, err = tx.Flow(t.Context(), f.Handle, rowstore.Digest{}, rowstore.WaitLock)
		require.NoError(t, err)
		reset := make(chan error, 1)
		go func() { reset <- p.j.ResetClock(t.Context(), before) }()
		synctest.Wait()
		assert.Empty(t, reset)
		tx.Rollback()
		require.NoError(t, <-reset)
		got, err := p.j.GetFlow(t.Context(), ref("held"))
		require.NoError(t, err)
		assert.Equal(t, before.Add(time.Hour).UnixMilli(), got.DueAt.UnixMilli())
	})
}

// A sweep goes through more rows than it reads at once.
func TestAResetOfTheClockSweepsManyRows(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		const many = 600
		before := p.now
		p.now = before.Add(3 * 24 * time.Hour)
		for i := range many {
			p.decide(p.park(p.executed(fmt.Sprint("op-", i)), time.Minute), machine.Recorded)
			p.waits(fmt.Sprint("flow-", i))
		}
		require.NoError(t, p.j.ResetClock(t.Context(), before))
		for i := range many {
			assert.True(t, p.get(fmt.Sprint("op-", i)).WindowClosed, i)
			f, err := p.j.GetFlow(t.Context(), ref(fmt.Sprint("flow-", i)))
			require.NoError(t, err)
			assert.Equal(t, before.Add(time.Hour).UnixMilli(), f.DueAt.UnixMilli(), i)
		}
	})
}

// A claim passes over an operation whose row the database refuses, and gets all others. It returns the error if there are none.
func TestClaimPassesOverARefusedOperation(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		var refused int64
		for n := range 20 {
			op := p.executed(fmt.Sprint("invoice-", n))
			p.apply(p.park(op, 0))
			if n == 7 {
				refused = op.Handle
			}
		}
		db.Refuse(func(r *rowstore.Row) bool { return r.Handle == refused && r.Holder != "" })
		claimed := 0
		for {
			results, err := p.j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: p.now, Session: p.s.ID()}, 10)
			if len(results) == 0 {
				assert.ErrorIs(t, err, rowstore.ErrRefused, "it says what it passed over")
				break
			}
			require.NoError(t, err)
			claimed += len(results)
		}
		assert.Equal(t, 19, claimed)
		assert.Contains(t, p.log.text.String(), "refuses the claim")
		db.Refuse(nil)
		time.Sleep(time.Minute + 1)
		results, err := p.j.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: p.now, Session: p.s.ID()}, 10)
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Equal(t, refused, results[0].Operation.Handle)
	})
}
