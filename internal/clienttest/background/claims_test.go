package background_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// Run and Resume claim operations by today's tables, of known providers, with available credentials, and only as many
// as there are slots.

func TestCorrectedTableBindsPendingOperations(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		correct func(*providers.Endpoint)
		after   time.Duration
		sent    int
		state   onceward.State
	}{
		{"uncorrected", func(*providers.Endpoint) {}, 20 * time.Hour, 2, onceward.StateCompleted},
		{"its retention is lower", func(e *providers.Endpoint) { e.Retention = 10 * time.Hour }, 20 * time.Hour, 1, onceward.StateUnknown},
		{"it remembers nothing, as turned out", func(e *providers.Endpoint) { e.Remembers, e.Retention, e.InFlightGuard = providers.Nothing, 0, false }, time.Hour, 1, onceward.StateUnknown},
		{"it has no guard, as turned out", func(e *providers.Endpoint) { e.InFlightGuard = false }, time.Hour, 1, onceward.StateUnknown},
		{"it has no guard, as turned out, and states how long it works", func(e *providers.Endpoint) { e.InFlightGuard, e.HandlingTime = false, 10*time.Minute },
			time.Hour, 1, onceward.StatePending},
		{"it takes no key, as turned out", func(e *providers.Endpoint) { *e = providers.Endpoint{Pattern: e.Pattern} }, time.Hour, 1, onceward.StateUnknown},
		{"a wider table changes nothing", func(e *providers.Endpoint) { e.Retention = 1000 * time.Hour }, 8 * 24 * time.Hour, 1, onceward.StateUnknown},
	} {
		for _, found := range []string{"parked", "left by a dead process"} {
			each(t, row.name+", "+found, func(t *testing.T, j machine.Store) {
				l := &line{}
				was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
				ask := func() { was.Ask(named(t, "order-1"), to("POST", ownURL)) }
				if found == "parked" {
					l.Then(loses())
					ask()
				} else {
					leavesInFlight(t, was, l, ask)
				}
				stranger := start(t, l, onceward.Config{Journal: j}) // that knows Stripe alone
				for left := row.after; left > 0; left -= 12 * time.Hour {
					pass(min(left, 12*time.Hour))
					_, err := stranger.Resume(t.Context()) // a clock that is looked at does not jump
					require.NoError(t, err)
				}
				now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(row.correct)}})
				_, err := now.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, row.state, now.Recorded(onceward.Ref{ID: "order-1"}).State)
				assert.Len(t, l.Sent(), row.sent)
			})
		}
	}
}

// Of two handling times the longer one counts, even if the table has a guard now.
func TestLongerHandlingTimeIsWaitedFor(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		was := own(func(e *providers.Endpoint) { e.InFlightGuard, e.HandlingTime = false, 10*time.Minute })
		start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{was}}).Ask(named(t, "order-1"), to("POST", ownURL))
		is := own(func(e *providers.Endpoint) { e.InFlightGuard, e.HandlingTime = true, 3*time.Hour })
		now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{is}})
		for range 17 {
			_, err := now.Resume(t.Context())
			require.NoError(t, err)
			pass(10 * time.Minute)
		}
		require.Len(t, l.Sent(), 1)
		for range 30 {
			pass(10 * time.Minute)
			_, err := now.Resume(t.Context())
			require.NoError(t, err)
		}
		assert.Len(t, l.Sent(), 2)
	})
}

// A corrected table binds an operation whose contract depends on its body, or whose body is not recorded.
func TestCorrectedTableReadFromTheBody(t *testing.T) {
	corrected := func(p providers.Provider, retention time.Duration) []providers.Provider {
		p.Endpoints = slices.Clone(p.Endpoints)
		for i := range p.Endpoints {
			p.Endpoints[i].Retention = min(p.Endpoints[i].Retention, retention)
		}
		return []providers.Provider{p}
	}
	for name, row := range map[string]struct {
		provider providers.Provider
		ask      []option
		sent     int
		state    onceward.State
	}{
		"its body decides the contract": {providers.Braintree(), []option{
			to("POST", "https://payments.braintree-api.com/graphql"), with("Content-Type", "application/json"),
			body(`{"query":"mutation M($input: ChargePaymentMethodInput!) { chargePaymentMethod(input: $input) { transaction { id } } }",` +
				`"variables":{"input":{"apiRequestKey":"k","paymentMethodId":"p"}}}`),
		}, 1, onceward.StateUnknown},
		"its body is not kept": {cards(), []option{card("4242")}, 1, onceward.StateUnknown},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := &line{}
			was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{row.provider}})
			leavesInFlight(t, was, l, func() { was.Ask(named(t, "order-1"), row.ask...) })
			pass(2 * time.Hour)
			now := start(t, l, onceward.Config{Journal: j, Providers: corrected(row.provider, time.Hour)})
			_, err := now.Resume(t.Context())
			require.NoError(t, err)
			op := now.Recorded(onceward.Ref{ID: "order-1"})
			assert.Equal(t, row.state, op.State, op.Cause)
			assert.Equal(t, time.Hour, op.Terms.Retention)
			assert.Len(t, l.Sent(), row.sent)
		})
	}
}

