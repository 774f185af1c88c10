package verify

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// checkContents finds operations that a list would miss.
func (s *verifiedSegment) checkContents() error {
	if s.first+format.SegmentSize-1 > s.newest {
		return nil // it is not sealed yet
	}
	return s.Each(sealed.ContentsOf, func(row []driver.Value) error {
		c, err := format.DecodeContents(s.first, row[0].([]byte))
		if err != nil {
			s.file("the contents of the segment that begins with operation %d are as they were written", s.first)
			return nil
		}
		for handle, k := range s.ops {
			if format.SegmentOf(handle) == s.first {
				s.must(&k.Op, c.Has(s.key.OfContent(format.OfScope, k.Op.Scope)) && c.Has(s.key.OfContent(format.OfProvider, k.Op.Provider)),
					"its segment knows its scope and its provider")
			}
		}
		return nil
	}, s.first)
}

// checkMarks compares the marks of operations outside of the log with their records.
func (s *verifiedSegment) checkMarks() error {
	type mark struct{ hash, handle int64 }
	there := make(map[mark]bool)
	err := s.Each("SELECT hash, handle FROM onceward_marks WHERE bucket IN (?1 / ?3, ?4) AND handle >= ?1 AND handle < ?2", func(row []driver.Value) error {
		there[mark{row[0].(int64), row[1].(int64)}] = true
		return nil
	}, s.first, s.first+format.SegmentSize, int64(sealed.MarkBucket), int64(sealed.FoundBucket))
	for _, k := range s.ops {
		if !store.Marked(&k.Op) {
			continue
		}
		for _, m := range store.Marks(&k.Op) {
			of := mark{s.key.OfMark(byte(m.By), m.Value), k.Op.Handle}
			s.must(&k.Op, there[of], "its marks find it")
		}
		for _, m := range store.AllMarks(&k.Op) {
			delete(there, mark{s.key.OfMark(byte(m.By), m.Value), k.Op.Handle})
		}
	}
	for stray := range there {
		s.add(journal.Violation{Handle: stray.handle, Invariant: "its index entries are of marks that it has"})
	}
	return err
}

// verifySeed is for named.hash.
var verifySeed = maphash.MakeSeed()

// operations checks all operations, one segment at a time: each as of one moment, with all other records of
// the journal about it.
func (v *verification) operations() error {
	first := int64(0)
	for done := false; !done; {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		err := v.Snapshot(func() (err error) {
			s := &verifiedSegment{verification: v, first: first, ops: make(map[int64]*format.Record), packed: make(map[int64]bool)}
			first, done, err = s.read()
			return err
		})
		if err != nil {
			return err
		}
	}
	v.unique()
	return nil
}

// verifiedSegment is a segment as of one moment.
type verifiedSegment struct {
	*verification
	first, past    int64 // its handles are from first on, and before past
	newest, folded int64
	last           time.Time // the latest time seen
	leastMargin    time.Duration
	ops            map[int64]*format.Record // not those in the log
	packed         map[int64]bool           // those of them that are in a block
}

// read returns the next segment that has anything, or done after the last one, which
// includes the log.
func (s *verifiedSegment) read() (next int64, done bool, err error) {
	err = s.Each("SELECT last_at, least_margin, newest, folded FROM onceward_log ORDER BY seq DESC LIMIT 1", func(row []driver.Value) error {
		s.last = format.ToTime(row[0])
		s.leastMargin = time.Duration(row[1].(int64))
		s.newest, s.folded = row[2].(int64), row[3].(int64)
		return nil
	})
	if err != nil {
		return next, done, err
	}
	s.past = s.first + format.SegmentSize
	if s.past > s.folded {
		s.past, done = math.MaxInt64, true
	}
	next = s.past
	for _, part := range []func() error{s.readRows, s.readBlocks, s.readAnswers, s.checkSegment, s.checkContents, s.checkMarks} {
		if err := s.tolerate(part()); err != nil {
			return next, done, err
		}
	}
	if done {
		return next, done, s.tolerate(s.checkLog())
	}
	err = s.Each(`SELECT min(handle) FROM (SELECT min(handle) AS handle FROM onceward_operations WHERE handle >= ?1
		UNION ALL SELECT min(first) FROM onceward_blocks WHERE first >= ?1 UNION ALL SELECT min(handle) FROM onceward_answers WHERE handle >= ?1
		UNION ALL SELECT min(first) FROM onceward_segments WHERE first >= ?1)`, func(row []driver.Value) error {
		if handle, some := row[0].(int64); some {
			next = format.SegmentOf(handle)
		} else {
			next = format.SegmentOf(s.folded)
		}
		return nil
	}, next)
	return max(next, s.past), done, err
}

