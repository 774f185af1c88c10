package request_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// A table's name, and the name that it keeps its keys under, may change while the journal has operations from before.

// renamed is the table own under another name, whose keys stay under the name keysUnder.
func renamed(keysUnder string) providers.Provider {
	p := own()
	p.Name, p.KeysUnder = "ledger", keysUnder
	return p
}

// A changed table gives no key to two names.
func TestKeysUnderKeyOfTwoNames(t *testing.T) {
	t.Parallel()
	perScope := own()
	perScope.KeysPerScope = true
	anywhere := own()
	anywhere.Hosts = nil
	for _, row := range []struct {
		name     string
		was, now providers.Provider
	}{
		{"renamed", own(), renamed("raw")},
		{"renamed, and keys are looked up per scope by now", perScope, renamed("raw")},
		{"keys are looked up per scope by now", own(), perScope},
		{"keys are one over all scopes by now", perScope, own()},
		{"its hosts are named by now", anywhere, own()},
		{"its hosts are not named any more", own(), anywhere},
		{"renamed, and its hosts are named by now", anywhere, renamed("raw")},
		{"its host was not listed", providers.Stripe(), own()},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(loses())
			was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{row.was}})
			first := was.Ask(named(t, "invoice-1"), toOwn, carrying("key-1"))
			require.Error(t, first.Err)
			was.Crash()

			now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{row.now}})
			require.ErrorIs(t, now.Ask(named(t, "invoice-2"), toOwn, carrying("key-1")).Err, onceward.ErrKeyReused)
			assert.Len(t, l.Sent(), 1)
			found, err := now.OperationByKey(keyed(t.Context(), toOwn), "key-1")
			require.NoError(t, err)
			assert.Equal(t, first.Op.Ref, found.Ref)
			unnamed := now.Ask(t.Context(), toOwn, carrying("key-1"))
			assert.Equal(t, first.Op.Ref, unnamed.Op.Ref, "the same request by the key is that operation")
			assert.Len(t, distinct(l.Keys()), 1)
		})
	}
}

// An answered operation keeps its key after its table is renamed.
func TestKeysUnderAnsweredKeepsItsKey(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := &line{}
		was := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
		require.NoError(t, was.Ask(named(t, "invoice-1"), toOwn, carrying("key-1")).Err)
		now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{renamed("raw")}})
		require.ErrorIs(t, now.Ask(named(t, "invoice-2"), toOwn, carrying("key-1")).Err, onceward.ErrKeyReused)
		again := now.Ask(t.Context(), toOwn, carrying("key-1"))
		require.NoError(t, again.Err)
		assert.True(t, again.Op.Replayed)
		assert.Equal(t, "invoice-1", again.Op.ID)
		assert.Len(t, l.Sent(), 1)
	})
}

// Resume sends an operation that was pending when its table was renamed.
func TestKeysUnderPendingIsSent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		keysUnder string
		sent      int
	}{
		{"KeysUnder is the old name", "raw", 2},
		{"KeysUnder is not set", "", 1},
	} {
		for _, found := range []string{"parked", "left by a dead process"} {
			each(t, row.name+", "+found, func(t *testing.T, j machine.Store) {
				l := &line{}
				was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
				ask := func() { was.Ask(named(t, "invoice-1"), toOwn) }
				if found == "parked" {
					l.Then(loses())
					ask()
				} else {
					leavesInFlight(t, was, l, ask)
				}
				pass(time.Hour)
				var logged bytes.Buffer
				now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{renamed(row.keysUnder)}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
				report, err := now.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, row.sent-1, report.Completed)
				assert.Len(t, l.Sent(), row.sent)
				if row.keysUnder == "" {
					require.Len(t, report.Problems, 1)
					assert.ErrorContains(t, report.Problems[0], "KeysUnder")
					assert.False(t, report.Problems[0].InBackground)
				}
				require.NoError(t, now.Ask(named(t, "invoice-1"), toOwn).Err, "it is asked for by its name")
				assert.Len(t, distinct(l.Keys()), 1)
			})
		}
	}
}

// An operation whose request can't carry its key where today's table puts it is not sent without the key.
func TestKeyThatTodaysTablePutsElsewhere(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(refuses())
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		require.ErrorIs(t, was.Ask(named(t, "invoice-1"), toOwn, body("amount=1")).Err, onceward.ErrPending)
		before := len(l.Sent())
		was.Crash()
		pass(time.Hour)
		now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own(func(e *providers.Endpoint) {
			e.Key = providers.Key{Place: providers.KeyJSONField, Name: "key"}
		})}})
		report, err := now.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		assert.ErrorContains(t, report.Problems[0], "invalid key for key")
		assert.Len(t, l.Sent(), before)
		assert.Equal(t, onceward.StatePending, now.Recorded(onceward.Ref{ID: "invoice-1"}).State)
	})
}

