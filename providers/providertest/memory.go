package providertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/fingerprint"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// reservation is a key's state when a request arrives.
type reservation int

const (
	reserved reservation = iota // the key is the caller's to execute
	inFlight
	answered
	misused
)

// reserve takes the key before the execution, or waits for its holder if the provider does. A misuse that the
// provider does not report is not detected.
func (s *Server) reserve(c *call) (*record, reservation) {
	scope, print := s.scope(c), c.fingerprint()
	told := s.tellsMismatch(c)
	for {
		s.mu.Lock()
		now := s.now()
		rec := s.records[scope]
		switch {
		case rec == nil || rec.free(now):
			rec = &record{at: now, retention: c.route.Endpoint.Retention, fingerprint: print}
			s.records[scope] = rec
		case told && rec.fingerprint != print:
			s.mu.Unlock()
			return rec, misused
		case rec.stored != nil:
			s.mu.Unlock()
			return rec, answered
		case c.route.Endpoint.InFlightGuard:
			s.mu.Unlock()
			return rec, inFlight
		default:
			if left := rec.at.Add(c.manner.Waits).Sub(now); left > 0 && s.waits(left) {
				continue
			}
		}
		rec.running++
		s.mu.Unlock()
		return rec, reserved
	}
}

// waits waits for a change, at most for d. It reports whether to check again, and has then released s.mu. If
// it returns false, s.mu is still held.
func (s *Server) waits(d time.Duration) bool {
	select {
	case <-s.closing:
		return false
	default:
	}
	changed := s.changed
	s.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-s.closing:
	}
	return true
}

// release gives the key up without a result.
func (s *Server) release(rec *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.running--
	s.wake()
}

// settle records an execution's result: the effect, and the answer if the provider keeps it. rec is nil without a key.
// made is the business's answer. given is the provider's answer, which differs if the provider failed afterwards.
// settle returns the events to deliver before the answer.
func (s *Server) settle(c *call, rec *record, made, given Answer) (early []*event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := c.failed(made)
	if !failed {
		early = s.enter(c, made)
	}
	if rec == nil {
		return early
	}
	rec.running--
	s.wake()
	if rec.stored != nil {
		return early
	}
	var keep Answer
	switch {
	case c.keeps(given):
		keep = given.clone()
	case c.fault.kind == failAfter && c.route.Endpoint.Remembers == providers.SuccessesCleanFailures && !failed:
		keep = made.clone() // the repeat completes it
	default:
		return early
	}
	rec.stored = &keep
	if c.route.Endpoint.FetchPointer && !failed {
		resource := made.clone()
		resource.Status = http.StatusOK
		s.resources[strings.TrimSuffix(c.r.URL.Path, "/")+"/"+resourceOf(made)] = resource
	}
	return early
}

// failed reports whether the business refused or failed, without an effect.
func (c *call) failed(a Answer) bool {
	return a.Status >= http.StatusBadRequest || c.manner.Failed != nil && c.manner.Failed(a)
}

// keeps reports whether the provider remembers this answer.
func (c *call) keeps(a Answer) bool {
	switch c.route.Classify(a.seen(false)).Verdict {
	case providers.Rejected, providers.NotExecuted, providers.InFlight, providers.Misuse:
		return false
	}
	switch {
	case c.route.Endpoint.Remembers == providers.Everything:
		return true
	case c.manner.KeepsRefusals && a.Status >= 400 && a.Status < 500:
		return true
	}
	return !c.failed(a)
}

// repeat answers a repeat with the refusal that points to the object, or with no answer, if the provider does so.
// Otherwise it answers from the record.
func (s *Server) repeat(c *call, rec *record) (Answer, string) {
	if a, ok := c.pointing(resourceOf(*rec.stored)); ok {
		return a, "already done"
	}
	if a, ok := c.saying(providers.AnswerGone, true, nil); ok {
		return a, "answer gone"
	}
	a := s.current(*rec.stored)
	if a.Status == http.StatusCreated && c.manner.RepeatStatus != 0 {
		a.Status = c.manner.RepeatStatus
	}
	if p := &s.provider; p.ReplayHeader != "" {
		value := cmp.Or(p.ReplayValue, "true")
		a.Header.Set(p.ReplayHeader, value)
	}
	return a, "replayed"
}

// current is a recorded answer as it is by now.
func (s *Server) current(first Answer) Answer {
	a := first.clone()
	a.Body = bytes.Clone(a.Body)
	if s.Repeat != nil {
		a = s.Repeat(a).clone()
	}
	return a
}

