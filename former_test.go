package onceward_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// What a table is called, and which operations it says to share keys, may change while
// the journal has some that were begun before.

// renamed is own under another name.
func renamed(former ...string) providers.Provider {
	p := own()
	p.Name, p.FormerNames = "ledger", former
	return p
}

var toOwn = to(http.MethodPost, ownURL)

// A changed table gives no key to two names.
func TestFormerNameKeyOfTwoNames(t *testing.T) {
	t.Parallel()
	perScope := own()
	perScope.KeysPerScope = true
	anywhere := own()
	anywhere.Hosts = nil
	for _, row := range []struct {
		name     string
		was, now providers.Provider
	}{
		{"renamed, and it says so", own(), renamed("raw")},
		{"renamed, and it does not say so", own(), renamed()},
		{"renamed by a program that has seen a third name", own(), renamed("first", "raw")},
		{"renamed, and keys are looked up per scope by now", perScope, renamed("raw")},
		{"keys are looked up per scope by now", own(), perScope},
		{"keys are one over all scopes by now", perScope, own()},
		{"its hosts are named by now", anywhere, own()},
		{"its hosts are not named any more", own(), anywhere},
		{"renamed, and its hosts are named by now", anywhere, renamed("raw")},
		{"its host was not listed", providers.Stripe(), own()},
		{"its host is not listed any more", own(), providers.Stripe()},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := (&line{}).Then(loses())
			was := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{row.was}})
			first := was.Ask(named(t, "invoice-1"), toOwn, carrying("key-1"))
			require.Error(t, first.Err)
			was.Crash()

			now := start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{row.now}})
			require.ErrorIs(t, now.Ask(named(t, "invoice-2"), toOwn, carrying("key-1")).Err, onceward.ErrKeyReused)
			assert.Len(t, l.Sent(), 1)
			found, err := now.LookupKey(keyed(t.Context(), toOwn), "key-1")
			require.NoError(t, err)
			assert.Equal(t, first.Op.Ref, found.Ref)
			if row.now.Name == "stripe" {
				return // what is unnamed passes through
			}
			unnamed := now.Ask(t.Context(), toOwn, carrying("key-1"))
			assert.Equal(t, first.Op.Ref, unnamed.Op.Ref, "the same request by the key is that operation")
			assert.Len(t, distinct(l.Keys()), 1)
		})
	}
}

// An answered operation of a former name is taken by no other.
func TestFormerNameAnsweredIsTakenByNoOther(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
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

// What is pending under a former name is sent in the background.
func TestFormerNamePendingIsSent(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		former []string
		sent   int
	}{
		{"its name is stated", []string{"raw"}, 2},
		{"it is not", nil, 1},
	} {
		for _, found := range []string{"parked", "left by a dead process"} {
			each(t, row.name+", "+found, func(t *testing.T, j journal.Journal) {
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
				now := start(t, l, onceward.Config{Journal: j, Providers: []providers.Provider{renamed(row.former...)}, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
				report, err := now.Resume(t.Context())
				require.NoError(t, err)
				assert.Equal(t, row.sent-1, report.Completed)
				assert.Len(t, l.Sent(), row.sent)
				if row.former == nil {
					require.Len(t, report.Problems, 1)
					assert.ErrorContains(t, report.Problems[0], "FormerNames")
					assert.False(t, report.Problems[0].InBackground)
				}
				require.NoError(t, now.Ask(named(t, "invoice-1"), toOwn).Err, "it is asked for by its name")
				assert.Len(t, distinct(l.Keys()), 1)
			})
		}
	}
}

// What can't carry its key where today's table puts it is not sent without it.
func TestKeyThatTodaysTablePutsElsewhere(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
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

// What is pending under a former name is bound by today's table.
func TestFormerNamePendingIsBoundByTheTable(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
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

// Two versions side by side give no key to two names.
func TestFormerNameTwoVersionsSideBySide(t *testing.T) {
	t.Parallel()
	third := renamed("raw", "ledger")
	third.Name = "books"
	for _, row := range []struct {
		name  string
		table [2]providers.Provider
	}{
		{"renamed", [2]providers.Provider{own(), renamed("raw")}},
		{"renamed again", [2]providers.Provider{renamed("raw"), third}},
		{"renamed twice", [2]providers.Provider{own(), third}},
	} {
		for _, answer := range []reply{loses(), says(200, paid)} {
			for first := range 2 {
				each(t, row.name, func(t *testing.T, j journal.Journal) {
					l := (&line{}).Always(answer)
					var versions [2]*process
					for i := range versions {
						versions[i] = start(t, l, onceward.Config{Journal: j, Backoff: once, Providers: []providers.Provider{row.table[i]}})
						// It has looked through the journal by now.
						_ = versions[i].Ask(named(t, row.table[i].Name), toOwn, carrying(row.table[i].Name))
					}
					_ = versions[first].Ask(named(t, "invoice-1"), toOwn, carrying("key-1"))
					sent := len(l.Sent())
					other := versions[1-first]
					require.ErrorIs(t, other.Ask(named(t, "invoice-2"), toOwn, carrying("key-1")).Err, onceward.ErrKeyReused)
					assert.Equal(t, "invoice-1", other.Ask(t.Context(), toOwn, carrying("key-1")).Op.ID, "by its key")
					assert.Len(t, l.Sent(), sent)
				})
			}
		}
	}
}

// countsLists counts how often operations were listed.
type countsLists struct {
	*memory.Journal
	lists *int
}

func (j countsLists) List(ctx context.Context, f journal.Filter) iter.Seq2[journal.Operation, error] {
	*j.lists++
	return j.Journal.List(ctx, f)
}

// The journal is looked through for former names once in a client's life, not for each key that a request brings along.
func TestFormerNamesAreLookedForOnce(t *testing.T) {
	j := countsLists{memory.New(), new(int)}
	p := start(t, &line{}, onceward.Config{Journal: j, Providers: []providers.Provider{own()}})
	for _, key := range []string{"key-1", "key-2", "key-3"} {
		require.NoError(t, p.Ask(t.Context(), toOwn, carrying(key)).Err)
		assert.Equal(t, 1, *j.lists)
	}
}