func TestEveryAttemptFollowsTheNarrowedTerms(t *testing.T) {
	each(t, "the window that is left by the corrected table ends within the run", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses()).Always(says(429, `{}`, "Retry-After", "60"))
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		was.Ask(named(t, "order-1"), to("POST", ownURL))
		pass(44*time.Minute + 30*time.Second)
		now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.Retention = time.Hour })}})
		_, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, now.Recorded(onceward.Ref{ID: "order-1"}).State)
		assert.Len(t, l.Sent(), 2, "the next one would be past the 45 minutes")
	})
}

// A process that does not know the provider claims nothing of it.
func TestUnknownProviderIsNotClaimed(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		var logged bytes.Buffer
		was := start(t, l, onceward.Config{Journal: j, Backoff: once})
		for i := range 50 {
			l.Then(loses())
			was.Ask(named(t, fmt.Sprint("parked-", i)))
		}
		leavesInFlight(t, was, l, func() { was.Ask(named(t, "left")) })
		before := was.Everything()
		sent := len(l.Sent())
		pass(time.Hour)

		strange := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, strange.Ask(named(t, "other"), to("POST", ownURL)).Err)
		report, err := strange.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Claimed)
		assert.Equal(t, 51, report.PassedOver)
		require.Len(t, report.Problems, 51)
		for _, problem := range report.Problems {
			require.ErrorIs(t, problem, onceward.ErrPending)
			assert.Contains(t, problem.Error(), "Config.Providers")
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, strange.Run(ctx), context.DeadlineExceeded)
		assert.LessOrEqual(t, strings.Count(logged.String(), "not claimed"), 2, "Resume and Run, once a provider")
		assert.Contains(t, logged.String(), "not claimed")
		after := strange.Everything()
		for i, op := range before {
			assert.Equal(t, op, after[i], "it is as it was")
		}
		require.Len(t, l.Sent(), sent+1)

		back := start(t, l, onceward.Config{Journal: j})
		report, err = back.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 51, report.Completed)
	})
}

// An operation that may have run is never sent with its key in another form.
func TestAnotherKeyOnTheWireIsNeverSent(t *testing.T) {
	t.Parallel()
	quoted := func(e *providers.Endpoint) { e.Key.Place = providers.KeyQuotedHeader }
	renamed := func(e *providers.Endpoint) { e.Key.Name = "X-Idempotency-Key" }
	same := func(*providers.Endpoint) {}
	for _, row := range []struct {
		name     string
		was, now func(*providers.Endpoint)
		first    reply
		state    onceward.State
		header   string // of the second request; "": there is none
	}{
		{"quoted, then raw, may have run", quoted, same, loses(), onceward.StateUnknown, ""},
		{"raw, then quoted, may have run", same, quoted, loses(), onceward.StateUnknown, ""},
		{"another header, may have run", renamed, same, loses(), onceward.StateUnknown, ""},
		{"unchanged, may have run", same, same, loses(), onceward.StateCompleted, "Idempotency-Key"},
		{"quoted, then raw, nothing has run", quoted, same, says(429, `{}`), onceward.StateCompleted, "Idempotency-Key"},
		{"another header, nothing has run", same, renamed, says(429, `{}`), onceward.StateCompleted, "X-Idempotency-Key"},
		{"another header, completed", same, renamed, says(200, paid), onceward.StateCompleted, ""},
	} {
		for _, who := range []string{"Resume", "its caller", "left by a dead process"} {
			each(t, row.name+", "+who, func(t *testing.T, j machine.Store) {
				l := (&line{}).Then(row.first)
				was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own(row.was)}})
				ask := func(p *process) outcome { return p.Ask(named(t, "order-1"), to("POST", ownURL)) }
				if who == "left by a dead process" {
					l.Instead()
					if row.state == onceward.StateCompleted && row.header != "Idempotency-Key" || row.name == "quoted, then raw, nothing has run" {
						return // it counts as sent
					}
					leavesInFlight(t, was, l, func() { ask(was) })
				} else {
					ask(was)
				}
				pass(time.Hour)
				before := len(l.Sent())
				now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(row.now)}})
				if who == "its caller" {
					out := ask(now)
					if row.state == onceward.StateUnknown {
						require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
					} else {
						require.NoError(t, out.Err)
						assert.Equal(t, row.header == "", out.Op.Replayed)
					}
				} else {
					_, err := now.Resume(t.Context())
					require.NoError(t, err)
				}
				op := now.Recorded(onceward.Ref{ID: "order-1"})
				assert.Equal(t, row.state, op.State, op.Cause)
				if row.header == "" {
					require.Len(t, l.Sent(), before)
					return
				}
				require.Len(t, l.Sent(), before+1)
				assert.Equal(t, op.Key, strings.Trim(l.Sent()[before].Header.Get(row.header), `"`))
			})
		}
	}
	// The configuration was corrected. The same host has another contract.
	each(t, "IETF, then Raw", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.IETF(24*time.Hour, "own.example").WithStoredFailures()}})
		was.Ask(named(t, "order-1"), to("POST", ownURL))
		pass(time.Hour)
		now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
		report, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.PassedOver)
		require.ErrorIs(t, now.Ask(named(t, "order-1"), to("POST", ownURL)).Err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.Sent(), 1)
	})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Resume never sends an operation with a credential with another mode.
