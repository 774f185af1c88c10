package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
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
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// An event that names no object proves nothing. It is no error, because the provider would repeat it forever.
func TestHearWithoutAnObject(t *testing.T) {
	for name, data := range map[string]string{"none": `{}`, "two": `{"id":"obj_1","id":"obj_2"}`, "another case": `{"ID":"obj_1"}`, "an object": `{"id":{}}`} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked)
			l.Box.Script(providertest.DropAfter())
			out := l.Pays("invoice-1")
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			ops, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Evidence: true, Body: fmt.Appendf(nil,
				`{"id":"evt_1","type":"payment.succeeded","created":%d,"request":{"key":%q},"data":%s}`, time.Now().Unix(), out.Op.Key, data)})
			require.NoError(t, err)
			require.Len(t, ops, 1, "it is about it")
			assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		})
	}
}

// An event that can't be read is logged, and no other.
func TestWebhookThatIsUnreadable(t *testing.T) {
	for readable, text := range map[bool]string{true: `{"id":"evt_1","type":"of no kind that is known"}`, false: `{"id":`} {
		virtual(t, text, func(t *testing.T) {
			l := atBank(t, onceward.Config{})
			ops, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Evidence: true, Body: []byte(text)})
			require.NoError(t, err)
			assert.Empty(t, ops)
			assert.Equal(t, !readable, strings.Contains(l.Log.String(), "a webhook could not be read in full"))
		})
	}
}

// An event settles neither of two similar operations. An object of another operation settles none.
func TestWebhookOfSimilarOperations(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	virtual(t, "both unknown", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, tellsOfTransfers, func(p *providers.Provider) { p.Endpoints[1].Lookups = nil })
		l.Box.Script(providertest.DropBefore(), providertest.DropAfter())
		require.ErrorIs(t, l.Asks("a", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.Asks("b", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_1"))
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, l.Stands("a").State, "it was not executed")
		assert.Equal(t, onceward.StateUnknown, l.Stands("b").State)
		l.Truly()
	})
	virtual(t, "one has its own answer", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, tellsOfTransfers)
		require.NoError(t, l.Asks("a", "/transfers", text).Err)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("b", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_2"))
		require.NoError(t, err)
		assert.NotContains(t, l.Log.String(), "it took effect twice")
		assert.Equal(t, onceward.StateUnknown, l.Stands("b").State, "its reference is another's too")
		_, err = l.RecordEvent(t.Context(), "bank", l.Transferred("evt_2", "order-1", "obj_1"))
		require.NoError(t, err)
		assert.NotContains(t, l.Log.String(), "it took effect twice")
		l.Truly()
	})
	virtual(t, "it is about the object of one", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, tellsOfTransfers)
		require.NoError(t, l.Asks("a", "/transfers", text).Err)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("b", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		ops, err := l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_1"))
		require.NoError(t, err)
		require.Len(t, ops, 1)
		assert.Equal(t, "a", ops[0].ID)
		assert.Empty(t, l.Stands("b").Evidence)
	})
	virtual(t, "one was never sent", func(t *testing.T) {
		locked := errors.New("the vault is locked")
		l := atBank(t, onceward.Config{Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", tellerToken)
			return locked
		}}, tellsOfTransfers)
		require.ErrorIs(t, l.Asks("a", "/transfers", text).Err, locked)
		locked = nil
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("b", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_1"))
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCancelled, l.Stands("a").State)
		assert.Equal(t, onceward.StateUnknown, l.Stands("b").State, "its reference is another's too")
		l.Truly()
	})
	for _, row := range []struct {
		name  string
		first *http.Response // to a
		fault providertest.Fault
	}{
		{"one was answered without its object", nil, providertest.CutAt(5)},
		{"one was refused", answers(http.StatusPaymentRequired, `{"error":"declined"}`), providertest.None()},
		{"one is under way", nil, providertest.DelayAfter(20 * time.Second)},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, tellsOfTransfers, func(p *providers.Provider) {
				p.Endpoints[1].Lookups = nil
				p.Endpoints[1].Rules = []providers.Rule{{Status: http.StatusPaymentRequired, Verdict: providers.Final, Source: "made up"}}
			})
			if row.first == nil {
				l.Box.Script(row.fault)
			}
			l.Box.Script(providertest.DropAfter())
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodPost {
					return row.first
				}
				return nil
			})
			a := make(chan outcome, 1)
			go func() { a <- l.Asks("a", "/transfers", text) }()
			synctest.Wait()
			l.Fakes(func(*http.Request) *http.Response { return nil })
			require.ErrorIs(t, l.Asks("b", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			_, err := l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_9"))
			require.NoError(t, err)
			assert.Equal(t, onceward.StateUnknown, l.Stands("b").State)
			<-a
		})
	}
	virtual(t, "one is to be sent again", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, tellsOfTransfers, func(p *providers.Provider) { p.Endpoints[1].Lookups = nil })
		l.Box.Script(providertest.DropAfter(), providertest.DropBefore())
		require.ErrorIs(t, l.Asks("a", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.Asks("b", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
		_, err := l.Resolve(t.Context(), l.Stands("a").Seen, onceward.SendAgain, onceward.ResolveOptions{})
		require.NoError(t, err)
		_, err = l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_1"))
		require.NoError(t, err)
		assert.Equal(t, onceward.StatePending, l.Stands("a").State)
		assert.Equal(t, onceward.StateUnknown, l.Stands("b").State, "it may be what the other made at first")
	})
}

