package onceward_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// lookedAt is what somebody sees of an operation now.
func (p *process) lookedAt(ref onceward.Ref) onceward.Seen {
	p.t.Helper()
	op, err := p.Lookup(p.t.Context(), ref)
	require.NoError(p.t, err)
	return op.Seen
}

func TestResolveSettlesOnlyWhatItsCallerSaw(t *testing.T) {
	ref := onceward.Ref{ID: "invoice-1/charge"}
	how := onceward.ResolveOptions{By: "ada", Why: "looked at the dashboard"}

	each(t, "evidence of one generation says nothing of the next", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(frozen, frozen)
		p := start(t, l, onceward.Config{Journal: j})
		require.Equal(t, onceward.Unknown, p.ask(named(t, ref.ID)).op.State)
		seen := p.lookedAt(ref)
		_, err := p.Resolve(t.Context(), seen, onceward.NotExecuted, how)
		require.NoError(t, err)
		require.Equal(t, onceward.Unknown, p.ask(named(t, ref.ID)).op.State)

		for _, resolution := range []onceward.Resolution{onceward.Executed, onceward.NotExecuted, onceward.SendAgain, onceward.Hold, onceward.Release} {
			op, err := p.Resolve(t.Context(), seen, resolution, how)
			require.ErrorIs(t, err, onceward.ErrMoved, resolution.String())
			var e *onceward.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 1, e.Operation.Generation, "it says where it stands")
			assert.Equal(t, op.Seen, e.Operation.Seen)
			assert.ErrorContains(t, err, "generation 0, claim 1 was looked at")
		}
		assert.Equal(t, onceward.Unknown, p.recorded(ref).State)
	})

	each(t, "two operators with the same evidence make no second effect", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(frozen)
		p := start(t, l, onceward.Config{Journal: j})
		require.Equal(t, onceward.Unknown, p.ask(named(t, ref.ID)).op.State)
		seen := p.lookedAt(ref)
		_, err := p.Resolve(t.Context(), seen, onceward.SendAgain, how)
		require.NoError(t, err)
		_, err = p.Resolve(t.Context(), seen, onceward.SendAgain, how)
		require.ErrorIs(t, err, onceward.ErrMoved)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		_, err = p.Resolve(t.Context(), seen, onceward.SendAgain, how)
		require.ErrorIs(t, err, onceward.ErrMoved)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.sent(), 2)
	})

	each(t, "an attempt since is one that nobody has evidence of, unless it is known to have executed", func(t *testing.T, j journal.Journal) {
		l := (&line{}).always(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.ask(named(t, ref.ID))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		pass(time.Until(out.op.DueAt))
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, l.sent(), 2)
		for _, resolution := range []onceward.Resolution{onceward.NotExecuted, onceward.SendAgain, onceward.Hold} {
			_, err = p.Resolve(t.Context(), out.op.Seen, resolution, how)
			require.ErrorIs(t, err, onceward.ErrMoved, resolution.String())
		}
		op, err := p.Resolve(t.Context(), out.op.Seen, onceward.Executed, how)
		require.NoError(t, err)
		assert.Equal(t, onceward.Completed, op.State)
	})

	each(t, "a pending one on hold is not sent until it is released", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.ask(named(t, ref.ID))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		op, err := p.Resolve(t.Context(), out.op.Seen, onceward.Hold, how)
		require.NoError(t, err)
		assert.Equal(t, onceward.Unknown, op.State)
		pass(time.Hour)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, p.ask(named(t, ref.ID)).err, onceward.ErrOutcomeUnknown)
		require.Len(t, l.sent(), 1)

		op, err = p.Resolve(t.Context(), op.Seen, onceward.Release, how)
		require.NoError(t, err)
		assert.Equal(t, onceward.Pending, op.State)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.ask(named(t, ref.ID)).err)
		assert.Len(t, l.sent(), 2)
		_, err = p.Resolve(t.Context(), p.lookedAt(ref), onceward.Release, how)
		require.ErrorIs(t, err, journal.ErrInvalidEvent, "it is not on hold")
	})

	each(t, "who said so and why is kept, without what may be a credential", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(frozen)
		p := start(t, l, onceward.Config{Journal: j})
		out := p.ask(named(t, ref.ID))
		require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
		at := time.Now()
		_, err := p.Resolve(t.Context(), out.op.Seen, onceward.Executed, onceward.ResolveOptions{
			By: "ada", Why: "GET https://api.stripe.com/v1/charges?api_key=s3cr3t shows it",
		})
		require.NoError(t, err)
		want := &onceward.Resolved{
			Resolution: onceward.Executed, By: "ada", Why: "GET https://api.stripe.com/v1/charges?… shows it",
			At: at.UTC().Truncate(time.Millisecond), Generation: 0, Claim: 1,
		}
		op, err := p.Lookup(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, want, op.Resolved)
		for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, want, op.Resolved)
		}
	})
}

// What the error prints is what Resolve takes.
func TestAnErrorPrintsWhatResolveTakes(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.ask(onceward.WithScope(named(t, "invoice-1/charge"), "tenant-42"))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		assert.ErrorContains(t, out.err, "(invoice-1/charge, scope tenant-42, generation 0, claim 1)")
		seen := onceward.Seen{Ref: onceward.Ref{Scope: "tenant-42", ID: "invoice-1/charge"}, Generation: 0, Claim: 1}
		assert.Equal(t, seen, out.op.Seen)
		_, err := p.Resolve(t.Context(), seen, onceward.NotExecuted, onceward.ResolveOptions{})
		require.NoError(t, err)
	})
}

