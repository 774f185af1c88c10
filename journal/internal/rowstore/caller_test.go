package rowstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
	"github.com/onceward/onceward/seal"
)

// process is a process that uses a journal in a database.
type process struct {
	t     *testing.T
	j     *rowstore.Store
	s     machine.Session
	log   *warnings
	asker int64
	now   time.Time
}

// warnings collects what a store logs.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *warnings) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), "\n")
}

func newProcess(t *testing.T, db *faultdb.Database) *process { return newSealer(t, db, nil) }

// newSealer returns a process with a ring, which may be nil.
func newSealer(t *testing.T, db *faultdb.Database, ring *seal.Ring) *process {
	t.Helper()
	log := new(warnings)
	j, err := rowstore.Open(t.Context(), db.Open(), rowstore.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Seal: ring})
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	return &process{t: t, j: j, s: s, log: log, now: time.Now()}
}

// history runs a test of a database in a bubble, with virtual time.
func history(t *testing.T, test func(t *testing.T, db *faultdb.Database, p *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := faultdb.New()
		p := newProcess(t, db)
		defer p.j.Close()
		test(t, db, p)
	})
}

func ref(id string) journal.Ref { return journal.Ref{ID: id} }

func (p *process) begin(id string) machine.Event {
	p.asker++
	return machine.Event{
		Kind: machine.EventBegin, Ref: ref(id), At: p.now, Session: p.s.ID(), Asker: p.asker,
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id,
			Terms:   journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

func (p *process) of(kind machine.EventKind, op journal.Operation) machine.Event {
	return machine.Event{Kind: kind, At: p.now, Session: p.s.ID(), Ref: op.Ref, Handle: op.Handle, Claim: op.Claim, Generation: op.Generation}
}

func (p *process) complete(op journal.Operation) machine.Event {
	ev := p.of(machine.EventComplete, op)
	ev.Answer, ev.Attempts = &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)}, 1
	return ev
}

func (p *process) park(op journal.Operation, pause time.Duration) machine.Event {
	ev := p.of(machine.EventPark, op)
	ev.Open, ev.Attempts, ev.Due = true, 1, p.now.Add(pause)
	return ev
}

func (p *process) apply(ev machine.Event) machine.Result {
	p.t.Helper()
	r, err := p.j.Apply(p.t.Context(), ev)
	require.NoError(p.t, err)
	return r
}

// decide applies an event that must be decided so.
func (p *process) decide(ev machine.Event, want machine.Decision) journal.Operation {
	p.t.Helper()
	r := p.apply(ev)
	require.Equal(p.t, want.String(), r.Decision.String())
	return r.Operation
}

// executed begins a new operation.
func (p *process) executed(id string) journal.Operation {
	p.t.Helper()
	return p.decide(p.begin(id), machine.Execute)
}

func (p *process) get(id string) journal.Operation {
	p.t.Helper()
	op, err := p.j.Get(p.t.Context(), ref(id))
	require.NoError(p.t, err)
	return op
}

func (p *process) claim(limit int) []machine.Result {
	p.t.Helper()
	p.asker++
	results, err := p.j.Claim(p.t.Context(), machine.Event{Kind: machine.EventClaim, At: p.now, Session: p.s.ID(), Asker: p.asker}, limit)
	require.NoError(p.t, err)
	return results
}

// reply is the result of an event that is applied beside others.
type reply struct {
	machine.Result
	err error
}

// applied applies an event in a goroutine.
func (p *process) applied(ev machine.Event) <-chan reply {
	c := make(chan reply, 1)
	go func() {
		r, err := p.j.Apply(p.t.Context(), ev)
		c <- reply{r, err}
	}()
	return c
}

// together applies events in one transaction: they arrive while another one commits.
func (p *process) together(db *faultdb.Database, evs ...machine.Event) []reply {
	p.t.Helper()
	release := db.BlockCommits()
	p.asker++
	first := p.applied(p.begin(fmt.Sprint("first of ", p.asker)))
	synctest.Wait()
	waiting := make([]<-chan reply, len(evs))
	for i, ev := range evs {
		waiting[i] = p.applied(ev)
		synctest.Wait()
	}
	release()
	require.NoError(p.t, (<-first).err)
	replies := make([]reply, len(evs))
	for i, c := range waiting {
		replies[i] = <-c
	}
	return replies
}

// strangers are begins of operations that no other event is about.
func (p *process) strangers(n int) (evs []machine.Event) {
	for i := range n {
		evs = append(evs, p.begin(fmt.Sprint("stranger-", p.asker, "-", i)))
	}
	return evs
}

// requireExecuted checks that the strangers executed.
func requireExecuted(t *testing.T, replies []reply) {
	t.Helper()
	for _, r := range replies {
		require.NoError(t, r.err)
		require.Equal(t, machine.Execute.String(), r.Decision.String())
	}
}

// joining is a driver that calls joined as a session has started.
type joining struct {
	rowstore.Driver
	joined func()
	left   []string
}

func (d *joining) Join(ctx context.Context) (string, error) {
	id, err := d.Driver.Join(ctx)
	d.joined()
	return id, err
}

func (d *joining) Leave(ctx context.Context, id string) error {
	d.left = append(d.left, id)
	return d.Driver.Leave(ctx, id)
}

// A session that starts while its journal is closed is ended.
func TestJoinOfAJournalThatIsBeingClosed(t *testing.T) {
	d := &joining{Driver: faultdb.New().Open()}
	j, err := rowstore.Open(t.Context(), d, rowstore.Options{})
	require.NoError(t, err)
	d.joined = func() { require.NoError(t, j.Close()) }
	_, err = j.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrClosed)
	assert.Len(t, d.left, 1)
}
