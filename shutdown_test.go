package onceward_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

func TestShutdownWaitsForAttemptsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{})
		caller := make(chan outcome, 1)
		go func() { caller <- p.ask(named(t, "invoice-1/charge")) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, p.Shutdown(t.Context()))
		assert.Equal(t, 10*time.Second, time.Since(began))
		require.NoError(t, (<-caller).err)
		assert.Equal(t, journal.Completed, p.recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
	})
}

func TestShutdownBreaksOffWhatTakesTooLong(t *testing.T) {
	for _, row := range []struct {
		name string
		call option
		kind error
		then journal.State
	}{
		{"and it is parked where the rule allows another", with("X-Nothing", "1"), onceward.ErrPending, journal.Pending},
		{"and it is unknown where it does not", to("POST", "https://elsewhere.example/"), onceward.ErrOutcomeUnknown, journal.Unknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(hangs())
			p := start(t, l, onceward.Config{})
			caller := make(chan outcome, 1)
			go func() { caller <- p.ask(named(t, "invoice-1/charge"), row.call) }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
			assert.Equal(t, 3*time.Second, time.Since(began))
			out := <-caller
			require.ErrorIs(t, out.err, row.kind)
			require.ErrorIs(t, out.err, onceward.ErrShutdown)
			assert.Equal(t, row.then, p.recorded(out.op.Ref).State)
		})
	}
}

func TestShutdownParksWhatWaitsForItsNextAttempt(t *testing.T) {
	for _, row := range []struct {
		name     string
		first    reply
		answered bool // the caller gets its last answer
	}{
		{"after a refusal", says(429, "", "Retry-After", "60"), true},
		{"after an answer over the limit, which is given up", says(503, strings.Repeat("x", 100)), false},
		{"after a lost answer", loses(), false},
		{"that never left", refuses(), false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.first)
			waiting := make(chan struct{}, 1)
			p := start(t, l, onceward.Config{MaxResponseBody: 10, Trace: &onceward.Trace{
				Delayed: func(onceward.Operation, time.Duration) { waiting <- struct{}{} },
			}})
			caller := make(chan outcome, 1)
			go func() { caller <- p.ask(named(t, "invoice-1/charge")) }()
			<-waiting
			began := time.Now()
			require.NoError(t, p.Shutdown(t.Context()))
			assert.Zero(t, time.Since(began))
			out := <-caller
			if !row.answered {
				require.ErrorIs(t, out.err, onceward.ErrPending)
				require.ErrorIs(t, out.err, onceward.ErrShutdown)
			}
			assert.Equal(t, onceward.Pending, out.op.State)
			assert.Equal(t, journal.Pending, p.recorded(out.op.Ref).State)
		})
	}
}

func TestShutdownReturnsWhenItsContextEndsWhateverIsGoingOn(t *testing.T) {
	for name, busy := range map[string]func(t *testing.T) *process{
		"a caller waits for another process": func(t *testing.T) *process {
			l := (&line{}).then(takes(time.Minute, says(200, paid)))
			other := start(t, l, onceward.Config{})
			go other.ask(named(t, "invoice-1/charge"))
			synctest.Wait()
			p := start(t, l, onceward.Config{Journal: other.journal.Journal})
			go p.ask(named(t, "invoice-1/charge"))
			return p
		},
		"OnSettled takes its time": func(t *testing.T) *process {
			l := &line{}
			dead := start(t, l, onceward.Config{OnSettled: (&settler{}).settle})
			dead.leaves(named(t, "invoice-1/charge"))
			dead.crash()
			p := start(t, l, onceward.Config{Journal: dead.journal.Journal, OnSettled: func(ctx context.Context, _ onceward.Operation) error {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
				return ctx.Err()
			}})
			go func() { _ = p.Run(context.Background()) }()
			return p
		},
		"Authorize takes its time": func(t *testing.T) *process {
			p := start(t, &line{}, onceward.Config{Authorize: func(r *http.Request) error {
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
				return r.Context().Err()
			}})
			go p.ask(named(t, "invoice-1/charge"))
			return p
		},
	} {
		virtual(t, name, func(t *testing.T) {
			p := busy(t)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			began := time.Now()
			_ = p.Shutdown(ctx)
			assert.LessOrEqual(t, time.Since(began), 3*time.Second)
			pass(2 * time.Minute)
		})
	}
}

func TestNothingIsDoneAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, p.Shutdown(t.Context()), "twice is harmless")

		require.ErrorIs(t, p.ask(named(t, "invoice-1/charge")).err, onceward.ErrShutdown)
		require.ErrorIs(t, p.ask(named(t, "invoice-2/charge")).err, onceward.ErrShutdown)
		_, err := p.Resume(t.Context())
		require.ErrorIs(t, err, onceward.ErrShutdown)
		require.NoError(t, p.Run(t.Context()))
		assert.Len(t, l.sent(), 1)
		assert.Len(t, p.everything(), 1)

		next := start(t, l, onceward.Config{Journal: p.journal.Journal})
		require.NoError(t, next.ask(named(t, "invoice-1/charge")).err, "the journal is the caller's, and still open")
	})
}

func TestShutdownEndsAResumeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		leavesInFlight(t, dead, l,
			func() { dead.ask(named(t, "invoice-1/charge")) },
			func() { dead.ask(named(t, "invoice-2/charge")) },
		)
		l.always(takes(time.Second, says(200, paid)))
		next := start(t, l, onceward.Config{Journal: dead.journal.Journal, Concurrency: 1})
		resumed := make(chan error, 1)
		go func() {
			_, err := next.Resume(t.Context())
			resumed <- err
		}()
		synctest.Wait()
		require.NoError(t, next.Shutdown(t.Context()))
		require.ErrorIs(t, <-resumed, onceward.ErrShutdown)
		for _, op := range next.everything() {
			if op.State == journal.InFlight {
				assert.Equal(t, dead.journal.Sessions()[0].ID(), op.Holder, "nothing is left in this process's hands")
			}
		}
	})
}
