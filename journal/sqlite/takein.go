package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
	"github.com/onceward/onceward/journal/sqlite/internal/read"
	"github.com/onceward/onceward/journal/sqlite/internal/sealed"
)

// takeIn applies the outbox of the application's transactions before anything else in the batch. more reports
// that some is left: this batch is committed, and another one continues.
func (b *batch) takeIn() (more bool, err error) {
	if !b.unread {
		return false, nil
	}
	var rows []sealed.Outbox
	last, bytes := int64(0), 0
	err = b.read(b.sql.ReadOutbox, func(v []driver.Value) error {
		if len(rows) >= maxBatch || bytes > maxBatchBytes/2 {
			more = true
			return conn.ErrEnough
		}
		seq, row, err := sealed.ReadOutbox(v)
		rows, last, bytes = append(rows, row), seq, bytes+len(row.Record)
		return err
	})
	if err != nil && !errors.Is(err, conn.ErrEnough) {
		return false, err
	}
	for _, row := range rows {
		if err := b.takeRow(row); err != nil {
			return false, b.giveUp(b.fail(err))
		}
	}
	if len(rows) > 0 {
		if err := b.write(b.sql.ClearOutbox, last); err != nil {
			return false, b.giveUp(err)
		}
	}
	b.committed = append(b.committed, func() { b.unread = more })
	return more, nil
}

func (b *batch) takeRow(row sealed.Outbox) error {
	switch row.Kind {
	case sealed.Operation:
		k, err := row.Operation()
		if err != nil {
			return err
		}
		return b.takeOperation(k)
	case sealed.Delivery:
		ev, err := row.Delivery()
		if err != nil {
			return err
		}
		r, err := b.find(ev)
		if err != nil {
			return err
		}
		var out outcome
		return b.next(r, &prepared{Event: ev}, &out)
	}
	if at, is := row.IsMark(); is && at.After(b.clock.Last) {
		return b.observeClock(at)
	}
	return nil // a second name, which the operation has
}

// takeOperation stores an operation as it became. It was found out under the lock that it had to become that.
func (b *batch) takeOperation(k *format.Record) error {
	// How long the transaction was open, and how long ago that is, says nothing of the clock.
	if k.Op.UpdatedAt.After(b.clock.Last) {
		if err := b.observeClock(k.Op.UpdatedAt); err != nil {
			return err
		}
	}
	c := change{row: row{Row: k.Row}, renewed: true, body: k.Body}
	if k.Op.Handle == b.newest+1 {
		return b.put(&row{}, &c)
	}
	r, err := b.byHandle(k.Op.Handle)
	if err != nil {
		return err
	}
	if !r.found() || r.Op.Ref != k.Op.Ref {
		return format.ErrDamaged
	}
	c.Identified = r.Identified
	return b.put(&r, &c)
}

// takenIn makes the writer take in the outbox, if it has rows, so that readers find them.
func (j *logJournal) takenIn(ctx context.Context) error {
	if j.file.writer.readOnly {
		return nil
	}
	waits := false
	err := j.file.readers.Read(ctx, func(r *read.Reader) error {
		return r.Each(anyOutbox, func([]driver.Value) error {
			waits = true
			return nil
		})
	})
	if err != nil || !waits {
		return err
	}
	return j.file.writer.do(ctx, func(*batch) error { return nil })
}

// whereTakenIn is false as long as something is in the outbox.
const whereTakenIn = " WHERE NOT EXISTS (SELECT 1 FROM onceward_outbox)"

const anyOutbox = "SELECT 1 FROM onceward_outbox LIMIT 1"
