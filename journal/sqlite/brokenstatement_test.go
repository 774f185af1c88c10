//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// scene is a journal as a killed process has left it, with operations, flows and receipts in all states.
type scene struct {
	path     string
	now      time.Time
	names    []string // of operations
	flows    []string
	restored bool // it has no sidecar
	readOnly bool
}

func newScene(t *testing.T) *scene {
	t.Helper()
	sc := &scene{path: filepath.Join(t.TempDir(), "journal.db"), now: time.Now().Truncate(time.Millisecond)}
	lived := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, lived)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	at := sc.now.Add(-1000 * time.Hour)
	apply := func(ev machine.Event) journal.Operation {
		t.Helper()
		ev.At = at
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return result.Operation
	}
	start := func(name string) journal.Operation {
		sc.names = append(sc.names, name)
		ev := begin(name, s)
		switch name {
		case "carried", "carried in flight":
			ev.Intent.Alias = aliasOf(name)
		case "unknown", "heard":
			ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-"+name, true
		}
		return apply(ev)
	}
	release := func(kind machine.EventKind, op journal.Operation) {
		ev := complete(op, s)
		ev.Kind, ev.Answer, ev.Delivered = kind, nil, false
		ev.Unsent, ev.Open = kind != machine.EventMarkUnknown, kind == machine.EventMarkUnknown
		apply(ev)
	}
	flow := func(ev machine.FlowEvent) journal.Flow {
		t.Helper()
		ev.At = at
		result, err := j.ApplyFlow(t.Context(), ev)
		require.NoError(t, err)
		return result.Flow
	}
	apply(complete(apply(generate("generated", s)), s))
	for _, name := range []string{"done", "done too", "carried"} {
		apply(complete(start(name), s))
	}
	release(machine.EventPark, start("pending"))
	release(machine.EventPark, start("pending too"))
	release(machine.EventMarkUnknown, start("unknown"))
	release(machine.EventCancel, start("cancelled"))
	undelivered := complete(start("undelivered"), s)
	undelivered.Delivered = false
	apply(undelivered)
	heard := start("heard")
	release(machine.EventMarkUnknown, heard)
	apply(tookEffect(heard, "object-heard"))
	start("in flight")
	start("carried in flight")
	for _, kind := range []machine.FlowEventKind{machine.FlowEventRecord, machine.FlowEventPark, machine.FlowEventFinish, machine.FlowEventGiveUp} {
		name := fmt.Sprint(kind)
		sc.flows = append(sc.flows, name)
		f := flow(machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: name}, Session: s.ID(), Function: rideFunction, InputDigest: name})
		flow(machine.FlowEvent{Kind: kind, Ref: f.Ref, Handle: f.Handle, Claim: f.Claim, Due: at,
			Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "paid", At: at}}})
	}
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
	within(t, j, func(tx journal.Tx) {
		for key, kinds := range map[string][]machine.ReceiptEventKind{"answered": {machine.ReceiptReserve, machine.ReceiptComplete}, "reserved": {machine.ReceiptReserve}} {
			for _, kind := range kinds {
				ev := receive(kind, key)
				ev.At = at
				_, err := j.ReceiveTx(t.Context(), tx, ev)
				require.NoError(t, err)
			}
		}
		_, err := j.AdvanceTx(t.Context(), tx, "source", "entity", 1)
		require.NoError(t, err)
	})
	seenAt(t, j, sc.now.Add(-machine.Confirmation)) // then it is no jump any more
	seenAt(t, j, sc.now)
	require.NoError(t, sqlite.Mark(j))
	copyAll(t, lived, sc.path)
	return sc
}

// stage is a journal opened on a copy of a scene.
type stage struct {
	*sqlite.Journal
	*scene
	t    *testing.T
	path string
	s    machine.Session
}

func (sc *scene) copied(t *testing.T) *stage {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Dir(sc.path), "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	st := &stage{scene: sc, t: t, path: filepath.Join(folder, "journal.db")}
	copyAll(t, sc.path, st.path)
	return st
}

// enter opens a copy of the scene, with a session.
func (sc *scene) enter(t *testing.T) *stage {
	t.Helper()
	st := sc.copied(t)
	st.open(sqlite.Options{})
	var err error
	st.s, err = st.Join(t.Context())
	require.Equal(t, sc.restored, errors.Is(err, journal.ErrRestored), err)
	if sc.readOnly {
		st.open(readOnly)
	}
	return st
}

