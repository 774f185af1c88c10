package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// An object proves one operation.
func TestRuleOneObject(t *testing.T) {
	virtual(t, "two similar operations, and one object: it settles neither", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		require.Error(t, l.Asks("invoice-2", "/transfers", order1).Err)
		l.Runs(time.Hour)
		for _, name := range []string{"invoice-1", "invoice-2"} {
			op := l.Stands(name)
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.NotEmpty(t, op.Attention)
		}
		assert.Len(t, l.Told(), 2)
	})
	virtual(t, "two similar operations, and two objects: a person decides", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter(), providertest.DropAfter())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		require.Error(t, l.Asks("invoice-2", "/transfers", order1).Err)
		l.Runs(time.Hour)
		for _, looked := range l.Told() {
			assert.ElementsMatch(t, []string{"transfer obj_1", "transfer obj_2"}, looked.Objects)
		}
		assert.Len(t, l.Told(), 2)
	})
	virtual(t, "the object of a recorded answer is that operation's", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		require.NoError(t, l.Asks("invoice-1", "/transfers", order1).Err)
		l.Box.Script(providertest.DropBefore())
		require.Error(t, l.Asks("invoice-2", "/transfers", order1).Err)
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-2").State)
		l.Truly()
	})
}

// A token that changes every hour belongs to the same account if the provider says so. Otherwise only the same
// credential proves it, except for a mark of our own.
func TestRuleAccount(t *testing.T) {
	t.Parallel()
	hourly := func(t *testing.T, adjust ...func(*providers.Provider)) (*teller, *string) {
		p := bank()
		for _, f := range adjust {
			f(&p)
		}
		srv := providertest.NewUnstartedServerInMemory(p, providertest.Objects("obj_"))
		srv.RetryAfter = -1
		srv.Account = func(r providertest.Request) string { return strings.Split(r.Header.Get("Authorization"), "/")[0] }
		srv.StartTLS()
		t.Cleanup(srv.Close)
		now := new("Bearer us/1")
		return another(t, srv, onceward.Config{Authorize: func(r *http.Request) error { r.Header.Set("Authorization", *now); return nil }}), now
	}
	virtual(t, "asked of the provider", func(t *testing.T) {
		l, now := hourly(t)
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		*now = "Bearer us/2"
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Truly()
	})
	silent := func(l *teller, is bool) {
		l.Fakes(func(r *http.Request) *http.Response {
			if is && r.URL.Path == "/me" {
				return answers(http.StatusServiceUnavailable, "{}")
			}
			return nil
		})
	}
	for _, row := range []struct {
		name         string
		sent, looked bool // when the token's account is not known
	}{
		{"requested from a provider that does not answer at the look-up", false, true},
		{"requested from a provider that did not answer at the attempt", true, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l, now := hourly(t)
			silent(l, row.sent)
			l.Box.Script(providertest.DropAfter())
			require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
			*now = "Bearer us/2"
			silent(l, row.looked)
			l.Runs(time.Hour)
			op := l.Stands("invoice-1")
			assert.Equal(t, onceward.StateUnknown, op.State)
			require.NotEmpty(t, op.Evidence)
			*now = "Bearer us/1"
			silent(l, row.sent)
			l.Runs(12 * time.Hour)
			assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
			l.Truly()
		})
	}
	anonymous := func(p *providers.Provider) { p.Identity = providers.Identity{} }
	virtual(t, "not to be asked, by the same token", func(t *testing.T) {
		l, _ := hourly(t, anonymous)
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Truly()
	})
	virtual(t, "not to be asked, by signatures with one key, and with another", func(t *testing.T) {
		l, now := hourly(t, anonymous)
		*now = "AWS4-HMAC-SHA256 Credential=AKIA1/20000101, SignedHeaders=host, Signature=1"
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		*now = "AWS4-HMAC-SHA256 Credential=AKIA2/20000101, SignedHeaders=host, Signature=2"
		l.Runs(5 * time.Minute)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		*now = "AWS4-HMAC-SHA256 Credential=AKIA1/20000102, SignedHeaders=host, Signature=3"
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Truly()
	})
	virtual(t, "not to be asked, by another token", func(t *testing.T) {
		l, now := hourly(t, anonymous)
		l.Box.Script(providertest.DropAfter(), providertest.DropAfter())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		require.Error(t, l.Pays("invoice-2").Err)
		*now = "Bearer us/2"
		l.Runs(time.Hour)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Contains(t, op.Evidence[0].Why, "not proven")
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-2").State, "its key is random")
		assert.NotContains(t, l.Box.Ledger(), "GET /transfers", "what would tell nothing is not read")
	})
	virtual(t, "not to be requested, by another token, of an object without a mark", func(t *testing.T) {
		l, now := hourly(t, anonymous, func(p *providers.Provider) {
			p.Endpoints[1].Key = providers.Key{Place: providers.KeyRawHeader, Name: "Idempotency-Key"}
		})
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		*now = "Bearer us/2"
		l.Runs(time.Hour)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State, "its key is random, and the look shows none")
		assert.Contains(t, latest(op).Why, "not proven")
	})
}

