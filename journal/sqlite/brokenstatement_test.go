//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite"
)

// scene is a journal as a killed process has left it, with operations and flows in all states. Some are in rows and
// blocks, others in the log alone.
type scene struct {
	path  string
	now   time.Time
	names []string // of operations
	flows []string

	restored bool // it has no sidecar
	reads    bool // its deeds change nothing
	opts     sqlite.Options
	looks    looks
}

// looks says how a journal is opened.
type looks int

const (
	writing     looks = iota // for reading and writing
	looksBeside              // read-only, beside a process that writes
	looksAlone
)

func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneAfter(t, 0, 0)
}

// newSceneAfter is newScene in a journal in which that many other operations were completed before. The first of them
// were reaped.
func newSceneAfter(t *testing.T, others, reaped int) *scene {
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
		if strings.Contains(name, "unknown") || strings.Contains(name, "heard") {
			ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-"+name, true
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
	for n := range others {
		ev := generate(fmt.Sprint("other ", n), s)
		if n%100 == 99 {
			sc.names = append(sc.names, ev.Ref.ID)
			ev = begin(ev.Ref.ID, s)
		}
		ev.Intent.Terms.Retention = 0
		apply(complete(apply(ev), s))
	}
	if reaped > 0 {
		n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: at}, reaped)
		require.NoError(t, err)
		require.Equal(t, reaped, n)
		require.NoError(t, s.End(t.Context()))
		require.NoError(t, j.Close()) // this leaves no large WAL to copy
		j = open(t, lived)
		s, err = j.Join(t.Context())
		require.NoError(t, err)
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
		late := complete(start(kept+"late"), s)
		late.Delivered = false
		apply(late)
		dropped := start(kept + "dropped")
		release(journal.EventCancel, dropped)
		heard := start(kept + "heard")
		release(journal.EventDoubt, heard)
		apply(tookEffect(heard, "object-"+heard.ID))
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
			apply(journal.Event{Kind: journal.EventDeliver, Ref: late.Ref, Outcome: journal.StateCompleted})
			apply(journal.Event{Kind: journal.EventDeliver, Ref: dropped.Ref, Outcome: journal.StateCancelled})
			seenAt(t, j, sc.now.Add(-journal.Confirmation)) // then it is no jump any more
			at = sc.now
		}
	}
	seenAt(t, j, sc.now)
	require.NoError(t, sqlite.Mark(j))
	copyAll(t, lived, sc.path)
	return sc
}

// stage is a journal opened on a scene.
type stage struct {
	*sqlite.Journal
	*scene
	t    *testing.T
	path string
	s    journal.Session
}

// copied is a copy of the scene, in a folder below it.
func (sc *scene) copied(t *testing.T) *stage {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Dir(sc.path), "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	st := &stage{scene: sc, t: t, path: filepath.Join(folder, "journal.db")}
	copyAll(t, sc.path, st.path)
	return st
}

