package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// Stats describes the state of a journal.
type Stats struct {
	journal.Stats

	// FreeBytes is the part of FileBytes that is free for reuse. WALBytes is the size of the -wal file, which
	// is reused from its beginning, and is not cut below 64 MiB.
	FreeBytes int64

	// Commits counts the commits of this process since it opened the file, and Requests the events and other
	// requests in them. The following fields are of the latest 1,024 commits.
	Commits, Requests  int64
	BatchP50, BatchMax int // requests in a commit
	// CommitP50, CommitP99 and CommitMax are commit latencies, from the last request of a commit to its
	// durability.
	CommitP50, CommitP99, CommitMax time.Duration
}

var _ journal.StatsReader = (*logJournal)(nil)

// ReadStats returns Stats without SQLite's part.
func (j *logJournal) ReadStats(ctx context.Context) (journal.Stats, error) {
	s, err := j.Stats(ctx)
	return s.Stats, err
}

// Stats returns the state of the journal. Its cost grows with the operations without an answer, not with the
// others. It does not wait for the writer. Damaged operations are counted, but have no age.
func (j *logJournal) Stats(ctx context.Context) (Stats, error) {
	if err := j.open(ctx); err != nil {
		return Stats{}, err
	}
	var s Stats
	side, sideErr := sidecar.Read(j.file.path) // before the log is read, which then is no older
	err := j.file.readers.Read(ctx, func(r *read.Reader) error {
		s = Stats{}
		return r.Snapshot(func() error {
			if err := s.count(r, j.file.writer, time.Now()); err != nil {
				return err
			}
			why, err := whyRestored(r, side, sideErr)
			s.Restored = why
			return err
		})
	})
	if err != nil {
		return Stats{}, err
	}
	j.file.writer.commits.tell(&s)
	if s.WALBytes, err = read.SizeOf(j.file.path + "-wal"); err != nil {
		return Stats{}, conn.Explain(j.file.path, "look at the WAL", err)
	}
	s.WALBytes = max(s.WALBytes, 0)
	return s, nil
}

// whyRestored says why the file may lack something, "" if it is whole.
func whyRestored(r *read.Reader, side sidecar.Content, sideErr error) (why string, err error) {
	err = r.Each("SELECT made_at, number FROM onceward_backup", func(v []driver.Value) error {
		why = backupOf(v)
		return nil
	})
	if err != nil || why != "" {
		return why, err
	}
	err = r.Each(`SELECT identity, latest, number FROM onceward_journal, (SELECT seq AS latest, number FROM onceward_log ORDER BY seq DESC LIMIT 1)`,
		func(v []driver.Value) (err error) {
			why, err = side.Contradicts(sideErr, v[0].(string), v[1].(int64), v[2].(int64))
			return err
		})
	return why, err
}

// stateCounts counts operations with a row of their own, flows and sessions, by the partial
// indices.
const stateCounts = `SELECT
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1),
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder IS NOT NULL AND state = 2),
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_looks WHERE state = 4),
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_failed WHERE state > 3 AND state = 5),
	(SELECT newest FROM onceward_log ORDER BY seq DESC LIMIT 1),
	(SELECT page_size FROM pragma_page_size), (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count),
	(SELECT count(*) FROM onceward_operations INDEXED BY onceward_operations_wake WHERE state = 1 AND wake_at BETWEEN -?1 AND ?1),
	(SELECT min(settled_at) FROM onceward_operations INDEXED BY onceward_operations_looks WHERE state = 4),
	(SELECT count(*) FROM (` + read.NeedAttention + `)) + (SELECT count(*) FROM onceward_flows INDEXED BY onceward_flows_due WHERE state = 2 AND due_at <= ?2),
	(SELECT last_at FROM onceward_log ORDER BY seq DESC LIMIT 1),
	(SELECT count(*) FROM onceward_sessions),
	(SELECT count(*) FROM onceward_flows INDEXED BY onceward_flows_held WHERE holder IS NOT NULL AND state = 1),
	(SELECT count(*) FROM onceward_flows INDEXED BY onceward_flows_due WHERE state = 2),
	(SELECT count(*) FROM onceward_flows INDEXED BY onceward_flows_aside WHERE state = 5),
	(SELECT coalesce(max(handle), 0) FROM onceward_flows)`

