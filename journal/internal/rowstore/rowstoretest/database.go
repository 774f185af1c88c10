package rowstoretest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
)

// Database is an empty database, and what other programs may do to it.
type Database struct {
	// Open returns a store on the database, as in another process.
	Open func(t *testing.T) *rowstore.Store
	// Driver returns another process's driver.
	Driver func(t *testing.T) rowstore.Driver
	// Damage changes a bit in an operation's record.
	Damage func(t *testing.T, handle int64)
	// DamageReceipt changes a bit in a receipt.
	DamageReceipt func(t *testing.T, handle int64)
	// DamageBookmark changes a bit in a bookmark.
	DamageBookmark func(t *testing.T, name string)
	// Refuse makes the database refuse new rows for a provider, and changes to the row with the handle.
	Refuse func(t *testing.T, provider string, handle int64)
	// Hold has another transaction hold a row until release is called. Nil means that rows have no locks.
	Hold func(t *testing.T, handle int64) (release func())
	// HoldName has another transaction insert a name, which it rolls back once release is called. Nil as above.
	HoldName func(t *testing.T, name rowstore.Digest) (release func())
}

// Histories runs what a driver with real transactions must show: what concerns one row concerns its own requests alone,
// and several processes agree.
func Histories(t *testing.T, open func(t *testing.T) Database) {
	for name, test := range map[string]func(t *testing.T, db Database){
		"a reader sees an operation whole while it changes":          wholeRow,
		"a damaged row fails its own requests alone":                 damagedRow,
		"a refused row fails its own requests alone":                 refusedRow,
		"a held row delays no others":                                heldRow,
		"a name that another transaction inserts delays no others":   heldName,
		"a held flow delays no others":                               heldFlow,
		"a reset of the clock leaves out no held row":                heldSweep,
		"a process dies while it sweeps after a leap of the clock":   unfinishedSweep,
		"Close does not wait for callers of a held row":              heldAtClose,
		"a panic in a caller's function fails its own request":       panics,
		"several processes execute each name once":                   oneExecution,
		"a name and a second name at several processes are one":      oneSecondName,
		"an object proves one operation, whichever process sees it":  oneProof,
		"a session's end leaves its operations to other processes":   takeover,
		"an enqueue keeps the least margin of the clock":             enqueuedMargin,
		"a refused enqueue writes no part of its row":                refusedEnqueue,
		"a damaged row fails the enqueue of its name alone":          damagedEnqueue,
		"an enqueue that is not committed yet delays no others":      openEnqueue,
		"a flow that is enqueued and not committed delays no others": openFlow,
		"a damaged receipt fails its own requests alone":             damagedReceipt,
		"a damaged bookmark fails its own requests alone":            damagedBookmark,
		"a key that another transaction works on is not waited for":  heldReceipt,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// process is a store and a session.
type process struct {
	*rowstore.Store
	s machine.Session
}

func (db Database) join(t *testing.T) *process {
	t.Helper()
	j := db.Open(t)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	return &process{j, s}
}

func (p *process) begin(id string) machine.Event {
	return machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: p.s.ID(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id,
			Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

func (p *process) of(kind machine.EventKind, op journal.Operation) machine.Event {
	return machine.Event{Kind: kind, At: time.Now(), Session: p.s.ID(), Ref: op.Ref, Handle: op.Handle, Claim: op.Claim, Generation: op.Generation}
}

func (p *process) complete(op journal.Operation) machine.Event {
	ev := p.of(machine.EventComplete, op)
	ev.Answer, ev.Attempts = &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)}, 1
	return ev
}

func (p *process) do(t *testing.T, ev machine.Event) journal.Operation {
	t.Helper()
	result, err := p.Apply(t.Context(), ev)
	require.NoError(t, err)
	return result.Operation
}

// beside begins 64 operations in eight goroutines. After each it calls others.
func (p *process) beside(t *testing.T, others func()) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 8 {
				result, err := p.Apply(t.Context(), p.begin(fmt.Sprint("other-", g, "-", n)))
				assert.NoError(t, err)
				assert.Equal(t, machine.Execute, result.Decision)
				others()
			}
		})
	}
	wg.Wait()
}

