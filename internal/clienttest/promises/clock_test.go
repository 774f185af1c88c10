package promises_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// bootClock returns the time that a machine's clock shows at now, and at the given duration since its start.
type bootClock func(now time.Time, since time.Duration) time.Time

// forAMinute returns a clock that is wrong for its first minute, and right after that.
func forAMinute(wrong bootClock) bootClock {
	return func(now time.Time, since time.Duration) time.Time {
		if since >= time.Minute {
			return now
		}
		return wrong(now, since)
	}
}

func right(now time.Time, _ time.Duration) time.Time { return now }

// A machine starts every few days, each time for less than the time in which its clock is believed. Its wrong clock
// neither opens nor closes a window. The provider never answers, so an operation is sent again until its window ends.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	const (
		day    = 24 * time.Hour
		keeps  = 7 * day // own's retention
		window = keeps - time.Hour
	)
	var snapshot time.Time
	in2030 := forAMinute(func(_ time.Time, since time.Duration) time.Time {
		return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(since)
	})
	ahead := forAMinute(func(now time.Time, _ time.Duration) time.Time { return now.Add(365 * day) })
	resumed := forAMinute(func(_ time.Time, since time.Duration) time.Time { return snapshot.Add(since) })
	daysAhead := forAMinute(func(now time.Time, _ time.Duration) time.Time { return now.Add(3 * day) })
	for i, row := range []struct {
		name   string
		clocks []bootClock   // of the starts, by turns
		every  time.Duration // from start to start
	}{
		{"it is right, once in two days", []bootClock{right}, 2 * day},
		{"it is right, once in nine days", []bootClock{right}, 9 * day},
		{"it is 2030 at every start", []bootClock{in2030}, 2 * day},
		{"it is 2030 at every other start", []bootClock{in2030, right}, 2 * day},
		{"it is 2030 at every third start", []bootClock{right, in2030, right}, 3 * day},
		{"it is a year ahead at every start", []bootClock{ahead}, 2 * day},
		{"it is a year ahead at every other start", []bootClock{right, ahead}, 2 * day},
		{"it is three days ahead at every start", []bootClock{daysAhead}, 30 * time.Hour},
		{"it is three days ahead now and then", []bootClock{right, daysAhead, right}, 30 * time.Hour},
		{"it is a snapshot's, at every start", []bootClock{resumed}, 5 * day},
		{"it is a snapshot's, at every other start", []bootClock{resumed, right}, 5 * day},
	} {
		for j, lives := range []time.Duration{10 * time.Second, 5 * time.Minute} {
			if !soak.On() && (i%2 != j || !sample.Takes(i, 3)) {
				continue
			}
			virtual(t, fmt.Sprintf("%s, for %v", row.name, lives), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "journal.db")
				l := (&line{}).Always(loses())
				first := map[string]time.Time{} // by key
				look := func(j machine.Store) (pending int) {
					for _, s := range l.Sent() {
						if at, ok := first[s.Key]; !ok {
							first[s.Key] = s.At
						} else {
							assert.Less(t, s.At.Sub(at), keeps, "sent when the provider had forgotten it")
						}
					}
					for op, err := range j.List(t.Context(), journal.Filter{}) {
						require.NoError(t, err)
						switch op.State {
						case journal.StatePending:
							pending++
						case journal.StateUnknown:
							assert.GreaterOrEqual(t, time.Since(first[op.Key]), window, "%s: %s", op.ID, op.Cause)
						}
					}
					return pending
				}
				var wasRight time.Time // when it was seen last
				lifeOf := func(clock bootClock, lives time.Duration, f func(p *process)) (pending int) {
					booted := time.Now()
					j := openSQLite(t, path)
					p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Backoff: once})
					setClock(p.Client, func() time.Time { return clock(time.Now(), time.Since(booted)) })
					for _, wait := range []time.Duration{time.Second, lives} {
						pass(wait)
						_, err := p.Resume(t.Context())
						require.NoError(t, err)
						// An operation that is first sent by a clock that is behind has a window that ends too early.
						now := clock(time.Now(), time.Since(booted))
						if now.Equal(time.Now()) {
							wasRight = now
						}
						if !now.Before(wasRight) {
							f(p)
						}
						pending = look(j)
					}
					require.NoError(t, p.Shutdown(t.Context()))
					require.NoError(t, j.Close())
					return pending
				}
				asks := 0
				ask := func(p *process) {
					asks++
					require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("order-", asks)), to("POST", ownURL)).Err, onceward.ErrPending)
				}
				lifeOf(right, time.Second, ask)
				snapshot = time.Now().Add(2 * day)
				for n := range 8 {
					pass(row.every)
					lifeOf(row.clocks[n%len(row.clocks)], lives, ask)
				}
				pending := asks
				for range 6 { // from here on it is right, and nothing new is asked for
					pass(30 * day)
					pending = lifeOf(right, time.Second, func(*process) {})
				}
				assert.Zero(t, pending, "settled, of %d", asks)
			})
		}
	}
}

