package onceward_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// What Run and Resume claim: by today's tables, of the providers that they know, with
// the credentials that they have, and no more than there is a slot for.

func TestACorrectedTableBindsWhatIsPending(t *testing.T) {
	for _, row := range []struct {
		name    string
		correct func(*providers.Endpoint)
		after   time.Duration
		sent    int
		state   onceward.State
	}{
		{"uncorrected", func(*providers.Endpoint) {}, 20 * time.Hour, 2, onceward.Completed},
		{"its retention is lower", func(e *providers.Endpoint) { e.Retention = 10 * time.Hour }, 20 * time.Hour, 1, onceward.Unknown},
		{"it remembers nothing, as turned out", func(e *providers.Endpoint) { e.Remembers, e.Retention, e.InFlightGuard = providers.Nothing, 0, false }, time.Hour, 1, onceward.Unknown},
		{"it has no guard, as turned out", func(e *providers.Endpoint) { e.InFlightGuard = false }, time.Hour, 1, onceward.Unknown},
		{"it takes no key, as turned out", func(e *providers.Endpoint) { *e = providers.Endpoint{Pattern: e.Pattern} }, time.Hour, 1, onceward.Unknown},
		{"a wider table changes nothing", func(e *providers.Endpoint) { e.Retention = 1000 * time.Hour }, 8 * 24 * time.Hour, 1, onceward.Unknown},
	} {
		for _, found := range []string{"parked", "left by a dead process"} {
			each(t, row.name+", "+found, func(t *testing.T, j journal.Journal) {
				l := &line{}
				was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
				ask := func() { was.ask(named(t, "order-1"), to("POST", ownURL)) }
				if found == "parked" {
					l.then(loses())
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
				assert.Equal(t, row.state, now.recorded(onceward.Ref{ID: "order-1"}).State)
				assert.Len(t, l.sent(), row.sent)
			})
		}
	}
}

func TestEveryAttemptAsksTheNarrowedTerms(t *testing.T) {
	each(t, "the window that is left by the corrected table ends within the run", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses()).always(says(429, `{}`, "Retry-After", "60"))
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		was.ask(named(t, "order-1"), to("POST", ownURL))
		pass(44*time.Minute + 30*time.Second)
		now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.Retention = time.Hour })}})
		_, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.Unknown, now.recorded(onceward.Ref{ID: "order-1"}).State)
		assert.Len(t, l.sent(), 2, "the next one would be past the 45 minutes")
	})
}

func TestAProcessThatDoesNotKnowTheProviderClaimsNothingOfIt(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := &line{}
		var logged bytes.Buffer
		was := start(t, l, onceward.Config{Journal: j, Backoff: once})
		for i := range 50 {
			l.then(loses())
			was.ask(named(t, fmt.Sprint("parked-", i)))
		}
		leavesInFlight(t, was, l, func() { was.ask(named(t, "left")) })
		before := was.everything()
		sent := len(l.sent())
		pass(time.Hour)

		strange := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, strange.ask(named(t, "other"), to("POST", ownURL)).err)
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
		after := strange.everything()
		for i, op := range before {
			assert.Equal(t, op, after[i], "it is as it was")
		}
		require.Len(t, l.sent(), sent+1)

		back := start(t, l, onceward.Config{Journal: j})
		report, err = back.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 51, report.Completed)
	})
}

