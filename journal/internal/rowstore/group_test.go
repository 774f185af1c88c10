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
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

func TestRequestsThatArriveTogetherShareATransaction(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		before := db.Begun()
		requireExecuted(t, p.together(db, p.strangers(64)...))
		assert.Equal(t, 2, db.Begun()-before, "the first one's, and that of all others")
	})
}

func TestADamagedRowFailsItsOwnRequestAlone(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.executed("damaged")
		db.Damage(op.Handle)
		byName, byHandle := p.begin("damaged"), p.complete(op)
		byHandle.Ref = journal.Ref{}
		replies := p.together(db, append(p.strangers(8), byName, byHandle)...)
		requireExecuted(t, replies[:8])
		for _, r := range replies[8:] {
			assert.ErrorIs(t, r.err, format.ErrDamaged)
		}
	})
}

// An index of names that lost an entry's row, or leads to another's, is damaged: the name does not execute again.
func TestANameThatLeadsElsewhereIsNeverExecuted(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.executed("a")
		other := p.executed("b")
		for _, handle := range []int64{other.Handle, 4711} {
			db.Misname(rowstore.NameDigest(db.Key(), ref("a")), handle)
			_, err := p.j.Apply(t.Context(), p.begin("a"))
			assert.ErrorIs(t, err, format.ErrDamaged)
			_, err = p.j.Get(t.Context(), ref("a"))
			assert.ErrorIs(t, err, format.ErrDamaged)
		}
	})
}

func TestARefusedRowFailsItsOwnRequestAlone(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		db.Refuse(func(r *rowstore.Row) bool { return r.Provider == "refused" })
		evs := p.strangers(100)
		for _, i := range []int{0, 37, 99} {
			evs[i].Intent.Provider = "refused"
		}
		replies := p.together(db, evs...)
		for i, r := range replies {
			if evs[i].Intent.Provider == "refused" {
				assert.ErrorIs(t, r.err, rowstore.ErrRefused)
			} else {
				requireExecuted(t, []reply{r})
			}
		}
	})
}

// A request that has changed a row before it fails leaves the row as it was, and the others of its transaction go on.
func TestAFailedRequestUndoesItsOwnChangesAlone(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.decide(p.park(p.executed("a"), 0), machine.Recorded)
		panics := p.begin("a")
		panics.Intent.Fingerprint = "v1:salted anew"
		panics.Intent.Same = func(string) bool { panic("a caller's function") }
		replies := p.together(db, append(p.strangers(4), panics)...)
		requireExecuted(t, replies[:4])
		assert.ErrorContains(t, replies[4].err, "a caller's function")
		assert.Equal(t, op.UpdatedAt, p.get("a").UpdatedAt)
		p.decide(p.begin("a"), machine.Execute)
	})
}

// complete1 completes an operation whose outcome is still to be delivered.
func (p *process) complete1(id string) journal.Operation {
	p.t.Helper()
	return p.decide(p.complete(p.executed(id)), machine.Recorded)
}

// A delivery and evidence share a commit. Neither is found with its answer, which stays.
func TestTwoEventsOfACommitKeepTheAnswer(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		want := p.get("a").Answer.Body
		for _, r := range p.together(db, p.of(machine.EventDeliver, op), p.proof(op, "charge ch_1")) {
			require.NoError(t, r.err)
			assert.Equal(t, machine.Recorded, r.Decision)
		}
		got := p.get("a")
		assert.Equal(t, want, got.Answer.Body)
		assert.True(t, got.Delivered)
		assert.Equal(t, "charge ch_1", got.Object)
	})
}

func TestARefusedDeliveryFailsNoOtherRequest(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		db.Refuse(func(r *rowstore.Row) bool { return r.Handle == op.Handle })
		p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
		for i := range 20 {
			p.executed(fmt.Sprint("later-", i))
		}
		synctest.Wait()
		assert.Equal(t, 1, p.log.count(), "a warning, once")
		db.Refuse(nil)
		p.executed("last")
		assert.False(t, p.get("a").Delivered)
	})
}

