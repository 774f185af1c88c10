package onceward_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

func TestHooksThatPanicLeaveNobodyWaiting(t *testing.T) {
	each(t, "one after another", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(refuses())
		bad := true
		hook := func() {
			if bad {
				panic("a hook's")
			}
		}
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}, Trace: &onceward.Trace{
			Attempted: func(onceward.Operation, onceward.Attempt) { hook() },
			Left:      func(onceward.Operation) { hook() },
		}})
		assert.Panics(t, func() { p.ask(named(t, "order-1"), to("POST", ownURL)) })
		bad = false
		pass(time.Hour)
		assert.NoError(t, p.ask(named(t, "order-1"), to("POST", ownURL)).err)
	})
	each(t, "that are told of a failing journal", func(t *testing.T, j journal.Journal) {
		l := &line{}
		failing := &failsOnce{Journal: j, kind: journal.EventComplete}
		p := start(t, l, onceward.Config{Journal: failing, Providers: []providers.Provider{own()}, Trace: &onceward.Trace{
			JournalFailed: func(onceward.Operation, error) { panic("a hook's") },
		}})
		assert.Panics(t, func() { p.ask(named(t, "order-1"), to("POST", ownURL)) })
		pass(time.Minute)
		assert.Equal(t, onceward.Completed, p.recorded(onceward.Ref{ID: "order-1"}).State, "the answer is kept until it is written")
		assert.NoError(t, p.ask(named(t, "order-1"), to("POST", ownURL)).err)
		assert.Len(t, l.sent(), 1)
	})
	each(t, "of an intent that may have landed", func(t *testing.T, j journal.Journal) {
		l := &line{}
		failing := &failsOnce{Journal: j, kind: journal.EventBegin, alsoCancel: true}
		p := start(t, l, onceward.Config{Journal: failing, Providers: []providers.Provider{own()}, Trace: &onceward.Trace{
			JournalFailed: func(onceward.Operation, error) { panic("a hook's") },
		}})
		assert.Panics(t, func() { p.ask(named(t, "order-1"), to("POST", ownURL)) })
		pass(time.Minute)
		assert.NoError(t, p.ask(named(t, "order-1"), to("POST", ownURL)).err)
		assert.Len(t, l.sent(), 1)
	})
}

func TestRunSurvivesHooksThatPanic(t *testing.T) {
	each(t, "by what a claim settles itself, and by progress", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses(), loses())
		short := own(func(e *providers.Endpoint) { e.Retention = time.Hour })
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{short}})
		was.ask(named(t, "order-1"), to("POST", ownURL))
		pass(2 * time.Hour)
		was.ask(named(t, "order-2"), to("POST", ownURL))
		pass(2 * time.Minute)
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{short}, Trace: &onceward.Trace{
			Left:     func(onceward.Operation) { panic("a hook's") },
			Progress: func(onceward.Report) { panic("a hook's") },
		}})
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			_ = p.Run(ctx)
		}()
		pass(10 * time.Minute)
		stop()
		<-ran
		assert.Equal(t, onceward.Unknown, p.recorded(onceward.Ref{ID: "order-1"}).State)
		assert.Equal(t, onceward.Completed, p.recorded(onceward.Ref{ID: "order-2"}).State)
	})
}

// failsOnce fails to record the first event of a kind.
type failsOnce struct {
	journal.Journal
	kind       journal.EventKind
	alsoCancel bool
	failed     int
}

func (j *failsOnce) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if j.failed == 0 && ev.Kind == j.kind || j.failed == 1 && j.alsoCancel && ev.Kind == journal.EventCancel {
		j.failed++
		return journal.Result{}, errors.New("the disk is full")
	}
	return j.Journal.Apply(ctx, ev)
}
