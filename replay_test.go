package onceward_test

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
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// The tests of this file are histories that internal/model found to be dangerous
// under a rule that lacks a clause, a sentence each: the shortest way to a second
// effect, a lie or a loss. Here they meet the real client.

// The first request dawdles and the second is refused. The provider remembers no
// refusals, so that the first, once it arrives, takes effect: the refusal is not the
// operation's answer, and a caller who got it would pay by another name.
func TestReplayARefusalAfterAnAttemptThatDawdles(t *testing.T) {
	s := onStage(t, failsCleanly, http.StatusPaymentRequired)
	s.next(crossing{dawdles: true})
	out := s.asks(s.client())
	require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
	assert.Contains(t, out.op.Cause, "refused")
	assert.Nil(t, out.op.Answer)

	s.arrives()
	s.effects(2, 1)
	require.ErrorIs(t, s.asks(s.client()).err, onceward.ErrOutcomeUnknown)
	s.effects(2, 1)
}

// Had nothing dawdled, the same refusal is the answer.
func TestReplayARefusalOfTheOnlyAttempt(t *testing.T) {
	s := onStage(t, failsCleanly, http.StatusPaymentRequired)
	a := s.client()
	assert.Equal(t, onceward.Completed, s.asks(a).op.State)
	out := s.asks(s.client())
	require.NoError(t, out.err)
	assert.Equal(t, http.StatusPaymentRequired, out.status)
	assert.True(t, out.op.Replayed)
	s.effects(1, 0)
}

// A delay is decided on inside the window, and the process then sleeps past its
// end: the provider has forgotten the key by the time that it wakes.
func TestReplayAProcessThatSleepsPastTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(says(503, "", "Retry-After", "79200")) // 22 hours; the window is 23
		p := start(t, l, onceward.Config{MaxWait: 72 * time.Hour})
		var slept atomic.Int64
		onceward.SetClock(p.Client, func() time.Time { return time.Now().Add(time.Duration(slept.Load())) })
		asked := make(chan outcome, 1)
		go func() { asked <- p.ask(named(t, nameOnStage)) }()
		synctest.Wait()
		slept.Store(int64(2 * time.Hour))

		out := <-asked
		require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
		assert.Contains(t, out.op.Cause, "retention")
		assert.Len(t, l.sent(), 1)
	})
}

// A process dies in the middle of a call without a key. Whoever comes next can't
// know whether its request was sent, and it arrives only afterwards.
func TestReplayADeathInACallWithoutAKey(t *testing.T) {
	s := onStage(t, takesNoKey)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.crash})
	require.Error(t, s.asks(a).err)

	require.ErrorIs(t, s.asks(b).err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// The next process starts when the provider has forgotten the key.
func TestReplayATakeoverPastTheWindow(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.crash})
	require.Error(t, s.asks(a).err)
	s.arrives()
	s.passes(8 * 24 * time.Hour) // the retention is a week

	report, err := b.Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, report.Unknown)
	require.ErrorIs(t, s.asks(b).err, onceward.ErrOutcomeUnknown)
	s.effects(1, 1)
}

// The same one inside the window: the key is recognised, whichever request comes
// first.
func TestReplayATakeoverInsideTheWindow(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.crash})
	require.Error(t, s.asks(a).err)
	s.passes(6 * 24 * time.Hour)

	report, err := b.Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, report.Completed)
	s.arrives()
	s.effects(2, 1)
}

