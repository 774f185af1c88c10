package providertest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strconv"
	"testing/iotest"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	c := s.arrive(r)
	defer func() {
		if !c.straggles {
			s.leave(c, panicked)
		}
	}()

	in := r.Body
	if s.bodyTells(r) {
		all, err := io.ReadAll(http.MaxBytesReader(w, in, maxBody))
		in = io.NopCloser(io.MultiReader(bytes.NewReader(all), iotest.ErrReader(cmp.Or(err, io.EOF))))
		s.identify(c, all)
		s.assign(c, s.isLook(c))
	}
	if c.fault.kind == cutRequest {
		in = io.NopCloser(io.LimitReader(in, int64(c.fault.bytes)))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, in, maxBody))
	s.identify(c, body)
	switch {
	case err != nil:
		s.leave(c, "its body could not be read")
		c.error(http.StatusBadRequest, "the request's body can't be read").write(w)
		return
	case s.Observe != nil:
		s.Observe(c.observed())
	}
	switch c.fault.kind {
	case cutRequest, dropBefore:
		s.leave(c, "not executed")
		hangUp(w, c.fault.ending(reset))
		return
	case status:
		a := c.byStatus(c.fault)
		s.leave(c, said("not executed", a))
		a.write(w)
		return
	case pageBefore:
		a := page(c.fault.status)
		s.leave(c, said("not executed", a))
		a.write(w)
		return
	case straggle:
		c.straggles = true
		s.straggle(c)
		hangUp(w, c.fault.ending(reset))
		return
	case delayBefore:
		s.pause(c.fault.delay)
	}
	a, what := s.answer(c)
	came := said(what, a)
	switch c.fault.kind {
	case delayAfter:
		s.pause(c.fault.delay)
	case pageAfter:
		a = page(c.fault.status)
	}
	s.leave(c, came)
	a.spoilt(w, r, c.fault)
}

// straggle has the request executed later.
func (s *Server) straggle(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entry.waits = true
	s.at(s.now().Add(c.fault.delay), func() {
		defer s.leave(c, panicked)
		defer s.survive()
		a, what := s.answer(c)
		s.leave(c, said(what, a)+", for nobody")
	}).straggler = true
}

// survive recovers from a panic of the handler if net/http does not.
func (s *Server) survive() {
	if v := recover(); v != nil && v != http.ErrAbortHandler {
		l := cmp.Or(s.ErrorLog, log.Default())
		l.Printf("providertest: the handler panicked: %v\n%s", v, debug.Stack())
	}
}

// arrive numbers the request and draws its fault.
func (s *Server) arrive(r *http.Request) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &entry{number: len(s.entries) + 1, method: r.Method, path: r.URL.Path}
	s.entries = append(s.entries, e)
	c := &call{r: r, entry: e}
	if !s.bodyTells(r) {
		e.fault = s.nextFault(e.number, get(r) && s.isLook(c))
		c.fault = e.fault
	}
	return c
}

// assign draws a request's fault, after its body was read.
func (s *Server) assign(c *call, looks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entry.fault = s.nextFault(c.entry.number, looks)
	c.fault = c.entry.fault
}

// identify finds the contract and the key.
func (s *Server) identify(c *call, body []byte) {
	c.body = body
	to := *c.r.URL
	to.Scheme, to.Host = "http", s.provider.Hosts[0]
	m := c.message()
	c.route = s.router.Route(c.r.Method, &to).For(m)
	if s.Manner != nil {
		c.manner = s.Manner(*c.route.Endpoint)
	}
	c.key, c.keyed, c.keyErr = tables.Key(c.route.Endpoint.Key).Carried(m)
	if !c.route.Effect {
		c.key, c.keyed, c.keyErr = "", false, nil
	}
	c.world = s.worldOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entry.key = c.key
}

