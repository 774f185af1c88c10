package promises_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

// The tests of this file are histories that proof/model found to be dangerous under a rule that lacks a clause, which
// is one sentence. Each is the shortest way to a second effect, a lie or a loss. Here they meet the real client.

// The first request dawdles, and the second is refused. The provider remembers no refusals, so the first takes effect
// once it arrives. The refusal is not the operation's answer, because a caller who got it would pay by another name.
func TestReplayARefusalAfterASlowAttempt(t *testing.T) {
	s := onStage(t, failsCleanly, http.StatusPaymentRequired)
	s.next(crossing{dawdles: true})
	out := s.asks(s.client())
	require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
	assert.Contains(t, out.Op.Cause, "refused")
	assert.Nil(t, out.Op.Answer)

	s.arrives()
	s.effects(2, 1)
	require.ErrorIs(t, s.asks(s.client()).Err, onceward.ErrOutcomeUnknown)
	s.effects(2, 1)
}

// If nothing dawdles, the same refusal is the answer.
func TestReplayARefusalOfTheOnlyAttempt(t *testing.T) {
	s := onStage(t, failsCleanly, http.StatusPaymentRequired)
	a := s.client()
	assert.Equal(t, onceward.StateCompleted, s.asks(a).Op.State)
	out := s.asks(s.client())
	require.NoError(t, out.Err)
	assert.Equal(t, http.StatusPaymentRequired, out.Status)
	assert.True(t, out.Op.Replayed)
	s.effects(1, 0)
}

// A process decides on a delay inside the window, and sleeps past its end. The provider has forgotten the key by the
// time the process wakes.
func TestReplayASleepPastTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(503, "", "Retry-After", "79200")) // 22 hours; the window is 23
		p := start(t, l, onceward.Config{MaxWait: 72 * time.Hour})
		var slept atomic.Int64
		setClock(p.Client, func() time.Time { return time.Now().Add(time.Duration(slept.Load())) })
		asked := make(chan outcome, 1)
		go func() { asked <- p.Ask(named(t, nameOnStage)) }()
		synctest.Wait()
		slept.Store(int64(2 * time.Hour))

		out := <-asked
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		assert.Contains(t, out.Op.Cause, "retention")
		assert.Len(t, l.Sent(), 1)
	})
}

// A process dies in the middle of a call without a key. The next process can't know whether the request was sent, and
// it arrives only afterwards.
func TestReplayADeathInACallWithoutAKey(t *testing.T) {
	s := onStage(t, takesNoKey)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.Crash})
	require.Error(t, s.asks(a).Err)

	require.ErrorIs(t, s.asks(b).Err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// The next process starts after the provider has forgotten the key.
func TestReplayATakeoverPastTheWindow(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.Crash})
	require.Error(t, s.asks(a).Err)
	s.arrives()
	s.passes(8 * 24 * time.Hour) // the retention is a week

	report, err := b.Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, report.Unknown)
	require.ErrorIs(t, s.asks(b).Err, onceward.ErrOutcomeUnknown)
	s.effects(1, 1)
}

// The next process starts inside the window. The provider recognises the key, whichever request comes first.
func TestReplayATakeoverInsideTheWindow(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.Crash})
	require.Error(t, s.asks(a).Err)
	s.passes(6 * 24 * time.Hour)

	report, err := b.Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, report.Completed)
	s.arrives()
	s.effects(2, 1)
}

