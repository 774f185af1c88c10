package onceward_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// severedFlows is a severed journal that keeps flows.
type severedFlows struct {
	*severed.Journal
	flows journal.Flows
}

func (j *severedFlows) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	if err := j.Alive(); err != nil {
		return journal.FlowResult{}, err
	}
	return j.flows.ApplyFlow(ctx, ev)
}

func (j *severedFlows) ClaimFlows(ctx context.Context, ev journal.FlowEvent, limit int) ([]journal.FlowResult, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	return j.flows.ClaimFlows(ctx, ev, limit)
}

func (j *severedFlows) GetFlow(ctx context.Context, ref journal.Ref) (journal.Flow, error) {
	return j.flows.GetFlow(ctx, ref)
}

func (j *severedFlows) ListFlows(ctx context.Context, f journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	return j.flows.ListFlows(ctx, f)
}

func (j *severedFlows) ReapFlows(ctx context.Context, ev journal.FlowEvent, limit int) (int, error) {
	return j.flows.ReapFlows(ctx, ev, limit)
}

// startFlows makes a process that runs flows, on a journal in memory if cfg has none.
func startFlows(t *testing.T, via http.RoundTripper, cfg onceward.Config) *process {
	t.Helper()
	if cfg.Journal == nil {
		cfg.Journal = memory.New()
	}
	if cfg.Providers == nil {
		cfg.Providers = []providers.Provider{providers.Stripe()}
	}
	j := &severed.Journal{Journal: cfg.Journal}
	cfg.Journal = &severedFlows{j, cfg.Journal.(journal.Flows)}
	cfg.HTTPClient = &http.Client{Transport: via}
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Shutdown(t.Context()) })
	return &process{Client: c, t: t, http: c.HTTPClient(), journal: j}
}

// errOf is the error of what returns a result, too.
func errOf[T any](_ T, err error) error { return err }

// charge is what a provider says of a charge.
type charge struct {
	ID string `json:"id"`
}

// post makes a charge of what is given.
func (p *process) post(ctx context.Context, what string) (charge, error) {
	var c charge
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chargeURL, strings.NewReader("description="+what))
	if err != nil {
		return c, err
	}
	req.Header.Set("Content-Type", form)
	resp, err := p.http.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c, fmt.Errorf("status %d", resp.StatusCode)
	}
	return c, json.NewDecoder(resp.Body).Decode(&c)
}

// step makes one charge in a step of its name.
func (p *process) step(ctx context.Context, name string) error {
	_, err := onceward.Step(ctx, name, func(ctx context.Context) (charge, error) { return p.post(ctx, name) })
	return err
}

// sequence is a flow's function that makes charges one after another.
func (p *process) sequence(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			if err := p.step(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p *process) flow(id string) onceward.Flow {
	p.t.Helper()
	f, err := p.LookupFlow(p.t.Context(), onceward.Ref{ID: id})
	require.NoError(p.t, err)
	return f
}

// descriptions lists what charges were asked for.
func (l *line) descriptions() (all []string) {
	for _, s := range l.sent() {
		all = append(all, strings.TrimPrefix(s.Body, "description="))
	}
	return all
}

func TestAFlowMakesItsStepsOnce(t *testing.T) {
	virtual(t, "and shows how far it has come", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		var seen []string
		run := func() error {
			return p.Flow(t.Context(), "order-991", 7, func(ctx context.Context) error {
				for _, name := range []string{"create", "charge", "send"} {
					if err := p.step(ctx, name); err != nil {
						return err
					}
					seen = append(seen, p.flow("order-991").String())
				}
				return nil
			})
		}
		require.NoError(t, run())
		assert.Equal(t, []string{"started → create", "started → create → charge", "started → create → charge → send"}, seen)
		f := p.flow("order-991")
		assert.Equal(t, "started → create → charge → send → finished", f.String())
		assert.JSONEq(t, paid, string(f.Steps[1].Result))
		op, err := p.Lookup(t.Context(), f.Operation("charge"))
		require.NoError(t, err)
		assert.Equal(t, l.keys()[1], string(op.Key))

		require.NoError(t, run(), "asked again, it runs through what is recorded")
		assert.Equal(t, []string{"create", "charge", "send"}, l.descriptions())
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", 8, p.sequence("create")), onceward.ErrKeyReused)
	})
	virtual(t, "though its process dies at any time", func(t *testing.T) {
		names := []string{"create", "charge", "send", "file"}
		for dies := range 9 {
			l, j := &line{}, memory.New()
			p := startFlows(t, l, onceward.Config{Journal: j})
			n := 0
			moment := func() {
				if n == dies {
					p.crash()
				}
				n++
			}
			crashing := func(ctx context.Context) error {
				for _, name := range names {
					moment()
					_, err := onceward.Step(ctx, name, func(ctx context.Context) (charge, error) {
						c, err := p.post(ctx, name)
						moment()
						return c, err
					})
					if err != nil {
						return err
					}
				}
				return nil
			}
			err := p.Flow(t.Context(), "order-991", 7, crashing)
			assert.Equal(t, dies < 8, err != nil)
			p = startFlows(t, l, onceward.Config{Journal: j})
			require.NoError(t, p.Flow(t.Context(), "order-991", 7, p.sequence(names...)))
			assert.Equal(t, names, l.descriptions())
			assert.Len(t, distinct(l.keys()), 4)
		}
	})
}

