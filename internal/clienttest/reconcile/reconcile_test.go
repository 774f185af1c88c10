package reconcile_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

func TestReconcileConfig(t *testing.T) {
	for _, row := range []struct {
		name string
		set  func(*onceward.Config)
		says string
	}{
		{"a pause that is too short", func(c *onceward.Config) { c.Reconcile.Schedule = []time.Duration{time.Minute, 1} }, "Schedule[1]"},
		{"to give up before the first look", func(c *onceward.Config) { c.Reconcile.GiveUpAfter = time.Second }, "GiveUpAfter"},
		{"a negative time", func(c *onceward.Config) { c.Reconcile.GiveUpAfter = -1 }, "GiveUpAfter"},
		{"a budget that can't be used", func(c *onceward.Config) { c.Reconcile.Budget.Capacity = -1 }, "Budget"},
		{"a journal that can't", func(c *onceward.Config) { c.Journal = struct{ machine.Store }{memory.New()} }, "keeps findings"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}, Reconcile: plain()}
			row.set(&cfg)
			_, err := onceward.New(cfg)
			require.ErrorContains(t, err, row.says)
		})
	}
	given := onceward.Reconcile{Schedule: []time.Duration{time.Minute}}
	_, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}, Reconcile: &given})
	require.NoError(t, err)
	assert.Zero(t, given.GiveUpAfter, "the caller's is not changed")
	least := onceward.Reconcile{Schedule: []time.Duration{time.Second}, GiveUpAfter: time.Second}
	_, err = onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}, Reconcile: &least})
	require.NoError(t, err, "the least that can be used")
}

// Without Config.Reconcile nothing is requested or recorded for look-ups.
func TestReconcileIsOptIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		without, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{l.Box.Provider()}, HTTPClient: l.Box.Client()})
		require.NoError(t, err)
		defer without.Shutdown(t.Context())
		ref := onceward.Ref{ID: "invoice-1"}
		_, err = without.Reconcile(t.Context(), ref)
		require.ErrorIs(t, err, journal.ErrNotFound)
		req, err := http.NewRequestWithContext(named(t, ref.ID), http.MethodPost, l.Box.URL+"/payments", strings.NewReader(`{}`))
		require.NoError(t, err)
		l.Box.Script(providertest.DropAfter())
		_, err = without.HTTPClient().Do(req)
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		_, err = without.Reconcile(t.Context(), ref)
		require.ErrorContains(t, err, "Config.Reconcile is nil")
		_, err = without.RecordEvent(t.Context(), "bank", onceward.Event{Body: []byte(`{}`), Evidence: true})
		require.ErrorContains(t, err, "Config.Reconcile is nil")
		assert.Equal(t, 1, l.Box.Requests())
	})
}

// Reconcile returns the found answer as the original request would have returned it.
func TestReconcileOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment obj_1", op.Object)
		assert.True(t, op.Answer.Found)
		require.Len(t, op.Evidence, 1)
		e := op.Evidence[0]
		assert.Equal(t, journal.FindingTookEffect, e.Finding)
		assert.Equal(t, journal.BasisKey, e.Basis)
		assert.Equal(t, "Client.Reconcile", e.Actor)
		assert.NotContains(t, e.Target, "?")
		assert.Equal(t, 200, e.Status)
		assert.Equal(t, 1, e.Pages)
		var made struct{ ID string }
		require.NoError(t, json.Unmarshal(op.Answer.Body, &made))
		assert.Equal(t, "obj_1", made.ID)

		again := l.Pays("invoice-1")
		require.NoError(t, again.Err)
		assert.Contains(t, again.Body, "obj_1")
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	})
}

// Resume makes one look-up of each due operation.
func TestReconcileByResume(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Pays("invoice-1").Err)
		_, err := l.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		time.Sleep(time.Minute)
		l.Box.ScriptLooks(providertest.DelayAfter(5 * time.Second))
		_, err = l.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Mu.Lock()
		defer l.Mu.Unlock()
		assert.Len(t, l.Settled, 1, "whoever waits for it is told of it by the same Resume")
	})
}

