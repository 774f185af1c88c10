package promises_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// hanging is a store that can be out: it then answers nothing, and a caller waits until its context ends.
type hanging struct {
	*memory.Journal
	mu   sync.Mutex
	back chan struct{} // nil: it is not out
}

// goes takes the store out until the test's end, or until the function is called.
func (h *hanging) goes(t *testing.T) (comes func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	back := make(chan struct{})
	h.back = back
	comes = sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.back = nil
		close(back)
	})
	t.Cleanup(comes)
	return comes
}

func (h *hanging) wait(ctx context.Context) error {
	h.mu.Lock()
	back := h.back
	h.mu.Unlock()
	if back == nil {
		return ctx.Err()
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hanging) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if err := h.wait(ctx); err != nil {
		return machine.Result{}, err
	}
	return h.Journal.Apply(ctx, ev)
}

func (h *hanging) Get(ctx context.Context, ref journal.Ref) (journal.Operation, error) {
	if err := h.wait(ctx); err != nil {
		return journal.Operation{}, err
	}
	return h.Journal.Get(ctx, ref)
}

func (h *hanging) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	if err := h.wait(ctx); err != nil {
		return func(yield func(journal.Operation, error) bool) { yield(journal.Operation{}, err) }
	}
	return h.Journal.List(ctx, f)
}

func (h *hanging) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.Journal.Claim(ctx, ev, limit)
}

// Join and the end of a session do not heed their context, as those of a store that completes what it has begun.
func (h *hanging) Join(context.Context) (machine.Session, error) {
	if err := h.wait(context.Background()); err != nil {
		return nil, err
	}
	s, err := h.Journal.Join(context.Background())
	return &hangingSession{s, h}, err
}

type hangingSession struct {
	machine.Session
	store *hanging
}

func (s *hangingSession) End(context.Context) error {
	if err := s.store.wait(context.Background()); err != nil {
		return err
	}
	return s.Session.End(context.Background())
}

func (h *hanging) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if err := h.wait(ctx); err != nil {
		return machine.FlowResult{}, err
	}
	return h.Journal.ApplyFlow(ctx, ev)
}

func (h *hanging) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.Journal.ClaimFlows(ctx, ev, limit)
}

func (h *hanging) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	if err := h.wait(ctx); err != nil {
		return nil, false, err
	}
	return h.Journal.RecordEvent(ctx, heard, evs)
}

func (h *hanging) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.Journal.Looks(ctx, ev, limit)
}

// A call ends within a moment of its time, whenever the store goes out. Events that the store has not recorded are
// recorded once it is back.
func TestNoCallOutlivesItsTimeWhileTheStoreIsOut(t *testing.T) {
	t.Parallel()
	const its = 3 * time.Second
	within := func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, its) }
	leaves := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(its, cancel)
		return ctx, cancel
	}
	whole := func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }
	for _, row := range []struct {
		name  string
		ends  func(context.Context) (context.Context, context.CancelFunc)
		warm  bool // the client has a session already
		sends bool // the store is out once the request is on its way
		takes reply
		state onceward.State // once the store is back; 0: there is no such operation
	}{
		{"before the first call of the process", within, false, false, hangs(), 0},
		{"before the intent is recorded", within, true, false, hangs(), onceward.StateCancelled},
		{"before the intent is recorded, and the caller leaves", leaves, true, false, hangs(), onceward.StateCancelled},
		{"before the intent is recorded, and the caller names no time", whole, true, false, hangs(), onceward.StateCancelled},
		{"before the answer", within, true, true, says(http.StatusOK, paid), onceward.StateCompleted},
		{"before the answer, and the caller leaves", leaves, true, true, says(http.StatusOK, paid), onceward.StateCompleted},
		{"before the answer, and the caller names no time", whole, true, true, says(http.StatusOK, paid), onceward.StateCompleted},
		{"and the provider gives no answer", within, true, true, hangs(), onceward.StatePending},
		{"and the caller leaves before there is an answer", leaves, true, true, hangs(), onceward.StatePending},
	} {
		virtual(t, row.name, func(t *testing.T) {
			store := &hanging{Journal: memory.New()}
			l := &line{}
			p := start(t, l, onceward.Config{Journal: store, MaxWait: its, Backoff: once})
			if row.warm {
				l.Then(says(http.StatusOK, paid))
				require.NoError(t, p.Ask(named(t, "invoice-0")).Err)
			}
			comes := func() {}
			if row.sends {
				l.Then(doing(func() { comes = store.goes(t) }, row.takes))
			} else {
				comes = store.goes(t)
			}
			ctx, cancel := row.ends(named(t, invoice))
			defer cancel()
			began := time.Now()
			out := p.Ask(ctx)
			took := time.Since(began)
			assert.LessOrEqual(t, took, its+grace.Period+200*time.Millisecond, "%v", out.Err)
			if !row.sends {
				assert.Error(t, out.Err)
				assert.LessOrEqual(t, len(l.Sent()), 1)
			}
			comes()
			pass(time.Minute)
			if row.state == 0 {
				return
			}
			got, err := store.Journal.Get(t.Context(), onceward.Ref{ID: invoice})
			if row.state == onceward.StateCancelled && err != nil {
				require.ErrorIs(t, err, journal.ErrNotFound)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.state, got.State)
		})
	}
}

