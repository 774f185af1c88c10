package flow_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/server"
)

// Two runners pay once, even if their functions with the same name and version make different steps.
func TestTwoRunnersOfOneVersionPayOnce(t *testing.T) {
	for _, row := range []struct {
		name  string
		steps []string
		body  string
	}{
		{"another order", []string{"second", "first"}, "a=1"},
		{"another step", []string{"charge", "second"}, "a=1"},
		{"fewer", []string{"second"}, "a=1"},
		{"one more before", []string{"zeroth", "first", "second"}, "a=1"},
		{"another body", []string{"first", "second"}, "a=2"},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := openSQLite(t, t.TempDir()+"/journal.db")
			l := (&line{}).Then(loses())
			with := func(steps []string, content string) (*process, *flow.Func[int, int]) {
				var p *process
				f := flow.Define("pay", 1, func(ctx context.Context, in int) (int, error) {
					for _, name := range steps {
						if _, err := flow.Step(ctx, name, func(ctx context.Context) (int, error) { return 1, p.Ask(ctx, body(content)).Err }); err != nil {
							return 0, flow.GiveUp(err)
						}
					}
					return 1, nil
				})
				p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, flow.Config{Definitions: []flow.Definition{f}})
				return p, f
			}
			p, f := with([]string{"first", "second"}, "a=1")
			_, err := f.Run(t.Context(), p.Flows, "order-991", 1)
			require.ErrorIs(t, err, onceward.ErrPending)
			pass(time.Hour)
			q, g := with(row.steps, row.body)
			l.Always(says(200, paid))
			for range 15 {
				_, err = q.Resume(t.Context())
				require.NoError(t, err)
				_, _ = g.Run(t.Context(), q.Flows, "order-991", 1)
				pass(2 * time.Hour)
			}
			bodies := map[string]map[string]bool{}
			for _, s := range l.Sent() {
				if bodies[s.Key] == nil {
					bodies[s.Key] = map[string]bool{}
				}
				bodies[s.Key][s.Body] = true
			}
			for key, b := range bodies {
				assert.Len(t, b, 1, key)
			}
			assert.LessOrEqual(t, len(bodies), 2)
		})
	}
}

// A runner that is made after Run has started runs the waiting flows once their function is registered.
func TestRunnerMadeAfterRunHasStarted(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := openSQLite(t, t.TempDir()+"/journal.db")
		l := (&line{}).Then(loses())
		var p *process
		pay := flow.Define("pay", 1, func(ctx context.Context, in int) (int, error) {
			return flow.Step(ctx, "charge", func(ctx context.Context) (int, error) { return 1, p.Ask(ctx).Err })
		})
		p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, flow.Config{Definitions: []flow.Definition{pay}})
		_, err := pay.Run(t.Context(), p.Flows, "order-991", 1)
		require.ErrorIs(t, err, onceward.ErrPending)
		p.Crash()
		pass(time.Hour)
		q := startWithoutRunner(t, l, onceward.Config{Journal: j, Backoff: once})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- q.Run(ctx) }()
		pass(time.Minute)
		assert.Len(t, l.Sent(), 2, "its operation is sent by whoever runs")
		p = q
		late, err := flow.New(q.Client, flow.Config{})
		require.NoError(t, err)
		pass(time.Minute)
		require.NoError(t, late.Register(pay))
		pass(time.Minute)
		f, err := late.Flow(t.Context(), onceward.Ref{ID: "order-991"})
		require.NoError(t, err)
		assert.Equal(t, flow.StateFinished, f.State)
		assert.Len(t, l.Sent(), 2)
		cancel()
		<-done
	})
}

func TestTraceReportsFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stepped, left, pairs []string
		type key string
		trace := &flow.Trace{
			Started: func(ctx context.Context, _ flow.Flow, background bool) context.Context {
				assert.False(t, background)
				pairs = append(pairs, "run")
				return context.WithValue(ctx, key("run"), len(pairs))
			},
			Ended: func(ctx context.Context, f flow.Flow) {
				pairs = append(pairs, fmt.Sprint("run ended, of ", ctx.Value(key("run")), " ", f.State))
			},
			StepStarted: func(ctx context.Context, _ flow.Flow, step string) context.Context {
				assert.NotNil(t, ctx.Value(key("run")))
				pairs = append(pairs, step)
				return context.WithValue(ctx, key("step"), step)
			},
			StepEnded: func(ctx context.Context, _ flow.Flow, step string, err error) {
				assert.Equal(t, step, ctx.Value(key("step")))
				pairs = append(pairs, fmt.Sprint(step, " ended, error ", err != nil))
			},
			Stepped: func(f flow.Flow, s flow.StepRecord) {
				stepped = append(stepped, s.Kind.String()+" "+s.Name+": "+f.String())
			},
			Left: func(f flow.Flow) { left = append(left, f.String()) },
		}
		l := (&line{}).Then(says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once}, flow.Config{Trace: trace})
		run := p.soldOut("create", "charge")
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		pass(time.Minute)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), flow.ErrGivenUp)
		assert.Equal(t, []string{
			"done create: started → create",
			"done charge: started → create → charge",
			"undone charge: started → create → charge → undone charge",
			"undone create: started → create → charge → undone charge → undone create",
		}, stepped)
		assert.Equal(t, []string{
			"started → create → waiting",
			"started → create → charge → undone charge → undone create → given up",
		}, left)
		assert.Equal(t, []string{
			"run", "create", "create ended, error false", "charge", "charge ended, error true", "run ended, of 1 waiting",
			"run", "charge", "charge ended, error false", "run", "run ended, of 10 given_up", "run ended, of 7 running",
		}, pairs, "the last is run once more, to undo it")
	})
}

