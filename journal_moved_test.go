package onceward_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// movedAway is a journal whose files are moved away during a commit, which lands.
type movedAway struct {
	journal.Journal
	away atomic.Bool
}

func (j *movedAway) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	switch {
	case !j.away.Load():
		return j.Journal.Apply(ctx, ev)
	case ev.Kind != journal.EventBegin:
		return journal.Result{}, journal.ErrRestored
	}
	_, err := j.Journal.Apply(ctx, ev)
	return journal.Result{}, errors.Join(errDiskFull, err)
}

func TestAnIntentThatLandedInFilesThatWereMovedAwayIsNotHeldOnceTheyAreBack(t *testing.T) {
	virtual(t, "moved away", func(t *testing.T) {
		j := &movedAway{Journal: memory.New()}
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		j.away.Store(true)
		ctx := named(t, "invoice-1/charge")
		require.ErrorIs(t, p.ask(ctx).err, onceward.ErrJournal)
		assert.Empty(t, l.sent())
		j.away.Store(false)
		pass(time.Minute)
		require.NoError(t, p.ask(ctx).err)
		assert.Len(t, l.sent(), 1)
	})
}
