package request_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers/providertest"
)

func TestAReplayCarriesNoSetCookie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(says(200, paid, "Set-Cookie", "a=b", "X-Request-Id", "req_1"))
		p := start(t, l, onceward.Config{})
		first, second := p.Ask(named(t, "invoice-1/charge")), p.Ask(named(t, "invoice-1/charge"))
		assert.Equal(t, "a=b", first.Header.Get("Set-Cookie"))
		assert.Empty(t, second.Header.Get("Set-Cookie"))
		assert.Equal(t, "req_1", second.Header.Get("X-Request-Id"))
	})
}

// An answer that is too large to be kept is delivered like any other: once its body is closed.
func TestALargeAnswerIsDelivered(t *testing.T) {
	for _, limit := range []int64{10, 1000} {
		virtual(t, fmt.Sprint(limit), func(t *testing.T) {
			long := strings.Repeat("x", 100)
			p := start(t, (&line{}).Then(says(200, long)), onceward.Config{MaxResponseBody: limit, Outcomes: &onceward.Outcomes{Handle: (&settler{}).Settle}})
			req, err := http.NewRequestWithContext(named(t, invoice), http.MethodPost, chargeURL, nil)
			require.NoError(t, err)
			resp, err := p.HTTP.Do(req)
			require.NoError(t, err)
			assert.False(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, long, string(text))
			require.NoError(t, resp.Body.Close())
			require.NoError(t, p.Shutdown(t.Context())) // a delivery's note rides on another commit
			assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
		})
	}
}

// standsBefore is a journal that blocks a process that has an answer to record.
type standsBefore struct {
	machine.Store
	goesOn chan struct{}
}

func (j standsBefore) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if ev.Kind == machine.EventComplete {
		<-j.goesOn
		ctx = context.WithoutCancel(ctx) // the time that it has is left to it once it goes on: see grace.After
	}
	return j.Store.Apply(ctx, ev)
}

// Outcomes.Handle gets an effect that the operator no longer wants, even if a caller has its answer.
func TestWithdrawnEffectIsDeliveredToItsOwner(t *testing.T) {
	ref, unlisted := onceward.Ref{ID: invoice}, to("POST", "https://elsewhere.example/")
	withdraw := func(t *testing.T, p *process) {
		op, err := p.Withdraw(t.Context(), ref, onceward.ResolveOptions{By: "ada"})
		require.NoError(t, err)
		require.Equal(t, onceward.StateUnknown, op.State)
	}
	hears := func(t *testing.T, p *process, s *settler) {
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, s.Got[invoice])
		last := s.Got[invoice][len(s.Got[invoice])-1]
		assert.Equal(t, onceward.StateCompleted, last.State)
		assert.Equal(t, "ada", last.Withdrawn.By)
	}
	each(t, "its own answer, which is late", func(t *testing.T, j machine.Store) {
		s, goesOn := &settler{}, make(chan struct{})
		stands := start(t, &line{}, onceward.Config{Journal: standsBefore{j, goesOn}, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		caller := make(chan outcome, 1)
		go func() { caller <- stands.Ask(named(t, invoice)) }()
		pass(time.Second)
		_ = stands.Shutdown(cancelled())
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		withdraw(t, p)
		close(goesOn)
		require.NoError(t, (<-caller).Err)
		hears(t, p, s)
	})
	virtual(t, "one that the journal fails to record", func(t *testing.T) {
		s, m := &settler{}, memory.New()
		fails := &failing{Store: m}
		fails.Fails(false, machine.EventComplete)
		p := start(t, &line{}, onceward.Config{Journal: fails, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		require.NoError(t, p.Ask(named(t, invoice), unlisted).Err)
		m.Kill(p.Journal.Sessions()[0].ID()) // to the others, as its lease is over
		other := start(t, &line{}, onceward.Config{Journal: m})
		_, err := other.Resume(t.Context())
		require.NoError(t, err)
		withdraw(t, other)
		fails.Fails(false)
		pass(time.Minute)
		hears(t, p, s)
	})
	each(t, "one that was found", func(t *testing.T, j machine.Store) {
		s := &settler{}
		person := start(t, (&line{}).Then(loses()), onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		require.ErrorIs(t, person.Ask(named(t, invoice), unlisted).Err, onceward.ErrOutcomeUnknown)
		withdraw(t, person)
		_, err := person.ResolveAs(ref, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		require.NoError(t, p.Ask(named(t, invoice), unlisted).Err)
		hears(t, p, s)
	})
}

// A process stands still for longer than the journal keeps the operation, and another operation gets the key. Its
// caller does not get that operation's answer.
func TestAnswerOfAForgottenOperation(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		goesOn, carries := make(chan struct{}), carrying("k-1")
		stands := start(t, (&line{}).Always(says(200, `{"id":"ch_old"}`)), onceward.Config{Journal: standsBefore{j, goesOn}})
		caller := make(chan outcome, 1)
		go func() { caller <- stands.Ask(t.Context(), carries) }()
		pass(time.Second)
		_ = stands.Shutdown(cancelled())
		p := start(t, (&line{}).Always(says(200, paid)), onceward.Config{Journal: j, Keep: time.Hour})
		require.NoError(t, p.Ask(t.Context(), carries).Err)
		p.PassInUse(49 * time.Hour)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded) // it is reaped
		require.NoError(t, p.Ask(t.Context(), carries, otherCharge).Err)
		close(goesOn)
		out := <-caller
		assert.ErrorIs(t, out.Err, onceward.ErrAnswerGone)
		assert.Nil(t, out.Op.Answer)
	})
}

// unread is a journal whose reads fail the given number of times.
type unread struct {
	machine.Store
	times atomic.Int32
}

func (j *unread) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if j.times.Add(-1) >= 0 {
		return journal.Operation{}, errDiskFull
	}
	return j.Store.Get(ctx, ref)
}

// A caller gets ErrAnswerGone and the journal's error if its process lost the claim, and the answer that another
// process recorded can't be read.
func TestAnswerThatCantBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, goesOn := memory.New(), make(chan struct{})
		fails := &unread{Store: standsBefore{m, goesOn}}
		stands := start(t, &line{}, onceward.Config{Journal: fails})
		caller := make(chan outcome, 1)
		go func() { caller <- stands.Ask(named(t, invoice)) }()
		pass(time.Second)
		_ = stands.Shutdown(cancelled())
		require.NoError(t, start(t, &line{}, onceward.Config{Journal: m}).Ask(named(t, invoice)).Err)
		fails.times.Store(1)
		close(goesOn)
		out := <-caller
		require.ErrorIs(t, out.Err, onceward.ErrAnswerGone)
		require.ErrorIs(t, out.Err, errDiskFull)
	})
}