// A provider that remembers successes only may have failed with an effect, and
// would execute the repeat.
func TestReplayAMemoryOfSuccessesOnly(t *testing.T) {
	s := onStage(t, recognisesSuccesses)
	s.next(crossing{dawdles: true})
	a := s.client()
	require.ErrorIs(t, s.asks(a).err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// Without an in-flight guard, and with no longest handling time stated, a second
// request might be executed beside the first.
func TestReplayNoGuardAndNothingStated(t *testing.T) {
	s := onStage(t, hasNoGuard)
	s.next(crossing{dawdles: true})
	require.ErrorIs(t, s.asks(s.client()).err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// With a longest handling time of two hours, the repeat waits so long.
func TestReplayNoGuardAndTwoHoursStated(t *testing.T) {
	s := onStage(t, own(func(e *providers.Endpoint) { e.InFlightGuard, e.HandlingTime = false, 2*time.Hour }))
	s.next(crossing{dawdles: true})
	a, b := s.client(), s.client()
	require.ErrorIs(t, s.asks(a).err, onceward.ErrPending)
	s.passes(time.Hour)
	require.ErrorIs(t, s.asks(b).err, onceward.ErrPending)
	s.effects(0, 0)
	s.arrives()
	s.passes(time.Hour + time.Second)
	out := s.asks(b)
	require.NoError(t, out.err)
	assert.Equal(t, paid, out.body)
	s.effects(2, 1)
}

// A client whose session was taken over has its attempt fail while its successor
// sends: it must not give the successor's claim up.
func TestReplayAStaleClaimGivesNothingUp(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client()
	taken := make(chan outcome, 1)
	sending, release := make(chan struct{}), make(chan struct{})
	s.next(
		crossing{dawdles: true, meanwhile: func() {
			a.losesSession()
			go func() { taken <- s.asks(b) }()
			<-sending
		}},
		crossing{meanwhile: func() { close(sending); <-release }},
	)
	first := s.asks(a)
	require.Error(t, first.err)
	assert.Equal(t, onceward.InFlight, s.state(b), "the successor's")
	close(release)
	out := <-taken
	require.NoError(t, out.err)
	s.arrives()
	s.effects(2, 1)
}

// A first attempt is refused for now. While its client waits, the client's session
// is lost, somebody truthfully says "not executed", and another client sends the
// next generation. The first one must not send again.
func TestReplayAClaimThatIsLostBetweenTwoAttempts(t *testing.T) {
	s := onStage(t, own(func(e *providers.Endpoint) {
		e.Key, e.Retention, e.Remembers, e.InFlightGuard = providers.Key{}, 0, providers.Nothing, false
	}), http.StatusTooManyRequests)
	b := s.client()
	var second outcome
	var a *process
	a = s.client(func(cfg *onceward.Config) {
		cfg.Trace = &onceward.Trace{Delayed: func(onceward.Operation, time.Duration) {
			a.losesSession()
			s.says(b, onceward.NotExecuted)
			second = s.asks(b)
		}}
	})
	first := s.asks(a)
	require.NoError(t, second.err)
	assert.Equal(t, 1, second.op.Generation)
	require.NoError(t, first.err, "it is given the answer that was recorded")
	assert.True(t, first.op.Replayed)
	s.effects(2, 1)
}

// The caller gives up while its request is under way: "cancelled" would be a lie,
// and the name would be free for a second effect.
func TestReplayACallerThatGivesUp(t *testing.T) {
	s := onStage(t, takesNoKey)
	a, b := s.client(), s.client()
	ctx, giveUp := context.WithCancel(t.Context())
	s.next(crossing{dawdles: true, meanwhile: giveUp})
	require.ErrorIs(t, s.asksUnder(ctx, a).err, onceward.ErrOutcomeUnknown)
	assert.Equal(t, onceward.Unknown, s.state(b))
	require.ErrorIs(t, s.asks(b).err, onceward.ErrOutcomeUnknown)
	s.arrives()
	s.effects(1, 1)
}

// A refusal for now dates the key, at a provider that counts from the first request
// that it saw: the window begins with it, and not with the attempt that was
// executed.
func TestReplayARefusedAttemptDatesTheKey(t *testing.T) {
	s := onStage(t, recognisesAll, http.StatusTooManyRequests)
	a := s.client(func(cfg *onceward.Config) { cfg.Backoff.MaxAttempts = 1 })
	require.Equal(t, http.StatusTooManyRequests, s.asks(a).status)
	s.passes(4 * 24 * time.Hour)
	b := s.client()
	s.next(crossing{dawdles: true, meanwhile: b.crash})
	require.Error(t, s.asks(b).err)
	s.arrives()
	s.passes(4 * 24 * time.Hour)

	report, err := s.client().Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, report.Unknown, "eight days after the first request, four after the second")
	s.effects(2, 1)
}

// An answer is reaped, and its name asked for again.
func TestReplayANameWhoseAnswerWasReaped(t *testing.T) {
	s := onStage(t, recognisesAll)
	a := s.client()
	require.NoError(t, s.asks(a).err)
	s.passes(100 * 24 * time.Hour)
	reaped, err := a.journal.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: s.now(), Keep: 90 * 24 * time.Hour}, 10)
	require.NoError(t, err)
	require.Positive(t, reaped)
	require.True(t, a.recorded(onceward.Ref{ID: nameOnStage}).Tombstone)
	require.ErrorIs(t, s.asks(s.client()).err, onceward.ErrAnswerGone)
	s.effects(1, 1)
}

// OnSettled takes "unknown", and while it is at that the answer comes. Its word is
// for the older outcome: the answer is offered too.
func TestReplayADeliveryOfAnOlderOutcome(t *testing.T) {
	s := onStage(t, takesNoKey)
	a, b := s.client(), s.client()
	s.next(crossing{dawdles: true, meanwhile: a.crash})
	require.Error(t, s.asks(a).err)

	var taken []onceward.State
	b = s.client(func(cfg *onceward.Config) {
		cfg.OnSettled = func(_ context.Context, op onceward.Operation) error {
			if taken = append(taken, op.State); len(taken) == 1 {
				s.says(b, onceward.Executed)
			}
			return nil
		}
	})
	_, err := b.Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, []onceward.State{onceward.Unknown}, taken)
	require.False(t, b.recorded(onceward.Ref{ID: nameOnStage}).Delivered)
	b.crash()

	c := s.client(func(cfg *onceward.Config) {
		cfg.OnSettled = func(_ context.Context, op onceward.Operation) error {
			taken = append(taken, op.State)
			return nil
		}
	})
	_, err = c.Resume(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []onceward.State{onceward.Unknown, onceward.Completed}, taken)
}

