package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
)

// reapBatch is how many operations are reaped in one commit, between those of
// others.
const reapBatch = 100

// reapBytes is the maximum of bytes reaped in one commit, unless one row has more. All of them are
// overwritten while others wait.
const reapBytes = 1 << 20

// bulk is a row of operations or blocks, and how many bytes it has.
type bulk struct{ key, bytes int64 }

// parts yields the keys of some rows at a time, at most many.
func parts(rows []bulk, many int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		var keys []int64
		bytes := int64(0)
		for _, row := range rows {
			if len(keys) == many || len(keys) > 0 && bytes+row.bytes > reapBytes {
				if !yield(keys) {
					return
				}
				keys, bytes = nil, 0
			}
			keys, bytes = append(keys, row.key), bytes+row.bytes
		}
		if len(keys) > 0 {
			yield(keys)
		}
	}
}

// Reap applies ev, of kind EventReap, to at most limit operations and returns the number that it shrunk or
// removed. It finds them on a connection of its own, and takes 100 or a megabyte per commit, so that no
// caller waits long. With Options.Archive, none is removed before it was archived. After an error in the
// middle, the number counts the operations before it. Damaged operations are skipped. Their error is
// returned too if fewer than limit are reaped. The file keeps its size, and its free space is reused.
func (j *logJournal) Reap(ctx context.Context, ev journal.Event, limit int) (int, error) {
	if err := j.writable(ctx); err != nil {
		return 0, err
	}
	if err := store.CheckReap(ev); err != nil {
		return 0, err
	}
	var newest, folded int64
	var passed time.Time
	// This commit also records the noted deliveries.
	err := j.file.writer.do(ctx, func(b *batch) error {
		if err := b.refuses(ev.Kind); err != nil {
			return err
		}
		newest = b.newest
		if err := b.observeClock(ev.At); err != nil {
			return err
		}
		ev.Last, ev.Unconfirmed = b.clock.Last, b.clock.Unconfirmed(ev.At)
		passed = b.clock.Passed(ev.At)
		if err := b.foldExpired(passed.Add(-ev.Keep)); err != nil {
			return err
		}
		folded = b.folded
		return nil
	})
	if err != nil {
		return 0, err
	}
	reaped := 0
	if err := j.forgetHeard(ctx, store.HeardBefore(ev.Keep, passed)); err != nil {
		return 0, err
	}
	firsts, err := j.segmentsBefore(ctx, passed.Add(-ev.Keep))
	if err != nil {
		return 0, err
	}
	var damaged error
	// Operations without a segment come last: they are the youngest.
	for _, first := range append(firsts, format.SegmentOf(newest+1)) {
		if reaped >= limit {
			break
		}
		n, err := j.reapSegment(ctx, ev, first, limit-reaped, folded)
		reaped += n
		if err != nil && !errors.Is(err, format.ErrDamaged) {
			return reaped, err
		}
		damaged = cmp.Or(damaged, err)
	}
	if reaped < limit {
		return reaped, damaged
	}
	return reaped, nil
}

// reapPause is the ratio of the time that the reaper leaves to other callers, if there are any, to the time
// that it used the writer.
const reapPause = 14

// reapCommit is writer.do for the reaper, which yields to others.
func (j *logJournal) reapCommit(ctx context.Context, f func(*batch) error) error {
	before := j.file.writer.commits.carried()
	var took time.Duration
	err := j.file.writer.do(ctx, func(b *batch) error {
		from := time.Now()
		defer func() { took = time.Since(from) }()
		return f(b)
	})
	if err == nil && j.file.writer.commits.carried()-before > 1 {
		pause := time.NewTimer(reapPause * took)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done(): // committed operations count
		case <-j.file.writer.stopped:
		}
	}
	return err
}

// foldExpired folds the log's operations that were settled by then and are already expired. Few stay there
// for long, unless the journal is nearly idle or keeps nothing.
func (b *batch) foldExpired(settled time.Time) error {
	through := int64(0)
	for k := range b.recently {
		if k.Op.State.Settled() && !k.Op.SettledAt.After(settled) {
			through = k.Op.Handle
		}
	}
	if through == 0 {
		return nil
	}
	if err := b.fold(through); err != nil {
		return err
	}
	return b.prune(1)
}

// segmentsBefore lists the segments with possibly expired operations: those whose first operation began by
// then. (An operation that a clock which was set back settled before that is reaped later than possible.)
func (j *logJournal) segmentsBefore(ctx context.Context, begun time.Time) (firsts []int64, err error) {
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		return r.Each("SELECT first FROM onceward_segments WHERE spent = 0 AND began_at <= ? ORDER BY first", func(v []driver.Value) error {
			firsts = append(firsts, v[0].(int64))
			return nil
		}, begun.UnixMilli())
	})
	return firsts, err
}

// bytesOfBodies goes on from columns: how large the bodies of a row of operations are.
const bytesOfBodies = `, coalesce(length(request_body), 0) +
	coalesce((SELECT length(body) FROM onceward_answers WHERE onceward_answers.handle = onceward_operations.handle), 0)`