func (st *stage) open(opts sqlite.Options) {
	st.t.Helper()
	j, err := sqlite.Open(st.path, opts)
	require.NoError(st.t, err)
	st.t.Cleanup(func() { _ = j.Close() })
	st.Journal = j
}

// told returns everything that can be read of the journal.
func (st *stage) told() string {
	st.t.Helper()
	var b strings.Builder
	b.WriteString(st.listed())
	for _, name := range append(st.names, "new") {
		op, err := st.Get(st.t.Context(), journal.Ref{ID: name})
		fmt.Fprintln(&b, name, err, len(op.Request.Body))
		if op.Answer != nil {
			fmt.Fprintln(&b, op.Answer.Status, string(op.Answer.Body))
		}
	}
	for _, name := range append(st.flows, "new") {
		f, err := st.GetFlow(st.t.Context(), journal.Ref{ID: name})
		fmt.Fprintln(&b, name, err)
		for _, step := range f.Steps {
			fmt.Fprintln(&b, step.Seq, step.Kind, step.Name)
		}
	}
	stats, err := st.Stats(st.t.Context())
	require.NoError(st.t, err)
	fmt.Fprintln(&b, stats.Pending, stats.InFlight, stats.Unknown, stats.Cancelled, stats.Begun)
	return b.String()
}

// listed returns what the lists have.
func (st *stage) listed() string {
	st.t.Helper()
	var b strings.Builder
	for op, err := range st.List(st.t.Context(), journal.Filter{}) {
		fmt.Fprintln(&b, op.ID, err, op.State, op.Claim, op.Generation, op.Attempts, op.Delivered, op.Tombstone, op.Holder == "", op.Looks, len(op.Evidence))
	}
	for f, err := range st.ListFlows(st.t.Context(), journal.FlowFilter{}) {
		fmt.Fprintln(&b, f.Ref.ID, err, f.State, f.Claim, f.Tombstone, f.Holder == "")
	}
	for r, err := range st.ListReceipts(st.t.Context(), journal.ReceiptFilter{}) {
		fmt.Fprintln(&b, r.Key, err, r.State, r.Claim)
	}
	return b.String()
}

func (st *stage) apply(ev machine.Event) error {
	ev.At = st.now
	_, err := st.Apply(st.t.Context(), ev)
	return err
}

// in has f write in a transaction of the application's, and commits it.
func (st *stage) in(f func(tx journal.Tx) error) error {
	tx, err := st.BeginTx(st.t.Context())
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback(st.t.Context())
		return err
	}
	return tx.Commit(st.t.Context())
}

var everyWay = []fault{interrupted, refusedWrite, refusedCommit}

// sampled leaves every second deed, from the first one on or from the second one.
func sampled(first int, deeds map[string]deed) map[string]deed {
	for i, name := range slices.Sorted(maps.Keys(deeds)) {
		if !sample.Takes(i+first, 2) {
			delete(deeds, name)
		}
	}
	return deeds
}

// deed is a call of a journal. Its statements are to fail.
type deed struct {
	do    func(st *stage) error
	reads bool // it changes nothing
	pages bool // it makes several commits: the earlier ones stay
	mends bool // it may do a part, or all, though a statement fails
}

// breaks has each statement of the deeds fail once, in each of the ways. The deed then returns an error, and nothing is recorded.
// The deed's repetition has the same result as if none had failed. Of the ways after the first, a sample runs.
func (sc *scene) breaks(t *testing.T, deeds map[string]deed, ways ...fault) {
	t.Cleanup(sqlite.MarkNever())
	b := newBreakerIn(t, filepath.Dir(sc.path))
	for i, name := range slices.Sorted(maps.Keys(deeds)) {
		t.Run(name, func(t *testing.T) {
			d, want, failed := deeds[name], "", 0
			if !d.reads {
				st := sc.enter(t)
				require.NoError(t, d.do(st))
				want = st.told()
				assert.Empty(t, verify(t, st.Journal))
				require.NoError(t, st.Close())
			}
			for n, by := range ways {
				if n > 0 && !sample.Takes(i+n, 6) {
					continue
				}
				failed += sc.breaksBy(t, b, by, d, want)
			}
			assert.Positive(t, failed, "no statement failed")
		})
	}
}

