//go:build unix

package sqlite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// promise is the result that a caller got of an operation: that it was begun, and its outcome, if it got one.
type promise struct {
	outcome journal.State // StateAbsent means none yet
}

// bodyOf is the body of the request with that id. Some bodies fill several pages.
func bodyOf(id string) []byte {
	body := bytes.Repeat([]byte(id+" "), 20)
	if strings.HasSuffix(id, "7") { // a large one, which can't be compressed
		body = make([]byte, 50*len(body))
		_, _ = rand.NewChaCha8(sha256.Sum256([]byte(id))).Read(body)
	}
	return body
}

// life is a process's use of a journal. It reports the results that it got.
type life struct {
	journal *sqlite.Journal
	session machine.Session
	name    string
	told    func(id string, p promise)
}

// operation begins one operation and gives it a random end. A failed call makes no promise.
func (l *life) operation(ctx context.Context, id string, chance int) {
	ev := begin(id, l.session)
	if chance%2 == 0 {
		ev = generate(id, l.session)
	}
	ev.Intent.Request.Body = bodyOf(id)
	begun, err := l.journal.Apply(ctx, ev)
	if err != nil {
		return
	}
	l.told(id, promise{})
	ev = complete(begun.Operation, l.session)
	outcome := journal.StateCompleted
	switch chance % 10 {
	case 0, 1:
		return // it stays in flight
	case 2:
		ev.Kind, ev.Answer, ev.Open, ev.Due = machine.EventPark, nil, true, time.Now().Add(time.Hour)
		outcome = journal.StatePending
	case 3:
		ev.Kind, ev.Answer, ev.Unsent, ev.Delivered = machine.EventCancel, nil, true, false
		outcome = journal.StateCancelled
	case 4:
		ev.Delivered = false
	default:
		ev.Answer.Body = bodyOf("answer to " + id)
	}
	if chance%10 == 4 {
		ev.Answer.Body = bodyOf("answer to " + id)
	}
	if _, err := l.journal.Apply(ctx, ev); err != nil {
		return
	}
	l.told(id, promise{outcome: outcome})
	if chance%10 == 4 {
		_, _ = l.journal.Apply(ctx, machine.Event{Kind: machine.EventDeliver, Ref: begun.Operation.Ref,
			Handle: begun.Operation.Handle, At: time.Now(), Session: l.session.ID(), Outcome: journal.StateCompleted})
	}
}

// live makes callers begin operations side by side, with names of this life, and makes other calls in between. The
// journal may hold operations of several lives.
func (l *life) live(ctx context.Context, random *rand.Rand, callers, operations int) {
	var wg sync.WaitGroup
	for g := range callers {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		wg.Go(func() {
			for n := range operations / callers {
				l.operation(ctx, fmt.Sprint(l.name, "-", g, "-", n), random.IntN(1000))
				switch random.IntN(200) {
				case 0:
					for range l.journal.List(ctx, journal.Filter{Limit: 10}) {
					}
				case 1:
					_, _ = l.journal.Reap(ctx, machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: time.Hour}, 10)
				case 2:
					if s, err := l.journal.Join(ctx); err == nil {
						_ = s.End(ctx)
					}
				}
			}
		})
	}
	wg.Wait()
}

// unlikeError says that an operation has another request or answer than the caller gave.
type unlikeError struct{ id, what string }

func (e *unlikeError) Error() string { return e.id + ": its " + e.what + " is not what it was" }

// inspect opens the journal at path and reports the promises that it breaks.
func inspect(ctx context.Context, path string, known map[string]promise) (err error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return fmt.Errorf("it does not open: %w", err)
	}
	defer func() {
		if closed := j.Close(); err == nil {
			err = closed
		}
	}()
	found := map[string]journal.State{}
	for op, err := range j.List(ctx, journal.Filter{}) {
		if err != nil {
			return fmt.Errorf("it can't be listed: %w", err)
		}
		if _, twice := found[op.ID]; twice {
			return fmt.Errorf("%s is in it twice", op.ID)
		}
		found[op.ID] = op.State
	}
	for i, id := range slices.Sorted(maps.Keys(known)) {
		p := known[id]
		if found[id] == p.outcome && i%4 > 0 {
			continue // reading all of them would take long
		}
		op, err := j.Get(ctx, journal.Ref{ID: id})
		if err != nil {
			return fmt.Errorf("%s, of which somebody was told: %w", id, err)
		}
		if found[id] != op.State {
			return fmt.Errorf("%s is %s, and listed as %s", id, op.State, found[id])
		}
		if p.outcome != journal.StateAbsent && op.State != p.outcome {
			return fmt.Errorf("%s is %s, and somebody was told that it is %s", id, op.State, p.outcome)
		}
		if !bytes.Equal(op.Request.Body, bodyOf(id)) {
			return &unlikeError{id, "request"}
		}
		if op.State == journal.StateCompleted && !bytes.Equal(op.Answer.Body, bodyOf("answer to "+id)) {
			return &unlikeError{id, "answer"}
		}
	}
	s, err := j.Join(ctx)
	if err != nil {
		return fmt.Errorf("no session can be started: %w", err)
	}
	for {
		results, err := j.Claim(ctx, claim(s), 100)
		if err != nil {
			return fmt.Errorf("nothing can be taken over: %w", err)
		}
		for _, result := range results {
			op := result.Operation
			if state := found[op.ID]; result.Decision == machine.Execute && state != journal.StateInFlight {
				return fmt.Errorf("%s was taken over, and was %s", op.ID, state)
			}
			delete(found, op.ID)
		}
		if len(results) < 100 {
			break
		}
	}
	for id, state := range found {
		if state == journal.StateInFlight {
			return fmt.Errorf("%s was in flight, and was not taken over", id)
		}
	}
	return sound(ctx, j)
}