func TestAFlowsInputHasToBeJSON(t *testing.T) {
	p := startFlows(t, &line{}, onceward.Config{})
	require.ErrorIs(t, p.Flow(t.Context(), "order-991", func() {}, p.Sequence()), flow.ErrInput)
	unregistered := flow.Define("other", 1, func(context.Context, int) (int, error) { return 0, nil })
	require.ErrorIs(t, errOf(unregistered.Run(t.Context(), p.Flows, "order-991", 1)), flow.ErrUnregistered)
	require.ErrorIs(t, p.Flow(t.Context(), "", nil, p.Sequence()), onceward.ErrInvalidRequest)
	require.ErrorIs(t, p.Flow(onceward.WithScope(t.Context(), "\n"), "a", nil, p.Sequence()), onceward.ErrInvalidRequest)
	funcs := flow.Define("funcs", 1, func(context.Context, func()) (int, error) { return 0, nil })
	p = startFlows(t, &line{}, onceward.Config{}, flow.Config{Definitions: []flow.Definition{funcs}})
	require.ErrorIs(t, errOf(funcs.Run(t.Context(), p.Flows, "order-991", func() {})), flow.ErrInput)
}

// A flow under an inbound key is the same on every host.
func TestInboundKeysFlowIsTheSameOnEveryHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys [2][]string
		for host := range keys {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: []byte("0123456789abcdef")})
			inbound, err := server.Inbound(p.Client, func(r *http.Request) (string, error) { return r.Header.Get("Tenant"), nil }, server.InboundOptions{})
			require.NoError(t, err)
			service := inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := p.Flow(r.Context(), "ride", r.URL.Path, p.Sequence("create", "charge")); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
				}
			}))
			ask := func(tenant, key, path string) int {
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
				r.Header.Set("Tenant", tenant)
				r.Header.Set("Idempotency-Key", key)
				service.ServeHTTP(w, r)
				return w.Code
			}
			assert.Equal(t, 200, ask("a", "k1", "/x"))
			assert.Equal(t, 200, ask("a", "k1", "/x"), "asked again")
			assert.Len(t, l.Sent(), 2)
			assert.Equal(t, 500, ask("a", "k1", "/y"), "another request under the key")
			assert.Len(t, l.Sent(), 2)
			keys[host] = l.Keys()
			assert.Equal(t, 200, ask("a", "k2", "/x"))
			assert.Equal(t, 200, ask("b", "k1", "/x"))
			assert.Len(t, distinct(l.Keys()), 6, "other keys and other tenants are other flows")
			f, err := p.Flows.Flow(t.Context(), onceward.Ref{Scope: "a", Parent: "inbound k1", ID: "ride"})
			require.NoError(t, err)
			_, err = p.Operation(t.Context(), f.Operation("charge"))
			require.NoError(t, err)
		}
		assert.Equal(t, keys[0], keys[1])
	})
}

// One parent under two scopes has two children.
func TestParentUnderTwoScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		key := onceward.NewKey()
		for _, tenant := range []string{"tenant-1", "tenant-2"} {
			ctx := onceward.WithParent(onceward.WithScope(t.Context(), tenant), key)
			require.NoError(t, p.Ask(onceward.WithOperation(ctx, "charge")).Err)
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.Sequence("create")))
		}
		assert.Len(t, distinct(l.Keys()), 4)
	})
}

// landing is a journal that commits a flow's begin or claim, and then loses its own response.
type landing struct {
	machine.Store
	machine.Flows
	meanwhile func() error // once the commit has landed; nil: nothing happens then
	unread    atomic.Bool  // flows can't be listed
	listed    atomic.Int64 // how often they were
}

func (j *landing) ListFlows(ctx context.Context, f journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	j.listed.Add(1)
	if j.unread.Load() {
		return func(yield func(journal.Flow, error) bool) { yield(journal.Flow{}, severed.Err) }
	}
	return j.Flows.ListFlows(ctx, f)
}

func (j *landing) ClaimFlows(ctx context.Context, ev machine.FlowEvent, limit int) ([]machine.FlowResult, error) {
	res, err := j.Flows.ClaimFlows(ctx, ev, limit)
	if err == nil && j.meanwhile != nil {
		return nil, j.meanwhile()
	}
	return res, err
}

