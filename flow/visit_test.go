package flow_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
)

func TestAChangedFunctionIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		then []string
		step string
	}{
		"a step was renamed":                           {[]string{"create", "bill", "send"}, "charge"},
		"two were swapped":                             {[]string{"charge", "create", "send"}, "create"},
		"the last one was removed":                     {[]string{"create"}, "charge"},
		"the first one was removed":                    {[]string{"charge", "send"}, "create"},
		"one was put between":                          {[]string{"create", "check", "charge", "send"}, "charge"},
		"one was put before":                           {[]string{"check", "create", "charge", "send"}, "create"},
		"a step was put before the one that had begun": {[]string{"create", "charge", "check", "send"}, "send"},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(says(200, paid), says(200, paid), refuses())
			p := startFlows(t, l, onceward.Config{Backoff: once})
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge", "send")), onceward.ErrPending)
			pass(time.Minute)
			err := p.Flow(t.Context(), "order-991", nil, p.Sequence(row.then...))
			require.ErrorIs(t, err, flow.ErrChanged)
			told, _ := errors.AsType[*flow.Error](err)
			assert.Equal(t, row.step, told.Step)
			assert.Len(t, l.Sent(), 2, "nothing is made")
			assert.Equal(t, flow.StateSetAside, told.Flow.State)
			pass(time.Minute)
			_, err = p.Flows.Retry(t.Context(), order991)
			require.NoError(t, err)
			require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge", "send")), "the old function goes on")
		})
	}
	virtual(t, "a step is of another kind, or returns something else", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			if _, err := flow.UUIDStep(ctx, "id"); err != nil {
				return err
			}
			return p.Step(ctx, "charge")
		}), onceward.ErrPending)
		for _, change := range []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := flow.TimeStep(ctx, "id"); return err },
			func(ctx context.Context) error {
				_, err := flow.UUIDStep(flow.Parallel(ctx, "id"), "id")
				return err
			},
		} {
			pass(time.Hour)
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, change), flow.ErrChanged)
			_, err := p.Flows.Retry(t.Context(), order991)
			require.NoError(t, err)
		}
	})
	virtual(t, "a result does not fit any more", func(t *testing.T) {
		l := (&line{}).Then(says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge")), onceward.ErrPending)
		pass(time.Minute)
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "create", func(context.Context) (struct{ Name string }, error) { panic("not called") })
			return err
		})
		require.ErrorIs(t, err, flow.ErrChanged)
	})
	virtual(t, "after the end, too", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create")))
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.Sequence("create", "charge")), flow.ErrChanged)
		assert.Len(t, l.Sent(), 1)
		assert.Equal(t, flow.StateFinished, p.flow("order-991").State)
	})
}

// A step that was renamed under the same version has its flow set aside at once, which is logged. After a rollback the flow goes on.
func TestRenamedStepIsNoticedAtOnce(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		var log bytes.Buffer
		l, begun := (&line{}).Then(says(200, paid), refuses()), false
		release := func(steps ...string) *process {
			var p *process
			ride := flow.Define("ride", 1, func(ctx context.Context, _ int) (int, error) { return 1, p.Sequence(steps...)(ctx) })
			p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))},
				flow.Config{Definitions: []flow.Definition{ride}})
			if !begun {
				require.ErrorIs(t, errOf(ride.Run(t.Context(), p.Flows, "order-991", 1)), onceward.ErrPending)
			}
			pass(time.Hour)
			if begun {
				_, err := p.Resume(t.Context())
				require.NoError(t, err)
			}
			begun = true
			require.NoError(t, p.Shutdown(t.Context()))
			return p
		}
		release("create", "charge")
		log.Reset()
		for range 2 { // the second process tries it once more
			p := release("create", "bill")
			f := p.flow("order-991")
			assert.Equal(t, flow.StateSetAside, f.State)
			assert.Contains(t, f.Cause, "step charge: "+flow.ErrChanged.Error())
			assert.Equal(t, 1, strings.Count(log.String(), "event=flow.set_aside flow=order-991"), &log)
			log.Reset()
		}
		assert.Equal(t, "started → create → charge → finished", release("create", "charge").flow("order-991").String())
		assert.Equal(t, []string{"create", "charge"}, l.Descriptions())
	})
}

// A renamed step whose operation was made is refused.
func TestRenamedStepWithAnOperationIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(name string, fails error) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := flow.Step(ctx, name, func(ctx context.Context) (charge, error) {
					c, err := p.Post(ctx, "charge")
					return c, errors.Join(err, fails)
				})
				return err
			})
		}
		require.ErrorIs(t, run("charge", errSoldOut), errSoldOut)
		pass(time.Hour)
		require.ErrorIs(t, run("pay", nil), flow.ErrChanged)
		assert.Len(t, l.Sent(), 1)
		_, err := p.Flows.Retry(t.Context(), order991)
		require.NoError(t, err)
		require.NoError(t, run("charge", nil))
		assert.Len(t, l.Sent(), 1)
	})
}

