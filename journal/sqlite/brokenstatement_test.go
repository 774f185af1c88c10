//go:build unix

package sqlite_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// scene is a journal as a killed process has left it, with operations and flows in all states:
// some in rows and blocks, others in the log alone.
type scene struct {
	path  string
	now   time.Time
	names []string // of operations
	flows []string

	restored bool // it has no sidecar
	opts     sqlite.Options
}

func newScene(t *testing.T) *scene {
	t.Helper()
	sc := &scene{path: filepath.Join(t.TempDir(), "journal.db"), now: time.Now().Truncate(time.Millisecond)}
	lived := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, lived)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	at := sc.now.Add(-1000 * time.Hour)
	apply := func(ev journal.Event) journal.Operation {
		t.Helper()
		ev.At = at
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return result.Operation
	}
	start := func(name string) journal.Operation {
		sc.names = append(sc.names, name)
		ev := begin(name, s)
		if strings.Contains(name, "carried") {
			ev.Intent.Alias = aliasOf(name)
		}
		return apply(ev)
	}
	release := func(kind journal.EventKind, op journal.Operation) {
		ev := complete(op, s)
		ev.Kind, ev.Answer, ev.Delivered = kind, nil, false
		ev.Unsent, ev.Open = kind != journal.EventDoubt, kind == journal.EventDoubt
		apply(ev)
	}
	flow := func(ev journal.FlowEvent) journal.Flow {
		t.Helper()
		ev.At = at
		result, err := j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
		return result.Flow
	}
	for _, kept := range []string{"row ", "log "} {
		for n := range 3 {
			apply(complete(start(fmt.Sprint(kept, "done ", n)), s))
		}
		apply(complete(start(kept+"carried"), s))
		release(journal.EventPark, start(kept+"pending"))
		release(journal.EventPark, start(kept+"pending too"))
		release(journal.EventDoubt, start(kept+"unknown"))
		release(journal.EventCancel, start(kept+"cancelled"))
		undelivered := complete(start(kept+"undelivered"), s)
		undelivered.Delivered = false
		apply(undelivered)
		start(kept + "in flight")
		start(kept + "carried in flight")
		for _, kind := range []journal.FlowEventKind{journal.FlowEventRecord, journal.FlowEventPark, journal.FlowEventFinish, journal.FlowEventGiveUp} {
			name := fmt.Sprint(kept, kind)
			sc.flows = append(sc.flows, name)
			f := flow(journal.FlowEvent{Kind: journal.FlowEventBegin, Ref: journal.Ref{ID: name}, Session: s.ID(), Function: rideFunction, InputDigest: name})
			flow(journal.FlowEvent{Kind: kind, Ref: f.Ref, Handle: f.Handle, Claim: f.Claim, Due: at,
				Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "paid", At: at}}})
		}
		if kept == "row " {
			require.NoError(t, sqlite.Fold(j))
			seenAt(t, j, sc.now.Add(-journal.Confirmation)) // then it is no jump any more
			at = sc.now
		}
	}
	seenAt(t, j, sc.now)
	require.NoError(t, sqlite.Mark(j))
	copyAll(t, lived, sc.path)
	return sc
}

// copyAll copies a journal with all that lies beside it, but the -shm file.
func copyAll(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range filesOf(t, from) {
		if suffix := strings.TrimPrefix(name, from); suffix != "-shm" {
			copyFile(t, name, to+suffix)
		}
	}
}

// stage is a journal that was opened on a scene.
type stage struct {
	*sqlite.Journal
	*scene
	t    *testing.T
	path string
	s    journal.Session
}

// enter opens a copy of the scene.
func (sc *scene) enter(t *testing.T) *stage {
	t.Helper()
	st := &stage{scene: sc, t: t, path: filepath.Join(t.TempDir(), "journal.db")}
	copyAll(t, sc.path, st.path)
	st.open()
	var err error
	st.s, err = st.Join(t.Context())
	require.Equal(t, sc.restored, errors.Is(err, journal.ErrRestored), err)
	return st
}

