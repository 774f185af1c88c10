package onceward

import "github.com/onceward/onceward/journal"

// ranked is what a journal.Session may tell besides, without I/O: which of the sessions that live it is, from
// 0, and how many there are; 0 while that is not known.
type ranked interface{ Rank() (rank, of int) }

// share is this process's part of n slots of the fleet's: what is left over goes to the first by rank, so that
// all parts together are n, and one may be none. Nobody has any as long as it does not know its rank.
func share(n, rank, of int) int {
	if rank < 0 || rank >= of {
		return 0
	}
	part := n / of
	if rank < n%of {
		part++
	}
	return part
}

// most is how many operations Run and Resume send at once to a site.
func (c *Client) most(at site) int {
	n := c.cfg.Concurrency
	if c.cfg.FleetConcurrency == 0 || at.provider == "" {
		return n
	}
	part := c.cfg.FleetConcurrency
	if present := c.session.current.Load(); present != nil {
		if s, is := (*present).(ranked); is {
			rank, of := s.Rank()
			part = share(part, rank, of)
		}
	}
	return min(n, part)
}

// became takes note of the present session, or that there is none.
func (s *session) became(present journal.Session) {
	s.present = present
	s.current.Store(&present)
}
