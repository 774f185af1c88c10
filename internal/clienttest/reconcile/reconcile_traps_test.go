package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
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

// The answer is lost, and the object is visible. The first look-up finds it after ten seconds.
func TestTrapLostAnswer(t *testing.T) {
	virtual(t, "seen at once", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(9 * time.Second)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		assert.Equal(t, 2, l.Box.Requests(), "whose the credential is, and the payment: not looked for yet")
		l.Runs(10 * time.Second)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, 1, op.Looks)
		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 1, l.Effects())
		assert.Empty(t, l.Told())
		l.Mu.Lock()
		defer l.Mu.Unlock()
		require.Len(t, l.Settled, 1)
		assert.Equal(t, onceward.StateCompleted, l.Settled[0].State)
		l.Truly()
	})
	virtual(t, "a caller gets it", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		out := l.Pays("invoice-1")
		require.NoError(t, out.Err)
		assert.Contains(t, out.Body, "obj_1")
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	})
	virtual(t, "Wait returns it", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		done := make(chan error, 1)
		go func() {
			_, err := l.Wait(t.Context(), onceward.Ref{ID: "invoice-1"})
			done <- err
		}()
		l.Runs(time.Minute)
		require.NoError(t, <-done)
	})
}

// An object that is visible only after ten minutes is unknown until then, and never cancelled.
func TestTrapVisibleLater(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Visible(10 * time.Minute)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(9 * time.Minute)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Empty(t, op.Attention)
		l.Runs(30 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Empty(t, l.Told())
		l.Truly()
	})
}

// The program's own look-up cancels an operation without an effect, and not before its time. The next call sends it.
func TestTrapAbsentByTheHook(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Reconcile: saysAbsent()}, handled)
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(16 * time.Minute)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State, "the bank may be at work for two minutes, and a clock may be wrong")
		l.Runs(10 * time.Minute)
		op := l.Stands("invoice-1")
		require.Equal(t, onceward.StateCancelled, op.State, "%+v", op.Evidence)
		assert.Equal(t, "Config.Reconcile.Lookup", op.Resolved.By)
		assert.Contains(t, l.Log.String(), `level=INFO msg="found out"`)

		require.NoError(t, l.Pays("invoice-1").Err)
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	})
}

// A table's look-up that finds nothing proves nothing, whatever the table declares. The operation stays unknown, and
// OnUnknown receives it.
func TestTrapNotFound(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, handled)
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(6 * 24 * time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		assert.Empty(t, l.Told())
		l.Runs(3 * 24 * time.Hour)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Equal(t, journal.FindingInconclusive, latest(op).Finding)
		assert.Contains(t, op.Attention, "given up")
		require.Len(t, l.Told(), 1)
		assert.Contains(t, l.Told()[0].Missing, "nothing in it is the operation's")
		assert.Contains(t, l.Told()[0].Why, "given up")
		assert.Equal(t, l.Told()[0].Looks, op.Looks)
		l.Mu.Lock()
		defer l.Mu.Unlock()
		require.Len(t, l.Settled, 1, "Outcomes.Handle hears of it too, and only then")
		l.Truly()
	})
}

// A request arrives after the program's own look-up called it absent, and after it was sent again. The second effect is
// reported.
func TestTrapStraggler(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		r := saysAbsent()
		r.FillReferences = true
		l := atBank(t, onceward.Config{Reconcile: r}, handled)
		const text = `{"amount":10}`
		l.Box.Script(providertest.Straggle(24 * time.Hour))
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		l.Runs(time.Hour)
		require.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State, "%+v", l.Stands("invoice-1").Evidence)
		require.NoError(t, l.Asks("invoice-1", "/transfers", text).Err)
		l.Runs(24 * time.Hour)
		assert.Equal(t, 2, l.Effects())
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
}

// Errors and odd answers prove nothing, and a 429 slows the look-ups.
func TestTrapInconclusive(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		fault providertest.Fault
		says  string
	}{
		{"401", providertest.Status(401, nil), "401"},
		{"403", providertest.Status(403, nil), "403"},
		{"404", providertest.Status(404, nil), "404"},
		{"500", providertest.Status(500, nil), "500"},
		{"429", providertest.Status(429, http.Header{"Retry-After": {"3600"}}), "asked for a pause|did not end in time"},
		{"a page of HTML", providertest.PageBefore(200), "media type"},
		{"a cut answer", providertest.CutAt(5), "no usable answer"},
		{"no list", providertest.NoList(), "does not have the list"},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Answers = []string{"application/json"} })
			l.Box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
			time.Sleep(3 * time.Minute)
			require.NoError(t, l.Pays("control").Err)
			time.Sleep(time.Hour)
			l.Box.ScriptLooks(providertest.None()) // for the credential's account
			l.Box.EveryLook(row.fault)
			l.Runs(3 * time.Hour)
			op := l.Stands("invoice-1")
			assert.Equal(t, onceward.StateUnknown, op.State)
			assert.Empty(t, op.Attention)
			require.NotEmpty(t, op.Evidence)
			first := op.Evidence[0]
			assert.Equal(t, journal.FindingInconclusive, first.Finding)
			assert.Regexp(t, row.says, first.Why)
			if row.name == "429" {
				assert.Less(t, l.Box.Requests(), 12, "the provider asked for a pause")
			}
			l.Truly()
		})
	}
}