// A call goes on for weeks. Its first request was sent by a clock that was ahead and came back. It is repeated for no
// longer than the provider knows the key.
func TestClockAheadBeginsAWindowForRepeats(t *testing.T) {
	t.Parallel()
	const day, keeps = 24 * time.Hour, 7 * 24 * time.Hour // own's retention
	for name, ahead := range map[string]time.Duration{"by a year": 365 * day, "by three days": 3 * day, "not at all": 0} {
		virtual(t, name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			l := (&line{}).Always(loses())
			inLife := func(ahead time.Duration, policy backoff.Policy, f func(p *process)) {
				j := openSQLite(t, path)
				p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}, Backoff: policy})
				setClock(p.Client, func() time.Time { return time.Now().Add(ahead) })
				f(p)
				require.NoError(t, p.Shutdown(t.Context()))
				require.NoError(t, j.Close())
			}
			inLife(0, once, func(p *process) { p.Ask(named(t, "order-0"), to("POST", ownURL)) })
			pass(time.Hour)
			inLife(ahead, once, func(p *process) { p.Ask(named(t, "order-1"), to("POST", ownURL)) })
			require.Len(t, l.Sent(), 2)
			first := l.Sent()[1]
			pass(5 * day)
			hourly := backoff.Policy{Initial: time.Hour, Max: time.Hour, MaxAttempts: 10000}
			inLife(0, hourly, func(p *process) {
				for range 2 { // that it is right is believed after a while
					_, err := p.Resume(t.Context())
					require.NoError(t, err)
					pass(3 * time.Hour)
				}
				ctx, cancel := context.WithTimeout(named(t, "order-1"), 30*day)
				defer cancel()
				require.ErrorIs(t, p.Ask(ctx, to("POST", ownURL)).Err, onceward.ErrOutcomeUnknown)
			})
			var sent []sent
			for _, s := range l.Sent()[2:] {
				if s.Key == first.Key {
					sent = append(sent, s)
				}
			}
			require.NotEmpty(t, sent, "it is repeated")
			for _, s := range sent {
				require.Less(t, s.At.Sub(first.At), keeps, "sent when the provider had forgotten it")
			}
			assert.Greater(t, sent[len(sent)-1].At.Sub(first.At), keeps-3*time.Hour, "as long as the window is open")
		})
	}
}

// A process whose clock is ahead reads an operation that waits for a Retry-After, and does not change its due time.
func TestClockAheadKeepsTheRetryAfter(t *testing.T) {
	for _, named := range []time.Duration{10 * time.Minute, time.Hour} {
		virtual(t, named.String(), func(t *testing.T) {
			l := (&line{}).Then(says(409, "{}", "Retry-After", fmt.Sprint(named.Seconds())))
			j := memory.New()
			cfg := onceward.Config{Journal: j, Backoff: once}
			p, ahead := start(t, l, cfg), start(t, l, cfg)
			setClock(ahead.Client, func() time.Time { return time.Now().Add(300 * time.Hour) })
			began := time.Now()
			require.ErrorIs(t, p.Ask(t.Context(), carrying("order-1")).Err, onceward.ErrPending)
			for range 3 {
				pass(2 * time.Second)
				_, err := ahead.Resume(t.Context())
				require.NoError(t, err)
				_ = ahead.Ask(t.Context(), carrying("order-1"))
			}
			pass(5 * time.Second)
			out := p.Ask(t.Context(), carrying("order-1"))
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			require.Len(t, l.Sent(), 1, "nothing is sent before the time that the provider named")
			assert.WithinDuration(t, began.Add(named), out.Op.DueAt, 10*time.Millisecond)
			pass(named)
			require.NoError(t, p.Ask(t.Context(), carrying("order-1")).Err)
		})
	}
}

