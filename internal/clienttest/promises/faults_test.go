package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// faults are the rows in the table "Faults, and what the caller sees" of
// docs/design.md, in its order.
var faults = []struct {
	name string // the row's first cell
	show func(t *testing.T)
}{
	{"journal can't record the intent", intentNotRecorded},
	{"journal can't record an answer, park, doubt or cancel, or an intent's commit fails and may have landed", endNotRecorded},
	{"another operation has the carried key", keyHeldByAnother},
	{"same ID, another request", anotherRequest},
	{"another goroutine or process holds it", heldByAnother},
	{"the provider says in flight (409)", inFlightAtTheProvider},
	{"asked again for what may have run, and the retry budget is used up", askedBeyondTheBudget},
	{"delay beyond the deadline", delayBeyondTheDeadline},
	{"out of attempts, or refused after an attempt that may have run", outOfAttempts},
	{"an attempt takes longer than `AttemptTimeout`", attemptTakesLong},
	{"response cut after its status line", cutAfterTheStatusLine},
	{"retention passed before a resend", retentionPassed},
	{"context cancelled before anything was sent", cancelledBeforeSending},
	{"context cancelled after it", cancelledAfterSending},
	{"`Run` or `Resume` ends while it sends what was pending", backgroundEnds},
	{"a wrong credential (401) on a first attempt", wrongCredential},
	{"a wrong credential on what was pending", wrongCredentialLater},
	{"a withheld header is missing on a resumed attempt", withheldHeaderMissing},
	{"the credential changed where keys are scoped to it", credentialChanged},
	{"the credential changed, and the operation may have run", credentialChangedInDoubt},
	{"asked again after reap", askedAgainAfterReap},
	{"the clock stands behind the journal", clockBehindTheJournal},
	{"the journal was restored or copied", restoredOrCopied},
	{"body over the limit, unreadable body, invalid key", notRecordable},
	{"CONNECT, Upgrade, a streaming request", notRepeatable},
}

func TestFaultsAndTheCallersResult(t *testing.T) {
	t.Parallel()
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel() // they wait for disks and networks
			fault.show(t)
		})
	}
}

func TestEveryRowOfTheFaultTableIsReached(t *testing.T) {
	text, err := os.ReadFile("../../../docs/design.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Faults, and what the caller sees\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var promised []string
	for line := range strings.Lines(section) {
		if row, is := strings.CutPrefix(line, "| "); is {
			cell, _, _ := strings.Cut(row, " |")
			promised = append(promised, cell)
		}
	}
	require.NotEmpty(t, promised)
	var shown []string
	for _, fault := range faults {
		shown = append(shown, fault.name)
	}
	assert.Equal(t, promised[1:], shown, "below the table's head, each row has a subtest of its name, and each subtest a row")
}

func intentNotRecorded(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	j := &failing{Store: onDisk(t)}
	p := calling(t, srv, onceward.Config{Journal: j})
	j.Fails(false, machine.EventBegin)
	out := p.Ask(named(t, invoice), charging(srv))
	require.ErrorIs(t, out.Err, onceward.ErrJournal)
	require.ErrorIs(t, out.Err, errDiskFull)
	assert.Zero(t, srv.Requests())
	assert.Empty(t, p.Everything())

	j.Fails(false)
	require.NoError(t, p.Ask(named(t, invoice), charging(srv)).Err)
	assert.Len(t, srv.Effects(), 1)
}

func endNotRecorded(t *testing.T) {
	replayed := http.Header{"Idempotent-Replayed": {"true"}}
	for _, row := range []struct {
		name   string
		faults []providertest.Fault
		fails  []machine.EventKind
		lands  bool
		status int // of the response, or of the one in the error; 0: there is none
		kind   error
		state  onceward.State
		again  error // of an asker meanwhile; nil: the answer
	}{
		{"an answer", nil, []machine.EventKind{machine.EventComplete}, false, 200, nil, onceward.StateCompleted, nil},
		{"a park", repeated(5, providertest.DropBefore()), []machine.EventKind{machine.EventPark}, false, 0, onceward.ErrPending, onceward.StatePending, onceward.ErrPending},
		{"a doubt", []providertest.Fault{providertest.Status(500, replayed)}, []machine.EventKind{machine.EventMarkUnknown}, false, 500, onceward.ErrOutcomeUnknown, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"a cancel", []providertest.Fault{providertest.Status(401, nil)}, []machine.EventKind{machine.EventCancel}, false, 401, nil, onceward.StateCancelled, onceward.ErrJournal},
		{"an intent that landed", nil, []machine.EventKind{machine.EventBegin, machine.EventCancel}, true, 0, onceward.ErrJournal, onceward.StateCancelled, onceward.ErrJournal},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := serving(t, providers.Stripe(), nil)
			srv.Script(row.faults...)
			j := &failing{Store: onDisk(t)}
			cfg := onceward.Config{Journal: j, Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Minute, MaxAttempts: 5}}
			p := calling(t, srv, cfg)
			j.Fails(row.lands, row.fails...)
			out := p.Ask(named(t, invoice), charging(srv))
			require.ErrorIs(t, out.Err, row.kind)
			assert.Equal(t, row.status, out.Status)
			if !row.lands {
				require.Equal(t, journal.StateInFlight, p.Recorded(onceward.Ref{ID: invoice}).State, "as far as the journal knows")
			}
			requests := srv.Requests()

			out = p.Ask(named(t, invoice), charging(srv))
			if row.again == nil {
				require.NoError(t, out.Err)
				assert.Equal(t, paid, out.Body)
				assert.True(t, out.Op.Replayed)
			} else {
				assert.ErrorIs(t, out.Err, row.again, "served from memory")
			}
			assert.Equal(t, requests, srv.Requests(), "nothing is sent meanwhile")

			j.Fails(false)
			require.NoError(t, p.Shutdown(t.Context()), "it is tried until it is written")
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{ID: invoice}).State)
		})
	}
	for _, row := range []struct {
		name    string
		api     providers.Provider
		end     onceward.State
		effects int
		sent    int
	}{
		{"after a crash it is sent again where that is safe", own(), onceward.StateCompleted, 1, 2},
		{"after a crash it is unknown where that is not", own(noRetention), onceward.StateUnknown, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := serving(t, row.api, nil)
			j := &failing{Store: onDisk(t)}
			dead := calling(t, srv, onceward.Config{Journal: j})
			j.Fails(false, machine.EventComplete)
			require.NoError(t, dead.Ask(named(t, invoice), charging(srv)).Err)
			dead.Crash()
			j.Fails(false)
			next := calling(t, srv, onceward.Config{Journal: j})
			_, err := next.Resume(t.Context())
			require.NoError(t, err)
			op := next.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, row.end, op.State)
			assert.Equal(t, row.sent, srv.Requests())
			assert.Equal(t, row.effects, srv.EffectsFor(op.Key))
		})
	}
}

