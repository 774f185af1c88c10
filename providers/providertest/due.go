package providertest

import (
	"slices"
	"time"
)

// at has something done at a time on the server's clock, once, unless the server is
// closed before; s.mu is held. It is done without s.mu.
func (s *Server) at(when time.Time, do func()) *due {
	d := &due{at: when, do: do, done: make(chan struct{})}
	if s.closed {
		d.forgotten = true
		close(d.done)
		return d
	}
	s.dues = append(s.dues, d)
	s.doing.Go(func() { s.await(d) })
	return d
}

// await waits until an entry is due, and runs the entry unless another goroutine did.
func (s *Server) await(d *due) {
	for {
		s.mu.Lock()
		left := d.at.Sub(s.now())
		if d.taken || d.forgotten {
			s.mu.Unlock()
			return
		}
		if left <= 0 {
			d.taken = true
			s.mu.Unlock()
			s.do(d)
			return
		}
		changed := s.changed
		s.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-d.done:
		case <-s.closing:
		}
		timer.Stop()
	}
}

func (s *Server) do(d *due) {
	defer func() {
		s.mu.Lock()
		s.dues = slices.DeleteFunc(s.dues, func(other *due) bool { return other == d })
		s.mu.Unlock()
		close(d.done)
	}()
	d.do()
}

// next returns the first due entry not later than a time. s.mu is held.
func (s *Server) next(until time.Time) (first *due) {
	for _, d := range s.dues {
		if !d.at.After(until) && (first == nil || d.at.Before(first.at)) {
			first = d
		}
	}
	return first
}

// Advance moves the server's clock forward by d, beyond the time that passes by itself. Keys whose retention ends are
// forgotten, and waiting requests continue. Everything that becomes due (a [Straggle] request, an event) is done before
// Advance returns, in time order and with the clock at the due time. An entry that becomes due before the previous one
// has ended runs concurrently.
//
// Advance(0) waits for everything that is due now. Code awaited by Advance, such as the receiver of an event, must not
// call Advance.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	until := s.now().Add(max(d, 0))
	for {
		first := s.next(until)
		if first == nil {
			break
		}
		s.ahead += max(first.at.Sub(s.now()), 0)
		mine := !first.taken
		if mine {
			first.taken = true
		}
		s.wake()
		s.mu.Unlock()
		if mine {
			s.do(first)
		} else {
			<-first.done
		}
		s.mu.Lock()
	}
	s.ahead += max(until.Sub(s.now()), 0)
	s.wake()
	s.mu.Unlock()
}

// forget drops all due entries, and waits for the running ones.
func (s *Server) forget() {
	s.mu.Lock()
	s.closed = true
	for _, d := range s.dues {
		if !d.taken {
			d.forgotten = true
			close(d.done)
		}
	}
	s.dues = nil
	s.wake()
	s.mu.Unlock()
	s.doing.Wait()
}