// A provider that remembers only successes may have failed with an effect, and would execute the repeat.
func TestReplayAMemoryOfSuccessesOnly(t *testing.T) {
	s := onStage(t, recognisesSuccesses)
	s.next(crossing{dawdles: true})
	a := s.client()
	require.ErrorIs(t, s.asks(a).Err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// Without an in-flight guard and a maximum handling time, a second request might be executed beside the first.
func TestReplayNoGuardNoHandlingTime(t *testing.T) {
	s := onStage(t, hasNoGuard)
	s.next(crossing{dawdles: true})
	require.ErrorIs(t, s.asks(s.client()).Err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// With a two-hour maximum handling time, the repeat waits that long, and for the difference that clocks may have.
// No process here has run for that long.
func TestReplayNoGuardTwoHoursHandlingTime(t *testing.T) {
	s := onStage(t, own(func(e *providers.Endpoint) { e.InFlightGuard, e.HandlingTime = false, 2*time.Hour }))
	s.next(crossing{dawdles: true})
	a, b := s.client(), s.client()
	require.ErrorIs(t, s.asks(a).Err, onceward.ErrPending)
	s.passes(time.Hour)
	require.ErrorIs(t, s.asks(b).Err, onceward.ErrPending)
	s.effects(0, 0)
	s.arrives()
	s.passes(time.Hour + time.Second)
	require.ErrorIs(t, s.asks(b).Err, onceward.ErrPending)
	s.passes(2 * time.Hour)
	out := s.asks(b)
	require.NoError(t, out.Err)
	assert.Equal(t, paid, out.Body)
	s.effects(2, 1)
}

// A client's session was taken over, and its attempt fails while its successor sends. It must not give up the
// successor's claim.
func TestReplayAStaleClaimGivesNothingUp(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client()
	taken := make(chan outcome, 1)
	sending, release := make(chan struct{}), make(chan struct{})
	s.next(
		crossing{dawdles: true, meanwhile: func() {
			a.LosesSession()
			go func() { taken <- s.asks(b) }()
			<-sending
		}},
		crossing{meanwhile: func() { close(sending); <-release }},
	)
	first := s.asks(a)
	require.Error(t, first.Err)
	assert.Equal(t, onceward.StateInFlight, s.state(b), "the successor's")
	close(release)
	out := <-taken
	require.NoError(t, out.Err)
	s.arrives()
	s.effects(2, 1)
}

// A first attempt is refused for now, and its client waits. Meanwhile its session is lost, an operator truthfully
// decides "not executed", and another client sends the next generation. The first client must not send again.
func TestReplayAClaimLostBetweenAttempts(t *testing.T) {
	s := onStage(t, own(func(e *providers.Endpoint) {
		e.Key, e.Retention, e.Remembers, e.InFlightGuard, e.RefusalsRegisterNoKey = providers.Key{}, 0, providers.Nothing, false, false
	}), http.StatusTooManyRequests)
	b := s.client()
	var second outcome
	var a *process
	a = s.client(func(cfg *onceward.Config) {
		cfg.Trace = &onceward.Trace{Delayed: func(context.Context, onceward.Operation, time.Duration) {
			a.LosesSession()
			s.says(b, onceward.NotExecuted)
			second = s.asks(b)
		}}
	})
	first := s.asks(a)
	require.NoError(t, second.Err)
	assert.Equal(t, 1, second.Op.Generation)
	require.NoError(t, first.Err, "it is given the answer that was recorded")
	assert.True(t, first.Op.Replayed)
	s.effects(2, 1)
}

// The caller gives up while its request is on its way. "Cancelled" would be a lie, and would free the name for a second
// effect.
func TestReplayACallerThatGivesUp(t *testing.T) {
	s := onStage(t, takesNoKey)
	a, b := s.client(), s.client()
	ctx, giveUp := context.WithCancel(t.Context())
	s.next(crossing{dawdles: true, meanwhile: giveUp})
	require.ErrorIs(t, s.asksUnder(ctx, a).Err, onceward.ErrOutcomeUnknown)
	assert.Equal(t, onceward.StateUnknown, s.state(b))
	require.ErrorIs(t, s.asks(b).Err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// A provider counts from the first request that it saw, even if it refused that for now. The window begins with that
// request, and not with the attempt that was executed.
func TestReplayARefusedAttemptDatesTheKey(t *testing.T) {
	s := onStage(t, recognisesAll, http.StatusTooManyRequests)
	a := s.client(func(cfg *onceward.Config) { cfg.Backoff.MaxAttempts = 1 })
	require.Equal(t, http.StatusTooManyRequests, s.asks(a).Status)
	s.passes(4 * 24 * time.Hour)
	b := s.client()
	s.next(crossing{dawdles: true, meanwhile: b.Crash})
	require.Error(t, s.asks(b).Err)
	s.arrives()
	s.passes(4 * 24 * time.Hour)

	report, err := s.client().Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, report.Unknown, "eight days after the first request, four after the second")
	s.effects(2, 1)
}

// An answer is reaped, and a caller asks for its name again.
func TestReplayAReapedAnswer(t *testing.T) {
	t.Parallel()
	s := onStage(t, recognisesAll)
	a := s.client()
	require.NoError(t, s.asks(a).Err)
	s.passes(100 * 24 * time.Hour)
	reaped, err := a.Journal.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: s.now(), Keep: 90 * 24 * time.Hour}, 10)
	require.NoError(t, err)
	require.Positive(t, reaped)
	require.True(t, a.Recorded(onceward.Ref{ID: nameOnStage}).Tombstone)
	require.ErrorIs(t, s.asks(s.client()).Err, onceward.ErrAnswerGone)
	s.effects(1, 1)
}

// The answer comes while Outcomes.Handle handles "unknown". Its return counts for the older outcome, so Outcomes.Handle
// gets the answer, too.
func TestReplayADeliveryOfAnOlderOutcome(t *testing.T) {
	s := onStage(t, takesNoKey)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.Crash})
	require.Error(t, s.asks(a).Err)

	var taken []onceward.State
	b = s.client(func(cfg *onceward.Config) {
		cfg.Outcomes = &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
			if taken = append(taken, op.State); len(taken) == 1 {
				s.says(b, onceward.Executed)
			}
			return nil
		}}
	})
	_, err := b.Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, []onceward.State{onceward.StateUnknown}, taken)
	require.False(t, b.Recorded(onceward.Ref{ID: nameOnStage}).Delivered)
	b.Crash()

	c := s.client(func(cfg *onceward.Config) {
		cfg.Outcomes = &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
			taken = append(taken, op.State)
			return nil
		}}
	})
	_, err = c.Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []onceward.State{onceward.StateUnknown, onceward.StateCompleted}, taken)
}