func distinct(all []string) map[string]bool {
	set := map[string]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}

func TestTheKeysOfAFlowFollowFromItsNameAndItsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := []byte("0123456789abcdef")
		var keys [2][]string
		for i := range keys {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: secret})
			ctx := onceward.WithScope(t.Context(), "tenant-42")
			require.NoError(t, p.Flow(ctx, "order-991", nil, p.sequence("create", "charge")))
			keys[i] = l.keys()
			f, err := p.LookupFlow(ctx, onceward.Ref{Scope: "tenant-42", ID: "order-991"})
			require.NoError(t, err)
			_, err = p.Lookup(ctx, f.Operation("create"))
			require.NoError(t, err)
			require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create")))
			assert.NotContains(t, keys[i], l.keys()[2], "another scope is another flow")
		}
		assert.Equal(t, keys[0], keys[1], "with Config.Secret they come back after the loss of the journal")
	})
	virtual(t, "and from its parent", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		ctx := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(ctx, "ride", nil, p.sequence("create")))
		other := onceward.WithParent(t.Context(), onceward.NewKey())
		require.NoError(t, p.Flow(other, "ride", nil, p.sequence("create")))
		require.NoError(t, p.Flow(ctx, "ride", nil, p.sequence("create")))
		assert.Len(t, distinct(l.keys()), 2)
		assert.Len(t, l.keys(), 2)
	})
}