// breaksBy returns how many statements failed.
func (sc *scene) breaksBy(t *testing.T, b *breaker, by fault, d deed, want string) (failed int) {
	st := sc.enter(t)
	stop := func() {}
	if by == refusedWrite {
		stop = b.triggers(t, st.path)
	}
	other := anotherProcess(t, st.path)
	before := st.listed()
	for ; ; failed++ {
		b.arm(failed, by)
		err := d.do(st)
		broke := b.disarm()
		about := fmt.Sprintf("%s, number %d: %s", by, failed, broke)
		if broke == "" {
			require.NoError(t, err, about)
			break
		}
		if d.mends && err == nil {
			continue
		}
		if assert.Error(t, err, about) {
			assert.ErrorContains(t, err, st.path, about)
			assert.NotContains(t, err.Error(), "damaged", about)
			assert.NotErrorIs(t, err, journal.ErrVersion, about)
		}
		_, err = other.ExecContext(t.Context(), "PRAGMA busy_timeout=60000; BEGIN IMMEDIATE; ROLLBACK")
		require.NoError(t, err, "a transaction was left open: %s", about)
		if !d.pages && !d.reads {
			require.Equal(t, before, st.listed(), about)
		}
	}
	stop()
	if !d.reads {
		assert.Equal(t, want, st.told(), by)
		assert.Empty(t, verify(t, st.Journal), by)
	}
	require.NoError(t, other.Close())
	require.NoError(t, st.Close())
	return failed
}

// An event, a claim or a look-up does not count as recorded if one of its statements fails.
func TestBrokenStatementOfAnOperation(t *testing.T) {
	event := func(make func(s machine.Session) machine.Event) deed {
		return deed{do: func(st *stage) error { return st.apply(make(st.s)) }}
	}
	begins := func(name string) deed {
		return event(func(s machine.Session) machine.Event { return begin(name, s) })
	}
	of := func(name string, kind machine.EventKind) machine.Event {
		return machine.Event{Kind: kind, Ref: journal.Ref{ID: name}, Claim: 1, Attempts: 1}
	}
	answer := &journal.Answer{Status: 201, Body: []byte("paid")}
	completes := func(name string) deed {
		return event(func(machine.Session) machine.Event {
			ev := of(name, machine.EventComplete)
			ev.Answer = answer
			return ev
		})
	}
	hears := func(name string) deed {
		return deed{do: func(st *stage) error {
			ev := tookEffect(journal.Operation{Ref: journal.Ref{ID: name}, Claim: 1}, "object of "+name)
			ev.At = st.now
			_, _, err := st.RecordEvent(st.t.Context(), machine.Heard{Provider: "ledger", ID: "event"}, []machine.Event{ev})
			return err
		}}
	}
	newScene(t).breaks(t, sampled(0, map[string]deed{
		"begin":                           begins("new"),
		"begin what is pending":           begins("pending"),
		"begin what was cancelled":        begins("cancelled"),
		"begin what a dead session holds": begins("in flight"),
		"begin what is completed":         begins("done"),
		"begin by another's second name": event(func(s machine.Session) machine.Event {
			ev := begin("new", s)
			ev.Intent.Alias = aliasOf("carried")
			return ev
		}),
		"begin what can be recognised": event(func(s machine.Session) machine.Event {
			ev := begin("new", s)
			ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-new", true
			return ev
		}),
		"complete what is in flight":  completes("in flight"),
		"complete what is unknown":    completes("unknown"),
		"complete what was completed": completes("done"),
		"park":                        event(func(machine.Session) machine.Event { return of("in flight", machine.EventPark) }),
		"deliver": {pages: true, mends: true, do: func(st *stage) error {
			ev := of("undelivered", machine.EventDeliver)
			if err := errors.Join(st.apply(ev), sqlite.Flush(st.Journal)); err != nil {
				return err
			}
			if op, err := st.Get(t.Context(), ev.Ref); err != nil || !op.Delivered {
				return fmt.Errorf("it is not delivered: %w", err)
			}
			return nil
		}},
		"resolve": event(func(machine.Session) machine.Event {
			ev := of("unknown", machine.EventResolve)
			ev.Resolution, ev.Answer = journal.Executed, answer
			return ev
		}),
		"send again": event(func(machine.Session) machine.Event {
			ev := of("unknown", machine.EventResolve)
			ev.Resolution, ev.Key = journal.SendAgain, "next"
			return ev
		}),
		"claim": {pages: true, mends: true, do: func(st *stage) error { // of a dead session alone, or of all
			ev := claim(st.s)
			ev.At = st.now
			_, err := st.Claim(t.Context(), ev, 100)
			return err
		}},
		"look": {do: func(st *stage) error {
			_, err := st.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: st.now, Due: st.now.Add(time.Hour)}, 10)
			return err
		}},
		"hear":                 hears("unknown"),
		"hear of what is held": hears("in flight"),
		"hear by another's object": event(func(machine.Session) machine.Event {
			return tookEffect(journal.Operation{Ref: journal.Ref{ID: "unknown"}, Claim: 1}, "object-heard")
		}),
	}), everyWay...)
}

