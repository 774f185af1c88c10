package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestResolveSettlesOnlyTheSeenClaim(t *testing.T) {
	t.Parallel()
	ref := onceward.Ref{ID: "invoice-1/charge"}
	how := onceward.ResolveOptions{By: "ada", Why: "looked at the dashboard"}

	each(t, "evidence of one generation says nothing of the next", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen, frozen)
		p := start(t, l, onceward.Config{Journal: j})
		require.Equal(t, onceward.StateUnknown, p.Ask(named(t, ref.ID)).Op.State)
		seen := p.LookedAt(ref)
		_, err := p.Resolve(t.Context(), seen, onceward.NotExecuted, how)
		require.NoError(t, err)
		require.Equal(t, onceward.StateUnknown, p.Ask(named(t, ref.ID)).Op.State)

		for _, resolution := range []onceward.Resolution{onceward.Executed, onceward.NotExecuted, onceward.SendAgain, onceward.Hold, journal.Reinstate} {
			op, err := p.Resolve(t.Context(), seen, resolution, how)
			require.ErrorIs(t, err, onceward.ErrMoved, resolution.String())
			var e *onceward.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 1, e.Operation.Generation, "it says where it stands")
			assert.Equal(t, op.Seen, e.Operation.Seen)
			assert.ErrorContains(t, err, "the decision was made on generation 0, claim 1")
		}
		assert.Equal(t, onceward.StateUnknown, p.Recorded(ref).State)
	})

	each(t, "two operators with the same evidence make no second effect", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen)
		p := start(t, l, onceward.Config{Journal: j})
		require.Equal(t, onceward.StateUnknown, p.Ask(named(t, ref.ID)).Op.State)
		seen := p.LookedAt(ref)
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
		assert.Len(t, l.Sent(), 2)
	})

	each(t, "an attempt since then has no evidence, unless it is known as executed", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.Ask(named(t, ref.ID))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		pass(time.Until(out.Op.DueAt))
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, l.Sent(), 2)
		for _, resolution := range []onceward.Resolution{onceward.NotExecuted, onceward.SendAgain, onceward.Hold} {
			_, err = p.Resolve(t.Context(), out.Op.Seen, resolution, how)
			require.ErrorIs(t, err, onceward.ErrMoved, resolution.String())
		}
		op, err := p.Resolve(t.Context(), out.Op.Seen, onceward.Executed, how)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
	})

	each(t, "a pending one on hold is not sent until it is released", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.Ask(named(t, ref.ID))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		op, err := p.Resolve(t.Context(), out.Op.Seen, onceward.Hold, how)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, op.State)
		pass(time.Hour)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, p.Ask(named(t, ref.ID)).Err, onceward.ErrOutcomeUnknown)
		require.Len(t, l.Sent(), 1)

		op, err = p.Reinstate(t.Context(), ref, how)
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, op.State)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Ask(named(t, ref.ID)).Err)
		assert.Len(t, l.Sent(), 2)
		_, err = p.Reinstate(t.Context(), ref, how)
		require.ErrorIs(t, err, journal.ErrInvalidEvent, "it is not on hold")
	})

	each(t, "the operator and the reason are kept, without a possible credential", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen)
		p := start(t, l, onceward.Config{Journal: j})
		out := p.Ask(named(t, ref.ID))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		at := time.Now()
		_, err := p.Resolve(t.Context(), out.Op.Seen, onceward.Executed, onceward.ResolveOptions{
			By: "ada", Why: "GET https://api.stripe.com/v1/charges?api_key=s3cr3t shows it",
		})
		require.NoError(t, err)
		want := &onceward.Resolved{
			Resolution: onceward.Executed, By: "ada", Why: "GET https://api.stripe.com/v1/charges?… shows it",
			At: at.UTC().Truncate(time.Millisecond), Generation: 0, Claim: 1,
		}
		op, err := p.Operation(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, want, op.Resolved)
		for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, want, op.Resolved)
		}
	})
}

// The error prints Resolve's arguments.
func TestErrorPrintsTheArgumentsOfResolve(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.Ask(onceward.WithScope(named(t, "invoice-1/charge"), "tenant-42"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.ErrorContains(t, out.Err, "(invoice-1/charge, scope tenant-42, generation 0, claim 1)")
		seen := onceward.Seen{Ref: onceward.Ref{Scope: "tenant-42", ID: "invoice-1/charge"}, Generation: 0, Claim: 1}
		assert.Equal(t, seen, out.Op.Seen)
		_, err := p.Resolve(t.Context(), seen, onceward.NotExecuted, onceward.ResolveOptions{})
		require.NoError(t, err)
	})
}