func TestOtherModeIsNeverSent(t *testing.T) {
	t.Parallel()
	signs := func(key *string) func(*http.Request) error {
		return func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+*key)
			return nil
		}
	}
	for name, first := range map[string]reply{"may have run": loses(), "nothing has run": says(429, `{}`, "Retry-After", "1")} {
		each(t, name, func(t *testing.T, j machine.Store) {
			key := "sk_test_1"
			l := (&line{}).Then(first)
			p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Backoff: once, Authorize: signs(&key)})
			require.ErrorIs(t, p.Ask(named(t, "invoice-1"), with("Authorization", "Bearer sk_test_1")).Err, onceward.ErrPending)
			for range 10 {
				pass(time.Hour)
				key = "sk_live_1"
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, report.Parked)
				require.Len(t, report.Problems, 1)
				require.ErrorIs(t, report.Problems[0], onceward.ErrPending)
				require.ErrorIs(t, report.Problems[0], onceward.ErrKeyReused)
				assert.Contains(t, report.Problems[0].Error(), "mode")
			}
			assert.Len(t, l.Sent(), 1)
			key = "sk_test_1"
			pass(time.Hour)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			assert.Len(t, l.Sent(), 2)
		})
	}
	each(t, "the first attempt with a known mode records it", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(says(429, `{}`, "Retry-After", "1"), loses())
		key := "of another kind"
		p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Backoff: once, Authorize: signs(&key)})
		require.ErrorIs(t, p.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
		key = "sk_test_1"
		pass(time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "test", p.Recorded(onceward.Ref{ID: "invoice-1"}).Mode)
		key = "sk_live_1"
		pass(time.Hour)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.Sent(), 2)
		assert.Equal(t, journal.StatePending, p.Recorded(onceward.Ref{ID: "invoice-1"}).State)
	})
	each(t, "nor in the second attempt of a call", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		keys := []string{"sk_test_1", "sk_live_1"}
		p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+keys[0])
			keys = keys[min(1, len(keys)-1):]
			return nil
		}})
		out := p.Ask(named(t, "invoice-1"))
		require.ErrorIs(t, out.Err, onceward.ErrKeyReused)
		var e *onceward.Error
		require.ErrorAs(t, out.Err, &e)
		assert.Equal(t, []string{"mode"}, e.Differs)
		assert.Len(t, l.Sent(), 1)
		assert.Equal(t, journal.StatePending, p.Recorded(onceward.Ref{ID: "invoice-1"}).State)
	})
}

