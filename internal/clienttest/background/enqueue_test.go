package background_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// shop is an application whose orders are in its journal's file.
type shop struct {
	*process
	journal *sqlite.Journal
	db      *sql.DB
}

// openShop opens a shop on the file at path. A second shop on the same file is another process.
func openShop(t *testing.T, path string, via http.RoundTripper, cfg onceward.Config) *shop {
	t.Helper()
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Exec("CREATE TABLE IF NOT EXISTS orders (id TEXT) STRICT")
	require.NoError(t, err)
	cfg.Journal = j
	if cfg.Providers == nil {
		cfg.Providers = []providers.Provider{providers.Stripe()}
	}
	cfg.HTTPClient = &http.Client{Transport: via}
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Shutdown(t.Context()) })
	return &shop{oncetest.Of(t, c, nil), j, db}
}

// virtualShop runs a test in virtual time, with a shop whose Run is running.
func virtualShop(t *testing.T, name string, cfg onceward.Config, f func(t *testing.T, s *shop, l *line)) {
	t.Helper()
	shopUnder(t, context.Background(), name, cfg, f)
}

// seldomShop is virtualShop for tests that live through hours. Run polls seldom, and does due work in time all the same.
func seldomShop(t *testing.T, name string, cfg onceward.Config, f func(t *testing.T, s *shop, l *line)) {
	t.Helper()
	shopUnder(t, seldom(), name, cfg, f)
}

func seldom() context.Context { return seam.Seldom(context.Background(), time.Minute) }

func shopUnder(t *testing.T, ctx context.Context, name string, cfg onceward.Config, f func(t *testing.T, s *shop, l *line)) {
	t.Helper()
	virtual(t, name, func(t *testing.T) {
		l := &line{}
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, cfg)
		s.runs(t, ctx)
		f(t, s, l)
	})
}

// runs keeps Run running until the test's end.
func (s *shop) runs(t *testing.T, ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		<-ended
	})
	pass(time.Second) // the session has begun: in virtual time no other goroutine may wait for the lock that begins one
}

// orders inserts an order and enqueues its charge in one transaction. commit says whether to commit it, whatever
// Enqueue returns.
func (s *shop) orders(ctx context.Context, commit bool, options ...option) (onceward.Operation, error) {
	s.T.Helper()
	tx, err := s.db.Begin()
	require.NoError(s.T, err)
	defer tx.Rollback()
	op, enqueued := s.Enqueue(ctx, sqlite.Tx(tx), chargeRequest(s.T, options...))
	_, err = tx.Exec("INSERT INTO orders VALUES ('an order')")
	require.NoError(s.T, err)
	if commit {
		require.NoError(s.T, tx.Commit())
	}
	return op, enqueued
}

func (s *shop) count(t *testing.T) (n int) {
	require.NoError(t, s.db.QueryRow("SELECT count(*) FROM orders").Scan(&n))
	return n
}

func TestEnqueuedIsSentOnceItIsCommitted(t *testing.T) {
	virtualShop(t, "committed", onceward.Config{}, func(t *testing.T, s *shop, l *line) {
		op, err := s.orders(named(t, invoice), true)
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, op.State)
		require.NotEmpty(t, op.Key)
		s.Wake()
		done, err := s.Wait(t.Context(), op.Ref)
		require.NoError(t, err)
		assert.Equal(t, paid, string(done.Answer.Body))
		assert.Equal(t, []string{string(op.Key)}, l.Keys())
		assert.Equal(t, 1, s.count(t))
		// The caller does not know whether the commit was stored, and enqueues it again.
		again, err := s.orders(named(t, invoice), true)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, again.State)
		assert.Equal(t, op.Key, again.Key)
		pass(time.Minute)
		assert.Len(t, l.Sent(), 1)
	})
	virtualShop(t, "rolled back", onceward.Config{}, func(t *testing.T, s *shop, l *line) {
		op, err := s.orders(named(t, invoice), false)
		require.NoError(t, err)
		pass(time.Minute)
		assert.Empty(t, l.Sent())
		_, err = s.Wait(t.Context(), op.Ref)
		require.ErrorIs(t, err, onceward.ErrNotFound)
		assert.Zero(t, s.count(t))
	})
}

