package reconcile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
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

// settles returns a Config.Reconcile.Lookup that finds every payment, with the given answer.
func settles(a *onceward.Answer) *onceward.Reconcile {
	return &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) {
		return onceward.Finding{Found: journal.FindingTookEffect, Object: "payment p_1", Answer: a}, nil
	}}
}

// A trace hook that panics over one caller's look-up blocks no other caller or pass.
func TestLookupDespiteAPanickingTrace(t *testing.T) {
	panics := func() *onceward.Trace {
		first := true
		return &onceward.Trace{Looked: func(context.Context, onceward.Operation, onceward.Evidence) {
			if first {
				first = false
				panic("by a hook")
			}
		}}
	}
	virtual(t, "for a caller", func(t *testing.T) {
		l := atBank(t, onceward.Config{Trace: panics()})
		l.Loses("invoice-1", providertest.DropAfter())
		assert.PanicsWithValue(t, "by a hook", func() { l.Pays("invoice-1") })
		asked := time.Now()
		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, asked, time.Now(), "it waits for nobody")
	})
	virtual(t, "in the background", func(t *testing.T) {
		l := atBank(t, onceward.Config{Trace: panics()})
		l.Loses("invoice-1", providertest.DropAfter())
		l.Loses("invoice-2", providertest.DropAfter())
		l.Runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-2").State, "looked for though the other's trace panicked")
	})
}

// A look-up that is interrupted, by Run's end or by a caller's deadline, is repeated. It delays no look-up that
// was due.
func TestInterruptedLookup(t *testing.T) {
	t.Parallel()
	const seen = 32 * time.Hour
	virtual(t, "by the end of Run", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Visible(seen)
		l.Loses("invoice-1", providertest.DropAfter())
		l.Runs(seen)
		pass(time.Until(l.Stands("invoice-1").LookAt))
		l.Box.EveryLook(providertest.DelayBefore(time.Hour))
		l.Runs(10 * time.Second)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		l.Box.EveryLook(providertest.None())
		l.Runs(11 * time.Minute) // its lease
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
	virtual(t, "by Shutdown", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Loses("invoice-1", providertest.DropAfter())
		l.Box.EveryLook(providertest.DelayBefore(time.Hour))
		ended := make(chan error, 1)
		go func() { ended <- l.Run(t.Context()) }()
		time.Sleep(20 * time.Second)
		assert.Equal(t, 1, l.Stands("invoice-1").Looks, "it is under way")
		asked := time.Now()
		require.NoError(t, l.Shutdown(t.Context()))
		assert.Equal(t, asked, time.Now(), "it waits for no look")
		require.NoError(t, <-ended)
		l.Box.EveryLook(providertest.None())
		next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store})
		next.Runs(11 * time.Minute) // its lease
		assert.Equal(t, onceward.StateCompleted, next.Stands("invoice-1").State)
	})
	virtual(t, "by a caller", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Visible(seen)
		l.Loses("invoice-1", providertest.DropAfter())
		l.Runs(seen - time.Hour)
		l.Box.EveryLook(providertest.DelayBefore(time.Hour))
		before := l.Stands("invoice-1").LookAt
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Reconcile(ctx, onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.False(t, l.Stands("invoice-1").LookAt.After(before))
	})
}

