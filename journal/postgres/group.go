package postgres

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// group has the lanes that commit batches, and the waiting writes. If there are several lanes, and many writes wait,
// they overlap. While the server executes one batch, the callers of the last one are answered and return with the
// next. A batch costs the server a fsync and some statements, whatever its size. So another lane starts one only if
// as many writes wait as those in flight have.
type group struct {
	j     *Journal
	lanes []*lane
	wake  []chan struct{} // one for each lane

	mu       sync.Mutex
	busy     []bool // whether a lane has a batch
	batches  int    // that are in flight
	writes   int    // in them
	flying   map[journal.Ref]struct{}
	waiting  []*write
	awaited  int // those of them whose callers wait
	isClosed bool
}

// company is the least number of waiting writes for a batch beside another one.
const company = 24

func (j *Journal) newGroup(lanes int) *group {
	g := &group{j: j, busy: make([]bool, lanes), flying: make(map[journal.Ref]struct{})}
	for i := range lanes {
		g.lanes = append(g.lanes, j.newLane(i))
		g.wake = append(g.wake, make(chan struct{}, 1))
	}
	return g
}

// run commits batches on one of the lanes until the Journal is closed.
func (g *group) run(i int) {
	l := g.lanes[i]
	defer l.hangUp()
	for {
		batch := g.next(i)
		if len(batch) == 0 {
			return
		}
		all := slices.Clone(batch) // commit takes out what it has ended
		g.commit(l, batch)
		g.landed(i, all)
	}
}

// submit adds the write to those that wait for a batch.
func (g *group) submit(ctx context.Context, w *write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed {
		return journal.ErrClosed
	}
	g.waiting = append(g.waiting, w)
	if !w.rider {
		g.awaited++
	}
	g.ring()
	return nil
}

// ring wakes a lane that is free, if there is something to do. g.mu is held.
func (g *group) ring() {
	if !g.due() && (len(g.waiting) == 0 || g.awaited > 0) {
		return
	}
	if i := slices.Index(g.busy, false); i >= 0 {
		select {
		case g.wake[i] <- struct{}{}:
		default: // it will look
		}
	}
}

// due reports whether it is time for a batch. g.mu is held.
func (g *group) due() bool {
	return g.awaited > 0 && (g.batches == 0 || len(g.waiting) >= max(company, g.writes/g.batches))
}

// next waits for a batch and returns it, or none if the Journal is closed.
func (g *group) next(i int) []*write {
	var alone <-chan time.Time
	for {
		g.mu.Lock()
		due, riders := g.due(), len(g.waiting) > 0 && g.awaited == 0
		g.mu.Unlock()
		if due {
			runtime.Gosched() // one chance for others to come
			if batch := g.take(i, false); len(batch) > 0 {
				return batch
			}
		}
		if riders && alone == nil {
			alone = time.After(riderWait)
		}
		select {
		case <-g.wake[i]:
		case <-alone:
			alone = nil
			if batch := g.take(i, true); len(batch) > 0 {
				return batch
			}
		case <-g.j.background.Done():
			g.close()
			return nil
		}
	}
}

// take returns a batch of waiting writes, as many as it has room for. It leaves out operations that have a write in
// flight. So the writes of one operation go in order, and two batches never begin the same name at once (see reread).
// If no batch is due, take returns none, unless anyhow is set.
func (g *group) take(i int, anyhow bool) (batch []*write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !anyhow && !g.due() {
		return nil
	}
	left := g.waiting[:0]
	bytes, full := 0, false
	for _, w := range g.waiting {
		_, flies := g.flying[w.op.Ref]
		if !flies && !full {
			bytes += w.size()
			full = len(batch) > 0 && (bytes > maxBatchBytes || len(batch) >= maxBatch)
		}
		if flies || full {
			left = append(left, w)
			continue
		}
		batch = append(batch, w)
		if !w.rider {
			g.awaited--
		}
	}
	clear(g.waiting[len(left):])
	g.waiting = left
	if len(batch) == 0 {
		return nil
	}
	for _, w := range batch {
		g.flying[w.op.Ref] = struct{}{}
	}
	g.busy[i], g.batches, g.writes = true, g.batches+1, g.writes+len(batch)
	g.ring()
	return batch
}

// landed records that the result of a batch is known.
func (g *group) landed(i int, batch []*write) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range batch {
		delete(g.flying, w.op.Ref)
	}
	g.busy[i], g.batches, g.writes = false, g.batches-1, g.writes-len(batch)
	g.ring()
}

// close releases writes that came too late.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isClosed = true
	endAll(g.waiting, journal.ErrClosed)
	g.waiting, g.awaited = nil, 0
}
