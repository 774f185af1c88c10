package leased

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/journal"
)

// Sessions are the process's sessions that are neither ended nor lost. They are safe for concurrent use.
type Sessions struct {
	pace Pace
	mu   sync.Mutex
	own  map[string]*Session
}

// NewSessions returns no sessions. They are renewed at that pace.
func NewSessions(pace Pace) *Sessions {
	return &Sessions{pace: pace, own: make(map[string]*Session)}
}

// Session is a Join caller's lease.
type Session struct {
	of    *Sessions
	id    string
	lost  atomic.Bool // never revives
	ended atomic.Bool

	joined time.Time
	rank   atomic.Uint64 // its rank in the upper half, and the number of sessions in the lower one

	// The time until which the session is not lost, by either of the process's clocks.
	until atomic.Pointer[deadline]
}

// New returns a session, which Add adds once the database has it.
func (l *Sessions) New(id string) *Session {
	s := &Session{of: l, id: id, joined: time.Now()}
	s.Renewed(s.joined)
	return s
}

// Add adds a session that the database has.
func (l *Sessions) Add(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own[s.id] = s
}

func (l *Sessions) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, id)
}

// Mine returns a session of this process that is alive to the process's knowledge, or journal.ErrSessionLost.
func (l *Sessions) Mine(id string) (*Session, error) {
	l.mu.Lock()
	s := l.own[id]
	l.mu.Unlock()
	if s == nil || s.ended.Load() || s.Lost() {
		return nil, journal.ErrSessionLost
	}
	return s, nil
}

// Has reports whether a session is one of this process's.
func (l *Sessions) Has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own[id] != nil
}

// LoseAll marks all sessions as lost.
func (l *Sessions) LoseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.own {
		s.lost.Store(true)
	}
	clear(l.own)
}

// Living returns the sessions to renew, by their IDs.
func (l *Sessions) Living() map[string]*Session {
	l.mu.Lock()
	own := maps.Clone(l.own)
	l.mu.Unlock()
	maps.DeleteFunc(own, func(_ string, s *Session) bool { return s.Lost() })
	return own
}

// Heard records the answer to a renewal of living, and the time when the renewal was sent. A session that the database
// did not renew is lost.
func (l *Sessions) Heard(sent time.Time, living map[string]*Session, renewed []string) {
	for id, s := range living {
		if slices.Contains(renewed, id) {
			s.Renewed(sent)
		} else {
			s.Lose()
		}
	}
}

// Rank gives this process's sessions their ranks among the living ones, which are in order. A session that joined just
// now gets none yet, since other processes don't know the session.
func (l *Sessions) Rank(living []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rank, id := range living {
		if s := l.own[id]; s != nil && time.Since(s.joined) > 2*l.pace.Beat {
			s.rank.Store(uint64(rank)<<32 | uint64(len(living)))
		}
	}
}

// ID is random and never used again.
func (s *Session) ID() string { return s.id }

// Lost reports whether the session was ended, or may have been ended for want of a renewal. It does no I/O.
func (s *Session) Lost() bool {
	if s.lost.Load() {
		return true
	}
	if s.ended.Load() || !s.until.Load().passed(time.Now()) {
		return false
	}
	s.Lose()
	return true
}

// Rank returns the session's position among the live ones, from 0, and their number, at the latest beat. Zero means not
// known yet. It does no I/O. A session learns the rank once all others count the session. Until then their parts of a
// shared limit are larger. After one has gone, the parts are smaller for as long.
func (s *Session) Rank() (rank, of int) {
	both := s.rank.Load()
	return int(both >> 32), int(both & (1<<32 - 1))
}

// Renewed records that the database has renewed the session, and the time when the renewal was sent.
func (s *Session) Renewed(sent time.Time) { s.until.Store(s.of.pace.deadlineFrom(sent)) }

// Lose marks the session as lost.
func (s *Session) Lose() {
	if s.lost.Swap(true) {
		return
	}
	s.of.remove(s.id)
}

// End ends the session in the process, and reports whether the session was alive. The database then has to end the
// session too. The session stays among the process's sessions until Remove.
func (s *Session) End() bool { return !s.ended.Swap(true) && !s.lost.Load() }

// Remove removes an ended session.
func (s *Session) Remove() { s.of.remove(s.id) }