// page is an answer from something in front of the provider.
var page = says(200, "<html>Welcome to nginx!</html>", "Content-Type", "text/html")

func TestResolveSuppliesAnAnswerThatIsMissing(t *testing.T) {
	t.Parallel()
	ref := onceward.Ref{ID: "invoice-1/charge"}
	known := onceward.ResolveOptions{By: "ada", Why: "GET /v1/charges/ch_1", Answer: &onceward.Answer{Status: 200, Body: []byte(paid)}}

	for name, row := range map[string]struct {
		first reply
		cfg   onceward.Config
		given bool // a person resolved it as executed, without an answer
	}{
		"one that was too large":   {first: says(200, `{"id":"ch_1","description":"long"}`), cfg: onceward.Config{MaxResponseBody: 16}},
		"one that was cut off":     {first: cuts(200, paid)},
		"one that was never given": {first: frozen, given: true},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			row.cfg.Journal, row.cfg.Backoff = j, once
			row.cfg.Providers = []providers.Provider{own(func(e *providers.Endpoint) { e.Remembers = providers.Successes })}
			l := (&line{}).Then(row.first)
			p := start(t, l, row.cfg)
			ask := func() outcome { return p.Ask(named(t, ref.ID), to("POST", ownURL)) }
			ask()
			if row.given {
				_, err := p.ResolveAs(ref, onceward.Executed, nil)
				require.NoError(t, err)
			}
			require.Equal(t, onceward.StateCompleted, p.Recorded(ref).State)
			op, err := p.Resolve(t.Context(), p.LookedAt(ref), onceward.Executed, known)
			require.NoError(t, err)
			assert.Equal(t, "ada", op.Resolved.By)
			out := ask()
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)
			assert.True(t, out.Op.Answer.ByHand)
			assert.Equal(t, "by hand", out.Header.Get("Onceward-Answer"))
			_, err = p.Resolve(t.Context(), p.LookedAt(ref), onceward.Executed, known)
			require.ErrorIs(t, err, journal.ErrInvalidEvent, "once")
			assert.Len(t, l.Sent(), 1)
		})
	}

	each(t, "one that the provider's table knows stands", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(says(200, paid))
		p := start(t, l, onceward.Config{Journal: j})
		require.NoError(t, p.Ask(named(t, ref.ID)).Err)
		_, err := p.Resolve(t.Context(), p.LookedAt(ref), onceward.Executed, onceward.ResolveOptions{Answer: &onceward.Answer{Status: 200, Body: []byte("{}")}})
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
		out := p.Ask(named(t, ref.ID))
		assert.Equal(t, paid, out.Body)
		assert.Empty(t, out.Header.Get("Onceward-Answer"))
	})

	each(t, "a refusal stands", func(t *testing.T, j machine.Store) {
		p := start(t, (&line{}).Then(declined), onceward.Config{Journal: j})
		require.NoError(t, p.Ask(named(t, ref.ID)).Err)
		_, err := p.Resolve(t.Context(), p.LookedAt(ref), onceward.Executed, known)
		require.ErrorIs(t, err, journal.ErrInvalidEvent)
	})

	each(t, "a gateway's page is replaced, both are kept, and a replay is marked", func(t *testing.T, j machine.Store) {
		before, now := providers.Stripe(), providers.Stripe()
		before.Answers = nil // before the table could tell
		now.Answers = []string{"application/json"}
		l := (&line{}).Then(page)
		p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{before}})
		require.NoError(t, p.Ask(named(t, ref.ID)).Err)
		_, err := p.Resolve(t.Context(), p.LookedAt(ref), onceward.Executed, known)
		require.ErrorIs(t, err, journal.ErrInvalidEvent, "to a table that takes it for the provider's, it is one")
		p.Crash()

		p = start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{now}})
		op, err := p.Resolve(t.Context(), p.LookedAt(ref), onceward.Executed, known)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		out := p.Ask(named(t, ref.ID))
		require.NoError(t, out.Err)
		assert.Equal(t, paid, out.Body)
		assert.Equal(t, "by hand", out.Header.Get("Onceward-Answer"))
		require.NotNil(t, out.Op.Answer.Replaced)
		assert.Contains(t, string(p.Recorded(ref).Answer.Replaced.Body), "nginx")
		assert.Len(t, l.Sent(), 1)
	})
}