// enter opens a copy of the scene.
func (sc *scene) enter(t *testing.T) *stage {
	t.Helper()
	st := sc.copied(t)
	st.open()
	var err error
	st.s, err = st.Join(t.Context())
	require.Equal(t, sc.restored, errors.Is(err, journal.ErrRestored), err)
	if sc.looks == looksAlone {
		require.NoError(t, st.Close())
	}
	if sc.looks != writing {
		st.Journal, err = sqlite.Open(st.path, readOnly)
		require.NoError(t, err)
		t.Cleanup(func() { _ = st.Close() })
	}
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

// told returns everything that can be read of the journal.
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

// deed is a call of a journal in which statements fail.
type deed = func(st *stage) error

// breaks makes statements of the deeds fail, one at a time: each distinct statement, and in the soak every one. The
// deed then returns an error. Repeated, it has the same result as a deed without a failure.
func (sc *scene) breaks(t *testing.T, deeds map[string]deed) {
	b := newBreakerIn(t, filepath.Dir(sc.path))
	broken := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(deeds)) {
		t.Run(name, func(t *testing.T) {
			wrote := false
			for _, writes := range []bool{false, true} {
				if writes && !wrote {
					continue
				}
				st := sc.enter(t)
				stop := func() {}
				if writes {
					stop = b.triggers(t, st.path)
				}
				does := func() { require.NoError(t, deeds[name](st)) }
				statements := b.all(writes, does)
				wrote = b.anyWrote()
				var again []string // if it changes nothing, statements fail in one journal, except those of its first time
				if sc.reads {
					again = b.all(writes, does)
				}
				stop()
				breaks := func(n int, statement string, in *stage) {
					if !broken[statement] || soak.On() {
						broken[statement] = true
						in.breaksAt(t, b, n, writes, deeds[name])
					}
				}
				for n, statement := range again {
					breaks(n, statement, st)
				}
				want := ""
				if sc.looks == writing { // otherwise nothing changes
					want = st.told()
					assert.Empty(t, verify(t, st.Journal))
				}
				require.NoError(t, st.Close())
				for n, statement := range statements {
					if broken[statement] && !soak.On() {
						continue
					}
					st := sc.enter(t)
					breaks(n, statement, st)
					if sc.looks == writing {
						assert.Equal(t, want, st.told(), "statement %d: %s", n, statement)
						assert.Empty(t, verify(t, st.Journal), "statement %d: %s", n, statement)
					}
					require.NoError(t, st.Close())
				}
			}
		})
	}
}

// breaksAt makes the statement with that number fail.
func (st *stage) breaksAt(t *testing.T, b *breaker, n int, writes bool, do deed) {
	stop := func() { freeForOthers(t, st.path) }
	if writes {
		stop = b.triggers(t, st.path)
	}
	b.arm(n, writes)
	err := do(st)
	broke := b.disarm()
	stop()
	about := fmt.Sprintf("statement %d: %s", n, broke)
	require.NotEmpty(t, broke, about)
	if assert.Error(t, err, about) {
		assert.NotContains(t, err.Error(), "damaged", about)
		assert.NotErrorIs(t, err, journal.ErrVersion, about)
	}
	require.NoError(t, do(st), about)
}

// freeForOthers makes another process begin to write.
func freeForOthers(t *testing.T, path string) {
	t.Helper()
	_, err := anotherProcess(t, path).ExecContext(t.Context(), "PRAGMA busy_timeout=60000; BEGIN IMMEDIATE; ROLLBACK")
	require.NoError(t, err, "a transaction was left open")
}

// An event does not count as recorded if one of its statements fails.
func TestBrokenStatementOfAnEvent(t *testing.T) {
	t.Parallel()
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
	})
}

