package sqlite

// fold moves operations up to this handle from the log to where they stay: closed
// ones to a block, others to rows of their own. It is done in the transaction of
// some commit, and costs no fsync. Where it fails, so does the batch: half of it would be
// in two places.
func (b *batch) fold(through int64) error {
	if b.broken != nil {
		return b.fail(b.broken)
	}
	return b.giveUp(b.foldThrough(through))
}

func (b *batch) foldThrough(through int64) error {
	var block []*kept
	size := 0
	pack := func() error {
		if len(block) == 0 {
			return nil
		}
		first := block[0].op.Handle
		data := b.encoder.encode(first, block)
		block, size = block[:0], 0
		return b.write(b.sql.insertBlock, first, data)
	}
	for handle := b.folded + 1; handle <= through; handle++ {
		k := b.recent.at(handle)
		b.recent.bytes -= k.size()
		// A block is of one segment.
		if len(block) == blockSize || size+k.size() > blockBytes || handle%segmentSize == 0 {
			if err := pack(); err != nil {
				return err
			}
		}
		if k.closed() {
			block, size = append(block, k), size+k.size()
		} else if err := b.insertRow(k); err != nil {
			return err
		}
	}
	if err := pack(); err != nil {
		return err
	}
	b.folded = max(b.folded, through)
	b.wrote = true
	return b.prune(b.pruneLeast())
}

// recently yields what only the log has.
func (b *batch) recently(yield func(*kept) bool) {
	for handle := b.folded + 1; handle <= b.newest; handle++ {
		if !yield(b.recent.at(handle)) {
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
const foldAtOnce = 4 * blockSize

// foldSome keeps the log short, by what this batch has added to it.
func (b *batch) foldSome() error {
	for b.newest-b.folded >= keepRecent+foldAtOnce || b.recent.bytes > keepRecentBytes {
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
