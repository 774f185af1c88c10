package rowstore

import (
	"context"
	"errors"
	"math"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// The functions of this file are for tests.

// Digest returns the digest of a name in this journal.
func (s *Store) Digest(ref journal.Ref) Digest { return NameDigest(&s.key, ref) }

// Kill ends a session as the death of its process does, where the driver can show that (Drop). Else it leaves.
func Kill(of machine.Session) {
	n := of.(*session)
	if n.s.sessions.remove(n.id) == nil {
		return
	}
	n.lost.Store(true)
	drop(n.s.driver, n.id)
}

// Queued returns how many requests wait for the next transaction.
func (s *Store) Queued() int {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	return len(s.group.queue)
}

// Hold keeps the group in a transaction, which it commits once release is called.
func (s *Store) Hold() (release func()) {
	held, let := make(chan struct{}), make(chan struct{})
	s.group.accept(newRequest(context.Background(), &request{run: func(b *batch) error {
		b.keep = true
		close(held)
		<-let
		return nil
	}}))
	<-held
	return func() { close(let) }
}

var errFails = errors.New("rowstore: a test has the transaction fail")

// FailCommit makes one transaction of the group fail.
func (s *Store) FailCommit() {
	_ = s.do(context.Background(), &request{run: func(b *batch) error { return b.fail(errFails) }})
}

// Change changes the stored fields of an operation, as a release with other fields would.
func (s *Store) Change(ctx context.Context, ref journal.Ref, change func(*journal.Operation)) error {
	return s.do(ctx, &request{run: func(b *batch) error {
		e, err := b.byName(ref, s.Digest(ref))
		if err == nil {
			op := e.now.op
			change(&op)
			b.set(e, e.now.after(&op))
		}
		return err
	}})
}

// Swept waits until all operations were told of all leaps of the clock.
func (s *Store) Swept(ctx context.Context) error { return s.swept(ctx, math.MaxUint32, true) }