func (s *verifiedSegment) readRows() error {
	return s.Each("SELECT "+read.Columns+`, o.request_body, a.answer, a.body
		FROM onceward_operations o LEFT JOIN onceward_answers a ON a.handle = o.handle WHERE o.handle >= ? AND o.handle < ? ORDER BY o.handle`,
		func(row []driver.Value) error {
			handle := row[0].(int64)
			r, err := format.ReadRow(row)
			if errors.Is(err, format.ErrSum) {
				s.must(&r.Op, false, "its row is as it was written")
			} else if err != nil {
				s.damaged(handle)
				return nil
			}
			k := &format.Record{Row: r, Body: format.ToBytes(row[len(row)-3]), Answer: format.ToBytes(row[len(row)-2]), AnswerBody: format.ToBytes(row[len(row)-1])}
			s.must(&r.Op, k.Answer == nil || r.GoesWith(k.Answer) == nil, "its answer is the one that its row was written with")
			s.must(&r.Op, r.Identified || r.Op.Naming == journal.Generated, "it is found by its name")
			s.take(k)
			return nil
		}, s.first, s.past)
}

func (s *verifiedSegment) readBlocks() error {
	type block struct {
		first int64
		data  []byte
	}
	var blocks []block
	err := s.Each("SELECT first, data FROM onceward_blocks WHERE first >= ? AND first < ? ORDER BY first", func(row []driver.Value) error {
		data, _ := row[1].([]byte)
		blocks = append(blocks, block{row[0].(int64), data})
		return nil
	}, s.first, s.past)
	for i, b := range blocks {
		past := format.SegmentOf(b.first) + format.SegmentSize
		if i+1 < len(blocks) {
			past = min(past, blocks[i+1].first)
		}
		before, listed := b.first-1, int64(0)
		note := func(handle int64) bool { listed = handle; return true }
		if err == nil {
			err = format.EachOfBlock(b.first, b.data, note, func(k *format.Record) error {
				found := k.Op.Handle == listed && listed > before && listed < past
				s.must(&k.Op, found, "it is where it is looked for in its block")
				before, s.packed[k.Op.Handle] = k.Op.Handle, true
				s.must(&k.Op, k.Closed(), "an operation in a block is completed and delivered")
				s.take(k)
				return nil
			})
			if errors.Is(err, format.ErrDamaged) {
				s.file("the block that begins with operation %d can be read", b.first)
				err = nil
			}
		}
	}
	return err
}

// take checks an operation that is not in the log.
func (s *verifiedSegment) take(k *format.Record) {
	s.must(&k.Op, s.ops[k.Op.Handle] == nil, "it is in one place")
	s.must(&k.Op, k.Op.Handle <= s.folded, "an operation that is not folded is in the log alone")
	s.ops[k.Op.Handle] = k
	s.check(k)
}

// check is for every operation.
func (s *verifiedSegment) check(k *format.Record) {
	op, err := k.Operation() // whole, so that the bodies are readable
	if err != nil {
		s.damaged(k.Op.Handle)
		return
	}
	s.names = append(s.names, named{maphash.Comparable(verifySeed, op.Ref), op.Handle})
	if op.Alias != (journal.Ref{}) {
		s.names = append(s.names, named{maphash.Comparable(verifySeed, op.Alias), op.Handle})
	}
	for _, broken := range journal.Violations(op, s.last) {
		s.must(&op, false, broken)
	}
	s.must(&op, op.Terms.Window() == 0 || s.leastMargin > 0 && s.leastMargin <= op.Terms.Margin(), "the least margin is known")
}

func (s *verifiedSegment) readAnswers() error {
	return s.Each("SELECT handle FROM onceward_answers WHERE handle >= ? AND handle < ?", func(row []driver.Value) error {
		handle := row[0].(int64)
		if k := s.ops[handle]; k == nil || s.packed[handle] {
			s.add(journal.Violation{Handle: handle, Invariant: "its answer is of an operation that has a row"})
		}
		return nil
	}, s.first, s.past)
}