// A process that lost its session makes no further step.
func TestLostSessionStopsItsFlow(t *testing.T) {
	for _, when := range []string{"before a step", "within a step", "as its operation is begun"} {
		virtual(t, when, func(t *testing.T) {
			l, j := &line{}, memory.New()
			late := &beginsLate{Journal: j}
			p, other := startFlows(t, l, onceward.Config{Journal: late}), startFlows(t, l, onceward.Config{Journal: j})
			loses := func() {
				for _, s := range p.Journal.Sessions() {
					j.Kill(s.ID())
				}
				_, err := other.Flows.GiveUp(t.Context(), onceward.Ref{ID: "order-991"}, "sold out")
				require.NoError(t, err)
				require.ErrorIs(t, other.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
					return errors.Join(other.undoable(ctx, "create"), other.undoable(ctx, "charge"))
				}), flow.ErrGivenUp)
			}
			err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if err := p.undoable(ctx, "create"); err != nil {
					return err
				}
				if when == "before a step" {
					loses()
					return p.undoable(ctx, "charge")
				}
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					if when == "within a step" {
						loses()
					} else {
						late.before = loses
					}
					return p.Post(ctx, "charge")
				})
				return err
			})
			require.ErrorIs(t, err, onceward.ErrInFlight)
			assert.Equal(t, []string{"create", "undo-create-ch_1"}, l.Descriptions())
		})
	}
}

// beginsLate runs a function once, before the begin for an operation that is already noted.
type beginsLate struct {
	*memory.Journal
	before func()
}

func (j *beginsLate) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if do := j.before; do != nil && ev.Kind == machine.EventBegin {
		j.before = nil
		do()
	}
	return j.Journal.Apply(ctx, ev)
}

// A goroutine that a function or step leaves behind begins no operation after the return. Otherwise the charge would go
// out after the flow was recorded as finished or undone.
func TestGoroutineLeftBehindBeginsNoOperation(t *testing.T) {
	for _, row := range []struct {
		name   string
		leaves error // the result from the function that leaves a step behind; nil if a step leaves its call behind
		tells  error
		sent   []string
	}{
		{"by a function that is done", errDone, flow.ErrStep, nil},
		{"by a function that fails", errSoldOut, errSoldOut, nil},
		{"by a function that gives up", flow.GiveUp(errSoldOut), flow.ErrGivenUp, nil},
		{"by a function that panics", errPanics, errPanics, nil},
		{"by a step that fails", nil, nil, []string{"bank"}},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := &line{}
			noted, goOn, left := make(chan struct{}), make(chan struct{}), make(chan error, 2)
			var asked atomic.Bool
			p := startFlows(t, l, onceward.Config{Journal: j, Trace: &onceward.Trace{Parent: func(context.Context) string {
				if asked.CompareAndSwap(false, true) { // between the operation's note and its begin
					close(noted)
					<-goOn
				}
				return ""
			}}})
			charges := func(ctx context.Context) (charge, error) {
				return p.Post(context.WithoutCancel(ctx), "charge")
			}
			do := func(ctx context.Context) error {
				if row.leaves == nil {
					_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
						go func() { left <- errOf(charges(ctx)) }()
						<-noted
						return charge{}, errSoldOut
					})
					assert.ErrorIs(t, err, errSoldOut)
					close(goOn)
					pass(0)
					return p.Step(ctx, "bank")
				}
				go func() { left <- errOf(flow.Step(ctx, "charge", charges)) }()
				<-noted
				switch row.leaves {
				case errDone:
					return nil
				case errPanics:
					panic(errPanics)
				}
				return row.leaves
			}
			err := func() (err error) {
				defer func() {
					if said := recover(); said != nil {
						err = said.(error)
					}
				}()
				return p.Flow(t.Context(), "order-991", nil, do)
			}()
			assert.ErrorIs(t, err, row.tells)
			if row.leaves != nil {
				close(goOn)
				pass(0)
			}
			close(left)
			for err := range left {
				require.Error(t, err)
			}
			assert.Equal(t, row.sent, l.Descriptions())
		})
	}
}

var errDone, errPanics = errors.New("done"), errors.New("panics")

// A removed step whose operation was begun is refused.
func TestRemovedStepWithAnOperationIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(charges bool) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if err := p.Step(ctx, "create"); err != nil || !charges {
					return err
				}
				_, err := flow.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					c, err := p.Post(ctx, "charge")
					return c, errors.Join(err, errSoldOut)
				})
				return err
			})
		}
		require.Error(t, run(true))
		pass(time.Hour)
		assert.ErrorIs(t, run(false), flow.ErrChanged)
	})
}
