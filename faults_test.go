package onceward_test

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
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// faults are the rows of the table "Faults, and what the caller sees" of
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
	{"asked again after reap", askedAgainAfterReap},
	{"the clock stands behind the journal", clockBehindTheJournal},
	{"the journal was restored or copied", restoredOrCopied},
	{"body over the limit, unreadable body, invalid key", notRecordable},
	{"CONNECT, Upgrade, a streaming request", notRepeatable},
}

func TestFaultsAndWhatTheCallerSees(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel() // they wait for disks and networks
			fault.show(t)
		})
	}
}

func TestEveryRowOfTheFaultTableIsShown(t *testing.T) {
	text, err := os.ReadFile("docs/design.md")
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

// serving starts a real server that keeps p's contract. watch, which may be nil, is
// called with each request before anything comes of it.
func serving(t *testing.T, p providers.Provider, watch func(providertest.Request)) *providertest.Server {
	t.Helper()
	srv := providertest.NewUnstartedServer(p, http.HandlerFunc(pays))
	srv.RetryAfter = -1
	srv.Observe = watch
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// calling makes a process that calls srv. What cfg leaves empty is a SQLite file of
// its own and a quick policy.
func calling(t *testing.T, srv *providertest.Server, cfg onceward.Config) *process {
	t.Helper()
	if cfg.Journal == nil {
		cfg.Journal = onDisk(t)
	}
	if cfg.Backoff == (backoff.Policy{}) {
		cfg.Backoff = quick
	}
	cfg.Providers = []providers.Provider{srv.Provider()}
	return start(t, srv.Client().Transport, cfg)
}

func onDisk(t *testing.T) journal.Journal {
	t.Helper()
	return openSQLite(t, filepath.Join(t.TempDir(), "journal.db"))
}

// charging is a charge at srv.
func charging(srv *providertest.Server) option { return to(http.MethodPost, srv.URL+"/v1/charges") }

// repeated is a fault that happens to n requests.
func repeated(n int, fault providertest.Fault) (faults []providertest.Fault) {
	for range n {
		faults = append(faults, fault)
	}
	return faults
}

const invoice = "invoice-1/charge"

func intentNotRecorded(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	j := &failing{Journal: onDisk(t)}
	p := calling(t, srv, onceward.Config{Journal: j})
	j.fails(false, journal.EventBegin)
	out := p.ask(named(t, invoice), charging(srv))
	require.ErrorIs(t, out.err, onceward.ErrJournal)
	require.ErrorIs(t, out.err, errDiskFull)
	assert.Zero(t, srv.Requests())
	assert.Empty(t, p.everything())

	j.fails(false)
	require.NoError(t, p.ask(named(t, invoice), charging(srv)).err)
	assert.Len(t, srv.Effects(), 1)
}

func endNotRecorded(t *testing.T) {
	replayed := http.Header{"Idempotent-Replayed": {"true"}}
	for _, row := range []struct {
		name   string
		faults []providertest.Fault
		fails  []journal.EventKind
		lands  bool
		status int // of the response, or of the one in the error; 0: there is none
		kind   error
		state  onceward.State
		again  error // of an asker meanwhile; nil: the answer
	}{
		{"an answer", nil, []journal.EventKind{journal.EventComplete}, false, 200, nil, onceward.Completed, nil},
		{"a park", repeated(5, providertest.DropBefore()), []journal.EventKind{journal.EventPark}, false, 0, onceward.ErrPending, onceward.Pending, onceward.ErrPending},
		{"a doubt", []providertest.Fault{providertest.Status(500, replayed)}, []journal.EventKind{journal.EventDoubt}, false, 500, onceward.ErrOutcomeUnknown, onceward.Unknown, onceward.ErrOutcomeUnknown},
		{"a cancel", []providertest.Fault{providertest.Status(401, nil)}, []journal.EventKind{journal.EventCancel}, false, 401, nil, onceward.Cancelled, onceward.ErrJournal},
		{"an intent that landed", nil, []journal.EventKind{journal.EventBegin, journal.EventCancel}, true, 0, onceward.ErrJournal, onceward.Cancelled, onceward.ErrJournal},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := serving(t, providers.Stripe(), nil)
			srv.Script(row.faults...)
			j := &failing{Journal: onDisk(t)}
			cfg := onceward.Config{Journal: j, Backoff: backoff.Policy{Initial: time.Millisecond, Max: time.Minute, MaxAttempts: 5}}
			p := calling(t, srv, cfg)
			j.fails(row.lands, row.fails...)
			out := p.ask(named(t, invoice), charging(srv))
			require.ErrorIs(t, out.err, row.kind)
			assert.Equal(t, row.status, out.status)
			if !row.lands {
				require.Equal(t, journal.InFlight, p.recorded(onceward.Ref{ID: invoice}).State, "as far as the journal knows")
			}
			requests := srv.Requests()

			out = p.ask(named(t, invoice), charging(srv))
			if row.again == nil {
				require.NoError(t, out.err)
				assert.Equal(t, paid, out.body)
				assert.True(t, out.op.Replayed)
			} else {
				assert.ErrorIs(t, out.err, row.again, "served from memory")
			}
			assert.Equal(t, requests, srv.Requests(), "nothing is sent meanwhile")

			j.fails(false)
			require.NoError(t, p.Shutdown(t.Context()), "it is tried until it is written")
			assert.Equal(t, row.state, p.recorded(onceward.Ref{ID: invoice}).State)
		})
	}
	for _, row := range []struct {
		name    string
		api     providers.Provider
		end     onceward.State
		effects int
		sent    int
	}{
		{"after a crash it is sent again where that is safe", own(), onceward.Completed, 1, 2},
		{"after a crash it is unknown where that is not", own(noRetention), onceward.Unknown, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := serving(t, row.api, nil)
			j := &failing{Journal: onDisk(t)}
			dead := calling(t, srv, onceward.Config{Journal: j})
			j.fails(false, journal.EventComplete)
			require.NoError(t, dead.ask(named(t, invoice), charging(srv)).err)
			dead.crash()
			j.fails(false)
			next := calling(t, srv, onceward.Config{Journal: j})
			_, err := next.Resume(t.Context())
			require.NoError(t, err)
			op := next.recorded(onceward.Ref{ID: invoice})
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
		require.NoError(t, p.ask(named(t, "invoice-1/charge"), carrying("k-1")).err)
		require.ErrorIs(t, p.ask(named(t, "invoice-2/charge"), carrying("k-1")).err, onceward.ErrKeyReused)
		assert.Len(t, l.sent(), 1)
	})
}

