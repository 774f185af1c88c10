package memory

import (
	"context"
	"sync/atomic"

	"github.com/onceward/onceward/journal"
)

type session struct {
	journal *Journal
	id      string
	lost    atomic.Bool
}

// Join starts a session. It lives until it is ended or killed.
func (j *Journal) Join(ctx context.Context) (journal.Session, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.open(ctx); err != nil {
		return nil, err
	}
	s := &session{journal: j, id: newSessionID()}
	j.sessions[s.id] = s
	return s, nil
}

// Kill ends the session with this ID like the death of its process: the next claim takes its operations. It
// is for tests of a program after a crash. A session that is not alive stays unchanged.
func (j *Journal) Kill(sessionID string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kill(sessionID)
}

func (j *Journal) kill(id string) {
	if s, ok := j.sessions[id]; ok {
		s.lost.Store(true)
		delete(j.sessions, id)
	}
}

// live reports whether a session is alive. The caller holds j.mu.
func (j *Journal) live(id string) bool {
	_, ok := j.sessions[id]
	return ok
}

func (s *session) ID() string { return s.id }

func (s *session) Lost() bool { return s.lost.Load() }

func (s *session) End(ctx context.Context) error {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if s.journal.closed || !s.journal.live(s.id) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	delete(s.journal.sessions, s.id)
	return nil
}