// checkSegment checks the entries of sealed segments.
func (s *verifiedSegment) checkSegment() error {
	if s.first+format.SegmentSize-1 > s.newest {
		if err := s.account(false); err != nil {
			return err
		}
		return s.eachSegment(s.first, func(first int64, _ *sealedSegment) error {
			s.file("a segment is sealed once its last operation was begun: %d", first)
			return nil
		})
	}
	var sealed *sealedSegment
	err := s.eachSegment(s.first, func(first int64, found *sealedSegment) error {
		if first == s.first {
			sealed = found
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.account(sealed != nil && sealed.spent); err != nil {
		return err
	}
	for _, handle := range slices.Sorted(maps.Keys(s.ops)) {
		k := s.ops[handle]
		if format.SegmentOf(handle) != s.first {
			continue
		}
		s.must(&k.Op, sealed != nil, "it is in a segment that is there")
		if sealed == nil {
			continue
		}
		s.must(&k.Op, sealed.has(&k.Op), "its segment finds it by its name")
		if sealed.spent {
			s.must(&k.Op, k.Op.Tombstone, "it is reaped, as its segment is spent")
		} else {
			s.must(&k.Op, !k.Op.CreatedAt.Before(sealed.began) || sealed.began.After(s.last), "its segment knows the earliest creation")
		}
	}
	return nil
}

// account looks for operations that are in no row and no block, and were not removed.
func (s *verifiedSegment) account(spent bool) error {
	var bits format.Removed
	err := s.Each(read.RemovedOf, func(row []driver.Value) (err error) {
		bits, err = format.DecodeRemoved(s.first, row[0].([]byte))
		return err
	}, s.first)
	for handle := max(s.first, 1); err == nil && !spent && handle <= min(s.first+format.SegmentSize-1, s.folded); handle++ {
		if s.ops[handle] == nil && !bits.Has(handle-s.first) {
			s.add(journal.Violation{Handle: handle, Invariant: "it is there, or was removed"})
		}
	}
	return err
}

// sealedSegment is a row of segments.
type sealedSegment struct {
	key    *format.HashKey
	first  int64
	began  time.Time
	spent  bool
	hashes map[uint64]bool // entries
}

func (s *sealedSegment) has(op *journal.Operation) bool {
	has := func(ref journal.Ref) bool { return s.hashes[uint64(s.key.Of(ref))<<16|uint64(op.Handle-s.first)] }
	return has(op.Ref) && (op.Alias == (journal.Ref{}) || has(op.Alias))
}

// eachSegment calls f for the segments that are read at this moment.
func (s *verifiedSegment) eachSegment(from int64, f func(first int64, found *sealedSegment) error) error {
	return s.Each("SELECT "+format.SegmentColumns+" FROM onceward_segments WHERE first >= ? AND first < ?", func(row []driver.Value) error {
		seg, hashes, err := format.ReadSegment(row)
		if err != nil {
			s.file("the segment that begins with operation %v is as it was written", row[0])
			return nil
		}
		sealed := &sealedSegment{key: &s.key, first: seg.First, began: seg.Began, spent: seg.Spent, hashes: make(map[uint64]bool)}
		for ; len(hashes) >= format.EntrySize; hashes = hashes[format.EntrySize:] {
			sealed.hashes[uint64(binary.LittleEndian.Uint32(hashes))<<16|uint64(binary.LittleEndian.Uint16(hashes[4:]))] = true
		}
		return f(sealed.first, sealed)
	}, from, s.past)
}

// checkLog looks at the operations that the log alone has.
func (s *verifiedSegment) checkLog() error {
	logged, err := s.Log(s.folded)
	if err != nil {
		return err
	}
	want := s.folded
	for _, k := range logged {
		if want++; k.Op.Handle != want {
			s.file("the log has every operation that is not folded: %d", want)
			return nil
		}
		s.check(k)
	}
	if want != s.newest {
		s.file("the log has every operation that is not folded: %d", want+1)
	}
	return nil
}

func (s *verifiedSegment) damaged(handle int64) {
	s.add(journal.Violation{Handle: handle, Invariant: "it can be read"})
}

func (s *verifiedSegment) must(op *journal.Operation, holds bool, invariant string) {
	if !holds {
		s.add(journal.Violation{Handle: op.Handle, Ref: op.Ref, Invariant: invariant})
	}
}