// recorded runs several lives on a disk, in a journal with these options. fault makes calls fail at random meanwhile.
func recorded(t *testing.T, random *rand.Rand, opts sqlite.Options, d *disk, fault func(diskDid, string) int32) *disk {
	for n := range 3 {
		d.lead(t, random, fmt.Sprint("life-", n), opts, fault)
	}
	d.stop()
	return d
}

// lead runs one life, and closes the journal at its end.
func (d *disk) lead(t *testing.T, random *rand.Rand, name string, opts sqlite.Options, fault func(diskDid, string) int32) {
	j, err := sqlite.Open(d.path, opts)
	require.NoError(t, err)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	l := &life{journal: j, session: s, name: name, told: func(id string, p promise) {
		d.tell(func(known map[string]promise) { known[id] = p })
	}}
	if fault != nil {
		d.fault.Store(&fault)
	}
	var stop func()
	if fault == nil {
		stop = checkpointOften(t, d)
	} else { // another program may trust a file whose sync has failed
		stop = d.often(t, 100, func(context.Context, int) { sqlite.Checkpoint(j) })
	}
	l.live(t.Context(), random, 16, soak.Times(200, 640))
	stop()
	d.fault.Store(nil)
	if fault != nil {
		hears(t.Context(), j, s)
	}
	if random.IntN(2) == 0 {
		require.NoError(t, s.End(t.Context()))
	}
	require.NoError(t, j.Close())
}

// checkpointOften makes the WAL start over more often than by itself.
func checkpointOften(t *testing.T, d *disk) (stop func()) {
	other := anotherProcess(t, d.path)
	modes := []string{"PASSIVE", "RESTART", "TRUNCATE"}
	enough := d.often(t, 400, func(ctx context.Context, i int) {
		_, _ = other.ExecContext(ctx, "PRAGMA wal_checkpoint("+modes[i%len(modes)]+")")
	})
	return func() { enough(); _ = other.Close() }
}

// often calls f after so many events each, until stop is called.
func (d *disk) often(t *testing.T, events int, f func(ctx context.Context, i int)) (stop func()) {
	ctx, enough := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; d.more(ctx, events); i++ {
			f(ctx, i)
		}
	}()
	return func() { enough(); <-ended }
}

// cut is a moment at which the power is lost.
type cut struct {
	after int // number of events
	loss  loss
}

func (c cut) String() string {
	return fmt.Sprintf("after %d events, %.0f %% of what was not synced, in order: %v", c.after, 100*c.loss.odds, c.loss.order)
}

// cuts returns n moments, most of them just before or after a sync.
func (d *disk) cuts(random *rand.Rand, n int) (all []cut) {
	var syncs []int
	for i, e := range d.events {
		if e.did == synced {
			syncs = append(syncs, i, i+1)
		}
	}
	for range n {
		c := cut{after: syncs[random.IntN(len(syncs))]}
		if random.IntN(4) == 0 {
			c.after = random.IntN(len(d.events) + 1)
		}
		c.loss = loss{
			random: rand.New(rand.NewPCG(random.Uint64(), 0)),
			odds:   []float64{0, 0, 0.1, 0.5, 0.9, 1}[random.IntN(6)],
			order:  random.IntN(3) == 0,
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cut) int { return a.after - b.after })
	return all
}

// after calls f at each cut, in order, with the faults of the files that the disk leaves. known is what callers knew
// before the disk's first event.
func (d *disk) after(t *testing.T, known map[string]promise, cuts []cut, f func(cut, error) (goOn bool)) {
	type left struct {
		cut
		path  string
		known map[string]promise
	}
	found := make(chan left)
	var wg sync.WaitGroup
	var enough atomic.Bool
	dir := t.TempDir()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for l := range found {
				if err := inspect(t.Context(), l.path, l.known); !f(l.cut, err) {
					enough.Store(true)
				}
				assert.NoError(t, os.RemoveAll(filepath.Dir(l.path)))
			}
		})
	}
	p := d.platter(known)
	n := 0
	for i, c := range cuts {
		for ; n < c.after; n++ {
			p.does(n, d.events[n])
		}
		if enough.Load() {
			break
		}
		dir := filepath.Join(dir, strconv.Itoa(i))
		require.NoError(t, os.Mkdir(dir, 0o700))
		found <- left{c, p.leave(t, dir, c.loss), maps.Clone(p.known)}
	}
	close(found)
	wg.Wait()
}

