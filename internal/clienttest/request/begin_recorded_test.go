package request_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// These tests check which events a begin records, and how it handles a journal that fails.

// recorded is a journal that notes the event kinds that it is asked to record.
type recorded struct {
	*memory.Journal
	kinds []machine.EventKind
}

func (j *recorded) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	j.kinds = append(j.kinds, ev.Kind)
	return j.Journal.Apply(ctx, ev)
}

// A call for a settled operation records one begin, and no look-up.
func TestBeginOfASettledOperation(t *testing.T) {
	for name, row := range map[string]struct {
		first     reply
		err       error
		reconcile *onceward.Reconcile
	}{
		"completed":                     {says(200, paid), nil, plain()},
		"unknown, and nothing is asked": {loses(), onceward.ErrOutcomeUnknown, nil},
	} {
		virtual(t, name, func(t *testing.T) {
			j := &recorded{Journal: memory.New()}
			p := start(t, (&line{}).Then(row.first), onceward.Config{Journal: j, Reconcile: row.reconcile, Providers: []providers.Provider{own(noRetention)}})
			require.ErrorIs(t, p.Ask(named(t, invoice), toOwn).Err, row.err)
			pass(time.Minute)
			j.kinds = nil
			require.ErrorIs(t, p.Ask(named(t, invoice), toOwn).Err, row.err)
			pass(time.Minute)
			require.NotEmpty(t, j.kinds)
			assert.Equal(t, machine.EventBegin, j.kinds[0])
			assert.NotContains(t, j.kinds[1:], machine.EventBegin)
			assert.NotContains(t, j.kinds, machine.EventLook)
		})
	}
}

// A call without a name whose intent can't be recorded sends nothing.
func TestBeginUnnamedNotRecorded(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j, l := &failing{Store: memory.New()}, &line{}
		p := start(t, l, onceward.Config{Journal: j})
		j.Fails(false, machine.EventBegin)
		out := p.Ask(t.Context())
		require.ErrorIs(t, out.Err, onceward.ErrJournal)
		require.ErrorIs(t, out.Err, errDiskFull)
		assert.Empty(t, l.Sent())
	})
}

// If keys are scoped to the credential, nothing is recorded of a call without one.
func TestBeginWithoutACredential(t *testing.T) {
	scoped := own()
	scoped.CredentialScoped = true
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{scoped}, Authorize: func(*http.Request) error { return errReset }})
		require.ErrorIs(t, p.Ask(named(t, invoice), toOwn).Err, onceward.ErrNotSent)
		assert.Empty(t, p.Everything())
	})
}

// A call with a NotAfter gets ErrJournal if the journal fails, and Trace gets the failure.
func TestBeginWithATimeNotRecorded(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j, failed := &failing{Store: memory.New()}, 0
		p := start(t, &line{}, onceward.Config{Journal: j, Trace: &onceward.Trace{
			JournalFailed: func(context.Context, onceward.Operation, string, error) { failed++ },
		}})
		j.Fails(false, machine.EventBegin)
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(time.Hour))).Err, onceward.ErrJournal)
		assert.Equal(t, 1, failed)
	})
}

// A call without a name that is cancelled before it is recorded gets ErrNotSent, even if the journal can't be read.
func TestBeginUnnamedThatIsCancelled(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &unread{Store: memory.New()}
		j.times.Store(10)
		p := start(t, &line{}, onceward.Config{Journal: j})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrNotSent)
	})
}