// An event with an unknown key is about the operation that has its reference.
func TestHearOfAReferenceBesideAKey(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, tellsOfTransfers, func(p *providers.Provider) {
			e := &p.Events[len(p.Events)-1]
			p.Endpoints[1].Lookups, e.Endpoint, e.Key = nil, "", "request.key"
		})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("a", "/transfers", `{"amount":10,"external_id":"order-1"}`).Err, onceward.ErrOutcomeUnknown)
		told := l.Transferred("evt_1", "order-1", "obj_1")
		told.Body = append([]byte(`{"request":{"key":"theirs"},`), told.Body[1:]...)
		ops, err := l.RecordEvent(t.Context(), "bank", told)
		require.NoError(t, err)
		require.Len(t, ops, 1)
		assert.Equal(t, onceward.StateCompleted, l.Stands("a").State)
		l.Truly()
	})
}

// Two tenants' accounts have the same key, and the provider does not say which account the event is from. The event
// settles neither, and shows neither. Both are looked up.
func TestHearOfOneKeyInTwoAccounts(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) { p.KeysPerScope = true })
		l.Box.Script(providertest.DropBefore(), providertest.DropAfter())
		for _, tenant := range []string{"a", "b"} {
			out := l.Ask(onceward.WithScope(t.Context(), tenant), to(http.MethodPost, l.Box.URL+"/payments"), body(`{"amount":10}`),
				with("Content-Type", "application/json"), with("Idempotency-Key", "order-1001"), with("Authorization", "Bearer "+tenant))
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		}
		ops, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", "order-1001", "obj_1", time.Now()))
		require.NoError(t, err)
		require.Empty(t, ops)
		for op, err := range l.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, onceward.StateUnknown, op.State, op.Scope)
		}
		l.Truly()
	})
}

// bursts is a journal that panics.
type bursts struct{ *memory.Journal }

func (bursts) FindBy(context.Context, string, machine.By, string) ([]machine.Match, error) {
	panic("a bug")
}

// If recording the evidence panics, the provider is asked to deliver the webhook again, as after an error.
func TestHearThatPanics(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Journal: bursts{memory.New()}})
		came := l.Hears(200)
		require.NoError(t, l.Pays("invoice-1").Err)
		l.Box.Advance(time.Second)
		require.NotEmpty(t, l.Box.Deliveries())
		assert.Zero(t, came.Load())
		assert.Equal(t, 503, l.Box.Deliveries()[0].Status)
	})
}

// RecordEvent fails on a restored journal that is not adopted. The journal may lack the operation, so "no match" would
// be wrong.
func TestHearInRestoredJournal(t *testing.T) {
	dir := t.TempDir()
	j, err := sqlite.Open(dir+"/a.db", sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer j.Close()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Backup(t.Context(), dir+"/b.db"))
	old, err := sqlite.Open(dir+"/b.db", sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer old.Close()
	c, err := onceward.New(onceward.Config{Journal: old, Providers: []providers.Provider{bank()}, Reconcile: plain()})
	require.NoError(t, err)
	var l teller
	_, err = c.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", "somebody's", "obj_1", time.Now()))
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, old.Adopt(t.Context()))
	_, err = c.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", "somebody's", "obj_1", time.Now()))
	require.NoError(t, err)
}

