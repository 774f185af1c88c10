package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

type order struct{ Steps []string }

// shop is a program with one registered flow, which makes the steps that its input
// lists.
type shop struct {
	*process
	flow *onceward.FlowFunc[order, int]

	mu   sync.Mutex
	ran  []string // orders, by first step
	now  int
	most int
}

func newShop(t *testing.T, l *line, version int, cfg onceward.Config) *shop {
	s := &shop{}
	s.flow = onceward.DefineFlow("order", version, func(ctx context.Context, o order) (int, error) {
		s.mu.Lock()
		s.ran = append(s.ran, o.Steps[0])
		s.now++
		s.most = max(s.most, s.now)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.now--
			s.mu.Unlock()
		}()
		return len(o.Steps), s.sequence(o.Steps...)(ctx)
	})
	cfg.Flows = append(cfg.Flows, s.flow)
	s.process = startFlows(t, l, cfg)
	return s
}

func TestResumeRunsWhatWasCutOff(t *testing.T) {
	virtual(t, "oldest first, with bounded concurrency", func(t *testing.T) {
		l, j := (&line{}).always(takes(time.Second, says(200, paid))), memory.New()
		died := newShop(t, l, 1, onceward.Config{Journal: j})
		const many = 20
		for i := range many {
			go func() {
				_, _ = died.flow.Run(t.Context(), died.Client, fmt.Sprint("order-", i), order{[]string{fmt.Sprint("create-", i), fmt.Sprint("charge-", i)}})
			}()
			pass(10 * time.Millisecond)
		}
		died.crash()
		pass(time.Minute)
		next := newShop(t, l, 1, onceward.Config{Journal: j, Concurrency: 3})
		report, err := next.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, many, report.Flows.Claimed)
		assert.Equal(t, many, report.Flows.Finished)
		assert.Empty(t, report.Flows.Problems)
		assert.Contains(t, report.String(), "flows claimed 20: finished 20, waiting 0")
		assert.Equal(t, 3, next.most)
		for i := range many {
			assert.Contains(t, next.ran[max(0, i-3):min(many, i+4)], fmt.Sprint("create-", i), "oldest first")
			assert.Equal(t, onceward.FlowFinished, next.process.flow(fmt.Sprint("order-", i)).State)
		}
		assert.Len(t, distinct(l.descriptions()), 2*many)
		assert.Len(t, distinct(l.keys()), 2*many)
		report, err = next.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Flows.Claimed)
	})
	virtual(t, "by the function of its version; others are reported", func(t *testing.T) {
		l, j := &line{}, memory.New()
		first := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
		l.then(refuses(), refuses(), refuses())
		require.ErrorIs(t, errOf(first.flow.Run(t.Context(), first.Client, "v1", order{[]string{"a"}})), onceward.ErrPending)
		require.ErrorIs(t, first.Flow(t.Context(), "nobody's", nil, first.sequence("b")), onceward.ErrPending)
		second := newShop(t, l, 2, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, errOf(second.flow.Run(t.Context(), second.Client, "v2", order{[]string{"c"}})), onceward.ErrPending)
		pass(time.Hour)
		report, err := second.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.FlowReport{Claimed: 1, Finished: 1, Unregistered: 2, Problems: report.Flows.Problems}, report.Flows)
		require.Len(t, report.Flows.Problems, 2)
		for i, says := range []string{"it needs order, version 1", "somebody asks for it by Client.Flow"} {
			require.ErrorIs(t, report.Flows.Problems[i], onceward.ErrFlowUnregistered)
			assert.ErrorContains(t, report.Flows.Problems[i], says)
		}
		_, err = second.flow.Run(t.Context(), second.Client, "v1", order{[]string{"a"}})
		require.ErrorIs(t, err, onceward.ErrFlowUnregistered, "it was begun under version 1")
		assert.Equal(t, onceward.FlowWaiting, second.process.flow("v1").State)
		require.NoError(t, errOf(first.flow.Run(t.Context(), first.Client, "v1", order{[]string{"a"}})))
		require.NoError(t, second.Flow(t.Context(), "nobody's", nil, second.sequence("b")))
	})
	virtual(t, "unless its input no longer decodes", func(t *testing.T) {
		l, j := (&line{}).then(refuses()), memory.New()
		first := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, errOf(first.flow.Run(t.Context(), first.Client, "a", order{[]string{"a"}})), onceward.ErrPending)
		pass(time.Hour)
		for _, changed := range []onceward.FlowDefinition{
			onceward.DefineFlow("order", 1, func(context.Context, struct{ Steps int }) (int, error) { panic("not called") }),
			onceward.DefineFlow("order", 1, func(context.Context, struct{ Parts []string }) (int, error) { panic("not called") }),
		} {
			p := startFlows(t, l, onceward.Config{Journal: j, Flows: []onceward.FlowDefinition{changed}})
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			require.Len(t, report.Flows.Problems, 1)
			require.ErrorIs(t, report.Flows.Problems[0], onceward.ErrFlowInput)
			assert.Equal(t, 1, report.Flows.Waiting)
			pass(time.Hour)
		}
	})
}