func (j *landing) ApplyFlow(ctx context.Context, ev machine.FlowEvent) (machine.FlowResult, error) {
	if ev.Kind != machine.FlowEventBegin || j.meanwhile == nil {
		return j.Flows.ApplyFlow(ctx, ev)
	}
	res, err := j.Flows.ApplyFlow(context.WithoutCancel(ctx), ev)
	if err := cmp.Or(err, j.meanwhile(), ctx.Err()); err != nil {
		return machine.FlowResult{}, err
	}
	return res, err
}

// A flow whose begin was recorded, but whose result was lost, goes on in this process.
func TestFlowWithALostBeginResultGoesOn(t *testing.T) {
	for name, row := range map[string]struct {
		waits bool // the flow is there, and waits
		fails error
	}{
		"its caller left":                           {false, nil},
		"its caller left, and it had begun before":  {true, nil},
		"the store failed":                          {false, severed.Err},
		"the store failed, and it had begun before": {true, severed.Err},
	} {
		each(t, name, func(t *testing.T, kept machine.Store) {
			l, j := &line{}, &landing{Store: kept, Flows: kept.(machine.Flows)}
			s := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
			if row.waits {
				l.Then(refuses())
				require.ErrorIs(t, errOf(s.flow.Run(t.Context(), s.Flows, "order-991", order{[]string{"create", "charge"}})), onceward.ErrPending)
				pass(time.Hour)
			}
			ctx, leave := context.WithCancel(t.Context())
			j.meanwhile = func() error {
				if row.fails == nil {
					leave()
				}
				return row.fails
			}
			err := errOf(s.flow.Run(ctx, s.Flows, "order-991", order{[]string{"create", "charge"}}))
			if row.fails == nil {
				require.ErrorIs(t, err, context.Canceled)
			} else {
				require.ErrorIs(t, err, onceward.ErrJournal)
			}
			pass(time.Minute)
			j.meanwhile = nil
			assert.Equal(t, flow.StateWaiting, s.process.flow("order-991").State)
			assert.Empty(t, l.Sent(), "nothing was sent for who was told of a failure")

			_, err = s.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, flow.StateFinished, s.process.flow("order-991").State)
			require.NoError(t, errOf(s.flow.Run(t.Context(), s.Flows, "order-991", order{[]string{"create", "charge"}})))
			assert.Equal(t, []string{"create", "charge"}, l.Descriptions())
		})
	}
	each(t, "a pass of Run's or Resume's, while another flow is run", func(t *testing.T, kept machine.Store) {
		l, j := &line{}, &landing{Store: kept, Flows: kept.(machine.Flows)}
		s := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
		l.Then(refuses(), takes(10*time.Second, says(200, paid)))
		require.ErrorIs(t, errOf(s.flow.Run(t.Context(), s.Flows, "order-991", order{[]string{"create"}})), onceward.ErrPending)
		pass(time.Hour)
		other := make(chan error, 1)
		go func() { other <- errOf(s.flow.Run(t.Context(), s.Flows, "order-992", order{[]string{"other"}})) }()
		pass(time.Second)
		j.meanwhile = func() error { return severed.Err }
		_, err := s.Resume(t.Context())
		require.ErrorIs(t, err, severed.Err)
		pass(time.Second)
		j.meanwhile = nil
		assert.Equal(t, flow.StateWaiting, s.process.flow("order-991").State)
		assert.Equal(t, flow.StateRunning, s.process.flow("order-992").State)
		require.NoError(t, errOf(s.flow.Run(t.Context(), s.Flows, "order-991", order{[]string{"create"}})))
		require.NoError(t, <-other)
		assert.Equal(t, []string{"other", "create"}, l.Descriptions())
	})
}

// However many begins fail with the journal, one pass looks for their flows, and releases them once the journal works
// again.
func TestLostBeginResultsAreRecoveredOnce(t *testing.T) {
	each(t, "", func(t *testing.T, kept machine.Store) {
		l, j := &line{}, &landing{Store: kept, Flows: kept.(machine.Flows), meanwhile: func() error { return severed.Err }}
		j.unread.Store(true)
		s := newShop(t, l, 1, onceward.Config{Journal: j, Backoff: once})
		const many = 50
		for i := range many {
			require.ErrorIs(t, errOf(s.flow.Run(t.Context(), s.Flows, fmt.Sprint("order-", i), order{[]string{"create"}})), onceward.ErrJournal)
		}
		pass(time.Minute)
		assert.Less(t, j.listed.Load(), int64(many))
		j.meanwhile = nil
		j.unread.Store(false)
		pass(time.Minute)
		for i := range many {
			assert.Equal(t, flow.StateWaiting, s.process.flow(fmt.Sprint("order-", i)).State)
		}
	})
}
