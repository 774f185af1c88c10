package flow_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// pays is a one-charge flow, at the URL that is its input, with a separate credential.
func pays(p **process, options ...option) *flow.Func[string, int] {
	return flow.Define("pays", 1, func(ctx context.Context, url string) (int, error) {
		return flow.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			return 1, (*p).Ask(ctx, append(options, to("POST", url))...).Err
		})
	})
}

// waitingFlows makes n flows that wait, each for a charge that reached no provider hours ago. It returns the process
// that resumes them.
func waitingFlows(t *testing.T, via *line, n int, url func(i int) string, options ...option) *process {
	t.Helper()
	j := memory.New()
	var p *process
	pay := pays(&p, options...)
	known := flow.Config{Definitions: []flow.Definition{pay}}
	cfg := onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{providers.Stripe(), own()}}
	p = startFlows(t, (&line{}).Always(refuses()), cfg, known)
	for i := range n {
		require.ErrorIs(t, errOf(pay.Run(t.Context(), p.Flows, fmt.Sprint(i), url(i))), onceward.ErrPending)
	}
	pass(3 * time.Hour)
	cfg.Backoff = onceward.Config{}.Backoff
	p = startFlows(t, via, cfg, known)
	return p
}

func (p *process) finished() (n int) {
	p.T.Helper()
	for f, err := range p.Journal.Store.(machine.Flows).ListFlows(p.T.Context(), journal.FlowFilter{States: []journal.FlowState{flow.StateFinished}}) {
		require.NoError(p.T, err)
		if f.State == flow.StateFinished {
			n++
		}
	}
	return n
}

// A provider that is down gets only probes, however many flows wait for it. The flows go on once it is back.
func TestThrottledFlowsBesideAnOutage(t *testing.T) {
	t.Parallel()
	own := []option{with("Authorization", "Bearer s3cr3t")} // which Run has not
	for _, row := range []struct {
		name    string
		options []option
		down    reply
	}{
		{"nothing gets through", nil, refuses()},
		{"unavailable", nil, says(503, "")},
		{"no answer, and their function alone has the credential", own, loses()},
	} {
		virtual(t, row.name, func(t *testing.T) {
			flows := soak.Times(60, 200)
			var reached atomic.Int64
			l := (&line{}).Always(doing(func() { reached.Add(1) }, row.down))
			p := waitingFlows(t, l, flows, func(int) string { return chargeURL }, row.options...)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(seam.Seldom(ctx, time.Minute)) }()
			pass(10 * time.Minute)
			t.Log(reached.Load(), "requests")
			assert.Less(t, reached.Load(), int64(40))
			attempts := 0
			for _, op := range p.Everything() {
				attempts += op.Attempts
			}
			assert.EqualValues(t, int64(flows)+reached.Load(), attempts, "what was not sent is no attempt")
			l.Always(says(200, paid))
			pass(time.Hour)
			assert.Equal(t, flows, p.finished())
			assert.Len(t, distinct(l.Keys()), flows)
			stop()
			<-done
		})
	}
}

// A provider that hangs does not hold up the flows that ask others.
func TestThrottledFlowsBesideABlackHole(t *testing.T) {
	for _, how := range []string{"Resume", "Run"} {
		virtual(t, how, func(t *testing.T) {
			const flows = 40
			at := func(i int) string { return []string{ownURL, chargeURL}[i%2] }
			hole, fine := hangs(), takes(100*time.Millisecond, says(200, paid))
			l := (&line{}).Always(reply{Answer: func(r *http.Request) (*http.Response, error) {
				if r.URL.String() == ownURL {
					return hole.Answer(r)
				}
				return fine.Answer(r)
			}})
			p := waitingFlows(t, l, flows, at)
			began := time.Now()
			if how == "Resume" {
				report, err := p.Resume(t.Context())
				require.NoError(t, err)
				t.Log(report.Elapsed, time.Since(began))
				assert.LessOrEqual(t, time.Since(began), 2*time.Minute)
			} else {
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
			}
			assert.Equal(t, flows/2, p.finished())
		})
	}
}

// Flows' calls in the background share their site's slots with each other and with the operations that Run
// sends.
func TestThrottledFlowsHaveSlots(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const flows, charges = 4, 5
		j, l := memory.New(), (&line{}).Always(takes(time.Second, says(200, paid)))
		var p *process
		pay := flow.Define("pays", 1, func(ctx context.Context, _ string) (int, error) {
			var names []string
			for i := range charges {
				names = append(names, fmt.Sprint("charge-", i))
			}
			all, errs := flow.Parallel(ctx, names...), make([]error, charges)
			var made sync.WaitGroup
			for i, name := range names {
				made.Go(func() { errs[i] = p.Step(all, name) })
			}
			made.Wait()
			return 1, errors.Join(errs...)
		})
		known := flow.Config{Definitions: []flow.Definition{pay}}
		p = startFlows(t, (&line{}).Always(refuses()), onceward.Config{Journal: j, Backoff: once}, known)
		for i := range flows {
			require.ErrorIs(t, errOf(pay.Run(t.Context(), p.Flows, fmt.Sprint(i), "")), onceward.ErrPending)
			require.ErrorIs(t, p.Ask(onceward.WithOperation(t.Context(), fmt.Sprint("beside-", i))).Err, onceward.ErrPending)
		}
		pass(3 * time.Hour)
		p = startFlows(t, l, onceward.Config{Journal: j, Concurrency: 3}, known)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		assert.Equal(t, 3, l.Most())
		assert.Len(t, l.Sent(), flows*(charges+1))
		assert.Equal(t, flows, p.finished())
	})
}