// Run finds an operation that another process enqueued, without a notification. It finds the next one within a second.
func TestRunFindsOperationsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	virtual(t, "two processes", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		l := &line{}
		web, worker := openShop(t, path, &line{}, onceward.Config{}), openShop(t, path, l, onceward.Config{})
		worker.runs(t, context.Background())
		for _, name := range []string{"order-1", "order-2", "order-3"} {
			_, err := web.orders(named(t, name), true)
			require.NoError(t, err)
			pass(5 * time.Second)
		}
		require.Len(t, l.Sent(), 3)
		_, err := web.orders(named(t, "order-4"), true)
		require.NoError(t, err)
		pass(time.Second)
		assert.Len(t, l.Sent(), 4)
	})
	virtual(t, "with Wake", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		l := &line{}
		web, worker := openShop(t, path, &line{}, onceward.Config{}), openShop(t, path, l, onceward.Config{})
		worker.runs(t, context.Background())
		for i := range 3 {
			_, err := web.orders(named(t, fmt.Sprint("order-", i)), true)
			require.NoError(t, err)
			synctest.Wait()
			require.Len(t, l.Sent(), i, "nobody has told it")
			worker.Wake()
			pass(15 * time.Millisecond) // Run waits for 10 ms, and two processes take turns of less than 1 ms
			require.Len(t, l.Sent(), i+1)
		}
	})
}

// A process that has enqueued finds its next operation within a second, because it looks more often.
func TestRunFindsItsOwnEnqueuedOperations(t *testing.T) {
	virtualShop(t, "", onceward.Config{}, func(t *testing.T, s *shop, l *line) {
		_, err := s.orders(onceward.WithDue(named(t, "later"), time.Now().Add(time.Hour)), true)
		require.NoError(t, err)
		pass(time.Minute + 200*time.Millisecond)
		_, err = s.orders(named(t, "now"), true)
		require.NoError(t, err)
		pass(time.Second)
		require.Len(t, l.Sent(), 1)
	})
}

// A due time in the last representable second is kept exactly.
func TestDueInTheLastSecond(t *testing.T) {
	virtualShop(t, "", onceward.Config{}, func(t *testing.T, s *shop, _ *line) {
		last := time.Date(9999, time.December, 31, 23, 59, 59, int(time.Second/2), time.UTC)
		op, err := s.orders(onceward.WithDue(named(t, "never"), last), true)
		require.NoError(t, err)
		assert.True(t, last.Equal(op.DueAt), op.DueAt)
	})
}

// An invalid enqueue returns its reason, and the caller's transaction goes on.
func TestInvalidEnqueues(t *testing.T) {
	t.Parallel()
	strict := onceward.Config{Strict: true}
	for name, row := range map[string]struct {
		cfg     onceward.Config
		ctx     func(context.Context) context.Context
		options []option
		kind    error
		says    string
	}{
		"no name":       {ctx: func(context.Context) context.Context { return t.Context() }, kind: onceward.ErrNameNeeded, says: "enqueue it twice"},
		"an empty name": {ctx: func(ctx context.Context) context.Context { return onceward.WithOperation(ctx, "") }, kind: onceward.ErrInvalidRequest, says: "name is empty"},
		"no effect":     {options: []option{func(r *http.Request) { r.Method = http.MethodGet }}, kind: onceward.ErrInvalidRequest, says: "has no effect"},
		"a stream":      {options: []option{func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }}, kind: onceward.ErrInvalidRequest, says: "can't be repeated"},
		"a large body":  {cfg: onceward.Config{MaxRequestBody: 3}, kind: onceward.ErrInvalidRequest, says: "MaxRequestBody"},
		"a key":         {options: []option{carrying("mine")}, kind: onceward.ErrInvalidRequest, says: "leave it out"},
		"a card":        {options: []option{body("card[number]=4242424242424242&amount=1")}, kind: onceward.ErrInvalidRequest, says: "secret"},
		"a credential that Authorize does not add": {options: []option{with("Authorization", "Bearer sk_test_1")}, kind: onceward.ErrCredentialMissing, says: "Authorization"},
		"strict": {cfg: strict, options: []option{to(http.MethodPost, "https://api.stripe.com:444/v1/charges")}, kind: onceward.ErrUnprotected, says: "another port"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, row.cfg)
			ctx := named(t, invoice)
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			_, err := s.orders(ctx, true, row.options...)
			require.ErrorIs(t, err, row.kind)
			require.ErrorContains(t, err, row.says)
			var e *onceward.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 1, s.count(t))
			for op, err := range s.journal.List(t.Context(), journal.Filter{}) {
				require.NoError(t, err)
				assert.Fail(t, "it is recorded", op.ID)
			}
		})
	}
}

