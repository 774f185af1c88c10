package rowstore_test

import (
	"context"
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

func contextOf(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

func TestATransactionThatMissedIsDecidedAnew(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		evs := p.strangers(8)
		db.NextCommits(faultdb.Lands, faultdb.Misses, faultdb.Misses, faultdb.Misses)
		requireExecuted(t, p.together(db, evs...))
		for _, ev := range evs {
			assert.Equal(t, int64(1), p.get(ev.Ref.ID).Claim)
		}
	})
}

// A caller that waits for a held name is answered, however long the wait was, and if a row has changed meanwhile.
func TestALongWaitAndThenAMiss(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		var fates []faultdb.Fate
		for range 20 {
			fates = append(fates, faultdb.IsLocked)
		}
		db.NextCommits(append(fates, faultdb.Misses)...)
		p.executed("order-1")
	})
}

// A transaction that always misses goes on in parts, and only a request that misses alone fails.
func TestATransactionThatMissesForeverGoesOnInParts(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		fates := []faultdb.Fate{faultdb.Lands}
		for range 9 {
			fates = append(fates, faultdb.Misses)
		}
		db.NextCommits(fates...)
		requireExecuted(t, p.together(db, p.strangers(8)...))
	})
}

func TestACommitThatFailedRecordedNothing(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		db.NextCommits(faultdb.Fails)
		ev := p.begin("a")
		_, err := p.j.Apply(t.Context(), ev)
		require.Error(t, err)
		assert.NotErrorIs(t, err, rowstore.ErrUndecided)
		p.decide(ev, machine.Execute)
	})
}

// After a commit in doubt nothing is decided until the driver has found out whether it landed.
func TestNothingIsDecidedBeforeACommitInDoubtIsResolved(t *testing.T) {
	for name, fate := range map[string]faultdb.Fate{"it landed": faultdb.LosesAnswer, "it did not": faultdb.LosesCommit} {
		t.Run(name, func(t *testing.T) {
			history(t, func(t *testing.T, db *faultdb.Database, p *process) {
				op := p.executed("a")
				db.NextCommits(fate)
				ev := p.begin("b")
				for i, ev := range []machine.Event{ev, p.complete(op), p.begin("a")} {
					_, err := p.j.Apply(t.Context(), ev)
					assert.ErrorIs(t, err, rowstore.ErrUndecided, fmt.Sprint("event ", i))
					db.Unreachable(true)
				}
				db.Unreachable(false)
				cancel := p.of(machine.EventCancel, journal.Operation{Ref: ev.Ref})
				cancel.Asker, cancel.Unsent = ev.Asker, true
				if fate == faultdb.LosesAnswer {
					p.decide(cancel, machine.Recorded)
				} else {
					p.decide(cancel, machine.Stale)
				}
				assert.Equal(t, 1, db.Resolved())
				p.decide(ev, machine.Execute)
				p.decide(p.complete(op), machine.Recorded)
			})
		})
	}
}

// A fence is no row's fault: the transaction is neither repeated nor taken apart.
func TestAFencedProcessDecidesNothing(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		db.NextCommits(faultdb.Lands, faultdb.IsFenced)
		before := db.Begun()
		for _, r := range p.together(db, p.strangers(16)...) {
			assert.ErrorIs(t, r.err, rowstore.ErrFenced)
		}
		assert.Equal(t, 2, db.Begun()-before)
		p.executed("after")
	})
}

// race has two processes decide before either commits, and returns both decisions. Either may commit first.
func race(t *testing.T, db *faultdb.Database, a, b *process, ofA, ofB machine.Event) (decisions [2]machine.Decision) {
	t.Helper()
	release := db.BlockCommits()
	first := a.applied(ofA)
	synctest.Wait()
	second := b.applied(ofB)
	synctest.Wait()
	release()
	for i, c := range []<-chan reply{first, second} {
		r := <-c
		require.NoError(t, r.err)
		decisions[i] = r.Decision
	}
	return decisions
}