// The answer of Config.Reconcile.Lookup goes to the caller if possible, and is recorded if allowed.
func TestLookupHookAnswers(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer *onceward.Answer
		adjust func(*providers.Provider)
		whole  bool
	}{
		{"one like the provider's", &onceward.Answer{Status: 201, Body: []byte(canary)}, func(*providers.Provider) {}, true},
		{"a secret one", &onceward.Answer{Status: 201, Body: []byte(canary)}, func(p *providers.Provider) { p.Endpoints[0].SecretResponse = true }, false},
		{"without a status", &onceward.Answer{Body: []byte(canary)}, func(*providers.Provider) {}, false},
		{"with half a status", &onceward.Answer{Status: 100, Body: []byte(canary)}, func(*providers.Provider) {}, false},
		{"with the first status that is whole", &onceward.Answer{Status: 200, Body: []byte(canary)}, func(*providers.Provider) {}, true},
		{"with the last that there is", &onceward.Answer{Status: 599, Body: []byte(canary)}, func(*providers.Provider) {}, true},
		{"with none that there is", &onceward.Answer{Status: 600, Body: []byte(canary)}, func(*providers.Provider) {}, false},
		{"as long as it may be", &onceward.Answer{Status: 201, Body: []byte(strings.Repeat("x", 1<<10))}, func(*providers.Provider) {}, true},
		{"one byte longer", &onceward.Answer{Status: 201, Body: []byte(strings.Repeat("x", 1<<10+1))}, func(*providers.Provider) {}, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Reconcile: settles(row.answer), MaxResponseBody: 1 << 10}, unlooked, row.adjust)
			l.Loses("invoice-1", providertest.DropAfter())
			op, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.NoError(t, err)
			again := l.Pays("invoice-1")
			if row.whole {
				require.NoError(t, again.Err)
				assert.Equal(t, row.answer.Status, again.Status)
				assert.Equal(t, string(row.answer.Body), again.Body)
				return
			}
			require.ErrorIs(t, again.Err, onceward.ErrAnswerGone)
			assert.Empty(t, op.Answer.Body)
			assert.Equal(t, "payment p_1", op.Answer.Pointer)
		})
	}
}

// An object that Config.Reconcile.Lookup names by its id alone is the object that an answer or look-up shows with its
// kind. It proves one operation.
func TestLookupHookNamesAnId(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		hook := plain()
		hook.Lookup = func(context.Context, onceward.Operation) (onceward.Finding, error) {
			return onceward.Finding{Found: journal.FindingTookEffect, Object: "obj_1"}, nil
		}
		l := atBank(t, onceward.Config{Reconcile: hook}, func(p *providers.Provider) { p.Endpoints[0].Lookups = nil })
		for _, name := range []string{"first", "second"} {
			l.Loses(name, providertest.DropBefore())
			_, _ = l.Reconcile(t.Context(), onceward.Ref{ID: name})
		}
		assert.Equal(t, []string{"payment obj_1"}, l.Stands("first").Evidence[0].Objects())
		assert.Equal(t, onceward.StateCompleted, l.Stands("first").State)
		assert.Equal(t, onceward.StateUnknown, l.Stands("second").State)

		told := `{"type":"payment.succeeded","id":"evt_1","created":` + unix(time.Now()) + `,"request":{"key":"` + string(l.Stands("second").Key) + `"},"data":{"id":"obj_1","created":` + unix(time.Now()) + `}}`
		_, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Body: []byte(told), Evidence: true})
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, l.Stands("second").State)
	})
}

// An inconclusive look-up replaces an earlier inconclusive one of the same kind only. A trace of the object is kept,
// however many follow.
func TestLookupHookBesideTheTables(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		l := atBank(t, onceward.Config{Journal: j})
		hook := &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) { return onceward.Finding{}, nil }}
		program := another(t, l.Box, onceward.Config{Journal: j, Reconcile: hook}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		l.Box.ScriptLooks(providertest.None()) // for the credential's account
		l.Box.EveryLook(providertest.Status(http.StatusServiceUnavailable, nil))
		looks := func(by *teller) []onceward.Evidence {
			pass(2 * time.Minute)
			_, err := by.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			return l.Stands("invoice-1").Evidence
		}
		require.Len(t, looks(l), 1)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.URL.Path != "/payments" {
				return nil
			}
			return answers(http.StatusOK, fmt.Sprintf(`{"data":[{"id":"obj_1","idempotency_key":%q,"created":%d,"status":"pending"}],"has_more":false}`,
				l.Stands("invoice-1").Key, time.Now().Unix()))
		})
		require.Len(t, looks(l), 2)
		l.Fakes(func(*http.Request) *http.Response { return nil })
		for n := range 10 {
			looks(program)
			list := looks(l)
			if n == 0 {
				require.Len(t, list, 4)
				assert.Equal(t, []string{journal.SourceHook, journal.SourceLook}, []string{list[2].Source, list[3].Source})
			}
		}
		seen := 0
		for _, e := range l.Stands("invoice-1").Evidence {
			if e.Finding == journal.FindingInProgress {
				seen++
				assert.Equal(t, []string{"payment obj_1"}, e.Objects())
			}
		}
		assert.Equal(t, 1, seen)
	})
}