func TestADeliveryWaitsForTheNextCommitWhileTheDatabaseIsAway(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
		db.Unreachable(true)
		_, err := p.j.Apply(t.Context(), p.begin("b"))
		require.Error(t, err)
		db.Unreachable(false)
		p.executed("b")
		assert.True(t, p.get("a").Delivered)
		assert.Zero(t, p.log.count())
	})
}

// Deliveries that come while a commit is about to fail take no other request's place.
func TestADeliveryBesideACommitThatFails(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		first, second := p.complete1("a"), p.complete1("b")
		db.NextCommits(faultdb.Fails, faultdb.Fails)
		release := db.BlockCommits()
		p.decide(p.of(machine.EventDeliver, first), machine.Recorded)
		begun := p.applied(p.begin("begun"))
		synctest.Wait() // its commit has begun, with the delivery of a
		p.decide(p.of(machine.EventDeliver, second), machine.Recorded)
		release()
		require.Error(t, (<-begun).err)
		p.executed("c")
		assert.True(t, p.get("a").Delivered)
		assert.True(t, p.get("b").Delivered)
		assert.Zero(t, p.log.count())
	})
}

// A request that records nothing does not show that the database can be written: the delivery waits on, without a warning.
func TestADeliveryWaitsUntilSomethingIsRecorded(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.decide(p.of(machine.EventDeliver, p.complete1("a")), machine.Recorded)
		db.NextCommits(faultdb.Fails)
		require.Error(t, p.j.Flush(t.Context()))
		db.NextCommits(faultdb.Fails)
		p.decide(p.begin("a"), machine.Replay)
		assert.False(t, p.get("a").Delivered)
		assert.Zero(t, p.log.count())
		p.executed("b")
		assert.True(t, p.get("a").Delivered)
		p.decide(p.of(machine.EventDeliver, p.complete1("c")), machine.Recorded)
		db.NextCommits(faultdb.Fails)
		require.Error(t, p.j.Close(), "the delivery is lost")
	})
}

func TestAHeldDeliveryDelaysNoOtherRequest(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		release := db.Hold([]int64{op.Handle}, nil)
		p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
		began := time.Now()
		for i := range 8 {
			p.executed(fmt.Sprint("later-", i))
		}
		assert.Zero(t, time.Since(began))
		release()
		synctest.Wait()
		assert.True(t, p.get("a").Delivered)
		assert.Zero(t, p.log.count())
	})
}

func TestCloseRecordsADeliveryWhoseRowIsHeldForAMoment(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
		time.AfterFunc(300*time.Millisecond, db.Hold([]int64{op.Handle}, nil))
		require.NoError(t, p.j.Close())
		next := newProcess(t, db)
		assert.True(t, next.get("a").Delivered)
		require.NoError(t, next.j.Close())
	})
}

func TestCloseEndsHoweverLongARowIsHeld(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		delivered, asked := p.complete1("a"), p.executed("b")
		p.decide(p.of(machine.EventDeliver, delivered), machine.Recorded)
		release := db.Hold([]int64{delivered.Handle, asked.Handle}, nil)
		waits := p.applied(p.begin("b"))
		synctest.Wait()
		require.NoError(t, p.j.Close())
		assert.ErrorIs(t, (<-waits).err, journal.ErrClosed)
		assert.Equal(t, 1, p.log.count(), "the outcome may be delivered again")
		release()
	})
}

func TestASessionsEndRecordsItsDeliveries(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		time.AfterFunc(time.Second, db.Hold([]int64{op.Handle}, nil))
		p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
		require.NoError(t, p.s.End(t.Context()))
		assert.True(t, p.get("a").Delivered)
	})
}