func keyHeldByAnother(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		require.NoError(t, p.Ask(named(t, "invoice-1/charge"), carrying("k-1")).Err)
		require.ErrorIs(t, p.Ask(named(t, "invoice-2/charge"), carrying("k-1")).Err, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 1)
	})
}

func anotherRequest(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	p := calling(t, srv, onceward.Config{})
	require.NoError(t, p.Ask(named(t, invoice), charging(srv)).Err)
	out := p.Ask(named(t, invoice), charging(srv), body("amount=200"), with("Stripe-Account", "acct_2"))
	var e *onceward.Error
	require.ErrorAs(t, out.Err, &e)
	require.ErrorIs(t, e, onceward.ErrKeyReused)
	assert.Equal(t, []string{"account", "body"}, e.Differs)
	assert.Nil(t, e.Operation.Answer)
	assert.Equal(t, 1, srv.Requests())
}

func heldByAnother(t *testing.T) {
	for name, another := range map[string]bool{"goroutine": false, "process": true} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
			path := filepath.Join(t.TempDir(), "journal.db")
			p := start(t, l, onceward.Config{Journal: openSQLite(t, path)})
			asker := p
			if another {
				asker = start(t, l, onceward.Config{Journal: openSQLite(t, path)})
			}
			holder := make(chan outcome, 1)
			go func() { holder <- p.Ask(named(t, invoice)) }()
			pass(time.Second)
			short, cancel := context.WithTimeout(named(t, invoice), 3*time.Second)
			defer cancel()
			require.ErrorIs(t, asker.Ask(short).Err, onceward.ErrInFlight)
			out := asker.Ask(named(t, invoice))
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)
			assert.True(t, out.Op.Replayed)
			require.NoError(t, (<-holder).Err)
			assert.Len(t, l.Sent(), 1)
		})
	}
}

func inFlightAtTheProvider(t *testing.T) {
	var keys []string
	srv := serving(t, providers.Stripe(), func(r providertest.Request) { keys = append(keys, r.Key) })
	srv.Script(providertest.DropAfter(), providertest.Status(409, http.Header{"Retry-After-Ms": {"25"}}))
	var delays []time.Duration
	p := calling(t, srv, onceward.Config{Trace: &onceward.Trace{
		Delayed: func(_ context.Context, _ onceward.Operation, d time.Duration) { delays = append(delays, d) },
	}})
	out := p.Ask(named(t, invoice), charging(srv))
	require.NoError(t, out.Err)
	require.Len(t, keys, 3)
	for _, key := range keys {
		assert.Equal(t, string(out.Op.Key), key)
	}
	require.Len(t, delays, 2)
	assert.Equal(t, 25*time.Millisecond, delays[1], "what the provider asks for")
	assert.Len(t, srv.Effects(), 1)
}

func askedBeyondTheBudget(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Always(loses())
		budget := backoff.Budget{Capacity: 1, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Hour}
		p := start(t, l, onceward.Config{Journal: onDisk(t), RetryBudget: budget, Backoff: backoff.Policy{MaxAttempts: 1}})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(10 * time.Minute)
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending, "which takes the only token")
		pass(10 * time.Minute)
		out := p.Ask(named(t, invoice))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		require.ErrorIs(t, out.Err, onceward.ErrRetryBudget)
		assert.Len(t, l.Sent(), 2)
		assert.Equal(t, onceward.StatePending, out.Op.State)
		assert.LessOrEqual(t, time.Until(out.Op.DueAt), 8*time.Second)
		l.Always(says(200, `{"id":"ch_1"}`))
		require.NoError(t, p.Ask(named(t, "invoice-2")).Err, "a first attempt is free")
	})
}