// Authorize can see that a request is a look-up, and for which operation.
func TestRuleAuthorizeSeesLookups(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		var looks []onceward.Ref
		l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
			if ref, is := onceward.LookOf(r.Context()); is && r.URL.Path == "/payments" && r.Method == http.MethodGet {
				looks = append(looks, ref)
			}
			r.Header.Set("Authorization", tellerToken)
			return nil
		}})
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Pays("invoice-1").Err)
		assert.Empty(t, looks)
		l.Runs(time.Minute)
		require.NotEmpty(t, looks)
		assert.Equal(t, "invoice-1", looks[0].ID)
	})
}

// A look-up of objects without a kind is refused, because objects count by kind and id.
func TestRuleKindOfObject(t *testing.T) {
	p := bank()
	p.Endpoints[0].Object = ""
	_, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{p}, Reconcile: plain()})
	require.ErrorContains(t, err, "Object")
}

// A recorded answer stands against evidence that contradicts it, and a person is notified.
func TestRuleContradiction(t *testing.T) {
	virtual(t, "refused, and took effect", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			p.Endpoints[0].Rules = []providers.Rule{{Status: 402, Verdict: providers.Final, Source: "made up"}}
			p.Endpoints[0].Reference = p.Endpoints[1].Reference // without it, or an object, a journal need not find the operation
			p.Endpoints[0].Reference.Fill = true
		})
		l.Box.Script(providertest.Status(402, nil))
		out := l.Pays("invoice-1")
		require.NoError(t, out.Err)
		require.Equal(t, 402, out.Status)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
		require.NoError(t, err)
		op := l.Stands("invoice-1")
		assert.Equal(t, 402, op.Answer.Status)
		assert.Contains(t, op.Attention, "refused, and took effect")
		assert.Contains(t, l.Log.String(), `level=ERROR msg="the finding contradicts the record"`)
		assert.NotContains(t, l.Log.String(), "twice")
		l.Runs(time.Minute)
		require.Len(t, l.Told(), 1)
		var dead []string
		for op, err := range l.Operations(t.Context(), onceward.Filter{NeedsAttention: true}) {
			require.NoError(t, err)
			dead = append(dead, op.ID)
		}
		assert.Equal(t, []string{"invoice-1"}, dead)
	})
}

// A refunded or secret object completes the operation, but is not its answer.
func TestRuleFreshAnswers(t *testing.T) {
	for _, row := range []struct {
		name   string
		adjust func(*providers.Provider)
		turn   providers.Outcome
		state  onceward.State
		kept   bool
		found  journal.Finding
	}{
		{"fresh", func(*providers.Provider) {}, providers.TookEffect, onceward.StateCompleted, true, journal.FindingTookEffect},
		{"refunded before it was looked for", func(*providers.Provider) {}, providers.Reversed, onceward.StateCompleted, false, journal.FindingReversed},
		{"refused", func(*providers.Provider) {}, providers.Refused, onceward.StateCompleted, false, journal.FindingRefused},
		{"in progress", func(*providers.Provider) {}, providers.InProgress, onceward.StateUnknown, false, journal.FindingInProgress},
		{"a secret", func(p *providers.Provider) {
			p.Endpoints[0].SecretResponse, p.Endpoints[0].Lookups[0].SameShape = true, false
		}, providers.TookEffect, onceward.StateCompleted, false, journal.FindingTookEffect},
		{"of another shape", func(p *providers.Provider) { p.Endpoints[0].Lookups[0].SameShape = false }, providers.TookEffect, onceward.StateCompleted, false, journal.FindingTookEffect},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, row.adjust)
			l.Box.Script(providertest.DropAfter())
			require.Error(t, l.Pays("invoice-1").Err)
			require.True(t, l.Box.Turn("obj_1", row.turn))
			l.Runs(5 * time.Minute)
			op := l.Stands("invoice-1")
			assert.Equal(t, row.state, op.State)
			require.NotEmpty(t, op.Evidence)
			assert.Equal(t, row.found, op.Evidence[len(op.Evidence)-1].Finding)
			if row.state != onceward.StateCompleted {
				return
			}
			assert.Equal(t, row.kept, len(op.Answer.Body) > 0)
			out := l.Pays("invoice-1")
			if row.kept {
				require.NoError(t, out.Err)
				return
			}
			require.ErrorIs(t, out.Err, onceward.ErrAnswerGone)
			assert.Equal(t, "obj_1", out.Op.Answer.Pointer)
		})
	}
}