func (c *call) pointing(resource string) (Answer, bool) {
	for _, rule := range c.route.Endpoint.Rules {
		if rule.Verdict != providers.AlreadyDone {
			continue
		}
		a := c.with(c.example(rule), rule.Pointer, resource)
		if c.route.Classify(a.seen(true)).Pointer == resource {
			return a, true
		}
	}
	return Answer{}, false
}

// resourceOf returns an answer object's id: the JSON object's member id, or that of the first inner object with
// such a member.
func resourceOf(a Answer) string {
	var body map[string]any
	if json.Unmarshal(a.Body, &body) == nil {
		if id, is := body["id"].(string); is {
			return id
		}
		for _, name := range slices.Sorted(maps.Keys(body)) {
			if inner, is := body[name].(map[string]any); is {
				if id, is := inner["id"].(string); is {
					return id
				}
			}
		}
	}
	return "resource"
}

// tellsMismatch reports whether a key that was used with another request is noticed.
func (s *Server) tellsMismatch(c *call) bool {
	if c.manner.MismatchUnnoticed {
		return false
	}
	_, told := c.saying(providers.Misuse, true, nil)
	return told || c.manner.Mismatch != nil
}

func (s *Server) mismatch(c *call, rec *record) Answer {
	if c.manner.Mismatch == nil {
		a, _ := c.saying(providers.Misuse, true, nil)
		return a
	}
	resource := ""
	s.mu.Lock()
	if rec.stored != nil {
		resource = resourceOf(*rec.stored)
	}
	s.mu.Unlock()
	a := c.manner.Mismatch.clone()
	if text, err := json.Marshal(resource); err == nil {
		a.Body = bytes.ReplaceAll(a.Body, []byte(`"`+resourcePlace+`"`), text)
	}
	return a
}

// firstSent checks the time that travels with the key.
func (s *Server) firstSent(c *call) (a Answer, refused bool) {
	name := c.route.Endpoint.Key.FirstSent
	if name == "" {
		return Answer{}, false
	}
	at, err := http.ParseTime(c.r.Header.Get(name))
	if err != nil {
		return c.error(http.StatusBadRequest, "the header "+name+" must be an HTTP date"), true
	}
	window, now := c.route.Endpoint.Retention, s.Now()
	if window <= 0 || now.Sub(at) < window && at.Sub(now) < window {
		return Answer{}, false
	}
	a, ok := c.saying(providers.Rejected, false, func(r providers.Rule) bool { return r.Status == http.StatusPreconditionFailed })
	if !ok {
		a = c.error(http.StatusPreconditionFailed, "the first attempt is outside the tracked window")
	}
	return a, true
}

// scope returns what identifies a request's key at the provider.
func (s *Server) scope(c *call) string {
	key := c.route.Endpoint.Key
	parts := []string{key.Name, c.key}
	for _, name := range s.provider.AccountHeaders {
		parts = append(parts, strings.Join(c.r.Header.Values(name), ","))
	}
	if s.Account != nil {
		parts = append(parts, "in", c.world.account)
	}
	if s.provider.CredentialScoped {
		for _, name := range slices.Sorted(maps.Keys(c.r.Header)) {
			if secret.Header(name) && name != "Cookie" && !tables.Key(key).InHeader(name) {
				parts = append(parts, name, strings.Join(c.r.Header.Values(name), ","))
			}
		}
	}
	switch c.manner.Scope {
	case ByPath:
		parts = append(parts, c.r.Method, c.r.URL.EscapedPath())
	case ByEndpoint:
		parts = append(parts, c.route.Endpoint.Pattern, c.route.Endpoint.Action.Value)
	case ByRequest:
		parts = append(parts, c.r.Method, c.r.URL.RequestURI(), string(c.body))
	}
	return fmt.Sprintf("%q", parts)
}

// fingerprint distinguishes a repeat from another request by their meaning. fingerprint leaves out the key and the
// fields that may change by the table.
func (c *call) fingerprint() string {
	m, err := tables.Key(c.route.Endpoint.Key).Without(c.message())
	if err != nil {
		m = c.message()
	}
	to := url.URL{Path: c.r.URL.Path, RawPath: c.r.URL.RawPath, RawQuery: m.Query}
	print := fingerprint.Of(fingerprint.Input{
		Method:          c.r.Method,
		URL:             &to,
		ContentType:     c.r.Header.Get("Content-Type"),
		ContentEncoding: c.r.Header.Get("Content-Encoding"),
		Body:            m.Body,
		OmitFields:      c.route.Endpoint.OmitFields,
	})
	if first := c.route.Endpoint.Key.FirstSent; first != "" {
		print += " " + c.r.Header.Get(first)
	}
	return print
}
