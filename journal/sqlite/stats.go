package sqlite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// Stats describes a journal's state.
type Stats struct {
	journal.Stats

	// FreeBytes is the reusable part of FileBytes. WALBytes is the -wal file's size. The -wal file is reused from the
	// beginning, and is not cut below 64 MiB.
	FreeBytes int64

	// Commits counts this process's commits since the Open, and Requests the events and other requests in these commits.
	// The following fields describe the latest 1,024 commits.
	Commits, Requests  int64
	BatchP50, BatchMax int // requests in a commit
	// CommitP50, CommitP99 and CommitMax are commit latencies, from a commit's last request until the commit is durable.
	CommitP50, CommitP99, CommitMax time.Duration
}

// Stats returns the journal's state. The cost grows with the operations without an answer, not with the others. Stats does
// not wait for the writer. Damaged operations are counted, but have no age.
func (j *Journal) Stats(ctx context.Context) (Stats, error) {
	is, err := j.ReadStats(ctx)
	s := Stats{Stats: is}
	if err == nil {
		s.FreeBytes, err = j.file.FreeBytes(ctx)
	}
	j.commits.tell(&s)
	return s, err
}

// commits are the writer's latest commits.
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
