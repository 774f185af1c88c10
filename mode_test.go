package onceward_test

import (
	"errors"
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

// modes is Stripe, whose credentials show what they are for.
func modes() []providers.Provider {
	p := providers.Stripe()
	p.CredentialModes = []providers.CredentialMode{{Prefix: "sk_test_", Mode: "test"}, {Prefix: "sk_live_", Mode: "live"}}
	return []providers.Provider{p}
}

func bearer(credential string) option { return with("Authorization", "Bearer "+credential) }

func user(credential string) option {
	return func(r *http.Request) { r.SetBasicAuth(credential, "") }
}

func TestALiveChargeIsNotAnsweredByATestsNorATestsSentLive(t *testing.T) {
	each(t, "asked with another mode: nothing is sent, and nothing told", func(t *testing.T, j journal.Journal) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		for _, ctx := range []struct {
			name    string
			options []option
		}{{name: "invoice-1"}, {options: []option{carrying("k-1")}}} {
			c := t.Context()
			if ctx.name != "" {
				c = named(t, ctx.name)
			}
			before := len(l.sent())
			require.NoError(t, p.ask(c, append(ctx.options, bearer("sk_test_1"))...).err)
			for _, live := range []option{bearer("sk_live_1"), user("sk_live_1")} {
				out := p.ask(c, append(ctx.options, live)...)
				require.ErrorIs(t, out.err, onceward.ErrKeyReused)
				var e *onceward.Error
				require.True(t, errors.As(out.err, &e))
				assert.Equal(t, []string{"mode"}, e.Differs)
				assert.Nil(t, e.Operation.Answer)
				assert.NotContains(t, out.err.Error(), "sk_")
			}
			for _, same := range []option{user("sk_test_2"), bearer("unmarked"), func(*http.Request) {}} {
				out := p.ask(c, append(ctx.options, same)...)
				require.NoError(t, out.err, "the same mode, or one that can't be told")
				assert.True(t, out.op.Replayed)
			}
			assert.Len(t, l.sent(), before+1)
		}
	})

	each(t, "by Authorize", func(t *testing.T, j journal.Journal) {
		l := &line{}
		as := func(credential string) *process {
			return start(t, l, onceward.Config{Journal: j, Providers: modes(), Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+credential)
				return nil
			}})
		}
		require.NoError(t, as("sk_test_1").ask(named(t, "invoice-1")).err)
		require.ErrorIs(t, as("sk_live_1").ask(named(t, "invoice-1")).err, onceward.ErrKeyReused)
		assert.Len(t, l.sent(), 1)
	})

	each(t, "a pending one is not sent in the other mode", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Backoff: once})
		out := p.ask(named(t, "invoice-1"), bearer("sk_test_1"))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		pass(time.Until(out.op.DueAt))
		require.ErrorIs(t, p.ask(named(t, "invoice-1"), bearer("sk_live_1")).err, onceward.ErrKeyReused)
		require.NoError(t, p.ask(named(t, "invoice-1"), bearer("sk_test_1")).err)
		assert.Len(t, l.sent(), 2)
	})

	each(t, "what is being sent under a test's credential is nobody's live answer", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		first := make(chan outcome, 1)
		go func() { first <- p.ask(named(t, "invoice-1"), bearer("sk_test_1")) }()
		synctest.Wait()
		require.ErrorIs(t, p.ask(named(t, "invoice-1"), bearer("sk_live_1")).err, onceward.ErrKeyReused)
		require.NoError(t, (<-first).err)
	})

	each(t, "a cancelled name may be taken", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(wrongKey)
		p := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		p.ask(named(t, "invoice-1"), bearer("sk_test_1"))
		require.Equal(t, onceward.Cancelled, p.recorded(onceward.Ref{ID: "invoice-1"}).State)
		require.NoError(t, p.ask(named(t, "invoice-1"), bearer("sk_live_1")).err)
		require.ErrorIs(t, p.ask(named(t, "invoice-1"), bearer("sk_test_1")).err, onceward.ErrKeyReused, "it is live now")
		assert.Len(t, l.sent(), 2)
	})

	each(t, "no more than the mode is recorded", func(t *testing.T, j journal.Journal) {
		p := start(t, &line{}, onceward.Config{Journal: j, Providers: modes()})
		require.NoError(t, p.ask(named(t, "invoice-1"), bearer("sk_test_1")).err)
		op := p.recorded(onceward.Ref{ID: "invoice-1"})
		assert.Equal(t, "test", op.Mode)
		assert.Empty(t, op.Credential)
	})
}

func TestAnAuthorizeThatHangsBeforeTheOperationIsBegunHasTheAttemptsTime(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, hangs := &line{}, true
		p := start(t, l, onceward.Config{Providers: modes(), AttemptTimeout: 5 * time.Second, Authorize: func(r *http.Request) error {
			if hangs {
				hangs = false
				<-r.Context().Done()
				return r.Context().Err()
			}
			return nil
		}})
		began := time.Now()
		require.NoError(t, p.ask(named(t, "invoice-1")).err)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Len(t, l.sent(), 1)
	})
}