// Many operations that became unknown at the same time share the lists that are read.
func TestTrapManyUnknowns(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		many := soak.Times(200, 1000)
		for i := range many {
			l.Box.Script(providertest.DropAfter())
			require.Error(t, l.Asks(fmt.Sprint("invoice-", i), "/transfers", fmt.Sprintf(`{"amount":%d,"external_id":"order-%d"}`, i, i)).Err)
		}
		sent := l.Box.Requests()
		l.Runs(time.Minute)
		for i := range many {
			require.Equal(t, onceward.StateCompleted, l.Stands(fmt.Sprint("invoice-", i)).State, i)
		}
		assert.Less(t, l.Box.Requests()-sent, 40, "a hundred objects a page, and no look-up for each")
		l.Truly()
	})
}

// A provider's look-ups share one budget, and no look-up is lost by it.
func TestLookupsKeepTheirBudget(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		r := plain()
		r.Budget.Capacity, r.Budget.ProbeEvery, r.Budget.PerSuccess = 2, 10*time.Second, 0.001
		l := atBank(t, onceward.Config{Reconcile: r})
		for i := range 20 {
			l.Box.Script(providertest.DropAfter())
			require.Error(t, l.Pays(fmt.Sprint("invoice-", i)).Err)
		}
		sent := l.Box.Requests()
		l.Runs(time.Minute)
		assert.Less(t, l.Box.Requests()-sent, 16)
		l.Runs(time.Hour)
		for i := range 20 {
			assert.Equal(t, onceward.StateCompleted, l.Stands(fmt.Sprint("invoice-", i)).State, i)
		}
		l.Truly()
	})
}

// Hints cause one look-up of an operation per minute at most.
func TestRuleHintsAreLimited(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropBefore())
		out := l.Pays("invoice-1")
		require.Error(t, out.Err)
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		go func() { _ = l.Run(ctx) }()
		for i := range 120 {
			time.Sleep(time.Second)
			e := l.Happened(fmt.Sprint("evt_", i), "payment.succeeded", out.Op.Key, "obj_1", time.Now())
			e.Evidence = false
			_, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
		}
		assert.LessOrEqual(t, l.Stands("invoice-1").Looks, 4)
	})
}

// Without Authorize nothing can be looked up in the background, and the operation says so. A caller brings the
// credential.
func TestRuleWithoutAuthorize(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		j := memory.New()
		cfg := onceward.Config{Journal: j, Providers: []providers.Provider{l.Box.Provider()}, Backoff: once, Reconcile: plain()}
		p := &teller{Process: oncetest.Start(t, l.Box.Client().Transport, cfg), Box: l.Box}
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, p.Pays("invoice-1", with("Authorization", tellerToken)).Err, onceward.ErrOutcomeUnknown)
		p.Runs(20 * time.Hour)
		assert.Empty(t, p.Stands("invoice-1").Attention)
		p.Runs(20 * time.Hour)
		op := p.Stands("invoice-1")
		require.Equal(t, onceward.StateUnknown, op.State)
		assert.Contains(t, op.Attention, "Config.Authorize")
		require.NoError(t, p.Pays("invoice-1", with("Authorization", tellerToken)).Err)
		assert.Equal(t, 1, l.Effects())
	})
}

