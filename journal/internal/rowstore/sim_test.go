package rowstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/seal"
)

// Processes share one database. A seeded scheduler has their commits land in any order, late, or not at all, loses the
// answers of some, has other transactions hold rows and names, cuts off the database, kills processes, and has their
// clock run ahead until it is reset. No name is executed twice, and nothing that was acknowledged is missing.
func TestProcessesOnADatabaseWithFaults(t *testing.T) {
	first := soak.Seed(t, 1)
	for seed := first; seed < first+uint64(soak.Times(12, 60)); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, seed).run(400) })
		})
	}
}

// world is what the scheduler knows. No process knows it.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	db      *faultdb.Database
	rings   []*seal.Ring // of the processes, in turn; nil: no process has one
	pods    []*pod
	all     []*pod // those that were killed too
	release []func()
	away    bool
	lead    time.Duration // of the clock of all processes
	unset   bool          // that clock was right again, and the journal's was not reset yet: nothing is sent
	first   int           // of the names that processes ask for now
	running sync.WaitGroup

	mu      sync.Mutex
	pending int                  // requests that were not answered yet
	effects map[string]int       // by name
	sent    map[string]time.Time // by key
	there   map[string]bool      // names that were acknowledged
	paid    map[string]bool      // names whose answer was acknowledged
	known   map[string]int64     // handles
	doubts  []journal.Operation
}

// pod is a process with what it holds.
type pod struct {
	*process
	dead  bool
	holds []held
}

type held struct {
	op   journal.Operation
	sent bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 0)), db: faultdb.New(),
		effects: make(map[string]int), sent: make(map[string]time.Time), there: make(map[string]bool), paid: make(map[string]bool), known: make(map[string]int64),
	}
	if seed%2 == 1 { // the key is being rotated
		w.rings = []*seal.Ring{rowstoretest.Ring(t, "k1", "k2"), rowstoretest.Ring(t, "k2", "k1")}
	}
	for range 3 {
		w.join()
	}
	return w
}

func (w *world) join() {
	p := &pod{process: w.starts()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods, w.all = append(w.pods, p), append(w.all, p)
}

func (w *world) starts() *process {
	if w.rings == nil {
		return newProcess(w.t, w.db)
	}
	return newSealer(w.t, w.db, w.rings[len(w.all)%len(w.rings)])
}

// now is the processes' clock. The provider's is right.
func (w *world) now() time.Time { return time.Now().Add(w.lead) }

// one reports true once in n times.
func (w *world) one(n int) bool { return w.rnd.IntN(n) == 0 }

func (w *world) run(steps int) {
	w.db.StepCommits(true)
	for i := range steps {
		w.first = i / 8
		w.step()
		synctest.Wait()
	}
	w.end()
	w.check()
}

func (w *world) step() {
	waits := w.db.Commits()
	w.mu.Lock()
	pending := w.pending
	w.mu.Unlock()
	switch n := w.rnd.IntN(100); {
	case waits > 0 && (n < 45 || pending > 12):
		w.db.LetCommit(w.rnd.IntN(waits), w.fate())
	case n < 82 && pending <= 12:
		w.request(w.pods[w.rnd.IntN(len(w.pods))])
	case n < 87:
		w.hold()
	case n < 92 && len(w.release) > 0:
		w.release[0]()
		w.release = w.release[1:]
	case n == 92:
		w.leap()
	case n < 97:
		pause := time.Duration(w.rnd.IntN(3000)) * time.Millisecond
		if w.one(5) {
			pause *= 3600 * 4
		}
		time.Sleep(pause)
	case n < 98 || w.away:
		w.away = !w.away
		w.db.Unreachable(w.away)
	default:
		w.kill()
	}
}

// fate is that of a commit. Most land.
func (w *world) fate() faultdb.Fate {
	if !w.one(5) {
		return faultdb.Lands
	}
	return faultdb.Fate(w.rnd.IntN(int(faultdb.LosesCommit) + 1))
}

// hold has a transaction of another program's hold some rows and names.
func (w *world) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var handles []int64
	var names []rowstore.Digest
	for i := range atATime {
		name := nameOf(w.first + i)
		switch {
		case !w.one(4):
		case w.known[name] != 0:
			handles = append(handles, w.known[name])
		default:
			names = append(names, rowstore.NameDigest(w.db.Key(), ref(name)))
		}
	}
	w.release = append(w.release, w.db.Hold(handles, names))
}

// leap has the processes' clock run ahead, or sets it right. Then the journal's clock is reset, by one process after another
// until one has done so.
func (w *world) leap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.unset:
	case w.lead == 0:
		w.lead = time.Duration(2+w.rnd.IntN(10)) * time.Hour
	default:
		w.lead, w.unset = 0, true
		w.running.Go(w.reset)
	}
}