// reapSegment reaps at most limit operations of one segment, or of those without a segment. Operations up to
// folded are not in the log any more.
func (j *logJournal) reapSegment(ctx context.Context, ev journal.Event, first int64, limit int, folded int64) (int, error) {
	found, err := j.findExpired(ctx, ev, first, limit)
	if err != nil {
		return 0, err
	}
	reaped, damaged, err := j.reapBlocks(ctx, ev, found.blocks, limit)
	if err != nil {
		return reaped, err
	}
	n, some, err := j.reapRows(ctx, ev, found.rows[:min(limit-reaped, len(found.rows))])
	reaped += n
	if err = cmp.Or(err, damaged, some, found.damaged); err != nil || found.left > reaped || first+format.SegmentSize-1 > folded {
		return reaped, err
	}
	// Only tombstones are left, or nothing.
	return reaped, j.spendSegment(ctx, first)
}

// expired holds the operations of a segment that may be reaped.
type expired struct {
	blocks, rows []bulk
	now          int // how many may be reaped now
	left         int // and at some time
	damaged      error
}

// passOver records that a part of the segment is unreadable, if err says so.
func (e *expired) passOver(what string, key any, err error) error {
	if !errors.Is(err, format.ErrDamaged) {
		return err
	}
	e.left++
	e.damaged = cmp.Or(e.damaged, fmt.Errorf("%s %v is passed over: %w", what, key, err))
	return nil
}

// note records an operation, and reports whether it may be reaped now.
func (e *expired) note(op journal.Operation, ev journal.Event) bool {
	e.left++
	_, decision, _ := journal.Next(op, false, ev)
	if decision != journal.Recorded {
		return false
	}
	e.now++
	return true
}

// enough ends the search with conn.ErrEnough once limit operations are found. The rest need not be read now.
func (e *expired) enough(limit int) error {
	if e.now < limit {
		return nil
	}
	e.left++
	return conn.ErrEnough
}

// findExpired finds the operations that ev may reap in the segment that begins with first.
func (j *logJournal) findExpired(ctx context.Context, ev journal.Event, first int64, limit int) (found expired, err error) {
	err = j.file.readers.Read(ctx, func(r *read.Reader) error {
		err := r.Each("SELECT first, data FROM onceward_blocks WHERE first >= ? AND first < ?", func(v []driver.Value) error {
			data, _ := v[1].([]byte)
			some := false
			err := format.EachOfBlock(v[0].(int64), data, format.All, func(k *format.Record) error {
				some = found.note(k.Op, ev) || some
				return nil
			})
			if err != nil {
				return found.passOver("the operations from", v[0], err)
			}
			if some {
				found.blocks = append(found.blocks, bulk{v[0].(int64), int64(len(data))})
			}
			return found.enough(limit)
		}, first, first+format.SegmentSize)
		if err != nil {
			return err
		}
		return r.Each("SELECT "+format.Columns+bytesOfBodies+" FROM onceward_operations WHERE handle >= ? AND handle < ? AND tombstone = 0", func(v []driver.Value) error {
			row, err := format.ReadRow(v)
			if err != nil {
				return found.passOver("operation", v[0], err)
			}
			if found.note(row.Op, ev) {
				found.rows = append(found.rows, bulk{row.Op.Handle, v[len(v)-1].(int64)})
			}
			return found.enough(limit)
		}, first, first+format.SegmentSize)
	})
	if errors.Is(err, conn.ErrEnough) {
		err = nil
	}
	return found, err
}

// reapBlocks archives and reaps at most limit operations of these blocks, some in a commit.
func (j *logJournal) reapBlocks(ctx context.Context, ev journal.Event, blocks []bulk, limit int) (reaped int, damaged, err error) {
	for some := range parts(blocks, (reapBatch+format.BlockSize-1)/format.BlockSize) {
		n := 0
		archived, lacking, err := j.archive(ctx, ev, some, nil, limit-reaped)
		if err != nil {
			return reaped, damaged, err
		}
		damaged = cmp.Or(damaged, lacking)
		err = j.reapCommit(ctx, func(b *batch) error {
			n = 0
			for _, first := range some {
				of, err := b.reapBlock(ev, first, limit-reaped-n, archived)
				if err != nil {
					return err
				}
				n += of
			}
			return nil
		})
		if err != nil {
			return reaped, damaged, err
		}
		reaped += n
	}
	return reaped, damaged, nil
}

// reapRows is reapBlocks for operations with a row of their own.
func (j *logJournal) reapRows(ctx context.Context, ev journal.Event, rows []bulk) (reaped int, damaged, err error) {
	for some := range parts(rows, reapBatch) {
		n := 0
		archived, lacking, err := j.archive(ctx, ev, nil, some, len(some))
		if err != nil {
			return reaped, damaged, err
		}
		damaged = cmp.Or(damaged, lacking)
		err = j.reapCommit(ctx, func(b *batch) (err error) {
			n, err = b.reap(ev, some, archived)
			return err
		})
		if err != nil {
			return reaped, damaged, err
		}
		reaped += n
	}
	return reaped, damaged, nil
}

// spendSegment notes that nothing is left to be reaped in a segment.
func (j *logJournal) spendSegment(ctx context.Context, first int64) error {
	return j.file.writer.do(ctx, func(b *batch) error { return b.spend(first) })
}

// reap takes those that still can be: others may have come first.
func (b *batch) reap(ev journal.Event, handles []int64, archived store.Archived) (reaped int, err error) {
	var out outcome
	for _, handle := range handles {
		r, err := b.byHandle(handle)
		if err != nil {
			return 0, err
		}
		if !r.found() || !archived.Has(&r.Op) {
			continue
		}
		if err := b.next(r, &prepared{Event: ev}, &out); err != nil {
			return 0, err
		}
		if out.decision == journal.Recorded {
			reaped++
		}
	}
	return reaped, nil
}