// A foreign server's success is unknown until an operator supplies the answer.
func TestForeignSuccessIsUnknown(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		stripe := providers.Stripe()
		stripe.Answers = []string{"application/json"}
		l := (&line{}).Then(page)
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{stripe}})
		out := p.Ask(named(t, "invoice-1/charge"))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		var e *onceward.Error
		require.True(t, errors.As(out.Err, &e))
		require.NotNil(t, e.Response)
		assert.Contains(t, string(e.Response.Body), "nginx")

		_, err := p.Resolve(t.Context(), e.Operation.Seen, onceward.Executed, onceward.ResolveOptions{Answer: &onceward.Answer{Status: 200, Body: []byte(paid)}})
		require.NoError(t, err)
		out = p.Ask(named(t, "invoice-1/charge"))
		require.NoError(t, out.Err)
		assert.Equal(t, paid, out.Body)
		assert.Len(t, l.Sent(), 1)
	})
}

// Only the operation's own table decides whether an answer is the provider's, and not another table that lists the host
// now.
func TestResolveUnderAnotherTable(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(says(200, "<html>nginx</html>", "Content-Type", "text/html"))
		was := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
		require.NoError(t, was.Ask(named(t, invoice), to("POST", ownURL)).Err)
		for _, row := range []struct {
			name   string
			stands bool
		}{{"another", true}, {own().Name, false}} {
			api := own()
			api.Name, api.Answers = row.name, []string{"application/json"}
			now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{api}})
			_, err := now.ResolveAs(onceward.Ref{ID: invoice}, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
			if row.stands {
				require.ErrorIs(t, err, journal.ErrInvalidEvent)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, paid, string(now.Recorded(onceward.Ref{ID: invoice}).Answer.Body))
		}
	})
}

func TestResolve(t *testing.T) {
	ref := onceward.Ref{ID: "invoice-1/charge"}
	unknown := func(t *testing.T) (*process, *line) {
		l := (&line{}).Then(frozen)
		p := start(t, l, onceward.Config{})
		require.Equal(t, onceward.StateUnknown, p.Ask(named(t, ref.ID)).Op.State)
		return p, l
	}
	virtual(t, "executed, with its answer: that is replayed", func(t *testing.T) {
		p, l := unknown(t)
		op, err := p.ResolveAs(ref, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		out := p.Ask(named(t, ref.ID))
		require.NoError(t, out.Err)
		assert.Equal(t, paid, out.Body)
		assert.True(t, out.Op.Answer.ByHand)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "executed, without an answer: it is not executed again", func(t *testing.T) {
		p, l := unknown(t)
		_, err := p.ResolveAs(ref, onceward.Executed, nil)
		require.NoError(t, err)
		require.ErrorIs(t, p.Ask(named(t, ref.ID)).Err, onceward.ErrAnswerGone)
		assert.Len(t, l.Sent(), 1)
	})
	virtual(t, "not executed: cancelled, and the next ask is the next generation", func(t *testing.T) {
		p, l := unknown(t)
		op, err := p.ResolveAs(ref, onceward.NotExecuted, nil)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCancelled, op.State)
		out := p.Ask(named(t, ref.ID))
		require.NoError(t, out.Err)
		assert.Equal(t, 1, out.Op.Generation)
		assert.NotEqual(t, l.Keys()[0], l.Keys()[1])
	})
	virtual(t, "to be sent again: Resume sends the next generation with a new key", func(t *testing.T) {
		p, l := unknown(t)
		op, err := p.ResolveAs(ref, onceward.SendAgain, nil)
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, op.State)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		require.Len(t, l.Sent(), 2)
		assert.NotEqual(t, l.Keys()[0], l.Keys()[1])
		assert.Equal(t, l.Sent()[0].Body, l.Sent()[1].Body)
		out := p.Ask(named(t, ref.ID))
		require.NoError(t, out.Err)
		assert.Equal(t, 1, out.Op.Generation)
		assert.Equal(t, l.Keys()[1], string(out.Op.Key))
	})
	virtual(t, "a settled operation stays as it is", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), wrongKey)
		p := start(t, l, onceward.Config{})
		for _, id := range []string{"completed", "cancelled"} {
			before := p.Ask(named(t, id)).Op.State
			for _, r := range []onceward.Resolution{onceward.Executed, onceward.NotExecuted, onceward.SendAgain} {
				if r == onceward.Executed && before == onceward.StateCancelled {
					continue
				}
				_, err := p.ResolveAs(onceward.Ref{ID: id}, r, nil)
				require.ErrorIs(t, err, journal.ErrInvalidEvent)
			}
			assert.Equal(t, before, p.Recorded(onceward.Ref{ID: id}).State)
		}
	})
	virtual(t, "an operation that is being sent is not touched", func(t *testing.T) {
		l := (&line{}).Then(takes(time.Minute, says(200, paid)))
		p := start(t, l, onceward.Config{})
		done := make(chan outcome, 1)
		go func() { done <- p.Ask(named(t, ref.ID)) }()
		synctest.Wait()
		_, err := p.ResolveAs(ref, onceward.NotExecuted, nil)
		var e *onceward.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, e, onceward.ErrInFlight)
		_, err = p.ResolveAs(onceward.Ref{ID: "nobody"}, onceward.Executed, nil)
		require.ErrorIs(t, err, journal.ErrNotFound)
		require.NoError(t, (<-done).Err)
	})
}