// A hundred callers ask for names that another transaction holds: rows that exist, and names that it is about to insert.
func TestHeldNamesDelayNoOthers(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		var handles []int64
		var names []rowstore.Digest
		var evs []machine.Event
		for i := range 50 {
			exists, comes := fmt.Sprint("exists-", i), fmt.Sprint("comes-", i)
			handles = append(handles, p.executed(exists).Handle)
			names = append(names, rowstore.NameDigest(db.Key(), ref(comes)))
			evs = append(evs, p.begin(exists), p.begin(comes))
		}
		release := db.Hold(handles, names)
		var held []<-chan reply
		for _, ev := range evs {
			held = append(held, p.applied(ev))
		}
		synctest.Wait()
		assert.Equal(t, 4, db.Waiting(), "each waits on a connection of its own, and these are few")
		began, transactions := time.Now(), db.Begun()
		for i := range 100 {
			p.executed(fmt.Sprint("other-", i))
			held = append(held, p.applied(p.begin("comes-7")))
			synctest.Wait()
		}
		assert.Zero(t, time.Since(began))
		assert.Equal(t, 100, db.Begun()-transactions, "a name that is known to be held costs the others no transaction")
		release()
		decisions := map[machine.Decision]int{}
		for _, c := range held {
			r := <-c
			require.NoError(t, r.err)
			decisions[r.Decision]++
		}
		assert.Equal(t, map[machine.Decision]int{machine.Wait: 150, machine.Execute: 50}, decisions)
	})
}

func TestACallerThatLeavesWaitsForNoHeldRow(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		release := db.Hold([]int64{p.executed("a").Handle}, nil)
		defer release()
		ctx, cancel := contextOf(t, time.Second)
		defer cancel()
		_, err := p.j.Apply(ctx, p.begin("a"))
		assert.ErrorIs(t, err, ctx.Err())
		synctest.Wait()
		assert.Zero(t, db.Waiting())
	})
}

// A program's test may leave a journal open. A bubble of package synctest fails if a goroutine of it stays.
func TestAnIdleStoreRunsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := faultdb.New()
		p := newProcess(t, db)
		p.decide(p.of(machine.EventDeliver, p.complete1("a")), machine.Recorded)
		requireExecuted(t, p.together(db, p.strangers(8)...))
		assert.Empty(t, p.claim(1))
	})
}

// delivers has a delivery ride with a begin, whose commit has the given fate.
func (p *process) delivers(db *faultdb.Database, fate faultdb.Fate) (reply, journal.Operation) {
	p.t.Helper()
	op := p.complete1("delivered")
	p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
	db.NextCommits(fate)
	return <-p.applied(p.begin("begun")), op
}

// A commit that failed with a delivery is made once more without it. The delivery is recorded on its own.
func TestACommitThatFailsWithADeliveryIsRepeatedWithoutIt(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		before := db.Begun()
		begun, delivered := p.delivers(db, faultdb.Fails)
		requireExecuted(t, []reply{begun})
		synctest.Wait()
		assert.Equal(t, 5, db.Begun()-before, "begin, complete, the failed one, that without the delivery, and the delivery")
		assert.True(t, p.get(delivered.ID).Delivered)
		assert.Zero(t, p.log.count())
	})
}

// A commit in doubt is not repeated, since it may have landed. A delivery of it waits for the next one.
func TestACommitInDoubtWithADeliveryIsNotRepeated(t *testing.T) {
	for name, fate := range map[string]faultdb.Fate{"it landed": faultdb.LosesAnswer, "it did not": faultdb.LosesCommit} {
		t.Run(name, func(t *testing.T) {
			history(t, func(t *testing.T, db *faultdb.Database, p *process) {
				begun, delivered := p.delivers(db, fate)
				assert.ErrorIs(t, begun.err, rowstore.ErrUndecided)
				p.executed("next")
				assert.True(t, p.get(delivered.ID).Delivered)
				assert.Zero(t, p.log.count())
			})
		})
	}
}

func TestADeliveryOfADamagedRowIsAWarning(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.complete1("a")
		p.decide(p.of(machine.EventDeliver, op), machine.Recorded)
		db.Damage(op.Handle)
		p.executed("next")
		assert.Equal(t, 1, p.log.count())
	})
}