// The schedule is the one that the client was created with, and no look-up comes before its pause is over.
func TestReconcileKeepsItsSchedule(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		given := &onceward.Reconcile{Schedule: []time.Duration{time.Minute}}
		l := atBank(t, onceward.Config{Reconcile: given})
		given.Schedule[0] = time.Hour
		l.Loses("invoice-1", providertest.DropAfter())
		op := l.Stands("invoice-1")
		assert.GreaterOrEqual(t, op.LookAt.Sub(op.SettledAt), time.Minute)
		assert.LessOrEqual(t, op.LookAt.Sub(op.SettledAt), 66*time.Second)
		l.Runs(2 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
}

// The finding of a caller's look-up is reported at once to the log, Trace and Outcomes.Handle.
func TestReconcileReportsAtOnce(t *testing.T) {
	virtual(t, "found", func(t *testing.T) {
		var looked []onceward.Operation
		l := atBank(t, onceward.Config{Trace: &onceward.Trace{Looked: func(_ context.Context, op onceward.Operation, _ onceward.Evidence) {
			looked = append(looked, op)
		}}})
		l.Loses("invoice-1", providertest.DropAfter())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(context.Background()) }()
		oncetest.Pass(time.Second)
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		oncetest.Pass(20 * time.Millisecond)
		l.Mu.Lock()
		assert.Len(t, l.Settled, 1)
		l.Mu.Unlock()
		require.Len(t, looked, 1)
		assert.Equal(t, onceward.StateCompleted, looked[0].State)
		assert.Nil(t, looked[0].Answer)
		assert.Contains(t, l.Log.String(), `level=INFO msg="found out"`)
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
	virtual(t, "given up", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Schedule: []time.Duration{time.Minute, 24 * time.Hour}, GiveUpAfter: 10 * time.Minute}})
		l.Loses("invoice-1", providertest.DropBefore())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(context.Background()) }()
		oncetest.Pass(5 * time.Minute)
		ask := func() string {
			l.Log.Reset()
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			return l.Log.String()
		}
		assert.Empty(t, ask(), "it is looked for again")
		oncetest.Pass(10*time.Minute + 1234*time.Millisecond) // no poll of its own comes just then
		assert.Contains(t, ask(), `level=WARN msg="no look-up can settle it, and it needs attention"`)
		assert.Contains(t, l.Stands("invoice-1").Attention, "given up after")
		oncetest.Pass(20 * time.Millisecond)
		assert.Len(t, l.Told(), 1)
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
	virtual(t, "nothing, which wakes no pass", func(t *testing.T) {
		j := &claimsNot{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.Loses("invoice-1", providertest.DropBefore())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(context.Background()) }()
		oncetest.Pass(1234 * time.Millisecond)
		passes := j.Fails.Load()
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		oncetest.Pass(20 * time.Millisecond)
		assert.Equal(t, passes, j.Fails.Load(), "Run has nothing to do for it")
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-ended)
	})
	virtual(t, "a hook that panics", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			panic("a nil ledger")
		}}})
		l.Loses("invoice-1", providertest.DropBefore())
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		seen := l.Stands("invoice-1").Evidence
		require.NotEmpty(t, seen)
		assert.Equal(t, "Client.Reconcile", seen[len(seen)-1].Actor)
		assert.Contains(t, seen[len(seen)-1].Why, "a hook panicked")
		assert.Contains(t, l.Log.String(), "a nil ledger")
	})
}

// Reconcile's caller waits twenty seconds at most.
func TestReconcileThatHangs(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Loses("invoice-1", providertest.DropAfter())
		l.Box.EveryLook(providertest.DelayBefore(time.Hour))
		asked := time.Now()
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.LessOrEqual(t, time.Since(asked), 20*time.Second)
	})
}

// Reconcile returns the error from a journal that fails, unless it only fails to read the result.
func TestReconcileOfAJournalThatFails(t *testing.T) {
	for _, row := range []struct {
		name  string
		fails func(*blinded)
	}{
		{"to begin the look", func(j *blinded) { j.FailsLooks = 1 }},
		{"to record the finding", func(j *blinded) { j.Evidence = 1 }},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := &blinded{Journal: memory.New()}
			l := atBank(t, onceward.Config{Journal: j})
			l.Loses("invoice-1", providertest.DropAfter())
			row.fails(j)
			_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, errBlinded)
			assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		})
	}
	virtual(t, "to read the result", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			j.Unread = "invoice-1"
			return onceward.Finding{Found: journal.FindingTookEffect, Object: "payment p_1"}, nil
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropAfter())
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment p_1", op.Object)
	})
}