func delayBeyondTheDeadline(t *testing.T) {
	for _, row := range []struct {
		name   string
		script []reply
		due    time.Duration // 0: unknown at once
	}{
		{"a refusal", []reply{says(429, "later", "Retry-After", "3600")}, time.Hour},
		{"a failure", []reply{says(503, "later", "Retry-After", "3600")}, time.Hour},
		{"beyond the window too", []reply{says(503, "later", "Retry-After", "86000")}, 0},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.script...)
			p := start(t, l, onceward.Config{Journal: onDisk(t)})
			ctx, cancel := context.WithTimeout(named(t, invoice), time.Minute)
			defer cancel()
			began := time.Now()
			out := p.Ask(ctx)
			require.Error(t, out.Err)
			assert.Equal(t, "later", out.Body, "the answer in hand")
			assert.Zero(t, time.Since(began), "nobody waits for what is too late")
			again := p.Ask(named(t, invoice))
			var e *onceward.Error
			require.ErrorAs(t, again.Err, &e)
			if row.due == 0 {
				require.ErrorIs(t, e, onceward.ErrOutcomeUnknown)
			} else {
				require.ErrorIs(t, e, onceward.ErrPending)
				assert.WithinDuration(t, began.Add(row.due), e.Operation.DueAt, time.Millisecond)
				assert.Equal(t, e.Operation.DueAt, p.Recorded(e.Operation.Ref).DueAt)
			}
			assert.Len(t, l.Sent(), 1)
		})
	}
	virtual(t, "without an answer in hand", func(t *testing.T) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own(noGuard(time.Hour))}})
		ctx, cancel := context.WithTimeout(named(t, invoice), time.Minute)
		defer cancel()
		began := time.Now()
		out := p.Ask(ctx, to(http.MethodPost, ownURL))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.WithinDuration(t, began.Add(time.Hour), out.Op.DueAt, time.Millisecond)
		assert.Zero(t, time.Since(began))
	})
}

func outOfAttempts(t *testing.T) {
	for _, row := range []struct {
		name     string
		api      providers.Provider
		requests int
		state    onceward.State
		kind     error
	}{
		{"parked", own(), 5, onceward.StatePending, onceward.ErrPending},
		{"unknown by the rule", own(noRetention), 1, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := serving(t, row.api, nil)
			srv.Script(repeated(5, providertest.Status(503, http.Header{"X-Request-Id": {"req_1"}}))...)
			p := calling(t, srv, onceward.Config{})
			out := p.Ask(named(t, invoice), charging(srv))
			require.ErrorIs(t, out.Err, row.kind)
			assert.Equal(t, 503, out.Status)
			assert.Equal(t, "req_1", out.Header.Get("X-Request-Id"))
			assert.NotEmpty(t, out.Body)
			assert.Equal(t, row.state, out.Op.State)
			assert.Equal(t, row.requests, srv.Requests())
			assert.Equal(t, row.state, p.Recorded(out.Op.Ref).State)
		})
	}
	for _, api := range []providers.Provider{providers.Stripe(), own(), providers.PayPal(), providers.Adyen("prefix")} {
		for _, status := range []int{401, 403, 404, 422, 429, 503} {
			t.Run(fmt.Sprintf("%s: its answer was lost, and the next is %d", api.Name, status), func(t *testing.T) {
				srv := serving(t, api, nil)
				srv.Script(providertest.DropAfter())
				srv.Script(repeated(4, providertest.Status(status, nil))...)
				p := calling(t, srv, onceward.Config{})
				out := p.Ask(named(t, invoice), to(http.MethodPost, srv.URL+paths[api.Name]))
				var e *onceward.Error
				require.ErrorAs(t, out.Err, &e)
				require.NotNil(t, e.Response)
				assert.Equal(t, status, e.Response.Status)
				assert.Contains(t, []journal.State{journal.StatePending, journal.StateUnknown}, p.Recorded(out.Op.Ref).State)
				assert.Len(t, srv.Effects(), 1)
			})
		}
	}
	t.Run("an unnamed one that has not run is cancelled, and its response handed over", func(t *testing.T) {
		srv := serving(t, providers.Stripe(), nil)
		srv.Script(repeated(5, providertest.Status(429, nil))...)
		p := calling(t, srv, onceward.Config{})
		out := p.Ask(t.Context(), charging(srv))
		require.NoError(t, out.Err)
		assert.Equal(t, 429, out.Status)
		assert.Equal(t, onceward.StateCancelled, out.Op.State)
		assert.Empty(t, srv.Effects())
	})
}

// paths are an effect's paths at each API.
var paths = map[string]string{
	"stripe": "/v1/charges", "raw": "/orders", "paypal": "/v2/checkout/orders", "adyen": "/v71/payments",
}

func attemptTakesLong(t *testing.T) {
	for _, row := range []struct {
		name    string
		api     providers.Provider
		works   time.Duration
		call    time.Duration // 0: no deadline
		resumed bool
		after   time.Duration
		sent    int
		state   onceward.State
	}{
		{"it is broken off where another is allowed", own(), 45 * time.Second, 0, false, 30 * time.Second, 2, onceward.StateCompleted},
		{"it goes on where another is not", own(noRetention), 45 * time.Second, 0, false, 45 * time.Second, 1, onceward.StateCompleted},
		{"until MaxWait", own(noRetention), 3 * time.Minute, 0, false, 2 * time.Minute, 1, onceward.StateUnknown},
		{"until the call's deadline", own(noRetention), 3 * time.Minute, 50 * time.Second, false, 49 * time.Second, 1, onceward.StateUnknown},
		{"in the background, too", own(noRetention), 45 * time.Second, 0, true, 45 * time.Second, 1, onceward.StateCompleted},
		{"in the background until MaxWait", own(noRetention), 3 * time.Minute, 0, true, 2 * time.Minute, 1, onceward.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{row.api}, Backoff: quick})
			ctx := named(t, invoice)
			if row.call > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, row.call)
				defer cancel()
			}
			began := time.Now()
			if row.resumed {
				l.Then(refuses(), refuses(), refuses(), refuses(), refuses())
				require.ErrorIs(t, p.Ask(ctx, to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
				pass(time.Minute)
				began = time.Now()
				l.Then(takes(row.works, says(200, paid)))
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
			} else {
				l.Then(takes(row.works, says(200, paid)))
				p.Ask(ctx, to(http.MethodPost, ownURL))
			}
			assert.WithinDuration(t, began.Add(row.after), time.Now(), time.Second)
			assert.Len(t, l.Sent(), row.sent)
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{ID: invoice}).State)
		})
	}
	virtual(t, "it is cancelled while it connects, whatever the rule", func(t *testing.T) {
		l := (&line{}).Then(reply{Unsent: true, Answer: hangs().Answer})
		p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own(noRetention)}, Backoff: quick})
		began := time.Now()
		require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
		assert.WithinDuration(t, began.Add(30*time.Second), time.Now(), time.Second)
		assert.Len(t, l.Sent(), 1)
	})
}

