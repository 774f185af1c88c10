//go:build unix

package promises_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers/providertest"
)

// childProcess is a process that carries out a plan.
type childProcess struct{ *oncetest.Child }

func startProcess(ctx context.Context, plan childPlan) (childProcess, error) {
	p, err := oncetest.StartChild(ctx, plan)
	return childProcess{p}, err
}

// found returns what the process found in the journal.
func (p childProcess) found() (found []onceward.Operation, err error) {
	err = p.Out.Decode(&found)
	return found, err
}

// life is one process's work.
type life struct {
	Found  []onceward.Operation
	Report childReport
	Killed bool // by SIGKILL; else it came to its end
}

// end waits for the process. It returns an error for one that neither came to its
// end nor was killed.
func (p childProcess) end(found []onceward.Operation) (life, error) {
	l := life{Found: found}
	undecoded := p.Out.Decode(&l.Report)
	killed, err := p.End()
	if l.Killed = killed; killed || err != nil {
		return l, err
	}
	return l, undecoded
}

// live lets a process carry out the plan to its end.
func live(ctx context.Context, plan childPlan) (life, error) {
	p, err := startProcess(ctx, plan)
	if err != nil {
		return life{}, err
	}
	found, err := p.found()
	if err != nil {
		_, failed := p.end(nil)
		return life{}, errors.Join(err, failed)
	}
	return p.end(found)
}

// moment is a row in the crash tests. It has the point at which a process is killed, and the state that this leaves
// behind.
type moment struct {
	point
	found   onceward.State // by the next process
	reached bool           // the provider has the whole request, and executes it

	// The provider executes the request once its client is dead, or only once the client asks again.
	whenDead, whenAsked bool
	onWire              bool // Resume passes the point too, if it sends
}

var moments = []moment{
	{point: oncetest.BeforeEvent(machine.EventBegin), found: journal.StateAbsent},
	{point: oncetest.AfterEvent(machine.EventBegin), found: onceward.StateInFlight},
	{point: oncetest.AfterConnect, found: onceward.StateInFlight, onWire: true},
	{point: oncetest.AfterLastByte, found: onceward.StateInFlight, onWire: true, reached: true, whenDead: true},
	{point: oncetest.AfterLastByte, found: onceward.StateInFlight, onWire: true, reached: true, whenAsked: true},
	{point: oncetest.AfterStatusLine, found: onceward.StateInFlight, onWire: true, reached: true},
	{point: oncetest.MidBody, found: onceward.StateInFlight, onWire: true, reached: true},
	{point: oncetest.BeforeEvent(machine.EventComplete), found: onceward.StateInFlight, onWire: true, reached: true},
	{point: oncetest.AfterEvent(machine.EventComplete), found: onceward.StateCompleted, onWire: true, reached: true},
}

func (m moment) String() string {
	switch {
	case m.whenAsked:
		return string(m.point) + ", the provider being at it until it is asked again"
	case m.whenDead:
		return string(m.point) + ", the provider being at it"
	}
	return string(m.point)
}

// crash is one subtest, with the processes that are killed one after the other. The first one asks for the operation,
// and the others resume.
type crash struct {
	contract
	naming journal.Naming
	kills  []moment
}

func (c crash) String() string {
	name := c.name + "/" + c.naming.String() + "/" + c.kills[0].String()
	for _, m := range c.kills[1:] {
		name += "/during Resume " + m.String()
	}
	return name
}

func crashes() (all []crash) {
	for _, c := range contracts {
		for _, naming := range []journal.Naming{journal.Named, journal.Carried, journal.Generated} {
			begun := moment{point: oncetest.AfterEvent(machine.EventBegin), found: onceward.StateInFlight}
			claimed := moment{point: oncetest.AfterEvent(machine.EventClaim), found: onceward.StateInFlight}
			if !c.resends {
				claimed.found = onceward.StateUnknown
			}
			all = append(all,
				crash{c, naming, []moment{begun, {point: oncetest.BeforeEvent(machine.EventClaim), found: onceward.StateInFlight}}},
				crash{c, naming, []moment{begun, claimed}},
			)
			for _, m := range moments {
				all = append(all, crash{c, naming, []moment{m}})
				if m.onWire && c.resends {
					all = append(all, crash{c, naming, []moment{begun, m}})
				}
			}
		}
	}
	return all
}

