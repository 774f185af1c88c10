package flow_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

type order struct{ Steps []string }

// shop is a program with one registered flow, which makes the steps that its input
// lists.
type shop struct {
	*process
	flow *flow.Func[order, int]

	mu   sync.Mutex
	ran  []string // orders, by first step
	now  int
	most int
}

func newShop(t *testing.T, l *line, version int, cfg onceward.Config) *shop {
	s := &shop{}
	s.flow = flow.Define("order", version, func(ctx context.Context, o order) (int, error) {
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
		return len(o.Steps), s.Sequence(o.Steps...)(ctx)
	})
	s.process = startFlows(t, l, cfg, flow.Config{Definitions: []flow.Definition{s.flow}})
	return s
}

func TestResumeRunsInterruptedFlows(t *testing.T) {
	virtual(t, "oldest first, with bounded concurrency", func(t *testing.T) {
		l, j := (&line{}).Always(takes(time.Second, says(200, paid))), memory.New()
		died := newShop(t, l, 1, onceward.Config{Journal: j})
		const many = 20
		for i := range many {
			go func() {
				_, _ = died.flow.Run(t.Context(), died.Flows, fmt.Sprint("order-", i), order{[]string{fmt.Sprint("create-", i), fmt.Sprint("charge-", i)}})
			}()
			pass(10 * time.Millisecond)
		}
		died.Crash()
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
			assert.Equal(t, flow.StateFinished, next.process.flow(fmt.Sprint("order-", i)).State)
		}
		assert.Len(t, distinct(l.Descriptions()), 2*many)
		assert.Len(t, distinct(l.Keys()), 2*many)
		report, err = next.Resume(t.Context())
		require.NoError(t, err)
		assert.Zero(t, report.Flows.Claimed)
	})
	virtual(t, "by the function of its version; others are reported", func(t *testing.T) {
		l, j := &line{}, memory.New()
		first := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
		l.Then(refuses(), refuses(), refuses())
		require.ErrorIs(t, errOf(first.flow.Run(t.Context(), first.Flows, "v1", order{[]string{"a"}})), onceward.ErrPending)
		require.ErrorIs(t, first.Flow(t.Context(), "nobody's", nil, first.Sequence("b")), onceward.ErrPending)
		second := newShop(t, l, 2, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, errOf(second.flow.Run(t.Context(), second.Flows, "v2", order{[]string{"c"}})), onceward.ErrPending)
		pass(time.Hour)
		report, err := second.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.FlowReport{Claimed: 1, Finished: 1, Unregistered: 2, Problems: report.Flows.Problems}, report.Flows)
		require.Len(t, report.Flows.Problems, 2)
		for i, says := range []string{"it needs order, version 1", "call Runner.Do"} {
			require.ErrorIs(t, report.Flows.Problems[i], flow.ErrUnregistered)
			assert.ErrorContains(t, report.Flows.Problems[i], says)
		}
		_, err = second.flow.Run(t.Context(), second.Flows, "v1", order{[]string{"a"}})
		require.ErrorIs(t, err, flow.ErrUnregistered, "it was begun under version 1")
		assert.Equal(t, flow.StateWaiting, second.process.flow("v1").State)
		require.NoError(t, errOf(first.flow.Run(t.Context(), first.Flows, "v1", order{[]string{"a"}})))
		require.NoError(t, second.Flow(t.Context(), "nobody's", nil, second.Sequence("b")))
	})
	virtual(t, "unless its input no longer decodes", func(t *testing.T) {
		l, j := (&line{}).Then(refuses()), memory.New()
		first := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, errOf(first.flow.Run(t.Context(), first.Flows, "a", order{[]string{"a"}})), onceward.ErrPending)
		pass(time.Hour)
		for _, changed := range []flow.Definition{
			flow.Define("order", 1, func(context.Context, struct{ Steps int }) (int, error) { panic("not called") }),
			flow.Define("order", 1, func(context.Context, struct{ Parts []string }) (int, error) { panic("not called") }),
		} {
			p := startFlows(t, l, onceward.Config{Journal: j}, flow.Config{Definitions: []flow.Definition{changed}})
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			require.Len(t, report.Flows.Problems, 1)
			require.ErrorIs(t, report.Flows.Problems[0], flow.ErrInput)
			assert.Equal(t, 1, report.Flows.Waiting)
			pass(time.Hour)
		}
	})
}