// A look-up's finding waits for Outcomes.Handle or OnUnknown if one is set. Otherwise it counts as delivered.
func TestReconcileDeliversToTheConfiguredHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := openBank(t, unlooked)
		for _, listens := range []bool{true, false} {
			var heard []string
			cfg := onceward.Config{Backoff: once, Providers: []providers.Provider{box.Provider()}, Reconcile: plain()}
			if listens {
				cfg.Reconcile.OnUnknown = func(_ context.Context, op onceward.Operation, _ onceward.Looked) error {
					heard = append(heard, op.ID)
					return nil
				}
			}
			p := start(t, box.Client().Transport, cfg)
			l := &teller{Process: p, Box: box}
			l.Loses("invoice-1", providertest.DropAfter())
			_, err := p.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			require.NotEmpty(t, l.Stands("invoice-1").Attention)
			assert.Equal(t, !listens, p.Recorded(onceward.Ref{ID: "invoice-1"}).Delivered)
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			if listens {
				assert.Equal(t, []string{"invoice-1"}, heard)
				assert.Equal(t, 1, report.Settled)
			} else {
				assert.Zero(t, report.Settled)
			}
		}
	})
}

// Repeated calls to Reconcile do not use up the schedule.
func TestReconcileSchedule(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropBefore())
		require.Error(t, l.Pays("invoice-1").Err)
		for range 5 {
			time.Sleep(time.Minute)
			require.Error(t, l.Pays("invoice-1").Err)
		}
		op := l.Stands("invoice-1")
		assert.Equal(t, 5, op.Looks)
		assert.Less(t, time.Until(op.LookAt), 5*time.Minute)
		require.Error(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 5, l.Stands("invoice-1").Looks, "once a minute")
		assert.Zero(t, l.Effects())
	})
}

// Callers who ask for an unknown operation at the same time share one look-up.
func TestReconcileSharesALookup(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.Error(t, l.Pays("invoice-1").Err)
		before := l.Box.Requests()
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() { assert.NoError(t, l.Pays("invoice-1").Err) })
		}
		asking.Wait()
		assert.Equal(t, before+1, l.Box.Requests())
		assert.Equal(t, 1, l.Effects())
	})
}

// A look-up that waits for its budget does not delay Shutdown.
func TestReconcileShutsDown(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		r := plain()
		r.Budget.Capacity, r.Budget.ProbeEvery, r.Budget.PerSuccess = 1, 2*time.Minute, 0.001
		l := atBank(t, onceward.Config{Reconcile: r})
		for i := range 5 {
			l.Box.Script(providertest.DropAfter())
			require.Error(t, l.Pays("invoice-"+string(rune('a'+i))).Err)
		}
		done := make(chan error, 1)
		go func() { done <- l.Run(context.Background()) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		asked := time.Now()
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, <-done)
		assert.Equal(t, asked, time.Now(), "at once")

		next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store})
		var given string // an operation without a look-up; the interrupted one has had its own
		for i := range 5 {
			if op := next.Stands("invoice-" + string(rune('a'+i))); op.State == onceward.StateUnknown && op.Looks == 0 {
				given = op.ID
			}
		}
		require.NotEmpty(t, given)
		last, err := next.Reconcile(t.Context(), onceward.Ref{ID: given})
		require.NoError(t, err, "who asks need not wait for a look that was given back")
		assert.Equal(t, onceward.StateCompleted, last.State)
		next.Runs(3 * time.Minute) // the interrupted operation may wait for the budget; a lease is ten minutes
		for i := range 5 {
			assert.Equal(t, onceward.StateCompleted, next.Stands("invoice-"+string(rune('a'+i))).State, "what was not looked for was given back")
		}
	})
}