// Upkeep does not count as done if one of its statements fails.
func TestBrokenStatementOfUpkeep(t *testing.T) {
	newScene(t).breaks(t, map[string]deed{
		"join": {do: func(st *stage) error { _, err := st.Join(t.Context()); return err }},
		"end a session": {do: func(st *stage) error {
			s, err := st.Join(t.Context())
			if err != nil {
				return err
			}
			return s.End(t.Context())
		}},
		"a clock that is behind": {do: func(st *stage) error {
			_, err := st.Apply(t.Context(), machine.Event{Kind: machine.EventClock, At: st.now.Add(-time.Hour)})
			return err
		}},
		"reset the clock": {do: func(st *stage) error { return st.ResetClock(t.Context(), st.now.Add(-2*time.Hour)) }},
		"keep a hook":     {do: func(st *stage) error { return st.KeepHook(t.Context(), true) }},
		"name it":         {do: func(st *stage) error { return st.AdoptAs(t.Context(), "prod") }, pages: true},
		"reap": {do: func(st *stage) error {
			_, err := st.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: st.now, Keep: 100 * time.Hour}, 100)
			return err
		}, pages: true},
		"back up": {do: func(st *stage) error {
			_ = os.Remove(st.path + "-copy")
			return st.Backup(t.Context(), st.path+"-copy")
		}},
	}, everyWay...)
}

// A transaction of the application's with a statement of the journal's that fails records nothing, if it is rolled back.
func TestBrokenStatementOfATransaction(t *testing.T) {
	enqueues := func(ref journal.Ref) deed {
		return deed{do: func(st *stage) error {
			return st.in(func(tx journal.Tx) error {
				ev := enqueue(ref.ID)
				ev.Ref, ev.At = ref, st.now
				_, err := st.EnqueueTx(t.Context(), tx, ev)
				return err
			})
		}}
	}
	receives := func(evs ...machine.ReceiptEvent) deed {
		return deed{do: func(st *stage) error {
			return st.in(func(tx journal.Tx) error {
				for _, ev := range evs {
					ev.At = st.now
					if _, err := st.ReceiveTx(t.Context(), tx, ev); err != nil {
						return err
					}
				}
				return nil
			})
		}}
	}
	newScene(t).breaks(t, map[string]deed{
		"enqueue": enqueues(journal.Ref{ID: "new"}),
		"enqueue by the application's connection": {do: func(st *stage) error {
			own := anotherProcess(st.t, st.path)
			defer own.Close()
			tx, err := own.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			ev := enqueue("new")
			ev.At = st.now
			if _, err := st.EnqueueTx(t.Context(), sqlite.Tx(tx), ev); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return fmt.Errorf("the application's own error on %s: %w", st.path, err)
			}
			return nil
		}},
		"enqueue what was cancelled": enqueues(journal.Ref{ID: "cancelled"}),
		"enqueue by a second name":   enqueues(aliasOf("carried")),
		"deliver": {do: func(st *stage) error {
			_, err := st.DeliverTx(t.Context(), machine.Event{Kind: machine.EventDeliver, Ref: journal.Ref{ID: "undelivered"}, At: st.now,
				Outcome: journal.StateCompleted}, func(context.Context, journal.Tx) error { return nil })
			return err
		}},
		"a step": {do: func(st *stage) error {
			return st.in(func(tx journal.Tx) error {
				_, err := st.ApplyFlowTx(t.Context(), tx, machine.FlowEvent{Kind: machine.FlowEventRecord, Ref: journal.Ref{ID: "record"}, Claim: 1,
					At: st.now, Session: st.s.ID(), Steps: []journal.StepRecord{{Seq: 2, Kind: journal.StepLocal, Name: "booked", At: st.now}}})
				return err
			})
		}},
		"a receipt":             receives(receive(machine.ReceiptReserve, "new"), receive(machine.ReceiptComplete, "new")),
		"a receipt that is due": receives(receive(machine.ReceiptReserve, "answered")),
		"advance": {do: func(st *stage) error {
			return st.in(func(tx journal.Tx) error {
				_, err := st.AdvanceTx(t.Context(), tx, "source", "entity", 2)
				return err
			})
		}},
		"set a bookmark": {do: func(st *stage) error {
			_, err := st.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: st.now})
			return err
		}},
		"name keys": {do: func(st *stage) error { return st.MakeReceipts(t.Context(), "keys") }},
		"reap receipts": {do: func(st *stage) error {
			_, err := st.ReapReceipts(t.Context(), machine.ReceiptEvent{Kind: machine.ReceiptReap, At: st.now}, 10)
			return err
		}, pages: true},
	}, everyWay...)
}