// An operation is enqueued in a backup, and was sent since. The backup has no claim of it, but the operation is looked
// up once the backup is adopted.
func TestLookupOfEnqueuedOperationsInABackup(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		dir := t.TempDir()
		j := openSQLite(t, filepath.Join(dir, "a.db"))
		was := atBank(t, onceward.Config{Journal: j})
		app, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{was.Box.Provider()}, Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", tellerToken)
			return nil
		}})
		require.NoError(t, err)
		tx, err := j.BeginTx(t.Context())
		require.NoError(t, err)
		_, err = app.Enqueue(named(t, "invoice-1"), tx, chargeRequest(t, to(http.MethodPost, was.Box.URL+"/payments"), body(`{"amount":10}`), with("Content-Type", "application/json")))
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, j.Backup(t.Context(), filepath.Join(dir, "b.db")))
		was.Runs(time.Minute)
		require.Equal(t, onceward.StateCompleted, was.Stands("invoice-1").State)

		restored := openSQLite(t, filepath.Join(dir, "b.db"))
		require.NoError(t, restored.Adopt(t.Context()))
		is := another(t, was.Box, onceward.Config{Journal: restored})
		require.Equal(t, onceward.StateUnknown, is.Stands("invoice-1").State)
		is.Runs(time.Hour)
		op := is.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State, op.Cause)
		assert.Zero(t, op.Claim)
		assert.Equal(t, 1, is.Effects())
		is.Truly()
	})
}

// No part of an event that could be large or secret is recorded as it came.
func TestHearOfAGiantObject(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened(strings.Repeat("e", 1<<19), "payment.succeeded", out.Op.Key, strings.Repeat("x", 1<<19), time.Now()))
		require.NoError(t, err)
		assert.Less(t, len(l.Stands("invoice-1").Object), 2000)
		assert.Less(t, l.Log.Len(), 10_000)
	})
}

// An event's unreadable time excludes nothing. A caller's key, which may have been used before, is not enough
// then.
func TestHearWithoutReadableTimes(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		lost    providertest.Fault
		state   onceward.State
	}{
		"a caller's key": {[]option{with("Idempotency-Key", "order-1")}, providertest.DropBefore(), onceward.StateUnknown},
		"a key of ours":  {nil, providertest.DropAfter(), onceward.StateCompleted},
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked)
			l.Box.Script(row.lost)
			out := l.Pays("invoice-1", row.options...)
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			ops, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Evidence: true, Body: fmt.Appendf(nil,
				`{"id":"evt_1","type":"payment.succeeded","created":"yesterday","request":{"key":%q},"data":{"id":"obj_1","created":"yesterday"}}`, out.Op.Key)})
			require.NoError(t, err)
			require.Len(t, ops, 1)
			assert.Equal(t, row.state, l.Stands("invoice-1").State)
			l.Truly()
		})
	}
}

// One event about two operations settles both. Its id is remembered for both at once.
func TestWebhookOfTwoOperations(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
			p.Endpoints[1].Lookups = nil
			p.Events = append(p.Events, providers.EventRule{
				Field: "type", Equals: "payment.succeeded", Endpoint: "POST /transfers", Reference: "data.external_id", ID: "id", Object: "data.transfer", Created: "data.created",
				At: "created", Is: providers.TookEffect, Source: "made up", Also: []providers.Same{{Field: "data.amount", Is: "{request.amount}", As: providers.AsDecimal}},
			})
		})
		l.Box.Script(providertest.DropAfter(), providertest.DropAfter())
		out := l.Pays("payment")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		require.ErrorIs(t, l.Asks("transfer", "/transfers", `{"amount":10,"external_id":"order-1"}`).Err, onceward.ErrOutcomeUnknown)
		now := time.Now().Unix()
		ops, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Evidence: true, Body: fmt.Appendf(nil,
			`{"id":"evt_1","type":"payment.succeeded","created":%d,"request":{"key":%q},"data":{"id":"obj_1","transfer":"obj_2","external_id":"order-1","amount":10,"created":%d}}`,
			now, out.Op.Key, now)})
		require.NoError(t, err)
		assert.Len(t, ops, 2)
		assert.Equal(t, onceward.StateCompleted, l.Stands("payment").State)
		assert.Equal(t, onceward.StateCompleted, l.Stands("transfer").State)
		l.Truly()
	})
}

// RecordEvent returns each operation's method and URL.
func TestHearReturnsTheRequestsTargets(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := atBank(t, onceward.Config{Journal: j}, unlooked)
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		ops, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
		require.NoError(t, err)
		require.Len(t, ops, 1)
		assert.Equal(t, "POST "+l.Box.URL+"/payments", ops[0].Method+" "+ops[0].URL)
	})
}

// If keys are per scope, each scope is an account, and an event may be about an operation in another process's journal.
func TestHearOfAnotherScope(t *testing.T) {
	for _, perScope := range []bool{true, false} {
		virtual(t, fmt.Sprintf("keys per scope: %v", perScope), func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) { p.KeysPerScope = perScope })
			l.Box.Script(providertest.DropBefore())
			require.ErrorIs(t, l.Pays("invoice-1", with("Idempotency-Key", "order-1")).Err, onceward.ErrOutcomeUnknown)
			_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", "order-1", "obj_1", time.Now()))
			require.NoError(t, err)
			assert.Equal(t, perScope, l.Stands("invoice-1").State == onceward.StateUnknown)
		})
	}
	virtual(t, "a key that is made is in no other account", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) { p.KeysPerScope = true })
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
}

