package background_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// runsNowAndThen lets d pass. The process runs for half an hour at its beginning and at its end, because each hour
// costs hundreds of passes.
func runsNowAndThen(l *teller, d time.Duration) {
	l.Runs(30 * time.Minute)
	pass(d - time.Hour)
	l.Runs(30 * time.Minute)
}

// An operation that each claim parks, and a flow that each run postpones, are never overdue. After a day they need
// attention, until they go on.
func TestParkedForADayNeedsAttention(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(*testing.T) machine.Store{
		"in memory": func(*testing.T) machine.Store { return nil },
		"on disk":   func(t *testing.T) machine.Store { return onDisk(t) },
	} {
		virtual(t, "an operation whose credential was rotated, "+name, func(t *testing.T) {
			scoped := own()
			scoped.CredentialScoped = true
			token, via := "Bearer old", (&line{}).Then(refuses())
			l := &teller{Process: start(t, via, onceward.Config{Journal: on(t), Providers: []providers.Provider{scoped}, Backoff: once, Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", token)
				return nil
			}})}
			require.ErrorIs(t, l.Ask(named(t, "invoice-1"), toOwn).Err, onceward.ErrPending)
			token = "Bearer new"
			runsNowAndThen(l, 23*time.Hour)
			assert.Empty(t, l.NeedsAttention())
			l.Runs(3 * time.Hour)
			assert.Equal(t, []string{"invoice-1"}, l.NeedsAttention())
			assert.Contains(t, l.Stands("invoice-1").Attention, "credential")
			assert.Empty(t, via.Sent())
			token = "Bearer old"
			via.Then(says(http.StatusCreated, "{}"))
			l.Runs(2 * time.Hour)
			assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
			assert.Empty(t, l.NeedsAttention())
		})
	}
	virtual(t, "an operation whose provider never answers otherwise than 503", func(t *testing.T) {
		forgets := own()
		via := (&line{}).Always(says(http.StatusServiceUnavailable, ""))
		l := &teller{Process: start(t, via, onceward.Config{Providers: []providers.Provider{forgets}, Backoff: once})}
		require.ErrorIs(t, l.Ask(named(t, "invoice-1"), toOwn).Err, onceward.ErrPending)
		runsNowAndThen(l, 26*time.Hour)
		assert.Equal(t, []string{"invoice-1"}, l.NeedsAttention())
	})
	virtual(t, "an operation that was enqueued for a week later", func(t *testing.T) {
		const week = 7 * 24 * time.Hour
		via := (&line{}).Always(says(http.StatusServiceUnavailable, ""))
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), via, onceward.Config{Backoff: once})
		l := &teller{Process: s.process}
		needs := func() (names []string) {
			for op, err := range s.journal.List(t.Context(), journal.Filter{NeedsAttention: time.Now()}) {
				require.NoError(t, err)
				names = append(names, op.ID)
			}
			return names
		}
		_, err := s.orders(onceward.WithDue(named(t, "invoice-1"), time.Now().Add(week)), true)
		require.NoError(t, err)
		l.Runs(time.Hour)
		pass(week - 2*time.Hour) // no process needs to run until it is due
		runsNowAndThen(l, 23*time.Hour)
		assert.NotEmpty(t, via.Sent())
		assert.Empty(t, needs(), "it was first sent less than a day ago")
	})
	sealed := func(*http.Request) error { return errors.New("the vault is sealed") }
	for name, row := range map[string]struct {
		scoped    bool
		authorize func(*http.Request) error
	}{
		"a flow whose credential is missing":                              {false, sealed},
		"a flow whose credential is missing, where keys are scoped to it": {true, sealed},
		"a flow whose credential is refused":                              {false, nil},
	} {
		virtual(t, name, func(t *testing.T) {
			var p *process
			server := own()
			server.CredentialScoped = row.scoped
			authorize := row.authorize
			via := (&line{}).Always(says(http.StatusUnauthorized, "{}"))
			ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) {
				return flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
					out := p.Ask(ctx, toOwn)
					return out.Status, out.Err
				})
			})
			p = oncetest.StartFlows(t, via, onceward.Config{Providers: []providers.Provider{server}, Backoff: once, Authorize: func(r *http.Request) error {
				if authorize != nil {
					return authorize(r)
				}
				r.Header.Set("Authorization", "Bearer a")
				return nil
			}}, flow.Config{Definitions: []flow.Definition{ride}})
			_, err := ride.Run(t.Context(), p.Flows, "order-991", 1)
			require.ErrorIs(t, err, onceward.ErrPending)
			l := &teller{Process: p}
			stuck := func() bool {
				f, err := p.Journal.Store.(machine.Flows).GetFlow(t.Context(), onceward.Ref{ID: "order-991"})
				require.NoError(t, err)
				return f.NeedsAttention(time.Now()) != "" || len(l.NeedsAttention()) > 0
			}
			runsNowAndThen(l, 23*time.Hour)
			assert.False(t, stuck())
			l.Runs(3 * time.Hour)
			assert.True(t, stuck())
			authorize = nil
			via.Always(says(http.StatusCreated, "{}"))
			l.Runs(2 * time.Hour)
			assert.False(t, stuck())
			status, err := ride.Run(t.Context(), p.Flows, "order-991", 1)
			require.NoError(t, err)
			assert.Equal(t, http.StatusCreated, status)
		})
	}
}