func TestRunRunsFlowsWhenTheyAreDue(t *testing.T) {
	virtual(t, "a long flow delays no other, and Shutdown waits for it", func(t *testing.T) {
		j := memory.New()
		works := flow.Define("works", 1, func(ctx context.Context, d time.Duration) (int, error) {
			return flow.Step(ctx, "work", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(d):
					return 1, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			})
		})
		cfg := onceward.Config{Journal: j, Concurrency: 2}
		known := flow.Config{Definitions: []flow.Definition{works}}
		died := startFlows(t, &line{}, cfg, known)
		for i, d := range []time.Duration{time.Hour, 2 * time.Second, 3 * time.Second, 4 * time.Second} {
			go func() { _, _ = works.Run(t.Context(), died.Flows, fmt.Sprint(i), d) }()
			pass(time.Millisecond)
		}
		died.Crash()
		p := startFlows(t, &line{}, cfg, known)
		ran := make(chan error, 1)
		go func() { ran <- p.Run(t.Context()) }()
		pass(20 * time.Second)
		for i, state := range []flow.State{flow.StateRunning, flow.StateFinished, flow.StateFinished, flow.StateFinished} {
			assert.Equal(t, state, p.flow(fmt.Sprint(i)).State, i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, p.Shutdown(ctx), context.DeadlineExceeded)
		require.NoError(t, <-ran)
		assert.Equal(t, flow.StateWaiting, p.flow("0").State, "it was broken off, and left to the next")
		require.ErrorIs(t, errOf(works.Run(t.Context(), p.Flows, "late", 1)), onceward.ErrShutdown)
	})
	virtual(t, "a flow that fails backs off, and is set aside", func(t *testing.T) {
		failing := errors.New("sorry")
		runs := 0
		fails := flow.Define("fails", 1, func(context.Context, int) (int, error) { runs++; return 0, failing })
		p := startFlows(t, &line{}, onceward.Config{}, flow.Config{
			Definitions: []flow.Definition{fails}, Backoff: backoff.Policy{Initial: time.Minute, MaxAttempts: 4},
		})
		require.ErrorIs(t, errOf(fails.Run(t.Context(), p.Flows, "a", 1)), failing)
		go func() { _ = p.Run(seam.Seldom(t.Context(), time.Minute)) }()
		pass(24 * time.Hour)
		assert.Equal(t, 4, runs)
		f := p.flow("a")
		assert.Equal(t, flow.StateSetAside, f.State)
		for i := range 3 {
			assert.LessOrEqual(t, f.History[i].At, f.History[i+1].At)
		}
		_, err := p.Flows.Retry(t.Context(), f.Ref)
		require.NoError(t, err)
		pass(0) // not a second: the next run may be due by then
		assert.Equal(t, 5, runs)
	})
	virtual(t, "a function that panics is a failure", func(t *testing.T) {
		panics := flow.Define("panics", 1, func(context.Context, int) (int, error) { panic("oh") })
		p := startFlows(t, &line{}, onceward.Config{}, flow.Config{Definitions: []flow.Definition{panics}})
		require.PanicsWithValue(t, "oh", func() { _, _ = panics.Run(t.Context(), p.Flows, "a", 1) })
		assert.Equal(t, 1, p.flow("a").Failures)
		pass(time.Hour)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, p.flow("a").Failures)
		assert.Contains(t, p.flow("a").Cause, "panicked")
	})
}

func TestAFlowRunsInOneProcessAtATime(t *testing.T) {
	virtual(t, "a caller that asks meanwhile waits for it", func(t *testing.T) {
		l := (&line{}).Always(takes(10*time.Second, says(200, paid)))
		p := startFlows(t, l, onceward.Config{})
		errs := make(chan error, 5)
		for range 5 {
			go func() { errs <- p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge")) }()
		}
		for range 5 {
			require.NoError(t, <-errs)
		}
		assert.Equal(t, []string{"create", "charge"}, l.Descriptions())
	})
	virtual(t, "or gets an error when its time is up", func(t *testing.T) {
		l := (&line{}).Always(takes(20*time.Second, says(200, paid)))
		p := startFlows(t, l, onceward.Config{})
		done := make(chan error)
		go func() { done <- p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge")) }()
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, p.Flow(ctx, "order-991", nil, p.Sequence("create", "charge")), onceward.ErrInFlight)
		_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "too late")
		require.ErrorIs(t, err, onceward.ErrInFlight)
		require.NoError(t, <-done)
	})
	virtual(t, "a run that is broken off leaves it to the next", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		bored := errors.New("bored")
		l.Then(doing(func() { cancel(bored) }, hangs()))
		err := p.Flow(ctx, "order-991", nil, p.Sequence("create", "charge"))
		require.Error(t, err)
		f := p.flow("order-991")
		assert.Equal(t, flow.StateWaiting, f.State)
		assert.Zero(t, f.Failures)
		pass(time.Minute)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge")))
		assert.Len(t, distinct(l.Keys()), 2)
	})
}