// If the provider's events show their mode, an event with an unreadable mode settles nothing.
func TestHearOfNoReadableMode(t *testing.T) {
	for _, live := range []string{`"livemode":false,`, ``, `"livemode":0,`, `"livemode":true,"livemode":false,`, `"LiveMode":true,`} {
		virtual(t, live, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
				p.CredentialModes = []providers.CredentialMode{{Prefix: "t0", Mode: "live"}}
				for i := range p.Events {
					p.Events[i].Live = "livemode"
				}
			})
			l.Box.Script(providertest.DropBefore())
			out := l.Pays("invoice-1")
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now())
			e.Body = []byte("{" + live + string(e.Body[1:]))
			about, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			assert.Equal(t, live == `"livemode":false,`, len(about) == 0, "what says that it is another's is not about it")
			assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		})
	}
}

// Events without an operation leave nothing behind, however many come.
func TestWebhookOfNoOperation(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/journal.db"
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer j.Close()
	p := bank()
	c, err := onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{p}, Reconcile: plain()})
	require.NoError(t, err)
	var l teller
	size := func() (all int64) {
		for _, name := range []string{path, path + "-wal"} {
			if info, err := os.Stat(name); err == nil {
				all += info.Size()
			}
		}
		return all
	}
	before := size()
	for i := range 1000 {
		ops, err := c.RecordEvent(t.Context(), "bank", l.Happened(fmt.Sprint("evt_", i), "payment.succeeded", onceward.Key(fmt.Sprint("key-", i)), "obj_1", time.Now()))
		require.NoError(t, err)
		require.Empty(t, ops)
	}
	assert.Equal(t, before, size())
}

// Two processes receive the same event at once. It is recorded once.
func TestHearInTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j}, unlooked)
		second := another(t, l.Box, onceward.Config{Journal: j})
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		var wait sync.WaitGroup
		for _, at := range []*teller{l, second, l, second, second} {
			wait.Go(func() {
				_, err := at.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
				assert.NoError(t, err)
			})
		}
		wait.Wait()
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		require.Len(t, l.Stands("invoice-1").Evidence, 1)
		assert.Equal(t, journal.BasisKey, l.Stands("invoice-1").Evidence[0].Basis)
		assert.Equal(t, 1, len(l.Seen)+len(second.Seen))
		l.Truly()
	})
}

// The same event changes nothing after its id was forgotten, either.
func TestHearAgainLater(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		took := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now())
		failed := l.Happened("evt_0", "payment.failed", out.Op.Key, "obj_1", time.Now())
		for range 3 {
			_, err := l.RecordEvent(t.Context(), "bank", took)
			require.NoError(t, err)
			_, err = l.RecordEvent(t.Context(), "bank", failed)
			require.NoError(t, err)
			time.Sleep(36 * 24 * time.Hour)
			oncetest.SeesTheClock(t, l.Journal.Store, time.Now())
			time.Sleep(time.Hour)
			oncetest.SeesTheClock(t, l.Journal.Store, time.Now())
			_, err = l.Journal.Store.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: time.Hour}, 100)
			require.NoError(t, err)
			op := l.Stands("invoice-1")
			assert.Equal(t, onceward.StateCompleted, op.State)
			assert.Len(t, op.Evidence, 1)
			assert.Empty(t, op.Attention)
		}
		assert.NotContains(t, l.Log.String(), "twice")
	})
}

// A second effect, in an account that a header named, is reported even after the answer was reaped.
func TestHearOfAReapedAnswer(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) {
			p.AccountHeaders = []string{"Bank-Account"}
			for i := range p.Events {
				p.Events[i].Account = "account"
			}
		})
		out := l.Pays("invoice-1", with("Bank-Account", "acct_1"))
		require.NoError(t, out.Err)
		time.Sleep(100 * 24 * time.Hour)
		oncetest.SeesTheClock(t, l.Journal.Store, time.Now())
		time.Sleep(time.Hour)
		oncetest.SeesTheClock(t, l.Journal.Store, time.Now())
		_, err := l.Journal.Store.Apply(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: out.Op.Ref, At: time.Now(), Generation: out.Op.Generation})
		require.NoError(t, err)
		_, err = l.Journal.Store.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: time.Hour}, 100)
		require.NoError(t, err)
		require.Nil(t, l.Stands("invoice-1").Answer)
		e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_9", time.Now())
		e.Body = []byte(`{"account":"acct_1",` + string(e.Body[1:]))
		_, err = l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		assert.Contains(t, l.Log.String(), "it took effect twice")
	})
}