func (st *stage) open() {
	st.t.Helper()
	j, err := sqlite.Open(st.path, st.opts)
	require.NoError(st.t, err)
	st.t.Cleanup(func() { _ = j.Close() })
	sqlite.Preloaded(j)
	st.Journal = j
}

// told is what can be read of it all.
func (st *stage) told() string {
	st.t.Helper()
	var b strings.Builder
	for _, name := range append(st.names, "new") {
		op, err := st.Get(st.t.Context(), journal.Ref{ID: name})
		body := 0
		if op.Answer != nil {
			body = len(op.Answer.Body)
		}
		fmt.Fprintln(&b, name, err, op.State, op.Claim, op.Generation, op.Attempts, op.Delivered, op.Tombstone, op.Holder == "", len(op.Request.Body), body)
	}
	for _, name := range append(st.flows, "new") {
		f, err := st.GetFlow(st.t.Context(), journal.Ref{ID: name})
		fmt.Fprintln(&b, name, err, f.State, f.Claim, len(f.Steps), f.Tombstone, f.Holder == "")
	}
	stats, err := st.Stats(st.t.Context())
	require.NoError(st.t, err)
	fmt.Fprintln(&b, stats.Pending, stats.InFlight, stats.Unknown, stats.Cancelled, stats.Begun)
	return b.String()
}

func (st *stage) apply(ev journal.Event) error {
	ev.At = st.now
	_, err := st.Apply(st.t.Context(), ev)
	return err
}

func (st *stage) applyFlow(ev journal.FlowEvent) error {
	ev.At, ev.Session = st.now, st.s.ID()
	_, err := st.ApplyFlow(st.t.Context(), ev)
	return err
}

// deed is something that is asked of a journal, in which statements fail.
type deed = func(st *stage) error

// breaks has each statement of each deed fail, one at a time. Nothing may be taken for done
// then, and done again it comes to what it would have come to. With -short it is one in sixteen
// of the statements, from a random one of the first.
func (sc *scene) breaks(t *testing.T, deeds map[string]deed) {
	if testing.Short() {
		sc.breaksOneIn(16, t, deeds)
	} else {
		sc.breaksOneIn(1, t, deeds)
	}
}

// breaksOneIn is breaks for one in so many of the statements.
func (sc *scene) breaksOneIn(stride int, t *testing.T, deeds map[string]deed) {
	b := newBreaker(t)
	first := rand.IntN(stride)
	for name, do := range deeds {
		t.Run(name, func(t *testing.T) {
			defer hurry(os.TempDir())()
			st := sc.enter(t)
			require.NoError(t, do(st))
			want := st.told()
			for _, writes := range []bool{false, true} {
				for n, failed := first, true; failed; n += stride {
					failed = sc.breaksAt(t, b, n, writes, do, want)
				}
			}
		})
	}
}

// breaksAt tells whether there is a statement of that number.
func (sc *scene) breaksAt(t *testing.T, b *breaker, n int, writes bool, do deed, want string) bool {
	st := sc.enter(t)
	stop := func() { freeForOthers(t, st.path) }
	if writes {
		stop = b.triggers(t, st.path)
	}
	b.arm(n, writes)
	err := do(st)
	broke := b.disarm()
	stop()
	if broke == "" {
		require.NoError(t, err)
		return false
	}
	about := fmt.Sprintf("statement %d: %s", n, broke)
	if assert.Error(t, err, about) {
		assert.NotContains(t, err.Error(), "damaged", about)
	}
	require.NoError(t, do(st), about)
	assert.Equal(t, want, st.told(), about)
	assert.Empty(t, verify(t, st.Journal), about)
	require.NoError(t, st.Close())
	return true
}

// freeForOthers has another process begin to write.
func freeForOthers(t *testing.T, path string) {
	t.Helper()
	_, err := anotherProcess(t, path).ExecContext(t.Context(), "PRAGMA busy_timeout=60000; BEGIN IMMEDIATE; ROLLBACK")
	require.NoError(t, err, "a transaction was left open")
}