// A missing table is not a table of zeros. A process without the provider's table leaves the operation to others, both
// in a call and in a claim.
func TestCallWithoutTheTableNarrowsNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		found func(t *testing.T, p *process, l *line, ask func())
		sent  int
	}{
		{"parked", func(_ *testing.T, _ *process, l *line, ask func()) { l.Then(loses()); ask() }, 1},
		{"parked, and nothing has run", func(_ *testing.T, _ *process, l *line, ask func()) { l.Then(refuses()); ask() }, 0},
		{"left by a dead process", func(t *testing.T, p *process, l *line, ask func()) { leavesInFlight(t, p, l, ask) }, 1},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := &line{}
			was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
			row.found(t, was, l, func() { was.Ask(named(t, "order-1"), to("POST", ownURL)) })
			pass(2 * time.Minute)
			stranger := start(t, l, onceward.Config{Journal: j, Backoff: once}) // that knows Stripe alone
			out := stranger.Ask(named(t, "order-1"), to("POST", ownURL))
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e)
			assert.ErrorIs(t, e, onceward.ErrPending)
			assert.ErrorContains(t, e, "add it to Config.Providers")
			assert.False(t, e.InBackground, "as far as this client knows")
			assert.Len(t, l.Sent(), row.sent)
			now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
			_, err := now.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, onceward.StateCompleted, now.Recorded(onceward.Ref{ID: "order-1"}).State)
			require.Len(t, l.Sent(), row.sent+1)
			assert.Equal(t, l.Keys()[0], l.Keys()[row.sent])
		})
	}
}

// An operation that was cancelled without a table gets the first table's terms when it is asked for again.
func TestCancelledUnderNoTableHasFirstTerms(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		ctx, cancel := context.WithCancel(named(t, "order-1"))
		l := (&line{}).Then(doing(cancel, refuses()))
		was := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, was.Ask(ctx, to("POST", ownURL)).Err, onceward.ErrNotSent)
		l.Then(loses())
		now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		out := now.Ask(named(t, "order-1"), to("POST", ownURL))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		pass(2 * time.Hour)
		_, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, now.Recorded(onceward.Ref{ID: "order-1"}).State)
	})
}

// An operation was recorded before a table listed its host. The report and the error say so.
func TestOperationOfAnUnlistedHost(t *testing.T) {
	listed := []providers.Provider{own()}
	each(t, "nothing may have run: a call sends it", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		was := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, was.Ask(named(t, "order-1"), toOwn).Err, onceward.ErrPending)
		pass(2 * time.Hour)
		now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: listed})
		report, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.PassedOver)
		require.Len(t, report.Problems, 1)
		assert.False(t, report.Problems[0].InBackground)
		assert.NotContains(t, report.Problems[0].Error(), "serves its URL any more")
		assert.ErrorContains(t, report.Problems[0], "before Config.Providers listed its host")
		assert.Empty(t, l.Sent())

		l.Then(loses())
		require.ErrorIs(t, now.Ask(named(t, "order-1"), toOwn).Err, onceward.ErrPending, "by today's table it is sent again")
		pass(2 * time.Hour)
		_, err = now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, now.Recorded(onceward.Ref{ID: "order-1"}).State)
	})
	each(t, "its process died over it: unknown", func(t *testing.T, j machine.Store) {
		l := &line{}
		was := start(t, l, onceward.Config{Journal: j, Backoff: once})
		leavesInFlight(t, was, l, func() { was.Ask(named(t, "order-1"), toOwn) })
		now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: listed})
		report, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Unknown)
		assert.Zero(t, report.PassedOver)
		assert.Len(t, l.Sent(), 1)
	})
}

// NamedOnly of one process leaves unnamed operations to the other processes.
func TestNamedOnlyLeavesOthersTheirOperations(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		after time.Duration
		state onceward.State
	}{
		{"while another process may send it, it stays pending", time.Hour, onceward.StatePending},
		{"once no process may send it, it is unknown", 25 * time.Hour, onceward.StateUnknown},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(loses())
			dead := start(t, l, onceward.Config{Journal: j})
			leavesInFlight(t, dead, l, func() { dead.Ask(t.Context()) })
			all := start(t, l, onceward.Config{Journal: j, Backoff: once})
			l.Always(loses())
			report, err := all.Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, report.Parked)
			sent := len(l.Sent())

			all.PassInUse(row.after)
			only := start(t, l, onceward.Config{Journal: j, Backoff: once, NamedOnly: true})
			report, err = only.Resume(t.Context())
			require.NoError(t, err)
			op := only.Everything()[0]
			assert.Equal(t, row.state, op.State)
			assert.Len(t, l.Sent(), sent)
			if row.state == onceward.StateUnknown {
				return
			}
			assert.Equal(t, 1, report.PassedOver)
			require.Len(t, report.Problems, 1)
			assert.ErrorContains(t, report.Problems[0], "NamedOnly")
			assert.False(t, report.Problems[0].InBackground, "as far as this one knows")
			l.Always(says(200, paid))
			report, err = all.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			assert.Len(t, distinct(l.Keys()), 1)
		})
	}
}