// Config.Reconcile.Lookup may find an operation, and may say that it is absent.
func TestReconcileHook(t *testing.T) {
	for _, row := range []struct {
		name  string
		found onceward.Finding
		err   error
		state onceward.State
	}{
		{"finds it", onceward.Finding{Found: journal.FindingTookEffect, Object: "payment obj_1"}, nil, onceward.StateCompleted},
		{"names no object", onceward.Finding{Found: journal.FindingTookEffect}, nil, onceward.StateUnknown},
		{"can't tell", onceward.Finding{}, nil, onceward.StateUnknown},
		{"fails", onceward.Finding{}, errors.New("no"), onceward.StateUnknown},
		{"asserts that it was not executed", onceward.Finding{Found: journal.FindingAbsent, Why: "support says so"}, nil, onceward.StateCancelled},
	} {
		virtual(t, row.name, func(t *testing.T) {
			r := plain()
			r.Lookup = func(_ context.Context, op onceward.Operation) (onceward.Finding, error) {
				assert.Equal(t, "invoice-1", op.ID)
				return row.found, row.err
			}
			l := atBank(t, onceward.Config{Reconcile: r}, unlooked)
			l.Box.Script(providertest.DropBefore())
			require.Error(t, l.Pays("invoice-1").Err)
			l.Runs(30 * time.Minute)
			op := l.Stands("invoice-1")
			assert.Equal(t, row.state, op.State)
			if row.state == onceward.StateCancelled {
				assert.Equal(t, "Config.Reconcile.Lookup", op.Resolved.By)
				return
			}
			assert.Equal(t, journal.SourceHook, op.Evidence[0].Source)
		})
	}
	virtual(t, "panics", func(t *testing.T) {
		r := plain()
		r.Lookup = func(context.Context, onceward.Operation) (onceward.Finding, error) { panic("oh") }
		l := atBank(t, onceward.Config{Reconcile: r}, unlooked)
		l.Box.Script(providertest.DropBefore())
		require.Error(t, l.Pays("invoice-1").Err)
		l.Runs(time.Minute)
		assert.Contains(t, l.Stands("invoice-1").Evidence[0].Why, "panicked")
	})
}

// Config.Reconcile.Lookup frees no operation in a restored journal. Another attempt, which the journal lacks, may still
// take effect.
func TestReconcileHookAfterARestore(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		dir := t.TempDir()
		j := openSQLite(t, filepath.Join(dir, "a.db"))
		was := atBank(t, onceward.Config{Journal: j, Reconcile: plain()}, unlooked)
		was.Box.Script(providertest.DropBefore(), providertest.Straggle(2*time.Hour))
		require.ErrorIs(t, was.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, j.Backup(t.Context(), filepath.Join(dir, "b.db")))
		_, err := was.ResolveAs(onceward.Ref{ID: "invoice-1"}, onceward.NotExecuted, nil)
		require.NoError(t, err)
		require.ErrorIs(t, was.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, was.Shutdown(t.Context()))

		restored := openSQLite(t, filepath.Join(dir, "b.db"))
		require.NoError(t, restored.Adopt(t.Context()))
		is := another(t, was.Box, onceward.Config{Journal: restored, Reconcile: saysAbsent()})
		is.Runs(90 * time.Minute)
		assert.Equal(t, onceward.StateUnknown, is.Stands("invoice-1").State)
		assert.Contains(t, latest(is.Stands("invoice-1")).Why, "the journal was restored")
		require.ErrorIs(t, is.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		is.Runs(time.Hour)
		assert.Equal(t, 1, is.Effects())
	})
}

// Config.Reconcile.Lookup frees no operation that was sent, or is looked for, by a wrong clock: the provider may still be
// at work.
func TestReconcileHookUnderAWrongClock(t *testing.T) {
	for name, clock := range map[string]struct{ sends, looks time.Duration }{
		"behind when it is sent":       {-2 * time.Hour, 0},
		"ahead when it is sent":        {2 * time.Hour, 0},
		"behind when it is looked for": {0, -2 * time.Hour},
		"ahead when it is looked for":  {0, 30 * time.Hour},
	} {
		virtual(t, name, func(t *testing.T) {
			var off time.Duration
			l := atBank(t, onceward.Config{Reconcile: saysAbsent()}, unlooked)
			setClock(l.Client, func() time.Time { return time.Now().Add(off) })
			require.NoError(t, l.Pays("control").Err)
			off = clock.sends
			l.Box.Script(providertest.Straggle(20 * time.Minute))
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			off = clock.looks
			for range 3 {
				_, _ = l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
				pass(2 * time.Minute)
			}
			assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
			require.Error(t, l.Pays("invoice-1").Err)
			pass(time.Hour)
			assert.Equal(t, 2, l.Effects())
		})
	}
}

// No output of a look-up has a part of a key, a query or a body.
func TestTrapSecretsOfLookups(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter(), providertest.DropBefore())
		out := l.Pays("invoice-1")
		require.Error(t, out.Err)
		require.Error(t, l.Asks("invoice-2", "/transfers", `{"amount":4711,"external_id":"s3cret"}`).Err)
		l.Runs(9 * 24 * time.Hour)
		for _, written := range []string{l.Log.String(), fmt.Sprintf("%+v", l.Seen), fmt.Sprintf("%+v", l.Told()), fmt.Sprintf("%+v", l.Stands("invoice-2").Evidence)} {
			for _, secret := range []string{string(out.Op.Key), "t0ken", "4711", "s3cret", "key=", "from="} {
				assert.NotContains(t, written, secret)
			}
		}
	})
}