// An operation that was given up for lack of a look-up is looked up again by a release that has one.
func TestReconcileByALaterRelease(t *testing.T) {
	t.Parallel()
	virtual(t, "a look-up", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		before := another(t, l.Box, onceward.Config{Journal: l.Journal.Store}, unlooked)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, before.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		before.Runs(time.Hour)
		require.Len(t, before.Told(), 1)
		require.NotEmpty(t, before.Stands("invoice-1").Attention)
		before.Runs(time.Hour)
		require.Len(t, before.Told(), 1, "the same release has nothing more to look by")
		l.Runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
	virtual(t, "a hook", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(time.Hour)
		require.NotEmpty(t, l.Stands("invoice-1").Attention)
		with := plain()
		with.Lookup = func(context.Context, onceward.Operation) (onceward.Finding, error) {
			return onceward.Finding{Found: journal.FindingTookEffect, Object: "payment obj_1"}, nil
		}
		next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store, Reconcile: with})
		next.Runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, next.Stands("invoice-1").State)
		assert.Equal(t, "payment obj_1", next.Stands("invoice-1").Object)
	})
	virtual(t, "a look-up, beside a journal that fails", func(t *testing.T) {
		j := &blinded{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		before := another(t, l.Box, onceward.Config{Journal: j}, unlooked)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, before.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		before.Runs(time.Hour)
		require.NotEmpty(t, before.Stands("invoice-1").Attention)
		j.Hints = 1
		l.Runs(time.Minute)
		require.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		assert.Contains(t, l.Log.String(), errBlinded.Error())
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State, "it is tried again")
	})
	virtual(t, "a credential", func(t *testing.T) {
		l := atBank(t, onceward.Config{Authorize: func(*http.Request) error { return nil }})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1", with("Authorization", tellerToken)).Err, onceward.ErrOutcomeUnknown)
		l.Runs(36 * time.Hour) // a look comes up to a tenth of its pause late
		require.NotEmpty(t, l.Stands("invoice-1").Attention)
		assert.Len(t, l.Told(), 1)
		next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store})
		next.Runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, next.Stands("invoice-1").State)
	})
}

// Config.Reconcile.Lookup is called after the table's look-ups found nothing, and learns their result.
func TestReconcileHookAfterLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []onceward.Evidence
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(_ context.Context, op onceward.Operation) (onceward.Finding, error) {
			asked = append(asked, op.Evidence[len(op.Evidence)-1])
			return onceward.Finding{Found: journal.FindingAbsent, Why: "they say so"}, nil
		}}})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(30 * time.Minute)
		require.Len(t, asked, 4)
		assert.Equal(t, journal.FindingAbsent, asked[0].Finding)
		assert.Equal(t, journal.SourceLook, asked[0].Source)
		assert.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State)
		l.Runs(time.Minute)
		l.Mu.Lock()
		assert.Len(t, l.Settled, 1)
		l.Mu.Unlock()
		require.NoError(t, l.Pays("invoice-1").Err)
		l.Truly()
		require.NoError(t, l.Shutdown(t.Context()))
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrShutdown)
	})
}

// The finding of Config.Reconcile.Lookup changes nothing if the operation was sent again meanwhile, and is not
// reported.
func TestReconcileHookThatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *teller
		l = atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
			_, err := l.ResolveAs(onceward.Ref{ID: "invoice-1"}, onceward.NotExecuted, nil)
			require.NoError(t, err)
			require.NoError(t, l.Pays("invoice-1").Err)
			return onceward.Finding{Found: journal.FindingAbsent, Why: "they say so"}, nil
		}}})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Empty(t, op.Resolved.By, "the word of before")
		assert.NotContains(t, l.Log.String(), "found out")
		assert.NotContains(t, l.Log.String(), "needs attention")
		l.Truly()
	})
}

// A hook that was cut off has read a part of what the provider has. Its absence is not believed.
func TestReconcileHookThatOverlooksTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{Lookup: func(ctx context.Context, _ onceward.Operation) (onceward.Finding, error) {
			<-ctx.Done()
			return onceward.Finding{Found: journal.FindingAbsent, Why: "no page shows the payment"}, nil
		}}})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(30 * time.Minute)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.NotEmpty(t, op.Evidence)
		assert.Contains(t, l.Log.String(), "Config.Reconcile.Lookup failed")
		l.Truly()
	})
}

// Operations that a claim returns beside an error are leased, and looked up.
func TestReconcileLookupsBesideAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &claimsNot{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		j.FailsBeside.Store(1)
		l.Runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Truly()
	})
}