// OnUnknown gets each operation until it returns nil once, whatever callers and Outcomes.Handle do meanwhile.
func TestOnUnknownGetsEach(t *testing.T) {
	virtual(t, "once, though Outcomes.Handle fails", func(t *testing.T) {
		fails := 3
		l := atBank(t, onceward.Config{Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			if fails--; fails >= 0 {
				return errors.New("down")
			}
			return nil
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		l.Runs(time.Hour)
		assert.Negative(t, fails)
		assert.Len(t, l.Told(), 1)
	})
	virtual(t, "and of its outcome while Outcomes.Handle fails", func(t *testing.T) {
		down := true
		l := atBank(t, onceward.Config{Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			if down {
				return errors.New("down")
			}
			return nil
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		l.Runs(time.Minute)
		require.Len(t, l.Told(), 1)
		l.EvidenceOf("invoice-1", "payment one")
		l.EvidenceOf("invoice-1", "payment another")
		down = false
		l.Runs(time.Hour)
		require.Len(t, l.Told(), 2)
		assert.Contains(t, l.Told()[1].Why, "twice")
	})
	virtual(t, "until it takes it, and Outcomes.Handle not before", func(t *testing.T) {
		calls, settled := 0, []int{}
		var told []string
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{OnUnknown: func(context.Context, onceward.Operation, onceward.Looked) error {
			switch calls++; calls {
			case 1:
				return errors.New("not now")
			case 2:
				panic("nor now")
			}
			return nil
		}}, Outcomes: &onceward.Outcomes{Handle: func(context.Context, onceward.Operation) error {
			settled = append(settled, calls)
			return nil
		}}, Trace: &onceward.Trace{Settled: func(_ context.Context, op onceward.Operation, err error) {
			told = append(told, fmt.Sprint(err))
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		l.Runs(time.Hour)
		assert.Equal(t, []int{3}, settled)
		assert.Equal(t, []string{"not now", "Reconcile.OnUnknown panicked: nor now", "<nil>"}, told)
	})
	virtual(t, "though its caller got the error", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		for range 3 {
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		}
		l.Runs(time.Minute)
		assert.Len(t, l.Told(), 1)
	})
	virtual(t, "of a second effect, though a caller got the answer", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		require.NoError(t, l.Pays("invoice-1").Err)
		l.EvidenceOf("invoice-1", "payment another")
		require.NoError(t, l.Pays("invoice-1").Err)
		l.Runs(time.Minute)
		require.Len(t, l.Told(), 1)
		assert.Contains(t, l.Told()[0].Why, "twice")
	})
}

// The table declares no kind, and Config.Reconcile.Lookup names one. An answer or event with the same id shows the same
// object, and another id is a second effect.
func TestLookupHookWithItsOwnKind(t *testing.T) {
	for _, row := range []struct {
		name, kind, shows string
		seconds           int
	}{
		{"no kind, and the same id", "", "obj_1", 0},
		{"no kind, and another id", "", "obj_2", 1},
		{"a kind, and the same id", "payment", "obj_1", 1},
	} {
		finds := func(t *testing.T) *teller {
			hook := plain()
			hook.Lookup = func(context.Context, onceward.Operation) (onceward.Finding, error) {
				return onceward.Finding{Found: journal.FindingTookEffect, Object: "order obj_1"}, nil
			}
			l := atBank(t, onceward.Config{Reconcile: hook}, func(p *providers.Provider) {
				p.Endpoints[0].Lookups, p.Endpoints[0].Object = nil, row.kind
			})
			l.Loses("invoice-1", providertest.DropBefore())
			_, _ = l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
			require.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
			return l
		}
		virtual(t, row.name+", by an event", func(t *testing.T) {
			l := finds(t)
			told := `{"type":"payment.succeeded","id":"evt_1","created":` + unix(time.Now()) + `,"request":{"key":"` + string(l.Stands("invoice-1").Key) + `"},"data":{"id":"` + row.shows + `","created":` + unix(time.Now()) + `}}`
			_, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Body: []byte(told), Evidence: true})
			require.NoError(t, err)
			assert.Equal(t, row.seconds, l.Recorded(onceward.Ref{ID: "invoice-1"}).SecondEffects)
		})
		virtual(t, row.name+", by a late answer", func(t *testing.T) {
			l := finds(t)
			_, err := l.Journal.Apply(context.Background(), machine.Event{
				Kind: machine.EventComplete, Ref: onceward.Ref{ID: "invoice-1"}, At: time.Now(), Claim: 1,
				Object: cmp.Or(row.kind, journal.NoKind) + " " + row.shows, Answer: &onceward.Answer{Status: 200},
			})
			require.NoError(t, err)
			assert.Equal(t, row.seconds, l.Recorded(onceward.Ref{ID: "invoice-1"}).SecondEffects)
		})
	}
}

// With Heard, too, Outcomes.Handle gets an unknown operation only once its look-ups have ended.
func TestHeardWaitsForLookups(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Outcomes: &onceward.Outcomes{Heard: true}})
		l.Loses("invoice-1", providertest.DropAfter())
		l.Runs(time.Hour)
		l.Mu.Lock()
		defer l.Mu.Unlock()
		require.Len(t, l.Settled, 1)
		assert.Equal(t, onceward.StateCompleted, l.Settled[0].State)
	})
}