// absentAndWithdrawn returns a bank where invoice-1 is withdrawn and never took effect. The
// program's own look-up says that it is absent, and it is cancelled.
func absentAndWithdrawn(t *testing.T, cfg onceward.Config) *teller {
	t.Helper()
	cfg.Reconcile = saysAbsent()
	l := atBank(t, cfg)
	l.Box.Script(providertest.DropBefore())
	require.Error(t, l.Pays("invoice-1").Err)
	_, err := l.Withdraw(t.Context(), onceward.Ref{ID: "invoice-1"}, onceward.ResolveOptions{By: "ada"})
	require.NoError(t, err)
	l.Runs(3 * time.Hour)
	require.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State)
	return l
}

// A withdrawn operation is not sent, and Outcomes.Handle gets its outcome.
func TestWithdrawnOperationIsNotSent(t *testing.T) {
	ref := onceward.Ref{ID: "invoice-1"}
	virtual(t, "and took effect", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Pays("invoice-1").Err)
		op, err := l.Withdraw(t.Context(), ref, onceward.ResolveOptions{By: "ada", Why: "the order was cancelled", Answer: &onceward.Answer{Status: 200}})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, op.State)
		require.NotNil(t, op.Withdrawn)
		l.Runs(time.Minute)
		l.Mu.Lock()
		defer l.Mu.Unlock()
		require.Len(t, l.Settled, 1)
		assert.Equal(t, onceward.StateCompleted, l.Settled[0].State)
		assert.Equal(t, "ada", l.Settled[0].Withdrawn.By)
		assert.Equal(t, 1, l.Effects(), "nothing is reversed by itself")
	})
	virtual(t, "and is absent: not sent until it is reinstated", func(t *testing.T) {
		l := absentAndWithdrawn(t, onceward.Config{})
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrWithdrawn)
		assert.Zero(t, l.Effects())
		_, err := l.Reinstate(t.Context(), ref, onceward.ResolveOptions{By: "ada"})
		require.NoError(t, err)
		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 1, l.Effects())
	})
	virtual(t, "and is not sent once its record could go", func(t *testing.T) {
		l := absentAndWithdrawn(t, onceward.Config{Keep: time.Hour})
		pass(2 * machine.EvidenceKeep)
		l.Runs(2 * time.Hour)
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrWithdrawn)
		_, err := l.Reinstate(t.Context(), ref, onceward.ResolveOptions{By: "ada"})
		require.NoError(t, err)
		pass(2 * machine.EvidenceKeep)
		l.Runs(2 * time.Hour)
		_, err = l.Operation(t.Context(), ref)
		require.ErrorIs(t, err, onceward.ErrNotFound, "it is reaped as any other")
		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 1, l.Effects())
	})
	virtual(t, "and does not exist", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		_, err := l.Withdraw(t.Context(), ref, onceward.ResolveOptions{})
		require.ErrorIs(t, err, onceward.ErrNotFound)
	})
}

// A flow goes on by itself once its operation is found.
func TestRuleFlowsGoOn(t *testing.T) {
	goesOn := func(t *testing.T, asked bool) {
		l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box)
		ship := func(ctx context.Context, _ string) (string, error) {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Box.URL+"/payments", strings.NewReader(`{"amount":10}`))
				if err != nil {
					return "", err
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := l.HTTP.Do(req)
				if err != nil {
					return "", err
				}
				return "paid", resp.Body.Close()
			})
			return "shipped", err
		}
		runner := l.Flows
		shipping := flow.Define("ship", 1, ship)
		require.NoError(t, runner.Register(shipping))
		l.Box.Script(providertest.DropAfter())
		_, err := shipping.Run(t.Context(), runner, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		if asked {
			ended := make(chan error, 1)
			go func() { ended <- l.Run(context.Background()) }()
			oncetest.Pass(1234 * time.Millisecond)
			_, err := l.Reconcile(t.Context(), l.Charge().Ref)
			require.NoError(t, err)
			oncetest.Pass(20 * time.Millisecond)
			defer func() { require.NoError(t, <-ended) }()
			defer func() { require.NoError(t, l.Shutdown(t.Context())) }()
		} else {
			l.Runs(time.Minute)
		}
		f, err := runner.Flow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		assert.Equal(t, flow.StateFinished, f.State)
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	}
	virtual(t, "by a look-up of Run", func(t *testing.T) { goesOn(t, false) })
	virtual(t, "at once, by a caller's look-up", func(t *testing.T) { goesOn(t, true) })
}

