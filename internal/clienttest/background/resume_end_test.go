package background_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Shutdown waits for a running call, even if Run, Resume or a call is refused meanwhile.
func TestExpiryDuringShutdown(t *testing.T) {
	for name, asks := range map[string]func(*testing.T, *process) error{
		"Resume": func(t *testing.T, p *process) error {
			report, err := p.Resume(t.Context())
			assert.Zero(t, report)
			return err
		},
		"Run": func(t *testing.T, p *process) error {
			if err := p.Run(t.Context()); err != nil {
				return err
			}
			return onceward.ErrShutdown
		},
		"a call": func(t *testing.T, p *process) error { return p.Ask(named(t, "invoice-2")).Err },
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
			p := start(t, l, onceward.Config{})
			asked := make(chan error, 1)
			go func() { asked <- p.Ask(named(t, invoice)).Err }()
			pass(time.Second)
			began := time.Now()
			ended := make(chan time.Duration, 1)
			go func() {
				assert.NoError(t, p.Shutdown(context.Background()))
				ended <- time.Since(began)
			}()
			pass(time.Second)
			require.ErrorIs(t, asks(t, p), onceward.ErrShutdown)
			require.NoError(t, <-asked)
			assert.Equal(t, 9*time.Second, <-ended)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// Run ends only after its look-ups have ended.
func TestRunEndsAfterItsLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looked atomic.Bool
		p := start(t, (&line{}).Then(loses()), onceward.Config{Providers: []providers.Provider{own(noKey)}, Reconcile: &onceward.Reconcile{
			Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
				<-time.After(time.Minute) // virtual, and without regard to its context
				looked.Store(true)
				return onceward.Finding{}, nil
			},
		}})
		require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err, onceward.ErrOutcomeUnknown)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.True(t, looked.Load())
	})
}

// shutsDown is a journal whose claims report it as closed once closed is set.
type shutsDown struct {
	machine.Store
	closed atomic.Bool
}

func (j *shutsDown) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if j.closed.Load() {
		return nil, journal.ErrClosed
	}
	return j.Store.Claim(ctx, ev, limit)
}

// An operation that is being sent when Run finds its journal closed gets its answer first.
func TestRunOverAClosedJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := start(t, (&line{}).Always(whenDue), onceward.Config{Backoff: once})
		left.Due(time.Second)
		left.Due(5 * time.Second)
		j := &shutsDown{Store: left.Journal.Store}
		var ended []error
		p := start(t, (&line{}).Then(takes(20*time.Second, says(200, paid))), onceward.Config{Journal: j, Trace: &onceward.Trace{
			AttemptEnded: func(_ context.Context, _ onceward.Operation, a onceward.Attempt) { ended = append(ended, a.Err) },
		}})
		time.AfterFunc(10*time.Minute+3*time.Second, func() { j.closed.Store(true) })
		require.ErrorIs(t, p.Run(t.Context()), onceward.ErrJournalClosed)
		assert.Equal(t, []error{nil}, ended)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "invoice-0"}).State)
	})
}

// The context for a hook that Resume waits for ends when Shutdown stops waiting.
func TestShutdownEndsTheHooksOfResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := start(t, (&line{}).Always(whenDue), onceward.Config{Backoff: once})
		left.Due(0)
		pass(time.Hour)
		var cause error
		p := start(t, &line{}, onceward.Config{Journal: left.Journal.Store, Outcomes: &onceward.Outcomes{Handle: func(ctx context.Context, _ onceward.Operation) error {
			select {
			case <-ctx.Done():
				cause = context.Cause(ctx)
			case <-time.After(time.Hour):
			}
			return cause
		}}})
		done := make(chan error, 1)
		go func() {
			_, err := p.Resume(t.Context())
			done <- err
		}()
		pass(time.Second)
		soon, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.ErrorIs(t, p.Shutdown(soon), context.DeadlineExceeded)
		<-done
		require.ErrorIs(t, cause, onceward.ErrShutdown)
	})
}

// Trace.Ended gets an operation that is not sent again in its present state, and not as a replay.
func TestEndedGetsOperationsThatAreNotResent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []onceward.Operation
		l := &line{}
		dead := start(t, l, onceward.Config{})
		leavesInFlight(t, dead, l, func() { dead.Ask(t.Context()) })
		p := start(t, l, onceward.Config{Journal: dead.Journal.Store, NamedOnly: true, Trace: &onceward.Trace{
			Ended: func(_ context.Context, op onceward.Operation, _ error) { told = append(told, op) },
		}})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, report.Unknown)
		require.Len(t, told, 1)
		assert.Equal(t, onceward.StateUnknown, told[0].State)
		assert.False(t, told[0].Replayed)
	})
}

// claimsNone is a journal whose next claim for one provider fails, once failed is set.
type claimsNone struct {
	machine.Store
	of     string
	failed atomic.Bool
}

func (j *claimsNone) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if slices.Contains(ev.From, j.of) && j.failed.CompareAndSwap(false, true) {
		return nil, errNoDisk
	}
	return j.Store.Claim(ctx, ev, limit)
}

// Resume returns a failed claim's error, even if an earlier claim for another provider filled every slot.
func TestResumeReportsEveryFailedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables := []providers.Provider{providers.Stripe(), own()}
		left := start(t, (&line{}).Always(whenDue), onceward.Config{Backoff: once, Providers: tables})
		left.Due(time.Second, to(http.MethodPost, ownURL))
		for range 2 {
			left.Due(10 * time.Second)
		}
		j := &claimsNone{Store: left.Journal.Store, of: tables[1].Name}
		j.failed.Store(true)
		l := (&line{}).Then(takes(30*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: j, Concurrency: 2, Providers: tables})
		pass(10*time.Minute + time.Second)
		first := make(chan error, 1)
		go func() {
			_, err := p.Resume(t.Context())
			first <- err
		}()
		pass(10 * time.Second)
		require.Len(t, l.Sent(), 1)
		j.failed.Store(false)
		report, err := p.Resume(t.Context())
		require.ErrorIs(t, err, errNoDisk)
		assert.Equal(t, 2, report.Completed)
		require.NoError(t, <-first)
	})
}