// claimed is a journal that notes each claim's providers.
type claimed struct {
	*memory.Journal
	takes time.Duration // each claim
	mu    sync.Mutex
	from  [][]string
	limit []int
}

// of lists the limits in the claims that included the provider.
func (j *claimed) of(provider string) (limits []int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, from := range j.from {
		if slices.Contains(from, provider) {
			limits = append(limits, j.limit[i])
		}
	}
	return limits
}

func (j *claimed) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	<-time.After(j.takes)
	j.mu.Lock()
	j.from, j.limit = append(j.from, ev.From), append(j.limit, limit)
	j.mu.Unlock()
	return j.Journal.Claim(ctx, ev, limit)
}

// An idle pass makes one claim. It covers idle providers, and hosts that no provider serves.
func TestClaimOfAnIdlePass(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &claimed{Journal: memory.New()}
		p := start(t, &line{}, onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe(), own()}})
		ctx, stop := context.WithTimeout(t.Context(), 58*time.Second)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Len(t, j.from, 12, "every five seconds")
		for _, from := range j.from {
			assert.ElementsMatch(t, []string{"stripe", "raw", ""}, from)
		}
	})
}

// A pass claims nothing of a provider without a free slot, and otherwise no more than the free slots.
func TestClaimTakesNoMoreThanItsSlots(t *testing.T) {
	virtual(t, "of a provider that rests, one a probe", func(t *testing.T) {
		l := (&line{}).Always(loses())
		j := &claimed{Journal: memory.New()}
		_, stop := waitingFor(t, l, 20, onceward.Config{Journal: j, Backoff: tenSeconds, Concurrency: 1})
		pass(time.Minute)
		sent, asked := len(l.Sent()), len(j.of("stripe"))
		pass(time.Minute)
		stop()
		assert.Equal(t, len(l.Sent())-sent, len(j.of("stripe"))-asked)
	})
	virtual(t, "of one that has a slot taken, as many as are free", func(t *testing.T) {
		j := &claimed{Journal: memory.New()}
		parked := start(t, (&line{}).Then(refuses()), onceward.Config{Journal: j.Journal, Backoff: once})
		require.ErrorIs(t, parked.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		p := start(t, (&line{}).Then(takes(time.Minute, says(200, paid))), onceward.Config{Journal: j, Concurrency: 4, AttemptTimeout: time.Hour})
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		limits := j.of("stripe")
		require.Greater(t, len(limits), 3)
		assert.Equal(t, 4, limits[0])
		for _, limit := range limits[1:] {
			assert.Equal(t, 3, limit)
		}
	})
}

// An operation in flight in another process, at a known provider, causes no further claim.
func TestClaimBesideOneInFlight(t *testing.T) {
	for name, unnamed := range map[string]bool{"named": false, "unnamed, and NamedOnly is set": true} {
		virtual(t, name, func(t *testing.T) {
			ctx := named(t, invoice)
			if unnamed {
				ctx = t.Context()
			}
			j := &claimed{Journal: memory.New()}
			sends := start(t, (&line{}).Always(hangs()), onceward.Config{Journal: j.Journal})
			go sends.Ask(ctx)
			pass(time.Second)
			p := start(t, &line{}, onceward.Config{Journal: j, NamedOnly: true})
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, j.from)
			for _, from := range j.from {
				assert.Contains(t, from, "", "with hosts that none serves")
			}
		})
	}
}

// If many operations are passed over, hosts that no provider serves are claimed apart from idle providers.
func TestClaimOfManyThatArePassedOver(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		j := &claimed{Journal: memory.New()}
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		for i := range 150 {
			p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", "https://host.example/x"), with("Authorization", "Bearer s3cr3t"))
		}
		pass(time.Hour)
		j.from = nil
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		apart, together := 0, 0
		for _, from := range j.from {
			switch {
			case len(from) == 1 && from[0] == "":
				apart++
			case slices.Contains(from, ""):
				together++
			}
		}
		assert.Equal(t, 2, together, "now and then")
		assert.Greater(t, apart, 230, "in each pass")
	})
}