func anotherRequest(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	p := calling(t, srv, onceward.Config{})
	require.NoError(t, p.ask(named(t, invoice), charging(srv)).err)
	out := p.ask(named(t, invoice), charging(srv), body("amount=200"), with("Stripe-Account", "acct_2"))
	var e *onceward.Error
	require.ErrorAs(t, out.err, &e)
	require.ErrorIs(t, e, onceward.ErrKeyReused)
	assert.Equal(t, []string{"account", "body"}, e.Differs)
	assert.Nil(t, e.Operation.Answer)
	assert.Equal(t, 1, srv.Requests())
}

func heldByAnother(t *testing.T) {
	for name, another := range map[string]bool{"goroutine": false, "process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came, goes := make(chan struct{}), make(chan struct{})
			srv := providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(came)
				<-goes
				pays(w, r)
			}))
			t.Cleanup(srv.Close)
			path := filepath.Join(t.TempDir(), "journal.db")
			p := calling(t, srv, onceward.Config{Journal: openSQLite(t, path)})
			asker := p
			if another {
				asker = calling(t, srv, onceward.Config{Journal: openSQLite(t, path)})
			}
			holder := make(chan outcome, 1)
			go func() { holder <- p.ask(named(t, invoice), charging(srv)) }()
			<-came
			short, cancel := context.WithTimeout(named(t, invoice), time.Second)
			defer cancel()
			out := asker.ask(short, charging(srv))
			close(goes)
			require.ErrorIs(t, out.err, onceward.ErrInFlight)
			out = asker.ask(named(t, invoice), charging(srv))
			require.NoError(t, out.err)
			assert.Equal(t, paid, out.body)
			assert.True(t, out.op.Replayed)
			require.NoError(t, (<-holder).err)
			assert.Equal(t, 1, srv.Requests())
		})
	}
}

