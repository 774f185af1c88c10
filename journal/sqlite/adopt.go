package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/sqlite/internal/conn"
)

// Adopt makes a journal that was restored or copied the one to go on with, after
// which nothing is refused with journal.ErrRestored any more. To one that was not it
// does nothing.
//
// Whoever calls it asserts that no other copy of the journal is in use, nor will be.
// What happened after the copy was made is not in it: every operation without an
// answer counts as sent, from its creation until now, and is pending or unknown by
// the resend rule; cancelled ones are unknown. Names that were begun after the copy
// was made are not known, and execute when they are asked for again: adoption can't
// close that gap.
//
// Adopt is atomic. Where it returns an error, the journal is as it was, or, where the
// context ended, may have been adopted; it may be called again. Only an error that says
// so of a damaged operation, which stays as it is, comes with a journal that was adopted.
func (j *Journal) Adopt(ctx context.Context) error {
	return j.adopt(ctx, func(b *batch) (damaged, err error) {
		orphaned, err := b.removeSessionsWithoutFile()
		if err != nil || b.restored == nil && !orphaned {
			return nil, err
		}
		return b.adoptNow(time.Now())
	})
}

func (j *Journal) adopt(ctx context.Context, by func(*batch) (damaged, err error)) error {
	if err := j.writable(ctx); err != nil {
		return err
	}
	var damaged error
	err := j.file.writer.do(ctx, func(b *batch) (err error) {
		damaged, err = by(b)
		return err
	})
	return errors.Join(err, damaged)
}

func (b *batch) adoptNow(at time.Time) (damaged, err error) {
	ev := journal.Event{Kind: journal.EventAdopt, At: at}
	if err := b.observeClock(at); err != nil {
		return nil, err
	}
	handles, err := b.unanswered()
	if err != nil {
		return nil, err
	}
	var out outcome
	for _, handle := range handles {
		r, err := b.byHandle(handle)
		if err == nil {
			err = b.next(r, &prepared{Event: ev}, &out)
		}
		if errors.Is(err, format.ErrDamaged) && b.broken == nil { // it is believed by nobody
			damaged, err = fmt.Errorf("adopted, but operation %d: %w", handle, err), nil
		}
		if err != nil {
			return nil, b.giveUp(err)
		}
	}
	return damaged, b.giveUp(b.becomeItsOwn())
}

// becomeItsOwn gives the journal an identity that no other copy has. The sidecar
// comes first: until the commit the two differ, so that the journal counts as
// restored, and from the commit on they agree.
func (b *batch) becomeItsOwn() error {
	b.checkpoint.marking.Lock()
	b.committed = append(b.committed, b.checkpoint.marking.Unlock)
	b.abandoned = append(b.abandoned, b.checkpoint.marking.Unlock)
	was, before := b.restored, b.identity
	b.abandoned = append(b.abandoned, func() { b.restored, b.identity, b.verified = was, before, false })
	b.restored, b.identity = nil, newIdentity()
	// Another process may be writing the sidecar, and put what it said in the place of
	// this one: that must not make the file look older than its WAL.
	if side, err := readSidecar(b.path); err == nil {
		b.epoch = max(b.epoch, side.epoch)
	}
	if err := b.beginEpoch(); err != nil {
		return err
	}
	if err := b.write(b.sql.adoptBackup); err != nil {
		return err
	}
	// What it says of the file is not said of this one.
	if err := (sidecar{identity: b.identity, number: b.number}).place(b.path); err != nil {
		return conn.Explain(b.path, "adopt it", err)
	}
	b.committed = append(b.committed, func() { b.checkpoint.trusted.Store(true) })
	return nil
}

// removeSessionsWithoutFile is for those that were copied or restored with the
// journal, and tells whether there were any: whoever ran them does so elsewhere, or
// no more.
func (b *batch) removeSessionsWithoutFile() (some bool, err error) {
	var ids []string
	err = b.read(b.sql.sessions, func(v []driver.Value) error {
		ids = append(ids, v[0].(string))
		return nil
	})
	if err != nil {
		return some, err
	}
	for _, id := range ids {
		if err := b.alive(id); !errors.Is(err, journal.ErrRestored) {
			continue
		}
		if err := b.write(b.sql.removeSession, id); err != nil {
			return some, err
		}
		b.liveness[id] = errDead
		some = true
	}
	return some, nil
}

// giveUp fails the whole batch with err: half an adoption is none.
func (b *batch) giveUp(err error) error {
	b.broken = cmp.Or(b.broken, err)
	return err
}
