package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/nameindex"
)

// spend notes that nothing is left in a segment to be reaped, and leaves of its hashes
// those of tombstones.
func (b *batch) spend(first int64) error {
	var rest []uint64
	var found []nameindex.Member
	err := b.read(b.sql.SegmentRest, func(v []driver.Value) error {
		r, err := format.ReadRow(v)
		members := b.segments.MembersOf(r.Op.Handle, &r.Op)
		found = append(found, members...)
		for _, m := range members {
			rest = append(rest, uint64(m.Hash)<<16|uint64(m.Handle-first))
		}
		return err
	}, first, first+format.SegmentSize)
	if err == nil {
		err = b.account(first, first+format.SegmentSize-1, found)
	}
	if err == nil {
		err = b.write(b.sql.ForgetRemoved, first)
	}
	if err == nil && len(rest) == 0 {
		err = b.write(b.sql.ForgetContents, first)
	}
	if err != nil {
		return err
	}
	spent := format.Segment{First: first, Began: time.UnixMilli(0), Spent: true}
	return b.write(b.sql.SpendSegment, spent.Seal(format.EncodeEntries(rest)), first)
}

// addToSegment takes note of an operation that was just begun, and seals the
// segment that it is the last of.
func (b *batch) addToSegment(op *journal.Operation) error {
	s, handle := b.segments, op.Handle
	s.Begin(op)
	if handle%format.SegmentSize != format.SegmentSize-1 {
		return nil
	}
	if err := b.completeTail(); err != nil {
		return err
	}
	first := format.SegmentOf(handle)
	began, run := s.Entries(first, op.CreatedAt)
	if began.After(b.clock.Last) { // by a clock that is not believed
		began = b.clock.Last.Add(-journal.Leap)
	}
	hashes := format.Segment{First: first, Began: began}.Seal(format.EncodeEntries(run))
	if err := b.write(b.sql.AddSegment, first, began.UnixMilli(), hashes); err != nil {
		return err
	}
	if err := b.noteContents(first, s.Tail); err != nil {
		return err
	}
	// If this is not committed, its members are in the tail again, and have to be read.
	b.abandoned = append(b.abandoned, func() { s.Unseal(first) })
	s.Seal(first, run)
	return nil
}

// completeTail reads the tail's operations of other or earlier processes.
func (b *batch) completeTail() error {
	s := b.segments
	if s.Through >= b.newest {
		return nil
	}
	var missed []nameindex.Member
	add := func(handle int64, op *journal.Operation) {
		if handle > s.Through && handle <= b.newest {
			missed = append(missed, s.MembersOf(handle, op)...)
		}
	}
	err := b.read(b.sql.SegmentRows, func(v []driver.Value) error {
		r, err := format.ReadRow(v)
		if err == nil {
			add(r.Op.Handle, &r.Op)
		}
		return err
	}, s.Through)
	if err != nil {
		return err
	}
	err = b.read(b.sql.BlocksFrom, func(v []driver.Value) error {
		data, _ := v[1].([]byte)
		return format.EachOfBlock(v[0].(int64), data, format.All, func(k *format.Record) error {
			add(k.Op.Handle, &k.Op)
			return nil
		})
	}, format.SegmentOf(s.Through+1))
	if err != nil {
		return err
	}
	for handle := max(s.Through, b.folded) + 1; handle <= b.newest; handle++ {
		add(handle, &b.memtable.At(handle).Op)
	}
	slices.SortFunc(missed, func(a, b nameindex.Member) int { return cmp.Compare(a.Handle, b.Handle) })
	if err := b.account(s.Through+1, b.newest, missed); err != nil {
		return err
	}
	s.Complete(missed, b.newest)
	return nil
}

// account returns format.ErrDamaged unless the found operations, by handle, are all from first to last of one
// segment, except for removed ones.
func (b *batch) account(first, last int64, found []nameindex.Member) error {
	var bits format.Removed
	var err error
	for handle := max(first, 1); err == nil && handle <= last; handle++ {
		switch {
		case len(found) > 0 && found[0].Handle == handle:
			for len(found) > 0 && found[0].Handle == handle {
				found = found[1:] // by its second name, too
			}
		case bits == nil:
			if bits, err = b.removedFrom(format.SegmentOf(first)); err != nil || bits.Has(handle-format.SegmentOf(first)) {
				continue
			}
			fallthrough
		case !bits.Has(handle - format.SegmentOf(first)):
			err = b.fail(format.ErrDamaged)
		}
	}
	return err
}

// candidates returns the handles that the operation may have, if there is one.
func (b *batch) candidates(ref journal.Ref) ([]int64, error) {
	if err := b.completeTail(); err != nil {
		return nil, err
	}
	s := b.segments
	latest := format.SegmentOf(b.newest+1) - format.SegmentSize
	if s.Loaded < latest {
		if err := b.loadSegments(latest); err != nil {
			return nil, err
		}
	}
	s.NoteWhole(latest)
	handles, _ := s.Find(ref)
	return handles, nil
}

// loadSegments reads the segments that were sealed since the last time, up to the
// latest.
func (b *batch) loadSegments(latest int64) error {
	s := b.segments
	var runs [][]uint64
	loaded := s.Loaded
	err := b.read(b.sql.ReadSegments, func(v []driver.Value) error {
		run, first, err := nameindex.RunAfter(loaded, v)
		runs, loaded = append(runs, run), first
		return err
	}, s.Loaded)
	if err == nil && loaded != latest {
		err = b.fail(format.ErrDamaged)
	}
	if err != nil {
		return err
	}
	s.AddRuns(runs)
	return nil
}
