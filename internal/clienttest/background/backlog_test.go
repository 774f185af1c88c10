package background_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

func TestAJournalThatCanNotRecordTheIntent(t *testing.T) {
	for _, row := range []struct {
		name  string
		lands bool
		also  []machine.EventKind // that fail as well
	}{
		{"and has not", false, nil},
		{"but has, and takes the cancel", true, nil},
		{"but has, and takes no cancel either", true, []machine.EventKind{machine.EventCancel}},
		{"and nothing else either", false, []machine.EventKind{machine.EventCancel}},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := &failing{Store: memory.New()}
			failures := map[string]int{}
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
				JournalFailed: func(_ context.Context, _ onceward.Operation, event string, _ error) { failures[event]++ },
			}})
			j.Fails(row.lands, append(row.also, machine.EventBegin)...)
			ctx := named(t, "invoice-1/charge")
			for range 2 {
				out := p.Ask(ctx)
				require.ErrorIs(t, out.Err, onceward.ErrJournal)
				require.ErrorIs(t, out.Err, errDiskFull)
			}
			assert.Empty(t, l.Sent())

			j.Fails(false)
			pass(time.Minute)
			for _, op := range p.Everything() {
				assert.Equal(t, journal.StateCancelled, op.State, "nothing is left in flight")
			}
			assert.Positive(t, failures["begin"])
			assert.Equal(t, len(row.also) > 0, failures["cancel"] > 0)
			out := p.Ask(ctx)
			require.NoError(t, out.Err)
			assert.Zero(t, out.Op.Generation)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// certainlyNot is a journal that records nothing, and whose error says so for certain.
type certainlyNot struct {
	machine.Store
	reason error
	asked  []machine.EventKind
}

func (j *certainlyNot) Apply(_ context.Context, ev machine.Event) (machine.Result, error) {
	j.asked = append(j.asked, ev.Kind)
	return machine.Result{}, j.reason
}

// An intent that was surely not recorded is not cancelled.
func TestIntentSurelyNotRecorded(t *testing.T) {
	for _, reason := range []error{journal.ErrClosed, journal.ErrSessionLost, journal.ErrRestored, journal.ErrInvalidEvent} {
		virtual(t, reason.Error(), func(t *testing.T) {
			j := &certainlyNot{Store: memory.New(), reason: reason}
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
				JournalFailed: func(_ context.Context, _ onceward.Operation, event string, _ error) {
					assert.Equal(t, "begin", event, "something is kept")
				},
			}})
			require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, reason)
			assert.NotContains(t, j.asked, machine.EventCancel)
			assert.Empty(t, l.Sent())
		})
	}
}

// An answer reached its caller before the journal could record it. It is marked as delivered once it is recorded.
func TestDeliveryWaitsForItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Store: memory.New()}
		offered := 0
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			offered++
			return nil
		}}})
		j.Fails(false, machine.EventComplete)
		out := p.Ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.Err)
		pass(time.Minute)
		assert.False(t, p.Recorded(out.Op.Ref).Delivered)
		j.Fails(false)
		pass(time.Minute)
		assert.True(t, p.Recorded(out.Op.Ref).Delivered)
		assert.Zero(t, p.Stats().Backlog)
		assert.Zero(t, offered, "its caller has it")
	})
}

// While an outcome waits to be recorded, its delivery is kept once, however many callers ask. Outcomes.Handle does not
// get it again.
func TestDeliveryWaitsOnce(t *testing.T) {
	for _, all := range []bool{false, true} {
		virtual(t, fmt.Sprintf("Heard: %v", all), func(t *testing.T) {
			j := &failing{Store: memory.New()}
			told := 0
			p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Heard: all, Handle: func(context.Context, onceward.Operation) error {
				told++
				return nil
			}}})
			go func() { _ = p.Run(t.Context()) }()
			j.Fails(false, machine.EventComplete)
			for range 20 {
				require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
				pass(time.Second)
			}
			assert.Zero(t, j.Noted.Load())
			j.Fails(false)
			j.Asked.Store(0)
			pass(time.Minute)
			assert.Zero(t, p.Stats().Backlog)
			assert.EqualValues(t, 2, j.Asked.Load(), "the answer, and its delivery")
			if all {
				assert.Equal(t, 1, told)
			} else {
				assert.Zero(t, told)
			}
		})
	}
}