// An operation that cannot be read is not resolved.
func TestResolveOfAnUnreadableOperation(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		p := start(t, (&line{}).Always(frozen), onceward.Config{Journal: j})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
		seen := p.LookedAt(onceward.Ref{ID: invoice})
		j.Unread = invoice
		_, err := p.Resolve(t.Context(), seen, onceward.Executed, onceward.ResolveOptions{})
		require.ErrorIs(t, err, errBlinded)
		j.Unread = ""
		assert.Equal(t, onceward.StateUnknown, p.Recorded(onceward.Ref{ID: invoice}).State)
	})
}

// An operator with proof that a cancelled operation took effect can keep it from being sent again.
func TestResolveExecutedOfCancelled(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		replies []reply
		said    bool // a person resolved it as not executed
	}{
		"by a person's decision": {[]reply{frozen}, true},
		"by a refusal":           {[]reply{wrongKey}, false},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			ref := onceward.Ref{ID: invoice}
			var told []onceward.State
			l := (&line{}).Then(row.replies...)
			p := start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
				told = append(told, op.State)
				return nil
			}}})
			p.Ask(named(t, invoice))
			seen := p.LookedAt(ref)
			if row.said {
				_, err := p.Resolve(t.Context(), seen, onceward.NotExecuted, onceward.ResolveOptions{By: "ada", Why: "not in the dashboard"})
				require.NoError(t, err)
			}
			require.Equal(t, onceward.StateCancelled, p.Recorded(ref).State)
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			told = nil
			op, err := p.Resolve(t.Context(), seen, onceward.Executed, onceward.ResolveOptions{
				By: "bob", Why: "their support found it", Answer: &onceward.Answer{Status: 200, Body: []byte(paid)},
			})
			require.NoError(t, err)
			assert.Equal(t, onceward.StateCompleted, op.State)
			assert.Equal(t, "bob", op.Resolved.By)
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []onceward.State{onceward.StateCompleted}, told, "who was told otherwise hears of it")
			out := p.Ask(named(t, invoice))
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// Run sends an operation at once that an operator sends again, and not in its next pass.
func TestResolveWakesRun(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(frozen)
		p := start(t, l, onceward.Config{})
		done := make(chan error, 1)
		go func() { done <- p.Run(context.Background()) }()
		pass(time.Hour + time.Second)
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
		pass(time.Minute)
		_, err := p.ResolveAs(onceward.Ref{ID: invoice}, onceward.SendAgain, nil)
		require.NoError(t, err)
		pass(100 * time.Millisecond)
		assert.Len(t, l.Sent(), 2)
		require.NoError(t, p.Shutdown(t.Context()))
		require.NoError(t, <-done)
	})
}