// Two clocks are ahead by hundreds of hours, and differ by hours. Neither confirms the other, so an operation that is
// begun afterwards is sent again.
func TestClocksAheadConfirmNoOther(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), loses())
		cfg := onceward.Config{Journal: memory.New(), Backoff: once}
		p := start(t, l, cfg)
		require.NoError(t, p.Ask(t.Context(), carrying("order-1")).Err)
		for _, by := range []time.Duration{300 * time.Hour, 312 * time.Hour} {
			ahead := start(t, l, cfg)
			setClock(ahead.Client, func() time.Time { return time.Now().Add(by) })
			_, err := ahead.Resume(t.Context())
			require.NoError(t, err)
			pass(5 * time.Second)
		}
		require.ErrorIs(t, p.Ask(t.Context(), carrying("order-2")).Err, onceward.ErrPending)
		pass(5 * time.Minute)
		require.NoError(t, p.Ask(t.Context(), carrying("order-2")).Err)
		assert.Len(t, l.Sent(), 3)
	})
}

// An operation is first sent by a clock that is far ahead, which is seen again after one that is behind. Its window
// begins at the journal's time. It is not sent once its provider has forgotten it.
func TestClockAheadAfterOneBehind(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), loses())
		cfg := onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own()}, Backoff: once}
		p, ahead, behind := start(t, l, cfg), start(t, l, cfg), start(t, l, cfg)
		setClock(ahead.Client, func() time.Time { return time.Now().Add(300 * time.Hour) })
		setClock(behind.Client, func() time.Time { return time.Now().Add(-3 * time.Hour) })
		require.NoError(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err)
		require.ErrorIs(t, ahead.Ask(named(t, "order-2"), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
		for _, other := range []*process{behind, ahead} {
			pass(time.Second)
			_, err := other.Resume(t.Context())
			require.NoError(t, err)
		}
		p.PassInUse(8 * 24 * time.Hour) // own's retention is seven days
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.Sent(), 2)
		assert.Equal(t, journal.StateUnknown, p.Recorded(onceward.Ref{ID: "order-2"}).State)
	})
}

// A clock that is further ahead postpones an operation for the provider's Retry-After. A believed clock that is less
// far ahead waits for the same time.
func TestClockAheadOfABelievedOne(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), says(429, "{}", "Retry-After", "3600"))
		cfg := onceward.Config{Journal: onDisk(t), Backoff: once}
		p, further, on := start(t, l, cfg), start(t, l, cfg), start(t, l, cfg)
		setClock(further.Client, func() time.Time { return time.Now().Add(600 * time.Hour) })
		setClock(on.Client, func() time.Time { return time.Now().Add(300 * time.Hour) })
		require.NoError(t, p.Ask(named(t, "order-1")).Err)
		require.ErrorIs(t, further.Ask(named(t, "order-2")).Err, onceward.ErrPending)
		for range 5 {
			pass(3 * time.Minute)
			_, err := on.Resume(t.Context())
			require.NoError(t, err)
		}
		require.ErrorIs(t, on.Ask(named(t, "order-2")).Err, onceward.ErrPending)
		require.Len(t, l.Sent(), 2, "an hour has not passed")
		pass(time.Hour)
		require.NoError(t, on.Ask(named(t, "order-2")).Err)
	})
}

// A clock that is far ahead for a while does not give up an operation with a carried key. Its caller may ask for it
// again.
func TestClockAheadGivesUpNoCarriedKey(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), refuses())
		cfg := onceward.Config{Journal: onDisk(t), Backoff: once}
		p, ahead := start(t, l, cfg), start(t, l, cfg)
		setClock(ahead.Client, func() time.Time { return time.Now().Add(300 * time.Hour) })
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		require.ErrorIs(t, p.Ask(t.Context(), carrying("order-1")).Err, onceward.ErrPending)
		pass(time.Second)
		_, err := ahead.Resume(t.Context())
		require.NoError(t, err)
		op, err := p.OperationByKey(keyed(t.Context()), "order-1")
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, op.State)
		pass(time.Minute)
		require.NoError(t, p.Ask(t.Context(), carrying("order-1")).Err)
	})
}

// A backup holds an unsent operation, dated by a clock that was ahead by less than the margin. Its window begins at the
// backup's time at the earliest, because the operation may have been sent then.
func TestClockAheadBeforeABackup(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		dir := t.TempDir()
		l, j := (&line{}).Then(refuses()), openSQLite(t, filepath.Join(dir, "a.db"))
		was := start(t, l, onceward.Config{Journal: j, Backoff: once})
		setClock(was.Client, func() time.Time { return time.Now().Add(30 * time.Minute) })
		require.ErrorIs(t, was.Ask(named(t, invoice)).Err, onceward.ErrPending)
		require.NoError(t, j.Backup(t.Context(), filepath.Join(dir, "b.db")))
		restored := openSQLite(t, filepath.Join(dir, "b.db"))
		require.NoError(t, restored.Adopt(t.Context()))
		pass(23*time.Hour + 15*time.Minute) // Stripe's window is 23 hours
		require.NoError(t, start(t, l, onceward.Config{Journal: restored}).Ask(named(t, invoice)).Err)
		assert.Len(t, l.Sent(), 1)
	})
}