// A flow's event does not count as recorded if one of its statements fails.
func TestBrokenStatementOfAFlow(t *testing.T) {
	event := func(ev machine.FlowEvent) deed {
		return deed{do: func(st *stage) error {
			ev := ev
			ev.At, ev.Session = st.now, st.s.ID()
			_, err := st.ApplyFlow(t.Context(), ev)
			return err
		}}
	}
	claims := func(functions ...journal.FlowFunction) deed {
		return deed{pages: true, mends: true, do: func(st *stage) error { // of a dead session alone, or of all
			_, err := st.ClaimFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventClaim, At: st.now, Session: st.s.ID(), Functions: functions}, 10)
			return err
		}}
	}
	steps := []journal.StepRecord{{Seq: 2, Kind: journal.StepDone, Name: "sent"}}
	newScene(t).breaks(t, map[string]deed{
		"begin":            event(machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "new"}, Function: rideFunction, InputDigest: "new"}),
		"begin what waits": event(machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "park"}, Function: rideFunction, InputDigest: "park"}),
		"record":           event(machine.FlowEvent{Kind: machine.FlowEventRecord, Ref: journal.Ref{ID: "record"}, Claim: 1, Steps: steps}),
		"finish":           event(machine.FlowEvent{Kind: machine.FlowEventFinish, Ref: journal.Ref{ID: "record"}, Claim: 1, Steps: steps}),
		"give up":          event(machine.FlowEvent{Kind: machine.FlowEventGiveUp, Ref: journal.Ref{ID: "park"}}),
		"claim":            claims(rideFunction),
		"claim others":     claims(),
		"reap": {do: func(st *stage) error {
			_, err := st.ReapFlows(t.Context(), machine.FlowEvent{Kind: machine.FlowEventReap, At: st.now, Keep: 100 * time.Hour}, 10)
			return err
		}, pages: true},
	}, everyWay...)
}

// A read returns an error if one of its statements fails, and never that an operation is absent.
func TestBrokenStatementOfAReader(t *testing.T) {
	for first, name := range []string{"beside a writer", "of a writer"} {
		t.Run(name, func(t *testing.T) {
			sc := newScene(t)
			sc.readOnly = first == 0
			sc.breaks(t, sampled(first, readings()), interrupted)
		})
	}
}