func TestRunRunsFlowsWhenTheyAreDue(t *testing.T) {
	virtual(t, "a long one delays no other, and Shutdown waits for it", func(t *testing.T) {
		j := memory.New()
		works := onceward.DefineFlow("works", 1, func(ctx context.Context, d time.Duration) (int, error) {
			return onceward.Step(ctx, "work", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(d):
					return 1, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			})
		})
		cfg := onceward.Config{Journal: j, Concurrency: 2, Flows: []onceward.FlowDefinition{works}}
		died := startFlows(t, &line{}, cfg)
		for i, d := range []time.Duration{time.Hour, 2 * time.Second, 3 * time.Second, 4 * time.Second} {
			go func() { _, _ = works.Run(t.Context(), died.Client, fmt.Sprint(i), d) }()
			pass(time.Millisecond)
		}
		died.crash()
		p := startFlows(t, &line{}, cfg)
		ran := make(chan error, 1)
		go func() { ran <- p.Run(t.Context()) }()
		pass(20 * time.Second)
		for i, state := range []onceward.FlowState{onceward.FlowRunning, onceward.FlowFinished, onceward.FlowFinished, onceward.FlowFinished} {
			assert.Equal(t, state, p.flow(fmt.Sprint(i)).State, i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
		require.NoError(t, <-ran)
		assert.Equal(t, onceward.FlowWaiting, p.flow("0").State, "it was broken off, and left to the next")
		require.ErrorIs(t, errOf(works.Run(t.Context(), p.Client, "late", 1)), onceward.ErrShutdown)
	})
	virtual(t, "one that fails backs off, and is set aside", func(t *testing.T) {
		failing := errors.New("sorry")
		runs := 0
		fails := onceward.DefineFlow("fails", 1, func(context.Context, int) (int, error) { runs++; return 0, failing })
		p := startFlows(t, &line{}, onceward.Config{
			Flows: []onceward.FlowDefinition{fails}, FlowBackoff: backoff.Policy{Initial: time.Minute, MaxAttempts: 4},
		})
		require.ErrorIs(t, errOf(fails.Run(t.Context(), p.Client, "a", 1)), failing)
		go func() { _ = p.Run(t.Context()) }()
		pass(24 * time.Hour)
		assert.Equal(t, 4, runs)
		f := p.flow("a")
		assert.Equal(t, onceward.FlowSetAside, f.State)
		for i := range 3 {
			assert.LessOrEqual(t, f.History[i].At, f.History[i+1].At)
		}
		_, err := p.RetryFlow(t.Context(), f.Ref)
		require.NoError(t, err)
		pass(0) // not a second: the next run may be due by then
		assert.Equal(t, 5, runs)
	})
	virtual(t, "a function that panics is a failure", func(t *testing.T) {
		panics := onceward.DefineFlow("panics", 1, func(context.Context, int) (int, error) { panic("oh") })
		p := startFlows(t, &line{}, onceward.Config{Flows: []onceward.FlowDefinition{panics}})
		require.PanicsWithValue(t, "oh", func() { _, _ = panics.Run(t.Context(), p.Client, "a", 1) })
		assert.Equal(t, 1, p.flow("a").Failures)
		pass(time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, p.flow("a").Failures)
		assert.Contains(t, p.flow("a").Cause, "panicked")
	})
}

func TestAFlowIsNeverInTwoHands(t *testing.T) {
	virtual(t, "who asks meanwhile waits for it", func(t *testing.T) {
		l := (&line{}).always(takes(10*time.Second, says(200, paid)))
		p := startFlows(t, l, onceward.Config{})
		errs := make(chan error, 5)
		for range 5 {
			go func() { errs <- p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge")) }()
		}
		for range 5 {
			require.NoError(t, <-errs)
		}
		assert.Equal(t, []string{"create", "charge"}, l.descriptions())
	})
	virtual(t, "or is told so when its time is up", func(t *testing.T) {
		l := (&line{}).always(takes(20*time.Second, says(200, paid)))
		p := startFlows(t, l, onceward.Config{})
		done := make(chan error)
		go func() { done <- p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge")) }()
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, p.Flow(ctx, "order-991", nil, p.sequence("create", "charge")), onceward.ErrInFlight)
		_, err := p.GiveUpFlow(t.Context(), onceward.Ref{ID: "order-991"}, "too late")
		require.ErrorIs(t, err, onceward.ErrInFlight)
		require.NoError(t, <-done)
	})
	virtual(t, "a run that is broken off leaves it to the next", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		bored := errors.New("bored")
		l.then(doing(func() { cancel(bored) }, hangs()))
		err := p.Flow(ctx, "order-991", nil, p.sequence("create", "charge"))
		require.Error(t, err)
		f := p.flow("order-991")
		assert.Equal(t, onceward.FlowWaiting, f.State)
		assert.Zero(t, f.Failures)
		pass(time.Minute)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge")))
		assert.Len(t, distinct(l.keys()), 2)
	})
}

func TestFlowsLists(t *testing.T) {
	virtual(t, "by state and scope", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Backoff: once})
		for i, scope := range []string{"a", "b", "a"} {
			if i == 2 {
				l.then(refuses())
			}
			_ = p.Flow(onceward.WithScope(t.Context(), scope), fmt.Sprint("order-", i), nil, p.sequence("create"))
		}
		a := "a"
		for _, row := range []struct {
			filter onceward.FlowFilter
			want   []string
		}{
			{onceward.FlowFilter{}, []string{"order-0", "order-1", "order-2"}},
			{onceward.FlowFilter{Limit: 2}, []string{"order-0", "order-1"}},
			{onceward.FlowFilter{Scope: &a}, []string{"order-0", "order-2"}},
			{onceward.FlowFilter{States: []onceward.FlowState{onceward.FlowWaiting}}, []string{"order-2"}},
		} {
			var got []string
			for f, err := range p.Flows(t.Context(), row.filter) {
				require.NoError(t, err)
				got = append(got, f.ID)
			}
			assert.Equal(t, row.want, got)
		}
		_, err := p.LookupFlow(t.Context(), onceward.Ref{ID: "none"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
	virtual(t, "nothing, where the journal keeps none", func(t *testing.T) {
		p := start(t, &line{}, onceward.Config{})
		require.ErrorIs(t, p.Flow(t.Context(), "a", nil, p.sequence()), onceward.ErrJournal)
		_, err := p.LookupFlow(t.Context(), onceward.Ref{ID: "a"})
		require.ErrorContains(t, err, "keeps no flows")
		_, err = p.RetryFlow(t.Context(), onceward.Ref{ID: "a"})
		require.ErrorContains(t, err, "keeps no flows")
		for _, err := range p.Flows(t.Context(), onceward.FlowFilter{}) {
			require.ErrorContains(t, err, "keeps no flows")
		}
	})
}

func TestFlowsThatCanNotBeRegisteredAreRefused(t *testing.T) {
	do := func(context.Context, int) (int, error) { return 0, nil }
	aProvider := []providers.Provider{providers.Stripe()}
	for says, flows := range map[string][]onceward.FlowDefinition{
		"has no name":             {onceward.DefineFlow("", 1, do)},
		"versions count from 1":   {onceward.DefineFlow("a", 0, do)},
		"version 2, is there twi": {onceward.DefineFlow("a", 2, do), onceward.DefineFlow("a", 1, do), onceward.DefineFlow("a", 2, do)},
	} {
		_, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: aProvider, Flows: flows})
		require.ErrorContains(t, err, says)
	}
	_, err := onceward.New(onceward.Config{Journal: &severed.Journal{Journal: memory.New()}, Providers: aProvider,
		Flows: []onceward.FlowDefinition{onceward.DefineFlow("a", 1, do)}})
	require.ErrorContains(t, err, "keeps flows")
	_, err = onceward.New(onceward.Config{Journal: memory.New(), Providers: aProvider, FlowBackoff: backoff.Policy{Initial: -1}})
	require.ErrorContains(t, err, "FlowBackoff")
}