func TestAJournalThatCanNotRecordTheAnswer(t *testing.T) {
	for name, lands := range map[string]bool{"and has not": false, "but has": true} {
		virtual(t, name, func(t *testing.T) {
			j := &failing{Store: memory.New()}
			failures := 0
			l := &line{}
			p := start(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{
				JournalFailed: func(context.Context, onceward.Operation, string, error) { failures++ },
			}})
			j.Fails(lands, machine.EventComplete)
			ctx := named(t, "invoice-1/charge")
			for i := range 3 {
				out := p.Ask(ctx)
				require.NoError(t, out.Err)
				assert.Equal(t, paid, out.Body)
				assert.Equal(t, onceward.StateCompleted, out.Op.State)
				assert.Equal(t, i > 0, out.Op.Replayed)
			}
			require.ErrorIs(t, p.Ask(ctx, body("another request")).Err, onceward.ErrKeyReused)
			assert.Len(t, l.Sent(), 1, "askers are served from memory")
			assert.Equal(t, 1, failures)

			j.Fails(false)
			pass(time.Minute)
			recorded := p.Recorded(onceward.Ref{ID: "invoice-1/charge"})
			assert.Equal(t, journal.StateCompleted, recorded.State)
			assert.Equal(t, paid, string(recorded.Answer.Body))
			require.NoError(t, p.Ask(ctx).Err)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// The journal cannot record a claim's end.
func TestJournalThatCanNotRecordTheEnd(t *testing.T) {
	for _, row := range []struct {
		name   string
		script []reply
		event  machine.EventKind
		kind   error // what the caller gets; nil: a response
		state  journal.State
	}{
		{"a park", []reply{loses()}, machine.EventPark, onceward.ErrPending, journal.StatePending},
		{"a doubt", []reply{frozen}, machine.EventMarkUnknown, onceward.ErrOutcomeUnknown, journal.StateUnknown},
		{"a cancel", []reply{wrongKey}, machine.EventCancel, nil, journal.StateCancelled},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := &failing{Store: memory.New()}
			l := (&line{}).Then(row.script...)
			p := start(t, l, onceward.Config{Journal: j, Backoff: once})
			j.Fails(false, row.event)
			ctx := named(t, "invoice-1/charge")
			out := p.Ask(ctx)
			if row.kind != nil {
				require.ErrorIs(t, out.Err, row.kind)
			} else {
				require.NoError(t, out.Err)
			}
			assert.Equal(t, row.state, out.Op.State)
			assert.Equal(t, journal.StateInFlight, p.Recorded(out.Op.Ref).State)
			require.Error(t, p.Ask(ctx).Err)
			assert.Len(t, l.Sent(), 1)
			j.Fails(false)
			pass(time.Minute)
			assert.Equal(t, row.state, p.Recorded(out.Op.Ref).State)
		})
	}
}

// Shutdown records what the journal failed to record before.
func TestShutdownRetriesFailedRecords(t *testing.T) {
	virtual(t, "until it does", func(t *testing.T) {
		j := &failing{Store: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j})
		j.Fails(false, machine.EventComplete)
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		time.AfterFunc(10*time.Second, func() { j.Fails(false) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, p.Shutdown(ctx))
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
	})
	virtual(t, "until its context ends, and says so", func(t *testing.T) {
		j := &failing{Store: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j})
		j.Fails(false, machine.EventComplete)
		require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.Error(t, p.Shutdown(ctx))
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

// An answer that was never recorded is requested again after a crash.
func TestUnrecordedAnswerIsRequestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Store: memory.New()}
		l := &line{}
		dead := start(t, l, onceward.Config{Journal: j})
		j.Fails(false, machine.EventComplete)
		require.NoError(t, dead.Ask(named(t, "invoice-1/charge")).Err)
		dead.Crash()
		j.Fails(false)

		next := start(t, l, onceward.Config{Journal: j})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, l.Keys()[0], l.Keys()[1])
	})
}

