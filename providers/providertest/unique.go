package providertest

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/providers"
)

// referred finds what an earlier request with the same reference made, where that is unique by
// the table, and still is; nil if there was none. Where two at once are one, the reference is taken
// until leave is called.
func (s *Server) referred(c *call) (first *creation, leave func()) {
	u, about := c.route.Endpoint.Unique, &creation{endpoint: c.route.Endpoint, request: c.message()}
	if u.For <= 0 || u.Field != "" && about.text(u.Field) != u.Equals {
		return nil, func() {}
	}
	reference, has := about.reference()
	if !has || fmt.Sprint(reference) == "" {
		return nil, func() {}
	}
	name := strings.Join([]string{c.world.account, c.world.mode, about.endpoint.Pattern, fmt.Sprint(reference)}, "\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for _, o := range s.made {
			if v, has := o.reference(); has && o.world == c.world && o.endpoint.Pattern == about.endpoint.Pattern &&
				fmt.Sprint(v) == fmt.Sprint(reference) && o.state != providers.Refused && s.now().Before(o.at.Add(u.For)) {
				return o, func() {}
			}
		}
		if !u.Concurrent {
			return nil, func() {}
		}
		if !s.referring[name] {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.closing:
			s.mu.Lock()
			return nil, func() {}
		}
		s.mu.Lock()
	}
	if s.referring == nil {
		s.referring = map[string]bool{}
	}
	s.referring[name] = true
	return nil, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.referring, name)
		s.wake()
	}
}

// text is a field of the request in words; empty if it has none.
func (o *creation) text(name string) string {
	if v, has := o.field(name); has {
		return fmt.Sprint(v)
	}
	return ""
}

// refer refuses a second request with a reference, as the table says, or answers it as the first.
func (s *Server) refer(c *call, first *creation) Answer {
	refused := c.route.Endpoint.Unique.Refused
	if refused == (providers.Rule{}) {
		return s.current(first.answer)
	}
	a := c.example(refused)
	if refused.Pointer != "" {
		a = c.with(a, refused.Pointer, first.id)
	}
	return a
}