// An event about another request or account settles nothing.
func TestWebhookOfAnotherRequest(t *testing.T) {
	const text = `{"amount":10,"external_id":"order-1"}`
	virtual(t, "another amount", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, tellsOfTransfers, func(p *providers.Provider) { p.Endpoints[1].Lookups = nil })
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Asks("a", "/transfers", `{"amount":11,"external_id":"order-1"}`).Err, onceward.ErrOutcomeUnknown)
		ops, err := l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_9"))
		require.NoError(t, err)
		assert.Empty(t, ops)
		assert.Equal(t, onceward.StateUnknown, l.Stands("a").State)
	})
	virtual(t, "of an operation that was never sent", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, tellsOfTransfers)
		l.Box.Close()
		require.ErrorIs(t, l.Asks("a", "/transfers", text).Err, onceward.ErrPending)
		ops, err := l.RecordEvent(t.Context(), "bank", l.Transferred("evt_1", "order-1", "obj_9"))
		require.NoError(t, err)
		assert.Empty(t, ops)
		assert.Equal(t, onceward.StatePending, l.Stands("a").State)
	})
	for _, told := range []bool{true, false} {
		virtual(t, fmt.Sprintf("another account, and the provider tells whose a credential is: %t", told), func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
				if p.AccountHeaders = []string{"Bank-Account"}; !told {
					p.Identity = providers.Identity{}
				}
				for i := range p.Events {
					p.Events[i].Account = "account"
				}
			})
			l.Box.Script(providertest.DropAfter())
			out := l.Pays("invoice-1", with("Bank-Account", "acct_1"))
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			for _, row := range []struct {
				account string
				state   onceward.State
			}{{"acct_2", onceward.StateUnknown}, {"acct_1", onceward.StateCompleted}} {
				e := l.Happened("evt_"+row.account, "payment.succeeded", out.Op.Key, "obj_1", time.Now())
				e.Body = []byte(`{"account":"` + row.account + `",` + string(e.Body[1:]))
				_, err := l.RecordEvent(t.Context(), "bank", e)
				require.NoError(t, err)
				assert.Equal(t, row.state, l.Stands("invoice-1").State, row.account)
			}
		})
	}
}

// Hints about operations that need attention cause look-ups, once a minute at most. OnUnknown does not get them again.
func TestHintsOfOperationsThatNeedAttention(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Box.Script(providertest.DropBefore())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		l.Runs(time.Hour)
		require.Len(t, l.Told(), 1)
		before := l.Stands("invoice-1").Looks
		for range 60 {
			e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_7", time.Now())
			e.Evidence = false
			_, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			l.Runs(10 * time.Second)
		}
		assert.LessOrEqual(t, l.Stands("invoice-1").Looks-before, 11, "once a minute")
		assert.Len(t, l.Told(), 1)
	})
}

// countsFlows is a journal that counts how often all flows were read.
type countsFlows struct {
	*memory.Journal
	lists *atomic.Int64
}

func (j countsFlows) ListFlows(ctx context.Context, f journal.FlowFilter) iter.Seq2[journal.Flow, error] {
	j.lists.Add(1)
	return j.Journal.ListFlows(ctx, f)
}

// An event without news about a flow's operation reads no flows.
func TestHearReadsNoFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := countsFlows{memory.New(), new(atomic.Int64)}
		l := atBank(t, onceward.Config{Journal: j})
		l.Process = oncetest.StartFlows(t, l.Box.Client().Transport, onceward.Config{
			Journal: j, Providers: []providers.Provider{l.Box.Provider()}, Reconcile: plain(), Backoff: once,
		})
		var out outcome
		require.NoError(t, l.Flow(t.Context(), "order-1", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "pay", func(ctx context.Context) (string, error) {
				out = l.Ask(ctx, to(http.MethodPost, l.Box.URL+"/payments"), body(`{"amount":10}`), with("Content-Type", "application/json"))
				return "", out.Err
			})
			return err
		}))
		before := j.lists.Load()
		ops, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
		require.NoError(t, err)
		require.Len(t, ops, 1)
		assert.Equal(t, before, j.lists.Load())
	})
}

