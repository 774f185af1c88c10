package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Session is the client's session in the journal, from the first operation on. It may be used concurrently.
type Session struct {
	journal machine.Store
	joining chan struct{}                   // holds one while the journal is asked for a session, or to end it, which may take its time
	mu      sync.Mutex                      // of what follows
	present machine.Session                 // nil: none was started, or it was ended
	current atomic.Pointer[machine.Session] // present, for who does not wait for mu
	told    machine.Session                 // that it is lost
	over    bool                            // the client was shut down: no other is started
	lost    func(context.Context)
	ready   func(context.Context) error
}

// NewSession returns the session for a client that has not joined the journal yet. It calls ready before the join, and
// lost for each session that turns out to be lost.
func NewSession(j machine.Store, ready func(context.Context) error, lost func(context.Context)) *Session {
	return &Session{journal: j, joining: make(chan struct{}, 1), lost: lost, ready: ready}
}

// noticed reports a lost session, once. The caller does not hold mu.
func (s *Session) noticed(ctx context.Context, lost machine.Session) {
	s.mu.Lock()
	first := s.told != lost
	s.told = lost
	s.mu.Unlock()
	if first {
		s.lost(ctx)
	}
}

// Joined returns the session. It starts a session if there is none or the last one was lost. After End it returns
// fault.ErrShutdown.
func (s *Session) Joined(ctx context.Context) (machine.Session, error) {
	joined, lost, err := s.join(ctx)
	if lost != nil {
		s.noticed(ctx, lost)
	}
	return joined, err
}

func (s *Session) join(ctx context.Context) (now, lost machine.Session, err error) {
	if now, _, err = s.alive(); now != nil || err != nil {
		return now, nil, err
	}
	select {
	case s.joining <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if now, lost, err = s.alive(); now != nil || err != nil { // meanwhile
		<-s.joining
		return now, nil, err
	}
	type answer struct {
		joined machine.Session
		err    error
	}
	answers := make(chan answer, 1)
	go func() { // a caller who leaves meanwhile leaves the session to the next one
		defer func() { <-s.joining }()
		joined, err := s.start(context.WithoutCancel(ctx))
		answers <- answer{joined, err}
	}()
	select {
	case a := <-answers:
		return a.joined, lost, a.err
	case <-ctx.Done():
		return nil, lost, context.Cause(ctx)
	}
}

// start starts a session. The caller holds joining.
func (s *Session) start(ctx context.Context) (machine.Session, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	joined, err := s.journal.Join(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	over := s.over
	if !over {
		s.present = joined
		s.current.Store(&joined)
	}
	s.mu.Unlock()
	if over {
		return nil, errors.Join(fault.ErrShutdown, joined.End(ctx))
	}
	return joined, nil
}

// alive returns the present session: as lost if known to be lost, and otherwise as now. Both are nil without a
// session. After End, alive returns fault.ErrShutdown.
func (s *Session) alive() (now, lost machine.Session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil, nil, fault.ErrShutdown
	case s.present == nil || s.present.Lost():
		return nil, s.present, nil
	}
	return s.present, nil, nil
}

// Do calls f with the session, and again with another one if that turns out lost.
func (s *Session) Do(ctx context.Context, f func(id string) error) error {
	for again := false; ; again = true {
		joined, err := s.Joined(ctx)
		if err != nil {
			return err
		}
		if err = f(joined.ID()); again || !errors.Is(err, journal.ErrSessionLost) {
			return err
		}
	}
}

// Holds reports whether a session is the present one and not seen lost.
func (s *Session) Holds(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present != nil && s.present.ID() == id && !s.present.Lost()
}

// End ends the session and prevents another. No code would end a session begun after Shutdown: its operations under
// way would stay held for as long as the process lives. A store that takes longer than ctx ends the session later.
func (s *Session) End(ctx context.Context) error {
	s.mu.Lock()
	s.over = true
	last := s.present
	s.present = nil
	s.current.Store(nil)
	s.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		s.joining <- struct{}{} // a goroutine that was joining ends the session that it got
		defer func() { <-s.joining }()
		var err error
		if last != nil {
			err = last.End(ctx)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the session was not ended in time, and ends with the process: %w", context.Cause(ctx))
	}
}

// Rank returns this process's rank, from 0, among the processes with a session, and their number. It does no I/O.
// A session without ranks counts as the only one.
func (s *Session) Rank() (rank, of int) {
	if present := s.current.Load(); present != nil {
		if ranked, is := (*present).(interface{ Rank() (rank, of int) }); is {
			return ranked.Rank()
		}
	}
	return 0, 1
}