func TestAnotherKeyOnTheWireIsNeverSentWhereItMayHaveRun(t *testing.T) {
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
		{"quoted, then raw, may have run", quoted, same, loses(), onceward.Unknown, ""},
		{"raw, then quoted, may have run", same, quoted, loses(), onceward.Unknown, ""},
		{"another header, may have run", renamed, same, loses(), onceward.Unknown, ""},
		{"unchanged, may have run", same, same, loses(), onceward.Completed, "Idempotency-Key"},
		{"quoted, then raw, nothing has run", quoted, same, says(429, `{}`), onceward.Completed, "Idempotency-Key"},
		{"another header, nothing has run", same, renamed, says(429, `{}`), onceward.Completed, "X-Idempotency-Key"},
		{"another header, completed", same, renamed, says(200, paid), onceward.Completed, ""},
	} {
		for _, who := range []string{"Resume", "its caller", "left by a dead process"} {
			each(t, row.name+", "+who, func(t *testing.T, j journal.Journal) {
				l := (&line{}).then(row.first)
				was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own(row.was)}})
				ask := func(p *process) outcome { return p.ask(named(t, "order-1"), to("POST", ownURL)) }
				if who == "left by a dead process" {
					l.script = nil
					if row.state == onceward.Completed && row.header != "Idempotency-Key" || row.name == "quoted, then raw, nothing has run" {
						return // it counts as sent
					}
					leavesInFlight(t, was, l, func() { ask(was) })
				} else {
					ask(was)
				}
				pass(time.Hour)
				before := len(l.sent())
				now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(row.now)}})
				if who == "its caller" {
					out := ask(now)
					if row.state == onceward.Unknown {
						require.ErrorIs(t, out.err, onceward.ErrOutcomeUnknown)
					} else {
						require.NoError(t, out.err)
						assert.Equal(t, row.header == "", out.op.Replayed)
					}
				} else {
					_, err := now.Resume(t.Context())
					require.NoError(t, err)
				}
				op := now.recorded(onceward.Ref{ID: "order-1"})
				assert.Equal(t, row.state, op.State, op.Cause)
				if row.header == "" {
					require.Len(t, l.sent(), before)
					return
				}
				require.Len(t, l.sent(), before+1)
				assert.Equal(t, op.Key, strings.Trim(l.sent()[before].Header.Get(row.header), `"`))
			})
		}
	}
	// The configuration itself was corrected: another contract for the same host.
	each(t, "IETF, then Raw", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.IETF(24*time.Hour, "own.example")}})
		was.ask(named(t, "order-1"), to("POST", ownURL))
		pass(time.Hour)
		now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
		report, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.PassedOver)
		require.ErrorIs(t, now.ask(named(t, "order-1"), to("POST", ownURL)).err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.sent(), 1)
	})
}

// README: Run in a process without the credential takes nothing from the caller who has
// it.
func TestRunWithoutTheCredentialDoesNotKeepItsCallerFromAsking(t *testing.T) {
	for _, row := range []struct {
		name      string
		authorize func(*http.Request) error
	}{
		{"there is no Authorize", nil},
		{"Authorize does not supply it", func(*http.Request) error { return nil }},
		{"Authorize fails", func(*http.Request) error { return assert.AnError }},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			const asks = 36
			credential := with("Authorization", "Bearer s3cr3t")
			l := &line{}
			caller := start(t, l, onceward.Config{Journal: j, Backoff: once})
			background := start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: row.authorize})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- background.Run(ctx) }()
			for i := range asks {
				l.then(says(429, `{}`, "Retry-After", "60"))
				name := fmt.Sprint("invoice-", i)
				out := caller.ask(named(t, name), credential)
				require.ErrorIs(t, out.err, onceward.ErrPending)
				due := out.op.DueAt
				pass(2 * time.Minute)
				assert.Equal(t, due.UTC(), later(due, caller.recorded(onceward.Ref{ID: name}).DueAt.Add(-2*time.Minute)).UTC(), "not moved beyond now")
				require.NoError(t, caller.ask(named(t, name), credential).err)
			}
			assert.Len(t, l.sent(), 2*asks)
			stop()
			<-done
		})
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func TestWhatNobodyHereCanSignIsNotClaimedButReported(t *testing.T) {
	const tenants = 20
	for _, row := range []struct {
		name      string
		url       string
		authorize func(*http.Request) error
	}{
		{"a provider, and there is no Authorize", chargeURL, nil},
		{"a host that no provider serves, which Authorize is not asked for", "https://unlisted.example/hook", func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer fresh")
			return nil
		}},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := (&line{}).always(refuses())
			p := start(t, l, onceward.Config{Journal: j, Backoff: once, Authorize: row.authorize})
			for i := range tenants {
				out := p.ask(named(t, fmt.Sprint("order-", i)), to("POST", row.url), with("Authorization", "Bearer s3cr3t"))
				require.ErrorIs(t, out.err, onceward.ErrPending)
				var e *onceward.Error
				require.ErrorAs(t, out.err, &e)
				assert.False(t, e.InBackground, "it says at once that only its caller can")
			}
			before := p.everything()
			pass(time.Hour)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Zero(t, report.Claimed)
			assert.Equal(t, tenants, report.PassedOver)
			require.Len(t, report.Problems, tenants)
			require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
			assert.Contains(t, report.Problems[0].Error(), "header Authorization")
			assert.NotContains(t, report.Problems[0].Error(), "s3cr3t")
			assert.Equal(t, before, p.everything())
		})
	}
}