// A flow's step sends an operation again that Reconcile.Lookup finds absent. An undo does not.
func TestRuleFlowsAndAbsence(t *testing.T) {
	t.Parallel()
	control := func(t *testing.T, l *teller, path string) {
		pass(3 * time.Minute)
		require.NoError(t, l.Asks("control", path, `{"amount":11,"external_id":"control"}`).Err)
	}
	virtual(t, "a step that goes forward", func(t *testing.T) {
		l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, onceward.Config{Reconcile: saysAbsent()})
		ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
			return flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", l.Posts(ctx, "/payments", `{"amount":10}`) })
		})
		require.NoError(t, l.Flows.Register(ship))
		l.Box.Script(providertest.DropBefore())
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		control(t, l, "/payments")
		l.Runs(3 * time.Hour)
		f, err := l.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		assert.Equal(t, flow.StateFinished, f.State)
		assert.Equal(t, 2, l.Effects())
		l.Truly()
	})
	virtual(t, "an undo", func(t *testing.T) {
		l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, onceward.Config{Reconcile: saysAbsent()})
		ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) { return "paid", l.Posts(ctx, "/payments", `{"amount":10}`) },
				flow.WithUndo(func(ctx context.Context, _ string) error {
					return l.Posts(ctx, "/transfers", `{"amount":10,"external_id":"back"}`)
				}))
			if err != nil {
				return "", err
			}
			return "", flow.GiveUp(errors.New("sold out"))
		})
		require.NoError(t, l.Flows.Register(ship))
		l.Box.Script(providertest.None(), providertest.DropBefore())
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.Error(t, err)
		control(t, l, "/transfers")
		l.Runs(6 * time.Hour)
		f, err := l.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		assert.NotEqual(t, flow.StateGivenUp, f.State)
		assert.Equal(t, 2, l.Effects(), "the charge and the control: the refund is not made again")
		for op, err := range l.Operations(t.Context(), onceward.Filter{States: []onceward.State{onceward.StateUnknown}}) {
			require.NoError(t, err)
			assert.Contains(t, latest(op).Why, "it undoes a step of a flow")
		}
	})
}

// cutsAt is a journal that calls after around each event, so that a test can cut its process off there.
type cutsAt struct {
	machine.Store
	machine.Reconciler
	machine.Flows
	after func(what string) error
}

func (j *cutsAt) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if err := j.after("before " + ev.Kind.String()); err != nil {
		return machine.Result{}, err
	}
	return j.Store.Apply(ctx, ev)
}

func (j *cutsAt) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	results, err := j.Store.Claim(ctx, ev, limit)
	if len(results) > 0 {
		_ = j.after("an offer")
	}
	return results, err
}

func (j *cutsAt) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	results, first, err := j.Reconciler.RecordEvent(ctx, heard, evs)
	_ = j.after("the evidence")
	return results, first, err
}

func (j *cutsAt) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if ev.Found {
		if err := j.after("before the flow is opened"); err != nil {
			return machine.FlowResult{}, err
		}
	}
	res, err := j.Flows.ApplyFlow(ctx, ev)
	if ev.Found {
		_ = j.after("the flow is opened")
	}
	return res, err
}

const opensLate = "nowhere, but the flow can't be opened at first, and Outcomes.Handle fails once"