func TestEnqueueNeedsATransaction(t *testing.T) {
	c, err := onceward.New(onceward.Config{Journal: withoutOutbox{memory.New()}, Providers: []providers.Provider{providers.Stripe()}})
	require.NoError(t, err)
	s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, onceward.Config{})
	tx, err := s.db.Begin()
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = c.Enqueue(named(t, invoice), sqlite.Tx(tx), chargeRequest(t))
	require.ErrorContains(t, err, "in a transaction of the caller")
	_, err = s.Enqueue(named(t, invoice), nil, chargeRequest(t))
	require.ErrorContains(t, err, "there is no transaction")
	_, err = s.Enqueue(named(t, invoice), sqlite.Tx(nil), chargeRequest(t))
	require.ErrorIs(t, err, onceward.ErrJournal)
	require.NoError(t, s.Shutdown(t.Context()))
	_, err = s.Enqueue(named(t, invoice), sqlite.Tx(tx), chargeRequest(t))
	require.ErrorIs(t, err, onceward.ErrShutdown)
}

// A request's body is closed, whatever the result.
func TestEnqueueClosesTheBody(t *testing.T) {
	s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, onceward.Config{})
	for _, ctx := range []context.Context{named(t, invoice), t.Context()} {
		closed := 0
		_, _ = s.orders(ctx, true, func(r *http.Request) { r.Body = closing(r.Body, func() { closed++ }) })
		assert.Positive(t, closed)
	}
}

// An operation that is enqueued in a trace has its traceparent.
func TestEnqueuedInATrace(t *testing.T) {
	s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, onceward.Config{})
	op, err := s.orders(named(t, invoice), true, with("Traceparent", parentOfCall))
	require.NoError(t, err)
	assert.Equal(t, parentOfCall, op.Trace)
}

func TestEnqueueUnderAUsedName(t *testing.T) {
	s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, onceward.Config{})
	_, err := s.orders(named(t, invoice), true)
	require.NoError(t, err)
	_, err = s.orders(named(t, invoice), true, body("amount=1"))
	var e *onceward.Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, onceward.ErrKeyReused)
	assert.Equal(t, []string{"body"}, e.Differs)
	assert.Equal(t, 2, s.count(t))
	_, err = s.orders(named(t, "another"), true)
	require.NoError(t, err)
}

// A call by name sends the enqueued operation at once. If it fails without an effect, Run sends the operation.
func TestCallSendsTheEnqueuedOperation(t *testing.T) {
	t.Parallel()
	virtual(t, "sends", func(t *testing.T) {
		l := &line{}
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, onceward.Config{})
		op, err := s.orders(named(t, invoice), true)
		require.NoError(t, err)
		out := s.Ask(named(t, invoice), with("Idempotency-Key", "the-SDKs-own"), with("Content-Type", form))
		require.NoError(t, out.Err)
		assert.Equal(t, []string{string(op.Key)}, l.Keys())
		again, err := s.orders(named(t, invoice), true)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, again.State)
	})
	virtual(t, "gives up", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, onceward.Config{Backoff: once})
		op, err := s.orders(named(t, invoice), true)
		require.NoError(t, err)
		require.ErrorIs(t, s.Ask(named(t, invoice)).Err, onceward.ErrPending)
		s.runs(t, context.Background())
		done, err := s.Wait(t.Context(), op.Ref)
		require.NoError(t, err)
		assert.Equal(t, op.Key, done.Key)
	})
}

// An operation that a call is sending does not count as enqueued, because the call may cancel it.
func TestEnqueueBesideACall(t *testing.T) {
	virtual(t, "in flight", func(t *testing.T) {
		answer := make(chan struct{})
		l := (&line{}).Then(doing(func() { <-answer }, refuses()))
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, onceward.Config{Backoff: once})
		asked := make(chan outcome, 1)
		ctx, giveUp := context.WithCancel(named(t, invoice))
		go func() { asked <- s.Ask(ctx) }()
		pass(time.Second)
		_, err := s.orders(named(t, invoice), true)
		require.ErrorIs(t, err, onceward.ErrInFlight)
		giveUp()
		close(answer)
		<-asked
		op, err := s.orders(named(t, invoice), true)
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, op.State)
	})
}

