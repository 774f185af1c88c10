package background_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

func TestRefusedCredentialInTheForeground(t *testing.T) {
	t.Parallel()
	for _, refusal := range []reply{wrongKey, says(407, "")} {
		each(t, "cancels a new operation, and its caller gets the refusal", func(t *testing.T, j machine.Store) {
			p := start(t, (&line{}).Then(refusal), onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
			require.NoError(t, out.Err)
			assert.Equal(t, onceward.StateCancelled, out.Op.State)
		})
		each(t, "leaves a pending operation pending, and the error has the refusal", func(t *testing.T, j machine.Store) {
			p := start(t, (&line{}).Then(refuses(), refusal), onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
			require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
			pass(time.Hour)
			out := p.Ask(named(t, invoice), to(http.MethodPost, ownURL))
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			require.ErrorIs(t, out.Err, onceward.ErrCredentialRefused)
			assert.Contains(t, []int{401, 407}, out.Status)
			assert.Equal(t, journal.StatePending, p.Recorded(out.Op.Ref).State)
		})
	}
}

// A refused request is cancelled, whether a call or Resume met the refusal.
func TestRefusedRequestIsCancelled(t *testing.T) {
	t.Parallel()
	for name, background := range map[string]bool{"in the foreground": false, "in the background": true} {
		each(t, name, func(t *testing.T, j machine.Store) {
			p := start(t, (&line{}).Then(refuses(), invalid), onceward.Config{Journal: j, Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(time.Hour)
			if background {
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, report.Cancelled)
			} else {
				out := p.Ask(named(t, invoice))
				require.NoError(t, out.Err)
				assert.Equal(t, 400, out.Status)
			}
			assert.Equal(t, journal.StateCancelled, p.Recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

// An operation that a refusal leaves pending waits for the provider's Retry-After, whether a call or Resume met it.
func TestRefusalKeepsARetryAfter(t *testing.T) {
	for _, row := range []struct {
		name  string
		first reply
		then  reply
	}{
		{"of a credential", refuses(), says(401, "", "Retry-After", "7200")},
		{"of a request that may have run", loses(), says(429, "", "Stripe-Should-Retry", "false", "Retry-After", "7200")},
	} {
		for name, background := range map[string]bool{"in the foreground": false, "in the background": true} {
			virtual(t, row.name+", "+name, func(t *testing.T) {
				l := (&line{}).Then(row.first).Always(row.then)
				p := start(t, l, onceward.Config{Backoff: once})
				out := p.Ask(named(t, invoice))
				require.ErrorIs(t, out.Err, onceward.ErrPending)
				pass(time.Hour)
				if background {
					_, err := p.Resume(t.Context())
					require.NoError(t, err)
				} else {
					require.Error(t, p.Ask(named(t, invoice)).Err)
				}
				op := p.Recorded(out.Op.Ref)
				assert.Equal(t, journal.StatePending, op.State, op.Cause)
				assert.Contains(t, op.Cause, "refused")
				assert.GreaterOrEqual(t, time.Until(op.DueAt), 2*time.Hour-time.Second)
			})
		}
	}
}

// A key expired during an outage. Its refusal in the background cancels nothing, and pending operations wait for the
// next key.
func TestRefusedCredentialInTheBackground(t *testing.T) {
	t.Parallel()
	const waiting, concurrency = 16, 4
	for _, row := range []struct {
		name    string
		changes func(n int64) string // of the credential with each request
	}{
		{"a bearer token", func(int64) string { return "Bearer old" }},
		{"a signature, another one with each request", func(n int64) string { return fmt.Sprint("AWS4-HMAC-SHA256 Credential=key/day, Signature=", n) }},
	} {
		for _, end := range []string{"it is taken again", "there is another one", "nobody is reached for a while", "a transport panics for a while"} {
			virtual(t, row.name+", and then "+end, func(t *testing.T) {
				l := (&line{}).Always(refuses())
				var n atomic.Int64
				var other atomic.Bool
				p := start(t, l, onceward.Config{Backoff: once, Concurrency: concurrency, Authorize: func(r *http.Request) error {
					credential := row.changes(n.Add(1))
					if other.Load() {
						credential = "Bearer new"
					}
					r.Header.Set("Authorization", credential)
					return nil
				}})
				for i := range waiting {
					require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrPending)
				}
				l.Always(wrongKey)
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { _ = p.Run(seam.Seldom(ctx, time.Minute)) }()
				pass(30 * time.Minute)
				// The credential pauses for 30 s, then twice as long each time, up to ten minutes. That makes seven
				// probes, and one more if a single refusal causes no pause. The operations that run at the first
				// refusal are sent too.
				assert.LessOrEqual(t, len(l.Sent()), concurrency+7)
				for _, op := range p.Everything() {
					require.Equal(t, journal.StatePending, op.State, op.Cause)
				}
				if report.Claimed > 0 {
					require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialRefused)
					require.ErrorIs(t, report.Problems[0], onceward.ErrPending)
				}

				other.Store(end == "there is another one")
				if end == "nobody is reached for a while" { // a probe does not reach the provider
					l.Always(refuses())
					pass(time.Hour)
				}
				if end == "a transport panics for a while" {
					l.Always(reply{Answer: func(*http.Request) (*http.Response, error) { panic("a bug") }})
					pass(12 * time.Minute) // the next probe comes within ten
				}
				l.Always(says(200, paid))
				pass(time.Hour)
				for _, op := range p.Everything() {
					assert.Equal(t, journal.StateCompleted, op.State)
				}
			})
		}
	}
}

// One tenant's refused credential does not delay the others.
func TestRefusedCredentialOfOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Backoff: once, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+r.Header.Get("X-Tenant"))
			return nil
		}})
		for i := range 20 {
			tenant := fmt.Sprint("tenant-", i%2)
			require.ErrorIs(t, p.Ask(onceward.WithScope(named(t, fmt.Sprint("invoice-", i)), tenant), with("X-Tenant", tenant)).Err, onceward.ErrPending)
		}
		l.Always(reply{Answer: func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("X-Tenant") == "tenant-0" {
				return wrongKey.Answer(r)
			}
			return says(200, paid).Answer(r)
		}})
		pass(time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		for _, op := range p.Everything() {
			if op.Scope == "tenant-0" {
				assert.Equal(t, journal.StatePending, op.State)
			} else {
				assert.Equal(t, journal.StateCompleted, op.State)
			}
		}
	})
}

