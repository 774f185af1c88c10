package providertest

import (
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward/providers"
)

// record is what the server remembers of a key.
type record struct {
	at          time.Time // of the first request
	retention   time.Duration
	fingerprint string
	running     int
	stored      *answer
}

// free tells whether the key may be used as if for the first time: its request
// left nothing behind, or its retention has ended.
func (r *record) free(now time.Time) bool {
	if r.running > 0 {
		return false
	}
	return r.stored == nil || r.retention > 0 && !now.Before(r.at.Add(r.retention))
}

func (r *record) replay(p *providers.Provider) answer {
	a := *r.stored
	a.header = a.header.Clone()
	if p.ReplayHeader != "" {
		value := p.ReplayValue
		if value == "" {
			value = "true"
		}
		a.header.Set(p.ReplayHeader, value)
	}
	return a
}

// reservation is what the server knows of a key when a request comes in.
type reservation int

const (
	reserved reservation = iota // the key is the caller's to execute
	inFlight
	answered
	misused
)

// reserve takes the key before anything is executed. A misuse that the provider
// does not tell of goes unnoticed.
func (s *Server) reserve(c *call, misuseIsTold bool) (*record, reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scope, print, now := s.scope(c), fingerprint(c), s.now()
	rec := s.records[scope]
	switch {
	case rec == nil || rec.free(now):
		rec = &record{at: now, retention: c.route.Endpoint.Retention, fingerprint: print}
		s.records[scope] = rec
	case misuseIsTold && rec.fingerprint != print:
		return rec, misused
	case rec.stored != nil:
		return rec, answered
	case c.route.Endpoint.InFlightGuard:
		return rec, inFlight
	}
	rec.running++
	return rec, reserved
}

// release gives the key up without a result.
func (s *Server) release(rec *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.running--
}

// settle notes what came of an execution: the effect, and the answer if the
// provider keeps such.
func (s *Server) settle(c *call, rec *record, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.running--
	s.enter(c, a)
	if rec.stored == nil && keeps(c.route, a) {
		rec.stored = &a
	}
}

// keeps tells whether the provider remembers this answer.
func keeps(route providers.Route, a answer) bool {
	switch route.Classify(a.seen(false)).Verdict {
	case providers.Rejected, providers.NotExecuted, providers.InFlight, providers.Misuse:
		return false
	}
	return route.Endpoint.Remembers == providers.Everything || a.status < http.StatusBadRequest
}

// scope is what the provider looks a request's key up by.
func (s *Server) scope(c *call) string {
	parts := []string{c.key}
	for _, name := range s.provider.AccountHeaders {
		parts = append(parts, strings.Join(c.r.Header.Values(name), ","))
	}
	if s.provider.CredentialScoped {
		parts = append(parts, strings.Join(c.r.Header.Values("Authorization"), ","))
	}
	return strings.Join(parts, "\x00")
}

func fingerprint(c *call) string {
	return c.r.Method + " " + c.r.URL.RequestURI() + "\n" + string(c.body)
}