// A clock that leaps ahead between a claim and its attempt sends nothing. It makes a remembered operation unknown only
// if it stays ahead.
func TestClockLeapsBeforeAnAttempt(t *testing.T) {
	const leap = 1000 * time.Hour
	for _, row := range []struct {
		name  string
		steps []time.Duration // before each further ask
		kinds []error
		sent  int
	}{
		{"and comes back", []time.Duration{-leap, machine.Confirmation}, []error{onceward.ErrPending, nil}, 2},
		{"for good", []time.Duration{machine.Confirmation, 0}, []error{onceward.ErrOutcomeUnknown, onceward.ErrOutcomeUnknown}, 1},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(loses())
			var ahead, next time.Duration
			p := start(t, l, onceward.Config{Journal: j, Backoff: once, Trace: &onceward.Trace{
				Started: func(ctx context.Context, _ onceward.Operation, _ onceward.Why) context.Context {
					ahead, next = ahead+next, 0
					return ctx
				},
			}})
			began := time.Now()
			setClock(p.Client, func() time.Time { return began.Add(ahead) })
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			ahead, next = time.Hour, leap
			ctx, cancel := context.WithTimeout(named(t, invoice), 2*leap)
			defer cancel()
			require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
			require.Len(t, l.Sent(), 1)
			for i, step := range row.steps {
				ahead += step
				require.ErrorIs(t, p.Ask(named(t, invoice)).Err, row.kinds[i], "ask %d", i)
			}
			assert.Len(t, l.Sent(), row.sent)
		})
	}
}

// An operation that is first sent by a right clock keeps its window, even if another clock has set the journal's time
// far ahead.
func TestClockOfAnotherWasAhead(t *testing.T) {
	for _, ahead := range []time.Duration{3 * 24 * time.Hour, 300 * 24 * time.Hour} {
		virtual(t, ahead.String(), func(t *testing.T) {
			j := memory.New()
			p := start(t, &line{}, onceward.Config{Journal: j})
			setClock(p.Client, func() time.Time { return time.Now().Add(ahead) })
			require.NoError(t, p.Ask(named(t, "order-1")).Err) // the journal has seen no clock before
			l := (&line{}).Then(loses(), loses())
			require.NoError(t, start(t, l, onceward.Config{Journal: j}).Ask(named(t, "order-2")).Err)
			assert.Len(t, l.Sent(), 3)
		})
	}
}

// A clock that leaps ahead during the first attempt does not end the operation's window until the leap is believed.
func TestClockLeapsDuringAnAttempt(t *testing.T) {
	const leap = 1000 * time.Hour
	for _, comesBack := range []bool{true, false} {
		virtual(t, fmt.Sprintf("and comes back: %v", comesBack), func(t *testing.T) {
			var ahead time.Duration
			l := (&line{}).Then(doing(func() { ahead = leap }, loses()))
			p := start(t, l, onceward.Config{Backoff: once})
			setClock(p.Client, func() time.Time { return time.Now().Add(ahead) })
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			if comesBack {
				ahead = 0
			}
			pass(time.Hour)
			p.Ask(named(t, invoice)) // by which the journal sees where the clock is
			pass(time.Hour)
			if out := p.Ask(named(t, invoice)); comesBack {
				require.NoError(t, out.Err)
				assert.Len(t, l.Sent(), 2)
			} else {
				require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
				assert.Len(t, l.Sent(), 1)
			}
		})
	}
}

// dated is a journal with a separate clock, an hour ahead of this machine's.
type dated struct{ *memory.Journal }

func (dated) Now() time.Time { return time.Now().Add(time.Hour) }

// If the journal has a clock for all its processes, operations are dated by that clock.
func TestClockOfTheJournal(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := dated{memory.New()}
		client, err := onceward.New(onceward.Config{Journal: j, HTTPClient: &http.Client{Transport: &line{}}, Providers: []providers.Provider{own()}})
		require.NoError(t, err)
		defer client.Shutdown(t.Context())
		req, err := http.NewRequestWithContext(named(t, "invoice-1"), http.MethodPost, chargeURL, http.NoBody)
		require.NoError(t, err)
		resp, err := client.HTTPClient().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		op, err := j.Get(t.Context(), journal.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.True(t, op.CreatedAt.Equal(j.Now()), op.CreatedAt)
	})
}