// An event names an account, and the operation's account is known only by its credential. The event counts if it shows
// a mark that only this operation can have.
func TestHearOfAnAccountThatIsNotKnown(t *testing.T) {
	names := func(p *providers.Provider) {
		p.Identity = providers.Identity{}
		p.Endpoints[0].Lookups = nil
		for i := range p.Events {
			p.Events[i].Account = "account"
		}
	}
	for name, tc := range map[string]struct {
		options []option
		state   onceward.State
	}{
		"a key of ours":    {nil, onceward.StateCompleted},
		"the caller's own": {[]option{with("Idempotency-Key", "order-1")}, onceward.StateUnknown},
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, names)
			l.Box.Script(providertest.DropAfter())
			out := l.Pays("invoice-1", tc.options...)
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now())
			e.Body = []byte(`{"account":"acct_1",` + string(e.Body[1:]))
			_, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			assert.Equal(t, tc.state, l.Stands("invoice-1").State)
			assert.Equal(t, tc.state == onceward.StateUnknown, strings.Contains(l.Log.String(), "webhook.hint"), "what it lacks is said: %s", l.Log)
		})
	}
}

// An event between two attempts of one call says that it took effect. The next attempt brings its answer.
func TestHeardBetweenTwoAttempts(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Backoff: backoff.Policy{Initial: time.Minute, Max: time.Minute}}, func(p *providers.Provider) {
			e := &p.Endpoints[0]
			e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.Everything, true
		})
		l.Box.Script(providertest.DropAfter())
		done, began := make(chan outcome, 1), time.Now()
		go func() { done <- l.Pays("invoice-1") }()
		synctest.Wait() // in the pause before the second attempt
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now()))
		require.NoError(t, err)
		out := <-done
		assert.Less(t, time.Since(began), 2*time.Minute, "after that pause")
		require.NoError(t, out.Err)
		assert.Contains(t, out.Body, "obj_1")
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.False(t, op.Answer.Found, "it is the provider's own")
		assert.Equal(t, "payment obj_1", op.Object)
		assert.Equal(t, 2, strings.Count(l.Box.Ledger(), "POST /payments"))
		l.Truly()
	})
}

// An event that could not be recorded has to be delivered again.
func TestWebhookThatCannotBeRecorded(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &blinded{Journal: memory.New(), Hints: 1}
		l := atBank(t, onceward.Config{Journal: j}, unlooked)
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		pass(time.Hour)
		e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now())
		e.Evidence = false
		_, err := l.RecordEvent(t.Context(), "bank", e)
		require.ErrorIs(t, err, errBlinded)
		about, err := l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		assert.Len(t, about, 1)
	})
}

// A client that was shut down refuses events.
func TestHearAfterShutdown(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		require.NoError(t, l.Shutdown(t.Context()))
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", "key-1", "obj_1", time.Now()))
		require.ErrorIs(t, err, onceward.ErrShutdown)
	})
}

// A body is read by its delivery's media type, and as JSON without one.
func TestHearOfAMediaType(t *testing.T) {
	for name, row := range map[string]struct {
		header http.Header
		read   bool
	}{
		"JSON":                    {http.Header{"Content-Type": {"application/json"}}, true},
		"none":                    {http.Header{"Date": {"now"}}, true},
		"another, which it isn't": {http.Header{"Content-Type": {"application/xml"}}, false},
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked)
			l.Loses("invoice-1", providertest.DropAfter())
			e := l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
			e.Header = row.header
			_, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			assert.Equal(t, row.read, l.Stands("invoice-1").State == onceward.StateCompleted)
		})
	}
}

// One delivery has several events, each of which is remembered by itself. A known event excludes no other.
func TestHearOfManyEvents(t *testing.T) {
	type event struct{ id, account string }
	for name, events := range map[string][2]event{
		"of one account":                  {{"evt_1", "acct_1"}, {"evt_2", "acct_1"}},
		"of two accounts, with one's ids": {{"evt_1", "acct_1"}, {"evt_1", "acct_2"}},
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
				p.AccountHeaders = []string{"Bank-Account"}
				for i := range p.Events {
					p.Events[i].Account, p.Events[i].Items = "account", "events[]"
				}
			})
			var bodies []string
			for i, name := range []string{"a", "b"} {
				l.Box.Script(providertest.DropAfter())
				out := l.Pays(name, with("Bank-Account", events[i].account))
				require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
				told := l.Happened(events[i].id, "payment.succeeded", out.Op.Key, fmt.Sprint("obj_", i+1), time.Now())
				bodies = append(bodies, fmt.Sprintf(`{"account":%q,`, events[i].account)+string(told.Body[1:]))
			}
			for n, settled := range []string{"a", "b"} {
				_, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Evidence: true, Body: []byte(`{"events":[` + strings.Join(bodies[:n+1], ",") + `]}`)})
				require.NoError(t, err)
				assert.Equal(t, onceward.StateCompleted, l.Stands(settled).State)
			}
			l.Truly()
		})
	}
}

// hearsOdd is a journal that can't find operations, or rejects their events as impossible.
type hearsOdd struct {
	*memory.Journal
	unfound, odd bool
}