// A process dies amid an attempt, and later releases lack its provider's table. No process takes the operation
// over, since none may send it. It needs attention soon.
func TestInFlightThatNoProcessTakesOverNeedsAttention(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own()}, Backoff: once})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "invoice-1"), toOwn) })
		next := &teller{Process: start(t, l, onceward.Config{Journal: dead.Journal.Store, Providers: []providers.Provider{providers.Stripe()}, Backoff: once})}
		next.Runs(10 * time.Minute)
		assert.Empty(t, next.NeedsAttention())
		next.Runs(10 * time.Minute)
		assert.Equal(t, []string{"invoice-1"}, next.NeedsAttention())
	})
}

// No process lives long enough to see that the one before it has died. Calls and flows of those are listed all the same, by
// whatever reads the journal.
func TestHeldByDeadSessionsNeedsAttention(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		dead := startFlows(t, l, onceward.Config{Journal: memory.New(), Providers: []providers.Provider{own()}, Backoff: once}, flow.Config{})
		ride := flow.Define("ride", 1, func(ctx context.Context, fare int) (string, error) {
			return flow.Step(ctx, "pay", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
		})
		require.NoError(t, dead.Flows.Register(ride))
		running, ends := context.WithCancel(t.Context())
		over := make(chan bool)
		defer func() { ends(); <-over }()
		go func() {
			defer close(over)
			_, _ = ride.Run(running, dead.Flows, "order-1", 1)
		}()
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, "invoice-1"), toOwn) })
		next := &teller{Process: start(t, l, onceward.Config{Journal: dead.Journal.Store, Providers: []providers.Provider{own()}, Backoff: once})}
		f := func() string {
			f, err := next.Journal.Store.(machine.Flows).GetFlow(t.Context(), onceward.Ref{ID: "order-1"})
			require.NoError(t, err)
			return f.NeedsAttention(time.Now())
		}
		pass(14 * time.Minute)
		assert.Empty(t, next.NeedsAttention())
		assert.Empty(t, f())
		pass(2 * time.Minute)
		assert.Equal(t, []string{"invoice-1"}, next.NeedsAttention())
		assert.NotEmpty(t, f())
	})
}

// An unknown operation whose look-ups get no credential is given up in time, and then needs attention.
func TestLookupWithoutACredentialNeedsAttention(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		sealed := false
		l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
			if sealed {
				return errors.New("the vault is sealed")
			}
			r.Header.Set("Authorization", tellerToken)
			return nil
		}})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		sealed = true
		l.Runs(10 * 24 * time.Hour)
		assert.Equal(t, []string{"invoice-1"}, l.NeedsAttention())
	})
}
