package onceward_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

func TestLookupFindsWhatAnSDKHides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(declined)
		p := start(t, l, onceward.Config{})
		out := p.ask(onceward.WithScope(named(t, "invoice-1/charge"), "tenant-42"))
		op, err := p.Lookup(t.Context(), onceward.Ref{Scope: "tenant-42", ID: "invoice-1/charge"})
		require.NoError(t, err)
		assert.Equal(t, onceward.Completed, op.State)
		assert.Equal(t, out.op.Key, op.Key)
		assert.Equal(t, "stripe", op.Provider)
		assert.Equal(t, 1, op.Attempts)
		require.NotNil(t, op.Answer)
		assert.Equal(t, 402, op.Answer.Status)
		assert.True(t, op.Answer.Refused)
		assert.Equal(t, out.body, string(op.Answer.Body))

		_, err = p.Lookup(t.Context(), onceward.Ref{ID: "invoice-1/charge"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
}

func TestOperationsListsByStateAndScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(says(200, paid), frozen, wrongKey, limited)
		p := start(t, l, onceward.Config{Backoff: once})
		for i, scope := range []string{"a", "b", "a", "b"} {
			p.ask(onceward.WithScope(named(t, fmt.Sprint("invoice-", i)), scope))
			pass(time.Millisecond)
		}
		a := "a"
		for _, row := range []struct {
			filter onceward.Filter
			want   []string
		}{
			{onceward.Filter{}, []string{"invoice-0", "invoice-1", "invoice-2", "invoice-3"}},
			{onceward.Filter{Limit: 2}, []string{"invoice-0", "invoice-1"}},
			{onceward.Filter{Scope: &a}, []string{"invoice-0", "invoice-2"}},
			{onceward.Filter{States: []onceward.State{onceward.Unknown, onceward.Pending}}, []string{"invoice-1", "invoice-3"}},
			{onceward.Filter{States: []onceward.State{onceward.Cancelled}, Scope: &a}, []string{"invoice-2"}},
		} {
			var got []string
			for op, err := range p.Operations(t.Context(), row.filter) {
				require.NoError(t, err)
				got = append(got, op.ID)
			}
			assert.Equal(t, row.want, got)
		}
		p.crash()
		errs := 0
		for _, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.Error(t, err)
			errs++
		}
		assert.Equal(t, 1, errs, "it ends after an error")
	})
}

func TestResolve(t *testing.T) {
	ref := onceward.Ref{ID: "invoice-1/charge"}
	unknown := func(t *testing.T) (*process, *line) {
		l := (&line{}).then(frozen)
		p := start(t, l, onceward.Config{})
		require.Equal(t, onceward.Unknown, p.ask(named(t, ref.ID)).op.State)
		return p, l
	}
	virtual(t, "executed, with its answer: that is replayed", func(t *testing.T) {
		p, l := unknown(t)
		op, err := p.resolve(ref, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		assert.Equal(t, onceward.Completed, op.State)
		out := p.ask(named(t, ref.ID))
		require.NoError(t, out.err)
		assert.Equal(t, paid, out.body)
		assert.True(t, out.op.Answer.ByHand)
		assert.Len(t, l.sent(), 1)
	})
	virtual(t, "executed, without an answer: it is not executed again", func(t *testing.T) {
		p, l := unknown(t)
		_, err := p.resolve(ref, onceward.Executed, nil)
		require.NoError(t, err)
		require.ErrorIs(t, p.ask(named(t, ref.ID)).err, onceward.ErrAnswerGone)
		assert.Len(t, l.sent(), 1)
	})
	virtual(t, "not executed: cancelled, and the next ask is the next generation", func(t *testing.T) {
		p, l := unknown(t)
		op, err := p.resolve(ref, onceward.NotExecuted, nil)
		require.NoError(t, err)
		assert.Equal(t, onceward.Cancelled, op.State)
		out := p.ask(named(t, ref.ID))
		require.NoError(t, out.err)
		assert.Equal(t, 1, out.op.Generation)
		assert.NotEqual(t, l.keys()[0], l.keys()[1])
	})
	virtual(t, "to be sent again: Resume sends the next generation with a new key", func(t *testing.T) {
		p, l := unknown(t)
		op, err := p.resolve(ref, onceward.SendAgain, nil)
		require.NoError(t, err)
		assert.Equal(t, onceward.Pending, op.State)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		require.Len(t, l.sent(), 2)
		assert.NotEqual(t, l.keys()[0], l.keys()[1])
		assert.Equal(t, l.sent()[0].Body, l.sent()[1].Body)
		out := p.ask(named(t, ref.ID))
		require.NoError(t, out.err)
		assert.Equal(t, 1, out.op.Generation)
		assert.Equal(t, l.keys()[1], string(out.op.Key))
	})
	virtual(t, "what is settled stays as it is", func(t *testing.T) {
		l := (&line{}).then(says(200, paid), wrongKey)
		p := start(t, l, onceward.Config{})
		for _, id := range []string{"completed", "cancelled"} {
			before := p.ask(named(t, id)).op.State
			for _, r := range []onceward.Resolution{onceward.Executed, onceward.NotExecuted, onceward.SendAgain} {
				_, err := p.resolve(onceward.Ref{ID: id}, r, nil)
				require.ErrorIs(t, err, journal.ErrInvalidEvent)
			}
			assert.Equal(t, before, p.recorded(onceward.Ref{ID: id}).State)
		}
	})
	virtual(t, "what is being sent is not touched", func(t *testing.T) {
		l := (&line{}).then(takes(time.Minute, says(200, paid)))
		p := start(t, l, onceward.Config{})
		done := make(chan outcome, 1)
		go func() { done <- p.ask(named(t, ref.ID)) }()
		synctest.Wait()
		_, err := p.resolve(ref, onceward.NotExecuted, nil)
		var e *onceward.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, e, onceward.ErrInFlight)
		_, err = p.resolve(onceward.Ref{ID: "nobody"}, onceward.Executed, nil)
		require.ErrorIs(t, err, journal.ErrNotFound)
		require.NoError(t, (<-done).err)
	})
}

