package batching

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// Queue has the waiting writes, and says which of them are the next batch of a lane. If there are several lanes, and
// many writes wait, they overlap. While the server executes one batch, the callers of the last one are answered and
// return with the next. A batch costs the server a fsync and some statements, whatever its size. So another lane
// starts one only if as many writes wait as those in flight have.
type Queue struct {
	wake    []chan struct{} // one for each lane
	closing <-chan struct{} // ends the queue

	mu       sync.Mutex
	busy     []bool // whether a lane has a batch
	batches  int    // that are in flight
	writes   int    // in them
	flying   map[journal.Ref]struct{}
	waiting  []*Write
	awaited  int // those of them whose callers wait
	isClosed bool
}

// company is the least number of waiting writes for a batch beside another one.
const company = 24

// NewQueue returns a queue for so many lanes. It ends once closing does.
func NewQueue(lanes int, closing <-chan struct{}) *Queue {
	q := &Queue{closing: closing, busy: make([]bool, lanes), flying: make(map[journal.Ref]struct{})}
	for range lanes {
		q.wake = append(q.wake, make(chan struct{}, 1))
	}
	return q
}

// Waiting returns how many writes wait for a batch.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Submit adds the write to those that wait for a batch.
func (q *Queue) Submit(ctx context.Context, w *Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed {
		return journal.ErrClosed
	}
	q.waiting = append(q.waiting, w)
	if !w.Rider {
		q.awaited++
	}
	q.ring()
	return nil
}

// ring wakes a lane that is free, if there is something to do. q.mu is held.
func (q *Queue) ring() {
	if !q.due() && (len(q.waiting) == 0 || q.awaited > 0) {
		return
	}
	if i := slices.Index(q.busy, false); i >= 0 {
		select {
		case q.wake[i] <- struct{}{}:
		default: // it will look
		}
	}
}

// due reports whether it is time for a batch. q.mu is held.
func (q *Queue) due() bool {
	return q.awaited > 0 && (q.batches == 0 || len(q.waiting) >= max(company, q.writes/q.batches))
}

// Next waits for a batch and returns it, or none if the Journal is closed.
func (q *Queue) Next(i int) []*Write {
	var alone <-chan time.Time
	for {
		q.mu.Lock()
		due, riders := q.due(), len(q.waiting) > 0 && q.awaited == 0
		q.mu.Unlock()
		if due {
			runtime.Gosched() // one chance for others to come
			if batch := q.take(i, false); len(batch) > 0 {
				return batch
			}
		}
		if riders && alone == nil {
			alone = time.After(riderWait)
		}
		select {
		case <-q.wake[i]:
		case <-alone:
			alone = nil
			if batch := q.take(i, true); len(batch) > 0 {
				return batch
			}
		case <-q.closing:
			q.close()
			return nil
		}
	}
}

// take returns a batch of waiting writes, as many as it has room for. It leaves out operations that have a write in
// flight. So the writes of one operation go in order. And two batches never begin the same name at once, which a lane
// that lost its answer could not tell apart. If no batch is due, take returns none, unless anyhow is set.
func (q *Queue) take(i int, anyhow bool) (batch []*Write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !anyhow && !q.due() {
		return nil
	}
	left := q.waiting[:0]
	bytes, full := 0, false
	for _, w := range q.waiting {
		_, flies := q.flying[w.Op.Ref]
		if !flies && !full {
			bytes += w.size()
			full = len(batch) > 0 && (bytes > MaxBytes || len(batch) >= maxBatch)
		}
		if flies || full {
			left = append(left, w)
			continue
		}
		batch = append(batch, w)
		if !w.Rider {
			q.awaited--
		}
	}
	clear(q.waiting[len(left):])
	q.waiting = left
	if len(batch) == 0 {
		return nil
	}
	for _, w := range batch {
		q.flying[w.Op.Ref] = struct{}{}
	}
	q.busy[i], q.batches, q.writes = true, q.batches+1, q.writes+len(batch)
	q.ring()
	return batch
}

// Landed records that the result of a batch is known.
func (q *Queue) Landed(i int, batch []*Write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range batch {
		delete(q.flying, w.Op.Ref)
	}
	q.busy[i], q.batches, q.writes = false, q.batches-1, q.writes-len(batch)
	q.ring()
}

// close releases writes that came too late.
func (q *Queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isClosed = true
	EndAll(q.waiting, journal.ErrClosed)
	q.waiting, q.awaited = nil, 0
}