// Run sends an operation at once that an operator sends again, even if the operator's clock is hours ahead.
func TestSentAgainByAClockAhead(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen)
		p := start(t, l, onceward.Config{Journal: j})
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(running) }()
		out := p.Ask(named(t, invoice))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		pass(time.Minute)
		ahead := start(t, l, onceward.Config{Journal: j})
		setClock(ahead.Client, func() time.Time { return time.Now().Add(5 * time.Hour) })
		_, err := ahead.Resolve(t.Context(), out.Op.Seen, onceward.SendAgain, onceward.ResolveOptions{})
		require.NoError(t, err)
		pass(time.Minute)
		assert.Len(t, l.Sent(), 2)
		stop()
		<-done
	})
}

func TestResolveReturnsTheOperation(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := start(t, (&line{}).Always(frozen), onceward.Config{Journal: j})
		require.Error(t, p.Ask(named(t, invoice)).Err)
		op, err := p.ResolveAs(onceward.Ref{ID: invoice}, onceward.NotExecuted, nil)
		require.NoError(t, err)
		assert.Equal(t, http.MethodPost, op.Method)
		assert.Equal(t, chargeURL, op.URL)
	})
}

// A resolution is about the generation that the operator saw. A later generation's object is looked up as usual.
func TestLookupAfterAResend(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Journal: onDisk(t)})
		l.Box.Script(providertest.DropBefore(), providertest.DropAfter())
		out := l.Asks("invoice-1", "/transfers", order1)
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		_, err := l.ResolveAs(out.Op.Ref, onceward.SendAgain, nil)
		require.NoError(t, err)
		l.Runs(time.Minute)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State, op.Attention)
		assert.Equal(t, "transfer obj_1", op.Object)
		l.Truly()
	})
}

// An event that came while a dead process was sending the operation counts before an operator's decision.
func TestResolveAfterAWebhook(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		l := atBank(t, onceward.Config{Journal: j}, unlooked)
		l.Box.Script(providertest.DelayBefore(time.Hour))
		go func() { l.Pays("invoice-1") }()
		pass(time.Second)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now()))
		require.NoError(t, err)
		l.Crash()
		other := another(t, l.Box, onceward.Config{Journal: j})
		op, err := other.ResolveAs(onceward.Ref{ID: "invoice-1"}, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte("{}")})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment obj_1", op.Object)
		require.NotNil(t, op.Answer)
		assert.True(t, op.Answer.Found)
		assert.False(t, op.Answer.ByHand)
	})
}

// reaping is a journal that reaps everything that it may before it records a resolution.
type reaping struct{ machine.Store }

func (j reaping) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if ev.Kind == machine.EventResolve {
		if _, err := j.Reap(ctx, machine.Event{Kind: machine.EventReap, At: ev.At, Keep: time.Hour}, 10); err != nil {
			return machine.Result{}, err
		}
	}
	return j.Store.Apply(ctx, ev)
}

// A resolution for an operation that was reaped meanwhile does not create it again.
func TestResolveOfAReapedOperation(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		ref := onceward.Ref{ID: invoice}
		p := start(t, (&line{}).Then(wrongKey), onceward.Config{Journal: reaping{onDisk(t)}})
		require.Equal(t, http.StatusUnauthorized, p.Ask(named(t, invoice)).Status)
		require.Equal(t, journal.StateCancelled, p.Recorded(ref).State)
		p.PassInUse(50 * time.Hour)
		_, err := p.ResolveAs(ref, onceward.Executed, nil)
		require.Error(t, err)
		_, err = p.Operation(t.Context(), ref)
		require.ErrorIs(t, err, onceward.ErrNotFound)
	})
}

// A card number that an operator types into a reason is neither recorded nor logged.
func TestReasonWithACard(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var log bytes.Buffer
		p := start(t, (&line{}).Then(frozen), onceward.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ref := onceward.Ref{ID: "invoice-1/charge"}
		require.Equal(t, onceward.StateUnknown, p.Ask(named(t, ref.ID)).Op.State)
		_, err := p.Resolve(t.Context(), p.LookedAt(ref), onceward.NotExecuted, onceward.ResolveOptions{
			By: "ada", Why: "the holder of 4242 4242 4242 4242, cvc 937, says so; token sk_live_4eC39HqLyjWDarjtT1zdp7dc",
		})
		require.NoError(t, err)
		why := p.Recorded(ref).Resolved.Why
		assert.Contains(t, why, "says so")
		for _, secret := range []string{"4242", "937", "4eC39"} {
			assert.NotContains(t, why, secret)
			assert.NotContains(t, log.String(), secret)
		}
		assert.Contains(t, log.String(), "says so")
	})
}