func wholeRow(t *testing.T, db Database) {
	p := db.join(t)
	op := p.do(t, p.begin("a"))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 100 {
			cancel := p.of(machine.EventCancel, op)
			cancel.Unsent = true
			_, err := p.Apply(t.Context(), cancel)
			assert.NoError(t, err)
			result, err := p.Apply(t.Context(), p.begin("a")) // its request is written anew
			assert.NoError(t, err)
			op = result.Operation
		}
	}()
	for reading := true; reading; {
		select {
		case <-over:
			reading = false
		default:
		}
		got, err := p.Get(t.Context(), journal.Ref{ID: "a"})
		if !assert.NoError(t, err) {
			break
		}
		assert.Equal(t, []byte("a"), got.Request.Body)
	}
	<-over
}

func damagedRow(t *testing.T, db Database) {
	p := db.join(t)
	op := p.do(t, p.begin("damaged"))
	db.Damage(t, op.Handle)
	p.beside(t, func() {
		for _, ev := range []machine.Event{p.begin("damaged"), p.complete(op)} {
			_, err := p.Apply(t.Context(), ev)
			assert.ErrorIs(t, err, format.ErrDamaged)
		}
	})
	stats, err := p.ReadStats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(65), stats.InFlight, "it is counted, too")
	found, err := p.Verify(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []journal.Violation{{Handle: op.Handle, Invariant: "it can be read"}}, found)
}

func refusedRow(t *testing.T, db Database) {
	p := db.join(t)
	op := p.do(t, p.complete(p.do(t, p.begin("delivered"))))
	db.Refuse(t, "refused", op.Handle)
	p.do(t, p.of(machine.EventDeliver, op))
	p.beside(t, func() {
		ev := p.begin("refused")
		ev.Intent.Provider = "refused"
		_, err := p.Apply(t.Context(), ev)
		assert.ErrorIs(t, err, rowstore.ErrRefused)
	})
}

func heldRow(t *testing.T, db Database) {
	if db.Hold == nil {
		t.Skip("the database has one writer, and no locks of rows")
	}
	p := db.join(t)
	asked, delivered := p.do(t, p.begin("asked")), p.do(t, p.complete(p.do(t, p.begin("delivered"))))
	releases := []func(){db.Hold(t, asked.Handle), db.Hold(t, delivered.Handle)}
	p.do(t, p.of(machine.EventDeliver, delivered))
	waits := make(chan machine.Decision, 50)
	for range cap(waits) {
		go func() {
			result, err := p.Apply(t.Context(), p.begin("asked"))
			assert.NoError(t, err)
			waits <- result.Decision
		}()
	}
	p.beside(t, func() {})
	assert.Empty(t, waits, "none is decided while the row is held")
	for _, release := range releases {
		release()
	}
	for range cap(waits) {
		assert.Equal(t, machine.Wait, <-waits)
	}
	require.NoError(t, p.s.End(t.Context()))
	got, err := p.Get(t.Context(), delivered.Ref)
	require.NoError(t, err)
	assert.True(t, got.Delivered)
}

func heldName(t *testing.T, db Database) {
	if db.HoldName == nil {
		t.Skip("the database has one writer, and no locks of rows")
	}
	p := db.join(t)
	const names, each = 4, 8
	var releases []func()
	for n := range names {
		releases = append(releases, db.HoldName(t, p.Digest(journal.Ref{ID: fmt.Sprint("coming-", n)})))
	}
	waits := make(chan machine.Decision, names*each)
	for i := range cap(waits) {
		go func() {
			result, err := p.Apply(t.Context(), p.begin(fmt.Sprint("coming-", i%names)))
			assert.NoError(t, err)
			waits <- result.Decision
		}()
	}
	p.beside(t, func() {})
	assert.Empty(t, waits, "none is decided while its name is held")
	for _, release := range releases {
		release()
	}
	decisions := map[machine.Decision]int{}
	for range cap(waits) {
		decisions[<-waits]++
	}
	assert.Equal(t, map[machine.Decision]int{machine.Execute: names, machine.Wait: names * (each - 1)}, decisions)
}