func cutAfterTheStatusLine(t *testing.T) {
	cut := providertest.CutAt(4)
	for _, row := range []struct {
		name     string
		api      providers.Provider
		faults   []providertest.Fault
		status   int // of the handler's answer
		state    onceward.State
		err      error
		marked   bool
		requests int
	}{
		{"the same key again", own(), []providertest.Fault{cut}, 200, onceward.StateCompleted, nil, false, 2},
		{"parked", own(), repeated(5, cut), 200, onceward.StatePending, onceward.ErrPending, false, 5},
		{"completed and marked as cut", own(noRetention), []providertest.Fault{cut}, 200, onceward.StateCompleted, io.ErrUnexpectedEOF, true, 1},
		{"unknown", own(noRetention), []providertest.Fault{cut}, 500, onceward.StateUnknown, onceward.ErrOutcomeUnknown, false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := providertest.NewServer(row.api, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, paid)
			}))
			defer srv.Close()
			srv.Script(row.faults...)
			p := calling(t, srv, onceward.Config{})
			out := p.Ask(named(t, invoice), charging(srv))
			require.ErrorIs(t, out.Err, row.err)
			assert.Equal(t, row.state, out.Op.State)
			assert.Equal(t, row.requests, srv.Requests())
			recorded := p.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, row.state, recorded.State)
			if row.marked {
				require.NotNil(t, recorded.Answer)
				assert.True(t, recorded.Answer.Cut)
				assert.Equal(t, paid[:4], string(recorded.Answer.Body))
			}
			for _, e := range srv.Effects() {
				assert.Equal(t, 1, srv.EffectsFor(e.Key))
			}
		})
	}
}

// Stripe keeps keys for 24 hours. The margin is an hour.
func retentionPassed(t *testing.T) {
	for name, asks := range map[string]bool{"asked again": true, "resumed": false} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Journal: onDisk(t), Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(23 * time.Hour)
			if asks {
				require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
			} else {
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				require.Len(t, report.Problems, 1)
				require.ErrorIs(t, report.Problems[0], onceward.ErrOutcomeUnknown)
			}
			assert.Len(t, l.Sent(), 1)
			assert.Equal(t, journal.StateUnknown, p.Recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

func cancelledBeforeSending(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	ctx, cancel := context.WithCancel(named(t, invoice))
	p := calling(t, srv, onceward.Config{Trace: &onceward.Trace{Started: func(ctx context.Context, _ onceward.Operation, _ onceward.Why) context.Context { cancel(); return ctx }}})
	out := p.Ask(ctx, charging(srv))
	require.ErrorIs(t, out.Err, context.Canceled)
	require.ErrorIs(t, out.Err, onceward.ErrNotSent)
	assert.Equal(t, onceward.StateCancelled, out.Op.State)
	assert.Zero(t, srv.Requests())
	again := p.Ask(named(t, invoice), charging(srv))
	require.NoError(t, again.Err)
	assert.Len(t, srv.Effects(), 1)
}

func cancelledAfterSending(t *testing.T) {
	for _, row := range []struct {
		name  string
		api   providers.Provider
		kind  error
		state onceward.State
	}{
		{"parked, and due at once", own(), onceward.ErrPending, onceward.StatePending},
		{"unknown where the rule forbids another", own(noRetention), onceward.ErrOutcomeUnknown, onceward.StateUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(named(t, invoice))
			defer cancel()
			srv := serving(t, row.api, func(providertest.Request) { cancel() })
			srv.Script(providertest.DelayBefore(time.Minute), providertest.None())
			p := calling(t, srv, onceward.Config{})
			out := p.Ask(ctx, charging(srv))
			require.ErrorIs(t, out.Err, row.kind)
			require.ErrorIs(t, out.Err, context.Canceled)
			assert.Equal(t, row.state, p.Recorded(out.Op.Ref).State)
			again := p.Ask(named(t, invoice), charging(srv))
			if row.state == onceward.StateUnknown {
				require.ErrorIs(t, again.Err, onceward.ErrOutcomeUnknown)
				assert.Equal(t, 1, srv.Requests())
				return
			}
			require.NoError(t, again.Err)
			assert.Equal(t, 1, srv.EffectsFor(string(again.Op.Key)))
		})
	}
}

func backgroundEnds(t *testing.T) {
	for _, row := range []struct {
		name  string
		api   providers.Provider
		first reply
		state onceward.State
	}{
		{"it stays pending", own(), loses(), onceward.StatePending},
		{"it stays pending where the rule forbids another, if nothing was sent", own(noRetention), refuses(), onceward.StatePending},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.first)
			p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{row.api}, Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
			l.Always(takes(time.Hour, refuses()))
			ctx, stop := context.WithTimeout(t.Context(), 90*time.Second)
			defer stop()
			require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
			assert.Equal(t, row.state, p.Recorded(onceward.Ref{ID: invoice}).State)
		})
	}
	virtual(t, "it is unknown where the rule forbids another", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own(noRetention)}, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
		pass(time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		l.Always(doing(stop, hangs()))
		_, _ = p.Resume(ctx)
		assert.Equal(t, onceward.StateUnknown, p.Recorded(onceward.Ref{ID: invoice}).State)
	})
}