func (c crash) ask() childAsk {
	a := childAsk{Reference: "invoice-991"}
	switch c.naming {
	case journal.Named:
		a.Name = "invoice-991/charge"
	case journal.Carried:
		a.Key = "5b0a3c1e-6c1f-4d0e-9a43-6f4f3f3a2f10"
	}
	return a
}

// asksAgain reports whether the caller's second request is the same operation.
func (c crash) asksAgain() bool {
	return c.naming == journal.Named || c.naming == journal.Carried && !c.keyless
}

// history has a crash's results.
type history struct {
	lives   []life
	effects []int // in the ledger, when each process was over and the provider at rest
	wire    []providertest.Request
	ledger  []providertest.Effect
	err     error
}

// play runs the crash, and one more process that clears up.
func (c crash) play(ctx context.Context, dir string) (h history) {
	var (
		mu       sync.Mutex
		executed atomic.Int64
		dead     = make(chan struct{})
		asked    = make(chan struct{})
		release  = sync.OnceFunc(func() { close(asked) })
	)
	srv := providertest.NewUnstartedServer(c.provider, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := executed.Add(1)
		switch {
		case c.last().whenDead:
			<-dead
		case c.last().whenAsked:
			<-asked
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"ch_%d","status":"succeeded"}`, n)
	}))
	srv.RetryAfter = -1
	srv.Observe = func(r providertest.Request) {
		if r.Path != c.path {
			return // another client's, which knows the port from an earlier server
		}
		mu.Lock()
		defer mu.Unlock()
		if h.wire = append(h.wire, r); len(h.wire) == 2 {
			release()
		}
	}
	srv.Start()
	defer srv.Close()
	defer release()
	die := sync.OnceFunc(func() { close(dead) })
	defer die()

	plan := childPlan{Journal: filepath.Join(dir, "journal.db"), Server: srv.URL, Contract: c.name}
	for i := range len(c.kills) + 1 {
		plan.Resume, plan.Asks, plan.Doom = i > 0, nil, doom{}
		if i == 0 || i == len(c.kills) && c.asksAgain() {
			plan.Asks = []childAsk{c.ask()}
		}
		if i < len(c.kills) {
			plan.Doom.At = c.kills[i].point
		}
		l, err := live(ctx, plan)
		if err != nil {
			h.err = fmt.Errorf("process %d: %w", i+1, err)
			return h
		}
		h.lives = append(h.lives, l)
		if i >= len(c.kills)-1 {
			die()
		}
		if i == len(c.kills) {
			release()
		}
		h.effects = append(h.effects, atRest(srv, c.effectsAfter(i)))
	}
	srv.Close()
	h.ledger = srv.Effects()
	return h
}

func (c crash) last() moment { return c.kills[len(c.kills)-1] }

// end returns the state in which the last process has to leave the operation.
func (c crash) end() onceward.State {
	switch found := c.last().found; {
	case found == journal.StateAbsent && !c.asksAgain():
		return journal.StateAbsent
	case found == onceward.StateUnknown, found == onceward.StateInFlight && !c.resends:
		return onceward.StateUnknown
	}
	return onceward.StateCompleted
}

// effectsAfter returns how many effects process i, counted from 0, has to leave.
func (c crash) effectsAfter(i int) int {
	took := c.end() == onceward.StateCompleted || c.last().reached
	if i < len(c.kills) {
		took = c.kills[i].reached && !c.kills[i].whenAsked
	}
	if took {
		return 1
	}
	return 0
}

// atRest waits a little for an effect that the provider is still working on, and returns how many effects there are.
func atRest(srv *providertest.Server, want int) int {
	for range 2000 {
		if len(srv.Effects()) >= want {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	return len(srv.Effects())
}

// An operation takes effect once, or is unknown, wherever its process is killed. By default every point is tested with
// a named operation at Stripe, and every contract and naming at some points. The soak tests all combinations.
func TestKillAtAnyPointIsOnceOrUnknown(t *testing.T) {
	t.Parallel()
	var cases []crash
	for i, c := range crashes() {
		stripes := c.name == "Stripe" && c.naming == journal.Named && (len(c.kills) == 1 || sample.Takes(i, 3))
		if soak.On() || stripes || i%11 == 0 && sample.Takes(i, 22) {
			cases = append(cases, c)
		}
	}
	histories := make([]history, len(cases))
	root := t.TempDir()
	oncetest.SeveralAtOnce(len(cases), 8, func(i int) {
		dir := filepath.Join(root, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			histories[i].err = err
			return
		}
		histories[i] = cases[i].play(t.Context(), dir)
	})
	for i, c := range cases {
		t.Run(c.String(), func(t *testing.T) { c.check(t, histories[i]) })
	}
}

// check compares the history with the promise.
func (c crash) check(t *testing.T, h history) {
	require.NoError(t, h.err)
	require.Len(t, h.lives, len(c.kills)+1)
	final := h.lives[len(c.kills)]
	for i, m := range c.kills {
		require.True(t, h.lives[i].Killed, "process %d was to be killed", i+1)
		assert.Equal(t, c.effectsAfter(i), h.effects[i], "effects after process %d", i+1)
		if m.found == journal.StateAbsent {
			assert.Empty(t, h.lives[i+1].Found)
		} else if assert.Len(t, h.lives[i+1].Found, 1, "found by process %d", i+2) {
			assert.Equal(t, m.found, h.lives[i+1].Found[0].State, "found by process %d", i+2)
		}
	}
	require.False(t, final.Killed)
	assert.Len(t, h.ledger, c.effectsAfter(len(c.kills)), "effects in the end")
	if c.end() == journal.StateAbsent {
		assert.Empty(t, final.Report.Left, "nothing was begun")
		return
	}
	require.Len(t, final.Report.Left, 1)
	op := final.Report.Left[0]
	assert.Equal(t, c.end().String(), op.State.String(), "in the end; %s", op.Cause)
	completed := c.end() == onceward.StateCompleted
	if !completed {
		assert.LessOrEqual(t, len(h.wire), 1, "requests: it must not be sent again")
	}
	if c.last().found == onceward.StateInFlight {
		assert.Equal(t, 1, final.Report.Resumed.Claimed, "operations of the dead process that Resume took over")
		assert.Equal(t, completed, final.Report.Resumed.Completed == 1, "finished by Resume itself")
	}
	if c.asksAgain() {
		require.Len(t, final.Report.Answers, 1)
		got := final.Report.Answers[0]
		if completed {
			assert.Equal(t, childAnswer{Status: http.StatusOK, Body: `{"id":"ch_1","status":"succeeded"}`}, got)
		} else {
			assert.Equal(t, onceward.ErrOutcomeUnknown.Error(), got.Kind, got.Err)
		}
	}
	c.checkKeys(t, h, op)
}

// checkKeys requires the same key in every process and on the wire.
func (c crash) checkKeys(t *testing.T, h history, op onceward.Operation) {
	for _, l := range h.lives {
		for _, found := range l.Found {
			assert.Equal(t, op.Key, found.Key, "in the journal")
		}
	}
	for _, r := range h.wire {
		if !c.keyless {
			assert.Equal(t, string(op.Key), r.Key, "on the wire: %s %s %v", r.Method, r.Path, r.Header)
		}
		assert.Equal(t, askBody(c.ask().Reference), string(r.Body))
	}
	switch {
	case c.keyless:
		assert.Empty(t, op.Key)
	case c.naming == journal.Carried:
		assert.Equal(t, c.ask().Key, string(op.Key))
	default:
		id, err := uuid.Parse(string(op.Key))
		require.NoError(t, err)
		assert.Equal(t, uuid.Version(4), id.Version())
	}
}

// An undelivered outcome goes to Outcomes.Handle until that accepts it.
func TestKillInHandleRepeatsTheDelivery(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		contract
		point
		state onceward.State
	}{
		{contracts[0], oncetest.AfterEvent(machine.EventComplete), onceward.StateCompleted},
		{contracts[0], oncetest.AfterEvent(machine.EventBegin), onceward.StateCompleted},
		{contracts[3], oncetest.AfterEvent(machine.EventBegin), onceward.StateUnknown},
	} {
		t.Run(row.name+"/"+string(row.point), func(t *testing.T) {
			t.Parallel()
			srv, _ := newChargeServer(t, row.contract)
			plan := childPlan{
				Journal:  filepath.Join(t.TempDir(), "journal.db"),
				Server:   srv.URL,
				Contract: row.name,
				Settles:  true,
				Asks:     []childAsk{{Reference: "invoice-991", Name: "invoice-991/charge"}},
			}
			var lives []life
			for _, at := range []point{row.point, oncetest.InHandle, oncetest.InHandle, "", ""} {
				plan.Doom.At = at
				l, err := live(t.Context(), plan)
				require.NoError(t, err)
				require.Equal(t, at != "", l.Killed)
				lives = append(lives, l)
				plan.Resume, plan.Asks = true, nil
			}
			taken := lives[3].Report
			require.Len(t, taken.Settled, 1)
			assert.Equal(t, "invoice-991/charge", taken.Settled[0].ID)
			assert.Equal(t, row.state, taken.Settled[0].State)
			assert.Equal(t, row.state == onceward.StateCompleted, taken.Settled[0].Answer != nil)
			assert.Equal(t, 1, taken.Resumed.Settled)
			assert.Empty(t, lives[4].Report.Settled, "after it was taken")
			assert.LessOrEqual(t, len(srv.Effects()), 1)
		})
	}
}

// A process is killed around each look-up commit, and while it reads. The next process finds the operation once,
// and sends nothing.
func TestKilledDuringALookup(t *testing.T) {
	t.Parallel()
	for _, at := range []point{
		oncetest.BeforeEvent(machine.EventLook), oncetest.AfterEvent(machine.EventLook), oncetest.AfterStatusLine, oncetest.MidBody,
		oncetest.BeforeEvent(machine.EventEvidence), oncetest.AfterEvent(machine.EventEvidence),
	} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			plan, srv := lostAtTheBank(t)
			plan.Resume = true
			plan.Doom.At = at
			l, err := live(t.Context(), plan)
			require.NoError(t, err)
			require.True(t, l.Killed)

			plan.Doom.At = ""
			l, err = live(t.Context(), plan)
			require.NoError(t, err)
			require.Len(t, l.Found, 1)
			if at == oncetest.AfterEvent(machine.EventEvidence) {
				require.Equal(t, onceward.StateCompleted, l.Found[0].State)
			} else {
				require.Equal(t, onceward.StateUnknown, l.Found[0].State)
				dueAgain(t, plan.Journal) // its lease is over, else
				l, err = live(t.Context(), plan)
				require.NoError(t, err)
			}
			require.Len(t, l.Report.Left, 1)
			op := l.Report.Left[0]
			assert.Equal(t, onceward.StateCompleted, op.State)
			assert.Len(t, op.Evidence, 1)
			assert.Len(t, srv.Effects(), 1)
			assert.Equal(t, 1, strings.Count(srv.Ledger(), "POST /payments"))
		})
	}
}

// A process is killed around an event's commit. The event is delivered again, and counts once.
func TestKilledDuringAWebhook(t *testing.T) {
	t.Parallel()
	for _, at := range []point{oncetest.BeforeEvent(machine.EventEvidence), oncetest.AfterEvent(machine.EventEvidence)} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			plan, srv := lostAtTheBank(t)
			effect := srv.Effects()[0]
			plan.Hears = []string{fmt.Sprintf(`{"id":"evt_1","type":"payment.succeeded","created":%d,"request":{"key":%q},"data":{"id":%q,"created":%d}}`,
				effect.At.Unix(), effect.Key, effect.Object, effect.At.Unix())}
			plan.Doom.At = at
			l, err := live(t.Context(), plan)
			require.NoError(t, err)
			require.True(t, l.Killed)
			plan.Doom.At = ""
			for range 2 {
				l, err = live(t.Context(), plan)
				require.NoError(t, err)
			}
			require.Len(t, l.Report.Left, 1)
			op := l.Report.Left[0]
			assert.Equal(t, onceward.StateCompleted, op.State)
			assert.Len(t, op.Evidence, 1)
			assert.Empty(t, op.Attention, "it took effect once")
			assert.Len(t, srv.Effects(), 1)
		})
	}
}

// lostAtTheBank returns a journal in which a payment is unknown that took effect, and that is due for a look-up.
func lostAtTheBank(t *testing.T) (childPlan, *providertest.Server) {
	t.Helper()
	srv, _ := newChargeServer(t, lookedFor())
	plan := childPlan{
		Journal: filepath.Join(t.TempDir(), "journal.db"), Server: srv.URL, Contract: lookedFor().name, Reconciles: true,
		Asks: []childAsk{{Reference: "invoice-991", Name: "invoice-991/charge"}},
	}
	srv.Script(providertest.DropAfter())
	l, err := live(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, onceward.ErrOutcomeUnknown.Error(), l.Report.Answers[0].Kind, "%+v", l.Report.Answers[0])
	require.Len(t, srv.Effects(), 1)
	plan.Asks = nil
	dueAgain(t, plan.Journal)
	return plan, srv
}

// dueAgain makes a journal's unknown operations due for a look-up.
func dueAgain(t *testing.T, file string) {
	t.Helper()
	j, err := sqlite.Open(file, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventHint, Ref: op.Ref, Handle: op.Handle, At: time.Now()})
		require.NoError(t, err)
	}
}

func newChargeServer(t *testing.T, c contract) (srv *providertest.Server, wire *requestTally) {
	wire = &requestTally{}
	srv = providertest.NewUnstartedServer(c.provider, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"ch_of_%s"}`, r.Header.Get("Idempotency-Key"))
	}))
	srv.RetryAfter = -1
	srv.Observe = func(r providertest.Request) {
		if r.Path == c.path { // otherwise another client's, which knows the port from an earlier server
			wire.record(r)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, wire
}

// requestTally counts a provider's requests by key, and closes a channel after a number of them.
type requestTally struct {
	mu     sync.Mutex
	all    int
	byKey  map[string]int
	strike int
	struck chan struct{}
}

func (r *requestTally) record(req providertest.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey == nil {
		r.byKey = map[string]int{}
	}
	r.all++
	r.byKey[req.Key]++
	if r.struck != nil && r.all >= r.strike {
		close(r.struck)
		r.struck = nil
	}
}

// after returns a channel that is closed with the nth request from now.
func (r *requestTally) after(n int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strike, r.struck = r.all+n, make(chan struct{})
	return r.struck
}

// keys returns how often each key was seen, and resets the counts.
func (r *requestTally) keys() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.byKey
	r.byKey = nil
	return seen
}