func inFlightAtTheProvider(t *testing.T) {
	var keys []string
	srv := serving(t, providers.Stripe(), func(r providertest.Request) { keys = append(keys, r.Key) })
	srv.Script(providertest.DropAfter(), providertest.Status(409, http.Header{"Retry-After-Ms": {"25"}}))
	var delays []time.Duration
	p := calling(t, srv, onceward.Config{Trace: &onceward.Trace{
		Delayed: func(_ onceward.Operation, d time.Duration) { delays = append(delays, d) },
	}})
	out := p.ask(named(t, invoice), charging(srv))
	require.NoError(t, out.err)
	require.Len(t, keys, 3)
	for _, key := range keys {
		assert.Equal(t, string(out.op.Key), key)
	}
	require.Len(t, delays, 2)
	assert.Equal(t, 25*time.Millisecond, delays[1], "what the provider asks for")
	assert.Len(t, srv.Effects(), 1)
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
			l := (&line{}).then(row.script...)
			p := start(t, l, onceward.Config{Journal: onDisk(t)})
			ctx, cancel := context.WithTimeout(named(t, invoice), time.Minute)
			defer cancel()
			began := time.Now()
			out := p.ask(ctx)
			require.Error(t, out.err)
			assert.Equal(t, "later", out.body, "the answer in hand")
			assert.Zero(t, time.Since(began), "nobody waits for what is too late")
			again := p.ask(named(t, invoice))
			var e *onceward.Error
			require.ErrorAs(t, again.err, &e)
			if row.due == 0 {
				require.ErrorIs(t, e, onceward.ErrOutcomeUnknown)
			} else {
				require.ErrorIs(t, e, onceward.ErrPending)
				assert.WithinDuration(t, began.Add(row.due), e.Operation.DueAt, time.Millisecond)
				assert.Equal(t, e.Operation.DueAt, p.recorded(e.Operation.Ref).DueAt)
			}
			assert.Len(t, l.sent(), 1)
		})
	}
	virtual(t, "without an answer in hand", func(t *testing.T) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own(noGuard(time.Hour))}})
		ctx, cancel := context.WithTimeout(named(t, invoice), time.Minute)
		defer cancel()
		began := time.Now()
		out := p.ask(ctx, to(http.MethodPost, ownURL))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		assert.WithinDuration(t, began.Add(time.Hour), out.op.DueAt, time.Millisecond)
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
		{"parked", own(), 5, onceward.Pending, onceward.ErrPending},
		{"unknown by the rule", own(noRetention), 1, onceward.Unknown, onceward.ErrOutcomeUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := serving(t, row.api, nil)
			srv.Script(repeated(5, providertest.Status(503, http.Header{"X-Request-Id": {"req_1"}}))...)
			p := calling(t, srv, onceward.Config{})
			out := p.ask(named(t, invoice), charging(srv))
			require.ErrorIs(t, out.err, row.kind)
			assert.Equal(t, 503, out.status)
			assert.Equal(t, "req_1", out.header.Get("X-Request-Id"))
			assert.NotEmpty(t, out.body)
			assert.Equal(t, row.state, out.op.State)
			assert.Equal(t, row.requests, srv.Requests())
			assert.Equal(t, row.state, p.recorded(out.op.Ref).State)
		})
	}
	for _, api := range []providers.Provider{providers.Stripe(), own(), providers.PayPal(), providers.Adyen("prefix")} {
		for _, status := range []int{401, 403, 404, 422, 429, 503} {
			t.Run(fmt.Sprintf("%s: its answer was lost, and the next is %d", api.Name, status), func(t *testing.T) {
				srv := serving(t, api, nil)
				srv.Script(providertest.DropAfter())
				srv.Script(repeated(4, providertest.Status(status, nil))...)
				p := calling(t, srv, onceward.Config{})
				out := p.ask(named(t, invoice), to(http.MethodPost, srv.URL+paths[api.Name]))
				var e *onceward.Error
				require.ErrorAs(t, out.err, &e)
				require.NotNil(t, e.Response)
				assert.Equal(t, status, e.Response.Status)
				assert.Contains(t, []journal.State{journal.Pending, journal.Unknown}, p.recorded(out.op.Ref).State)
				assert.Len(t, srv.Effects(), 1)
			})
		}
	}
	t.Run("an unnamed one that has not run is cancelled, and its response handed over", func(t *testing.T) {
		srv := serving(t, providers.Stripe(), nil)
		srv.Script(repeated(5, providertest.Status(429, nil))...)
		p := calling(t, srv, onceward.Config{})
		out := p.ask(t.Context(), charging(srv))
		require.NoError(t, out.err)
		assert.Equal(t, 429, out.status)
		assert.Equal(t, onceward.Cancelled, out.op.State)
		assert.Empty(t, srv.Effects())
	})
}