func wrongCredentialLater(t *testing.T) {
	for name, asks := range map[string]bool{"asked again": true, "resumed": false} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(refuses(), wrongKey)
			p := start(t, l, onceward.Config{Journal: onDisk(t), Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(time.Hour)
			var err error
			if asks {
				out := p.Ask(named(t, invoice))
				err = out.Err
				assert.Equal(t, 401, out.Status)
			} else {
				report, _ := p.Resume(t.Context())
				require.Len(t, report.Problems, 1)
				err = report.Problems[0]
			}
			require.ErrorIs(t, err, onceward.ErrPending)
			require.ErrorIs(t, err, onceward.ErrCredentialRefused)
			assert.Equal(t, journal.StatePending, p.Recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

func wrongCredential(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	srv.Script(providertest.Status(401, nil))
	p := calling(t, srv, onceward.Config{})
	out := p.Ask(named(t, invoice), charging(srv), with("Authorization", "Bearer wrong"))
	require.NoError(t, out.Err)
	assert.Equal(t, 401, out.Status)
	assert.Equal(t, onceward.StateCancelled, out.Op.State)
	again := p.Ask(named(t, invoice), charging(srv), with("Authorization", "Bearer right"))
	require.NoError(t, again.Err)
	assert.Equal(t, 200, again.Status)
	assert.Equal(t, out.Op.Key, again.Op.Key, "it is the same operation")
	assert.Len(t, srv.Effects(), 1)
}

func withheldHeaderMissing(t *testing.T) {
	srv, j := leftInFlight(t, providers.Stripe(), onceward.Config{}, with("Authorization", "Bearer right"))
	next := calling(t, srv, onceward.Config{Journal: j})
	report, err := next.Resume(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
	assert.ErrorContains(t, report.Problems[0], "Authorization")
	assert.Equal(t, journal.StatePending, next.Recorded(onceward.Ref{ID: invoice}).State)
	assert.Equal(t, 1, srv.Requests())
}

func credentialChangedInDoubt(t *testing.T) {
	for _, row := range []struct {
		name  string
		owner func() *http.Response // the answer to whose the second credential is; nil: the provider can't be asked at all
		state onceward.State
		kind  error
	}{
		{"the provider names the same account", func() *http.Response { return oncetest.Answers(200, `{"account":{"id":"Bearer a"}}`) }, onceward.StateCompleted, nil},
		{"the provider names another account", func() *http.Response { return oncetest.Answers(200, `{"account":{"id":"Bearer b"}}`) }, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"the provider can't be asked just now", func() *http.Response { return oncetest.Answers(503, `{}`) }, onceward.StatePending, onceward.ErrPending},
		{"the provider names no accounts", nil, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := oncetest.AtBank(t, onceward.Config{}, oncetest.Unlooked, func(p *providers.Provider) {
				e := &p.Endpoints[0]
				e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
				if row.owner == nil {
					p.Identity = providers.Identity{}
				}
			})
			l.Box.Account = nil // one account
			l.Fakes(func(r *http.Request) *http.Response {
				if r.URL.Path != "/me" {
					return nil
				}
				if r.Header.Get("Authorization") == "Bearer a" {
					return oncetest.Answers(200, `{"account":{"id":"Bearer a"}}`)
				}
				return row.owner()
			})
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Pays(invoice, with("Authorization", "Bearer a")).Err, onceward.ErrPending)
			pass(time.Hour)
			out := l.Pays(invoice, with("Authorization", "Bearer b"))
			require.ErrorIs(t, out.Err, row.kind)
			assert.Equal(t, row.state, l.Recorded(onceward.Ref{ID: invoice}).State)
			assert.Equal(t, 1, l.Effects())
		})
	}
}

func credentialChanged(t *testing.T) {
	api := own()
	api.CredentialScoped = true
	bearer := func(value string) option { return with("Authorization", "Bearer "+value) }
	query := func(value string) option {
		return func(r *http.Request) { r.URL.RawQuery = "expand=all&api_key=" + value }
	}
	for _, row := range []struct {
		name       string
		credential func(value string) option // nil: Authorize adds it
	}{
		{"in a header", bearer}, {"in a query parameter", query}, {"by Authorize", nil},
	} {
		// asking starts a process, and returns a function that asks it with a credential.
		asking := func(t *testing.T, srv *providertest.Server, j machine.Store) (*process, func(ctx context.Context, value string) outcome) {
			current := ""
			cfg := onceward.Config{Journal: j}
			if row.credential == nil {
				cfg.Authorize = func(r *http.Request) error {
					r.Header.Set("Authorization", "Bearer "+current)
					return nil
				}
			}
			p := calling(t, srv, cfg)
			return p, func(ctx context.Context, value string) outcome {
				if row.credential == nil {
					current = value
					return p.Ask(ctx, charging(srv))
				}
				return p.Ask(ctx, charging(srv), row.credential(value))
			}
		}
		for _, end := range []struct {
			name  string
			value string
			kind  error
			state onceward.State
		}{
			{"the same one is sent again", "first", nil, onceward.StateCompleted},
			{"another one makes it unknown", "second", onceward.ErrOutcomeUnknown, onceward.StateUnknown},
		} {
			t.Run(row.name+": "+end.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(named(t, invoice))
				defer cancel()
				srv := serving(t, api, func(providertest.Request) { cancel() })
				srv.Script(providertest.DropBefore())
				p, ask := asking(t, srv, onDisk(t))
				require.ErrorIs(t, ask(ctx, "first").Err, onceward.ErrPending)
				out := ask(named(t, invoice), end.value)
				require.ErrorIs(t, out.Err, end.kind)
				assert.Equal(t, end.state, p.Recorded(onceward.Ref{ID: invoice}).State)
				if end.kind == nil {
					assert.Len(t, srv.Effects(), 1)
				} else {
					assert.Equal(t, 1, srv.Requests(), "nothing is sent")
				}
			})
		}
		t.Run(row.name+": while nothing may have run, another one may be used", func(t *testing.T) {
			srv := serving(t, api, nil)
			srv.Script(providertest.Status(401, nil))
			_, ask := asking(t, srv, onDisk(t))
			require.Equal(t, 401, ask(named(t, invoice), "first").Status)
			out := ask(named(t, invoice), "second")
			require.NoError(t, out.Err)
			assert.Equal(t, 200, out.Status)
		})
	}
	t.Run("at each call: the attempt has the one that was recorded", func(t *testing.T) {
		srv := serving(t, api, nil)
		rotation := 0
		p := calling(t, srv, onceward.Config{Authorize: func(r *http.Request) error {
			rotation++
			r.Header.Set("Authorization", "Bearer "+string(rune('a'+rotation)))
			return nil
		}})
		require.NoError(t, p.Ask(named(t, invoice), charging(srv)).Err)
		assert.Len(t, srv.Effects(), 1)
		assert.Equal(t, 1, rotation)
	})
	t.Run("none to be had, after an attempt: it is not said that nothing took effect", func(t *testing.T) {
		ctx, cancel := context.WithCancel(named(t, invoice))
		defer cancel()
		srv := serving(t, api, func(providertest.Request) { cancel() })
		srv.Script(providertest.DropAfter())
		var none error
		p := calling(t, srv, onceward.Config{Authorize: func(*http.Request) error { return none }})
		require.ErrorIs(t, p.Ask(ctx, charging(srv)).Err, onceward.ErrPending)
		none = errors.New("the vault is closed")
		out := p.Ask(named(t, invoice), charging(srv))
		require.ErrorIs(t, out.Err, none)
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		require.NotErrorIs(t, out.Err, onceward.ErrNotSent)
		assert.Len(t, srv.Effects(), 1)
	})
	for _, row := range []struct {
		name  string
		fresh string
		state onceward.State
		sent  int
	}{
		{"resumed with the same one", "first", onceward.StateCompleted, 2},
		{"resumed with another one", "second", onceward.StateUnknown, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			adds := func(value string) func(*http.Request) error {
				return func(r *http.Request) error {
					r.Header.Set("Authorization", "Bearer "+value)
					return nil
				}
			}
			srv, j := leftInFlight(t, api, onceward.Config{Authorize: adds("first")})
			next := calling(t, srv, onceward.Config{Journal: j, Authorize: adds(row.fresh)})
			_, err := next.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, row.state, next.Recorded(onceward.Ref{ID: invoice}).State)
			assert.Equal(t, row.sent, srv.Requests())
		})
	}
	t.Run("resumed with the same ones in another order and encoding", func(t *testing.T) {
		srv, j := leftInFlight(t, api, onceward.Config{}, func(r *http.Request) { r.URL.RawQuery = "token=a%20b&page=1&api_key=c" })
		next := calling(t, srv, onceward.Config{Journal: j, Authorize: func(r *http.Request) error {
			query := r.URL.Query()
			query.Set("api_key", "c")
			query.Set("token", "a b")
			r.URL.RawQuery = query.Encode()
			return nil
		}})
		_, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, journal.StateCompleted, next.Recorded(onceward.Ref{ID: invoice}).State)
	})
	virtual(t, "resumed with another one while nothing may have run: not sent, and usable again", func(t *testing.T) {
		value := "first"
		l := (&line{}).Then(refuses())
		p := start(t, l, onceward.Config{
			Journal: onDisk(t), Providers: []providers.Provider{func() providers.Provider { p := api; p.Hosts = []string{"own.example"}; return p }()},
			Backoff: once, Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+value)
				return nil
			},
		})
		require.ErrorIs(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err, onceward.ErrPending)
		value = "second"
		pass(2 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Parked)
		assert.Empty(t, l.Sent())
		pass(2 * time.Hour)
		require.NoError(t, p.Ask(named(t, invoice), to(http.MethodPost, ownURL)).Err)
		require.Len(t, l.Sent(), 1)
		assert.Equal(t, "Bearer second", l.Sent()[0].Header.Get("Authorization"))
	})
}

