package onceward_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// failing is a journal that fails on the events it is told to.
type failing struct {
	journal.Journal
	mu    sync.Mutex
	kinds map[journal.EventKind]bool
	lands bool // the commit fails, and has landed all the same
}

var errDiskFull = errors.New("the disk is full")

func (j *failing) fails(lands bool, kinds ...journal.EventKind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lands, j.kinds = lands, map[journal.EventKind]bool{}
	for _, kind := range kinds {
		j.kinds[kind] = true
	}
}

func (j *failing) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	j.mu.Lock()
	fails, lands := j.kinds[ev.Kind], j.lands
	j.mu.Unlock()
	if fails && !lands {
		return journal.Result{}, errDiskFull
	}
	res, err := j.Journal.Apply(ctx, ev)
	if fails {
		return journal.Result{}, errDiskFull
	}
	return res, err
}

func TestAJournalThatCanNotRecordTheIntent(t *testing.T) {
	for _, row := range []struct {
		name  string
		lands bool
		also  []journal.EventKind // that fail as well
	}{
		{"and has not", false, nil},
		{"but has, and takes the cancel", true, nil},
		{"but has, and takes no cancel either", true, []journal.EventKind{journal.EventCancel}},
		{"and nothing else either", false, []journal.EventKind{journal.EventCancel}},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := &failing{Journal: memory.New()}
			failures := 0
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
				JournalFailed: func(onceward.Operation, error) { failures++ },
			}})
			j.fails(row.lands, append(row.also, journal.EventBegin)...)
			ctx := named(t, "invoice-1/charge")
			for range 2 {
				out := p.ask(ctx)
				require.ErrorIs(t, out.err, onceward.ErrJournal)
				require.ErrorIs(t, out.err, errDiskFull)
			}
			assert.Empty(t, l.sent())

			j.fails(false)
			pass(time.Minute)
			for _, op := range p.everything() {
				assert.Equal(t, journal.Cancelled, op.State, "nothing is left in flight")
			}
			assert.Equal(t, len(row.also) > 0, failures > 0)
			out := p.ask(ctx)
			require.NoError(t, out.err)
			assert.Zero(t, out.op.Generation)
			assert.Len(t, l.sent(), 1)
		})
	}
}

func TestAJournalThatCanNotRecordTheAnswer(t *testing.T) {
	for name, lands := range map[string]bool{"and has not": false, "but has": true} {
		virtual(t, name, func(t *testing.T) {
			j := &failing{Journal: memory.New()}
			failures := 0
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
				JournalFailed: func(onceward.Operation, error) { failures++ },
			}})
			j.fails(lands, journal.EventComplete)
			ctx := named(t, "invoice-1/charge")
			for i := range 3 {
				out := p.ask(ctx)
				require.NoError(t, out.err)
				assert.Equal(t, paid, out.body)
				assert.Equal(t, onceward.Completed, out.op.State)
				assert.Equal(t, i > 0, out.op.Replayed)
			}
			require.ErrorIs(t, p.ask(ctx, body("another request")).err, onceward.ErrKeyReused)
			assert.Len(t, l.sent(), 1, "askers are served from memory")
			assert.Equal(t, 1, failures)

			j.fails(false)
			pass(time.Minute)
			recorded := p.recorded(onceward.Ref{ID: "invoice-1/charge"})
			assert.Equal(t, journal.Completed, recorded.State)
			assert.Equal(t, paid, string(recorded.Answer.Body))
			require.NoError(t, p.ask(ctx).err)
			assert.Len(t, l.sent(), 1)
		})
	}
}

func TestAJournalThatCanNotRecordTheEndOfAClaim(t *testing.T) {
	for _, row := range []struct {
		name   string
		script []reply
		event  journal.EventKind
		kind   error // what the caller gets all the same; nil: a response
		state  journal.State
	}{
		{"a park", []reply{loses()}, journal.EventPark, onceward.ErrPending, journal.Pending},
		{"a doubt", []reply{frozen}, journal.EventDoubt, onceward.ErrOutcomeUnknown, journal.Unknown},
		{"a cancel", []reply{wrongKey}, journal.EventCancel, nil, journal.Cancelled},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := &failing{Journal: memory.New()}
			l := (&line{}).then(row.script...)
			p := start(t, l, onceward.Config{Journal: j, Backoff: once})
			j.fails(false, row.event)
			ctx := named(t, "invoice-1/charge")
			out := p.ask(ctx)
			if row.kind != nil {
				require.ErrorIs(t, out.err, row.kind)
			} else {
				require.NoError(t, out.err)
			}
			assert.Equal(t, row.state, out.op.State)
			assert.Equal(t, journal.InFlight, p.recorded(out.op.Ref).State)
			require.Error(t, p.ask(ctx).err)
			assert.Len(t, l.sent(), 1)
			j.fails(false)
			pass(time.Minute)
			assert.Equal(t, row.state, p.recorded(out.op.Ref).State)
		})
	}
}

func TestShutdownTriesToRecordWhatTheJournalRefused(t *testing.T) {
	virtual(t, "until it does", func(t *testing.T) {
		j := &failing{Journal: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j})
		j.fails(false, journal.EventComplete)
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		time.AfterFunc(10*time.Second, func() { j.fails(false) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, p.Shutdown(ctx))
		assert.Equal(t, journal.Completed, p.recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
	})
	virtual(t, "until its context ends, and says so", func(t *testing.T) {
		j := &failing{Journal: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j})
		j.fails(false, journal.EventComplete)
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.Error(t, p.Shutdown(ctx))
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

func TestAnAnswerThatWasNeverRecordedIsAskedForAgainAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Journal: memory.New()}
		l := &line{}
		dead := start(t, l, onceward.Config{Journal: j})
		j.fails(false, journal.EventComplete)
		require.NoError(t, dead.ask(named(t, "invoice-1/charge")).err)
		dead.crash()
		j.fails(false)

		next := start(t, l, onceward.Config{Journal: j})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		require.Len(t, l.sent(), 2)
		assert.Equal(t, l.keys()[0], l.keys()[1])
	})
}

// restored is a journal that was copied, or restored from a backup.
type restored struct{ journal.Journal }

func (restored) Join(context.Context) (journal.Session, error) { return nil, journal.ErrRestored }

func TestARestoredJournalSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: restored{memory.New()}})
		for range 2 {
			require.ErrorIs(t, p.ask(named(t, "invoice-1/charge")).err, onceward.ErrJournalRestored)
		}
		_, err := p.Resume(t.Context())
		require.ErrorIs(t, err, journal.ErrRestored)
		assert.Empty(t, l.sent())
	})
}

// A lost session is replaced: other processes may have taken over what it held.
func TestALostSessionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		p := start(t, &line{}, onceward.Config{Journal: j})
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		j.Kill(p.journal.Sessions()[0].ID())
		require.NoError(t, p.ask(named(t, "invoice-2/charge")).err)
		require.Len(t, p.journal.Sessions(), 2)
	})
}