// paths are those of an effect at each API.
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
		{"it is broken off where another is allowed", own(), 45 * time.Second, 0, false, 30 * time.Second, 2, onceward.Completed},
		{"it goes on where another is not", own(noRetention), 45 * time.Second, 0, false, 45 * time.Second, 1, onceward.Completed},
		{"until MaxWait", own(noRetention), 3 * time.Minute, 0, false, 2 * time.Minute, 1, onceward.Unknown},
		{"until the call's deadline", own(noRetention), 3 * time.Minute, 50 * time.Second, false, 49 * time.Second, 1, onceward.Unknown},
		{"in the background, too", own(noRetention), 45 * time.Second, 0, true, 45 * time.Second, 1, onceward.Completed},
		{"in the background until MaxWait", own(noRetention), 3 * time.Minute, 0, true, 2 * time.Minute, 1, onceward.Unknown},
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
				l.then(refuses(), refuses(), refuses(), refuses(), refuses())
				require.ErrorIs(t, p.ask(ctx, to(http.MethodPost, ownURL)).err, onceward.ErrPending)
				pass(time.Minute)
				began = time.Now()
				l.then(takes(row.works, says(200, paid)))
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
			} else {
				l.then(takes(row.works, says(200, paid)))
				p.ask(ctx, to(http.MethodPost, ownURL))
			}
			assert.WithinDuration(t, began.Add(row.after), time.Now(), time.Second)
			assert.Len(t, l.sent(), row.sent)
			assert.Equal(t, row.state, p.recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

func cutAfterTheStatusLine(t *testing.T) {
	cut := providertest.CutAt(4)
	for _, row := range []struct {
		name     string
		api      providers.Provider
		faults   []providertest.Fault
		status   int // of what the handler answers
		state    onceward.State
		err      error
		marked   bool
		requests int
	}{
		{"the same key again", own(), []providertest.Fault{cut}, 200, onceward.Completed, nil, false, 2},
		{"parked", own(), repeated(5, cut), 200, onceward.Pending, onceward.ErrPending, false, 5},
		{"completed and marked as cut", own(noRetention), []providertest.Fault{cut}, 200, onceward.Completed, io.ErrUnexpectedEOF, true, 1},
		{"unknown", own(noRetention), []providertest.Fault{cut}, 500, onceward.Unknown, onceward.ErrOutcomeUnknown, false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			srv := providertest.NewServer(row.api, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, paid)
			}))
			defer srv.Close()
			srv.Script(row.faults...)
			p := calling(t, srv, onceward.Config{})
			out := p.ask(named(t, invoice), charging(srv))
			require.ErrorIs(t, out.err, row.err)
			assert.Equal(t, row.state, out.op.State)
			assert.Equal(t, row.requests, srv.Requests())
			recorded := p.recorded(onceward.Ref{ID: invoice})
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

// Stripe keeps keys for 24 hours; the margin is an hour.
func retentionPassed(t *testing.T) {
	for name, asks := range map[string]bool{"asked again": true, "resumed": false} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).then(loses())
			p := start(t, l, onceward.Config{Journal: onDisk(t), Backoff: once})
			require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
			pass(23 * time.Hour)
			if asks {
				require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrOutcomeUnknown)
			} else {
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				require.Len(t, report.Problems, 1)
				require.ErrorIs(t, report.Problems[0], onceward.ErrOutcomeUnknown)
			}
			assert.Len(t, l.sent(), 1)
			assert.Equal(t, journal.Unknown, p.recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

func cancelledBeforeSending(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	ctx, cancel := context.WithCancel(named(t, invoice))
	p := calling(t, srv, onceward.Config{Trace: &onceward.Trace{Begun: func(onceward.Operation) { cancel() }}})
	out := p.ask(ctx, charging(srv))
	require.ErrorIs(t, out.err, context.Canceled)
	require.ErrorIs(t, out.err, onceward.ErrNotSent)
	assert.Equal(t, onceward.Cancelled, out.op.State)
	assert.Zero(t, srv.Requests())
	again := p.ask(named(t, invoice), charging(srv))
	require.NoError(t, again.err)
	assert.Len(t, srv.Effects(), 1)
}

func cancelledAfterSending(t *testing.T) {
	for _, row := range []struct {
		name  string
		api   providers.Provider
		kind  error
		state onceward.State
	}{
		{"parked, and due at once", own(), onceward.ErrPending, onceward.Pending},
		{"unknown where the rule forbids another", own(noRetention), onceward.ErrOutcomeUnknown, onceward.Unknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(named(t, invoice))
			defer cancel()
			srv := serving(t, row.api, func(providertest.Request) { cancel() })
			srv.Script(providertest.DelayBefore(time.Minute), providertest.None())
			p := calling(t, srv, onceward.Config{})
			out := p.ask(ctx, charging(srv))
			require.ErrorIs(t, out.err, row.kind)
			require.ErrorIs(t, out.err, context.Canceled)
			assert.Equal(t, row.state, p.recorded(out.op.Ref).State)
			again := p.ask(named(t, invoice), charging(srv))
			if row.state == onceward.Unknown {
				require.ErrorIs(t, again.err, onceward.ErrOutcomeUnknown)
				assert.Equal(t, 1, srv.Requests())
				return
			}
			require.NoError(t, again.err)
			assert.Equal(t, 1, srv.EffectsFor(string(again.op.Key)))
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
		{"it stays pending", own(), loses(), onceward.Pending},
		{"it stays pending where the rule forbids another, if nothing was sent", own(noRetention), refuses(), onceward.Pending},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.first)
			p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{row.api}, Backoff: once})
			require.ErrorIs(t, p.ask(named(t, invoice), to(http.MethodPost, ownURL)).err, onceward.ErrPending)
			l.always(takes(time.Hour, refuses()))
			ctx, stop := context.WithTimeout(t.Context(), 90*time.Second)
			defer stop()
			require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
			assert.Equal(t, row.state, p.recorded(onceward.Ref{ID: invoice}).State)
		})
	}
	virtual(t, "it is unknown where the rule forbids another", func(t *testing.T) {
		l := (&line{}).then(refuses())
		p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own(noRetention)}, Backoff: once})
		require.ErrorIs(t, p.ask(named(t, invoice), to(http.MethodPost, ownURL)).err, onceward.ErrPending)
		pass(time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		l.always(doing(stop, hangs()))
		_, _ = p.Resume(ctx)
		assert.Equal(t, onceward.Unknown, p.recorded(onceward.Ref{ID: invoice}).State)
	})
}