// race has two processes apply events at once, several times, and returns the decisions of each time.
func race(t *testing.T, db Database, times int, events func(i int, p [2]*process) [2]machine.Event) (all [][2]machine.Result) {
	t.Helper()
	p := [2]*process{db.join(t), db.join(t)}
	all = make([][2]machine.Result, times)
	var wg sync.WaitGroup
	for i := range times {
		for k, ev := range events(i, p) {
			wg.Go(func() {
				result, err := p[k].Apply(t.Context(), ev)
				assert.NoError(t, err)
				all[i][k] = result
			})
		}
	}
	wg.Wait()
	return all
}

func oneExecution(t *testing.T, db Database) {
	for i, decisions := range race(t, db, 40, func(i int, p [2]*process) [2]machine.Event {
		a, b := p[0].begin(fmt.Sprint("name-", i)), p[1].begin(fmt.Sprint("name-", i))
		if i%2 == 0 { // made up by one, and brought along by the other
			a.New, a.Intent.Naming = true, journal.Generated
		}
		return [2]machine.Event{a, b}
	}) {
		assert.ElementsMatch(t, []machine.Decision{machine.Execute, machine.Wait}, []machine.Decision{decisions[0].Decision, decisions[1].Decision}, i)
	}
}

func oneSecondName(t *testing.T, db Database) {
	for i, decisions := range race(t, db, 40, func(i int, p [2]*process) [2]machine.Event {
		key := fmt.Sprint("key-", i)
		a, b := p[0].begin(fmt.Sprint("name-", i)), p[1].begin(key)
		a.Intent.Alias, a.Intent.Key, a.Intent.KeyCarried = journal.Ref{ID: key}, "key-of-"+key, true
		b.Intent.KeyCarried = true
		return [2]machine.Event{a, b}
	}) {
		assert.ElementsMatch(t, []machine.Decision{machine.Execute, machine.Misuse}, []machine.Decision{decisions[0].Decision, decisions[1].Decision}, i)
	}
}

func oneProof(t *testing.T, db Database) {
	for i, results := range race(t, db, 20, func(i int, p [2]*process) (evs [2]machine.Event) {
		for k := range evs {
			doubt := p[k].of(machine.EventMarkUnknown, p[k].do(t, p[k].begin(fmt.Sprint("unknown-", i, "-", k))))
			doubt.Attempts, doubt.Account, doubt.Open = 1, "acct", true
			ev := p[k].of(machine.EventEvidence, p[k].do(t, doubt))
			ev.Session, ev.Account, ev.Object = "", "acct", fmt.Sprint("charge ch_", i)
			ev.Evidence = &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: journal.BasisKey}
			ev.Answer = &journal.Answer{Status: 200, Body: []byte(`{}`)}
			evs[k] = ev
		}
		return evs
	}) {
		completed := 0
		for _, r := range results {
			if r.Operation.State == journal.StateCompleted {
				completed++
			}
		}
		assert.Equal(t, 1, completed, i)
	}
}

func takeover(t *testing.T, db Database) {
	a, b := db.join(t), db.join(t)
	a.do(t, a.begin("left"))
	result, err := b.Apply(t.Context(), b.begin("left"))
	require.NoError(t, err)
	require.Equal(t, machine.Wait, result.Decision)
	rowstore.Kill(a.s)
	claimed, err := b.Claim(t.Context(), machine.Event{Kind: machine.EventClaim, At: time.Now(), Session: b.s.ID()}, 10)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	assert.Equal(t, machine.Execute, claimed[0].Decision)
}