// An operation that was pending when its table was renamed is bound by today's table.
func TestKeysUnderPendingIsBoundByTheTable(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{own()}})
		was.Ask(named(t, "invoice-1"), toOwn)
		pass(2 * time.Hour)
		corrected := renamed("raw")
		corrected.Endpoints[0].Retention = time.Hour
		now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{corrected}})
		report, err := now.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Unknown)
		assert.Len(t, l.Sent(), 1)
	})
}

// A release with the old name runs beside one with the new name. No key is given to two names.
func TestKeysUnderTwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	tables := [2]providers.Provider{own(), renamed("raw")}
	for _, answer := range []reply{loses(), says(200, paid)} {
		for first := range 2 {
			each(t, tables[first].Name+" is first", func(t *testing.T, j machine.Store) {
				l := (&line{}).Always(answer)
				var versions [2]*process
				for i := range versions {
					versions[i] = start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{tables[i]}})
				}
				_ = versions[first].Ask(named(t, "invoice-1"), toOwn, carrying("key-1"))
				sent := len(l.Sent())
				other := versions[1-first]
				require.ErrorIs(t, other.Ask(named(t, "invoice-2"), toOwn, carrying("key-1")).Err, onceward.ErrKeyReused)
				by := other.Ask(t.Context(), toOwn, carrying("key-1"))
				assert.Equal(t, "invoice-1", by.Op.ID, "by its key")
				assert.Equal(t, "raw", by.Op.Provider)
				assert.Len(t, l.Sent(), sent)
			})
		}
	}
}

// An unknown operation is settled after its table is renamed, by a look-up and by an event under either name. No object
// is given to two operations.
func TestKeysUnderUnknownIsFoundOut(t *testing.T) {
	rename := func(p *providers.Provider) { p.Name, p.KeysUnder = "new bank", "bank" }
	for _, how := range []string{"by a look", "by an event to the new name", "by an event to the old name"} {
		virtual(t, how, func(t *testing.T) {
			srv, j := openBank(t, tellsOfTransfers), memory.New()
			was := another(t, srv, onceward.Config{Journal: j})
			srv.Script(providertest.DropAfter())
			const text = `{"amount":10,"external_id":"order-1"}`
			require.ErrorIs(t, was.Asks("a", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			now := another(t, srv, onceward.Config{Journal: j}, rename)
			switch how {
			case "by a look":
				_, err := now.Reconcile(t.Context(), onceward.Ref{ID: "a"})
				require.NoError(t, err)
			case "by an event to the new name":
				_, err := now.RecordEvent(t.Context(), "new bank", now.Transferred("evt_1", "order-1", "obj_1"))
				require.NoError(t, err)
			default:
				_, err := now.RecordEvent(t.Context(), "bank", now.Transferred("evt_1", "order-1", "obj_1"))
				require.NoError(t, err)
			}
			assert.Equal(t, onceward.StateCompleted, now.Stands("a").State)
			assert.Equal(t, "transfer obj_1", now.Stands("a").Object)
			srv.Script(providertest.DropBefore())
			require.ErrorIs(t, now.Asks("b", "/transfers", text).Err, onceward.ErrOutcomeUnknown)
			_, err := now.RecordEvent(t.Context(), "new bank", now.Transferred("evt_2", "order-1", "obj_1"))
			require.NoError(t, err)
			_, err = now.Reconcile(t.Context(), onceward.Ref{ID: "b"})
			require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
			assert.Equal(t, onceward.StateUnknown, now.Stands("b").State, "the object is the first one's")
			now.Truly()
		})
	}
}

// An unknown operation is given up if no table keeps keys under its name, because no process looks for it.
func TestKeysUnderUnknownOfAnotherNameIsGivenUp(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		srv, j := openBank(t), memory.New()
		was := another(t, srv, onceward.Config{Journal: j}, func(p *providers.Provider) { p.Name = "new bank" })
		srv.Script(providertest.DropAfter())
		require.ErrorIs(t, was.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		was.Crash()
		now := another(t, srv, onceward.Config{Journal: j, Reconcile: &onceward.Reconcile{GiveUpAfter: time.Hour}}, func(p *providers.Provider) {
			p.Name, p.KeysUnder = "new bank", "bank"
		})
		now.Runs(72 * time.Hour)
		require.NotEmpty(t, now.Stands("invoice-1").Attention)
		_, err := now.Wait(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
	})
}