func wrongCredentialLater(t *testing.T) {
	for name, asks := range map[string]bool{"asked again": true, "resumed": false} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).then(refuses(), wrongKey)
			p := start(t, l, onceward.Config{Journal: onDisk(t), Backoff: once})
			require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
			pass(time.Hour)
			var err error
			if asks {
				out := p.ask(named(t, invoice))
				err = out.err
				assert.Equal(t, 401, out.status)
			} else {
				report, _ := p.Resume(t.Context())
				require.Len(t, report.Problems, 1)
				err = report.Problems[0]
			}
			require.ErrorIs(t, err, onceward.ErrPending)
			require.ErrorIs(t, err, onceward.ErrCredentialRefused)
			assert.Equal(t, journal.Pending, p.recorded(onceward.Ref{ID: invoice}).State)
		})
	}
}

func wrongCredential(t *testing.T) {
	srv := serving(t, providers.Stripe(), nil)
	srv.Script(providertest.Status(401, nil))
	p := calling(t, srv, onceward.Config{})
	out := p.ask(named(t, invoice), charging(srv), with("Authorization", "Bearer wrong"))
	require.NoError(t, out.err)
	assert.Equal(t, 401, out.status)
	assert.Equal(t, onceward.Cancelled, out.op.State)
	again := p.ask(named(t, invoice), charging(srv), with("Authorization", "Bearer right"))
	require.NoError(t, again.err)
	assert.Equal(t, 200, again.status)
	assert.Equal(t, out.op.Key, again.op.Key, "it is the same operation")
	assert.Len(t, srv.Effects(), 1)
}

// leftInFlight makes a call that a crash cuts off while it is at the provider, and
// returns the journal.
func leftInFlight(t *testing.T, api providers.Provider, cfg onceward.Config, options ...option) (*providertest.Server, journal.Journal) {
	t.Helper()
	var dead *process
	once := make(chan struct{}, 1)
	once <- struct{}{}
	srv := serving(t, api, func(providertest.Request) {
		select {
		case <-once:
			dead.crash()
		default:
		}
	})
	srv.Script(providertest.DropBefore())
	dead = calling(t, srv, cfg)
	require.Error(t, dead.ask(named(t, invoice), append([]option{charging(srv)}, options...)...).err)
	require.True(t, dead.crashed())
	require.Equal(t, journal.InFlight, dead.recorded(onceward.Ref{ID: invoice}).State)
	return srv, dead.journal.Journal
}

