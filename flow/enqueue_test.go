package flow_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

// localJournal is a journal that takes the application's transactions.
type localJournal interface {
	machine.Store
	machine.LocalFlows
}

// checkout is a shop whose orders are flows that its own transactions enqueue.
type checkout struct {
	*process
	journal localJournal
	order   *flow.Func[string, string]
	line    *line
}

func newCheckout(t *testing.T, j localJournal, cfg onceward.Config) *checkout {
	t.Helper()
	s := &checkout{journal: j, line: (&line{}).Always(says(http.StatusOK, paid))}
	s.order = flow.Define("order", 1, func(ctx context.Context, of string) (string, error) {
		for _, name := range []string{"charge", "receipt"} {
			if err := s.Step(ctx, name); err != nil {
				return "", err
			}
		}
		return of, nil
	})
	cfg.Journal, cfg.Providers, cfg.HTTPClient = j, []providers.Provider{providers.Stripe()}, &http.Client{Transport: s.line}
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Shutdown(context.WithoutCancel(t.Context())) })
	runner, err := flow.New(c, flow.Config{Definitions: []flow.Definition{s.order}})
	require.NoError(t, err)
	s.process = &process{oncetest.Of(t, c, runner)}
	return s
}

// within enqueues a flow in a transaction on the journal's database, and ends that.
func (s *checkout) within(ctx context.Context, commits bool, do func(tx journal.Tx) error) error {
	tx, err := s.journal.BeginTx(ctx)
	require.NoError(s.T, err)
	failed := do(tx)
	if commits {
		require.NoError(s.T, tx.Commit(ctx))
	} else {
		require.NoError(s.T, tx.Rollback(ctx))
	}
	return failed
}

func (s *checkout) resumes() {
	s.T.Helper()
	_, err := s.Resume(s.T.Context())
	require.NoError(s.T, err)
}

func eachLocal(t *testing.T, f func(t *testing.T, j localJournal)) {
	t.Run("in memory", func(t *testing.T) { f(t, memory.New()) })
	t.Run("on SQLite", func(t *testing.T) {
		j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Volatile: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = j.Close() })
		f(t, j)
	})
}

// A flow that a transaction enqueues begins after the commit, and not at all after a rollback. Its name is its own.
func TestEnqueuedFlowBeginsAfterTheCommit(t *testing.T) {
	t.Parallel()
	eachLocal(t, func(t *testing.T, j localJournal) {
		s := newCheckout(t, j, onceward.Config{})
		ctx := t.Context()
		require.NoError(t, s.within(ctx, false, func(tx journal.Tx) error {
			f, err := s.order.Enqueue(ctx, s.Flows, tx, "order-991", "apples")
			assert.Equal(t, flow.StateWaiting, f.State)
			return err
		}))
		s.resumes()
		_, err := s.Flows.Flow(ctx, onceward.Ref{ID: "order-991"})
		require.ErrorIs(t, err, journal.ErrNotFound)

		require.NoError(t, s.within(ctx, true, func(tx journal.Tx) error {
			for range 2 {
				if _, err := s.order.Enqueue(ctx, s.Flows, tx, "order-991", "apples"); err != nil {
					return err
				}
			}
			_, other := s.order.Enqueue(ctx, s.Flows, tx, "order-991", "pears")
			assert.ErrorIs(t, other, onceward.ErrKeyReused)
			return nil
		}), "after a misuse the transaction goes on")
		assert.Empty(t, s.line.Sent())
		s.resumes()
		assert.Len(t, s.line.Sent(), 2)

		require.NoError(t, s.within(ctx, true, func(tx journal.Tx) error {
			f, err := s.order.Enqueue(ctx, s.Flows, tx, "order-991", "apples")
			assert.Equal(t, flow.StateFinished, f.State, "as it stands")
			return err
		}))
		out, err := s.order.Run(ctx, s.Flows, "order-991", "apples")
		require.NoError(t, err)
		assert.Equal(t, "apples", out)
		assert.Len(t, s.line.Sent(), 2)
	})
}