func TestNoPassOutlivesItsTimeWhileTheStoreIsOut(t *testing.T) {
	t.Parallel()
	const its = 3 * time.Second
	for name, pass := range map[string]func(*process, context.Context) error{
		"Resume":   func(p *process, ctx context.Context) error { _, err := p.Resume(ctx); return err },
		"Run":      func(p *process, ctx context.Context) error { return p.Run(ctx) },
		"Shutdown": func(p *process, ctx context.Context) error { return p.Shutdown(ctx) },
		"a flow":   func(p *process, ctx context.Context) error { return p.Flow(ctx, "order-1", 1, p.Sequence("charge")) },
	} {
		virtual(t, name, func(t *testing.T) {
			store := &hanging{Journal: memory.New()}
			l := (&line{}).Always(says(http.StatusOK, paid))
			p := oncetest.StartFlows(t, l, onceward.Config{Journal: store, Backoff: once})
			require.NoError(t, p.Ask(named(t, invoice)).Err)
			comes := store.goes(t)
			ctx, cancel := context.WithTimeout(t.Context(), its)
			defer cancel()
			began := time.Now()
			err := pass(p, ctx)
			assert.Error(t, err)
			assert.LessOrEqual(t, time.Since(began), its+grace.Period+200*time.Millisecond)
			comes()
		})
	}
}

// A flow's function runs while the store goes out: the flow ends within a moment of its caller's time.
func TestNoFlowOutlivesItsTimeWhileTheStoreIsOut(t *testing.T) {
	t.Parallel()
	const its = 3 * time.Second
	for _, row := range []struct {
		name string
		at   int // the request at which it goes out
	}{{"in its first step", 0}, {"in its second step", 1}} {
		virtual(t, row.name, func(t *testing.T) {
			store := &hanging{Journal: memory.New()}
			l := &line{}
			p := oncetest.StartFlows(t, l, onceward.Config{Journal: store, Backoff: once})
			comes := func() {}
			for range row.at {
				l.Then(says(http.StatusOK, paid))
			}
			l.Then(doing(func() { comes = store.goes(t) }, says(http.StatusOK, paid)))
			l.Always(says(http.StatusOK, paid))
			ctx, cancel := context.WithTimeout(t.Context(), its)
			defer cancel()
			began := time.Now()
			err := p.Flow(ctx, "order-1", 1, p.Sequence("charge", "transfer"))
			took := time.Since(began)
			assert.Error(t, err)
			assert.LessOrEqual(t, took, its+3*grace.Period)
			comes()
			oncetest.Pass(time.Minute)
			require.NoError(t, p.Flow(t.Context(), "order-1", 1, p.Sequence("charge", "transfer")))
			assert.Len(t, l.Sent(), 2)
		})
	}
}

// While the store is out for ten minutes, the log has a line a minute for each failure. The hooks count each.
func TestLogOfAStoreThatIsOut(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		var logged bytes.Buffer
		var passes, events int
		store := &failing{Store: memory.New()}
		p := start(t, (&line{}).Always(says(http.StatusOK, paid)), onceward.Config{
			Journal: unlisted{store}, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			Trace: &onceward.Trace{
				PassFailed:    func(context.Context, error) { passes++ },
				JournalFailed: func(context.Context, onceward.Operation, string, error) { events++ },
			},
		})
		store.Fails(false, machine.EventBegin)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		for i := range 600 {
			require.ErrorIs(t, p.Ask(named(t, fmt.Sprint("invoice-", i))).Err, onceward.ErrJournal)
			pass(time.Second)
		}
		stop()
		<-ended
		assert.Equal(t, 600, events)
		assert.Greater(t, passes, 500)
		for _, event := range []string{"journal.failed", "journal.pass_failed"} {
			lines := strings.Count(logged.String(), "event="+event+" ")
			assert.GreaterOrEqual(t, lines, 10, event)
			assert.LessOrEqual(t, lines, 11, event)
		}
		assert.Contains(t, logged.String(), "omitted=59")
	})
}

// unlisted is a store that claims nothing.
type unlisted struct{ machine.Store }

func (unlisted) Claim(context.Context, machine.Event, int) ([]machine.Result, error) {
	return nil, errDiskFull
}