func withheldHeaderMissing(t *testing.T) {
	srv, j := leftInFlight(t, providers.Stripe(), onceward.Config{}, with("Authorization", "Bearer right"))
	next := calling(t, srv, onceward.Config{Journal: j})
	report, err := next.Resume(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.ErrorIs(t, report.Problems[0], onceward.ErrCredentialMissing)
	assert.ErrorContains(t, report.Problems[0], "Authorization")
	assert.Equal(t, journal.Pending, next.recorded(onceward.Ref{ID: invoice}).State)
	assert.Equal(t, 1, srv.Requests())
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
		// asking makes a process, and what asks it with a credential.
		asking := func(t *testing.T, srv *providertest.Server, j journal.Journal) (*process, func(ctx context.Context, value string) outcome) {
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
					return p.ask(ctx, charging(srv))
				}
				return p.ask(ctx, charging(srv), row.credential(value))
			}
		}
		for _, end := range []struct {
			name  string
			value string
			kind  error
			state onceward.State
		}{
			{"the same one is sent again", "first", nil, onceward.Completed},
			{"another one makes it unknown", "second", onceward.ErrOutcomeUnknown, onceward.Unknown},
		} {
			t.Run(row.name+": "+end.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(named(t, invoice))
				defer cancel()
				srv := serving(t, api, func(providertest.Request) { cancel() })
				srv.Script(providertest.DropBefore())
				p, ask := asking(t, srv, onDisk(t))
				require.ErrorIs(t, ask(ctx, "first").err, onceward.ErrPending)
				out := ask(named(t, invoice), end.value)
				require.ErrorIs(t, out.err, end.kind)
				assert.Equal(t, end.state, p.recorded(onceward.Ref{ID: invoice}).State)
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
			require.Equal(t, 401, ask(named(t, invoice), "first").status)
			out := ask(named(t, invoice), "second")
			require.NoError(t, out.err)
			assert.Equal(t, 200, out.status)
		})
	}
	t.Run("between the intent and the attempt: not sent, and usable again", func(t *testing.T) {
		srv := serving(t, api, nil)
		rotation, steady := 0, false
		p := calling(t, srv, onceward.Config{Authorize: func(r *http.Request) error {
			if !steady {
				rotation++
			}
			r.Header.Set("Authorization", "Bearer "+string(rune('a'+rotation)))
			return nil
		}})
		out := p.ask(named(t, invoice), charging(srv))
		require.ErrorIs(t, out.err, onceward.ErrNotSent)
		assert.Zero(t, srv.Requests())
		steady = true
		require.NoError(t, p.ask(named(t, invoice), charging(srv)).err)
		assert.Len(t, srv.Effects(), 1)
	})
	t.Run("none to be had, after an attempt: it is not said that nothing took effect", func(t *testing.T) {
		ctx, cancel := context.WithCancel(named(t, invoice))
		defer cancel()
		srv := serving(t, api, func(providertest.Request) { cancel() })
		srv.Script(providertest.DropAfter())
		var none error
		p := calling(t, srv, onceward.Config{Authorize: func(*http.Request) error { return none }})
		require.ErrorIs(t, p.ask(ctx, charging(srv)).err, onceward.ErrPending)
		none = errors.New("the vault is closed")
		out := p.ask(named(t, invoice), charging(srv))
		require.ErrorIs(t, out.err, none)
		require.ErrorIs(t, out.err, onceward.ErrPending)
		require.NotErrorIs(t, out.err, onceward.ErrNotSent)
		assert.Len(t, srv.Effects(), 1)
	})
	for _, row := range []struct {
		name  string
		fresh string
		state onceward.State
		sent  int
	}{
		{"resumed with the same one", "first", onceward.Completed, 2},
		{"resumed with another one", "second", onceward.Unknown, 1},
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
			assert.Equal(t, row.state, next.recorded(onceward.Ref{ID: invoice}).State)
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
		assert.Equal(t, journal.Completed, next.recorded(onceward.Ref{ID: invoice}).State)
	})
	virtual(t, "resumed with another one while nothing may have run: not sent, and usable again", func(t *testing.T) {
		value := "first"
		l := (&line{}).then(refuses())
		p := start(t, l, onceward.Config{
			Journal: onDisk(t), Providers: []providers.Provider{func() providers.Provider { p := api; p.Hosts = []string{"own.example"}; return p }()},
			Backoff: once, Authorize: func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+value)
				return nil
			},
		})
		require.ErrorIs(t, p.ask(named(t, invoice), to(http.MethodPost, ownURL)).err, onceward.ErrPending)
		value = "second"
		pass(2 * time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Parked)
		assert.Empty(t, l.sent())
		pass(2 * time.Hour)
		require.NoError(t, p.ask(named(t, invoice), to(http.MethodPost, ownURL)).err)
		require.Len(t, l.sent(), 1)
		assert.Equal(t, "Bearer second", l.sent()[0].Header.Get("Authorization"))
	})
}

func askedAgainAfterReap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Journal: onDisk(t), Keep: 48 * time.Hour})
		require.NoError(t, p.ask(named(t, invoice)).err)
		p.passInUse(49 * time.Hour)
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(running) }()
		pass(time.Second)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		require.True(t, p.recorded(onceward.Ref{ID: invoice}).Tombstone)
		require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrAnswerGone)
		require.ErrorIs(t, p.ask(named(t, invoice), body("another request")).err, onceward.ErrAnswerGone)
		assert.Len(t, l.sent(), 1)
	})
}

func clockBehindTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(loses())
		behind := time.Duration(0)
		p := start(t, l, onceward.Config{Journal: onDisk(t), Providers: []providers.Provider{own()}, Backoff: once})
		onceward.SetClock(p.Client, func() time.Time { return time.Now().Add(-behind) })
		order := func(name string) outcome { return p.ask(named(t, name), to(http.MethodPost, ownURL)) }
		require.ErrorIs(t, order("early").err, onceward.ErrPending)
		for _, day := range []string{"one day", "another", "a third"} {
			pass(24 * time.Hour)
			require.NoError(t, order(day).err)
		}
		l.then(loses())
		require.ErrorIs(t, order("late").err, onceward.ErrPending)
		last := time.Now()
		sent := len(l.sent())

		behind = 48 * time.Hour
		for _, name := range []string{"early", "late"} {
			out := order(name)
			require.ErrorIs(t, out.err, onceward.ErrPending)
			assert.ErrorContains(t, out.err, "clock", "said clearly")
		}
		pass(journal.Confirmation)
		early := order("early")
		require.ErrorIs(t, early.err, onceward.ErrPending)
		assert.WithinDuration(t, last, early.op.DueAt, time.Millisecond, "not before the clock has caught up")
		late := order("late")
		require.ErrorIs(t, late.err, onceward.ErrOutcomeUnknown)
		assert.Len(t, l.sent(), sent, "nothing is resent by window")

		pass(48 * time.Hour)
		out := order("early")
		require.NoError(t, out.err)
		require.ErrorIs(t, order("late").err, onceward.ErrOutcomeUnknown, "for good")
		require.Len(t, l.sent(), sent+1)
		assert.Equal(t, l.keys()[0], l.keys()[sent])

		assert.ErrorContains(t, early.err, "clock", "said clearly")
		assert.ErrorContains(t, late.err, "clock", "said clearly")
	})
	t.Run("a clock that boots in the past and is set right closes nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := (&line{}).then(loses())
			behind := time.Duration(0)
			p := start(t, l, onceward.Config{Journal: onDisk(t), Backoff: once})
			onceward.SetClock(p.Client, func() time.Time { return time.Now().Add(-behind) })
			require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
			behind = 400 * 24 * time.Hour
			require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
			pass(5 * time.Minute)
			require.ErrorIs(t, p.ask(named(t, invoice)).err, onceward.ErrPending)
			behind = 0
			pass(time.Hour)
			require.NoError(t, p.ask(named(t, invoice)).err)
			assert.Len(t, l.sent(), 2)
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
		{"copied", own(), false, onceward.Completed, 2},
		{"restored", own(), true, onceward.Completed, 2},
		{"copied, where the rule forbids another attempt", own(noRetention), false, onceward.Unknown, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var dead *process
			srv := serving(t, row.api, func(r providertest.Request) {
				if r.Number == 8 {
					dead.crash()
				}
			})
			srv.Script(providertest.Status(401, nil))
			srv.Script(repeated(5, providertest.Status(429, nil))...)
			srv.Script(providertest.None(), providertest.DropBefore())
			path := filepath.Join(t.TempDir(), "journal.db")
			j := openSQLite(t, path)
			dead = calling(t, srv, onceward.Config{Journal: j})
			require.Equal(t, 401, dead.ask(named(t, cancelled), charging(srv)).status)
			require.Equal(t, 429, dead.ask(named(t, pending), charging(srv)).status)
			require.Equal(t, 200, dead.ask(named(t, completed), charging(srv)).status)
			require.Error(t, dead.ask(named(t, invoice), charging(srv)).err)
			for id, state := range map[string]journal.State{cancelled: journal.Cancelled, pending: journal.Pending, completed: journal.Completed, invoice: journal.InFlight} {
				require.Equal(t, state, dead.recorded(onceward.Ref{ID: id}).State)
			}
			require.NoError(t, j.Close())
			backup, err := os.ReadFile(path)
			require.NoError(t, err)
			if row.restored {
				j = openSQLite(t, path)
				later := calling(t, srv, onceward.Config{Journal: j})
				require.NoError(t, later.ask(named(t, "later"), charging(srv)).err)
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
				require.ErrorIs(t, p.ask(named(t, id), charging(srv)).err, onceward.ErrJournalRestored)
			}
			_, err = p.Resume(t.Context())
			require.ErrorIs(t, err, onceward.ErrJournalRestored)
			assert.Equal(t, requests, srv.Requests(), "nothing is sent until it is adopted")

			require.NoError(t, j.(*sqlite.Journal).Adopt(t.Context()))
			for _, id := range []string{cancelled, pending, invoice} {
				op := p.recorded(onceward.Ref{ID: id})
				assert.True(t, op.MayHaveRun, id)
				assert.Equal(t, op.CreatedAt, op.FirstSentAt, id)
			}
			next := calling(t, srv, onceward.Config{Journal: j})
			onceward.SetClock(next.Client, func() time.Time { return time.Now().Add(time.Minute) }) // past the due times
			_, err = next.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, requests+row.requests, srv.Requests())
			for id, state := range map[string]journal.State{cancelled: journal.Unknown, pending: row.resumed, completed: journal.Completed, invoice: row.resumed} {
				assert.Equal(t, state, next.recorded(onceward.Ref{ID: id}).State, id)
			}
			require.ErrorIs(t, next.ask(named(t, cancelled), charging(srv)).err, onceward.ErrOutcomeUnknown)
			require.NoError(t, next.ask(named(t, completed), charging(srv)).err)
			assert.Equal(t, requests+row.requests, srv.Requests())
		})
	}
}