func TestAStepThatCanNotBeResumedIsRefused(t *testing.T) {
	do := func(ctx context.Context) (int, error) { return 1, nil }
	for name, row := range map[string]struct {
		in   func(p *process, ctx context.Context) error
		says string
	}{
		"of no flow": {func(p *process, ctx context.Context) error {
			_, err := onceward.Step(context.Background(), "a", do)
			return err
		}, "belongs to no flow"},
		"twice": {func(p *process, ctx context.Context) error {
			_, err := onceward.Step(ctx, "a", do)
			require.NoError(p.t, err)
			_, err = onceward.Step(ctx, "a", do)
			return err
		}, "one of that name before"},
		"in another": {func(p *process, ctx context.Context) error {
			_, err := onceward.Step(ctx, "a", func(ctx context.Context) (int, error) { return onceward.Step(ctx, "b", do) })
			return err
		}, "made in the step a"},
		"beside another": {func(p *process, ctx context.Context) error {
			var err error
			_, _ = onceward.Step(ctx, "a", func(context.Context) (int, error) {
				_, err = onceward.Step(ctx, "b", do)
				return 1, nil
			})
			return err
		}, "at the same time as the step a"},
		"without a name": {func(p *process, ctx context.Context) error { _, err := onceward.Step(ctx, "", do); return err }, "no name"},
		"with a slash":   {func(p *process, ctx context.Context) error { _, err := onceward.Step(ctx, "a/b", do); return err }, "slash"},
		"called undo":    {func(p *process, ctx context.Context) error { _, err := onceward.Step(ctx, "undo", do); return err }, "taken"},
		"too long": {func(p *process, ctx context.Context) error {
			_, err := onceward.Step(ctx, strings.Repeat("a", 300), do)
			return err
		}, "more than"},
		"with a control character": {func(p *process, ctx context.Context) error { _, err := onceward.Step(ctx, "a\n", do); return err }, "control"},
		"without JSON": {func(p *process, ctx context.Context) error {
			_, err := onceward.Step(ctx, "a", func(context.Context) (func(), error) { return func() {}, nil })
			return err
		}, "can't be recorded"},
		"a flow in a flow": {func(p *process, ctx context.Context) error { return p.Flow(ctx, "other", nil, p.sequence()) }, "begun in another"},
	} {
		virtual(t, name, func(t *testing.T) {
			p := startFlows(t, &line{}, onceward.Config{})
			err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { return row.in(p, ctx) })
			require.ErrorIs(t, err, onceward.ErrStep)
			assert.ErrorContains(t, err, row.says)
		})
	}
	virtual(t, "or made after its function returned", func(t *testing.T) {
		p := startFlows(t, &line{}, onceward.Config{})
		var inside context.Context
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { inside = ctx; return nil }))
		_, err := onceward.Step(inside, "a", do)
		require.ErrorIs(t, err, onceward.ErrStep)
	})
}

func TestAStepMakesOneUnnamedCall(t *testing.T) {
	virtual(t, "a second one is refused", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				if _, err := p.post(ctx, "first"); err != nil {
					return charge{}, err
				}
				return p.post(ctx, "first")
			})
			return err
		})
		require.ErrorIs(t, err, onceward.ErrNameNeeded)
		assert.Len(t, l.sent(), 1)
	})
	virtual(t, "named ones may stand beside it", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(id string) error {
			return p.Flow(t.Context(), id, nil, func(ctx context.Context) error {
				_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (int, error) {
					_, first := p.post(ctx, "first")
					_, second := p.post(onceward.WithOperation(ctx, "tip"), "tip")
					_, third := p.post(onceward.WithOperation(ctx, "fee"), "fee")
					return 3, errors.Join(first, second, third)
				})
				return err
			})
		}
		require.NoError(t, run("order-991"))
		assert.Len(t, distinct(l.keys()), 3)
		op, err := p.Lookup(t.Context(), p.flow("order-991").Operation("charge/tip"))
		require.NoError(t, err)
		assert.Equal(t, l.keys()[1], string(op.Key))
	})
	virtual(t, "one without a name in its name is refused", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
				return p.post(onceward.WithOperation(ctx, ""), "x")
			})
			return err
		})
		require.ErrorIs(t, err, onceward.ErrInvalidRequest)
		assert.ErrorContains(t, err, "name is empty")
		assert.Empty(t, l.sent())
	})
	virtual(t, "outside of a step there is none", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { _, err := p.post(ctx, "x"); return err })
		require.ErrorIs(t, err, onceward.ErrNameNeeded)
		assert.ErrorContains(t, err, "outside its steps")
		assert.Empty(t, l.sent())
	})
	virtual(t, "after a step there is none", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			var inside context.Context
			_, err := onceward.Step(ctx, "a", func(ctx context.Context) (int, error) { inside = ctx; return 1, nil })
			for _, ctx := range []context.Context{inside, onceward.WithOperation(inside, "tip")} {
				_, late := p.post(ctx, "late")
				require.ErrorIs(t, late, onceward.ErrNameNeeded)
				require.ErrorContains(t, late, "its step has ended")
			}
			return err
		}))
		assert.Empty(t, l.sent())
	})
	virtual(t, "of the flow's own scope", func(t *testing.T) {
		p := startFlows(t, &line{}, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "a", func(ctx context.Context) (charge, error) { return p.post(onceward.WithScope(ctx, "other"), "x") })
			return err
		})
		require.ErrorIs(t, err, onceward.ErrInvalidRequest)
	})
	virtual(t, "an SDK's own retry of it is the same one", func(t *testing.T) {
		l := (&line{}).then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					if c, err := p.post(ctx, "x"); err == nil {
						return c, nil
					}
					_, _ = p.post(ctx, "x")
					return charge{}, errors.New("the SDK's own")
				})
				return err
			})
		}
		err := run()
		require.ErrorIs(t, err, onceward.ErrPending, "whatever the SDK makes of it")
		f := p.flow("order-991")
		assert.Equal(t, onceward.FlowWaiting, f.State)
		assert.Equal(t, f.Operation("charge"), f.WaitsFor)
		assert.Zero(t, f.Failures)
		pass(time.Minute)
		_, err = p.Resume(t.Context())
		require.NoError(t, err)
		require.NoError(t, run())
		assert.Len(t, distinct(l.keys()), 1)
	})
}

func TestTimeAndRandomnessAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		var times []time.Time
		var ids []string
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				at, err := onceward.TimeStep(ctx, "at")
				if err != nil {
					return err
				}
				id, err := onceward.UUIDStep(ctx, "receipt")
				if err != nil {
					return err
				}
				times, ids = append(times, at), append(ids, id)
				return p.step(ctx, "charge")
			})
		}
		began := time.Now()
		require.ErrorIs(t, run(), onceward.ErrPending)
		pass(time.Hour)
		require.NoError(t, run())
		require.Len(t, ids, 2)
		assert.Equal(t, ids[0], ids[1])
		assert.Equal(t, times[0], times[1])
		assert.True(t, times[0].Equal(began))
		assert.Len(t, ids[0], 36)
	})
}

func TestAFlowWaitsForAnOperationWithoutAnOutcome(t *testing.T) {
	virtual(t, "pending: until it is due", func(t *testing.T) {
		l := (&line{}).then(says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := p.sequence("create", "charge", "send")
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrPending)
		told, ok := errors.AsType[*onceward.FlowError](err)
		require.True(t, ok)
		assert.Equal(t, "charge", told.Step)
		op, err := p.Lookup(t.Context(), told.Flow.WaitsFor)
		require.NoError(t, err)
		assert.Equal(t, op.DueAt, told.Flow.DueAt)
		assert.ErrorContains(t, told, "flow order-991: step charge: no outcome yet; due ")
		if op.DueAt.After(time.Now()) {
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		}
		pass(time.Minute)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run))
		assert.Equal(t, []string{"create", "charge", "send"}, l.descriptions())
	})
	virtual(t, "unknown: until it is resolved", func(t *testing.T) {
		l := (&line{}).then(says(200, paid), frozen)
		p := startFlows(t, l, onceward.Config{})
		run := p.sequence("create", "charge", "send")
		err := p.Flow(t.Context(), "order-991", nil, run)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		ref := p.flow("order-991").WaitsFor
		assert.Equal(t, "charge", ref.ID)
		_, err = p.resolve(ref, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, run), "at once")
		assert.Equal(t, []string{"create", "charge", "send"}, l.descriptions())
	})
	virtual(t, "and Run goes on at once when it is", func(t *testing.T) {
		l := (&line{}).then(frozen)
		s := newShop(t, l, 1, onceward.Config{})
		require.ErrorIs(t, errOf(s.flow.Run(t.Context(), s.Client, "order-991", order{[]string{"create", "charge"}})), onceward.ErrOutcomeUnknown)
		go func() { _ = s.Run(t.Context()) }()
		pass(30 * time.Minute)
		f := s.process.flow("order-991")
		assert.Equal(t, onceward.FlowWaiting, f.State)
		assert.Zero(t, f.Failures, "to wait is no failure")
		_, err := s.resolve(f.WaitsFor, onceward.Executed, &onceward.Answer{Status: 200, Body: []byte(paid)})
		require.NoError(t, err)
		pass(time.Second)
		assert.Equal(t, onceward.FlowFinished, s.process.flow("order-991").State)
		assert.Len(t, l.sent(), 2)
	})
	virtual(t, "whatever the function makes of it", func(t *testing.T) {
		l := (&line{}).then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_ = p.step(ctx, "create")
			_ = p.step(ctx, "charge")
			return nil
		})
		require.ErrorIs(t, err, onceward.ErrPending)
		assert.Empty(t, l.sent(), "no further step is made")
	})
}

func TestAFlowThatKeepsFailingIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sorry := errors.New("no driver: https://api.example.com")
		p := startFlows(t, &line{}, onceward.Config{FlowBackoff: backoff.Policy{MaxAttempts: 3}})
		runs := 0
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if err := p.step(ctx, "create"); err != nil {
					return err
				}
				runs++
				_, err := onceward.Step(ctx, "find", func(context.Context) (int, error) { return 0, sorry })
				return err
			})
		}
		for i := range 3 {
			err := run()
			require.ErrorIs(t, err, sorry)
			require.ErrorIs(t, err, onceward.ErrFlowFailed)
			assert.Equal(t, i == 2, errors.Is(err, onceward.ErrFlowSetAside))
			if i < 2 {
				require.ErrorIs(t, run(), onceward.ErrPending, "it backs off")
				pass(time.Minute)
			}
		}
		assert.Equal(t, 3, runs)
		require.ErrorIs(t, run(), onceward.ErrFlowSetAside)
		f := p.flow("order-991")
		assert.Equal(t, onceward.FlowSetAside, f.State)
		require.Len(t, f.History, 3)
		assert.Equal(t, sorry.Error(), f.History[0].Error)
		assert.Equal(t, "started → create → set aside", f.String())

		f, err := p.RetryFlow(t.Context(), f.Ref)
		require.NoError(t, err)
		assert.Equal(t, onceward.FlowWaiting, f.State)
		require.ErrorIs(t, run(), sorry)
		assert.Equal(t, 1, p.flow("order-991").Failures)
	})
}

func TestAQueryIsNotRecordedWithAFlowsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startFlows(t, (&line{}).then(says(500, "")), onceward.Config{})
		require.Error(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "look up", func(ctx context.Context) (int, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/x?token=hidden", nil)
				require.NoError(t, err)
				_, err = (&http.Client{Transport: failingTransport{}}).Do(req)
				return 0, fmt.Errorf("look up: %w", errors.Join(errors.New("twice"), err, &url.Error{Op: "Get", URL: "https://[x?token=hidden", Err: err}))
			})
			return err
		}))
		assert.Contains(t, p.flow("order-991").History[0].Error, "look up: ")
		assert.NotContains(t, p.flow("order-991").History[0].Error, "hidden")
	})
}

type failingTransport struct{}

func (failingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, io.ErrUnexpectedEOF
}

func TestAChangedFunctionIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		then []string
		step string
	}{
		"a step was renamed":                {[]string{"create", "bill", "send"}, "charge"},
		"two were swapped":                  {[]string{"charge", "create", "send"}, "create"},
		"the last one was removed":          {[]string{"create"}, "charge"},
		"the first one was removed":         {[]string{"charge", "send"}, "create"},
		"one was put between":               {[]string{"create", "check", "charge", "send"}, "charge"},
		"one was put before":                {[]string{"check", "create", "charge", "send"}, "create"},
		"one was put before what had begun": {[]string{"create", "charge", "check", "send"}, "send"},
	} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).then(says(200, paid), says(200, paid), refuses())
			p := startFlows(t, l, onceward.Config{Backoff: once})
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge", "send")), onceward.ErrPending)
			pass(time.Minute)
			err := p.Flow(t.Context(), "order-991", nil, p.sequence(row.then...))
			require.ErrorIs(t, err, onceward.ErrFlowChanged)
			told, _ := errors.AsType[*onceward.FlowError](err)
			assert.Equal(t, row.step, told.Step)
			assert.Len(t, l.sent(), 2, "nothing is made")
			assert.Equal(t, 1, told.Flow.Failures)
			pass(time.Minute)
			require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge", "send")), "the old function goes on")
		})
	}
	virtual(t, "a step is of another kind, or returns something else", func(t *testing.T) {
		l := (&line{}).then(refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			if _, err := onceward.UUIDStep(ctx, "id"); err != nil {
				return err
			}
			return p.step(ctx, "charge")
		}), onceward.ErrPending)
		for _, change := range []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := onceward.TimeStep(ctx, "id"); return err },
			func(ctx context.Context) error {
				_, err := onceward.UUIDStep(onceward.Parallel(ctx, "id"), "id")
				return err
			},
		} {
			pass(time.Hour)
			require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, change), onceward.ErrFlowChanged)
		}
	})
	virtual(t, "a result does not fit any more", func(t *testing.T) {
		l := (&line{}).then(says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge")), onceward.ErrPending)
		pass(time.Minute)
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "create", func(context.Context) (struct{ Name string }, error) { panic("not called") })
			return err
		})
		require.ErrorIs(t, err, onceward.ErrFlowChanged)
	})
	virtual(t, "after the end, too", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create")))
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create", "charge")), onceward.ErrFlowChanged)
		assert.Len(t, l.sent(), 1)
		assert.Equal(t, onceward.FlowFinished, p.flow("order-991").State)
	})
}

func TestAStepWhoseErrorTheFlowCopesWithIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(declined)
		p := startFlows(t, l, onceward.Config{})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				if p.step(ctx, "card") == nil {
					return errors.New("not declined")
				}
				return p.step(ctx, "account")
			})
		}
		require.NoError(t, run())
		require.NoError(t, run())
		assert.Equal(t, []string{"card", "account"}, l.descriptions())
		assert.Equal(t, "started → account → finished", p.flow("order-991").String())
	})
}