// startWithoutRunner makes a process that runs no flows, on a journal that keeps some.
func startWithoutRunner(t *testing.T, via http.RoundTripper, cfg onceward.Config) *process {
	t.Helper()
	cfg.Providers, cfg.HTTPClient = []providers.Provider{providers.Stripe()}, &http.Client{Transport: via}
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Shutdown(context.Background())) })
	return &process{oncetest.Of(t, c, nil)}
}

// Resume reports flows whose function no process here has.
func TestResumeReportsFlowsWithoutAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := (&line{}).Then(refuses()), memory.New()
		p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("charge")), onceward.ErrPending)
		pass(time.Hour)
		report, err := startWithoutRunner(t, l, onceward.Config{Journal: j}).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Flows.Unregistered)
		require.Len(t, report.Flows.Problems, 1)
		require.ErrorContains(t, report.Flows.Problems[0], "order-991")
	})
}

// A step's operation is finished by a process that runs no flows.
func TestOperationFinishedByAClientWithoutFlows(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := openSQLite(t, t.TempDir()+"/journal.db")
		l := (&line{}).Then(loses())
		p := startFlows(t, l, onceward.Config{Journal: j, Backoff: once})
		do := func(ctx context.Context) error {
			for _, name := range []string{"first", "second"} {
				if _, err := flow.Step(ctx, name, func(ctx context.Context) (int, error) { return 1, p.Ask(ctx).Err }); err != nil {
					return err
				}
			}
			return nil
		}
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, do), onceward.ErrPending)
		pass(time.Hour)
		other := oncetest.Start(t, l, onceward.Config{Journal: j, Backoff: once})
		report, err := other.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, do))
		assert.Len(t, l.Sent(), 3)
		assert.Len(t, distinct(l.Keys()), 2)
	})
}

// A waiting flow is due as soon as the background settles its operation. It does not wait for a later time that a
// clock which ran ahead has recorded.
func TestFlowGoesOnAsItsOperationIsSettled(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, j := (&line{}).Then(refuses()), memory.New()
		p := startFlows(t, l, onceward.Config{Journal: parksLate{j}, Backoff: once})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("charge")), onceward.ErrPending)
		require.Greater(t, time.Until(p.flow("order-991").DueAt), 300*time.Hour)
		pass(time.Hour)
		report, err := startWithoutRunner(t, l, onceward.Config{Journal: j}).Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Completed)
		f := p.flow("order-991")
		assert.Equal(t, flow.StateWaiting, f.State)
		assert.False(t, f.DueAt.After(time.Now()))
	})
}

// parksLate parks flows until a time that is far off.
type parksLate struct{ *memory.Journal }

func (j parksLate) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if ev.Kind == machine.FlowEventPark {
		ev.Due = ev.Due.Add(355 * time.Hour)
	}
	return j.Journal.ApplyFlow(ctx, ev)
}

// A flow whose end the journal failed to record is finished within a minute. A flow whose begin or step it failed to
// record goes on when asked for again.
func TestEndThatCanNotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failingFlows{Journal: memory.New()}
		p := startFlows(t, &line{}, onceward.Config{Journal: j})
		run := p.Sequence("create")
		j.fails.Store(int32(machine.FlowEventFinish))
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrJournal)
		assert.Equal(t, flow.StateRunning, p.flow("order-991").State)
		j.fails.Store(0)
		pass(time.Minute)
		assert.Equal(t, flow.StateFinished, p.flow("order-991").State)

		j.fails.Store(int32(machine.FlowEventRecord))
		require.ErrorIs(t, p.Flow(t.Context(), "order-992", nil, run), onceward.ErrJournal)
		j.fails.Store(int32(machine.FlowEventBegin))
		require.ErrorIs(t, p.Flow(t.Context(), "order-993", nil, run), onceward.ErrJournal)
		j.fails.Store(0)
		require.NoError(t, p.Flow(t.Context(), "order-992", nil, run))
		require.NoError(t, p.Flow(t.Context(), "order-993", nil, run))
	})
}

// failingFlows is a journal that fails at one kind of event.
type failingFlows struct {
	*memory.Journal
	fails atomic.Int32 // kind of event
}

func (j *failingFlows) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if ev.Kind == machine.FlowEventKind(j.fails.Load()) {
		return machine.FlowResult{}, severed.Err
	}
	return j.Journal.ApplyFlow(ctx, ev)
}