// Close records how far the clock has come, which other commits do once an hour.
func TestCloseRecordsTheClock(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.executed("a")
		p.now = p.now.Add(time.Minute)
		p.decide(p.begin("a"), machine.Wait)
		require.NoError(t, p.j.Close())
		assert.Equal(t, p.now.UnixMilli(), db.Head().Clock.Last.UnixMilli())
	})
}

func TestCloseSaysThatItsCommitFailed(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.executed("a")
		p.now = p.now.Add(time.Minute)
		p.decide(p.begin("a"), machine.Wait)
		db.Unreachable(true)
		assert.Error(t, p.j.Close())
		db.Unreachable(false)
	})
}

// A request of several events is recorded as a whole, or not at all.
func TestARequestThatFailsAtItsSecondEventChangesNothing(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		a, damaged := p.unknown("a"), p.unknown("b")
		db.Damage(damaged.Handle)
		heard := machine.Heard{Provider: "ledger", ID: "evt_1"}
		_, _, err := p.j.RecordEvent(t.Context(), heard, []machine.Event{p.proof(a, "charge ch_1"), p.proof(damaged, "charge ch_2")})
		require.ErrorIs(t, err, format.ErrDamaged)
		p.executed("next")
		assert.Equal(t, journal.StateUnknown, p.get("a").State)
		_, first, err := p.j.RecordEvent(t.Context(), heard, []machine.Event{p.proof(a, "charge ch_1")})
		require.NoError(t, err)
		assert.True(t, first, "nor is the event remembered")
	})
}

func TestARequestWhoseCallerHasLeftIsNotDecided(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		release := p.j.Hold()
		ctx, cancel := contextOf(t, time.Second)
		defer cancel()
		_, err := p.j.Apply(ctx, p.begin("left"))
		require.ErrorIs(t, err, ctx.Err())
		release()
		p.executed("next")
		_, err = p.j.Get(t.Context(), ref("left"))
		assert.ErrorIs(t, err, journal.ErrNotFound)
	})
}

// A name that is held no more shares the transaction of others again.
func TestANameThatWasHeldSharesTransactionsAgain(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		release := db.Hold([]int64{p.executed("a").Handle}, nil)
		waits := p.applied(p.begin("a"))
		synctest.Wait()
		release()
		require.NoError(t, (<-waits).err)
		synctest.Wait()
		before := db.Begun()
		for _, r := range p.together(db, append(p.strangers(8), p.begin("a"))...) {
			require.NoError(t, r.err)
		}
		assert.Equal(t, 2, db.Begun()-before)
	})
}

// Nothing is decided about an operation whose request is damaged, so that its look-up is not leased in vain.
func TestADamagedRequestFailsItsOwnLookUpAlone(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.unknown("a")
		p.unknown("b")
		db.DamageRequest(op.Handle)
		before := db.Record(op.Handle)
		look := p.of(machine.EventLook, op)
		look.Due = p.now.Add(time.Minute)
		replies := p.together(db, append(p.strangers(4), look)...)
		requireExecuted(t, replies[:4])
		require.ErrorIs(t, replies[4].err, format.ErrDamaged)
		results, err := p.j.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: p.now, Due: look.Due}, 10)
		require.NoError(t, err)
		require.Len(t, results, 1)
		assert.Equal(t, "b", results[0].Operation.ID)
		assert.Equal(t, before, db.Record(op.Handle))
	})
}

// slow is a database whose check takes as long as its caller waits.
type slow struct{ rowstore.Driver }

func (slow) Check(ctx context.Context, _ func(journal.Violation)) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Close ends a Verify, and does not wait for it.
func TestCloseEndsAVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := rowstore.Open(t.Context(), slow{faultdb.New().Open()}, rowstore.Options{})
		require.NoError(t, err)
		verified := make(chan error, 1)
		go func() {
			_, err := j.Verify(t.Context())
			verified <- err
		}()
		synctest.Wait()
		require.NoError(t, j.Close())
		assert.ErrorIs(t, <-verified, journal.ErrClosed)
	})
}