func askedAgainAfterReap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: onDisk(t), Keep: 48 * time.Hour})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		p.PassInUse(49 * time.Hour)
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(running) }()
		pass(time.Second)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		require.True(t, p.Recorded(onceward.Ref{ID: invoice}).Tombstone)
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrAnswerGone)
		require.ErrorIs(t, p.Ask(named(t, invoice), body("another request")).Err, onceward.ErrAnswerGone)
		assert.Len(t, l.Sent(), 1)
	})
}

func clockBehindTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Then(loses())
		behind := time.Duration(0)
		p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own()}, Backoff: once})
		setClock(p.Client, func() time.Time { return time.Now().Add(-behind) })
		order := func(name string) outcome { return p.Ask(named(t, name), to(http.MethodPost, ownURL)) }
		require.ErrorIs(t, order("early").Err, onceward.ErrPending)
		for _, day := range []string{"one day", "another", "a third"} {
			pass(24 * time.Hour)
			require.NoError(t, order(day).Err)
		}
		sent := len(l.Sent())
		behind = 48 * time.Hour
		out := order("early")
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.ErrorContains(t, out.Err, "clock", "said clearly")
		pass(machine.Confirmation - time.Minute)
		require.ErrorIs(t, order("early").Err, onceward.ErrPending)
		assert.Len(t, l.Sent(), sent, "nothing is resent by window")
		behind = 0
		require.NoError(t, order("early").Err, "a clock that is set right before has changed nothing")
		assert.Equal(t, l.Keys()[0], l.Keys()[sent])

		l.Then(loses())
		require.ErrorIs(t, order("late").Err, onceward.ErrPending)
		sent = len(l.Sent())
		behind = 48 * time.Hour
		require.ErrorIs(t, order("late").Err, onceward.ErrPending)
		pass(machine.Confirmation)
		late := order("late")
		require.ErrorIs(t, late.Err, onceward.ErrOutcomeUnknown)
		assert.ErrorContains(t, late.Err, "clock", "said clearly")
		pass(48 * time.Hour)
		require.ErrorIs(t, order("late").Err, onceward.ErrOutcomeUnknown, "for good")
		require.Len(t, l.Sent(), sent, "nothing is resent by window")
	})
	t.Run("a clock that boots in the past and is set right closes nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := (&line{}).Then(loses())
			behind := time.Duration(0)
			p := start(t, l, onceward.Config{Journal: onDisk(t), Backoff: once})
			setClock(p.Client, func() time.Time { return time.Now().Add(-behind) })
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			behind = 400 * 24 * time.Hour
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(5 * time.Minute)
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			behind = 0
			pass(time.Hour)
			require.NoError(t, p.Ask(named(t, invoice)).Err)
			assert.Len(t, l.Sent(), 2)
		})
	})
}