func (w *world) reset() {
	for i := 0; ; i++ {
		w.mu.Lock()
		p := w.pods[i%len(w.pods)]
		w.mu.Unlock()
		if p.j.ResetClock(w.t.Context(), time.Now()) == nil {
			break
		}
		time.Sleep(time.Second) // the scheduler's, not the machine's
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unset = false
}

// kill ends a process as SIGKILL does: no other process hears of what it was told. Its commits may still land.
func (w *world) kill() {
	i := w.rnd.IntN(len(w.pods))
	w.mu.Lock()
	p := w.pods[i]
	p.dead, w.pods = true, slices.Delete(w.pods, i, i+1)
	w.mu.Unlock()
	rowstore.Kill(p.s)
	w.join()
}

// atATime is how many names processes ask for at a time. Others follow, so that there are always some new ones.
const atATime = 8

func (w *world) name() string { return nameOf(w.first + w.rnd.IntN(atATime)) }

func nameOf(i int) string { return fmt.Sprint("name-", i) }

// request has a process ask for something.
func (w *world) request(p *pod) {
	var do func()
	switch n := w.rnd.IntN(20); {
	case n < 8:
		do = w.begins(p)
	case n < 14:
		do = w.ends(p)
	case n < 15:
		do = w.claims(p)
	case n < 18:
		do = w.proves(p)
	default:
		do = w.enqueues(p)
	}
	if do == nil {
		return
	}
	w.mu.Lock()
	w.pending++
	w.mu.Unlock()
	w.running.Go(func() {
		do()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pending--
	})
}

// remembers is how long the provider remembers the keys of requests that half of the names make. It remembers no others.
const remembers = 24 * time.Hour

func isRemembered(name string) bool { return (name[len(name)-1]-'0')%2 == 0 }

// maker returns the name whose caller made the operation's request: its own, or its second one.
func maker(op *journal.Operation) string { return string(op.Request.Body) }

// dated dates an event, and gives its intent the provider's terms.
func (w *world) dated(ev machine.Event) machine.Event {
	ev.At, ev.Intent.Terms = w.now(), journal.Terms{}
	if isRemembered(ev.Ref.ID) {
		ev.Intent.Terms = journal.Terms{Remembers: memory.Everything, Retention: remembers, Guard: true}
	}
	return ev
}

// send has the provider execute a request, unless it remembers the key. The caller holds w.mu.
func (w *world) send(op *journal.Operation) {
	if at, is := w.sent[op.Key]; is && isRemembered(maker(op)) && time.Since(at) < remembers {
		return
	}
	w.sent[op.Key] = time.Now()
	w.effects[op.ID]++
	if op.Alias.ID != "" {
		w.effects[op.Alias.ID]++
	}
}

// begins asks for a name, or for one that an alias of another may have, or that is thought to be new. A caller without
// a result gives up what it may have begun.
func (w *world) begins(p *pod) func() {
	ev := w.dated(p.begin(w.name()))
	ev.Intent.Naming = journal.Named
	switch {
	case w.one(4):
		if alias := w.name(); alias != ev.Ref.ID {
			ev.Intent.Alias, ev.Intent.Key, ev.Intent.KeyCarried = ref(alias), "key-of-"+alias, true
		}
	case w.one(6):
		ev.New, ev.Intent.Naming = true, journal.Generated
	}
	sends := !w.one(4)
	return func() {
		result, err := p.j.Apply(w.t.Context(), ev)
		if err == nil {
			w.claimed(p, &result, sends)
			return
		}
		cancel := p.of(machine.EventCancel, journal.Operation{Ref: ev.Ref})
		cancel.Asker, cancel.Unsent, cancel.At = ev.Asker, true, ev.At
		_, _ = p.j.Apply(w.t.Context(), cancel)
	}
}

// claimed notes a result. With a claim, the request goes out, unless its process is dead.
func (w *world) claimed(p *pod, result *machine.Result, sends bool) {
	op := result.Operation
	w.mu.Lock()
	defer w.mu.Unlock()
	w.there[op.ID], w.known[op.ID] = true, op.Handle
	if result.Decision != machine.Execute || p.dead || w.unset {
		return
	}
	// A client asks the rule once more before each attempt, since the commit may have taken long.
	rule := machine.Progress{Now: w.now(), Last: result.Last, Unconfirmed: result.Unconfirmed}.Question(&op, w.now())
	if sends = sends && machine.MaySend(rule).Answer == machine.SendNow; sends {
		w.send(&op)
	}
	p.holds = append(p.holds, held{op, sends})
}

// ends ends a claim that the process holds.
func (w *world) ends(p *pod) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p.holds) == 0 {
		return nil
	}
	i := w.rnd.IntN(len(p.holds))
	h := p.holds[i]
	p.holds = slices.Delete(p.holds, i, i+1)
	ev, how := p.complete(h.op), w.rnd.IntN(3)
	switch {
	case !h.sent && how == 0:
		ev = p.of(machine.EventCancel, h.op)
		ev.Unsent = true
	case !h.sent:
		ev = p.of(machine.EventPark, h.op)
		ev.Unsent = true
	case how == 1 && isRemembered(maker(&h.op)):
		ev = p.of(machine.EventPark, h.op)
		ev.Open, ev.Attempts = true, 1
	case how < 2:
		ev = p.of(machine.EventMarkUnknown, h.op)
		ev.Open, ev.Attempts, ev.Account = true, 1, "acct"
	}
	ev.At = w.now()
	return func() {
		result, err := p.j.Apply(w.t.Context(), ev)
		if err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			p.holds = append(p.holds, h) // it is tried again
			return
		}
		w.mu.Lock()
		switch {
		case ev.Kind == machine.EventComplete && result.Decision == machine.Recorded:
			w.paid[h.op.ID] = true
		case ev.Kind == machine.EventMarkUnknown && result.Decision == machine.Recorded:
			w.doubts = append(w.doubts, result.Operation)
		}
		w.mu.Unlock()
		if ev.Kind == machine.EventComplete {
			_, _ = p.j.Apply(w.t.Context(), p.of(machine.EventDeliver, result.Operation))
		}
	}
}

