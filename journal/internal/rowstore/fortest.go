package rowstore

import (
	"context"
	"errors"
	"math"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Only tests use this file's functions.

// Digest returns a name's digest in this journal.
func (s *Store) Digest(ref journal.Ref) Digest { return NameDigest(&s.key, ref) }

// Kill ends a session like the process's death if the driver can show a death (Drop). Otherwise the session leaves.
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

// Hold keeps the group in a transaction until the test calls release. release commits the transaction.
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

// FailCommit makes one group transaction fail.
func (s *Store) FailCommit() {
	_ = s.do(context.Background(), &request{run: func(b *batch) error { return b.fail(errFails) }})
}

// Change changes an operation's stored fields, as a release with other fields would.
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

// Swept waits until all operations know of all clock leaps.
func (s *Store) Swept(ctx context.Context) error { return s.swept(ctx, math.MaxUint32, true) }