// An operation in a flow that was given up took effect after it was proven absent. The flow undoes it once that is
// known, whenever its process is killed, and without a caller.
func TestRuleFlowsAreUndoneAgain(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"", opensLate, "the evidence", "an offer", "before the flow is opened", "the flow is opened", "before deliver"} {
		run := each
		if at != "the evidence" {
			run = func(t *testing.T, name string, f func(*testing.T, machine.Store)) {
				virtual(t, name, func(t *testing.T) { f(t, memory.New()) })
			}
		}
		run(t, "killed at: "+at, func(t *testing.T, j machine.Store) {
			var settled, refused, unopened atomic.Int64
			cfg := onceward.Config{Journal: j, Reconcile: saysAbsent(), Outcomes: &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
				if op.ID != "charge" || op.State != onceward.StateCompleted {
					return nil
				}
				if at == opensLate && refused.Add(1) == 1 {
					return errors.New("down")
				}
				settled.Add(1)
				return nil
			}}}
			if at == opensLate {
				cfg.Journal = &cutsAt{j, j.(machine.Reconciler), j.(machine.Flows), func(what string) error {
					if what == "before the flow is opened" && unopened.Add(1) == 1 {
						return errBlinded
					}
					return nil
				}}
			}
			l := tellerOfFlows(t, atBank(t, onceward.Config{}).Box, cfg)
			ship := charges(l)
			require.NoError(t, l.Flows.Register(ship))
			l.Box.Script(providertest.Straggle(12 * time.Hour))
			_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			_, err = l.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "the customer left")
			require.NoError(t, err)
			pass(3 * time.Minute)
			require.NoError(t, l.Asks("control", "/payments", `{"amount":11}`).Err)
			l.Runs(6 * time.Hour)
			require.Equal(t, flow.StateGivenUp, l.Order().State, "it is absent, and there is nothing to undo")
			pass(12 * time.Hour)
			require.Equal(t, 2, l.Effects())
			late := l.Box.Effects()[1]
			event := l.Happened("evt_1", "payment.succeeded", onceward.Key(late.Key), late.Object, late.At)

			if at == "" || at == opensLate {
				_, err = l.RecordEvent(t.Context(), "bank", event)
				require.NoError(t, err)
			} else {
				var killed *teller
				beside := cfg
				beside.Outcomes = &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }}
				beside.Journal = &cutsAt{j, j.(machine.Reconciler), j.(machine.Flows), func(what string) error {
					if what == at && killed != nil {
						killed.Crash()
						return killed.Journal.Alive()
					}
					return nil
				}}
				killed = tellerOfFlows(t, l.Box, beside)
				_, _ = killed.RecordEvent(t.Context(), "bank", event)
				killed.Runs(time.Minute)
				require.True(t, killed.Crashed())
			}
			require.Equal(t, onceward.StateCompleted, l.Charge().State)

			l.Runs(2 * time.Minute)
			assert.Equal(t, flow.StateGivenUp, l.Order().State, "its answer is looked up, and tells what undoes it")
			assert.EqualValues(t, 1, settled.Load(), "and it is offered")
			if at == opensLate {
				assert.EqualValues(t, 2, unopened.Load(), "until the flow is opened, and not again")
				assert.EqualValues(t, 2, refused.Load())
			}
			assert.Equal(t, 3, l.Effects(), "what took effect late was given back")
			claim := l.Order()
			l.Runs(time.Hour)
			assert.Equal(t, claim, l.Order(), "it is opened once")
		})
	}
}

// A flow was given up, and an operator decided that its operation had no effect. The late answer of its stopped process
// makes the flow undo the operation after all.
func TestRuleFlowsGetLateAnswers(t *testing.T) {
	for _, settles := range []bool{false, true} {
		virtual(t, fmt.Sprintf("Outcomes.Handle: %v", settles), func(t *testing.T) {
			j := memory.New()
			box := atBank(t, onceward.Config{}).Box
			cfg := onceward.Config{Journal: j}
			if settles {
				cfg.Outcomes = &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }}
			}
			stopped, l := tellerOfFlows(t, box, cfg), tellerOfFlows(t, box, cfg)
			require.NoError(t, l.Flows.Register(charges(l)))
			ship := charges(stopped)
			require.NoError(t, stopped.Flows.Register(ship))
			stopped.Fakes(func(r *http.Request) *http.Response {
				if r.Method != http.MethodPost {
					return nil
				}
				time.Sleep(time.Hour)
				return answers(http.StatusOK, `{"id":"obj_7"}`)
			})
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = ship.Run(context.Background(), stopped.Flows, "order-1", "x")
			}()
			time.Sleep(time.Minute)
			for _, s := range stopped.Journal.Sessions() {
				require.NoError(t, s.End(t.Context()))
			}
			_, err := l.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "the customer left")
			require.NoError(t, err)
			l.Runs(time.Minute)
			_, err = l.Resolve(t.Context(), l.Charge().Seen, onceward.NotExecuted, onceward.ResolveOptions{})
			require.NoError(t, err)
			l.Runs(2 * time.Minute)
			require.Equal(t, flow.StateGivenUp, l.Order().State)
			require.Zero(t, l.Effects())

			<-over
			require.Equal(t, onceward.StateCompleted, l.Charge().State)
			l.Runs(time.Minute)
			assert.Equal(t, flow.StateGivenUp, l.Order().State)
			assert.Equal(t, 1, l.Effects(), "it was given back")
		})
	}
}