// readings are deeds that change nothing.
func readings() map[string]deed {
	reads := func(f func(st *stage, ctx context.Context) error) deed {
		return deed{reads: true, do: func(st *stage) error {
			if err := f(st, st.t.Context()); !errors.Is(err, journal.ErrNotFound) {
				return err
			}
			return nil
		}}
	}
	get := func(ref journal.Ref) deed {
		return reads(func(st *stage, ctx context.Context) error { _, err := st.Get(ctx, ref); return err })
	}
	list := func(filter journal.Filter) deed {
		return reads(func(st *stage, ctx context.Context) error { return drain(st.List(ctx, filter)) })
	}
	find := func(by machine.By, value string) deed {
		return reads(func(st *stage, ctx context.Context) error { _, err := st.FindBy(ctx, "ledger", by, value); return err })
	}
	scope := "none"
	return map[string]deed{
		"get":                           get(journal.Ref{ID: "pending"}),
		"get by a second name":          get(aliasOf("carried")),
		"get what is not there":         get(journal.Ref{ID: "new"}),
		"list":                          list(journal.Filter{}),
		"list from the newest":          list(journal.Filter{Newest: true}),
		"list those that are pending":   list(journal.Filter{ByWake: true}),
		"list those of a scope":         list(journal.Filter{Scope: &scope}),
		"find by a key":                 find(machine.ByKey, "key-of-pending"),
		"find by a reference":           find(machine.ByReference, "ref-unknown"),
		"find by an object":             find(machine.ByObject, "object-heard"),
		"find by what there is none of": find(machine.ByKey, "key-1"),
		"get a flow": reads(func(st *stage, ctx context.Context) error {
			_, err := st.GetFlow(ctx, journal.Ref{ID: "park"})
			return err
		}),
		"list flows": reads(func(st *stage, ctx context.Context) error { return drain(st.ListFlows(ctx, journal.FlowFilter{})) }),
		"get a receipt": reads(func(st *stage, ctx context.Context) error {
			_, err := st.GetReceipt(ctx, receive(0, "answered").ReceiptKey)
			return err
		}),
		"look at a receipt": reads(func(st *stage, ctx context.Context) error {
			_, err := st.LookReceipt(ctx, receive(machine.ReceiptReserve, "reserved"))
			return err
		}),
		"list receipts": reads(func(st *stage, ctx context.Context) error {
			return drain(st.ListReceipts(ctx, journal.ReceiptFilter{}))
		}),
		"count receipts": reads(func(st *stage, ctx context.Context) error { _, err := st.CountReceipts(ctx); return err }),
		"list bookmarks": reads(func(st *stage, ctx context.Context) error { return drain(st.ListBookmarks(ctx)) }),
		"has a hook":     reads(func(st *stage, ctx context.Context) error { _, err := st.HasHook(ctx); return err }),
		"stats":          reads(func(st *stage, ctx context.Context) error { _, err := st.Stats(ctx); return err }),
		"verify":         reads(func(st *stage, ctx context.Context) error { _, err := st.Verify(ctx); return err }),
	}
}