func TestTimesOfEnqueuedOperations(t *testing.T) {
	t.Parallel()
	seldomShop(t, "due", onceward.Config{}, func(t *testing.T, s *shop, l *line) {
		op, err := s.orders(onceward.WithDue(named(t, invoice), time.Now().Add(time.Hour)), true)
		require.NoError(t, err)
		pass(59 * time.Minute)
		assert.Empty(t, l.Sent())
		require.ErrorIs(t, s.Ask(named(t, invoice)).Err, onceward.ErrPending)
		_, err = s.Wait(t.Context(), op.Ref)
		require.NoError(t, err)
		assert.Len(t, l.Sent(), 1)
	})
	told := make(chan onceward.Operation, 9)
	settled := onceward.Config{Outcomes: &onceward.Outcomes{Handle: func(_ context.Context, op onceward.Operation) error {
		told <- op
		return nil
	}}}
	seldomShop(t, "not after", settled, func(t *testing.T, s *shop, l *line) {
		now := time.Now()
		ctx := onceward.WithDue(onceward.WithNotAfter(named(t, invoice), now.Add(time.Minute)), now.Add(time.Hour))
		op, err := s.orders(ctx, true)
		require.NoError(t, err)
		_, err = s.Wait(t.Context(), op.Ref)
		require.ErrorIs(t, err, onceward.ErrNotSent)
		synctest.Wait()
		require.Len(t, told, 1)
		assert.Equal(t, onceward.StateCancelled, (<-told).State)
		pass(2 * time.Hour)
		assert.Empty(t, l.Sent())
	})
}

// Enqueue within a flow is refused, because the flow would not know the operation.
func TestEnqueueInAFlowIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := openShop(t, path, &line{}, onceward.Config{})
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer j.Close()
	p := startFlows(t, &line{}, onceward.Config{Journal: j})
	failed := errors.New("it was tried")
	_ = p.Flow(t.Context(), "flow-1", nil, func(ctx context.Context) error {
		_, err := s.orders(onceward.WithOperation(ctx, invoice), true)
		assert.ErrorIs(t, err, onceward.ErrInvalidRequest)
		assert.ErrorContains(t, err, "in a flow")
		_, err = s.orders(onceward.WithOperation(onceward.WithParent(ctx, ""), invoice), true)
		assert.NoError(t, err)
		return failed
	})
	op, err := s.Operation(t.Context(), onceward.Ref{ID: invoice})
	require.NoError(t, err)
	assert.Equal(t, journal.StatePending, op.State)
}

// A time beyond the journal's range means "never" or "forever", and not its opposite.
func TestTimesThatNoJournalKeeps(t *testing.T) {
	t.Parallel()
	for _, never := range []time.Time{time.Unix(math.MaxInt64, 0), time.Unix(1<<61, 0), time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		seldomShop(t, fmt.Sprint(never.Unix()), onceward.Config{}, func(t *testing.T, s *shop, l *line) {
			op, err := s.orders(onceward.WithDue(named(t, "never"), never), true)
			require.NoError(t, err)
			_, err = json.Marshal(op)
			require.NoError(t, err)
			pass(10 * time.Minute)
			require.Empty(t, l.Sent())
			_, err = s.orders(onceward.WithNotAfter(named(t, "for ever"), never), true)
			require.NoError(t, err)
			pass(time.Minute)
			require.Len(t, l.Sent(), 1)
			require.NoError(t, s.Ask(onceward.WithNotAfter(named(t, "at once"), never)).Err)
		})
	}
	for _, past := range []time.Time{time.Unix(math.MinInt64, 0), time.Unix(-1<<61, 0), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)} {
		seldomShop(t, fmt.Sprint(past.Unix()), onceward.Config{}, func(t *testing.T, s *shop, l *line) {
			require.ErrorIs(t, s.Ask(onceward.WithNotAfter(named(t, "too late"), past)).Err, onceward.ErrNotSent)
			_, err := s.orders(onceward.WithDue(named(t, "at once"), past), true)
			require.NoError(t, err)
			pass(time.Minute)
			require.Len(t, l.Sent(), 1)
		})
	}
}