// If more than a hundred operations are passed over, the pass claims in parts, to find out which part has many.
func TestClaimOfTooManyPassedOver(t *testing.T) {
	for n, claims := range map[int]int{100: 1, 101: 3} {
		virtual(t, fmt.Sprint(n), func(t *testing.T) {
			j := &claimed{Journal: memory.New()}
			p := start(t, (&line{}).Always(refuses()), onceward.Config{Journal: j, Backoff: once})
			for i := range n {
				p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", "https://host.example/x"), with("Authorization", "Bearer s3cr3t"))
			}
			pass(time.Hour)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, n, report.PassedOver)
			assert.Len(t, j.from, claims, j.from)
		})
	}
}

// Many operations are passed over, so a claim is postponed. Its operations are sent in the same pass.
func TestClaimThatIsPutOff(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const fine = 5
		j := &claimed{Journal: memory.New(), takes: 10 * time.Millisecond}
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Concurrency: 2})
		for i := range 101 {
			p.Ask(named(t, fmt.Sprint("lacking-", i)), to("POST", "https://host.example/x"), with("Authorization", "Bearer s3cr3t"))
		}
		for i := range fine {
			p.Ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i)))
		}
		pass(time.Hour)
		l.Always(says(200, paid))
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, fine, report.Completed)
		assert.Equal(t, 101, report.PassedOver)
	})
}

// repeating is a journal that makes every claim twice, as a journal does whose transaction is retried.
type repeating struct{ *memory.Journal }

func (j repeating) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	today := ev.Today
	ev.Today = func(op *journal.Operation) (machine.Today, bool) {
		today(op)
		return today(op)
	}
	return j.Journal.Claim(ctx, ev, limit)
}

// An operation that is offered twice in one claim takes one slot.
func TestClaimThatIsMadeAgain(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(refuses(), refuses())
		p := start(t, l, onceward.Config{Journal: repeating{memory.New()}, Backoff: once, Concurrency: 1})
		for _, name := range []string{"order-1", "order-2"} {
			require.ErrorIs(t, p.Ask(named(t, name)).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, report.Completed)
		assert.Zero(t, report.PassedOver)
	})
}

// Resume reports once that a provider's operations are passed over during its pause. That passes by itself, so it is
// not logged.
func TestPassedOverDuringACooldown(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		var logged bytes.Buffer
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, NamedOnly: true, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			Backoff: backoff.Policy{Initial: time.Hour, Max: time.Hour, MaxAttempts: 1}})
		require.ErrorIs(t, p.Ask(named(t, "order-0")).Err, onceward.ErrPending)
		pass(2 * time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		for _, name := range []string{"order-1", "order-2"} {
			ctx, cancel := context.WithCancel(named(t, name))
			l.Then(doing(cancel, loses())) // so that it is due at once
			require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		}
		pass(time.Minute)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, report.PassedOver)
		require.Len(t, report.Problems, 1)
		assert.ErrorContains(t, report.Problems[0], "the last attempts at the provider have failed")
		assert.NotContains(t, logged.String(), "not claimed")
	})
}

// Run reports an unknown provider once, however many hosts it has.
func TestPassedOverOnceAProvider(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		var logged bytes.Buffer
		was := start(t, (&line{}).Always(refuses()), onceward.Config{Journal: j, Backoff: once,
			Providers: []providers.Provider{providers.Raw(7*24*time.Hour, "own.example", "eu.own.example").WithStoredFailures()}})
		for _, host := range []string{"own.example", "eu.own.example"} {
			require.ErrorIs(t, was.Ask(named(t, host), to("POST", "https://"+host+"/orders")).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		strange := start(t, &line{}, onceward.Config{Journal: j, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, strange.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 1, strings.Count(logged.String(), "not claimed"))
	})
}

// Outcomes.Handle does not get an unknown operation that is still looked up. Neither a takeover from a dead process nor
// another operation in flight changes that.
func TestPassedOverDuringALookup(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j, s, l := memory.New(), &settler{}, &line{}
		cfg := onceward.Config{Journal: j, Providers: []providers.Provider{own(noRetention)}, Outcomes: &onceward.Outcomes{Handle: s.Settle}, Reconcile: &onceward.Reconcile{
			Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) { return onceward.Finding{}, nil },
		}}
		dead := start(t, l, cfg)
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, invoice), toOwn) })
		other := start(t, (&line{}).Always(hangs()), onceward.Config{Journal: j}) // at Stripe
		ctx, stop := context.WithCancel(named(t, "charge"))
		defer stop()
		go other.Ask(ctx)
		pass(time.Second)
		for _, unknown := range []int{1, 0} {
			p := start(t, l, cfg)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			require.Equal(t, unknown, report.Unknown)
			assert.Empty(t, s.Got)
			p.Crash()
		}
	})
}