// A refused credential is probed by one request at a time.
func TestRefusedCredentialHasOneProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Backoff: once, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer old")
			return nil
		}})
		for i := range 20 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		l.Always(wrongKey)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		slow := (&line{}).Always(takes(20*time.Second, wrongKey))
		p = start(t, slow, onceward.Config{Journal: p.Journal.Store, Backoff: once, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer old")
			return nil
		}})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		sent := slow.Sent()
		require.Greater(t, len(sent), 10)
		for i := 9; i < len(sent); i++ { // after those that were under way together
			assert.GreaterOrEqual(t, sent[i].At.Sub(sent[i-1].At), 20*time.Second)
		}
	})
}

// If operations of one scope have several credentials, those with an accepted one are sent beside the others.
func TestRefusedCredentialBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Backoff: once, Concurrency: 1, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+r.Header.Get("X-Account"))
			return nil
		}})
		for i := range 12 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("invoice-", i)), with("X-Account", fmt.Sprint(i/6))).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		l.Always(reply{Answer: func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("X-Account") == "0" {
				return wrongKey.Answer(r)
			}
			return says(200, paid).Answer(r)
		}})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 6, completedOf(p))
	})
}

// A revoked tenant's operations are passed over, and not claimed one by one. One operation at a time, at growing
// intervals, tests the credential. The report says why. A caller who asks is served at once.
func TestRefusedCredentialIsCheckedBeforeTheClaim(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		const many = 20
		l := (&line{}).Always(refuses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once, Concurrency: 1, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer old")
			return nil
		}})
		for i := range many {
			require.ErrorIs(t, p.Ask(onceward.WithScope(named(t, fmt.Sprint("invoice-", i)), "revoked")).Err, onceward.ErrPending)
		}
		pass(time.Hour)
		l.Always(wrongKey)
		claims := func() (n int64) {
			for _, op := range p.Everything() {
				n += op.Claim
			}
			return n
		}
		for range 5 {
			before, asked := claims(), len(l.Sent())
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Len(t, l.Sent(), asked+1, "one finds out")
			assert.Equal(t, before+1, claims())
			assert.Equal(t, many-1, report.PassedOver)
			require.Len(t, report.Problems, 2)
			for _, problem := range report.Problems {
				require.ErrorIs(t, problem, onceward.ErrCredentialRefused)
				require.ErrorIs(t, problem, onceward.ErrPending)
			}
			pass(time.Hour)
		}
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		l.Always(says(200, paid))
		for i := range many {
			assert.NoError(t, p.Ask(onceward.WithScope(named(t, fmt.Sprint("invoice-", i)), "revoked")).Err, "also for what has just found out")
		}
	})
}

