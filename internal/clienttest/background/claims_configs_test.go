package background_test

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
)

// An operation that one client enqueues is sent once, beside a second client that runs and is asked for it. The second
// one sends it only if it sends the same request.
func TestClientsOfTwoConfigurations(t *testing.T) {
	t.Parallel()
	adds := func(token string) func(*http.Request) error {
		return func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		}
	}
	forgetful := providers.Stripe()
	forgetful.Endpoints = append([]providers.Endpoint(nil), forgetful.Endpoints...)
	for i := range forgetful.Endpoints {
		forgetful.Endpoints[i].Retention = 0
	}
	for name, row := range map[string]struct {
		other onceward.Config
		kind  error // of a call to the other client; nil: it gets the answer
	}{
		"alike":                      {onceward.Config{Authorize: adds("sk_test_1")}, nil},
		"with a live credential":     {onceward.Config{Authorize: adds("sk_live_1")}, onceward.ErrKeyReused},
		"with another test one":      {onceward.Config{Authorize: adds("sk_test_2")}, nil},
		"without the provider":       {onceward.Config{Providers: []providers.Provider{own()}, Authorize: adds("sk_test_1")}, onceward.ErrPending},
		"without the credential":     {onceward.Config{}, nil},
		"with a table without times": {onceward.Config{Providers: []providers.Provider{forgetful}, Authorize: adds("sk_test_1")}, nil},
		"which waits for less": {onceward.Config{Authorize: adds("sk_test_1"), AttemptTimeout: time.Second, MaxWait: 5 * time.Second,
			Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }, Heard: true}}, nil},
	} {
		virtual(t, name, func(t *testing.T) {
			path, l := filepath.Join(t.TempDir(), "journal.db"), &line{}
			ours := openShop(t, path, l, onceward.Config{Authorize: adds("sk_test_1"), Backoff: once})
			other := openShop(t, path, l, row.other)
			op, err := ours.orders(onceward.WithDue(named(t, invoice), time.Now().Add(2*time.Minute)), true)
			require.NoError(t, err)
			other.runs(t, context.Background())
			pass(time.Minute)
			require.Empty(t, l.Sent(), "it is not due")
			pass(3 * time.Minute)
			out := other.Ask(named(t, invoice))
			require.ErrorIs(t, out.Err, row.kind)
			ours.runs(t, context.Background())
			pass(3 * time.Minute)
			require.NoError(t, ours.Ask(named(t, invoice)).Err)
			assert.Equal(t, []string{string(op.Key)}, l.Keys())
			assert.NotContains(t, l.Sent()[0].Header.Get("Authorization"), "live")
		})
	}
}

// A client without flows sends a pending operation in another client's flow. The flow then goes on.
func TestClientWithoutFlowsBesideOne(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
		ship := flow.Define("ship", 1, func(ctx context.Context, _ string) (int, error) { return 1, p.Sequence("charge", "send")(ctx) })
		require.NoError(t, p.Flows.Register(ship))
		_, err := ship.Run(t.Context(), p.Flows, "order-1", "x")
		require.ErrorIs(t, err, onceward.ErrPending)
		other := start(t, l, onceward.Config{Journal: j, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return nil }, Heard: true}})
		pass(time.Hour)
		_, err = other.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, l.Sent(), 2)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		f, err := p.Flows.Flow(t.Context(), onceward.Ref{ID: "order-1"})
		require.NoError(t, err)
		assert.Equal(t, flow.StateFinished, f.State)
		assert.Equal(t, []string{"charge", "charge", "send"}, l.Descriptions())
		assert.Len(t, distinct(l.Keys()), 2)
	})
}

// An operation was sent under a table that scopes no keys, so its credential is not recorded. The next release scopes
// keys, and has another credential: the provider would execute the operation anew.
func TestTableThatScopesKeysLater(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses())
		authorize := func(token string) func(*http.Request) error {
			return func(r *http.Request) error {
				r.Header.Set("Authorization", token)
				return nil
			}
		}
		first := start(t, l, onceward.Config{Providers: []providers.Provider{own()}, Backoff: once, Authorize: authorize("Bearer a")})
		require.ErrorIs(t, first.Ask(named(t, invoice), toOwn).Err, onceward.ErrPending)
		scoped := own()
		scoped.CredentialScoped = true
		next := start(t, l, onceward.Config{Journal: first.Journal.Store, Providers: []providers.Provider{scoped}, Backoff: once, Authorize: authorize("Bearer b")})
		pass(time.Hour)
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		op := next.Recorded(onceward.Ref{ID: invoice})
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Contains(t, op.Cause, "the credential is another one")
		require.ErrorIs(t, next.Ask(named(t, invoice), toOwn).Err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 1)
	})
}