// An operation that lacks a header is passed over if another has just lacked it. The report says why.
func TestPassedOverForAHeader(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Concurrency: 1, Authorize: func(*http.Request) error { return nil }})
		for i := range 3 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("order-", i)), with("Authorization", "Bearer s3cr3t")).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Parked)
		assert.Equal(t, 2, report.PassedOver)
		require.Len(t, report.Problems, 3)
		for _, problem := range report.Problems {
			require.ErrorIs(t, problem, onceward.ErrCredentialMissing)
		}
	})
}

// joinsOnce is a journal that loses its only session once its operations are listed.
type joinsOnce struct {
	*memory.Journal
	listed atomic.Bool
}

type lostOnceListed struct {
	machine.Session
	of *joinsOnce
}

func (s lostOnceListed) Lost() bool { return s.of.listed.Load() || s.Session.Lost() }

func (j *joinsOnce) Join(ctx context.Context) (machine.Session, error) {
	if j.listed.Load() {
		return nil, errDiskFull
	}
	s, err := j.Journal.Join(ctx)
	return lostOnceListed{s, j}, err
}

func (j *joinsOnce) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	j.listed.Store(true)
	return j.Journal.List(ctx, f)
}

// A pass that has lost its session, and gets no other, returns the error.
func TestPassedOverWithoutASession(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &joinsOnce{Journal: memory.New()}
		sends := start(t, (&line{}).Always(hangs()), onceward.Config{Journal: j.Journal})
		go sends.Ask(named(t, invoice))
		pass(time.Second)
		_, err := start(t, &line{}, onceward.Config{Journal: j, Providers: []providers.Provider{own()}}).Resume(t.Context())
		require.ErrorIs(t, err, errDiskFull)
	})
}

// landingClaims is a journal that stores a claim, and returns an error.
type landingClaims struct {
	machine.Store
	machine.Flows
	fails bool        // claims
	keeps atomic.Bool // it gives nothing back
	half  bool        // the first commit's operations are returned, and the second commit was stored, too
}

func (j *landingClaims) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	res, err := j.Store.Claim(ctx, ev, limit)
	switch {
	case err == nil && j.half && len(res) > 1:
		return res[:1], nil
	case err == nil && j.fails && len(res) > 0:
		return nil, severed.Err
	}
	return res, err
}

func (j *landingClaims) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if j.keeps.Load() && ev.Kind == machine.EventCancel {
		return machine.Result{}, severed.Err
	}
	return j.Store.Apply(ctx, ev)
}

// A claim that was stored although it failed is left to the next claim.
func TestLostClaimIsLeftToTheNext(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ died, keeps, unsent bool }{
		"of a parked operation":                    {},
		"of an unsent operation":                   {unsent: true},
		"of an operation that a dead process left": {died: true},
		"and the journal fails to release it, too": {keeps: true},
	} {
		each(t, name, func(t *testing.T, kept machine.Store) {
			l, j := &line{}, &landingClaims{Store: kept, Flows: kept.(machine.Flows)}
			was := start(t, l, onceward.Config{Journal: kept, Backoff: once})
			switch {
			case row.died:
				leavesInFlight(t, was, l, func() { was.Ask(named(t, "invoice-1")) })
			default:
				l.Then(map[bool]reply{false: loses(), true: refuses()}[row.unsent])
				require.ErrorIs(t, was.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
			}
			pass(time.Hour)
			before := was.Recorded(onceward.Ref{ID: "invoice-1"})
			sent := len(l.Sent())
			p := start(t, l, onceward.Config{Journal: j, Backoff: once})
			j.fails = true
			j.keeps.Store(row.keeps)
			_, err := p.Resume(t.Context())
			require.ErrorIs(t, err, severed.Err)
			if row.keeps {
				require.ErrorIs(t, p.Ask(named(t, "invoice-1")).Err, onceward.ErrJournal)
				assert.Len(t, l.Sent(), sent)
			}
			j.fails = false
			j.keeps.Store(false)
			pass(time.Minute)
			op := p.Recorded(onceward.Ref{ID: "invoice-1"})
			require.Equal(t, onceward.StatePending, op.State)
			assert.Equal(t, !row.unsent, op.MayHaveRun)
			assert.Equal(t, before.FirstSentAt, op.FirstSentAt)
			if !row.died { // its last attempt's end is not known
				assert.Equal(t, before.LastEndedAt, op.LastEndedAt)
			}
			assert.Equal(t, before.Attempts, op.Attempts)

			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			assert.Len(t, l.Sent(), sent+1)
			assert.Len(t, distinct(l.Keys()), 1)
		})
	}
}

