package rowstore

import (
	"context"
	"math"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/store"
)

// ReadStats implements journal.StatsReader. It reads indexes, and no row but the oldest pending one. So a damaged row is
// counted, but has no age.
func (s *Store) ReadStats(ctx context.Context) (stats journal.Stats, err error) {
	if err := s.open(ctx); err != nil {
		return stats, err
	}
	err = s.source.Read(ctx, func(r Reader) error {
		stats = journal.Stats{}
		if err := s.count(ctx, r, &stats); err != nil {
			return err
		}
		stats.OldestPending, err = s.oldestPending(ctx, r)
		return err
	})
	return stats, err
}

func (s *Store) count(ctx context.Context, r Reader, stats *journal.Stats) error {
	now := s.now()
	totals, err := r.Totals(ctx)
	if err != nil {
		return err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return err
	}
	stats.Restored = head.Restored
	stats.Begun, stats.Sessions, stats.Last, stats.FileBytes, stats.WALBytes = totals.Begun, totals.Sessions, totals.Last, totals.FileBytes, totals.WALBytes
	late, overdue := now.Add(-journal.AttentionAfter).UnixMilli(), now.Add(-journal.PendingAttentionAfter).UnixMilli()
	counts, err := r.Count(ctx, []Scan{
		{Index: Pending, By: math.MaxInt64},
		{Index: Pending, By: now.UnixMilli()},
		{Index: PendingByWake, After: Position{Key: overdue, Handle: math.MaxInt64}},
		{Index: InFlight},
		{Index: InFlightSince, By: late},
		{Index: Unknown},
		{Index: Sought, By: late},
		{Index: Cancelled},
		{Index: Untold},
		{Index: Flagged},
	})
	if err != nil {
		return err
	}
	rows := func(i int) int64 { return counts[i].Rows }
	stats.Pending, stats.Due, stats.InFlight, stats.Unknown, stats.Cancelled, stats.Undelivered = rows(0), rows(1), rows(3), rows(5), rows(7), rows(8)
	// See journal.Operation.NeedsAttention. A pending operation with its own reason has a Wake below 0.
	stats.NeedsAttention = rows(0) - rows(2) + rows(4) + rows(5) - rows(6) + rows(9)
	stats.OldestUnknown, stats.OldestUndelivered = settledAt(counts[5]), settledAt(counts[8])
	return s.countFlows(ctx, r, stats, now)
}

// countFlows reads running flows and flows that are set aside, since their columns lack the time of the change.
func (s *Store) countFlows(ctx context.Context, r Reader, stats *journal.Stats, now time.Time) error {
	n, err := r.CountFlows(ctx, now.Add(-journal.AttentionAfter).UnixMilli())
	if err != nil {
		return err
	}
	stats.FlowsBegun, stats.FlowsRunning, stats.FlowsWaiting, stats.FlowsSetAside = n.Begun, n.Running, n.Waiting, n.Aside
	stats.NeedsAttention += n.Late
	for _, index := range []FlowIndex{FlowsRunning, FlowsAside} {
		for scan := (FlowScan{Index: index, Limit: flowPage}); ; {
			rows, err := r.Flows(ctx, scan)
			if err != nil {
				return err
			}
			for _, row := range rows {
				scan.After.Handle = row.Handle
				f, err := decodeFlow(s.codec, row)
				if err == nil && f.NeedsAttention(now) != "" {
					stats.NeedsAttention++
				}
				if err == nil && index == FlowsAside {
					stats.OldestSetAside = store.Earlier(stats.OldestSetAside, f.UpdatedAt)
				}
			}
			if len(rows) < flowPage {
				break
			}
		}
	}
	return nil
}

func settledAt(c Count) time.Time {
	if c.Settled == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.Settled).UTC()
}

// oldestPending returns when the oldest pending operation was begun.
func (s *Store) oldestPending(ctx context.Context, r Reader) (oldest time.Time, err error) {
	for scan := (Scan{Index: Pending, By: math.MaxInt64, Limit: 1}); ; {
		places, err := r.Scan(ctx, scan)
		if err != nil || len(places) == 0 {
			return oldest, err
		}
		scan.After = places[0]
		found, err := r.Find(ctx, Keys{Handles: []int64{places[0].Handle}})
		if err != nil {
			return oldest, err
		}
		for _, row := range found.Rows {
			if it, err := decode(s.codec, row); err == nil {
				return it.op.CreatedAt, nil
			}
		}
	}
}