// A provider that ignores the filter lists other payments. None of them is ours.
func TestTrapFilterIgnored(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		require.NoError(t, l.Pays("invoice-2").Err)
		l.Box.ScriptLooks(providertest.None())
		l.Box.EveryLook(providertest.Unfiltered())
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		assert.Empty(t, l.Stands("invoice-1").Object)
		l.Truly()
	})
}

// Two objects may belong to one operation. It needs attention, with both ids.
func TestTrapAmbiguous(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		const text = `{"amount":10,"external_id":"order-1"}`
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		elsewhere, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.Box.URL+"/transfers", strings.NewReader(text))
		require.NoError(t, err)
		elsewhere.Header = http.Header{"Authorization": {tellerToken}, "Content-Type": {"application/json"}}
		resp, err := l.Box.Client().Do(elsewhere)
		require.NoError(t, err)
		resp.Body.Close()

		l.Runs(time.Minute)
		assert.Empty(t, l.Stands("invoice-1").Attention, "only after a second look")
		l.Runs(10 * time.Minute)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.NotEmpty(t, op.Attention)
		require.Len(t, l.Told(), 1)
		assert.ElementsMatch(t, []string{"transfer obj_1", "transfer obj_2"}, l.Told()[0].Objects)
	})
}

// Yesterday's transfer has the caller's reference too, and is not ours.
func TestTrapReferenceOfAnEarlierDay(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		const text = `{"amount":10,"external_id":"order-1"}`
		require.NoError(t, l.Asks("invoice-0", "/transfers", text).Err)
		time.Sleep(24 * time.Hour)
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		l.Truly()
	})
}

// A match on a later page is found. A circular or overlong list proves nothing.
func TestTrapPages(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	for _, row := range []struct {
		name   string
		others int
		fault  *providertest.Fault
		state  onceward.State
	}{
		{"the third", 5, nil, onceward.StateCompleted},
		{"a circle", 5, new(providertest.PageLoop()), onceward.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			srv := providertest.NewUnstartedServerInMemory(bank(), providertest.Objects("obj_"))
			srv.PageSize, srv.RetryAfter = 2, -1
			srv.StartTLS()
			t.Cleanup(srv.Close)
			l := another(t, srv, onceward.Config{})
			l.Box.Script(providertest.DropAfter())
			require.ErrorIs(t, l.Asks("invoice-1", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			for i := range row.others {
				require.NoError(t, l.Asks(fmt.Sprint("other-", i), "/transfers", fmt.Sprintf(`{"amount":%d,"external_id":"other-%d"}`, 100+i, i)).Err)
			}
			if row.fault != nil {
				l.Box.ScriptLooks(providertest.None())
				l.Box.EveryLook(*row.fault)
			}
			l.Runs(20 * time.Second)
			assert.Equal(t, row.state, l.Stands("invoice-1").State, "%+v", l.Stands("invoice-1").Evidence)
			l.Truly()
		})
	}
}

// Another account's credential finds nothing, and that proves nothing. Another account's payment is not ours.
func TestTrapOtherAccount(t *testing.T) {
	t.Parallel()
	virtual(t, "nothing there", func(t *testing.T) {
		current := tellerToken
		l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", current)
			return nil
		}})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		time.Sleep(3 * time.Minute)
		require.NoError(t, l.Pays("control").Err)
		current = "Bearer another's"
		require.NoError(t, l.Pays("theirs").Err)
		l.Runs(5 * time.Hour)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Contains(t, op.Evidence[0].Why, "another account")
		current = tellerToken
		l.Runs(8 * time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Truly()
	})
	virtual(t, "a similar payment", func(t *testing.T) {
		current := tellerToken
		l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", current)
			return nil
		}})
		const text = `{"amount":10,"external_id":"order-1"}`
		l.Box.Script(providertest.DropBefore())
		require.ErrorIs(t, l.Asks("invoice-1", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		current = "Bearer another's"
		require.NoError(t, l.Asks("theirs", "/transfers", `{"amount":11,"external_id":"x"}`).Err)
		foreign, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.Box.URL+"/transfers", strings.NewReader(text))
		require.NoError(t, err)
		foreign.Header = http.Header{"Authorization": {current}, "Content-Type": {"application/json"}}
		resp, err := l.Box.Client().Do(foreign)
		require.NoError(t, err)
		resp.Body.Close()
		l.Runs(time.Hour)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		l.Truly()
	})
}