func TestAProviderIsLeftAloneForAHeaderThatAuthorizeDoesNotSupply(t *testing.T) {
	each(t, "and another tenant's operations go on", func(t *testing.T, j journal.Journal) {
		const many = 100
		var asked atomic.Int64
		l := (&line{}).always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Concurrency: 4, Authorize: func(r *http.Request) error {
			asked.Add(1)
			r.Header.Set("X-Api-Key", "fresh")
			return nil
		}})
		for i := range many {
			p.ask(named(t, fmt.Sprint("order-", i)), with("Authorization", "Bearer s3cr3t"))
		}
		p.ask(onceward.WithScope(named(t, "other"), "tenant-2"), with("X-Api-Key", "s3cr3t"))
		l.always(says(200, paid))
		asked.Store(0)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Less(t, asked.Load(), int64(20), "one tries, later and later")
		assert.Equal(t, journal.Completed, p.recorded(onceward.Ref{Scope: "tenant-2", ID: "other"}).State)
	})
}

func TestABlackHoleHoldsUpNoOther(t *testing.T) {
	const many = 40
	hosts := map[string]string{"a provider": ownURL, "a host that none serves": "https://hole.example/x"}
	for kind, hole := range hosts {
		for _, how := range []string{"Run", "Resume"} {
			each(t, kind+", "+how, func(t *testing.T, j journal.Journal) {
				l := (&line{}).always(refuses())
				p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Stripe(), own()}})
				for i := range many {
					p.ask(named(t, fmt.Sprint("hole-", i)), to("POST", hole)) // the oldest come first
				}
				for i := range many {
					p.ask(named(t, fmt.Sprint("charge-", i)))
					p.ask(named(t, fmt.Sprint("hook-", i)), to("POST", "https://fine.example/x"))
				}
				pass(time.Hour)
				var mu sync.Mutex
				in, most := 0, 0
				began := time.Now()
				var last time.Time
				next := start(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.String() == hole {
						mu.Lock()
						in++
						most = max(most, in)
						mu.Unlock()
						defer func() { mu.Lock(); in--; mu.Unlock() }()
						return hangs().answer(r)
					}
					mu.Lock()
					last = time.Now()
					mu.Unlock()
					return takes(100*time.Millisecond, says(200, paid)).answer(r)
				}), onceward.Config{Journal: j, Providers: []providers.Provider{providers.Stripe(), own()}, Concurrency: 4})
				if how == "Run" {
					ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
					defer stop()
					require.ErrorIs(t, next.Run(ctx), context.DeadlineExceeded)
				} else {
					report, err := next.Resume(t.Context())
					require.NoError(t, err)
					assert.Positive(t, report.PassedOver)
					most := 65 * time.Second
					if hole != ownURL {
						most = 245 * time.Second // another attempt is not allowed: each has MaxWait
					}
					assert.Less(t, report.Elapsed, most, "a provider that hangs is passed over")
				}
				for i := range many {
					assert.Equal(t, journal.Completed, next.recorded(onceward.Ref{ID: fmt.Sprint("charge-", i)}).State)
					assert.Equal(t, journal.Completed, next.recorded(onceward.Ref{ID: fmt.Sprint("hook-", i)}).State)
				}
				assert.Less(t, last.Sub(began), 2*time.Second)
				assert.LessOrEqual(t, most, 4)
			})
		}
	}
}

// What is claimed counts as sent when its process is killed, so that nothing is claimed
// that has no slot.
func TestOnlyWhatHasASlotIsClaimed(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		for i := range 100 {
			p.ask(named(t, fmt.Sprint("charge-", i)))
			p.ask(named(t, fmt.Sprint("hook-", i)), to("POST", fmt.Sprintf("https://host-%d.example/x", i)))
		}
		pass(time.Hour)
		l.always(hangs())
		next := start(t, l, onceward.Config{Journal: j, Concurrency: 3})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- next.Run(ctx) }()
		pass(time.Second)
		held := map[bool]int{}
		for _, op := range next.everything() {
			if op.State == journal.InFlight {
				held[op.Provider == ""]++
			}
		}
		l.mu.Lock()
		assert.Equal(t, l.now, held[true]+held[false], "what is in flight is on the wire")
		l.mu.Unlock()
		assert.Equal(t, 3, held[false])
		assert.LessOrEqual(t, held[true], 8*3)
		assert.Greater(t, held[true], 3)
		stop()
		<-done
	})
}

