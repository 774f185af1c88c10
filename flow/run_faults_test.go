package flow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
)

// failsAt is a journal that fails at one of its writes, or from that one on until it is mended.
type failsAt struct {
	machine.Store
	machine.Flows
	lands bool // the first write that fails is recorded all the same
	stays bool

	mu     sync.Mutex
	at, n  int
	mended bool
}

// fails reports whether the next write fails, and whether it is made all the same.
func (j *failsAt) fails() (fails, made bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mended {
		return false, true
	}
	j.n++
	fails = j.n == j.at || j.stays && j.n > j.at
	return fails, !fails || j.lands && j.n == j.at
}

// reached mends the journal, and reports whether it had come to its failure.
func (j *failsAt) reached() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mended = true
	return j.n >= j.at
}

func failing[R any](j *failsAt, write func() (R, error)) (res R, err error) {
	fails, made := j.fails()
	if made {
		res, err = write()
	}
	if fails && err == nil {
		var none R
		return none, severed.Err
	}
	return res, err
}

func (j *failsAt) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	return failing(j, func() (machine.Result, error) { return j.Store.Apply(ctx, ev) })
}

func (j *failsAt) Claim(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	return failing(j, func() ([]machine.Result, error) { return j.Store.Claim(ctx, ev, limit) })
}

func (j *failsAt) Join(ctx context.Context) (machine.Session, error) {
	return failing(j, func() (machine.Session, error) { return j.Store.Join(ctx) })
}

func (j *failsAt) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	return failing(j, func() (machine.FlowResult, error) { return j.Flows.ApplyFlow(ctx, ev) })
}

func (j *failsAt) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	return failing(j, func() ([]machine.FlowResult, error) { return j.Flows.ClaimFlows(ctx, ev, limit) })
}

// A journal fails at any write for a flow. Each step is made once all the same, whether this process goes on or the
// next one.
func TestJournalFailsAtAnyWriteOfAFlow(t *testing.T) {
	t.Parallel()
	cases := 0
	for _, declines := range []bool{false, true} {
		for _, lands := range []bool{false, true} {
			for _, stays := range []bool{false, true} {
				for _, dies := range []bool{false, true} {
					cases++
					sampled(t, cases, 8, fmt.Sprintf("declined %t, lands %t, stays %t, dies %t", declines, lands, stays, dies), func(t *testing.T, kept machine.Store) {
						for at := 1; ; at++ {
							j := &failsAt{Store: kept, Flows: kept.(machine.Flows), lands: lands, stays: stays, at: at}
							if !livesThrough(t, j, fmt.Sprint("ride-", at), declines, dies) {
								assert.Greater(t, at, 8, "the flow writes that much")
								return
							}
						}
					})
				}
			}
		}
	}
}

// livesThrough runs a flow through its journal's failure, and reports whether the failure came.
func livesThrough(t *testing.T, j *failsAt, name string, declines, dies bool) (reached bool) {
	t.Helper()
	l := &line{}
	begin := func(j machine.Store) (*process, *flow.Func[string, string]) {
		p := &process{}
		ride := flow.Define("ride", 1, func(ctx context.Context, name string) (string, error) {
			id, err := flow.UUIDStep(ctx, "id")
			if err != nil {
				return "", err
			}
			if _, err = flow.Step(ctx, "create", func(ctx context.Context) (string, error) {
				c, err := p.Post(ctx, "create")
				return c.ID, err
			}, flow.WithUndo(func(ctx context.Context, _ string) error {
				_, err := p.Post(ctx, "undo")
				return err
			})); err != nil {
				return "", err
			}
			if err := p.Step(ctx, "charge"); err != nil {
				return "", err
			}
			if declines {
				return "", flow.GiveUp(errGone)
			}
			return id, p.Step(ctx, "notify")
		})
		*p = *startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, flow.Config{Definitions: []flow.Definition{ride}})
		return p, ride
	}
	p, ride := begin(j)
	_, told := ride.Run(t.Context(), p.Flows, name, "ada")
	pass(time.Second)
	reached = j.reached()
	if dies {
		p.Crash()
		p, ride = begin(j)
	}
	for range 4 {
		pass(time.Minute)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
	}
	_, err := ride.Run(t.Context(), p.Flows, name, "ada")
	want, state := []string{"create", "charge", "notify"}, flow.StateFinished
	if declines {
		want, state = []string{"create", "charge", "undo"}, flow.StateGivenUp
		require.ErrorIs(t, err, flow.ErrGivenUp, "write %d: %v", j.at, told)
	} else {
		require.NoError(t, err, "write %d: %v", j.at, told)
	}
	assert.Equal(t, state, p.flow(name).State)
	effects := map[string]string{}
	for _, s := range l.Sent() {
		effects[s.Key] = s.Body[len("description="):]
	}
	made := make([]string, 0, len(effects))
	for _, what := range effects {
		made = append(made, what)
	}
	assert.ElementsMatch(t, want, made, "write %d", j.at)
	if !reached {
		require.NoError(t, p.Shutdown(t.Context()))
	}
	return reached
}

const errGone = flow.Reason("the rider is gone")