func (j hearsOdd) FindBy(ctx context.Context, provider string, by machine.By, value string) ([]machine.Match, error) {
	if j.unfound {
		return nil, errBlinded
	}
	return j.Journal.FindBy(ctx, provider, by, value)
}

func (j hearsOdd) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	if j.odd {
		return nil, false, journal.ErrInvalidEvent
	}
	return j.Journal.RecordEvent(ctx, heard, evs)
}

// An event has to be delivered again if the journal fails. An event that contradicts its operation's record does not.
func TestHearThatTheJournalRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		unfound, odd, ours bool
		is                 error
	}{
		"it can't be read":                           {unfound: true, ours: true, is: errBlinded},
		"it can't have happened":                     {odd: true, ours: true},
		"nothing can, and it is about no operations": {odd: true, is: journal.ErrInvalidEvent},
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Journal: hearsOdd{memory.New(), row.unfound, row.odd}}, unlooked)
			l.Loses("invoice-1", providertest.DropAfter())
			key := onceward.Key("another's")
			if row.ours {
				key = l.Stands("invoice-1").Key
			}
			ops, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", key, "obj_1", time.Now()))
			require.ErrorIs(t, err, row.is)
			assert.Empty(t, ops)
			assert.Equal(t, row.odd && row.ours, strings.Contains(l.Log.String(), "a webhook contradicts the operation's record"))
		})
	}
}

// Two tenants' operations have the same key, and an event names the account. It settles the operation of that account,
// and shows no other.
func TestHearOfOneKeyInItsAccount(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
			p.KeysPerScope, p.AccountHeaders = true, []string{"Bank-Account"}
			for i := range p.Events {
				p.Events[i].Account = "account"
			}
		})
		for tenant, lost := range map[string]providertest.Fault{"a": providertest.DropAfter(), "b": providertest.DropBefore()} {
			l.Box.Script(lost)
			out := l.Ask(onceward.WithScope(t.Context(), tenant), to(http.MethodPost, l.Box.URL+"/payments"), body(`{"amount":10}`),
				with("Content-Type", "application/json"), with("Idempotency-Key", "order-1001"), with("Bank-Account", tenant))
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		}
		e := l.Happened("evt_1", "payment.succeeded", "order-1001", "obj_1", time.Now())
		e.Body = []byte(`{"account":"a",` + string(e.Body[1:]))
		ops, err := l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		require.Len(t, ops, 1)
		assert.Equal(t, "a", ops[0].Scope)
		for op, err := range l.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, op.Scope == "a", op.State == onceward.StateCompleted, op.Scope)
		}
		l.Truly()
	})
}

// An event that shows only an object is about the operation that made it, if the kind is the one that the event's
// endpoint makes.
func TestHearOfAnObjectAlone(t *testing.T) {
	for name, row := range map[string]struct{ endpoint, about string }{
		"of an endpoint":     {"POST /transfers", "transfer"},
		"of any, the first":  {"", "payment"},
		"of the other's one": {"POST /payments", "payment"},
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked, tellsOfTransfers, func(p *providers.Provider) {
				p.KeysPerScope, p.Endpoints[1].Lookups = true, nil
				p.Events = append(p.Events, providers.EventRule{
					Field: "type", Equals: "refunded", Endpoint: row.endpoint, ID: "id", Object: "data.id", At: "created", Is: providers.Reversed, Source: "made up",
				})
			})
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodPost {
					return answers(http.StatusOK, `{"id":"obj_7"}`)
				}
				return nil
			})
			require.NoError(t, l.Pays("payment", with("Idempotency-Key", "order-1")).Err)
			require.NoError(t, l.Asks("transfer", "/transfers", `{"amount":10,"external_id":"order-1"}`).Err)
			ops, err := l.RecordEvent(t.Context(), "bank", onceward.Event{Evidence: true, Body: fmt.Appendf(nil, `{"id":"evt_1","type":"refunded","created":%d,"data":{"id":"obj_7"}}`, time.Now().Unix())})
			require.NoError(t, err)
			require.Len(t, ops, 1)
			assert.Equal(t, row.about, ops[0].ID)
			require.Len(t, ops[0].Evidence, 1)
			assert.Equal(t, journal.FindingReversed, ops[0].Evidence[0].Finding)
			assert.Equal(t, journal.BasisReference, ops[0].Evidence[0].Basis)
		})
	}
}

