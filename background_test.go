package onceward_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

func TestNoEndOfRunOrResumeCancelsWhatACallerWasToldIsPending(t *testing.T) {
	const callers = 8
	run := func(t *testing.T, p *process, ends func(stop context.CancelFunc)) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		synctest.Wait()
		ends(stop)
		<-done
		stop()
	}
	for _, end := range []struct {
		name string
		end  func(t *testing.T, p *process)
	}{
		{"Run's context is cancelled", func(t *testing.T, p *process) {
			run(t, p, func(stop context.CancelFunc) { pass(time.Second); stop() })
		}},
		{"Resume's time is up", func(t *testing.T, p *process) {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			_, _ = p.Resume(ctx)
		}},
		{"Resume is given no time at all", func(t *testing.T, p *process) {
			_, err := p.Resume(cancelled())
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"the client is shut down", func(t *testing.T, p *process) {
			run(t, p, func(context.CancelFunc) { pass(time.Second); require.NoError(t, p.Shutdown(t.Context())) })
		}},
		{"the client is shut down, and waits for nothing", func(t *testing.T, p *process) {
			run(t, p, func(context.CancelFunc) { pass(time.Second); _ = p.Shutdown(cancelled()) })
		}},
	} {
		for _, outage := range []struct {
			name  string
			reply reply
		}{
			{"they wait for their next attempt", refuses()},
			{"they are connecting", takes(time.Hour, refuses())},
			{"they are told to come back", says(429, `{}`, "Retry-After", "90")},
		} {
			each(t, end.name+" while "+outage.name, func(t *testing.T, j journal.Journal) {
				l := (&line{}).always(refuses())
				p := start(t, l, onceward.Config{Journal: j})
				for i := range callers {
					require.ErrorIs(t, p.ask(named(t, fmt.Sprint("invoice-", i))).err, onceward.ErrPending)
				}
				pass(time.Hour)
				l.always(outage.reply)
				end.end(t, p)
				for _, op := range p.everything() {
					assert.Equal(t, journal.Pending, op.State, op.Cause)
				}

				l.always(says(200, paid))
				before := len(l.sent())
				next := start(t, l, onceward.Config{Journal: p.journal.Journal})
				pass(2 * time.Hour)
				report, err := next.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, callers, report.Completed)
				assert.Len(t, distinct(l.keys()[before:]), callers)
				assert.Len(t, l.sent(), before+callers, "each of them once")
			})
		}
	}
}