// A caller may run an enqueued flow before Run does. WithDue delays it.
func TestEnqueuedFlowThatIsDueLater(t *testing.T) {
	t.Parallel()
	oncetest.Virtual(t, "", func(t *testing.T) {
		s := newCheckout(t, memory.New(), onceward.Config{})
		ctx := t.Context()
		require.NoError(t, s.within(ctx, true, func(tx journal.Tx) error {
			_, err := s.order.Enqueue(onceward.WithDue(ctx, time.Now().Add(time.Hour)), s.Flows, tx, "later", "pears")
			if err == nil {
				_, err = s.order.Enqueue(ctx, s.Flows, tx, "now", "apples")
			}
			return err
		}))
		_, err := s.order.Run(ctx, s.Flows, "now", "apples")
		require.NoError(t, err)
		_, err = s.order.Run(ctx, s.Flows, "later", "pears")
		require.ErrorIs(t, err, onceward.ErrPending)
		running, stop := context.WithTimeout(ctx, time.Hour+10*time.Second)
		defer stop()
		require.ErrorIs(t, s.Run(running), context.DeadlineExceeded)
		f, err := s.Flows.Flow(ctx, onceward.Ref{ID: "later"})
		require.NoError(t, err)
		assert.Equal(t, flow.StateFinished, f.State)
	})
}

// Run finds an enqueued flow within five seconds of the commit, and at once by Wake.
func TestRunFindsAnEnqueuedFlow(t *testing.T) {
	t.Parallel()
	for _, wakes := range []bool{false, true} {
		oncetest.Virtual(t, "", func(t *testing.T) {
			s := newCheckout(t, memory.New(), onceward.Config{})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			oncetest.Pass(time.Minute)
			require.NoError(t, s.within(ctx, true, func(tx journal.Tx) error {
				_, err := s.order.Enqueue(ctx, s.Flows, tx, "order-991", "apples")
				return err
			}))
			if wakes {
				s.Wake()
				oncetest.Pass(time.Second)
			} else {
				oncetest.Pass(5*time.Second + time.Second)
			}
			assert.Len(t, s.line.Sent(), 2)
			stop()
			require.ErrorIs(t, <-ended, context.Canceled)
		})
	}
}

// A flow that can't be enqueued records nothing, and says why.
func TestFlowThatCantBeEnqueued(t *testing.T) {
	t.Parallel()
	s := newCheckout(t, memory.New(), onceward.Config{})
	ctx := t.Context()
	stranger := flow.Define("stranger", 1, func(context.Context, string) (string, error) { return "", nil })
	unreadable := flow.Define("unreadable", 1, func(context.Context, func()) (string, error) { return "", nil })
	require.NoError(t, s.Flows.Register(unreadable))
	_ = s.within(ctx, true, func(tx journal.Tx) error {
		for name, row := range map[string]struct {
			kind error
			do   func() error
		}{
			"without a transaction":  {onceward.ErrInvalidRequest, func() error { _, err := s.order.Enqueue(ctx, s.Flows, nil, "a", ""); return err }},
			"without a name":         {onceward.ErrInvalidRequest, func() error { _, err := s.order.Enqueue(ctx, s.Flows, tx, "", ""); return err }},
			"that is not registered": {flow.ErrUnregistered, func() error { _, err := stranger.Enqueue(ctx, s.Flows, tx, "a", ""); return err }},
			"whose input is no JSON": {flow.ErrInput, func() error { _, err := unreadable.Enqueue(ctx, s.Flows, tx, "a", func() {}); return err }},
			"in a transaction of another journal": {onceward.ErrJournal, func() error {
				other, err := memory.New().BeginTx(ctx)
				require.NoError(t, err)
				_, err = s.order.Enqueue(ctx, s.Flows, other, "a", "")
				return err
			}},
		} {
			assert.ErrorIs(t, row.do(), row.kind, name)
		}
		return nil
	})
	err := s.Flow(ctx, "outer", nil, func(ctx context.Context) error {
		_, err := s.order.Enqueue(ctx, s.Flows, nil, "inner", "")
		return err
	})
	require.ErrorIs(t, err, flow.ErrStep)
	p := startFlows(t, &line{}, onceward.Config{}) // its journal hides that it takes transactions
	require.NoError(t, p.Flows.Register(s.order))
	_, err = s.order.Enqueue(ctx, p.Flows, nil, "a", "")
	require.ErrorContains(t, err, "can record no flow in a transaction")
	require.NoError(t, s.Shutdown(ctx))
	tx, err := s.journal.BeginTx(ctx)
	require.NoError(t, err)
	_, err = s.order.Enqueue(ctx, s.Flows, tx, "a", "")
	require.ErrorIs(t, err, onceward.ErrShutdown)
	require.NoError(t, tx.Rollback(ctx))
	for f, err := range s.Flows.Flows(ctx, flow.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, "outer", f.ID)
	}
}