// A hook that panics while a flow in the background asks for its operation keeps no slot. Run sends the others.
func TestThrottledFlowsKeepNoSlotOfAPanic(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		looks := 0
		trace := &onceward.Trace{Looked: func(context.Context, onceward.Operation, onceward.Evidence) {
			if looks++; looks == 1 {
				panic("a hook's")
			}
		}}
		var p *process
		pay := pays(&p)
		l := (&line{}).Then(loses(), refuses())
		p = startFlows(t, l, onceward.Config{
			Backoff: once, Concurrency: 1, Providers: []providers.Provider{forgets()}, Reconcile: &onceward.Reconcile{}, Trace: trace,
		}, flow.Config{Definitions: []flow.Definition{pay}})
		require.ErrorIs(t, errOf(pay.Run(t.Context(), p.Flows, "1", ownURL)), onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, p.Ask(onceward.WithOperation(t.Context(), "beside"), to("POST", ownURL)).Err, onceward.ErrPending)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		require.ErrorIs(t, p.Run(ctx), context.DeadlineExceeded)
		require.Positive(t, looks)
		assert.Equal(t, journal.StateCompleted, p.Recorded(onceward.Ref{ID: "beside"}).State)
	})
}

// A person's call is never held back by a breaker, whether of a flow or of an operation that a flow waits for.
func TestThrottledFlowsLeaveCallersAlone(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := memory.New()
		var p *process
		pay := pays(&p)
		known := flow.Config{Definitions: []flow.Definition{pay}}
		var reached atomic.Int64
		l := (&line{}).Always(doing(func() { reached.Add(1) }, refuses()))
		p = startFlows(t, l, onceward.Config{Journal: j, Backoff: once}, known)
		for i := range 20 {
			require.ErrorIs(t, errOf(pay.Run(t.Context(), p.Flows, fmt.Sprint(i), chargeURL)), onceward.ErrPending)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(10 * time.Minute)
		for i := range 20 {
			before := reached.Load()
			require.ErrorIs(t, p.Ask(onceward.WithOperation(t.Context(), fmt.Sprint("person-", i))).Err, onceward.ErrPending)
			require.Equal(t, before+1, reached.Load())
		}
		l.Always(says(200, paid))
		held := 0
		for _, op := range p.Everything() {
			if op.State == journal.StatePending && !op.DueAt.After(time.Now()) {
				held++
			}
		}
		require.Positive(t, held, "what was held back is due for whoever asks")
		require.NoError(t, errOf(pay.Run(t.Context(), p.Flows, "new", chargeURL)))
		stop()
		<-done
	})
}

// If a tenant's credential was revoked, that tenant's flows are held back. Other tenants' flows go on.
func TestThrottledFlowsOfARevokedTenant(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		const flows = 20
		j := memory.New()
		var p *process
		pay := pays(&p, with("Authorization", "Bearer s3cr3t"))
		known := flow.Config{Definitions: []flow.Definition{pay}}
		p = startFlows(t, (&line{}).Always(refuses()), onceward.Config{Journal: j, Backoff: once}, known)
		revoked := map[string]bool{}
		for i := range flows {
			scope := []string{"revoked", "fine"}[i%2]
			require.ErrorIs(t, errOf(pay.Run(onceward.WithScope(t.Context(), scope), p.Flows, fmt.Sprint(i), chargeURL)), onceward.ErrPending)
		}
		for _, op := range p.Everything() {
			revoked[op.Key] = op.Scope == "revoked"
		}
		pass(3 * time.Hour)
		var refused atomic.Int64
		var mended atomic.Bool
		p = startFlows(t, (&line{}).Always(reply{Answer: func(r *http.Request) (*http.Response, error) {
			if revoked[r.Header.Get("Idempotency-Key")] && !mended.Load() {
				refused.Add(1)
				return wrongKey.Answer(r)
			}
			return says(200, paid).Answer(r)
		}}), onceward.Config{Journal: j}, known)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(time.Hour)
		assert.Equal(t, flows/2, p.finished())
		assert.Less(t, refused.Load(), int64(20))
		mended.Store(true)
		pass(time.Hour)
		assert.Equal(t, flows, p.finished())
		stop()
		<-done
	})
}