// whenDue answers each request with the Retry-After that its X-Due header names.
var whenDue = reply{Answer: func(r *http.Request) (*http.Response, error) {
	return says(429, `{"error":{"type":"rate_limit"}}`, "Retry-After", r.Header.Get("X-Due")).Answer(r)
}}

// A request that does not, or no longer, test the credential ends no probe by another request.
func TestRefusedCredentialKeepsItsProbe(t *testing.T) {
	t.Parallel()
	const second, minute = time.Second, 30 * time.Second // half of one
	slow := takes(60*minute, wrongKey)
	busy := says(429, `{"error":{"type":"rate_limit"}}`, "Retry-After", "1200")
	for _, row := range []struct {
		name  string
		due   []time.Duration
		says  []reply
		probe int // the slow request's index
	}{
		{"one that was under way before it was refused", []time.Duration{second, minute, 2 * minute, 2 * minute}, []reply{takes(50*minute, loses()), wrongKey, slow}, 2},
		{"one that tested the credential, and may not try again", []time.Duration{second, 31 * minute, 40 * minute, 40 * minute}, []reply{wrongKey, busy, wrongKey, slow}, 3},
		{"one that did not reach the provider, and may not try again", []time.Duration{second, 30*minute + 5*second, 31 * minute}, []reply{wrongKey, refuses(), slow}, 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			credential := func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer old")
				return nil
			}
			left := start(t, (&line{}).Always(whenDue), onceward.Config{Backoff: once, Authorize: credential})
			for _, in := range row.due {
				left.Due(in)
			}
			l := (&line{}).Then(row.says...).Always(says(200, paid))
			p := start(t, l, onceward.Config{Journal: left.Journal.Store, Authorize: credential, AttemptTimeout: 3 * time.Hour, MaxWait: 4 * time.Hour,
				Backoff: backoff.Policy{Initial: 30 * minute, Max: 30 * minute}})
			ctx, stop := context.WithTimeout(seam.Seldom(t.Context(), time.Minute), 3*time.Hour)
			defer stop()
			require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
			sent := l.Sent()
			require.Greater(t, len(sent), row.probe+1)
			assert.GreaterOrEqual(t, sent[row.probe+1].At.Sub(sent[row.probe].At), 60*minute)
		})
	}
}

// A credential is probed again, even if the clock was set back during a probe.
func TestRefusedCredentialAndAClockSetBack(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		left := start(t, (&line{}).Always(whenDue), onceward.Config{Backoff: once})
		left.Due(time.Second)
		left.Due(2 * time.Second)
		l := (&line{}).Then(wrongKey, takes(20*time.Second, wrongKey)).Always(says(200, paid))
		p := start(t, l, onceward.Config{Journal: left.Journal.Store, Backoff: once})
		var back atomic.Int64
		setClock(p.Client, func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Hour)
		defer stop()
		time.AfterFunc(10*time.Minute+40*time.Second, func() { back.Store(int64(time.Minute)) })
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		for _, op := range p.Everything() {
			assert.Equal(t, journal.StateCompleted, op.State, op.Cause)
		}
	})
}