// An outcome that comes while hooks still handle the one before is not lost.
func TestOutcomeDuringADelivery(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		goOn := make(chan struct{})
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{OnUnknown: func(context.Context, onceward.Operation, onceward.Looked) error {
			<-goOn
			return nil
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropAfter())
		over := make(chan struct{})
		go func() {
			defer close(over)
			l.Runs(time.Hour)
		}()
		time.Sleep(time.Minute)
		require.NotEmpty(t, l.Stands("invoice-1").Attention)
		l.EvidenceOf("invoice-1", "payment obj_1")
		time.Sleep(time.Minute)
		close(goOn)
		<-over
		l.Mu.Lock()
		defer l.Mu.Unlock()
		require.NotEmpty(t, l.Settled)
		assert.Equal(t, onceward.StateCompleted, l.Settled[len(l.Settled)-1].State)
	})
}

// A clock that runs ahead for an hour gives up no operation, and blocks no caller once it is right.
func TestLookupByAClockThatJumps(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		var ahead time.Duration
		setClock(l.Client, func() time.Time { return time.Now().Add(ahead) })
		l.Box.Visible(3 * time.Hour)
		l.Loses("invoice-1", providertest.DropAfter())
		l.Runs(2 * time.Hour)
		ahead = 365 * 24 * time.Hour
		l.Runs(time.Hour)
		assert.Empty(t, l.Stands("invoice-1").Attention)
		assert.Empty(t, l.Told())
		ahead = 0
		time.Sleep(time.Hour)
		_, err := l.Reconcile(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		l.Truly()
	})
}