// An enqueue under a reaped operation's name gets ErrAnswerGone, because the two requests can't be compared any
// more.
func TestEnqueueUnderAReapedName(t *testing.T) {
	virtual(t, "reaped", func(t *testing.T) {
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, onceward.Config{})
		require.NoError(t, s.Ask(named(t, invoice)).Err)
		for range 2 { // a clock that has leaped is believed later
			pass(40 * 24 * time.Hour)
			oncetest.SeesTheClock(t, s.journal, time.Now())
			pass(time.Hour)
			oncetest.SeesTheClock(t, s.journal, time.Now())
		}
		n, err := s.journal.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: time.Hour}, 100)
		require.NoError(t, err)
		require.Positive(t, n)
		_, err = s.orders(named(t, invoice), true, body("amount=1"))
		require.ErrorIs(t, err, onceward.ErrAnswerGone)
	})
}

// An operation that a call began with its own credential does not count as enqueued if only that call has the
// credential.
func TestEnqueueWithTheCallersCredential(t *testing.T) {
	virtual(t, "pending", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), l, onceward.Config{Backoff: once})
		err := s.Ask(named(t, invoice), with("Authorization", "Bearer sk_test_1"), with("Content-Type", form)).Err
		require.ErrorIs(t, err, onceward.ErrPending)
		_, err = s.orders(named(t, invoice), true)
		require.ErrorIs(t, err, onceward.ErrCredentialMissing)
		require.ErrorContains(t, err, "Authorization")
	})
}

// A retried transaction enqueues the same request, whose body was read the first time.
func TestARequestIsEnqueuedAgain(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.Reader{
		"a body that can be had again":  strings.NewReader(chargeForm),
		"one that can't, of any length": struct{ io.Reader }{strings.NewReader(chargeForm)},
	} {
		virtualShop(t, name, onceward.Config{}, func(t *testing.T, s *shop, l *line) {
			req, err := http.NewRequest(http.MethodPost, chargeURL, body)
			require.NoError(t, err)
			req.Header.Set("Content-Type", form)
			for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
				tx, err := s.db.Begin()
				require.NoError(t, err)
				_, err = s.Enqueue(named(t, invoice), sqlite.Tx(tx), req)
				require.NoError(t, err)
				require.NoError(t, end(tx))
			}
			pass(time.Minute)
			require.Len(t, l.Sent(), 1)
			assert.Equal(t, chargeForm, l.Sent()[0].Body)
		})
	}
}

// If a provider scopes keys to credentials, an enqueue needs one. The journal is not read meanwhile, because it may be
// waiting for the caller's transaction.
func TestEnqueueWithoutACredential(t *testing.T) {
	sealed := errors.New("the vault is sealed")
	square := providers.Square(time.Hour)
	s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, onceward.Config{
		Providers: []providers.Provider{providers.Stripe(), square}, Authorize: func(r *http.Request) error {
			if strings.Contains(r.URL.Host, "square") {
				return sealed
			}
			return nil
		}})
	_, err := s.orders(named(t, invoice), true)
	require.NoError(t, err)
	_, err = s.orders(named(t, "order-2"), true, to(http.MethodPost, "https://connect.squareup.com/v2/payments"), body(`{"amount_money":{"amount":1}}`),
		with("Content-Type", "application/json"))
	require.ErrorIs(t, err, onceward.ErrCredentialMissing)
	require.ErrorIs(t, err, sealed)
}

// A process whose clock is hours behind enqueues an operation that may have run. That does not shorten its resend
// window, as nothing is sent by that clock.
func TestEnqueueByAClockBehind(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		l := (&line{}).Then(loses())
		right, behind := openShop(t, path, l, onceward.Config{Backoff: once}), openShop(t, path, l, onceward.Config{})
		setClock(behind.Client, func() time.Time { return time.Now().Add(-3 * time.Hour) })
		require.ErrorIs(t, right.Ask(named(t, invoice)).Err, onceward.ErrPending)
		op, err := behind.orders(named(t, invoice), true)
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, op.State)
		pass(time.Hour)
		require.NoError(t, right.Ask(named(t, invoice)).Err)
		assert.Len(t, l.Sent(), 2)
	})
}

// A withdrawn operation has no due time.
func TestEnqueuedForLaterAndWithdrawn(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		s := openShop(t, filepath.Join(t.TempDir(), "journal.db"), &line{}, onceward.Config{})
		_, err := s.orders(onceward.WithDue(named(t, invoice), time.Now().Add(time.Hour)), true)
		require.NoError(t, err)
		op, err := s.Withdraw(t.Context(), onceward.Ref{ID: invoice}, onceward.ResolveOptions{})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCancelled, op.State)
		assert.Zero(t, op.DueAt)
	})
}