// A late answer of an earlier claim counts; of an earlier generation, it shows a
// second effect.
func TestALateAnswer(t *testing.T) {
	for _, row := range []struct {
		name     string
		meantime func(t *testing.T, p *process)
		state    onceward.State
		second   bool
		conflict int
	}{
		{"while it is pending completes it", func(t *testing.T, p *process) {
			report, err := p.Resume(t.Context()) // without the provider: nobody's
			require.NoError(t, err)
			require.Equal(t, 1, report.PassedOver)
		}, onceward.Completed, false, 0},
		{"of what somebody called not executed, and nobody asked for since, completes it", func(t *testing.T, p *process) {
			_, err := p.resolve(onceward.Ref{ID: "invoice-1/charge"}, onceward.NotExecuted, nil)
			require.NoError(t, err)
		}, onceward.Completed, false, 0},
		{"beside the next generation's is reported as a second effect", func(t *testing.T, p *process) {
			_, err := p.resolve(onceward.Ref{ID: "invoice-1/charge"}, onceward.NotExecuted, nil)
			require.NoError(t, err)
			other := start(t, (&line{}).always(says(200, paid)), onceward.Config{Journal: p.journal.Journal})
			require.NoError(t, other.ask(named(t, "invoice-1/charge")).err)
		}, onceward.Completed, true, 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(takes(20*time.Second, says(201, `{"id":"late"}`)))
			conflicts := 0
			slow := start(t, l, onceward.Config{Trace: &onceward.Trace{
				Conflicted: func(_ onceward.Operation, status int, second bool) {
					conflicts++
					assert.Equal(t, 201, status)
					assert.Equal(t, row.second, second)
				},
			}})
			caller := make(chan outcome, 1)
			go func() { caller <- slow.ask(named(t, "invoice-1/charge")) }()
			synctest.Wait()
			// It is taken for dead while it is only slow.
			require.NoError(t, slow.journal.Sessions()[0].End(t.Context()))
			other := start(t, l, onceward.Config{Journal: slow.journal.Journal, Providers: []providers.Provider{own()}})
			row.meantime(t, other)
			out := <-caller
			require.NoError(t, out.err)
			assert.Equal(t, row.conflict, conflicts)
			assert.Equal(t, row.state, slow.recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
			if row.second {
				assert.Equal(t, paid, out.body, "the recorded answer is handed over")
				assert.Equal(t, 1, slow.recorded(onceward.Ref{ID: "invoice-1/charge"}).SecondEffects)
			} else {
				assert.Equal(t, `{"id":"late"}`, out.body)
			}
		})
	}
}

func TestAnErrorSaysWhatToKnowAndNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Backoff: once})
		out := p.ask(named(t, "invoice-1/charge"), to(http.MethodPost, chargeURL+"?api_key=s3cr3t&page=p4ge"))
		var e *onceward.Error
		require.ErrorAs(t, out.err, &e)
		assert.Equal(t, onceward.ErrPending, e.Kind)
		require.ErrorIs(t, e, errReset)
		for _, part := range []string{"POST https://api.stripe.com/v1/charges", "invoice-1/charge", "attempts so far: 1", e.Operation.DueAt.Format(time.RFC3339)} {
			assert.Contains(t, e.Error(), part)
		}
		for _, secret := range []string{"s3cr3t", "p4ge", chargeForm, string(e.Operation.Key)} {
			assert.NotContains(t, e.Error(), secret)
		}
		unnamed := (&line{}).then(loses())
		out = start(t, unnamed, onceward.Config{Backoff: once}).ask(t.Context())
		require.ErrorAs(t, out.err, &e)
		assert.NotContains(t, e.Error(), unnamed.keys()[0], "a key is shortened")
		assert.Contains(t, e.Error(), unnamed.keys()[0][:8])
		assert.False(t, errors.Is(out.err, onceward.ErrPending))
	})
}
