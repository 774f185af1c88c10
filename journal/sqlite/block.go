package sqlite

import (
	"database/sql/driver"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// blockAndLog is read.BlockOf with the latest row of the log, or NULL if the outbox has rows.
const blockAndLog = "SELECT first, data, (SELECT max(seq) FROM onceward_log" + whereTakenIn + ") FROM onceward_blocks WHERE first <= ? ORDER BY first DESC LIMIT 1"

// inBlock finds an operation in its block, nil if it is in none.
func (b *batch) inBlock(handle int64) (k *format.Record, err error) {
	err = b.read(b.sql.BlockOf, func(v []driver.Value) error {
		k, err = format.FindInBlock(v, handle)
		return err
	}, handle)
	return k, err
}

// unpack moves an operation from its block to a row of its own, since it changes.
func (b *batch) unpack(k *format.Record) error {
	_, err := b.rewriteBlock(k.Op.Handle, func(k2 *format.Record) (bool, error) {
		if k2.Op.Handle != k.Op.Handle {
			return true, nil
		}
		return false, b.insertRow(k2)
	})
	return err
}

// rewriteBlock keeps the operations that stays selects in the block around a handle, and returns the number
// of removed ones.
func (b *batch) rewriteBlock(around int64, stays func(*format.Record) (bool, error)) (gone int, err error) {
	var first int64
	var left []*format.Record
	err = b.read(b.sql.BlockOf, func(v []driver.Value) error {
		first = v[0].(int64)
		data, _ := v[1].([]byte)
		return format.EachOfBlock(first, data, format.All, func(k *format.Record) error {
			left = append(left, k)
			return nil
		})
	}, around)
	if err != nil {
		return 0, err
	}
	all := left
	left = nil
	for _, k := range all {
		stay, err := stays(k)
		if err != nil {
			return 0, err
		}
		if stay {
			left = append(left, k)
		} else {
			gone++
		}
	}
	if gone > 0 {
		if err := b.write(b.sql.WipeBlock, first); err != nil {
			return 0, err
		}
	}
	switch {
	case gone == 0:
		return 0, nil
	case len(left) == 0:
		return gone, b.write(b.sql.RemoveBlock, first)
	}
	return gone, b.write(b.sql.UpdateBlock, b.encoder.Encode(first, left), first)
}

// reapBlock applies ev to the archived operations of the block that begins with first,
// at most limit.
func (b *batch) reapBlock(ev journal.Event, first int64, limit int, archived store.Archived) (reaped int, err error) {
	ev.Last, ev.Unconfirmed = b.clock.Last, b.clock.Unconfirmed(ev.At)
	return b.rewriteBlock(first, func(k *format.Record) (bool, error) {
		if reaped == limit || !archived.Has(&k.Op) {
			return true, nil
		}
		next, decision, err := journal.Next(k.Op, false, ev)
		if err != nil || decision != journal.Recorded {
			return true, err
		}
		reaped++
		if next.State == journal.StateAbsent {
			b.gone = append(b.gone, k.Op.Handle)
			return false, b.unmark(&k.Op)
		}
		tomb := &format.Record{Row: k.Row}
		tomb.Op, tomb.Request = next, nil
		return false, b.insertRow(tomb)
	})
}
