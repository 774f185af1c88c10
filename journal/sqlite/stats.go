package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/format"
)

// Stats is how a journal does.
type Stats struct {
	// Operations by their state, of all processes.
	Pending, InFlight, Unknown, Cancelled int64
	// Begun counts all that were ever begun. What is in none of the states above is
	// completed, or was reaped: to tell these apart, everything would have to be read.
	Begun int64
	// OldestPending is when the pending operation that was begun first was begun; zero:
	// none is pending.
	OldestPending time.Time

	// FileBytes is the size of the file, and FreeBytes what of it is free to be used
	// again. WALBytes is the size of the -wal file, which is used from its beginning
	// again and again, and is not cut below 64 MiB.
	FileBytes, FreeBytes, WALBytes int64

	// Commits of this process since it opened the file, and the events and other
	// requests that they carried. What follows is of the latest 1,024 of them.
	Commits, Requests  int64
	BatchP50, BatchMax int // requests in a commit
	// Commit latencies, from the last request of a commit to its durability.
	CommitP50, CommitP99, CommitMax time.Duration
}

// Stats tells how the journal does. Its cost grows with the operations that have no
// answer, not with those that have one. It does not wait for the writer.
func (j *Journal) Stats(ctx context.Context) (Stats, error) {
	if err := j.open(ctx); err != nil {
		return Stats{}, err
	}
	var s Stats
	j.file.writer.commits.tell(&s)
	err := j.file.readers.read(ctx, func(r *reader) error {
		return r.snapshot(func() error { return s.count(r, j.file.writer) })
	})
	if err != nil {
		return Stats{}, err
	}
	switch info, err := os.Stat(j.file.path + "-wal"); {
	case err == nil:
		s.WALBytes = info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return Stats{}, conn.Explain(j.file.path, "look at the WAL", err)
	}
	return s, nil
}

// stateCounts counts operations with a row of their own, by the partial indices.
const stateCounts = `SELECT
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1),
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder IS NOT NULL AND state = 2),
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_failed WHERE state > 3 AND state = 4),
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_failed WHERE state > 3 AND state = 5),
	(SELECT newest FROM onceward_log ORDER BY seq DESC LIMIT 1),
	(SELECT page_size FROM pragma_page_size), (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count)`

// firstPending is the pending operation that was begun first.
const firstPending = "SELECT " + format.Columns + " FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 ORDER BY handle LIMIT 1"

func (s *Stats) count(r *reader, w *writer) error {
	err := r.each(stateCounts, func(v []driver.Value) error {
		n := func(i int) int64 { i64, _ := v[i].(int64); return i64 }
		s.Pending, s.InFlight, s.Unknown, s.Cancelled, s.Begun = n(0), n(1), n(2), n(3), n(4)
		s.FileBytes, s.FreeBytes = n(5)*n(6), n(5)*n(7)
		return nil
	})
	if err != nil {
		return err
	}
	err = r.each(firstPending, func(v []driver.Value) error {
		row, err := format.ReadRow(v)
		s.OldestPending = row.Op.CreatedAt
		return err
	})
	if err != nil {
		return err
	}
	recent, err := w.unfolded(r)
	for _, k := range recent {
		switch k.Op.State {
		case journal.StatePending:
			s.Pending++
			if s.OldestPending.IsZero() {
				s.OldestPending = k.Op.CreatedAt
			}
		case journal.StateInFlight:
			s.InFlight++
		case journal.StateUnknown:
			s.Unknown++
		case journal.StateCancelled:
			s.Cancelled++
		}
	}
	return err
}

// commits are the writer's latest ones.
type commits struct {
	mu       sync.Mutex
	n        int64
	requests int64
	latest   [1024]commit
}

type commit struct {
	requests int32
	took     time.Duration
}

func (c *commits) add(requests int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest[c.n%int64(len(c.latest))] = commit{int32(requests), took}
	c.n++
	c.requests += int64(requests)
}

// carried is how many requests were carried so far.
func (c *commits) carried() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

func (c *commits) tell(s *Stats) {
	c.mu.Lock()
	s.Commits, s.Requests = c.n, c.requests
	latest := slices.Clone(c.latest[:min(c.n, int64(len(c.latest)))])
	c.mu.Unlock()
	if len(latest) == 0 {
		return
	}
	batches, took := make([]int, len(latest)), make([]time.Duration, len(latest))
	for i, c := range latest {
		batches[i], took[i] = int(c.requests), c.took
	}
	slices.Sort(batches)
	slices.Sort(took)
	last := len(latest) - 1
	s.BatchP50, s.BatchMax = batches[last/2], batches[last]
	s.CommitP50, s.CommitP99, s.CommitMax = took[last/2], took[last*99/100], took[last]
}