// An unknown operation whose table no process has is given up, so that OnUnknown gets it. No caller waits for its
// look-up.
func TestLookupWithoutItsTable(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Loses("invoice-1", providertest.DropBefore())
		l.Crash()
		next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store}, func(p *providers.Provider) { *p = providers.Svix() })
		asked := time.Now()
		_, err := next.Wait(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, asked, time.Now(), "it waits for nobody")
		next.Runs(23 * time.Hour)
		assert.Empty(t, next.Told())
		next.Runs(3 * time.Hour)
		require.Len(t, next.Told(), 1)
		assert.Contains(t, next.Told()[0].Missing, "Config.Providers")
		looks := next.Stands("invoice-1").Looks
		next.Runs(3 * 24 * time.Hour)
		assert.Equal(t, looks, next.Stands("invoice-1").Looks, "nor is it looked for again")
		assert.Len(t, next.Told(), 1)
	})
}

// All unknown operations without a table are given up in the same pass.
func TestLookupsWithoutTheirTable(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		for i := range 3 {
			l.Loses(fmt.Sprint("invoice-", i), providertest.DropBefore())
		}
		l.Crash()
		var at []time.Time
		next := another(t, l.Box, onceward.Config{Journal: l.Journal.Store, Concurrency: 1, Reconcile: &onceward.Reconcile{OnUnknown: func(context.Context, onceward.Operation, onceward.Looked) error {
			at = append(at, time.Now())
			return nil
		}}}, func(p *providers.Provider) { *p = providers.Svix() })
		next.Runs(8 * 24 * time.Hour)
		require.Len(t, at, 3)
		assert.Less(t, at[2].Sub(at[0]), time.Minute)
	})
}

// unseen is a journal that can't list unknown operations, or those of them that need attention.
type unseen struct {
	*memory.Journal
	dead bool
}

func (j *unseen) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	if slices.Equal(f.States, []journal.State{journal.StateUnknown}) && f.NeedsAttention.IsZero() != j.dead {
		return func(yield func(journal.Operation, error) bool) { yield(journal.Operation{}, errBlinded) }
	}
	return j.Journal.List(ctx, f)
}

// A pass that can't list the operations to look up again, or to give up, reports the error to Trace.
func TestLookupsIfTheListFails(t *testing.T) {
	for name, dead := range map[string]bool{"operations to look up again": true, "operations to give up": false} {
		virtual(t, name, func(t *testing.T) {
			failed := 0
			l := atBank(t, onceward.Config{Journal: &unseen{memory.New(), dead}, Trace: &onceward.Trace{PassFailed: func(_ context.Context, err error) {
				failed++
				assert.ErrorIs(t, err, errBlinded)
			}}})
			l.Runs(time.Minute)
			assert.NotZero(t, failed)
		})
	}
}

// unrecorded is a journal that fails on one kind of event.
type unrecorded struct {
	*memory.Journal
	kind machine.EventKind
}

func (j *unrecorded) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	if ev.Kind == j.kind {
		return machine.Result{}, errBlinded
	}
	return j.Journal.Apply(ctx, ev)
}

// If the journal fails while an operation without a table is given up, Trace gets the error.
func TestLookupWithoutItsTableFails(t *testing.T) {
	t.Parallel()
	for _, kind := range []machine.EventKind{machine.EventLook, machine.EventEvidence} {
		virtual(t, kind.String(), func(t *testing.T) {
			m, failed := memory.New(), 0
			l := atBank(t, onceward.Config{Journal: m})
			l.Loses("invoice-1", providertest.DropBefore())
			l.Crash()
			next := another(t, l.Box, onceward.Config{Journal: &unrecorded{m, kind}, Trace: &onceward.Trace{PassFailed: func(_ context.Context, err error) {
				failed++
				assert.ErrorIs(t, err, errBlinded)
			}}}, func(p *providers.Provider) { *p = providers.Svix() })
			next.Runs(8 * 24 * time.Hour)
			assert.NotZero(t, failed)
			assert.Empty(t, next.Told())
		})
	}
}