// An event of which a statement fails is not taken for recorded.
func TestBrokenStatementOfAnEvent(t *testing.T) {
	defer sqlite.ClaimInOneGo()() // of one that fails after its first transaction the asker has what that has claimed, and no error
	sc := newScene(t)
	event := func(make func(s journal.Session) journal.Event) deed {
		return func(st *stage) error { return st.apply(make(st.s)) }
	}
	begins := func(name string) deed {
		return event(func(s journal.Session) journal.Event { return begin(name, s) })
	}
	of := func(name string, kind journal.EventKind) journal.Event {
		return journal.Event{Kind: kind, Ref: journal.Ref{ID: name}, Claim: 1, Attempts: 1}
	}
	answer := &journal.Answer{Status: 201, Body: []byte("paid")}
	completes := func(name string) deed {
		return event(func(journal.Session) journal.Event {
			ev := of(name, journal.EventComplete)
			ev.Answer = answer
			return ev
		})
	}
	sc.breaks(t, map[string]deed{
		"begin":                                 begins("new"),
		"begin what is pending":                 begins("row pending"),
		"begin what was cancelled":              begins("row cancelled"),
		"begin what a dead session holds":       begins("row in flight"),
		"begin what is completed":               begins("row done 1"),
		"begin what is completed and has a row": begins("row undelivered"),
		"begin by another's second name": event(func(s journal.Session) journal.Event {
			ev := begin("new", s)
			ev.Intent.Alias = aliasOf("row carried")
			return ev
		}),
		"complete what has a row":     completes("row in flight"),
		"complete what the log has":   completes("log in flight"),
		"complete what is unknown":    completes("row unknown"),
		"complete what was completed": completes("row done 2"),
		"park":                        event(func(journal.Session) journal.Event { return of("row in flight", journal.EventPark) }),
		"deliver": func(st *stage) error {
			ev := of("row undelivered", journal.EventDeliver)
			if err := errors.Join(st.apply(ev), sqlite.Flush(st.Journal)); err != nil {
				return err
			}
			if op, err := st.Get(t.Context(), ev.Ref); err != nil || !op.Delivered {
				return fmt.Errorf("it is not delivered: %w", err)
			}
			return nil
		},
		"resolve": event(func(journal.Session) journal.Event {
			ev := of("row unknown", journal.EventResolve)
			ev.Resolution, ev.Answer = journal.Executed, answer
			return ev
		}),
		"send again": event(func(journal.Session) journal.Event {
			ev := of("row unknown", journal.EventResolve)
			ev.Resolution, ev.Key = journal.SendAgain, "next"
			return ev
		}),
		"claim": func(st *stage) error {
			ev := claim(st.s)
			ev.At = st.now
			_, err := st.Claim(t.Context(), ev, 100)
			return err
		},
	})
}

func reaps(st *stage) error {
	_, err := st.Reap(st.t.Context(), journal.Event{Kind: journal.EventReap, At: st.now, Keep: 100 * time.Hour}, 100)
	return err
}

// Upkeep of which a statement fails is not taken for done.
func TestBrokenStatementOfUpkeep(t *testing.T) {
	newScene(t).breaks(t, map[string]deed{
		"join": func(st *stage) error { _, err := st.Join(t.Context()); return err },
		"fold": func(st *stage) error { return sqlite.Fold(st.Journal) },
		"a clock that is behind": func(st *stage) error {
			_, err := st.Apply(t.Context(), journal.Event{Kind: journal.EventClock, At: st.now.Add(-time.Hour)})
			return err
		},
		"reset the clock": func(st *stage) error { return st.ResetClock(t.Context(), st.now.Add(-2*time.Hour)) },
		"reap":            reaps,
		"back up": func(st *stage) error {
			_ = os.Remove(st.path + "-copy")
			return st.Backup(t.Context(), st.path+"-copy")
		},
	})
}