func drain[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// A restored journal, or one with copied sessions, is not adopted if a statement fails.
func TestBrokenStatementOfAnAdoption(t *testing.T) {
	for name, files := range map[string]string{"restored": "-sidecar", "without a session": "-session-*"} {
		t.Run(name, func(t *testing.T) {
			sc := newScene(t)
			names, err := filepath.Glob(sc.path + files)
			require.NoError(t, err)
			require.NotEmpty(t, names)
			for _, name := range names {
				require.NoError(t, os.Remove(name))
			}
			sc.restored = files == "-sidecar"
			sc.breaks(t, map[string]deed{"adopt": {do: func(st *stage) error { return st.Adopt(t.Context()) }, pages: true}}, everyWay...)
		})
	}
}

// If a statement fails while a journal is opened or closed, the call returns an error and loses nothing.
func TestBrokenStatementOfOpenOrClose(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	sc := newScene(t)
	b := newBreakerIn(t, filepath.Dir(sc.path))
	st := sc.enter(t)
	want := st.told()
	for name, opts := range map[string]sqlite.Options{"to write": {}, "for another program's checkpoints": {ExternalCheckpointer: true}, "to read": readOnly} {
		t.Run(name, func(t *testing.T) {
			for n, broke := 0, "a statement"; broke != ""; n++ {
				if !sample.Takes(n, 3) {
					continue
				}
				st := sc.copied(t)
				if opts.ReadOnly {
					st.open(sqlite.Options{})
					require.NoError(t, st.Close())
				}
				b.arm(n, interrupted)
				j, err := sqlite.Open(st.path, opts)
				broke = b.disarm()
				if broke != "SELECT identity, epoch FROM onceward_head" { // of the file alone: if it can't be read, other checks decide
					require.Equal(t, broke != "", err != nil, "statement %d: %s: %v", n, broke, err)
				}
				if err == nil {
					require.NoError(t, j.Close())
				}
				st.staysAs(want, broke)
			}
		})
	}
	for _, by := range []fault{interrupted, refusedCommit} {
		t.Run("to make it, by "+string(by), func(t *testing.T) {
			for n, broke := 0, "a statement"; broke != ""; n++ {
				if !sample.Takes(n, 3) {
					continue
				}
				path := filepath.Join(filepath.Dir(sc.path), fmt.Sprint(by, n))
				alter(t, path, "CREATE TABLE theirs (id INTEGER)")
				b.arm(n, by)
				j, err := sqlite.Open(path, sqlite.Options{Deployment: "prod"})
				broke = b.disarm()
				if broke != "SELECT identity, epoch FROM onceward_head" {
					require.Equal(t, broke != "", err != nil, "statement %d: %s: %v", n, broke, err)
				}
				if err == nil {
					require.NoError(t, j.Close())
				}
				j = openAs(t, path, "prod")
				goOn(t, j, "invoice-1")
				assert.Empty(t, verify(t, j), broke)
				require.NoError(t, j.Close())
			}
		})
	}
	t.Run("close", func(t *testing.T) {
		for n, broke := 0, "a statement"; broke != ""; n++ {
			st := sc.copied(t)
			st.open(sqlite.Options{})
			seenAt(t, st.Journal, st.now.Add(time.Minute)) // Close records it
			b.arm(n, interrupted)
			err := st.Close()
			broke = b.disarm()
			if err == nil && broke != "" {
				assert.Contains(t, broke, "onceward_head", "the sidecar alone may name an earlier commit")
				assert.Greater(t, n, 1)
			}
			st.staysAs(want, broke)
		}
	})
}

// staysAs asserts that a journal that was closed is as before, and that no connection is open.
func (st *stage) staysAs(want, broke string) {
	st.t.Helper()
	st.open(sqlite.Options{})
	assert.Equal(st.t, want, st.told(), broke)
	assert.Empty(st.t, verify(st.t, st.Journal), broke)
	require.NoError(st.t, st.Close())
	assert.NoFileExists(st.t, st.path+"-wal", "a connection is open yet")
}

// A journal without one of its tables is damaged: it crashes no process, takes nothing for absent, and Verify names the
// table.
func TestTableThatIsGone(t *testing.T) {
	sound, j, s := joined(t)
	require.NoError(t, j.MakeReceipts(t.Context(), "keys"))
	beginFlow(t, j, s, "order-991")
	_, err := j.Apply(t.Context(), begin("invoice-1", s))
	require.NoError(t, err)
	op, err := doubt(t.Context(), j, "unknown", s)
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	db := anotherProcess(t, sound)
	rows, err := db.QueryContext(t.Context(), "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'onceward_%'")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var table string
		require.NoError(t, rows.Scan(&table))
		path := filepath.Join(t.TempDir(), "journal.db")
		for _, suffix := range []string{"", "-sidecar"} {
			copyFile(t, sound+suffix, path+suffix)
		}
		alter(t, path, "DROP TABLE "+table)
		j, err := sqlite.Open(path, sqlite.Options{})
		if err == nil {
			for _, use := range []func() error{
				func() error { return j.ResetClock(t.Context(), time.Now()) },
				func() error { _, err := j.Join(t.Context()); return err },
				func() error { return j.Adopt(t.Context()) },
				func() error {
					_, _, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: "event"}, []machine.Event{tookEffect(op, "object")})
					return err
				},
				func() error { return drain(j.ListFlows(t.Context(), journal.FlowFilter{})) },
				func() error { return drain(j.ListReceipts(t.Context(), journal.ReceiptFilter{})) },
				func() error { return drain(j.ListBookmarks(t.Context())) },
				func() error {
					tx, err := j.BeginTx(t.Context())
					require.NoError(t, err)
					defer tx.Rollback(t.Context())
					_, advanced := j.AdvanceTx(t.Context(), tx, "source", "entity", 1)
					_, reserved := j.ReceiveTx(t.Context(), tx, receive(machine.ReceiptReserve, "key"))
					return errors.Join(advanced, reserved)
				},
			} {
				err = errors.Join(err, use())
			}
			found, verifying := j.Verify(t.Context())
			if verifying == nil {
				assert.Contains(t, fmt.Sprint(found), table, "Verify")
			}
			require.NoError(t, j.Close())
		}
		assert.ErrorContains(t, err, "onceward_", table)
	}
	require.NoError(t, rows.Err())
}
