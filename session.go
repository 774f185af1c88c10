package onceward

import (
	"context"
	"errors"
	"sync"

	"github.com/onceward/onceward/journal"
)

// session is the client's in its journal, from the first operation on. It may be used
// concurrently.
type session struct {
	journal journal.Journal
	mu      sync.Mutex      // held while the session is looked at or started
	present journal.Session // nil: none was started, or it was ended
}

// joined returns the session, which it starts if there is none or the last was
// lost.
func (s *session) joined(ctx context.Context) (journal.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present != nil && !s.present.Lost() {
		return s.present, nil
	}
	joined, err := s.journal.Join(ctx)
	if err != nil {
		return nil, err
	}
	s.present = joined
	return joined, nil
}

// do calls f with the session, and again with another one if that turns out lost.
func (s *session) do(ctx context.Context, f func(id string) error) error {
	for again := false; ; again = true {
		joined, err := s.joined(ctx)
		if err != nil {
			return err
		}
		if err = f(joined.ID()); again || !errors.Is(err, journal.ErrSessionLost) {
			return err
		}
	}
}

// holds reports whether a session is the present one and not seen lost.
func (s *session) holds(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present != nil && s.present.ID() == id && !s.present.Lost()
}

func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present == nil {
		return nil
	}
	last := s.present
	s.present = nil
	return last.End(ctx)
}