// An event about the refund that undid the flow does not reopen it.
func TestRuleFlowsStayUndone(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := tellerOfFlows(t, atBank(t, onceward.Config{}, func(p *providers.Provider) {
			refunded := p.Events[0]
			refunded.Equals, refunded.Is = "payment.refunded", providers.Reversed
			p.Events = append(p.Events, refunded)
		}).Box)
		ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (string, error) {
			paid, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.Box.URL+"/payments", strings.NewReader(`{"amount":10}`))
				if err != nil {
					return "", err
				}
				resp, err := l.HTTP.Do(req)
				if err != nil {
					return "", err
				}
				return "paid", resp.Body.Close()
			}, flow.WithUndo(func(context.Context, string) error { return nil }))
			return paid, errors.Join(err, errors.New("no stock"))
		})
		require.NoError(t, l.Flows.Register(ship))
		_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
		require.ErrorContains(t, err, "no stock")
		_, err = l.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-1"}, "no stock")
		require.NoError(t, err)
		l.Runs(time.Minute)
		ended, err := l.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		require.Equal(t, flow.StateGivenUp, ended.State)

		paid := l.Box.Effects()[0]
		about, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.refunded", onceward.Key(paid.Key), paid.Object, paid.At))
		require.NoError(t, err)
		require.Len(t, about, 1)
		require.Len(t, about[0].Evidence, 1, "it is kept")
		again, err := l.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		assert.Equal(t, ended, again)
	})
}

// Processes that cannot look up an operation leave it to others for a day in all. It goes on over deploys, and stands still while
// no process runs.
func TestRuleLookupIsLeftToOtherProcesses(t *testing.T) {
	t.Parallel()
	withheld := with("Authorization", tellerToken)
	bare := func(*http.Request) error { return nil } // it has no credential to add
	other := func(p *providers.Provider) { *p = providers.Svix() }
	for name, row := range map[string]struct {
		authorize func(*http.Request) error
		table     func(*providers.Provider)
		within    time.Duration
	}{
		"without the credential": {bare, func(*providers.Provider) {}, 3 * time.Hour},
		"with an older table":    {nil, func(p *providers.Provider) { p.Endpoints[1].Lookups = nil }, 3 * time.Hour},
		"without its table":      {nil, other, 36 * time.Hour}, // a day after its look was due
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Asks("invoice-1", "/transfers", `{"amount":10,"external_id":"order-1"}`, withheld).Err, onceward.ErrOutcomeUnknown)
			l.Crash()
			begins := func() *teller {
				return another(t, l.Box, onceward.Config{Journal: l.Journal.Store, Authorize: row.authorize}, row.table)
			}
			var helpless *teller
			for _, runs := range []time.Duration{9 * time.Hour, 9 * time.Hour, 4 * time.Hour} { // a deploy each
				helpless = begins()
				helpless.Runs(runs)
				assert.Empty(t, helpless.Told())
				assert.Empty(t, helpless.Stands("invoice-1").Attention)
				require.NoError(t, helpless.Shutdown(t.Context()))
				if runs < 9*time.Hour {
					oncetest.Pass(40 * time.Hour) // nothing runs
				}
			}
			helpless = begins()
			helpless.Runs(time.Hour)
			assert.Empty(t, helpless.Told())
			helpless.Runs(row.within)
			require.Len(t, helpless.Told(), 1)
			next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store})
			next.Runs(2 * time.Hour)
			assert.Equal(t, onceward.StateCompleted, next.Stands("invoice-1").State, "a process that can looks for it all the same")
			assert.Len(t, append(helpless.Told(), next.Told()...), 1)
		})
	}
	virtual(t, "beside one that can", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", `{"amount":10,"external_id":"order-1"}`, withheld).Err, onceward.ErrOutcomeUnknown)
		helpless := another(t, l.Box, onceward.Config{Journal: l.Journal.Store, Authorize: bare})
		helpless.Runs(2 * time.Hour)
		l.Runs(7 * time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Empty(t, append(helpless.Told(), l.Told()...))
	})
	virtual(t, "it takes no turn from one that can", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", order1, withheld).Err, onceward.ErrOutcomeUnknown)
		helpless := another(t, l.Box, onceward.Config{Journal: l.Journal.Store, Authorize: bare})
		helpless.Runs(3 * time.Hour)
		l.Runs(20 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
	virtual(t, "beside one that finds nothing", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", order1, withheld).Err, onceward.ErrOutcomeUnknown)
		helpless := another(t, l.Box, onceward.Config{Journal: l.Journal.Store, Authorize: bare})
		for range 3 {
			helpless.Runs(20 * time.Hour)
			l.Runs(8 * time.Hour)
		}
		assert.Empty(t, helpless.Told())
		assert.Empty(t, l.Stands("invoice-1").Attention)
	})
	virtual(t, "without any look-up", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Loses("invoice-1", providertest.DropAfter())
		l.Runs(time.Minute)
		require.Len(t, l.Told(), 1)
	})
}