// undelivered selects by journal.Operation.Undelivered, with or without a session that holds the operation.
const undelivered = `SELECT count(*), min(settled_at) FROM (
	SELECT state, wake_at, settled_at FROM onceward_operations INDEXED BY onceward_operations_held WHERE holder IS NOT NULL AND state > 2 AND delivered = 0
	UNION ALL SELECT state, wake_at, settled_at FROM onceward_operations INDEXED BY onceward_operations_nobodys WHERE state > 2 AND delivered = 0 AND holder IS NULL)
	WHERE state <> 4 OR wake_at IS NULL OR wake_at <= settled_at`

// firstPending are the pending operations, that which was begun first coming first.
const firstPending = "SELECT " + format.Columns + " FROM onceward_operations INDEXED BY onceward_operations_pending WHERE state = 1 ORDER BY handle"

// stuckFlows are the flows that are set aside, and those that run: their columns don't tell since when.
const stuckFlows = read.SelectFlow + " INDEXED BY onceward_flows_aside WHERE state = 5 UNION ALL " +
	read.SelectFlow + " INDEXED BY onceward_flows_held WHERE holder IS NOT NULL AND state = 1"

func (s *Stats) count(r *read.Reader, w *writer, now time.Time) error {
	err := r.Each(stateCounts, func(v []driver.Value) error {
		n := func(i int) int64 { i64, _ := v[i].(int64); return i64 }
		s.Pending, s.InFlight, s.Unknown, s.Cancelled, s.Begun = n(0), n(1), n(2), n(3), n(4)
		s.FileBytes, s.FreeBytes = n(5)*n(6), n(5)*n(7)
		s.Due, s.OldestUnknown, s.NeedsAttention, s.Last = n(8), format.ToTime(v[9]), n(10), format.ToTime(v[11])
		s.Sessions, s.FlowsRunning, s.FlowsWaiting, s.FlowsSetAside, s.FlowsBegun = n(12), n(13), n(14), n(15), n(16)
		return nil
	}, now.UnixMilli(), now.Add(-journal.AttentionAfter).UnixMilli(), now.Add(-journal.PendingAttentionAfter).UnixMilli(), now.Add(-journal.AttentionAfter).UnixMilli())
	if err != nil {
		return err
	}
	err = r.Each(undelivered, func(v []driver.Value) error {
		s.Undelivered, s.OldestUndelivered = v[0].(int64), format.ToTime(v[1])
		return nil
	})
	if err != nil {
		return err
	}
	err = r.Each(firstPending, func(v []driver.Value) error {
		row, err := format.ReadRow(v)
		if err != nil {
			return unlessDamaged(err)
		}
		s.OldestPending = row.Op.CreatedAt
		return conn.ErrEnough
	})
	if err != nil && !errors.Is(err, conn.ErrEnough) {
		return err
	}
	err = r.Each(stuckFlows, func(v []driver.Value) error {
		f, err := format.ReadFlow(v)
		if err != nil {
			return unlessDamaged(err)
		}
		if f.State == journal.FlowStateSetAside {
			s.OldestSetAside = store.Earlier(s.OldestSetAside, f.UpdatedAt)
		}
		if f.NeedsAttention(now) != "" {
			s.NeedsAttention++
		}
		return nil
	})
	if err != nil {
		return err
	}
	recent, err := w.unfolded(r)
	for _, k := range recent {
		store.Count(&s.Stats, &k.Op, now)
	}
	return err
}

// unlessDamaged returns err, or nil for the error of a damaged row.
func unlessDamaged(err error) error {
	if errors.Is(err, format.ErrDamaged) {
		return nil
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
