package onceward_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
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
			p := start(t, (&line{}).Then(says(200, long)), onceward.Config{MaxResponseBody: limit, OnSettled: (&settler{}).settle})
			req, err := http.NewRequestWithContext(named(t, invoice), http.MethodPost, chargeURL, nil)
			require.NoError(t, err)
			resp, err := p.HTTP.Do(req)
			require.NoError(t, err)
			assert.False(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, long, string(text))
			require.NoError(t, resp.Body.Close())
			require.NoError(t, p.Shutdown(t.Context())) // the note of a delivery rides on another commit
			assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
		})
	}
}

// standsBefore is a journal that a process stands still before, with an answer to record.
type standsBefore struct {
	journal.Journal
	goesOn chan struct{}
}

func (j standsBefore) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if ev.Kind == journal.EventComplete {
		<-j.goesOn
	}
	return j.Journal.Apply(ctx, ev)
}

// That an operation took effect which nobody wants any more is told to its owner, whoever else has its answer.
func TestUnwantedIsToldBesideItsCaller(t *testing.T) {
	ref, unlisted := onceward.Ref{ID: invoice}, to("POST", "https://elsewhere.example/")
	unwanted := func(t *testing.T, p *process) {
		op, err := p.Unwanted(t.Context(), ref, onceward.ResolveOptions{By: "ada"})
		require.NoError(t, err)
		require.Equal(t, onceward.StateUnknown, op.State)
	}
	hears := func(t *testing.T, p *process, s *settler) {
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, s.got[invoice])
		last := s.got[invoice][len(s.got[invoice])-1]
		assert.Equal(t, onceward.StateCompleted, last.State)
		assert.Equal(t, "ada", last.Unwanted.By)
	}
	each(t, "its own answer, which is late", func(t *testing.T, j journal.Journal) {
		s, goesOn := &settler{}, make(chan struct{})
		stands := start(t, &line{}, onceward.Config{Journal: standsBefore{j, goesOn}, OnSettled: s.settle})
		caller := make(chan outcome, 1)
		go func() { caller <- stands.Ask(named(t, invoice)) }()
		pass(time.Second)
		_ = stands.Shutdown(cancelled())
		p := start(t, &line{}, onceward.Config{Journal: j, OnSettled: s.settle})
		unwanted(t, p)
		close(goesOn)
		require.NoError(t, (<-caller).Err)
		hears(t, p, s)
	})
	virtual(t, "one that the journal fails to record", func(t *testing.T) {
		s, m := &settler{}, memory.New()
		fails := &failing{Journal: m}
		fails.fails(false, journal.EventComplete)
		p := start(t, &line{}, onceward.Config{Journal: fails, OnSettled: s.settle})
		require.NoError(t, p.Ask(named(t, invoice), unlisted).Err)
		m.Kill(p.Journal.Sessions()[0].ID()) // to the others, as its lease is over
		other := start(t, &line{}, onceward.Config{Journal: m})
		_, err := other.Resume(t.Context())
		require.NoError(t, err)
		unwanted(t, other)
		fails.fails(false)
		pass(time.Minute)
		hears(t, p, s)
	})
	each(t, "one that was found", func(t *testing.T, j journal.Journal) {
		s := &settler{}
		person := start(t, (&line{}).Then(loses()), onceward.Config{Journal: j, OnSettled: s.settle})
		require.ErrorIs(t, person.Ask(named(t, invoice), unlisted).Err, onceward.ErrOutcomeUnknown)
		unwanted(t, person)
		_, err := person.ResolveAs(ref, onceward.Executed, &onceward.Answer{Status: 200})
		require.NoError(t, err)
		p := start(t, &line{}, onceward.Config{Journal: j, OnSettled: s.settle})
		require.NoError(t, p.Ask(named(t, invoice), unlisted).Err)
		hears(t, p, s)
	})
}

// Who stood still for longer than a key is known gets nobody else's answer: its operation is forgotten, and another
// has the key.
func TestAnswerOfAForgottenOperation(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		goesOn, carries := make(chan struct{}), carrying("k-1")
		stands := start(t, (&line{}).Always(says(200, `{"id":"ch_old"}`)), onceward.Config{Journal: standsBefore{j, goesOn}})
		caller := make(chan outcome, 1)
		go func() { caller <- stands.Ask(t.Context(), carries) }()
		pass(time.Second)
		_ = stands.Shutdown(cancelled())
		p := start(t, (&line{}).Always(says(200, paid)), onceward.Config{Journal: j, Keep: time.Hour})
		require.NoError(t, p.Ask(t.Context(), carries).Err)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- p.Run(ctx) }()
		pass(50 * time.Hour) // it is reaped
		stop()
		require.ErrorIs(t, <-ran, context.Canceled)
		require.NoError(t, p.Ask(t.Context(), carries, otherCharge).Err)
		close(goesOn)
		assert.ErrorIs(t, (<-caller).Err, onceward.ErrAnswerGone)
	})
}