// Two processes that start together share the pending operations.
func TestTwoProcessesStartTogether(t *testing.T) {
	t.Parallel()
	srv, wire := newChargeServer(t, contracts[0])
	plan := childPlan{Journal: filepath.Join(t.TempDir(), "journal.db"), Server: srv.URL, Contract: "Stripe"}
	const half = 100
	asks := make([]childAsk, 2*half)
	for i := range asks {
		asks[i] = childAsk{Reference: strconv.Itoa(i), Name: stormName(i)}
	}

	// One process parks its half, and another is killed with its half in flight.
	for range half {
		srv.Script(providertest.Status(http.StatusServiceUnavailable, nil))
	}
	parking := plan
	parking.Asks, parking.Attempts = asks[:half], 1
	parked, err := live(t.Context(), parking)
	require.NoError(t, err)
	for _, got := range parked.Report.Answers {
		require.Contains(t, got.Kind, onceward.ErrPending.Error())
	}
	dying := plan
	dying.Asks, dying.Doom = asks[half:], doom{At: oncetest.AfterEvent(machine.EventBegin), Together: half}
	died, err := live(t.Context(), dying)
	require.NoError(t, err)
	require.True(t, died.Killed)
	require.Empty(t, srv.Effects())
	assert.Len(t, wire.keys(), half)

	srv.Seed(1, providertest.Mix{DelayAfter: 1, MaxDelay: 5 * time.Millisecond})
	plan.Resume, plan.Waits = true, true
	var pair [2]childProcess
	var found [2][]onceward.Operation
	for i := range pair {
		pair[i], err = startProcess(t.Context(), plan)
		require.NoError(t, err)
		found[i], err = pair[i].found()
		require.NoError(t, err, &pair[i].Stderr)
		assert.Len(t, found[i], 2*half)
	}
	for _, p := range pair {
		_, err := p.Stdin.Write([]byte("\n"))
		require.NoError(t, err)
	}
	done := 0
	for i, p := range pair {
		l, err := p.end(found[i])
		require.NoError(t, err)
		t.Logf("process %d: %v", i+1, &l.Report.Resumed)
		done += l.Report.Resumed.Completed
	}
	assert.Equal(t, 2*half, done)
	assert.Len(t, srv.Effects(), 2*half)
	assert.Empty(t, srv.Duplicates(func(e providertest.Effect) string { return string(e.Body) }))
	sent := wire.keys()
	assert.Len(t, sent, 2*half)
	for key, n := range sent {
		assert.Equal(t, 1, n, "requests with key %s", key)
	}
}