func TestParallelSteps(t *testing.T) {
	virtual(t, "have the keys of their names, whatever their order", func(t *testing.T) {
		names := []string{"a", "b", "c", "d"}
		key := onceward.NewKey()
		var keys []map[string]string
		for run := range 5 {
			l := &line{}
			p := startFlows(t, l, onceward.Config{})
			err := p.Flow(onceward.WithParent(t.Context(), key), "order-991", nil, func(ctx context.Context) error {
				if err := p.step(ctx, "before"); err != nil {
					return err
				}
				var wg sync.WaitGroup
				parallel := onceward.Parallel(ctx, names...)
				errs := make([]error, len(names))
				for i := range names {
					wg.Go(func() {
						<-time.After(time.Duration((i*7+run*3)%5) * time.Second)
						errs[i] = p.step(parallel, names[i])
					})
				}
				wg.Wait()
				return errors.Join(append(errs, p.step(ctx, "after"))...)
			})
			require.NoError(t, err)
			byName := map[string]string{}
			for _, s := range l.sent() {
				byName[s.Body] = s.Key
			}
			keys = append(keys, byName)
			assert.Len(t, byName, 6)
		}
		for _, k := range keys[1:] {
			assert.Equal(t, keys[0], k)
		}
	})
	virtual(t, "one that waits does not keep the others from being made", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				ctx = onceward.Parallel(ctx, "a", "b", "c")
				return errors.Join(p.step(ctx, "a"), p.step(ctx, "b"), p.step(ctx, "c"))
			})
		}
		l.then(refuses())
		require.ErrorIs(t, run(), onceward.ErrPending)
		assert.Equal(t, []string{"b", "c"}, l.descriptions())
		pass(time.Minute)
		require.NoError(t, run())
		assert.Equal(t, []string{"b", "c", "a"}, l.descriptions())
	})
	virtual(t, "one that fails may break off the others, as in an errgroup", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		sorry := errors.New("sorry")
		fails := true
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				ctx, cancel := context.WithCancelCause(onceward.Parallel(ctx, "a", "b", "c"))
				defer cancel(nil)
				errs := make(chan error, 3)
				go func() { errs <- p.step(ctx, "a") }()
				go func() {
					_, err := onceward.Step(ctx, "b", func(context.Context) (int, error) {
						<-time.After(time.Second)
						if fails {
							return 0, sorry
						}
						return 1, nil
					})
					if err != nil {
						cancel(err)
					}
					errs <- err
				}()
				go func() {
					<-time.After(2 * time.Second)
					errs <- p.step(ctx, "c")
				}()
				first := <-errs
				return errors.Join(first, <-errs, <-errs)
			})
		}
		l.then(hangs())
		err := run()
		require.ErrorIs(t, err, onceward.ErrFlowFailed)
		require.ErrorIs(t, err, sorry)
		f := p.flow("order-991")
		assert.Equal(t, 1, f.Failures, "it is a failure, and backs off")
		fails = false
		pass(time.Minute)
		require.NoError(t, run())
		assert.Equal(t, []string{"a", "a", "c"}, l.descriptions())
		assert.Len(t, distinct(l.keys()), 2)
	})
	virtual(t, "a removed one is noticed", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Backoff: once})
		run := func(names ...string) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				parallel := onceward.Parallel(ctx, names...)
				for _, name := range names {
					if err := p.step(parallel, name); err != nil {
						return err
					}
				}
				return p.step(ctx, "after")
			})
		}
		l.then(says(200, paid), says(200, paid), refuses())
		require.ErrorIs(t, run("a", "b"), onceward.ErrPending)
		pass(time.Minute)
		err := run("b")
		require.ErrorIs(t, err, onceward.ErrFlowChanged)
		told, _ := errors.AsType[*onceward.FlowError](err)
		assert.Equal(t, "a", told.Step)
	})
	virtual(t, "a renamed one is noticed before another is made in its stead", func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{})
		run := func(name string, fails error) error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				return errors.Join(p.step(onceward.Parallel(ctx, name), name), fails)
			})
		}
		require.ErrorIs(t, run("charge", errSoldOut), errSoldOut)
		pass(time.Hour)
		require.ErrorIs(t, run("pay", nil), onceward.ErrFlowChanged)
		assert.Len(t, l.sent(), 1)
	})
	virtual(t, "one that Parallel was not given is refused", func(t *testing.T) {
		p := startFlows(t, &line{}, onceward.Config{})
		err := p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error { return p.step(onceward.Parallel(ctx, "a"), "b") })
		require.ErrorIs(t, err, onceward.ErrStep)
	})
}

func TestAFlowWhoseEndCanNotBeRecordedIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &failingFlows{Journal: memory.New()}
		p := startFlows(t, &line{}, onceward.Config{Journal: j})
		run := p.sequence("create")
		j.fails.Store(int32(journal.FlowFinish))
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrJournal)
		assert.Equal(t, onceward.FlowRunning, p.flow("order-991").State)
		j.fails.Store(0)
		pass(time.Minute)
		assert.Equal(t, onceward.FlowFinished, p.flow("order-991").State)

		j.fails.Store(int32(journal.FlowRecord))
		require.ErrorIs(t, p.Flow(t.Context(), "order-992", nil, run), onceward.ErrJournal)
		j.fails.Store(int32(journal.FlowBegin))
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

func (j *failingFlows) ApplyFlow(ctx context.Context, ev journal.FlowEvent) (journal.FlowResult, error) {
	if ev.Kind == journal.FlowEventKind(j.fails.Load()) {
		return journal.FlowResult{}, severed.Err
	}
	return j.Journal.ApplyFlow(ctx, ev)
}

func TestTraceTellsOfFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stepped, left []string
		trace := &onceward.Trace{
			Stepped: func(f onceward.Flow, s onceward.StepRecord) {
				stepped = append(stepped, s.Kind.String()+" "+s.Name+": "+f.String())
			},
			FlowLeft: func(f onceward.Flow) { left = append(left, f.String()) },
		}
		l := (&line{}).then(says(200, paid), refuses())
		p := startFlows(t, l, onceward.Config{Backoff: once, Trace: trace})
		run := p.soldOut("create", "charge")
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrPending)
		pass(time.Minute)
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, run), onceward.ErrFlowGivenUp)
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
	})
}

func TestRunReapsFlowsPastTheirKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := startFlows(t, l, onceward.Config{Keep: 48 * time.Hour})
		require.NoError(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create")))
		pass(72 * time.Hour)
		go func() { _ = p.Run(t.Context()) }()
		pass(time.Hour) // what comes after a time in which nobody looked is a clock that has jumped, at first
		require.ErrorIs(t, p.Flow(t.Context(), "order-991", nil, p.sequence("create")), onceward.ErrAnswerGone)
		assert.Empty(t, p.flow("order-991").Steps)
		assert.Len(t, l.sent(), 1)
	})
}

func TestAFlowsInputHasToBeJSON(t *testing.T) {
	p := startFlows(t, &line{}, onceward.Config{})
	require.ErrorIs(t, p.Flow(t.Context(), "order-991", func() {}, p.sequence()), onceward.ErrFlowInput)
	unregistered := onceward.DefineFlow("other", 1, func(context.Context, int) (int, error) { return 0, nil })
	require.ErrorIs(t, errOf(unregistered.Run(t.Context(), p.Client, "order-991", 1)), onceward.ErrFlowUnregistered)
	require.ErrorIs(t, p.Flow(t.Context(), "", nil, p.sequence()), onceward.ErrInvalidRequest)
	require.ErrorIs(t, p.Flow(onceward.WithScope(t.Context(), "\n"), "a", nil, p.sequence()), onceward.ErrInvalidRequest)
	funcs := onceward.DefineFlow("funcs", 1, func(context.Context, func()) (int, error) { return 0, nil })
	p = startFlows(t, &line{}, onceward.Config{Flows: []onceward.FlowDefinition{funcs}})
	require.ErrorIs(t, errOf(funcs.Run(t.Context(), p.Client, "order-991", func() {})), onceward.ErrFlowInput)
}

func TestAFlowUnderAnInboundKeyIsTheSameOnEveryHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys [2][]string
		for host := range keys {
			l := &line{}
			p := startFlows(t, l, onceward.Config{Secret: []byte("0123456789abcdef")})
			inbound, err := p.Inbound(func(r *http.Request) (string, error) { return r.Header.Get("Tenant"), nil })
			require.NoError(t, err)
			service := inbound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := p.Flow(r.Context(), "ride", r.URL.Path, p.sequence("create", "charge")); err != nil {
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
			assert.Len(t, l.sent(), 2)
			assert.Equal(t, 500, ask("a", "k1", "/y"), "another request under the key")
			assert.Len(t, l.sent(), 2)
			keys[host] = l.keys()
			assert.Equal(t, 200, ask("a", "k2", "/x"))
			assert.Equal(t, 200, ask("b", "k1", "/x"))
			assert.Len(t, distinct(l.keys()), 6, "other keys and other tenants are other flows")
			f, err := p.LookupFlow(t.Context(), onceward.Ref{Scope: "a", Parent: "inbound k1", ID: "ride"})
			require.NoError(t, err)
			_, err = p.Lookup(t.Context(), f.Operation("charge"))
			require.NoError(t, err)
		}
		assert.Equal(t, keys[0], keys[1])
	})
}

func TestAStepMayHaveATimeLimitOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).then(hangs())
		p := startFlows(t, l, onceward.Config{})
		run := func() error {
			return p.Flow(t.Context(), "order-991", nil, func(ctx context.Context) error {
				_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
					ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
					defer cancel()
					return p.post(ctx, "charge")
				})
				return err
			})
		}
		require.ErrorIs(t, run(), onceward.ErrPending)
		f := p.flow("order-991")
		assert.Zero(t, f.Failures)
		assert.True(t, f.DueAt.After(time.Now()), "it does not spin")
		pass(time.Second)
		require.NoError(t, run())
		assert.Len(t, distinct(l.keys()), 1)
	})
}
