package rowstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// old completes operations, and lets their time pass.
func (p *process) old(ids ...string) {
	for _, id := range ids {
		p.decide(p.of(machine.EventDeliver, p.complete1(id)), machine.Recorded)
	}
	p.passes(60 * 24 * time.Hour)
}

func (p *process) reap(limit int) (int, error) {
	return p.j.Reap(p.t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now()}, limit)
}

func TestAReapTakesNoMoreThanItsLimitAndThoseSettledFirst(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.old("a", "b", "c")
		reaped, err := p.reap(2)
		require.NoError(t, err)
		assert.Equal(t, 2, reaped)
		assert.True(t, p.get("a").Tombstone)
		assert.True(t, p.get("b").Tombstone)
		assert.False(t, p.get("c").Tombstone)
	})
}

func TestAReapPassesOverAnOperationThatAnotherTransactionHolds(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.old("a", "b")
		release := db.Hold([]int64{p.get("a").Handle}, nil)
		reaped, err := p.reap(10)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
		assert.True(t, p.get("b").Tombstone)
		release()
		assert.False(t, p.get("a").Tombstone)
		reaped, err = p.reap(10)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
	})
}

func TestAReapPassesOverADamagedRowAndSaysSo(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.old("a", "b")
		db.Damage(p.get("a").Handle)
		reaped, err := p.reap(1)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
		assert.True(t, p.get("b").Tombstone)
		_, err = p.reap(1)
		require.ErrorIs(t, err, format.ErrDamaged)
	})
}

func TestAReapNeedsNoPartsSoADamagedRequestGoesToo(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		p.old("a")
		db.DamageRequest(p.get("a").Handle)
		reaped, err := p.reap(10)
		require.NoError(t, err)
		assert.Equal(t, 1, reaped)
		assert.True(t, p.get("a").Tombstone)
	})
}

// A commit reaps about a megabyte, since a database may overwrite it.
func TestACommitReapsNoMoreThanAMegabyteOfSeveral(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		const many = 8
		random := rand.New(rand.NewPCG(1, 2))
		for i := range many {
			ev := p.complete(p.executed(string(rune('a' + i))))
			ev.Answer.Body = make([]byte, 400<<10)
			for k := range ev.Answer.Body {
				ev.Answer.Body[k] = byte(random.Uint32()) // which no compression makes shorter
			}
			p.decide(p.of(machine.EventDeliver, p.decide(ev, machine.Recorded)), machine.Recorded)
		}
		p.passes(60 * 24 * time.Hour)
		before := db.Begun()
		reaped, err := p.reap(many)
		require.NoError(t, err)
		assert.Equal(t, many, reaped)
		assert.Greater(t, db.Begun()-before, 2)
	})
}

// Flows that another transaction holds don't keep later ones from being reaped, however many they are.
func TestAReapOfFlowsGoesPastManyThatAreHeld(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		const held = 300
		var handles []int64
		for i := range held + 3 {
			begun, err := p.j.ApplyFlow(t.Context(), p.flow(fmt.Sprint("flow-", i)))
			require.NoError(t, err)
			end := machine.FlowEvent{Kind: machine.FlowEventFinish, Ref: begun.Flow.Ref, At: p.now, Claim: begun.Flow.Claim}
			_, err = p.j.ApplyFlow(t.Context(), end)
			require.NoError(t, err)
			handles = append(handles, begun.Flow.Handle)
		}
		p.passes(60 * 24 * time.Hour)
		tx, _, _, err := db.Open().Begin(t.Context(), rowstore.Keys{Lock: rowstore.WaitLock})
		require.NoError(t, err)
		defer tx.Rollback()
		for _, handle := range handles[:held] {
			_, err := tx.Flow(t.Context(), handle, rowstore.Digest{}, rowstore.WaitLock)
			require.NoError(t, err)
		}
		reaped, err := p.j.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventReap, At: time.Now()}, 2)
		require.NoError(t, err)
		assert.Equal(t, 2, reaped)
	})
}
