package rowstore_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// restored puts a copy of the database, as it is now, behind a commit that the copy lacks.
func (p *process) restored(db *faultdb.Database) {
	old := db.Copy()
	p.executed("lost")
	db.Restore(old)
}

func TestAdoptWaitsForRowsThatOthersHold(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.decide(p.park(p.executed("a"), 0), machine.Recorded)
		p.restored(db)
		release := db.Hold([]int64{op.Handle}, nil)
		adopted := make(chan error)
		go func() { adopted <- p.j.Adopt(t.Context()) }()
		synctest.Wait()
		assert.Equal(t, 1, db.Waiting())
		_, err := p.j.Apply(t.Context(), p.begin("b"))
		require.ErrorIs(t, err, journal.ErrRestored)
		release()
		require.NoError(t, <-adopted)
		assert.True(t, p.get("a").Adopted)
		p.executed("b")
	})
}

func TestTwoAdoptionsAtOnceEndAsOne(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		op := a.executed("a")
		a.restored(db)
		release := db.Hold([]int64{op.Handle}, nil)
		first := make(chan error)
		go func() { first <- a.j.Adopt(t.Context()) }()
		synctest.Wait()
		second := make(chan error)
		go func() { second <- b.j.Adopt(t.Context()) }()
		synctest.Wait()
		release()
		err := <-first
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.ErrorContains(t, err, "call Adopt again")
		require.NoError(t, <-second)
		require.NoError(t, a.j.Adopt(t.Context()), "it does nothing more")
		assert.Equal(t, int64(2), db.Head().Epoch)
	})
}

func TestAnAdoptionThatFailsLeavesTheJournalRestored(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		for i := range 600 {
			p.executed(fmt.Sprint("op-", i))
		}
		p.restored(db)
		identity := db.Head().Identity
		db.NextCommits(faultdb.Lands, faultdb.Lands, faultdb.Fails)
		require.Error(t, p.j.Adopt(t.Context()))
		_, err := p.j.Join(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.Equal(t, identity, db.Head().Identity)
		require.NoError(t, p.j.Adopt(t.Context()))
		assert.NotEqual(t, identity, db.Head().Identity)
		_, err = p.j.Join(t.Context())
		require.NoError(t, err)
	})
}

func TestAdoptPassesOverADamagedRowAndSaysSo(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		damaged, sound := p.executed("a"), p.decide(p.park(p.executed("b"), 0), machine.Recorded)
		p.restored(db)
		db.Damage(damaged.Handle)
		err := p.j.Adopt(t.Context())
		require.ErrorIs(t, err, format.ErrDamaged)
		assert.ErrorContains(t, err, "adopted, but operation 1")
		assert.True(t, p.get(sound.ID).Adopted)
		p.executed("c")
	})
}

// The process of such a session runs elsewhere, or no more. Its operations are not claimed before the adoption.
func TestAdoptTakesTheOperationsOfSessionsThatCameWithACopy(t *testing.T) {
	pair(t, func(t *testing.T, db *faultdb.Database, a, b *process) {
		op := b.executed("a")
		db.Strange(b.s.ID())
		_, err := a.j.Claim(t.Context(), a.of(machine.EventClaim, journal.Operation{}), 10)
		require.ErrorIs(t, err, journal.ErrRestored)
		_, err = a.j.Apply(t.Context(), a.begin("a"))
		require.ErrorIs(t, err, journal.ErrRestored)
		a.executed("b")
		require.NoError(t, a.j.Adopt(t.Context()))
		assert.True(t, a.get(op.ID).MayHaveRun)
		assert.Empty(t, a.get(op.ID).Holder)
		require.NoError(t, a.j.Adopt(t.Context()))
		assert.Equal(t, int64(1), db.Head().Epoch, "a journal that lacks nothing is not adopted")
	})
}

func TestAdoptAsNamesTheDeployment(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.decide(p.park(p.executed("a"), 0), machine.Recorded)
		require.NoError(t, p.j.AdoptAs(t.Context(), "blue"))
		assert.Equal(t, "blue", db.Head().Deployment)
		assert.True(t, p.get(op.ID).Adopted)
	})
}

func TestARestoredJournalWritesNothingInTheApplicationsTransaction(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		op := p.executed("a")
		p.restored(db)
		tx, err := p.j.BeginTx(t.Context())
		require.NoError(t, err)
		ev := p.begin("b")
		ev.Kind, ev.Session, ev.Intent.Naming = machine.EventEnqueue, "", journal.Named
		_, err = p.j.EnqueueTx(t.Context(), tx, ev)
		require.ErrorIs(t, err, journal.ErrRestored)
		receive := machine.ReceiptEvent{Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Key: "k"}, At: ev.At, Place: "p", Fingerprint: "f"}
		_, err = p.j.ReceiveTx(t.Context(), tx, receive)
		require.ErrorIs(t, err, journal.ErrRestored)
		_, err = p.j.AdvanceTx(t.Context(), tx, "source", "entity", 1)
		require.ErrorIs(t, err, journal.ErrRestored)
		require.NoError(t, tx.Rollback(t.Context()))
		_, err = p.j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: ref("f"), At: ev.At, Session: p.s.ID()})
		require.ErrorIs(t, err, journal.ErrRestored)
		p.decide(p.complete(op), machine.Recorded)
	})
}