func pair(t *testing.T, test func(t *testing.T, db *faultdb.Database, a, b *process)) {
	t.Helper()
	history(t, func(t *testing.T, db *faultdb.Database, a *process) {
		b := newProcess(t, db)
		defer b.j.Close()
		test(t, db, a, b)
	})
}

func count(decisions [2]machine.Decision, of machine.Decision) (n int) {
	for _, d := range decisions {
		if d == of {
			n++
		}
	}
	return n
}

// A name and another operation's second name are one name, whoever comes first.
func TestANameAndASecondNameAtTwoProcessesExecuteOnce(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		withAlias := func(p *process, id, key string) machine.Event {
			ev := p.begin(id)
			ev.Intent.Alias, ev.Intent.Key, ev.Intent.KeyCarried = ref(key), "key-of-"+key, true
			return ev
		}
		carried := func(p *process, key string) machine.Event {
			ev := p.begin(key)
			ev.Intent.KeyCarried = true
			return ev
		}
		for i, race := range [][2]machine.Decision{
			race(t, db, a, b, withAlias(a, "name-1", "key-1"), carried(b, "key-1")),
			race(t, db, a, b, carried(a, "key-2"), withAlias(b, "name-2", "key-2")),
			race(t, db, a, b, withAlias(a, "name-3", "key-3"), withAlias(b, "name-4", "key-3")),
		} {
			assert.Equal(t, 1, count(race, machine.Execute), fmt.Sprint(i, race))
			assert.Equal(t, 1, count(race, machine.Misuse), fmt.Sprint(i, race))
		}
	})
}

// A name that is new to one process and known to another executes once.
func TestANameMadeUpTwiceExecutesOnce(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		made := a.begin("key")
		made.New, made.Intent.Naming = true, journal.Generated
		decisions := race(t, db, a, b, made, b.begin("key"))
		assert.Equal(t, 1, count(decisions, machine.Execute))
		assert.Equal(t, 1, count(decisions, machine.Wait))
		again := b.begin("key")
		again.New = true
		b.decide(again, machine.Wait)
	})
}

func TestOneNameAtTwoProcessesExecutesOnce(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		decisions := race(t, db, a, b, a.begin("a"), b.begin("a"))
		assert.Equal(t, 1, count(decisions, machine.Execute))
		assert.Equal(t, 1, count(decisions, machine.Wait))
	})
}

// unknown makes an operation unknown.
func (p *process) unknown(id string) journal.Operation {
	p.t.Helper()
	ev := p.of(machine.EventMarkUnknown, p.executed(id))
	ev.Attempts, ev.Account, ev.Open = 1, "acct", true
	return p.decide(ev, machine.Recorded)
}

// proof is evidence that the operation took effect as this object.
func (p *process) proof(op journal.Operation, object string) machine.Event {
	ev := p.of(machine.EventEvidence, op)
	ev.Session, ev.Account, ev.Object = "", "acct", object
	ev.Evidence = &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: journal.BasisKey}
	ev.Answer = &journal.Answer{Status: 200, Body: []byte(`{"id":"ch_1"}`)}
	return ev
}

func TestAnObjectProvesOneOperationOfTwoProcesses(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		x, y := a.unknown("x"), a.unknown("y")
		race(t, db, a, b, a.proof(x, "charge ch_1"), b.proof(y, "charge ch_1"))
		completed := 0
		for _, id := range []string{"x", "y"} {
			if a.get(id).State == journal.StateCompleted {
				completed++
			}
		}
		assert.Equal(t, 1, completed)

		third := a.unknown("z")
		a.apply(a.proof(third, "charge ch_1"))
		assert.Equal(t, journal.StateUnknown, a.get("z").State, "nor after it was committed")
	})
}

// Two operations in one transaction with the same object: the first of them is proven.
func TestAnObjectProvesOneOperationOfATransaction(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		x, y := p.unknown("x"), p.unknown("y")
		p.together(db, p.proof(x, "charge ch_1"), p.proof(y, "charge ch_1"))
		assert.Equal(t, journal.StateCompleted, p.get("x").State)
		assert.Equal(t, journal.StateUnknown, p.get("y").State)
	})
}