// An intent that was stored although its commit failed is taken back as if it had never been recorded.
func TestBeginThatIsUndone(t *testing.T) {
	virtual(t, "first asked for", func(t *testing.T) {
		j, s := &failing{Store: memory.New()}, &settler{}
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		j.Fails(true, machine.EventBegin)
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrJournal)
		op := p.Recorded(onceward.Ref{ID: invoice})
		assert.Equal(t, onceward.StateCancelled, op.State)
		assert.Zero(t, op.FirstSentAt, "nothing was sent, so that its window has not begun")
		assert.Zero(t, op.LastEndedAt)
		j.Fails(false)
		p.Crash()
		_, err := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}}).Resume(t.Context())
		require.NoError(t, err)
		assert.Empty(t, s.Got, "its caller knows")
	})
	virtual(t, "pending, without a name", func(t *testing.T) {
		j, l := &failing{Store: memory.New()}, (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(t.Context(), carrying("k-1")).Err, onceward.ErrPending)
		pass(time.Hour)
		j.Fails(true, machine.EventBegin)
		require.ErrorIs(t, p.Ask(t.Context(), carrying("k-1")).Err, onceward.ErrJournal)
		j.Fails(false)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.Sent(), 1, "its caller alone asks for it again")
		require.NoError(t, p.Ask(t.Context(), carrying("k-1")).Err)
		assert.Len(t, l.Sent(), 2)
	})
}

// An operation that may have run is sent again to its first request's URL, even if the new call spells it
// differently.
func TestBeginAgainAtAnotherSpelling(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		require.ErrorIs(t, p.Ask(named(t, invoice), to("POST", ownURL+"?a=1&b=2")).Err, onceward.ErrPending)
		pass(time.Hour)
		require.NoError(t, p.Ask(named(t, invoice), to("POST", ownURL+"?b=2&a=1")).Err)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, ownURL+"?a=1&b=2", l.Sent()[1].URL)
	})
}

// A call of a step that has ended meanwhile does not begin, because its flow has gone on without it.
func TestBeginOnceItsStepHasEnded(t *testing.T) {
	scoped := own()
	scoped.CredentialScoped = true
	virtual(t, "", func(t *testing.T) {
		l, goesOn, late := &line{}, make(chan struct{}), make(chan error, 1)
		var tooLate error
		p := startFlows(t, l, onceward.Config{Providers: []providers.Provider{scoped}, Authorize: func(*http.Request) error {
			<-goesOn
			return nil
		}})
		require.NoError(t, p.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				go func() { late <- p.Ask(ctx, toOwn).Err }()
				synctest.Wait()
				return "paid", nil
			})
			close(goesOn)
			tooLate = <-late
			return err
		}))
		require.ErrorIs(t, tooLate, onceward.ErrNotSent)
		require.ErrorContains(t, tooLate, "its step has ended")
		assert.Empty(t, l.Sent())
		assert.Empty(t, p.Everything())
	})
}

// lostBetween is a journal that fails to record an intent, and has lost the session by the time of the cancel.
type lostBetween struct{ *memory.Journal }

func (j lostBetween) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	switch ev.Kind {
	case machine.EventBegin:
		return machine.Result{}, errDiskFull
	case machine.EventCancel:
		return machine.Result{}, journal.ErrSessionLost
	}
	return j.Journal.Apply(ctx, ev)
}

// A cancel under a lost session is not kept for a retry. Another process takes over the session's operations.
func TestBeginOfALostSession(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var failed []string
		p := start(t, &line{}, onceward.Config{Journal: lostBetween{memory.New()}, Trace: &onceward.Trace{
			JournalFailed: func(_ context.Context, _ onceward.Operation, event string, _ error) { failed = append(failed, event) },
		}})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrJournal)
		pass(time.Minute)
		assert.Equal(t, []string{"begin"}, failed)
	})
}

// keepsBack is a journal that does not return a request that its caller has. The interface allows that.
type keepsBack struct{ *memory.Journal }

func (j keepsBack) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	res, err := j.Journal.Apply(ctx, ev)
	if ev.Kind == machine.EventBegin && res.Decision == machine.Execute && ev.Intent.Request.URL == res.Operation.Request.URL {
		res.Operation.Request = journal.Request{}
	}
	return res, err
}

// A request that the journal does not return is sent as the caller made it.
func TestBeginWithAMinimalJournal(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: keepsBack{memory.New()}})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		require.Len(t, l.Sent(), 1)
		assert.Equal(t, chargeURL, l.Sent()[0].URL)
		assert.Equal(t, chargeForm, l.Sent()[0].Body)
	})
}