// movedAway is a journal whose files are moved away during a commit that is stored.
type movedAway struct {
	machine.Store
	away atomic.Bool
}

func (j *movedAway) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	switch {
	case !j.away.Load():
		return j.Store.Apply(ctx, ev)
	case ev.Kind != machine.EventBegin:
		return machine.Result{}, journal.ErrRestored
	}
	_, err := j.Store.Apply(ctx, ev)
	return machine.Result{}, errors.Join(errDiskFull, err)
}

// An intent was stored in files that were moved away during the commit. Its operation is free once the files are back.
func TestIntentInMovedFiles(t *testing.T) {
	virtual(t, "moved away", func(t *testing.T) {
		j := &movedAway{Store: memory.New()}
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		j.away.Store(true)
		ctx := named(t, "invoice-1/charge")
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrJournal)
		assert.Empty(t, l.Sent())
		j.away.Store(false)
		pass(time.Minute)
		require.NoError(t, p.Ask(ctx).Err)
		assert.Len(t, l.Sent(), 1)
	})
}

// unwilling is a journal that refuses parks once its failures end.
type unwilling struct {
	*failing
	with    error
	refused atomic.Int32
}

func (j *unwilling) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	res, err := j.failing.Apply(ctx, ev)
	if err == nil && ev.Kind == machine.EventPark {
		j.refused.Add(1)
		return machine.Result{}, j.with
	}
	return res, err
}

// An event that the journal refuses is dropped after one more try.
func TestRefusedEventIsNotKeptForEver(t *testing.T) {
	for name, with := range map[string]error{
		"it is invalid":              &machine.EventError{Kind: machine.EventPark, Reason: "the claim is gone"},
		"its operation is not there": journal.ErrNotFound,
	} {
		virtual(t, name, func(t *testing.T) {
			j := &unwilling{failing: &failing{Store: memory.New()}, with: with}
			p := start(t, (&line{}).Then(loses()), onceward.Config{Journal: j, Backoff: once})
			j.Fails(false, machine.EventPark)
			require.ErrorIs(t, p.Ask(named(t, "order-1")).Err, onceward.ErrPending)
			j.Fails(false)
			pass(time.Hour)
			assert.EqualValues(t, 1, j.refused.Load(), "it is tried once more, and is not a better one")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, p.Shutdown(ctx))
		})
	}
}

// Two callers close the same answer before it is recorded. Its delivery is recorded once.
func TestDeliveryByTwoWaitsOnce(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &failing{Store: memory.New()}
		p := start(t, (&line{}).Then(takes(time.Second, says(200, paid))), onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: (&settler{}).Settle}})
		j.Fails(false, machine.EventComplete)
		have := make(chan *http.Response, 2)
		for range 2 {
			go func() {
				req, err := http.NewRequestWithContext(named(t, invoice), http.MethodPost, chargeURL, nil)
				require.NoError(t, err)
				resp, err := p.HTTP.Do(req)
				require.NoError(t, err)
				have <- resp
			}()
		}
		pass(2 * time.Second)
		for range 2 {
			require.NoError(t, (<-have).Body.Close())
		}
		assert.Zero(t, j.Noted.Load())
		j.Fails(false)
		j.Asked.Store(0)
		pass(time.Minute)
		assert.EqualValues(t, 2, j.Asked.Load(), "the answer, and its delivery")
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
	})
}