func (j *failingFlows) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	if ev.Kind == machine.FlowEventKind(j.fails.Load()) {
		return nil, severed.Err
	}
	return j.Journal.ClaimFlows(ctx, ev, limit)
}

// If a pass over the flows fails, Run reports it to Trace.PassFailed and makes it again.
func TestPassOverFlowsThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failingFlows{Journal: memory.New()}
		l := (&line{}).Always(takes(time.Minute, says(200, paid)))
		died := newShop(t, l, 1, onceward.Config{Journal: j})
		go func() { _, _ = died.flow.Run(t.Context(), died.Flows, "order-991", order{[]string{"charge"}}) }()
		pass(time.Second)
		died.Crash()
		var failed atomic.Int32
		next := newShop(t, l, 1, onceward.Config{Journal: j, Trace: &onceward.Trace{PassFailed: func(_ context.Context, err error) {
			failed.Add(1)
			assert.ErrorIs(t, err, severed.Err)
		}}})
		j.fails.Store(int32(machine.FlowEventClaim))
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, next.Run(ctx), context.DeadlineExceeded)
		assert.Greater(t, failed.Load(), int32(10))
		assert.Empty(t, next.ran)
		j.fails.Store(0)
		ctx, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, next.Run(ctx), context.DeadlineExceeded)
		assert.NotEmpty(t, next.ran)
	})
}

func TestRunReapsFlowsPastTheirKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Keep: 48 * time.Hour})
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create")))
		pass(72 * time.Hour)
		go func() { _ = p.Run(t.Context()) }()
		pass(time.Hour) // after a time without a look, the clock counts as jumped at first
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create")), onceward.ErrAnswerGone)
		assert.Empty(t, p.flow("order-991").Steps)
		assert.Len(t, l.Sent(), 1)
	})
}

// A flow that was set aside for a changed function, and can't be tried again, keeps no other flow from being run.
func TestChangedFlowThatCannotBeTriedAgain(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j, l := &failingFlows{Journal: memory.New()}, (&line{}).Then(refuses(), refuses(), refuses())
		release := func(step string) (*process, *flow.Func[int, int]) {
			var p *process
			ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) { return 1, p.Step(ctx, step) })
			p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, flow.Config{Definitions: []flow.Definition{ride}})
			return p, ride
		}
		resume := func(p *process) {
			_, err := p.Resume(t.Context())
			require.NoError(t, err)
			pass(time.Hour)
		}
		p, ride := release("charge")
		require.ErrorIs(t, errOf(ride.Run(t.Context(), p.Flows, "order-991", 1)), onceward.ErrPending)
		pass(time.Hour)
		p, _ = release("bill")
		resume(p)
		require.Equal(t, flow.StateSetAside, p.flow("order-991").State)

		p, ride = release("charge")
		require.ErrorIs(t, errOf(ride.Run(t.Context(), p.Flows, "order-992", 1)), onceward.ErrPending)
		pass(time.Hour)
		j.fails.Store(int32(machine.FlowEventRetry))
		resume(p)
		assert.Equal(t, flow.StateFinished, p.flow("order-992").State)
		assert.Equal(t, flow.StateSetAside, p.flow("order-991").State)
		j.fails.Store(0)
		resume(p)
		assert.Equal(t, flow.StateFinished, p.flow("order-991").State)
	})
}

// A release lacks the version that a flow began under. Its callers ask for that flow again and again. These calls
// don't keep the flow off the list of flows that need attention, and a process with that version finishes it.
func TestUnregisteredVersionDoesNotHideFlows(t *testing.T) {
	t.Parallel()
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		first := newShop(t, l, 1, onceward.Config{Journal: j})
		ask := func(s *shop) error {
			return errOf(s.flow.Run(t.Context(), s.Flows, "order-991", order{[]string{"charge"}}))
		}
		l.Instead(refuses(), refuses(), refuses(), refuses(), refuses(), refuses(), refuses())
		require.Error(t, ask(first))
		require.NoError(t, first.Shutdown(t.Context()))
		next := newShop(t, l, 2, onceward.Config{Journal: j})
		for range 60 {
			pass(time.Minute)
			require.ErrorIs(t, ask(next), flow.ErrUnregistered)
		}
		f, err := next.Flows.Flow(t.Context(), onceward.Ref{ID: "order-991"})
		require.NoError(t, err)
		recorded, err := j.(machine.Flows).GetFlow(t.Context(), f.Ref)
		require.NoError(t, err)
		assert.NotEmpty(t, recorded.NeedsAttention(time.Now()))
		again := newShop(t, l, 1, onceward.Config{Journal: j})
		require.NoError(t, ask(again))
	})
}