// A takeover meets its predecessor's request, which the provider is still working
// on: it waits, and is given that request's answer.
func TestReplayATakeoverMeetsItsPredecessorsRequest(t *testing.T) {
	s := onStage(t, recognisesAll)
	a, b := s.client(), s.client(func(cfg *onceward.Config) {
		cfg.Trace = &onceward.Trace{Delayed: func(onceward.Operation, time.Duration) {
			if f := s.works.Swap(nil); f != nil {
				s.release() // once B was told to wait
			}
		}}
	})
	working := make(chan struct{})
	hold := func() { close(working); <-s.held }
	s.works.Store(&hold)
	s.next(crossing{dawdles: true, meanwhile: a.crash})
	require.Error(t, s.asks(a).err)
	arrived := make(chan struct{})
	go func() { defer close(arrived); s.arrives() }()
	<-working

	report, err := b.Resume(t.Context())
	require.NoError(t, err)
	<-arrived
	assert.Equal(t, 1, report.Completed)
	assert.Equal(t, onceward.Completed, s.state(b))
	s.effects(3, 1)
}

// "Not executed" is somebody's word. If it is false, the next generation is a second
// effect: the one bound of the promise that a person can break.
func TestReplayAFalseWordIsASecondEffectAndIsReported(t *testing.T) {
	s := onStage(t, takesNoKey)
	var conflicts atomic.Int64
	sending, release := make(chan struct{}), make(chan struct{})
	a := s.client(func(cfg *onceward.Config) {
		cfg.Trace = &onceward.Trace{Conflicted: func(_ onceward.Operation, _ int, second bool) {
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
	a.losesSession()
	require.ErrorIs(t, s.asks(b).err, onceward.ErrOutcomeUnknown)
	s.says(b, onceward.NotExecuted)
	require.NoError(t, s.asks(b).err)
	close(release)
	out := <-late
	if out.err != nil && !errors.Is(out.err, onceward.ErrAnswerGone) {
		require.NoError(t, out.err)
	}
	s.effects(2, 2)
	assert.Equal(t, int64(1), conflicts.Load(), "reported to Trace.Conflicted")
	assert.Equal(t, 1, b.recorded(onceward.Ref{ID: nameOnStage}).SecondEffects)
}