// The retries end once everything is recorded. The retries of the next failure start as quickly, and are as few.
func TestUnrecordedEventIsRetriedAfterEachSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Store: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j})
		var asked [5]int64
		for i := range asked {
			name := fmt.Sprint("order-", i)
			j.Fails(false, machine.EventComplete)
			require.NoError(t, p.Ask(named(t, name)).Err)
			before := j.Asked.Load()
			pass(20 * time.Minute)
			asked[i] = j.Asked.Load() - before
			j.Fails(false)
			pass(time.Minute)
			name += "-soon"
			j.Fails(false, machine.EventComplete)
			require.NoError(t, p.Ask(named(t, name)).Err)
			pass(time.Millisecond)
			j.Fails(false)
			pass(time.Second)
			assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: name}).State)
		}
		for _, n := range asked[1:] {
			assert.Less(t, n, asked[0]*3/2)
		}
	})
}

// An event that can't be recorded is retried after each failure of the journal.
func TestUnrecordedEventIsRetriedAfterEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failing{Store: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j})
		for i := range 3 {
			j.Fails(false, machine.EventComplete)
			require.NoError(t, p.Ask(named(t, fmt.Sprint("order-", i))).Err)
			pass(10 * time.Second)
			assert.Equal(t, onceward.StateInFlight, p.Recorded(onceward.Ref{ID: fmt.Sprint("order-", i)}).State)
			j.Fails(false)
			pass(time.Minute)
			assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: fmt.Sprint("order-", i)}).State)
		}
	})
}

// shut is a journal that no process can join.
type shut struct {
	machine.Store
	applied int
}

func (*shut) Join(context.Context) (machine.Session, error) { return nil, errDiskFull }

func (j *shut) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	j.applied++
	return j.Store.Apply(ctx, ev)
}

func TestUnrecordedIntentIsNotTakenBack(t *testing.T) {
	j := &shut{Store: memory.New()}
	p := start(t, &line{}, onceward.Config{Journal: j})
	require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrJournal)
	assert.Zero(t, j.applied)
}

func TestAnIntentThatIsTakenBackIsNotKept(t *testing.T) {
	for name, lands := range map[string]bool{"it has landed": true, "it has not": false} {
		virtual(t, name, func(t *testing.T) {
			var failed []string
			j := &failing{Store: memory.New()}
			p := start(t, &line{}, onceward.Config{Journal: j, Trace: &onceward.Trace{
				JournalFailed: func(_ context.Context, _ onceward.Operation, event string, _ error) { failed = append(failed, event) },
			}})
			j.Fails(lands, machine.EventBegin)
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrJournal)
			assert.Equal(t, []string{"begin"}, failed)
		})
	}
}

// slow is a journal that takes its time to record answers while hold is open.
type slow struct {
	failing
	hold   chan struct{} // once closed, no call is held
	inside atomic.Int64
}

func (j *slow) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	res, err := j.failing.Apply(ctx, ev)
	if ev.Kind == machine.EventComplete && err == nil {
		j.inside.Add(1)
		<-j.hold
	}
	return res, err
}

// A failing journal is tried with one event at a time, however many are kept.
func TestUnrecordedEventIsRetriedByOneCaller(t *testing.T) {
	var asked [2]int64
	for i, operations := range []int{1, 20} {
		virtual(t, fmt.Sprint(operations), func(t *testing.T) {
			j := &failing{Store: memory.New()}
			p := start(t, &line{}, onceward.Config{Journal: j})
			j.Fails(false, machine.EventComplete)
			for n := range operations {
				require.NoError(t, p.Ask(named(t, fmt.Sprint("invoice-", n))).Err)
			}
			before := j.Asked.Load()
			pass(10 * time.Minute)
			asked[i] = j.Asked.Load() - before
			j.Fails(false)
			pass(time.Minute)
		})
	}
	assert.Positive(t, asked[0])
	assert.LessOrEqual(t, asked[1], 2*asked[0])
}

