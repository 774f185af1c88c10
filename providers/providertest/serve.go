package providertest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/onceward/onceward/providers"
)

// maxBody is how large a request may be, in bytes.
const maxBody = 64 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		problem(http.StatusBadRequest, "the request's body can't be read").write(w)
		return
	}
	url := *r.URL
	url.Scheme, url.Host = "http", s.provider.Hosts[0]
	c := call{r: r, body: body, route: s.router.Route(r.Method, &url)}
	c.key, c.keyed, c.keyErr = c.route.Endpoint.Key.Carried(r.Header)

	fault := s.arrive(&c)
	switch fault.kind {
	case dropBefore:
		drop(w)
		return
	case status:
		byStatus(c.route, fault).write(w)
		return
	case delayBefore:
		s.pause(fault.delay)
	}
	a := s.answer(&c)
	switch fault.kind {
	case dropAfter:
		drop(w)
		return
	case cut:
		a.cut(w, fault)
		return
	case delayAfter:
		s.pause(fault.delay)
	}
	a.write(w)
}

// call is one request on its way through the server.
type call struct {
	r      *http.Request
	number int
	body   []byte
	route  providers.Route
	key    string
	keyed  bool
	keyErr error
}

// arrive numbers the request, tells the observer and says what goes wrong.
func (s *Server) arrive(c *call) Fault {
	s.mu.Lock()
	s.requests++
	c.number = s.requests
	fault := s.nextFault(c.number)
	s.mu.Unlock()

	if s.Observe != nil {
		s.Observe(Request{
			Number: c.number,
			Method: c.r.Method,
			Path:   c.r.URL.Path,
			Header: c.r.Header.Clone(),
			Body:   bytes.Clone(c.body),
			Key:    c.key,
			Fault:  fault,
		})
	}
	return fault
}

// answer does what the provider would do with the request.
func (s *Server) answer(c *call) answer {
	switch {
	case c.keyErr != nil:
		return problem(http.StatusBadRequest, c.keyErr.Error())
	case !c.route.Effect:
		return s.run(c)
	case !c.keyed || c.route.Endpoint.Remembers == providers.Nothing:
		a := s.run(c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.enter(c, a)
		return a
	}
	misuse, told := saying(c.route, providers.Misuse)
	rec, state := s.reserve(c, told)
	switch state {
	case misused:
		return misuse
	case inFlight:
		return s.inFlight(c.route)
	case answered:
		return rec.replay(&s.provider)
	}
	done := false
	defer func() {
		if !done { // the handler panicked: nothing came of it
			s.release(rec)
		}
	}()
	a := s.run(c)
	done = true
	s.settle(c, rec, a)
	return a
}

// run executes the business. A client that has gone away does not stop it.
func (s *Server) run(c *call) answer {
	r := c.r.Clone(context.WithoutCancel(c.r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return answer{status: w.Code, header: w.Result().Header, body: w.Body.Bytes()}
}

func (s *Server) inFlight(route providers.Route) answer {
	a, ok := saying(route, providers.InFlight)
	if !ok {
		a = problem(http.StatusConflict, "a request with this key is being worked on")
	}
	switch wait := s.RetryAfter; {
	case wait == 0:
		a.header.Set("Retry-After", "1")
	case wait > 0:
		a.header.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
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

// drop resets the connection.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
