package rowstore

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// sessions are this process's sessions.
type sessions struct {
	driver Driver
	mu     sync.Mutex
	own    map[string]*session
}

type session struct {
	s    *Store
	id   string
	lost atomic.Bool
	done atomic.Bool
}

// Join implements machine.Store.
func (s *Store) Join(ctx context.Context) (machine.Session, error) {
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	if err := s.trusted(ctx); err != nil {
		return nil, err
	}
	if err := s.sealed(ctx); err != nil {
		return nil, err
	}
	id, err := s.driver.Join(ctx)
	if err != nil {
		return nil, err
	}
	n := &session{s: s, id: id}
	if !s.sessions.add(n) {
		_ = s.driver.Leave(context.WithoutCancel(ctx), id) // no caller can end it
		return nil, journal.ErrClosed
	}
	return n, nil
}

// add reports whether the journal is still open.
func (l *sessions) add(n *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		return false
	}
	l.own[n.id] = n
	return true
}

func (l *sessions) remove(id string) (n *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = l.own[id]
	delete(l.own, id)
	return n
}

// require returns ErrSessionLost unless this process has the session alive.
func (l *sessions) require(id string) error {
	if !l.has(id) {
		return journal.ErrSessionLost
	}
	return nil
}

func (l *sessions) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.own[id]
	return n != nil && !n.done.Load() && !n.Lost()
}

// live reports whether a session lives, in this process or another.
func (b *batch) live(id string) (bool, error) {
	if b.s.sessions.has(id) {
		return true, nil
	}
	b.findLives([]string{id})
	return b.lives[id].Lives, b.lives[id].Err
}

// findLives finds out which sessions live, all sessions from other processes at once.
func (b *batch) findLives(ids []string) {
	var unknown []string
	for _, id := range ids {
		if _, known := b.lives[id]; !known && id != "" && !b.s.sessions.has(id) {
			if b.lives == nil {
				b.lives = make(map[string]Life)
			}
			unknown, b.lives[id] = append(unknown, id), Life{}
		}
	}
	if len(unknown) == 0 {
		return
	}
	for i, life := range b.s.driver.Alive(unknown) {
		b.lives[unknown[i]] = life
	}
}

// end ends all sessions like the process's death.
func (l *sessions) end() {
	l.mu.Lock()
	own := slices.Collect(maps.Values(l.own))
	l.own = nil
	l.mu.Unlock()
	for _, n := range own {
		n.lost.Store(true)
		drop(l.driver, n.id)
	}
}

func (n *session) ID() string { return n.id }

// Lost does no I/O. A lost session stays lost.
func (n *session) Lost() bool {
	if !n.lost.Load() && !n.done.Load() && n.s.driver.Lost(n.id) {
		n.lost.Store(true)
	}
	return n.lost.Load()
}

// Rank returns this session's position among all processes' living sessions, and their number.
func (n *session) Rank() (rank, of int) { return n.s.driver.Rank(n.id) }

// End records the deliveries that wait for a commit, and ends the session.
func (n *session) End(ctx context.Context) error {
	if n.done.Swap(true) || n.Lost() {
		return nil
	}
	n.s.sessions.remove(n.id)
	if n.s.open(context.Background()) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := n.s.Flush(ctx)
	if leave := n.s.driver.Leave(ctx, n.id); err == nil {
		err = leave
	}
	return err
}

// drop ends a session like the process's death if the driver can show a death. Otherwise the session leaves.
func drop(d Driver, id string) {
	if d, is := d.(interface{ Drop(id string) error }); is {
		_ = d.Drop(id)
		return
	}
	_ = d.Leave(context.Background(), id)
}