// The rest of a long answer that no caller gets is closed, and its connection with it.
func TestRemainderOfAnAnswerIsClosed(t *testing.T) {
	pad := strings.Repeat("x", 2000)
	virtual(t, "the caller gets an error", func(t *testing.T) {
		var closed atomic.Int32
		l := (&line{}).Then(reply{Answer: func(r *http.Request) (*http.Response, error) {
			resp, err := misused.Answer(r)
			resp.Body, resp.ContentLength = closing(strings.NewReader(`{"error":{"type":"idempotency_error"},"pad":"`+pad+`"}`), func() { closed.Add(1) }), -1
			return resp, err
		}})
		p := start(t, l, onceward.Config{MaxResponseBody: 1000})
		require.ErrorIs(t, p.Ask(named(t, invoice), carrying("k-1")).Err, onceward.ErrKeyReused)
		assert.EqualValues(t, 1, closed.Load())
	})
}

// A caller who asks for an unknown operation gets the error again. Outcomes.Handle gets the operation once.
func TestRepeatedCallGetsTheUnknownAgain(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		s := &settler{}
		p := start(t, (&line{}).Then(frozen), onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: s.Settle, Heard: true}})
		go func() { _ = p.Run(t.Context()) }()
		for range 3 {
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
			pass(time.Minute)
		}
		assert.Len(t, s.Got[invoice], 1)
	})
}

// A caller who asks for an unknown operation does not take the notice that OnUnknown has yet to accept.
func TestCallerOfAnUnknownDoesNotReplaceOnUnknown(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		hears, told := false, 0
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{OnUnknown: func(context.Context, onceward.Operation, onceward.Looked) error {
			if !hears {
				return errDiskFull
			}
			told++
			return nil
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropAfter())
		l.Runs(10 * time.Minute)
		require.NotEmpty(t, l.Stands("invoice-1").Attention)
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		hears = true
		l.Runs(20 * time.Minute)
		assert.Equal(t, 1, told)
	})
}

// A replay of an answer that was given by hand delivers it, too.
func TestReplayByHandDelivers(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := start(t, (&line{}).Then(frozen), onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: (&settler{}).Settle}})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
		_, err := p.ResolveAs(onceward.Ref{ID: invoice}, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
		require.False(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
	})
}

// A replay delivers an answer that its first caller never closed.
func TestReplayDelivers(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := start(t, &line{}, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: (&settler{}).Settle}})
		p.Leaves(named(t, invoice))
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		require.NoError(t, p.Shutdown(t.Context())) // a delivery's note rides on another commit
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
	})
}
