package onceward_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// restored is a journal that was copied, or restored from a backup.
type restored struct{ journal.Journal }

func (restored) Join(context.Context) (journal.Session, error) { return nil, journal.ErrRestored }

func TestARestoredJournalSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: restored{memory.New()}})
		for range 2 {
			require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, onceward.ErrJournalRestored)
		}
		_, err := p.Resume(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.Empty(t, l.Sent())
	})
}

// A lost session is replaced: other processes may have taken over what it held.
func TestLostSessionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		p := start(t, &line{}, onceward.Config{Journal: j})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		j.Kill(p.Journal.Sessions()[0].ID())
		require.NoError(t, p.Ask(named(t, "invoice-2/charge")).Err)
		require.Len(t, p.Journal.Sessions(), 2)
	})
}

// A session that has seen its own loss sends nothing more.
func TestLostSessionSendsNothingMore(t *testing.T) {
	virtual(t, "though nobody has taken its operation over yet", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p := start(t, l, onceward.Config{Journal: j})
		l.Then(doing(func() { j.Kill(p.Journal.Sessions()[0].ID()) }, loses()))
		out := p.Ask(named(t, "a"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "nor anything at all, and others need not wait", func(t *testing.T) {
		l, j := &line{}, memory.New()
		var p *process
		p = start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
			Begun: func(onceward.Operation) { j.Kill(p.Journal.Sessions()[0].ID()) },
		}})
		require.ErrorIs(t, p.Ask(named(t, "a")).Err, onceward.ErrPending)
		assert.Empty(t, l.Sent())
		op := p.Recorded(onceward.Ref{ID: "a"})
		assert.Equal(t, onceward.StatePending, op.State)
		assert.Equal(t, op.DueAt, op.WakeAt)
		require.NoError(t, start(t, l, onceward.Config{Journal: j}).Ask(named(t, "a")).Err)
	})
}
