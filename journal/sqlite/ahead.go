package sqlite

import (
	"slices"

	"github.com/onceward/onceward/journal"
)

// ahead does what arrives until the commit before this batch has landed, up to the first
// request that needs the file.
func (b *batch) ahead() landing {
	for {
		queue := b.queue
		if len(b.pending) > 0 || len(b.taken) >= maxBatch {
			queue = nil
		}
		select {
		case l := <-b.landed:
			return l
		case r := <-queue:
			if r.stop || r.do != nil || !b.deliver() || !b.inMemory(&r.event.Event) {
				b.pending = append(b.pending, r)
			} else {
				b.take(r)
			}
		}
	}
}

// empty tells whether there is nothing to begin a transaction for.
func (b *batch) empty() bool { return len(b.pending) == 0 && !b.some() }

// some tells whether anything was done.
func (b *batch) some() bool { return len(b.taken) > 0 || len(b.riders) > 0 || b.wrote }

// undo makes what was done ahead pending again, and tells whether there was any. Whoever
// calls it has the log read again.
func (b *batch) undo() bool {
	if !b.some() {
		return false
	}
	b.forget()
	again := slices.Concat(b.taken, b.pending)
	sql, others := b.sql, b.others
	b.reset()
	b.sql, b.others, b.pending = sql, others, append(b.pending, again...)
	return true
}

// answerRefused tells those who were refused ahead, now that it is known to rest on what
// was committed, or is in this transaction.
func (b *batch) answerRefused() {
	b.taken = slices.DeleteFunc(b.taken, func(r *request) bool {
		if r.refused == nil {
			return false
		}
		r.answer(r.refused)
		return true
	})
}

// inMemory tells whether the event can be applied without a look at the file, and without
// writing anything but a record.
func (b *batch) inMemory(ev *journal.Event) bool {
	switch ev.Kind {
	case journal.EventBegin, journal.EventComplete, journal.EventPark, journal.EventDoubt, journal.EventCancel, journal.EventDeliver:
	default:
		return false
	}
	if clock := b.clock; clock.See(ev.At) {
		return false // windows are closed
	}
	var k *kept
	if ev.Handle > b.folded {
		k = b.recent.at(ev.Handle)
	} else if ev.Handle != 0 {
		return false
	}
	if k != nil && ev.Ref != (journal.Ref{}) && ev.Ref != k.op.Ref {
		k = nil
	}
	if k == nil && !ev.New && (ev.Ref != journal.Ref{} || ev.Kind == journal.EventBegin) {
		s := b.recent.byRef[ev.Ref]
		if s == nil || s.now.op.Handle <= b.folded {
			return false
		}
		k = s.now
	}
	if ev.Kind != journal.EventBegin {
		return true
	}
	if !b.isMine(ev.Session) {
		return false
	}
	if k == nil {
		return (b.newest+1)%segmentSize != segmentSize-1 // which seals a segment
	}
	if holder := k.op.Holder; k.op.State == journal.InFlight && holder != "" {
		if !b.isMine(holder) {
			return false
		}
		b.looked(holder, nil)
	}
	return true
}