func notRecordable(t *testing.T) {
	for name, call := range map[string]option{
		"a body over the limit": body(strings.Repeat("x", 101)),
		"an unreadable body": func(r *http.Request) {
			r.Body, r.GetBody, r.ContentLength = io.NopCloser(brokenBody{}), nil, 10
		},
		"an invalid key": carrying("not a key"),
	} {
		t.Run(name, func(t *testing.T) {
			srv := serving(t, providers.Stripe(), nil)
			p := calling(t, srv, onceward.Config{MaxRequestBody: 100})
			require.ErrorIs(t, p.ask(named(t, invoice), charging(srv), call).err, onceward.ErrInvalidRequest)
			assert.Empty(t, p.everything())
			assert.Zero(t, srv.Requests())
			require.NoError(t, p.ask(named(t, invoice), charging(srv)).err, "the name is still free")
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
			require.ErrorIs(t, p.ask(named(t, invoice), charging(srv), call).err, onceward.ErrInvalidRequest)
			assert.Zero(t, srv.Requests())
			out := p.ask(t.Context(), charging(srv), call)
			require.NoError(t, out.err)
			assert.Equal(t, 200, out.status)
			assert.Equal(t, 1, srv.Requests(), "unnamed, it passes through")
			assert.Empty(t, p.everything())
		})
	}
}

// A step of the clock by two days, to either side, at the journal itself.
func TestClockStepsOfTwoDaysInTheJournal(t *testing.T) {
	const step = 48 * time.Hour
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	terms := journal.Terms{Dedup: journal.DedupEverything, Retention: 24 * time.Hour, Guard: true}
	for kind, open := range journals {
		for _, row := range []struct {
			name     string
			at       time.Duration // the clock when it is asked for again, from when it was parked
			decision journal.Decision
			keepsOn  journal.Decision // when it has gone on from there
			closed   bool
		}{
			{"it stands still", 0, journal.Execute, journal.Wait, false},
			{"it steps ahead: past the window", step, journal.Later, journal.Stop, false},
			{"it steps back: stamped by a clock that ran ahead", -step, journal.Later, journal.Stop, true},
			{"it steps back by less than the margin", -30 * time.Minute, journal.Execute, journal.Wait, false},
		} {
			t.Run(row.name+" ("+kind+")", func(t *testing.T) {
				j := open(t)
				s, err := j.Join(t.Context())
				require.NoError(t, err)
				ref := journal.Ref{ID: invoice}
				begin := journal.Event{Kind: journal.EventBegin, Ref: ref, At: noon, Session: s.ID(),
					Intent: &journal.Intent{Fingerprint: "f", Key: "k", Terms: terms}}
				apply := func(ev journal.Event) journal.Result {
					res, err := j.Apply(t.Context(), ev)
					require.NoError(t, err)
					return res
				}
				begun := apply(begin)
				require.Equal(t, journal.Execute, begun.Decision)
				due := noon.Add(min(row.at, 0))
				apply(journal.Event{Kind: journal.EventPark, Ref: ref, At: noon.Add(min(row.at, 0)), Due: due, Session: s.ID(),
					Claim: begun.Operation.Claim, Attempts: 1, Open: true})
				begin.At = noon.Add(row.at)
				assert.Equal(t, row.decision, apply(begin).Decision)
				begin.At = begin.At.Add(journal.Confirmation)
				assert.Equal(t, row.keepsOn, apply(begin).Decision)
				op, err := j.Get(t.Context(), ref)
				require.NoError(t, err)
				assert.Equal(t, row.closed, op.WindowClosed)
				if row.keepsOn == journal.Stop {
					begin.At = noon.Add(time.Hour) // the clock is set right
					assert.Equal(t, journal.Stop, apply(begin).Decision, "for good")
				}
			})
		}
	}
}

func TestClockStepsOfTwoDaysInTheClient(t *testing.T) {
	const step = 48 * time.Hour
	pending, unknown := onceward.ErrPending, onceward.ErrOutcomeUnknown
	for _, row := range []struct {
		name  string
		steps []time.Duration // before each ask
		kinds []error         // of each ask, the first of which is lost
		sent  int
	}{
		{"ahead after the send, for good", []time.Duration{0, step, journal.Confirmation, -step}, []error{pending, pending, unknown, unknown}, 1},
		{"ahead after the send, and back", []time.Duration{0, step, -step, time.Hour}, []error{pending, pending, pending, nil}, 2},
		{"back after the send, for good", []time.Duration{0, -step, journal.Confirmation, step}, []error{pending, pending, unknown, unknown}, 1},
		{"back after the send, and ahead", []time.Duration{0, -step, step + time.Hour}, []error{pending, pending, nil}, 2},
		{"none", []time.Duration{0, time.Hour}, []error{onceward.ErrPending, nil}, 2},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := (&line{}).then(loses())
			p := start(t, l, onceward.Config{Journal: j, Backoff: once})
			now := time.Now()
			onceward.SetClock(p.Client, func() time.Time { return now })
			for i, step := range row.steps {
				now = now.Add(step)
				require.ErrorIs(t, p.ask(named(t, invoice)).err, row.kinds[i], "ask %d", i)
			}
			assert.Len(t, l.sent(), row.sent)

			// Operations of the right time go on under any clock.
			out := p.ask(named(t, "invoice-2/charge"))
			require.NoError(t, out.err)
		})
	}
}