func restoredOrCopied(t *testing.T) {
	const cancelled, pending, completed = "cancelled", "pending", "completed" // and invoice is in flight
	for _, row := range []struct {
		name     string
		api      providers.Provider
		restored bool // the same file, put back; else another one
		resumed  onceward.State
		requests int
	}{
		{"copied", own(), false, onceward.StateCompleted, 2},
		{"restored", own(), true, onceward.StateCompleted, 2},
		{"copied, where the rule forbids another attempt", own(noRetention), false, onceward.StateUnknown, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var dead *process
			srv := serving(t, row.api, func(r providertest.Request) {
				if r.Number == 8 {
					dead.Crash()
				}
			})
			srv.Script(providertest.Status(401, nil))
			srv.Script(repeated(5, providertest.Status(429, nil))...)
			srv.Script(providertest.None(), providertest.DropBefore())
			path := filepath.Join(t.TempDir(), "journal.db")
			j := openSQLite(t, path)
			dead = calling(t, srv, onceward.Config{Journal: j})
			require.Equal(t, 401, dead.Ask(named(t, cancelled), charging(srv)).Status)
			require.Equal(t, 429, dead.Ask(named(t, pending), charging(srv)).Status)
			require.Equal(t, 200, dead.Ask(named(t, completed), charging(srv)).Status)
			require.Error(t, dead.Ask(named(t, invoice), charging(srv)).Err)
			for id, state := range map[string]journal.State{cancelled: journal.StateCancelled, pending: journal.StatePending, completed: journal.StateCompleted, invoice: journal.StateInFlight} {
				require.Equal(t, state, dead.Recorded(onceward.Ref{ID: id}).State)
			}
			require.NoError(t, j.Close())
			backup, err := os.ReadFile(path)
			require.NoError(t, err)
			if row.restored {
				j = openSQLite(t, path)
				later := calling(t, srv, onceward.Config{Journal: j})
				require.NoError(t, later.Ask(named(t, "later"), charging(srv)).Err)
				require.NoError(t, later.Shutdown(t.Context()))
				require.NoError(t, j.Close())
			} else {
				path = filepath.Join(t.TempDir(), "journal.db")
			}
			require.NoError(t, os.WriteFile(path, backup, 0o600))
			requests := srv.Requests()

			j = openSQLite(t, path)
			p := calling(t, srv, onceward.Config{Journal: j})
			for _, id := range []string{cancelled, pending, completed, invoice, "new"} {
				require.ErrorIs(t, p.Ask(named(t, id), charging(srv)).Err, onceward.ErrJournalRestored)
			}
			_, err = p.Resume(t.Context())
			require.ErrorIs(t, err, onceward.ErrJournalRestored)
			assert.Equal(t, requests, srv.Requests(), "nothing is sent until it is adopted")

			require.NoError(t, j.Adopt(t.Context()))
			for _, id := range []string{cancelled, pending, invoice} {
				op := p.Recorded(onceward.Ref{ID: id})
				assert.True(t, op.MayHaveRun, id)
				assert.Equal(t, op.CreatedAt, op.FirstSentAt, id)
			}
			next := calling(t, srv, onceward.Config{Journal: j})
			setClock(next.Client, func() time.Time { return time.Now().Add(time.Minute) }) // past the due times
			_, err = next.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, requests+row.requests, srv.Requests())
			for id, state := range map[string]journal.State{cancelled: journal.StateUnknown, pending: row.resumed, completed: journal.StateCompleted, invoice: row.resumed} {
				assert.Equal(t, state, next.Recorded(onceward.Ref{ID: id}).State, id)
			}
			require.ErrorIs(t, next.Ask(named(t, cancelled), charging(srv)).Err, onceward.ErrOutcomeUnknown)
			require.NoError(t, next.Ask(named(t, completed), charging(srv)).Err)
			assert.Equal(t, requests+row.requests, srv.Requests())
		})
	}
}