func TestPausedProcessKeepsItsOperations(t *testing.T) {
	t.Parallel()
	for _, at := range []point{oncetest.AfterEvent(machine.EventBegin), oncetest.AfterConnect, oncetest.AfterLastByte, oncetest.BeforeEvent(machine.EventComplete)} {
		t.Run("paused "+string(at), func(t *testing.T) {
			t.Parallel()
			srv, _ := newChargeServer(t, contracts[0])
			plan := childPlan{
				Journal:  filepath.Join(t.TempDir(), "journal.db"),
				Server:   srv.URL,
				Contract: "Stripe",
				Asks:     []childAsk{{Reference: "invoice-991", Name: "invoice-991/charge"}},
			}
			pausing := plan
			pausing.Doom = doom{At: at, Stop: true}
			paused, err := startProcess(t.Context(), pausing)
			require.NoError(t, err)
			first, err := paused.found()
			require.NoError(t, err, &paused.Stderr)
			var status syscall.WaitStatus
			_, err = syscall.Wait4(paused.PID(), &status, syscall.WUNTRACED, nil)
			require.NoError(t, err)
			require.True(t, status.Stopped(), "%v: %s", status, &paused.Stderr)

			hasty := plan
			hasty.Resume, hasty.Patience = true, 2*time.Second
			tried, err := live(t.Context(), hasty)
			require.NoError(t, err)
			assert.Equal(t, onceward.StateInFlight, tried.Found[0].State)
			assert.Zero(t, tried.Report.Resumed.Claimed)
			assert.Equal(t, onceward.ErrInFlight.Error(), tried.Report.Answers[0].Kind, tried.Report.Answers[0].Err)
			assert.Equal(t, onceward.StateInFlight, tried.Report.Left[0].State)

			patient := plan
			patient.Resume = true
			waiting, err := startProcess(t.Context(), patient)
			require.NoError(t, err)
			found, err := waiting.found()
			require.NoError(t, err, &waiting.Stderr)
			require.NoError(t, paused.Signal(syscall.SIGCONT))
			went, err := paused.end(first)
			require.NoError(t, err)
			waited, err := waiting.end(found)
			require.NoError(t, err)

			effects := srv.Effects()
			require.Len(t, effects, 1)
			want := childAnswer{Status: http.StatusOK, Body: fmt.Sprintf(`{"id":"ch_of_%s"}`, effects[0].Key)}
			assert.Equal(t, []childAnswer{want}, went.Report.Answers)
			assert.Equal(t, []childAnswer{want}, waited.Report.Answers)
			assert.Equal(t, 1, srv.Requests())
		})
	}
}