func TestAnotherModeIsNeverSentInTheBackground(t *testing.T) {
	signs := func(key *string) func(*http.Request) error {
		return func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+*key)
			return nil
		}
	}
	for name, first := range map[string]reply{"may have run": loses(), "nothing has run": says(429, `{}`, "Retry-After", "1")} {
		each(t, name, func(t *testing.T, j journal.Journal) {
			key := "sk_test_1"
			l := (&line{}).then(first)
			p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Backoff: once, Authorize: signs(&key)})
			require.ErrorIs(t, p.ask(named(t, "invoice-1"), with("Authorization", "Bearer sk_test_1")).err, onceward.ErrPending)
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
			assert.Len(t, l.sent(), 1)
			key = "sk_test_2"
			pass(time.Hour)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			assert.Len(t, l.sent(), 2)
		})
	}
	each(t, "the first attempt's mode is recorded, whoever made it", func(t *testing.T, j journal.Journal) {
		l := &line{}
		dead := start(t, l, onceward.Config{Journal: j, Providers: modes()})
		leavesInFlight(t, dead, l, func() { dead.ask(named(t, "invoice-1"), with("Authorization", "Bearer of another kind")) })
		key := "sk_test_1"
		p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Backoff: once, Authorize: signs(&key)})
		l.then(loses())
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "test", p.recorded(onceward.Ref{ID: "invoice-1"}).Mode)
		key = "sk_live_1"
		pass(time.Hour)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.sent(), 2)
		assert.Equal(t, journal.Pending, p.recorded(onceward.Ref{ID: "invoice-1"}).State)
	})
	each(t, "nor in the second attempt of a call", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		keys := []string{"sk_test_1", "sk_test_1", "sk_live_1"}
		p := start(t, l, onceward.Config{Journal: j, Providers: modes(), Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+keys[0])
			keys = keys[min(1, len(keys)-1):]
			return nil
		}})
		out := p.ask(named(t, "invoice-1"))
		require.ErrorIs(t, out.err, onceward.ErrKeyReused)
		var e *onceward.Error
		require.ErrorAs(t, out.err, &e)
		assert.Equal(t, []string{"mode"}, e.Differs)
		assert.Len(t, l.sent(), 1)
		assert.Equal(t, journal.Pending, p.recorded(onceward.Ref{ID: "invoice-1"}).State)
	})
}

// No table is not a table of zeros: who does not know an operation's provider leaves it
// to those who do, by asking for it as by claiming it.
func TestAProcessWithoutTheTableNarrowsNothingByAsking(t *testing.T) {
	for _, row := range []struct {
		name  string
		found func(t *testing.T, p *process, l *line, ask func())
		sent  int
	}{
		{"parked", func(_ *testing.T, _ *process, l *line, ask func()) { l.then(loses()); ask() }, 1},
		{"parked, and nothing has run", func(_ *testing.T, _ *process, l *line, ask func()) { l.then(refuses()); ask() }, 0},
		{"left by a dead process", func(t *testing.T, p *process, l *line, ask func()) { leavesInFlight(t, p, l, ask) }, 1},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := &line{}
			was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
			row.found(t, was, l, func() { was.ask(named(t, "order-1"), to("POST", ownURL)) })
			pass(2 * time.Minute)
			stranger := start(t, l, onceward.Config{Journal: j, Backoff: once}) // that knows Stripe alone
			out := stranger.ask(named(t, "order-1"), to("POST", ownURL))
			var e *onceward.Error
			require.ErrorAs(t, out.err, &e)
			assert.ErrorIs(t, e, onceward.ErrPending)
			assert.ErrorContains(t, e, "add it to Config.Providers")
			assert.False(t, e.InBackground, "as far as this client knows")
			assert.Len(t, l.sent(), row.sent)
			now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
			_, err := now.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, onceward.Completed, now.recorded(onceward.Ref{ID: "order-1"}).State)
			require.Len(t, l.sent(), row.sent+1)
			assert.Equal(t, l.keys()[0], l.keys()[row.sent])
		})
	}
}

func TestWhatWasCancelledUnderNoTableHasTheTermsOfTheFirst(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		ctx, cancel := context.WithCancel(named(t, "order-1"))
		l := (&line{}).then(doing(cancel, refuses()))
		was := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, was.ask(ctx, to("POST", ownURL)).err, onceward.ErrNotSent)
		l.then(loses())
		now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		out := now.ask(named(t, "order-1"), to("POST", ownURL))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		pass(2 * time.Hour)
		_, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.Completed, now.recorded(onceward.Ref{ID: "order-1"}).State)
	})
}

func TestWhatWasBegunWithACredentialThatIsGoneIsNotPromised(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		scoped := own()
		scoped.CredentialScoped = true
		l := (&line{}).then(refuses())
		token := "Bearer old"
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{scoped}, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", token)
			return nil
		}})
		require.ErrorIs(t, p.ask(named(t, "order-1"), to("POST", ownURL)).err, onceward.ErrPending)
		token = "Bearer new"
		pass(2 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		assert.False(t, report.Problems[0].InBackground)
		assert.Equal(t, onceward.Pending, report.Problems[0].Operation.State)
		assert.NoError(t, p.ask(named(t, "order-1"), to("POST", ownURL)).err, "its caller can have it sent")
		assert.Len(t, l.sent(), 1)
	})
}