// A caller and the retries may record a kept event at the same time. Both finish.
func TestSeveralCallersRecordKeptEvents(t *testing.T) {
	virtual(t, "the retries, and a caller", func(t *testing.T) {
		j := &slow{failing: failing{Store: memory.New()}, hold: make(chan struct{})}
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j})
		j.Fails(false, machine.EventComplete)
		ctx := named(t, "invoice-1/charge")
		require.NoError(t, p.Ask(ctx).Err)
		j.Fails(false)
		asked := make(chan outcome)
		go func() { asked <- p.Ask(ctx) }()
		pass(time.Minute)
		require.EqualValues(t, 2, j.inside.Load(), "both are at it")
		close(j.hold)
		require.NoError(t, (<-asked).Err)
		pass(time.Minute)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
		assert.Len(t, l.Sent(), 1)
	})
}

// The commit of an unknown outcome reported an error, but was stored. Outcomes.Handle gets the operation once an
// operator withdraws it, although this process still holds it.
func TestWithdrawalOfWhatThisProcessHolds(t *testing.T) {
	for name, row := range map[string]struct {
		tells, all bool
		told       int
	}{
		"its caller has it":           {true, false, 1},
		"Outcomes.Handle gets all":    {true, true, 2}, // and had it before, as wanted
		"there is no Outcomes.Handle": {false, false, 0},
	} {
		virtual(t, name, func(t *testing.T) {
			s, m := &settler{}, memory.New()
			fails := &failing{Store: m}
			fails.Fails(true, machine.EventMarkUnknown)
			cfg := onceward.Config{Journal: fails}
			if row.tells {
				cfg.Outcomes = &onceward.Outcomes{Handle: s.Settle, Heard: row.all}
			}
			p := start(t, (&line{}).Then(frozen), cfg)
			running, stop := context.WithCancel(seam.Seldom(t.Context(), time.Minute))
			done := make(chan error, 1)
			go func() { done <- p.Run(running) }()
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
			other := start(t, &line{}, onceward.Config{Journal: m})
			_, err := other.Withdraw(t.Context(), onceward.Ref{ID: invoice}, onceward.ResolveOptions{By: "ada"})
			require.NoError(t, err)
			fails.Fails(false)
			pass(2 * time.Hour)
			assert.Zero(t, p.Stats().Backlog)
			assert.Len(t, s.Got[invoice], row.told)
			assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
			stop()
			<-done
		})
	}
}

// A claim's end was stored although its commit failed. Recording it again does not end a later claim of the same
// process.
func TestBacklogOfAnEarlierClaim(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses(), takes(40*time.Second, says(200, paid)))
		j := &failing{Store: onDisk(t)}
		j.Fails(true, machine.EventPark)
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, AttemptTimeout: time.Minute})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		tried := j.Asked.Load()
		resumed := make(chan error, 1)
		go func() {
			_, err := p.Resume(context.Background())
			resumed <- err
		}()
		pass(35 * time.Second) // the first claim's end is tried again each 5 to 15 s
		require.Greater(t, j.Asked.Load(), tried+1)
		assert.Equal(t, journal.StateInFlight, p.Recorded(onceward.Ref{ID: invoice}).State)
		require.NoError(t, start(t, l, onceward.Config{Journal: j.Store}).Ask(named(t, invoice)).Err)
		require.NoError(t, <-resumed)
		assert.Len(t, l.Sent(), 2)
	})
}

// A parked operation is sent when it is due, even if the journal recorded the park late.
func TestUnrecordedParkIsResentWhenDue(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j, l := &failing{Store: memory.New()}, (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: backoff.Policy{Initial: time.Second, Max: time.Second, MaxAttempts: 1}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(time.Second)
		j.Fails(false, machine.EventPark)
		out := p.Ask(named(t, invoice))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		pass(time.Millisecond)
		j.Fails(false)
		pass(time.Minute)
		stop()
		<-done
		require.Len(t, l.Sent(), 1)
		late := l.Sent()[0].At.Sub(out.Op.DueAt)
		assert.Less(t, late, 100*time.Millisecond, "and not when Run would have looked")
	})
}