// What a transaction of the application's has enqueued is taken in whole, or not yet.
func TestBrokenStatementOfTakingIn(t *testing.T) {
	enqueues := func(ref journal.Ref) deed {
		return func(st *stage) error {
			tx, err := st.BeginSQL(t.Context())
			if err != nil {
				return err
			}
			defer tx.Rollback()
			ev := enqueue(ref.ID)
			ev.Ref, ev.At = ref, st.now
			if _, err := st.EnqueueTx(t.Context(), sqlite.Tx(tx), ev); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			_, err = st.Get(t.Context(), ev.Ref)
			return err
		}
	}
	// All of its statements, also with -short: they are few.
	newScene(t).breaksOneIn(1, t, map[string]deed{
		"a new one":          enqueues(journal.Ref{ID: "new"}),
		"what was cancelled": enqueues(journal.Ref{ID: "row cancelled"}),
		"by its second name": enqueues(aliasOf("row carried")),
	})
}

// What can't be archived for a failed statement stays.
func TestBrokenStatementOfTheArchive(t *testing.T) {
	sc := newScene(t)
	sc.opts = sqlite.Options{Archive: io.Discard, ArchiveBodies: true}
	sc.breaks(t, map[string]deed{"reap": reaps})
}

func TestAReaderOfWhichAStatementFailsSaysSo(t *testing.T) {
	get := func(name string) deed {
		return func(st *stage) error {
			_, err := st.Get(t.Context(), journal.Ref{ID: name})
			if errors.Is(err, journal.ErrNotFound) {
				return nil
			}
			return err
		}
	}
	list := func(filter journal.Filter) deed {
		return func(st *stage) error {
			for _, err := range st.List(t.Context(), filter) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	newScene(t).breaks(t, map[string]deed{
		"get what has a row":          get("row pending"),
		"get what is in a block":      get("row done 1"),
		"get what the log has":        get("log pending"),
		"get what is not there":       get("new"),
		"list":                        list(journal.Filter{}),
		"list those that are pending": list(journal.Filter{ByWake: true}),
		"stats":                       func(st *stage) error { _, err := st.Stats(t.Context()); return err },
		"verify":                      func(st *stage) error { _, err := st.Verify(t.Context()); return err },
	})
}

// What can't be looked for is not taken for what is not there.
func TestBrokenStatementOfAFind(t *testing.T) {
	find := func(by journal.By, value string) deed {
		return func(st *stage) error { _, err := st.FindBy(t.Context(), "stripe", by, value); return err }
	}
	newScene(t).breaksOneIn(1, t, map[string]deed{
		"by a key":       find(journal.ByKey, "key-1"),
		"by a reference": find(journal.ByReference, "order-1"),
		"by an object":   find(journal.ByObject, "payment 1"),
	})
}

// A flow's event of which a statement fails is not taken for recorded.
func TestBrokenStatementOfAFlowsEvent(t *testing.T) {
	event := func(ev journal.FlowEvent) deed {
		return func(st *stage) error { return st.applyFlow(ev) }
	}
	newScene(t).breaks(t, map[string]deed{
		"begin":            event(journal.FlowEvent{Kind: journal.FlowEventBegin, Ref: journal.Ref{ID: "new"}, Function: rideFunction, InputDigest: "new"}),
		"begin what waits": event(journal.FlowEvent{Kind: journal.FlowEventBegin, Ref: journal.Ref{ID: "row park"}, Function: rideFunction, InputDigest: "row park"}),
		"finish": event(journal.FlowEvent{Kind: journal.FlowEventFinish, Ref: journal.Ref{ID: "row record"}, Claim: 1,
			Steps: []journal.StepRecord{{Seq: 2, Kind: journal.StepDone, Name: "sent", At: time.Now()}}}),
		"record": func(st *stage) error {
			for seq, f := range []journal.FlowEvent{{Ref: journal.Ref{ID: "row record"}}, {Handle: 1}} {
				f.Kind, f.Claim = journal.FlowEventRecord, 1
				f.Steps = []journal.StepRecord{{Seq: 2 + seq, Kind: journal.StepDone, Name: "sent", At: st.now}}
				if err := st.applyFlow(f); err != nil {
					return err
				}
			}
			if err := sqlite.Flush(st.Journal); err != nil {
				return err
			}
			if f, err := st.GetFlow(t.Context(), journal.Ref{ID: "row record"}); err != nil || len(f.Steps) != 3 {
				return fmt.Errorf("not all of its steps are recorded: %w", err)
			}
			return nil
		},
		"give up": event(journal.FlowEvent{Kind: journal.FlowEventGiveUp, Ref: journal.Ref{ID: "row park"}}),
		"claim": func(st *stage) error {
			_, err := st.ClaimFlows(t.Context(), journal.FlowEvent{Kind: journal.FlowEventClaim, At: st.now, Session: st.s.ID(), Functions: []journal.FlowFunction{rideFunction}}, 10)
			return err
		},
		"claim others": func(st *stage) error {
			_, err := st.ClaimFlows(t.Context(), journal.FlowEvent{Kind: journal.FlowEventClaim, At: st.now, Session: st.s.ID()}, 10)
			return err
		},
		"reap": func(st *stage) error {
			_, err := st.ReapFlows(t.Context(), journal.FlowEvent{Kind: journal.FlowEventReap, At: st.now, Keep: 100 * time.Hour}, 10)
			return err
		},
		"get": func(st *stage) error { _, err := st.GetFlow(t.Context(), journal.Ref{ID: "row park"}); return err },
		"list": func(st *stage) error {
			for _, err := range st.ListFlows(t.Context(), journal.FlowFilter{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// A restored journal is not adopted where a statement fails.
func TestBrokenStatementOfAnAdoption(t *testing.T) {
	sc := newScene(t)
	require.NoError(t, os.Remove(sc.path+"-sidecar"))
	sc.restored = true
	sc.breaks(t, map[string]deed{"adopt": func(st *stage) error { return st.Adopt(t.Context()) }})
}

// What fails as a journal is opened or closed is an error and loses nothing.
func TestBrokenStatementOfOpenOrClose(t *testing.T) {
	defer hurry(os.TempDir())()
	b := newBreaker(t)
	sc := newScene(t)
	st := sc.enter(t)
	want := st.told()
	for _, closing := range []bool{false, true} {
		for n, failed := 0, true; failed; n++ {
			st := &stage{scene: sc, t: t, path: filepath.Join(t.TempDir(), "journal.db")}
			copyAll(t, sc.path, st.path)
			if closing {
				st.open()
			}
			b.arm(n, closing && n > 0)
			var err error
			if closing {
				err = st.Close()
			} else if st.Journal, err = sqlite.Open(st.path, sqlite.Options{}); err == nil {
				require.NoError(t, st.Close())
			}
			broke := b.disarm()
			if broke != "SELECT identity, epoch FROM onceward_journal" { // of the file alone: what can't be read is left to others
				assert.Equal(t, broke != "", err != nil, "statement %d: %s", n, broke)
			}
			failed = broke != ""
			st.open()
			assert.Equal(t, want, st.told(), broke)
			assert.Empty(t, verify(t, st.Journal), broke)
		}
	}
}

// A delivery rides on past a statement that fails.
func TestBrokenStatementBesideADelivery(t *testing.T) {
	defer hurry(os.TempDir())()
	b := newBreaker(t)
	sc := newScene(t)
	for n, failed := 0, true; failed; n++ {
		st := sc.enter(t)
		ev := journal.Event{Kind: journal.EventDeliver, Ref: journal.Ref{ID: "row undelivered"}}
		require.NoError(t, st.apply(ev))
		require.NoError(t, st.applyFlow(journal.FlowEvent{Kind: journal.FlowEventRecord, Ref: journal.Ref{ID: "row record"}, Claim: 1,
			Steps: []journal.StepRecord{{Seq: 2, Kind: journal.StepDone, Name: "sent", At: st.now}}}))
		b.arm(n, false)
		err := sqlite.Flush(st.Journal)
		broke := b.disarm()
		failed = broke != ""
		assert.Equal(t, failed, err != nil, "statement %d: %s", n, broke)
		require.NoError(t, sqlite.Flush(st.Journal))
		op, err := st.Get(t.Context(), ev.Ref)
		require.NoError(t, err)
		assert.True(t, op.Delivered, broke)
		f, err := st.GetFlow(t.Context(), journal.Ref{ID: "row record"})
		require.NoError(t, err)
		assert.Len(t, f.Steps, 2, broke)
	}
}