// A takeover meets its predecessor's request, which the provider is still working on. It waits, and gets the answer of
// that request.
func TestReplayATakeoverMeetsARequest(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client(func(cfg *onceward.Config) {
		cfg.Trace = &onceward.Trace{Delayed: func(context.Context, onceward.Operation, time.Duration) {
			if f := s.works.Swap(nil); f != nil {
				s.release() // once B has to wait
			}
		}}
	})
	working := make(chan struct{})
	hold := func() { close(working); <-s.held }
	s.works.Store(&hold)
	s.next(crossing{dawdles: true, meanwhile: a.Crash})
	require.Error(t, s.asks(a).Err)
	arrived := make(chan struct{})
	go func() { defer close(arrived); s.arrives() }()
	<-working

	report, err := b.Resume(t.Context())
	require.NoError(t, err)
	<-arrived
	assert.Equal(t, 1, report.Completed)
	assert.Equal(t, onceward.StateCompleted, s.state(b))
	s.effects(3, 1)
}

// "Not executed" is a person's decision. If it is wrong, the next generation is a second effect, and is reported. That
// is the one bound of the promise that a person can break.
func TestReplayAWrongResolution(t *testing.T) {
	s := onStage(t, takesNoKey)
	var conflicts atomic.Int64
	sending, release := make(chan struct{}), make(chan struct{})
	a := s.client(func(cfg *onceward.Config) {
		cfg.Trace = &onceward.Trace{Conflicted: func(_ context.Context, _ onceward.Operation, _ int, second bool) {
			if second {
				conflicts.Add(1)
			}
		}}
	})
	b := s.client()
	s.next(crossing{meanwhile: func() { close(sending); <-release }})
	late := make(chan outcome, 1)
	go func() { late <- s.asks(a) }()
	<-sending
	a.LosesSession()
	require.ErrorIs(t, s.asks(b).Err, onceward.ErrOutcomeUnknown)
	s.says(b, onceward.NotExecuted)
	require.NoError(t, s.asks(b).Err)
	close(release)
	out := <-late
	if out.Err != nil && !errors.Is(out.Err, onceward.ErrAnswerGone) {
		require.NoError(t, out.Err)
	}
	s.effects(2, 2)
	assert.Equal(t, int64(1), conflicts.Load(), "reported to Trace.Conflicted")
	assert.Equal(t, 1, b.Recorded(onceward.Ref{ID: nameOnStage}).SecondEffects)
}
