package request_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// An Authorize that hangs before the operation begins has AttemptTimeout.
func TestAuthorizeThatHangsBeforeBegin(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, hangs := &line{}, true
		p := start(t, l, onceward.Config{Providers: modes(), AttemptTimeout: 5 * time.Second, Authorize: func(r *http.Request) error {
			if hangs {
				hangs = false
				<-r.Context().Done()
				return r.Context().Err()
			}
			return nil
		}})
		began := time.Now()
		require.NoError(t, p.Ask(named(t, "invoice-1")).Err)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Len(t, l.Sent(), 1)
	})
}

// The error of a caller who gets no answer says whether Run still sends the operation.
func TestErrorSaysWhetherItIsStillSent(t *testing.T) {
	for name, row := range map[string]struct {
		first        reply
		options      []option
		kind         error
		inBackground bool
	}{
		"pending":                          {refuses(), nil, onceward.ErrPending, true},
		"pending, and only its caller can": {refuses(), []option{with("Authorization", "Bearer a")}, onceward.ErrPending, false},
		"unknown":                          {frozen, nil, onceward.ErrOutcomeUnknown, false},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			p := start(t, (&line{}).Then(row.first), onceward.Config{Journal: j, Backoff: once})
			var e *onceward.Error
			require.ErrorAs(t, p.Ask(named(t, invoice), row.options...).Err, &e)
			assert.Equal(t, row.inBackground, e.InBackground)
			ctx, cancel := context.WithCancel(named(t, invoice))
			cancel()
			require.ErrorAs(t, p.Ask(ctx, row.options...).Err, &e)
			require.ErrorIs(t, e, row.kind)
			assert.Equal(t, row.inBackground, e.InBackground)
		})
	}
}

// An error says whether the call had a name.
func TestErrorSaysWhetherTheCallHadAName(t *testing.T) {
	p := start(t, &line{}, onceward.Config{})
	for _, has := range []bool{true, false} {
		ctx := t.Context()
		if has {
			ctx = named(t, invoice)
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		out := p.Ask(ctx)
		require.ErrorIs(t, out.Err, onceward.ErrNotSent)
		assert.Equal(t, has, out.Op.Named)
	}
}

// A flow that asks repeatedly for an unknown operation causes one look-up. Run makes the later ones.
func TestFlowLooksUpAnUnknownOnce(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := tellerOfFlows(t, openBank(t))
		ship := charges(l)
		require.NoError(t, l.Flows.Register(ship))
		l.Box.Script(providertest.DropBefore())
		for range 5 {
			_, err := ship.Run(t.Context(), l.Flows, "order-1", "x")
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			pass(2 * time.Minute)
		}
		assert.Equal(t, 1, l.Charge().Looks)
	})
}

// A caller takes over an operation that a dead process left in flight, and that can't be resent. The error counts as
// its delivery: Outcomes.Handle gets nothing.
func TestCallerOfADeadProcesssOperationGetsUnknown(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l, table := &line{}, []providers.Provider{own(noKey)}
		dead := start(t, l, onceward.Config{Journal: j, Providers: table})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, invoice), to("POST", ownURL)) })
		s := &settler{}
		p := start(t, l, onceward.Config{Journal: j, Providers: table, Outcomes: &onceward.Outcomes{Handle: s.Settle}})
		require.ErrorIs(t, p.Ask(named(t, invoice), to("POST", ownURL)).Err, onceward.ErrOutcomeUnknown)
		_, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Empty(t, s.Got)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.True(t, p.Recorded(onceward.Ref{ID: invoice}).Delivered)
	})
}

// standing is a journal before which a process stands still until its session is lost.
type standing struct {
	*memory.Journal
	stood bool
}

func (j *standing) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if ev.Kind == machine.EventBegin && !j.stood {
		j.stood = true
		<-time.After(30 * time.Second)
		return machine.Result{}, journal.ErrSessionLost
	}
	return j.Journal.Apply(ctx, ev)
}

// A process that stood still until its session was lost begins by the present time. By an earlier one its clock would
// seem behind, and the clocks of other processes ahead.
func TestBeginAfterAStandstill(t *testing.T) {
	virtual(t, "for half a minute", func(t *testing.T) {
		p := start(t, &line{}, onceward.Config{Journal: &standing{Journal: memory.New()}})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.True(t, time.Now().Equal(p.Recorded(onceward.Ref{ID: invoice}).FirstSentAt))
	})
}

// overtaken is a journal whose first begin runs a function and then fails.
type overtaken struct {
	machine.Store
	by func()
}

func (j *overtaken) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if by := j.by; by != nil && ev.Kind == machine.EventBegin {
		j.by = nil
		by()
		return machine.Result{}, errDiskFull
	}
	return j.Store.Apply(ctx, ev)
}

// A caller whose begin has an unknown result does not take back a claim of Resume in the same process.
func TestBeginThatFailsBesideTheBackground(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(loses(), takes(20*time.Second, says(200, paid)))
		j := &overtaken{Store: onDisk(t)}
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		resumed := make(chan error, 1)
		j.by = func() {
			go func() {
				_, err := p.Resume(context.Background())
				resumed <- err
			}()
			pass(time.Second)
		}
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrJournal)
		assert.Equal(t, journal.StateInFlight, p.Recorded(onceward.Ref{ID: invoice}).State)
		other := start(t, l, onceward.Config{Journal: j.Store})
		require.NoError(t, other.Ask(named(t, invoice)).Err)
		require.NoError(t, <-resumed)
		assert.Len(t, l.Sent(), 2)
	})
}

// A caller whose look-up proves absence waits for the Retry-After of the provider's last answer before it sends again.
func TestLookupThatFreesANameKeepsTheRetryAfter(t *testing.T) {
	for name, row := range map[string]struct {
		hurries time.Duration // the first caller's deadline; 0: enough
		asks    int
	}{
		"of one":                               {0, 1},
		"of callers that wait for the look-up": {0, 4},
		"of one with an earlier deadline":      {40 * time.Second, 4},
	} {
		each(t, name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(says(503, "", "Retry-After", "1200"))
			p := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own(noRetention)}, Reconcile: &onceward.Reconcile{
				Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
					pass(time.Second)
					return onceward.Finding{Found: journal.FindingAbsent, Why: "they say so"}, nil
				},
			}})
			began := time.Now()
			asks := func(ctx context.Context) outcome {
				return p.Ask(onceward.WithOperation(ctx, invoice), to("POST", ownURL))
			}
			require.ErrorIs(t, asks(t.Context()).Err, onceward.ErrOutcomeUnknown)
			pass(19 * time.Minute) // so that the finding of the program's look-up counts
			first, rest := make(chan outcome, 1), make(chan outcome, row.asks)
			go func() {
				ctx := t.Context()
				if row.hurries > 0 {
					var giveUp func()
					ctx, giveUp = context.WithTimeout(ctx, row.hurries)
					defer giveUp()
				}
				first <- asks(ctx)
			}()
			synctest.Wait()
			for range row.asks - 1 {
				go func() { rest <- asks(t.Context()) }()
			}
			if out := <-first; row.hurries > 0 {
				require.ErrorIs(t, out.Err, onceward.ErrNotSent)
				assert.ErrorContains(t, out.Err, "asked for a pause until")
				assert.Equal(t, 19*time.Minute+time.Second, time.Since(began), "it is told at once")
			} else {
				require.NoError(t, out.Err)
			}
			for range row.asks - 1 {
				require.NoError(t, (<-rest).Err)
			}
			require.Len(t, l.Sent(), 2)
			assert.Equal(t, 20*time.Minute, l.Sent()[1].At.Sub(began))
		})
	}
}