// A loss of power loses nothing that a caller was promised.
func TestPowerLossLosesNoAcknowledgedCommit(t *testing.T) {
	t.Cleanup(sqlite.MarkAlways())
	random := seeded(t)
	d := recorded(t, random, sqlite.Options{}, record(t, filepath.Join(t.TempDir(), "journal.db")), nil)
	cuts := d.cuts(random, soak.Times(8, 60))
	d.after(t, map[string]promise{}, cuts, func(c cut, err error) bool { return assert.NoError(t, err, "%s", c) })
	t.Logf("%d events, %d cuts", len(d.events), len(cuts))
}

// A loss of power soon after another one loses nothing that a caller was promised.
func TestPowerLossSoonAfterAnother(t *testing.T) {
	t.Cleanup(sqlite.MarkAlways())
	random := seeded(t)
	dir := t.TempDir()
	first := recorded(t, random, sqlite.Options{}, record(t, filepath.Join(dir, "journal.db")), nil)
	p := first.platter(map[string]promise{})
	done := 0
	for i, c := range first.cuts(random, soak.Times(2, 6)) {
		for ; done < c.after; done++ {
			p.does(done, first.events[done])
		}
		dir := filepath.Join(dir, strconv.Itoa(i))
		require.NoError(t, os.Mkdir(dir, 0o700))
		second := record(t, p.leave(t, dir, c.loss))
		second.lead(t, random, "another life", sqlite.Options{}, nil)
		second.stop()
		second.after(t, maps.Clone(p.known), second.cuts(random, soak.Times(4, 8)), func(again cut, err error) bool {
			return assert.NoError(t, err, "%s, and %s", c, again)
		})
	}
}

// Failed writes and syncs, together with a loss of power, lose nothing that a caller was promised.
func TestPowerLossAndWritesThatFail(t *testing.T) {
	t.Cleanup(sqlite.MarkAlways())
	n := soak.Times(8, 40)
	random := seeded(t)
	chance := rand.New(rand.NewPCG(random.Uint64(), random.Uint64())) // only the disk uses it, in another goroutine
	faults := 0
	var mu sync.Mutex
	d := recorded(t, random, sqlite.Options{}, record(t, filepath.Join(t.TempDir(), "journal.db")), func(what diskDid, _ string) int32 {
		mu.Lock()
		defer mu.Unlock()
		if chance.IntN(60) > 0 {
			return sqlite3.SQLITE_OK
		}
		faults++
		switch what {
		case synced:
			return sqlite3.SQLITE_IOERR_FSYNC
		case truncated:
			return sqlite3.SQLITE_IOERR_TRUNCATE
		case removed:
			return sqlite3.SQLITE_IOERR_DELETE
		}
		return []int32{sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_FULL}[chance.IntN(2)]
	})
	require.Greater(t, faults, 5) // about 40: the number of writes depends on how many events share a commit
	cuts := d.cuts(random, n)
	d.after(t, map[string]promise{}, cuts, func(c cut, err error) bool { return assert.NoError(t, err, "%s", c) })
	t.Logf("%d events, %d faults, %d cuts", len(d.events), faults, len(cuts))
}

// The tests notice a loss of power if nothing is synced.
func TestPowerLossWhereNothingIsSynced(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"by a checkpoint": "", "but the file itself": "-wal"} {
		t.Run(name, func(t *testing.T) {
			d := record(t, filepath.Join(t.TempDir(), "journal.db"))
			d.lies = func(synced string) bool { return synced == file }
			d.losesSomething(t)
		})
	}
}

// losesSomething runs lives on a disk that does not sync everything. After a loss of power, an acknowledged event is
// missing.
func (d *disk) losesSomething(t *testing.T) {
	t.Helper()
	random := seeded(t)
	recorded(t, random, sqlite.Options{}, d, nil)
	// Before each of these cuts, an event was acknowledged.
	var cuts []cut
	for _, c := range d.cuts(random, 100) {
		if c.loss.odds = 0; c.after > len(d.events)/10 {
			cuts = append(cuts, c)
		}
	}
	var lost atomic.Int32
	d.after(t, map[string]promise{}, cuts, func(c cut, err error) bool {
		if err != nil && lost.Add(1) == 1 {
			t.Log(c, err)
		}
		return lost.Load() == 0
	})
	assert.Positive(t, lost.Load())
}