func notRecordable(t *testing.T) {
	for name, call := range map[string]option{
		"a body over the limit": body(strings.Repeat("x", 101)),
		"an unreadable body": func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = io.NopCloser(brokenBody), nil, 10
		},
		"an invalid key": carrying("not a key"),
	} {
		t.Run(name, func(t *testing.T) {
			srv := serving(t, providers.Stripe(), nil)
			p := calling(t, srv, onceward.Config{MaxRequestBody: 100})
			require.ErrorIs(t, p.Ask(named(t, invoice), charging(srv), call).Err, onceward.ErrInvalidRequest)
			assert.Empty(t, p.Everything())
			assert.Zero(t, srv.Requests())
			require.NoError(t, p.Ask(named(t, invoice), charging(srv)).Err, "the name is still free")
		})
	}
}

func notRepeatable(t *testing.T) {
	for name, call := range map[string]option{
		"CONNECT": func(r *http.Request) { r.Method = http.MethodConnect },
		"Upgrade": with("Upgrade", "websocket"),
		"a streaming request": func(r *http.Request) {
			r.TransferEncoding, r.ContentLength = []string{"chunked"}, -1
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serving(t, providers.Stripe(), nil)
			p := calling(t, srv, onceward.Config{})
			require.ErrorIs(t, p.Ask(named(t, invoice), charging(srv), call).Err, onceward.ErrInvalidRequest)
			assert.Zero(t, srv.Requests())
			out := p.Ask(t.Context(), charging(srv), call)
			require.NoError(t, out.Err)
			assert.Equal(t, 200, out.Status)
			assert.Equal(t, 1, srv.Requests(), "unnamed, it passes through")
			assert.Empty(t, p.Everything())
		})
	}
}

// The journal itself sees a two-day clock step, ahead or back.
func TestClockStepsOfTwoDaysInTheJournal(t *testing.T) {
	t.Parallel()
	const step = 48 * time.Hour
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	terms := journal.Terms{Remembers: providers.Everything, Retention: 24 * time.Hour, Guard: true}
	for kind, open := range journals {
		for _, row := range []struct {
			name     string
			at       time.Duration // the clock when it is asked for again, from when it was parked
			decision machine.Decision
			keepsOn  machine.Decision // when it has gone on from there
			closed   bool
		}{
			{"it stands still", 0, machine.Execute, machine.Wait, false},
			{"it steps ahead: past the window", step, machine.Later, machine.Stop, false},
			{"it steps back: stamped by a clock that ran ahead", -step, machine.Later, machine.Stop, true},
			{"it steps back by less than the margin", -30 * time.Minute, machine.Execute, machine.Wait, false},
		} {
			t.Run(row.name+" ("+kind+")", func(t *testing.T) {
				j := open(t)
				s, err := j.Join(t.Context())
				require.NoError(t, err)
				ref := journal.Ref{ID: invoice}
				begin := machine.Event{Kind: machine.EventBegin, Ref: ref, At: noon, Session: s.ID(),
					Intent: &machine.Intent{Fingerprint: "f", Key: "k", Terms: terms}}
				apply := func(ev machine.Event) machine.Result {
					res, err := j.Apply(t.Context(), ev)
					require.NoError(t, err)
					return res
				}
				begun := apply(begin)
				require.Equal(t, machine.Execute, begun.Decision)
				due := noon.Add(min(row.at, 0))
				apply(machine.Event{Kind: machine.EventPark, Ref: ref, At: noon.Add(min(row.at, 0)), Due: due, Session: s.ID(),
					Claim: begun.Operation.Claim, Attempts: 1, Open: true})
				begin.At = noon.Add(row.at)
				assert.Equal(t, row.decision, apply(begin).Decision)
				begin.At = begin.At.Add(machine.Confirmation)
				assert.Equal(t, row.keepsOn, apply(begin).Decision)
				op, err := j.Get(t.Context(), ref)
				require.NoError(t, err)
				assert.Equal(t, row.closed, op.WindowClosed)
				if row.keepsOn == machine.Stop {
					begin.At = noon.Add(time.Hour) // the clock is set right
					assert.Equal(t, machine.Stop, apply(begin).Decision, "for good")
				}
			})
		}
	}
}

func TestClockStepsOfTwoDaysInTheClient(t *testing.T) {
	t.Parallel()
	const step = 48 * time.Hour
	pending, unknown := onceward.ErrPending, onceward.ErrOutcomeUnknown
	for _, row := range []struct {
		name  string
		steps []time.Duration // before each ask
		kinds []error         // of each ask, the first of which is lost
		sent  int
	}{
		{"ahead after the send, for good", []time.Duration{0, step, machine.Confirmation, -step}, []error{pending, pending, unknown, unknown}, 1},
		{"ahead after the send, and back", []time.Duration{0, step, -step, time.Hour}, []error{pending, pending, pending, nil}, 2},
		{"back after the send, for good", []time.Duration{0, -step, machine.Confirmation, step}, []error{pending, pending, unknown, unknown}, 1},
		{"back after the send, and ahead", []time.Duration{0, -step, step + time.Hour}, []error{pending, pending, nil}, 2},
		{"none", []time.Duration{0, time.Hour}, []error{onceward.ErrPending, nil}, 2},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(loses())
			p := start(t, l, onceward.Config{Journal: j, Backoff: once})
			now := time.Now()
			setClock(p.Client, func() time.Time { return now })
			for i, step := range row.steps {
				now = now.Add(step)
				require.ErrorIs(t, p.Ask(named(t, invoice)).Err, row.kinds[i], "ask %d", i)
			}
			assert.Len(t, l.Sent(), row.sent)

			// Operations of the right time are sent under any clock.
			out := p.Ask(named(t, "invoice-2/charge"))
			require.NoError(t, out.Err)
		})
	}
}