// page is what something in front of the provider says.
var page = says(200, "<html>Welcome to nginx!</html>", "Content-Type", "text/html")

func TestResolveSuppliesAnAnswerThatIsMissing(t *testing.T) {
	ref := onceward.Ref{ID: "invoice-1/charge"}
	known := onceward.ResolveOptions{By: "ada", Why: "GET /v1/charges/ch_1", Answer: &onceward.Answer{Status: 200, Body: []byte(paid)}}

	for name, row := range map[string]struct {
		first reply
		cfg   onceward.Config
		given bool // it was executed by somebody's word, without an answer
	}{
		"one that was too large":   {first: says(200, `{"id":"ch_1","description":"long"}`), cfg: onceward.Config{MaxResponseBody: 16}},
		"one that was cut off":     {first: cuts(200, paid)},
		"one that was never given": {first: frozen, given: true},
	} {
		each(t, name, func(t *testing.T, j journal.Journal) {
			row.cfg.Journal, row.cfg.Backoff = j, once
			row.cfg.Providers = []providers.Provider{own(func(e *providers.Endpoint) { e.Remembers = providers.Successes })}
			l := (&line{}).then(row.first)
			p := start(t, l, row.cfg)
			ask := func() outcome { return p.ask(named(t, ref.ID), to("POST", ownURL)) }
			ask()
			if row.given {
				_, err := p.resolve(ref, onceward.Executed, nil)
				require.NoError(t, err)
			}
			require.Equal(t, onceward.Completed, p.recorded(ref).State)
			op, err := p.Resolve(t.Context(), p.lookedAt(ref), onceward.Executed, known)
			require.NoError(t, err)
			assert.Equal(t, "ada", op.Resolved.By)
			out := ask()
			require.NoError(t, out.err)
			assert.Equal(t, paid, out.body)
			assert.True(t, out.op.Answer.ByHand)
			assert.Equal(t, "by hand", out.header.Get("Onceward-Answer"))
			_, err = p.Resolve(t.Context(), p.lookedAt(ref), onceward.Executed, known)
			require.ErrorIs(t, err, journal.ErrInvalidEvent, "once")
			assert.Len(t, l.sent(), 1)
		})
	}

	each(t, "one that the provider's table knows stands", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(says(200, paid))
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.ask(named(t, ref.ID)).err)
		_, err := p.Resolve(t.Context(), p.lookedAt(ref), onceward.Executed, onceward.ResolveOptions{Answer: &onceward.Answer{Status: 200, Body: []byte("{}")}})
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		out := p.ask(named(t, ref.ID))
		assert.Equal(t, paid, out.body)
		assert.Empty(t, out.header.Get("Onceward-Answer"))
	})

	each(t, "a refusal stands", func(t *testing.T, j journal.Journal) {
		p := start(t, (&line{}).then(declined), onceward.Config{Journal: j})
		require.NoError(t, p.ask(named(t, ref.ID)).err)
		_, err := p.Resolve(t.Context(), p.lookedAt(ref), onceward.Executed, known)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	})

	each(t, "a gateway's page is replaced, both are kept, and a replay is marked", func(t *testing.T, j journal.Journal) {
		before, now := providers.Stripe(), providers.Stripe()
		before.Answers = nil // before the table could tell
		now.Answers = []string{"application/json"}
		l := (&line{}).then(page)
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{before}})
		require.NoError(t, p.ask(named(t, ref.ID)).err)
		_, err := p.Resolve(t.Context(), p.lookedAt(ref), onceward.Executed, known)
		require.ErrorIs(t, err, journal.ErrInvalidEvent, "to a table that takes it for the provider's, it is one")
		p.crash()

		p = start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{now}})
		op, err := p.Resolve(t.Context(), p.lookedAt(ref), onceward.Executed, known)
		require.NoError(t, err)
		assert.Equal(t, onceward.Completed, op.State)
		out := p.ask(named(t, ref.ID))
		require.NoError(t, out.err)
		assert.Equal(t, paid, out.body)
		assert.Equal(t, "by hand", out.header.Get("Onceward-Answer"))
		require.NotNil(t, out.op.Answer.Replaced)
		assert.Contains(t, string(p.recorded(ref).Answer.Replaced.Body), "nginx")
		assert.Len(t, l.sent(), 1)
	})
}

func TestAForeignSuccessIsUnknownUntilSomebodySuppliesTheAnswer(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		stripe := providers.Stripe()
		stripe.Answers = []string{"application/json"}
		l := (&line{}).then(page)
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{stripe}})
		out := p.ask(named(t, "invoice-1/charge"))
		require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
		var e *onceward.Error
		require.True(t, errors.As(out.err, &e))
		require.NotNil(t, e.Response)
		assert.Contains(t, string(e.Response.Body), "nginx")

		_, err := p.Resolve(t.Context(), e.Operation.Seen, onceward.Executed, onceward.ResolveOptions{Answer: &onceward.Answer{Status: 200, Body: []byte(paid)}})
		require.NoError(t, err)
		out = p.ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.err)
		assert.Equal(t, paid, out.body)
		assert.Len(t, l.sent(), 1)
	})
}