// A claim that fails in its only transaction claims nothing.
func TestBrokenStatementOfAClaim(t *testing.T) {
	defer sqlite.ClaimInOneGo()() // a claim that fails after its first transaction returns that one's operations, and no error
	newScene(t).breaks(t, map[string]deed{
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

// Look-ups and webhook events do not count as recorded if a statement fails.
func TestBrokenStatementOfALook(t *testing.T) {
	t.Parallel()
	hears := func(name string) deed {
		return func(st *stage) error {
			ev := tookEffect(journal.Operation{Ref: journal.Ref{ID: name}, Claim: 1}, "object of "+name)
			ev.At = st.now
			_, _, err := st.Hear(st.t.Context(), journal.Heard{Provider: "ledger", ID: "event"}, []journal.Event{ev})
			return err
		}
	}
	newScene(t).breaks(t, map[string]deed{
		"look": func(st *stage) error {
			_, err := st.Looks(st.t.Context(), journal.Event{Kind: journal.EventLook, At: st.now, Due: st.now.Add(time.Hour)}, 10)
			return err
		},
		"hear of what has a row":   hears("row unknown"),
		"hear of what the log has": hears("log unknown"),
		"hear of what is held":     hears("row in flight"),
		"hear by another's object": func(st *stage) error {
			ev := tookEffect(journal.Operation{Ref: journal.Ref{ID: "row unknown"}, Claim: 1}, "object-row heard")
			ev.At = st.now
			return st.apply(ev)
		},
		"what can be recognised is begun": func(st *stage) error {
			ev := begin("new", st.s)
			ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-new", true
			return errors.Join(st.apply(ev), sqlite.Fold(st.Journal))
		},
	})
}

// At the end of a segment, its operations are found and reaped, whatever statement fails.
func TestBrokenStatementOfASegment(t *testing.T) {
	t.Parallel()
	begins := func(name string) deed {
		return func(st *stage) error { return st.apply(begin(name, st.s)) }
	}
	gets := func(st *stage) error {
		_, err := st.Get(st.t.Context(), journal.Ref{ID: "none"})
		if errors.Is(err, journal.ErrNotFound) {
			return nil
		}
		return err
	}
	seals := sqlite.SegmentSize - 2 - len(newScene(t).names)
	for name, row := range map[string]struct {
		others, reaped int
		deeds          map[string]deed
	}{
		"which the next operation ends": {seals, seals - 10, map[string]deed{"begin": begins("new")}},
		"within the scene": {1000, 990, map[string]deed{
			"begin":                   begins("new"),
			"begin what is completed": begins("row done 1"),
			"get what is not there":   gets,
			"reap":                    reaps,
			"verify":                  func(st *stage) error { _, err := st.Verify(st.t.Context()); return err },
		}},
		"of which all is to be reaped": {sqlite.SegmentSize, sqlite.SegmentSize - 4, map[string]deed{"reap": reaps, "get what is not there": gets}},
	} {
		t.Run(name, func(t *testing.T) { newSceneAfter(t, row.others, row.reaped).breaks(t, row.deeds) })
	}
}

// A read-only journal, beside a writer or alone, returns an error if a statement fails.
func TestBrokenStatementOfAReadOnlyJournal(t *testing.T) {
	t.Parallel()
	sc := newSceneAfter(t, 1000, 990)
	for name, looks := range map[string]looks{"beside": looksBeside, "alone": looksAlone} {
		t.Run(name, func(t *testing.T) {
			sc := *sc
			sc.looks, sc.reads = looks, true
			deeds := readings()
			deeds["back up"] = func(st *stage) error {
				_ = os.Remove(st.path + "-copy")
				return st.Backup(st.t.Context(), st.path+"-copy")
			}
			sc.breaks(t, deeds)
		})
	}
}

// Upkeep does not count as done if one of its statements fails.
func TestBrokenStatementOfUpkeep(t *testing.T) {
	t.Parallel()
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

// The operations that an application's transaction has enqueued are taken in completely, or not yet.
func TestBrokenStatementOfTakingIn(t *testing.T) {
	t.Parallel()
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
	newScene(t).breaks(t, map[string]deed{
		"a new one":          enqueues(journal.Ref{ID: "new"}),
		"what was cancelled": enqueues(journal.Ref{ID: "row cancelled"}),
		"by its second name": enqueues(aliasOf("row carried")),
	})
	deliver := journal.Event{Kind: journal.EventDeliver, Ref: journal.Ref{ID: "row undelivered"}, Outcome: journal.StateCompleted}
	newScene(t).breaks(t, map[string]deed{
		"a delivery": func(st *stage) error {
			ev := deliver
			ev.At = st.now
			_, err := st.DeliverTx(st.t.Context(), ev, func(context.Context, journal.Tx) error { return nil })
			if err == nil {
				_, err = st.Get(st.t.Context(), ev.Ref)
			}
			return err
		},
		"a step": func(st *stage) error {
			tx, err := st.BeginTx(st.t.Context())
			if err != nil {
				return err
			}
			defer tx.Rollback(st.t.Context())
			_, err = st.ApplyFlowTx(st.t.Context(), tx, journal.FlowEvent{Kind: journal.FlowEventRecord, Ref: journal.Ref{ID: "row record"}, Claim: 1,
				At: st.now, Session: st.s.ID(), Steps: []journal.StepRecord{{Seq: 2, Kind: journal.StepLocal, Name: "booked", At: st.now}}})
			if err != nil {
				return err
			}
			return tx.Commit(st.t.Context())
		},
	})
}

// An operation stays if a failed statement prevents its archiving.
func TestBrokenStatementOfTheArchive(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	sc.opts = sqlite.Options{Archive: io.Discard, ArchiveBodies: true}
	sc.breaks(t, map[string]deed{"reap": reaps})
}

// A reader returns an error if one of its statements fails.
func TestBrokenStatementOfAReader(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	sc.reads = true
	sc.breaks(t, readings())
}

// readings are deeds that change nothing.
func readings() map[string]deed {
	get := func(ref journal.Ref) deed {
		return func(st *stage) error {
			_, err := st.Get(st.t.Context(), ref)
			if errors.Is(err, journal.ErrNotFound) {
				return nil
			}
			return err
		}
	}
	list := func(filter journal.Filter) deed {
		return func(st *stage) error {
			for _, err := range st.List(st.t.Context(), filter) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	scope := "none"
	return map[string]deed{
		"get what has a row":          get(journal.Ref{ID: "row pending"}),
		"get what is in a block":      get(journal.Ref{ID: "row done 1"}),
		"get by a second name":        get(aliasOf("row carried")),
		"get what the log has":        get(journal.Ref{ID: "log pending"}),
		"get what is not there":       get(journal.Ref{ID: "new"}),
		"list":                        list(journal.Filter{}),
		"list from the newest":        list(journal.Filter{Newest: true}),
		"list those that are pending": list(journal.Filter{ByWake: true}),
		"list those of a scope":       list(journal.Filter{Scope: &scope}),
		"get a flow":                  func(st *stage) error { _, err := st.GetFlow(st.t.Context(), journal.Ref{ID: "row park"}); return err },
		"list flows": func(st *stage) error {
			for _, err := range st.ListFlows(st.t.Context(), journal.FlowFilter{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"find by a key that one in a row has":   finds(journal.ByKey, "key-of-row pending"),
		"find by a key that one in the log has": finds(journal.ByKey, "key-of-log pending"),
		"find by a reference":                   finds(journal.ByReference, "ref-row unknown"),
		"find by an object":                     finds(journal.ByObject, "object-row heard"),
		"find by an object that the log has":    finds(journal.ByObject, "object-log heard"),
		"find what was found":                   finds(store.ByFound, "object-row heard"),
		"find by what there is none of":         finds(journal.ByKey, "key-1"),
		"stats":                                 func(st *stage) error { _, err := st.Stats(st.t.Context()); return err },
		"verify":                                func(st *stage) error { _, err := st.Verify(st.t.Context()); return err },
	}
}

func finds(by journal.By, value string) deed {
	return func(st *stage) error { _, err := st.FindBy(st.t.Context(), "ledger", by, value); return err }
}

// A failed look-up does not count as "not found". The test breaks all of its statements, also with -short: they are
// few.
func TestBrokenStatementOfAFind(t *testing.T) {
	t.Parallel()
	newScene(t).breaks(t, map[string]deed{
		"by a key":       finds(journal.ByKey, "key-of-row pending"),
		"by a reference": finds(journal.ByReference, "ref-row unknown"),
		"by an object":   finds(journal.ByObject, "object-row heard"),
	})
}

// A flow's event does not count as recorded if one of its statements fails.
func TestBrokenStatementOfAFlowsEvent(t *testing.T) {
	t.Parallel()
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

// A restored journal, or one with copied sessions, is not adopted if a statement fails.
func TestBrokenStatementOfAnAdoption(t *testing.T) {
	defer sqlite.ClaimInOneGo()() // on a slow machine a page would end early, and the next one has statements of its own
	// Every operation in it has an answer.
	settled := &scene{path: filepath.Join(t.TempDir(), "journal.db"), names: []string{"done"}}
	j := open(t, settled.path)
	goOn(t, j, "done")
	require.NoError(t, sqlite.Fold(j))
	require.NoError(t, j.Close())
	for name, sc := range map[string]*scene{
		"without a session": newScene(t).without(t, "-session-*"),
		"settled":           settled.without(t, "-sidecar"),
		"by a clock behind": newSceneAhead(t).without(t, "-sidecar"),
	} {
		t.Run(name, func(t *testing.T) { sc.breaks(t, adopts) })
	}
}

// An adoption of several commits returns an error too if a statement of one of them fails.
func TestBrokenStatementOfAnAdoptionInPages(t *testing.T) {
	defer sqlite.AdoptAtOnce(1)()
	newScene(t).without(t, "-sidecar").breaks(t, adopts)
}

var adopts = map[string]deed{"adopt": func(st *stage) error { return st.Adopt(st.t.Context()) }}

// without removes files of the scene's journal, so that it counts as restored or has sessions of elsewhere.
func (sc *scene) without(t *testing.T, files string) *scene {
	t.Helper()
	names, err := filepath.Glob(sc.path + files)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.NoError(t, os.Remove(name))
	}
	sc.restored = files == "-sidecar"
	return sc
}

// newSceneAhead is a journal with operations that a clock ahead has begun. The clock has been right again for long
// enough to be confirmed.
func newSceneAhead(t *testing.T) *scene {
	t.Helper()
	sc := &scene{path: filepath.Join(t.TempDir(), "journal.db"), now: time.Now()}
	j := open(t, sc.path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	seenAt(t, j, sc.now.Add(-journal.Confirmation))
	for _, id := range []string{"a", "b"} {
		sc.names = append(sc.names, id)
		ev := begin(id, s)
		ev.At = sc.now.Add(3 * time.Hour)
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Open, park.At = journal.EventPark, nil, true, ev.At
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	seenAt(t, j, sc.now.Add(-journal.Confirmation))
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	return sc
}

// If a statement fails while a journal is opened or closed, the call returns an error and loses nothing.
func TestBrokenStatementOfOpenOrClose(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	b := newBreakerIn(t, filepath.Dir(sc.path))
	st := sc.enter(t)
	want := st.told()
	for _, way := range []struct {
		closing bool
		opts    sqlite.Options
	}{{}, {opts: sqlite.Options{ExternalCheckpointer: true}}, {closing: true}} {
		for n, failed := 0, true; failed; n++ {
			st := sc.copied(t)
			if way.closing {
				st.open()
			}
			b.arm(n, way.closing && n > 0)
			var err error
			if way.closing {
				err = st.Close()
			} else if st.Journal, err = sqlite.Open(st.path, way.opts); err == nil {
				require.NoError(t, st.Close())
			}
			broke := b.disarm()
			if broke != "SELECT identity, epoch FROM onceward_journal" { // of the file alone: if it can't be read, other checks decide
				assert.Equal(t, broke != "", err != nil, "statement %d: %s", n, broke)
			}
			failed = broke != ""
			st.open()
			assert.Equal(t, want, st.told(), broke)
			assert.Empty(t, verify(t, st.Journal), broke)
			require.NoError(t, st.Close())
			assert.NoFileExists(t, st.path+"-wal", "somebody has it open")
		}
	}
}

// A delivery is written by a later commit if a statement fails.
func TestBrokenStatementBesideADelivery(t *testing.T) {
	t.Parallel()
	sc := newScene(t)
	b := newBreakerIn(t, filepath.Dir(sc.path))
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
