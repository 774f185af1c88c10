package rowstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Adopt ends the restored state. Every operation without an answer counts as sent, and cancelled operations become
// unknown. Adopt does nothing if the journal was not restored and each session with an operation is known.
//
// Adopt goes through the operations in pages. Each page is a separate commit, so late answers are recorded in
// between. The journal counts as restored until the last page, so a partly adopted journal sends nothing. After an
// error, call Adopt again: Adopt begins anew. An error about a damaged operation means that the journal was adopted,
// and that the damaged operation stays unchanged.
func (s *Store) Adopt(ctx context.Context) error { return s.adopt(ctx, &adoption{}) }

// AdoptAs is Adopt for a journal that moves to another deployment, restored or not.
func (s *Store) AdoptAs(ctx context.Context, deployment string) error {
	return s.adopt(ctx, &adoption{moves: true, deployment: deployment})
}

// adopting begins Head.Restored while an adoption goes on.
const adopting = "its adoption was begun, and is not over: "

// adoption is how far an Adopt has come, from one commit to the next.
type adoption struct {
	moves      bool // to deployment
	deployment string

	mark    string // Head.Restored of this adoption; "" before its first commit
	after   int64  // each operation up to this handle was adopted
	done    bool
	damaged error // the first
}

func (s *Store) adopt(ctx context.Context, a *adoption) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	for !a.done {
		var next adoption
		err := s.alone(ctx, &request{run: func(b *batch) error {
			next = *a
			return b.fail(next.step(b)) // which undoes all of the batch
		}})
		if err != nil {
			return errors.Join(err, a.damaged)
		}
		*a = next
	}
	if a.damaged != nil {
		return fmt.Errorf("adopted, but %w", a.damaged)
	}
	return nil
}

// step is an adoption's single commit.
func (a *adoption) step(b *batch) error {
	switch is := b.head.Restored; {
	case a.mark == "":
		return a.begin(b)
	case is != a.mark:
		return fmt.Errorf("%w: while it was adopted, another process adopted it too, or the database went back; call Adopt again", journal.ErrRestored)
	}
	at := b.s.now()
	if err := b.see(at); err != nil {
		return err
	}
	page, err := b.tx.Scan(b.ctx, Scan{Index: Unanswered, After: Position{Handle: a.after}, Limit: sweepPage})
	if err != nil {
		return err
	}
	if err := a.page(b, page, b.s.prepare(machine.Event{Kind: machine.EventAdopt, At: at})); err != nil {
		return err
	}
	b.keep = true
	if a.done = len(page) < sweepPage; !a.done {
		a.after = page[len(page)-1].Handle
		return nil
	}
	if b.head.Restored = ""; a.moves {
		b.head.Deployment = a.deployment
	}
	return nil
}

// begin has the journal count as restored until the adoption is over.
func (a *adoption) begin(b *batch) error {
	needed := a.moves || b.head.Restored != ""
	if !needed {
		var err error
		if needed, err = b.holdsOfStrangers(); err != nil {
			return err
		}
	}
	if a.done = !needed; a.done {
		return nil
	}
	a.mark = adopting + rand.Text()
	b.keep, b.head.Restored = true, a.mark
	b.head.Epoch++
	return nil
}

// holdsOfStrangers reports whether a session copied or restored with the journal holds an operation or a flow.
func (b *batch) holdsOfStrangers() (bool, error) {
	holders, err := b.tx.Holders(b.ctx)
	if err == nil {
		err = b.eachFlow(FlowScan{Index: FlowsRunning}, func(row *Flow, _ *journal.Flow, _ error) bool {
			holders = append(holders, row.Holder)
			return true
		})
	}
	if err != nil {
		return false, err
	}
	b.findLives(holders)
	for _, holder := range holders {
		switch _, err := b.live(holder); {
		case errors.Is(err, journal.ErrRestored):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// page adopts a page of operations, and waits for rows that other transactions hold.
func (a *adoption) page(b *batch, page []Position, p *prepared) error {
	keys := Keys{Lock: WaitLock}
	for _, at := range page {
		keys.Handles = append(keys.Handles, at.Handle)
	}
	found, err := b.tx.Find(b.ctx, keys)
	if err != nil {
		return b.fail(err)
	}
	b.take(keys, found)
	for _, at := range page {
		e, err := b.entries[at.Handle].usable()
		if err == nil && e != nil {
			_, err = b.decide(e, p)
		}
		switch {
		case skips(err) && b.broken == nil:
			a.damaged = cmp.Or(a.damaged, err)
		case err != nil:
			return err
		}
	}
	return nil
}