// TestStormOfKillsLosesAndDoublesNothing kills a process that charges through
// faults again and again. Its seed repeats faults and kills, but not the scheduling.
func TestStormOfKillsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	kills, seed := soak.Times(8, 200), soak.Seed(t, 1)
	random := rand.New(rand.NewPCG(seed, 0))

	srv, wire := newChargeServer(t, contracts[0])
	srv.Seed(seed, providertest.Mix{
		DropBefore: 0.05, DropAfter: 0.08, Cut: 0.05, DelayBefore: 0.1, DelayAfter: 0.1, Status: 0.1,
		MaxDelay: 20 * time.Millisecond,
		Statuses: []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable},
	})
	plan := childPlan{
		Journal:  filepath.Join(t.TempDir(), "journal.db"),
		Server:   srv.URL,
		Contract: "Stripe",
		Attempts: 3,
		Patience: 2 * time.Second,
	}
	names := 8 * kills
	for n := range kills {
		plan.Storm = &stormPlan{Seed: seed, Life: n, Names: names}
		plan.Doom = doom{}
		strike := time.Duration(0)
		var struck <-chan struct{}
		switch random.IntN(8) {
		case 0, 1:
			plan.Doom = stormDooms[random.IntN(len(stormDooms))]
			plan.Doom.Pass = random.IntN(20)
		case 2:
			strike = time.Duration(random.IntN(60)) * time.Millisecond
		default:
			struck = wire.after(1 + random.IntN(60))
		}
		delay := time.Duration(random.IntN(2000)) * time.Microsecond
		pause := time.Duration(20+random.IntN(80)) * time.Millisecond

		p, err := startProcess(t.Context(), plan)
		require.NoError(t, err)
		late := time.Second
		if strike > 0 {
			late = strike
		}
		over := make(chan error, 1)
		var l life
		go func() {
			var err error
			l, err = p.end(nil)
			over <- err
		}()
		select {
		case err = <-over:
		case <-struck:
			<-time.After(delay)
			p.Kill()
			err = <-over
		case <-time.After(late):
			p.Kill()
			err = <-over
		}
		require.NoError(t, err, "process %d", n+1)
		require.True(t, l.Killed, "process %d", n+1)
		<-time.After(pause)
	}
	plan.Storm = &stormPlan{Seed: seed, Life: kills, Names: names, Last: true}
	plan.Doom = doom{}
	p, err := startProcess(t.Context(), plan)
	require.NoError(t, err)
	left, err := p.found()
	if err != nil {
		_, failed := p.end(nil)
		require.NoError(t, errors.Join(err, failed))
	}
	killed, err := p.End()
	require.NoError(t, err)
	require.False(t, killed)
	srv.Close()

	effects := map[string]int{}
	for _, e := range srv.Effects() {
		effects[e.Key]++
	}
	assert.Empty(t, srv.Duplicates(func(e providertest.Effect) string { return string(e.Body) }), "references with more than one effect")

	states, recorded, named := map[onceward.State]int{}, map[string]bool{}, 0
	for _, op := range left {
		states[op.State]++
		recorded[string(op.Key)] = true
		n := effects[string(op.Key)]
		switch {
		case strings.HasPrefix(op.ID, "invoice-"):
			named++
			assert.Equal(t, onceward.StateCompleted, op.State, "%s: %s", op.ID, op.Cause)
			assert.Equal(t, 1, n, "effects of %s", op.ID)
		case op.State == onceward.StateCompleted:
			assert.Equal(t, 1, n, "effects of %s, which is completed", op.ID)
		case op.State == onceward.StateCancelled:
			assert.Zero(t, n, "effects of %s, which is cancelled", op.ID)
		default:
			assert.LessOrEqual(t, n, 1, "effects of %s", op.ID)
		}
	}
	assert.Equal(t, names, named, "names that the journal has")
	for key := range wire.keys() {
		if !recorded[key] {
			t.Errorf("key %s was sent without a record", key)
		}
	}
	t.Logf("%d kills, %d requests, %d effects; operations: %v", kills, srv.Requests(), len(srv.Effects()), states)
}

// stormDooms are the points at which a storm process kills itself.
var stormDooms = func() (all []doom) {
	for _, k := range []machine.EventKind{machine.EventBegin, machine.EventComplete, machine.EventPark, machine.EventClaim} {
		all = append(all, doom{At: oncetest.BeforeEvent(k)}, doom{At: oncetest.AfterEvent(k)})
	}
	for _, p := range []point{oncetest.AfterConnect, oncetest.AfterLastByte, oncetest.AfterStatusLine, oncetest.MidBody} {
		all = append(all, doom{At: p})
	}
	return all
}()