// A claim takes two commits, and the second one fails. It returns the operations of the first, and leaves the others to
// the next claim.
func TestHalfLostClaimIsLeftToTheNext(t *testing.T) {
	each(t, "", func(t *testing.T, kept machine.Store) {
		l, j := &line{}, &landingClaims{Store: kept, Flows: kept.(machine.Flows), half: true}
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		for _, name := range []string{"invoice-1", "invoice-2"} {
			l.Then(loses())
			require.ErrorIs(t, p.Ask(named(t, name)).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		j.half = false
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		for _, name := range []string{"invoice-1", "invoice-2"} {
			assert.Equal(t, onceward.StateCompleted, p.Recorded(onceward.Ref{ID: name}).State)
		}
		assert.Len(t, l.Sent(), 4)
		assert.Len(t, distinct(l.Keys()), 2)
	})
}

// A claim that failed, but was stored, took an undelivered outcome. This process delivers it.
func TestLostClaimOfAnOutcomeIsDelivered(t *testing.T) {
	each(t, "", func(t *testing.T, kept machine.Store) {
		l, j := (&line{}).Then(loses()), &landingClaims{Store: kept, Flows: kept.(machine.Flows)}
		was := start(t, l, onceward.Config{Journal: kept, Backoff: once, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return errDiskFull }}})
		require.ErrorIs(t, was.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
		pass(time.Hour)
		_, err := was.Resume(t.Context())
		require.NoError(t, err)
		was.Crash()
		_ = was.Shutdown(cancelled())
		require.False(t, was.Recorded(onceward.Ref{ID: "invoice-1"}).Delivered)

		told := 0
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			told++
			return nil
		}}})
		j.fails = true
		_, err = p.Resume(t.Context())
		require.ErrorIs(t, err, severed.Err)
		require.Equal(t, 0, told)
		j.fails = false
		for range 2 {
			_, err = p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, told)
		}
		assert.True(t, p.Recorded(onceward.Ref{ID: "invoice-1"}).Delivered)
	})
}

// outJournal is a journal that fails for a while. Its first claim then is stored all the same.
type outJournal struct {
	machine.Store
	machine.Flows
	mu     sync.Mutex
	out    bool
	claims int
	askers map[int64]bool // that claims had meanwhile
}

func (j *outJournal) goes(out bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out, j.claims, j.askers = out, 0, map[int64]bool{}
}

func (j *outJournal) claimed() (claims, askers int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.claims, len(j.askers)
}

func (j *outJournal) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.out {
		return j.Store.Claim(ctx, ev, limit)
	}
	j.claims++
	j.askers[ev.Asker] = true
	if j.claims == 1 {
		_, _ = j.Store.Claim(ctx, ev, limit)
	}
	return nil, severed.Err
}

func (j *outJournal) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.out {
		return func(yield func(journal.Operation, error) bool) { yield(journal.Operation{}, severed.Err) }
	}
	return j.Store.List(ctx, f)
}

// While the journal is out, all claims have one asker. So what the process has to find out afterwards does not grow with
// the outage.
func TestClaimsOfAnOutageHaveOneAsker(t *testing.T) {
	each(t, "", func(t *testing.T, kept machine.Store) {
		l, j := (&line{}).Then(loses()), &outJournal{Store: kept, Flows: kept.(machine.Flows)}
		was := start(t, l, onceward.Config{Journal: kept, Backoff: once, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error { return errDiskFull }}})
		require.ErrorIs(t, was.Ask(named(t, "invoice-1")).Err, onceward.ErrPending)
		pass(time.Hour)
		_, err := was.Resume(t.Context())
		require.NoError(t, err)
		was.Crash()
		_ = was.Shutdown(cancelled())

		var told atomic.Int64
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			told.Add(1)
			return nil
		}}})
		j.goes(true)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(time.Hour)
		_, err = p.Resume(t.Context()) // beside Run
		require.ErrorIs(t, err, severed.Err)
		pass(time.Hour)
		claims, askers := j.claimed()
		assert.Greater(t, claims, 100)
		assert.Equal(t, 1, askers)
		assert.Zero(t, told.Load())
		j.goes(false)
		pass(time.Minute)
		assert.EqualValues(t, 1, told.Load())
		stop()
		<-done
	})
}