// claims takes operations that are due, or that a dead process has left.
func (w *world) claims(p *pod) func() {
	ev := machine.Event{Kind: machine.EventClaim, At: w.now(), Session: p.s.ID(), Asker: 1000 + int64(w.rnd.IntN(1<<30))}
	limit := 1 + w.rnd.IntN(4)
	return func() {
		results, err := p.j.Claim(w.t.Context(), ev, limit)
		if err != nil {
			return // the commit may have landed: nothing of it is sent
		}
		for i := range results {
			w.claimed(p, &results[i], true)
		}
	}
}

// proves brings evidence of an object for an unknown operation. The latest ones are likely to meet over one object.
func (w *world) proves(p *pod) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.doubts) == 0 {
		return nil
	}
	latest := w.doubts[max(len(w.doubts)-3, 0):]
	ev := p.proof(latest[w.rnd.IntN(len(latest))], fmt.Sprint("charge ch_", len(w.doubts)/3))
	ev.At = w.now()
	heard := machine.Heard{Provider: "ledger", ID: fmt.Sprint("evt_", w.rnd.IntN(100))}
	alone := w.one(2)
	return func() {
		var results []machine.Result
		var err error
		if alone {
			results = make([]machine.Result, 1)
			results[0], err = p.j.Apply(w.t.Context(), ev)
		} else {
			results, _, err = p.j.RecordEvent(w.t.Context(), heard, []machine.Event{ev})
		}
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, r := range results {
			if r.Operation.State == journal.StateCompleted {
				w.paid[r.Operation.ID] = true
			}
		}
	}
}

// enqueues enqueues a name in a transaction of the application's.
func (w *world) enqueues(p *pod) func() {
	ev := w.dated(p.begin(w.name()))
	ev.Kind, ev.Session, ev.Asker, ev.Intent.Naming = machine.EventEnqueue, "", 0, journal.Named
	commits := !w.one(4)
	pause := time.Duration(w.rnd.IntN(200)) * time.Millisecond
	return func() {
		tx, err := p.j.BeginTx(w.t.Context())
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		defer cancel()
		_, err = p.j.EnqueueTx(ctx, tx, ev)
		time.Sleep(pause) // the handler does something else
		if err != nil || !commits {
			_ = tx.Rollback(w.t.Context())
			return
		}
		if tx.Commit(w.t.Context()) == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.there[ev.Ref.ID] = true
		}
	}
}

// end ends the faults, and lets all requests be answered.
func (w *world) end() {
	w.db.Unreachable(false)
	for _, release := range w.release {
		release()
	}
	w.db.StepCommits(false)
	w.running.Wait()
	for _, p := range w.all {
		_ = p.s.End(w.t.Context())
		_ = p.j.Close()
	}
}

func (w *world) check() {
	next := w.starts()
	defer next.j.Close()
	violations, err := next.j.Verify(w.t.Context())
	require.NoError(w.t, err)
	assert.Empty(w.t, violations)
	for name, times := range w.effects {
		assert.Equal(w.t, 1, times, "%s was executed so often", name)
		assert.True(w.t, next.get(name).MayHaveRun, name) // by its name or its second name
	}
	for name := range w.there {
		_, err := next.j.Get(w.t.Context(), ref(name))
		assert.NoError(w.t, err, "%s was acknowledged", name)
	}
	for name := range w.paid {
		assert.Equal(w.t, journal.StateCompleted.String(), next.get(name).State.String(), "the answer of %s was acknowledged", name)
	}
	proves := make(map[string][]string)
	for op, err := range next.j.List(w.t.Context(), journal.Filter{}) {
		require.NoError(w.t, err)
		if op.Object != "" {
			proves[op.Object] = append(proves[op.Object], op.ID)
		}
	}
	for object, names := range proves {
		assert.Len(w.t, names, 1, "%s proves %s", object, strings.Join(names, " and "))
	}
	assert.NotEmpty(w.t, w.effects)
}