// A process is cut off between a look-up and its record. Its lease ends, and another process settles the operation
// once.
func TestTrapInterruptedLookup(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		store := machine.Reconciler(j)
		time.Sleep(20 * time.Second)
		res, err := store.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: time.Now(), Due: time.Now().Add(10 * time.Minute)}, 10)
		require.NoError(t, err)
		require.Len(t, res, 1)
		l.Crash()
		second := another(t, l.Box, onceward.Config{Journal: j})
		second.Runs(9 * time.Minute)
		assert.Equal(t, onceward.StateUnknown, second.Stands("invoice-1").State, "it is somebody's")
		second.Runs(2 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, second.Stands("invoice-1").State)
		second.Truly()
	})
	virtual(t, "a look-up ends with its process", func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j})
		second := another(t, l.Box, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Box.ScriptLooks(providertest.DelayBefore(time.Minute))
		go func() { _ = l.Run(t.Context()) }()
		time.Sleep(16 * time.Second)
		second.Runs(5 * time.Second)
		op := second.Stands("invoice-1")
		require.Equal(t, onceward.StateUnknown, op.State)
		require.Equal(t, 1, op.Looks, "the first process is looking")
		l.Crash()
		second.Runs(15 * time.Second)
		op = second.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, 2, op.Looks)
		second.Truly()
	})
	virtual(t, "a process that dies of look-ups", func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		for range 120 {
			l.Box.ScriptLooks(providertest.DelayBefore(time.Minute))
			next := another(t, l.Box, onceward.Config{Journal: j})
			go func() { _ = next.Run(t.Context()) }()
			time.Sleep(time.Second)
			next.Crash()
		}
		looks := l.Stands("invoice-1").Looks
		assert.Greater(t, looks, 5)
		assert.LessOrEqual(t, looks, 12, "its next look-up waits as long as the first")
	})
	virtual(t, "two processes", func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j})
		second := another(t, l.Box, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		go func() { _ = second.Run(ctx) }()
		l.Runs(time.Minute)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Len(t, l.Stands("invoice-1").Evidence, 1)
		assert.LessOrEqual(t, len(l.Settled)+len(second.Settled), 2)
		l.Truly()
	})
}

// The findings outlive the process in a file, with the evidence, objects' owners and the remembered events.
func TestTrapsOnDisk(t *testing.T) {
	t.Parallel()
	virtual(t, "found by the next process", func(t *testing.T) {
		j := onDisk(t)
		l := atBank(t, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.Error(t, l.Asks("invoice-1", "/transfers", order1).Err)
		l.Crash()
		second := another(t, l.Box, onceward.Config{Journal: j})
		second.Runs(time.Minute)
		op := second.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		require.Len(t, op.Evidence, 1)
		assert.Equal(t, "transfer obj_1", op.Object)
		require.Error(t, second.Asks("invoice-2", "/transfers", order1).Err)
		second.Runs(time.Minute)
		assert.Equal(t, onceward.StateUnknown, second.Stands("invoice-2").State, "that object is the other's")
		second.Truly()
	})
	virtual(t, "absent by Reconcile.Lookup", func(t *testing.T) {
		l := atBank(t, onceward.Config{Journal: onDisk(t), Reconcile: saysAbsent()})
		l.Box.Script(providertest.DropBefore())
		out := l.Pays("invoice-1")
		require.Error(t, out.Err)
		l.Runs(30 * time.Minute)
		require.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State, "%+v", l.Stands("invoice-1").Evidence)
		require.NoError(t, l.Pays("invoice-1").Err)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_9", "payment.succeeded", out.Op.Key, "obj_9", time.Now()))
		require.NoError(t, err)
		assert.Contains(t, l.Stands("invoice-1").Attention, "twice")
	})
	virtual(t, "heard once, by any process", func(t *testing.T) {
		j := onDisk(t)
		l := atBank(t, onceward.Config{Journal: j}, unlooked)
		second := another(t, l.Box, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.Error(t, out.Err)
		for _, p := range []*teller{l, second, l} {
			_, err := p.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
			require.NoError(t, err)
		}
		op := second.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Len(t, op.Evidence, 1)
		l.Truly()
	})
}