// A hint comes while OnUnknown fails for an operation that needs attention. OnUnknown gets the operation when it needs
// attention again.
func TestHintBeforeTheAttentionNotice(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		fails, told := errors.New("the pager is down"), 0
		l := atBank(t, onceward.Config{Reconcile: &onceward.Reconcile{OnUnknown: func(context.Context, onceward.Operation, onceward.Looked) error {
			if fails == nil {
				told++
			}
			return fails
		}}}, unlooked)
		l.Loses("invoice-1", providertest.DropBefore())
		l.Runs(time.Hour)
		require.NotEmpty(t, l.Stands("invoice-1").Attention)
		e := l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_7", time.Now())
		e.Evidence = false
		_, err := l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		require.Empty(t, l.Stands("invoice-1").Attention)
		fails = nil
		l.Runs(time.Hour)
		assert.Equal(t, 1, told)
	})
}

// A second effect is reported even if only the operation's key is left, without its account.
func TestHearOfATombstone(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Keep: time.Hour}, func(p *providers.Provider) {
			p.AccountHeaders = []string{"Bank-Account"}
			for i := range p.Events {
				p.Events[i].Account = "account"
			}
		})
		out := l.Pays("invoice-1", with("Bank-Account", "acct_1"))
		require.NoError(t, out.Err)
		l.Runs(48 * time.Hour)
		require.True(t, l.Recorded(onceward.Ref{ID: "invoice-1"}).Tombstone)
		e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_9", time.Now())
		e.Body = []byte(`{"account":"acct_1",` + string(e.Body[1:]))
		_, err := l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		assert.Contains(t, l.Log.String(), "it took effect twice")
	})
}

// An earlier generation's key also belongs to the operation, from the time when that generation began.
func TestHearOfAnEarlierKey(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1", with("Idempotency-Key", "order-1")).Err, onceward.ErrOutcomeUnknown)
		e := l.Happened("evt_1", "payment.succeeded", "order-1", "obj_1", time.Now())
		_, err := l.Resolve(t.Context(), l.Stands("invoice-1").Seen, onceward.NotExecuted, onceward.ResolveOptions{By: "ann", Why: "not seen"})
		require.NoError(t, err)
		l.PassInUse(72 * time.Hour)
		require.NoError(t, l.Pays("invoice-1", with("Idempotency-Key", "order-2")).Err)
		require.Equal(t, 1, l.Stands("invoice-1").Generation)
		_, err = l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		assert.Contains(t, l.Log.String(), "it took effect twice")
	})
}

// A process whose table lacks an operation's endpoint leaves its events to processes that know it.
func TestHearOfAnEndpointThatIsGone(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j}, unlooked)
		l.Loses("invoice-1", providertest.DropAfter())
		lacks := another(t, l.Box, onceward.Config{Journal: j}, func(p *providers.Provider) {
			p.Endpoints = p.Endpoints[1:]
			for i := range p.Events {
				p.Events[i].Endpoint = ""
			}
		})
		e := l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
		ops, err := lacks.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		assert.Empty(t, ops)
		_, err = l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
}

// An event is proof if its mode is the credential's, or if either of them shows no mode.
func TestHearOfTheSameMode(t *testing.T) {
	for name, row := range map[string]struct {
		modes []providers.CredentialMode
		place string
		says  string
	}{
		"both say so":                {[]providers.CredentialMode{{Prefix: "t0", Mode: "live"}}, "livemode", `"livemode":true,`},
		"events have no place of it": {[]providers.CredentialMode{{Prefix: "t0", Mode: "live"}}, "", ""},
		"credentials show none":      {nil, "livemode", ""},
	} {
		virtual(t, name, func(t *testing.T) {
			l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
				p.CredentialModes = row.modes
				for i := range p.Events {
					p.Events[i].Live = row.place
				}
			})
			l.Loses("invoice-1", providertest.DropAfter())
			e := l.Happened("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
			e.Body = []byte("{" + row.says + string(e.Body[1:]))
			_, err := l.RecordEvent(t.Context(), "bank", e)
			require.NoError(t, err)
			assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
			l.Truly()
		})
	}
}

// unreadable is a journal whose operations have URLs that can't be parsed.
type unreadable struct{ *memory.Journal }

func (j unreadable) FindBy(ctx context.Context, provider string, by machine.By, value string) ([]machine.Match, error) {
	matches, err := j.Journal.FindBy(ctx, provider, by, value)
	for i := range matches {
		matches[i].Operation.Request.URL = "%"
	}
	return matches, err
}

// An operation whose URL can't be parsed gets no evidence, and RecordEvent does not return it.
func TestHearOfAnUnreadableURL(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{Journal: unreadable{memory.New()}}, unlooked)
		l.Loses("invoice-1", providertest.DropAfter())
		before := l.Stands("invoice-1")
		ops, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", before.Key, "obj_1", time.Now()))
		require.NoError(t, err)
		assert.Empty(t, ops)
		assert.Equal(t, before, l.Stands("invoice-1"))
	})
}