// A flow begins in the transaction of a request, of a message, and of the hook that books an outcome: once each.
func TestFlowsEnqueuedByHandlers(t *testing.T) {
	t.Parallel()
	j, err := sqlite.Open(filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	var s *checkout
	s = newCheckout(t, j, onceward.Config{Outcomes: &onceward.Outcomes{HandleTx: func(ctx context.Context, tx journal.Tx, op onceward.Operation) error {
		_, err := s.order.Enqueue(ctx, s.Flows, tx, "settled "+op.ID, "pears")
		return err
	}}})
	ctx := t.Context()

	var failing error
	receiver, err := server.New(ctx, server.Options{
		Journal: j, Secrets: [][]byte{testSecret},
		Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	})
	require.NoError(t, err)
	handler := receiver.Atomic("orders.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, err := server.JournalTx(r.Context())
		if err == nil {
			_, err = s.order.Enqueue(r.Context(), s.Flows, tx, "requested", "apples")
		}
		if err = errors.Join(err, failing); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}), server.Endpoint{})
	asks := func() int {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"of":"apples"}`))
		r.Header.Set("Idempotency-Key", "invoice-991")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	failing = errors.New("the handler fails after the enqueue")
	assert.Equal(t, http.StatusInternalServerError, asks())
	s.resumes()
	assert.Empty(t, s.line.Sent())
	failing = nil
	for range 2 {
		assert.Equal(t, http.StatusAccepted, asks())
	}
	s.resumes()
	assert.Len(t, s.line.Sent(), 2)

	messages, err := consume.New(ctx, consume.Options{Journal: j, Name: "orders", Keep: 24 * time.Hour})
	require.NoError(t, err)
	for range 2 {
		_, err := messages.Do(ctx, consume.Message{ID: "m-1", Source: "queue"}, func(ctx context.Context, tx journal.Tx) error {
			_, err := s.order.Enqueue(ctx, s.Flows, tx, "delivered", "plums")
			return err
		})
		require.NoError(t, err)
	}
	s.resumes()
	assert.Len(t, s.line.Sent(), 4)

	require.NoError(t, s.within(ctx, true, func(tx journal.Tx) error {
		req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, "invoice-1"), http.MethodPost, "https://api.stripe.com/v1/charges", strings.NewReader("amount=1"))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		_, err = s.Enqueue(req.Context(), tx, req)
		return err
	}))
	s.resumes() // sends it, and books its outcome
	s.resumes()
	assert.Len(t, s.line.Sent(), 7)
	var ended []string
	for f, err := range s.Flows.Flows(ctx, flow.Filter{States: []flow.State{flow.StateFinished}}) {
		require.NoError(t, err)
		ended = append(ended, f.ID)
	}
	assert.Equal(t, []string{"requested", "delivered", "settled invoice-1"}, ended)
	violations, err := j.Verify(ctx)
	require.NoError(t, err)
	assert.Empty(t, violations)
}

// A journal that was restored to a time before an enqueued flow counts as restored, though nothing else was recorded
// since.
func TestRestoredToBeforeAnEnqueuedFlow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	ctx := t.Context()
	live := func(do func(s *checkout)) {
		j, err := sqlite.Open(path, sqlite.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		s := newCheckout(t, j, onceward.Config{})
		do(s)
		require.NoError(t, s.Shutdown(ctx))
	}
	enqueue := func(s *checkout, id string) error {
		return s.within(ctx, true, func(tx journal.Tx) error {
			_, err := s.order.Enqueue(ctx, s.Flows, tx, id, "apples")
			return err
		})
	}
	live(func(s *checkout) { require.NoError(t, enqueue(s, "order-1")) })
	backup, err := os.ReadFile(path)
	require.NoError(t, err)
	live(func(s *checkout) { require.NoError(t, enqueue(s, "order-2")) })
	require.NoError(t, os.WriteFile(path, backup, 0o600))
	live(func(s *checkout) {
		require.ErrorIs(t, enqueue(s, "order-2"), onceward.ErrJournalRestored)
		_, err := s.Resume(ctx)
		require.ErrorIs(t, err, onceward.ErrJournalRestored)
	})
}
