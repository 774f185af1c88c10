package sqlite

import "github.com/onceward/onceward/journal/internal/format"

// fold moves operations up to this handle from the log to their permanent place: closed ones to a block,
// others to rows of their own. It is part of a commit's transaction, and costs no fsync. If it fails, so does
// the batch, because half of it would be in two places.
func (b *batch) fold(through int64) error {
	if b.broken != nil {
		return b.fail(b.broken)
	}
	return b.giveUp(b.foldThrough(through))
}

func (b *batch) foldThrough(through int64) error {
	var block []*format.Record
	size := 0
	pack := func() error {
		if len(block) == 0 {
			return nil
		}
		first := block[0].Op.Handle
		data := b.encoder.Encode(first, block)
		block, size = block[:0], 0
		return b.write(b.sql.InsertBlock, first, data)
	}
	for handle := b.folded + 1; handle <= through; handle++ {
		k := b.memtable.At(handle)
		b.memtable.Bytes -= k.Size()
		// A block is of one segment.
		if len(block) == format.BlockSize || size+k.Size() > format.BlockBytes || handle%format.SegmentSize == 0 {
			if err := pack(); err != nil {
				return err
			}
		}
		if k.Closed() {
			block, size = append(block, k), size+k.Size()
			if err := b.remark(&unmarked, &k.Op); err != nil {
				return err
			}
		} else if err := b.insertRow(k); err != nil {
			return err
		}
	}
	if err := pack(); err != nil {
		return err
	}
	b.folded = max(b.folded, through)
	return b.prune(b.pruneLeast())
}

// recently yields the operations that only the log has.
func (b *batch) recently(yield func(*format.Record) bool) {
	for handle := b.folded + 1; handle <= b.newest; handle++ {
		if !yield(b.memtable.At(handle)) {
			return
		}
	}
}

// foldAll leaves nothing in the log that is not elsewhere too.
func (b *batch) foldAll() error {
	if b.folded >= b.newest {
		return nil
	}
	if err := b.fold(b.newest); err != nil {
		return err
	}
	return b.prune(1)
}

// foldAtOnce is how many operations are folded by one commit at least.
const foldAtOnce = 4 * format.BlockSize

const (
	// keepRecent is the minimum of operations in the log before the oldest are folded. Most of them are
	// completed by then, and go to a block.
	keepRecent = 512
	// keepRecentBytes is how many bytes of requests and answers do, at most.
	keepRecentBytes = 4 << 20
)

const (
	// keepRows bounds the rows of the log, at about twice those of keepRecent operations with two events
	// each. The others come from repeated tries, flows and sessions.
	keepRows = 2048
	// keepRowsBytes bounds the bytes of their records: an operation that begins again stores its request
	// again.
	keepRowsBytes = 4 * keepRecentBytes
)

// shorten folds the operations of the log's first rows, however young, if there are too many rows, and
// removes the rows.
func (b *batch) shorten() error {
	bytes := 0
	for _, row := range b.log {
		bytes += row.bytes
	}
	if len(b.log) < keepRows && bytes <= keepRowsBytes {
		return nil
	}
	n, through := 0, b.folded
	for n < len(b.log) && (n < pruneAt || len(b.log)-n > keepRows || bytes > keepRowsBytes/2) {
		through = max(through, b.log[n].highest)
		bytes -= b.log[n].bytes
		n++
	}
	if through > b.folded {
		if err := b.fold(through); err != nil {
			return err
		}
	}
	return b.prune(1)
}

// foldSome keeps the log short, in proportion to this batch's additions.
func (b *batch) foldSome() error {
	if err := b.shorten(); err != nil {
		return err
	}
	for b.newest-b.folded >= keepRecent+foldAtOnce || b.memtable.Bytes > keepRecentBytes {
		through := min(b.folded+foldAtOnce, b.newest)
		if through == b.folded {
			return nil
		}
		if err := b.fold(through); err != nil {
			return err
		}
	}
	return nil
}
