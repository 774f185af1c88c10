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
	"github.com/onceward/onceward/journal/sqlite/internal/schema"
	"github.com/onceward/onceward/journal/sqlite/internal/sidecar"
)

// Adopt makes a restored or copied journal the one to continue with. Its methods no longer return
// journal.ErrRestored afterwards. On any other journal it does nothing.
//
// By calling it you declare that no other copy of the journal is in use, or will be. Events after the copy
// was made are missing. Every operation without an answer counts as sent, from its creation until now, and is
// pending or unknown by the resend rule. Cancelled operations are unknown. Names that began after the copy
// was made are not known, and execute again when they are requested. Adoption cannot close that gap.
//
// Adopt processes the operations without an answer in commits of some hundred, so that late answers can be
// recorded in between. The journal counts as restored, and sends nothing, until the last of these commits. If
// Adopt returns an error, or its process dies, call it again: it starts over, and a second adoption changes
// nothing. An error about a damaged operation means that the journal was adopted, and that this operation
// stays unchanged.
func (j *logJournal) Adopt(ctx context.Context) error {
	return j.adopt(ctx, func(b *batch) (bool, error) {
		missing, err := b.sessionsWithoutFile()
		return b.restored != nil || len(missing) > 0, err
	}, func(*batch) error { return nil })
}

// adopt adopts a journal that needs it, page by page. The last page's commit is also that of end.
func (j *logJournal) adopt(ctx context.Context, needed func(*batch) (bool, error), end func(*batch) error) error {
	if err := j.writable(ctx); err != nil {
		return err
	}
	var damaged error
	for at := new(adoption); !at.done; {
		var next *adoption
		err := j.file.writer.do(ctx, func(b *batch) error {
			next = &adoption{after: at.after}
			if is, err := needed(b); err != nil || !is {
				next.done = true // perhaps by another process, meanwhile
				return err
			}
			err := b.adopt(next)
			if err == nil && next.done {
				err = b.giveUp(end(b))
			}
			return err
		})
		if err != nil {
			return errors.Join(err, damaged)
		}
		at, damaged = next, cmp.Or(next.damaged, damaged)
	}
	return damaged
}

// adoptAtOnce is how many operations an adoption goes through in one commit.
var adoptAtOnce = 256 // a test has fewer

// adoption is how far an adoption has come, from one commit to the next.
type adoption struct {
	after   int64 // every operation up to this handle was adopted
	done    bool
	damaged error // an operation that can't be read, and stays as it is
}

// adopt adopts a page of operations, and with the last one the journal.
func (b *batch) adopt(a *adoption) error {
	missing, err := b.sessionsWithoutFile()
	if err != nil {
		return err
	}
	for _, id := range missing {
		b.liveness[id] = errDead // their processes run elsewhere, or not any more
	}
	ev := journal.Event{Kind: journal.EventAdopt, At: time.Now()}
	if err := b.observeClock(ev.At); err != nil {
		return err
	}
	handles, err := b.unansweredAfter(a.after, adoptAtOnce)
	if err != nil {
		return err
	}
	var out outcome
	began := time.Now()
	for i, handle := range handles {
		if i > 0 && time.Since(began) > claimFor {
			return b.giveUp(b.countAsRestored())
		}
		r, err := b.byHandle(handle)
		if err == nil {
			err = b.next(r, &prepared{Event: ev}, &out)
		}
		if errors.Is(err, format.ErrDamaged) && b.broken == nil { // a damaged operation is never used
			a.damaged, err = fmt.Errorf("adopted, but operation %d: %w", handle, err), nil
		}
		if err != nil {
			return b.giveUp(err)
		}
		a.after = handle
	}
	if len(handles) == adoptAtOnce {
		return b.giveUp(b.countAsRestored())
	}
	for _, id := range missing {
		if err := b.write(b.sql.RemoveSession, id); err != nil {
			return b.giveUp(err)
		}
	}
	b.missing = []string{}
	a.done = true
	return b.giveUp(b.becomeItsOwn())
}

// countAsRestored makes a partly adopted journal count as restored for every process that opens it: its
// sidecar belongs to another journal until the adoption is over.
func (b *batch) countAsRestored() error {
	if b.restored != nil {
		return nil
	}
	b.holdMarks()
	side, _ := sidecar.Read(b.path) // else it counts as restored by that
	side.Identity = sidecar.NewIdentity()
	if err := side.Place(b.path); err != nil {
		return conn.Explain(b.path, "adopt it", err)
	}
	b.abandoned = append(b.abandoned, func() { b.restored, b.verified = nil, false })
	b.restored = fmt.Errorf("%w: %s is adopted in part; nothing is sent until Adopt was called, and has returned", journal.ErrRestored, b.path)
	b.checkpoint.Trusted.Store(false)
	return nil
}

// holdMarks keeps the checkpointer from the sidecar until the batch is over.
func (b *batch) holdMarks() {
	if b.marksHeld {
		return
	}
	b.marksHeld = true
	b.checkpoint.Marking.Lock()
	b.committed = append(b.committed, b.checkpoint.Marking.Unlock)
	b.abandoned = append(b.abandoned, b.checkpoint.Marking.Unlock)
}

// becomeItsOwn gives the journal an identity that no other copy has. The sidecar is written first: until the
// commit the two differ, so the journal counts as restored, and from the commit on they agree.
func (b *batch) becomeItsOwn() error {
	b.holdMarks()
	was, before := b.restored, b.identity
	b.abandoned = append(b.abandoned, func() { b.restored, b.identity, b.verified = was, before, false })
	b.restored, b.identity = nil, sidecar.NewIdentity()
	// Another process may be writing the sidecar, and replace this one by the old one. That must not make the
	// file look older than its WAL.
	if side, err := sidecar.Read(b.path); err == nil {
		b.epoch = max(b.epoch, side.Epoch)
	}
	if err := b.beginEpoch(); err != nil {
		return err
	}
	if err := b.write(b.sql.AdoptBackup); err != nil {
		return err
	}
	if err := schema.SkipReceipts(b.conn); err != nil {
		return conn.Explain(b.path, "adopt it", err)
	}
	// Its note is about another file.
	if err := (sidecar.Content{Identity: b.identity, Number: b.number}).Place(b.path); err != nil {
		return conn.Explain(b.path, "adopt it", err)
	}
	b.committed = append(b.committed, func() { b.checkpoint.Trusted.Store(true) })
	return nil
}

// sessionsWithoutFile are those that were copied or restored with the journal. It looks once in a batch.
func (b *batch) sessionsWithoutFile() ([]string, error) {
	if b.missing != nil {
		return b.missing, nil
	}
	var ids []string
	err := b.read(b.sql.Sessions, func(v []driver.Value) error {
		ids = append(ids, v[0].(string))
		return nil
	})
	if err != nil {
		return nil, err
	}
	missing := []string{}
	for _, id := range ids {
		switch err := b.alive(id); {
		case errors.Is(err, journal.ErrRestored):
			missing = append(missing, id)
		case err != nil && err != errDead: // it may hold operations
			return nil, err
		}
	}
	b.missing = missing
	return missing, nil
}

// giveUp fails the whole batch with err: half an adoption is none.
func (b *batch) giveUp(err error) error {
	b.broken = cmp.Or(b.broken, err)
	return err
}