// answer handles the request like the provider, and returns a description of the result.
func (s *Server) answer(c *call) (a Answer, came string) {
	e := c.route.Endpoint
	switch {
	case !c.route.Effect:
		if a, what, looks := s.looks(c); looks {
			return a, what
		}
		return s.look(c), "without effect"
	case c.keyErr != nil:
		return c.malformed(), "malformed key"
	case !c.keyed && e.Key.Place != providers.KeyNone && (s.RequireKey || c.manner.RequiresKey):
		return c.error(http.StatusBadRequest, "the idempotency key is required: "+e.Key.Name), "no key"
	case !c.keyed || e.Remembers == providers.Nothing:
		return s.execute(c, nil)
	}
	if a, refused := s.firstSent(c); refused {
		return a, "first sent at another time"
	}
	rec, state := s.reserve(c)
	switch state {
	case misused:
		return s.mismatch(c, rec), "key of another request"
	case inFlight:
		return s.inFlight(c), "in flight"
	case answered:
		return s.repeat(c, rec)
	}
	return s.execute(c, rec)
}

// execute runs the business, under a reserved key or without one, and records the result.
func (s *Server) execute(c *call, rec *record) (a Answer, came string) {
	done := false
	defer func() {
		if !done && rec != nil { // the handler panicked: nothing came of it
			s.release(rec)
		}
	}()
	a = s.run(c)
	for name, value := range c.manner.Executed {
		a.Header.Set(name, value)
	}
	given := a
	if c.fault.kind == failAfter {
		given = c.error(c.fault.status, "this failure is a scripted fault")
		given.Status = c.fault.status
	}
	for _, a := range []Answer{a, given} {
		if key := c.route.Endpoint.Key; c.manner.EchoesKey && c.keyed && tables.Key(key).InHeader(key.Name) {
			a.Header.Set(key.Name, c.r.Header.Get(key.Name))
		}
	}
	done = true
	for _, e := range s.settle(c, rec, a, given) {
		s.deliver(e)
	}
	return given, "executed"
}

// run executes the business. A client that has gone away does not stop the business.
func (s *Server) run(c *call) Answer {
	r := c.r.Clone(context.WithoutCancel(c.r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return Answer{Status: w.Code, Header: w.Result().Header, Body: w.Body.Bytes()}
}

// look answers a request without effect: with an execution's resource if the provider's repeats only point to
// it, otherwise by the handler.
func (s *Server) look(c *call) Answer {
	s.mu.Lock()
	a, made := s.resources[c.r.URL.Path]
	s.mu.Unlock()
	if made && (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead) {
		return s.current(a)
	}
	return s.run(c)
}

func (s *Server) inFlight(c *call) Answer {
	a, ok := c.saying(providers.InFlight, true, nil)
	if !ok {
		// The answer of this guard proves nothing by itself.
		a = c.error(http.StatusConflict, "a request with this key is being worked on")
		if c.route.Classify(a.seen(true)).Verdict == providers.AnswerGone { // which would say that it took effect
			a = c.error(http.StatusServiceUnavailable, "a request with this key is being worked on")
		}
		if c.route.Classify(a.seen(true)).Verdict != providers.Retry {
			if retry, ok := c.saying(providers.Retry, true, func(r providers.Rule) bool { return r.Field != "" }); ok {
				a = retry
			}
		}
	}
	switch wait := s.RetryAfter; {
	case wait == 0:
		a.Header.Set("Retry-After", "1")
	case wait > 0:
		a.Header.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	return a
}

// pause waits for d, or until the server is closed.
func (s *Server) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.closing:
	}
}

// worldOf returns a request's account and mode.
func (s *Server) worldOf(c *call) world {
	w := world{account: ownAccount, mode: tables.Mode(&s.provider, c.r.Header)}
	for _, name := range s.provider.AccountHeaders {
		if named := c.r.Header.Get(name); named != "" {
			w.account = named
			return w
		}
	}
	if s.Account != nil {
		w.account = s.Account(c.observed())
	}
	return w
}

// ownAccount is the account for requests that name none.
const ownAccount = "acct_own"
