package providertest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/providers"
)

// Server is a provider in a box. Its exported fields may be set between
// [NewUnstartedServer] and [Server.Start], not later.
type Server struct {
	// URL is the server's base URL, of the form http://127.0.0.1:port. Start
	// sets it.
	URL string

	// Observe, if not nil, is called once for each request, as soon as it has
	// been read and before anything else is done with it, in the goroutine
	// that serves it. Calls may be concurrent.
	Observe func(Request)

	// RetryAfter is what the Retry-After header of an in-flight answer says,
	// rounded up to seconds. 0 means one second; if it is negative, the
	// header is not sent.
	RetryAfter time.Duration

	http     *httptest.Server
	handler  http.Handler
	provider providers.Provider
	router   *providers.Router
	closing  chan struct{}
	close    func()

	mu       sync.Mutex
	ahead    time.Duration
	requests int
	script   []Fault
	draw     func(number int) Fault
	records  map[string]*record
	effects  []Effect
}

// Request is one request as the server has read it.
type Request struct {
	// Number counts the requests that the server has read, from 1.
	Number int

	Method string
	Path   string
	Header http.Header
	Body   []byte

	// Key is the idempotency key as it is meant, without quotes; empty where
	// there is none or it is malformed.
	Key string

	// Fault is what will go wrong with this request.
	Fault Fault
}

// NewServer starts a server that keeps p's contract around the handler h. The
// caller closes it. Like httptest.NewServer it panics if it can't listen, and
// also if p is not valid.
func NewServer(p providers.Provider, h http.Handler) *Server {
	s := NewUnstartedServer(p, h)
	s.Start()
	return s
}

// NewUnstartedServer returns a server that has its port but does not serve yet,
// so that its fields can be set. The caller starts and closes it. It panics as
// [NewServer] does.
func NewUnstartedServer(p providers.Provider, h http.Handler) *Server {
	s := &Server{
		handler: h,
		closing: make(chan struct{}),
		records: map[string]*record{},
	}
	s.close = sync.OnceFunc(func() { close(s.closing) })
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.provider = p
	s.provider.Hosts = []string{s.http.Listener.Addr().String()}
	router, err := providers.NewRouter([]providers.Provider{s.provider})
	if err != nil {
		s.http.Close()
		panic(err)
	}
	s.router = router
	return s
}

// Start begins to serve and sets URL.
func (s *Server) Start() {
	s.http.Start()
	s.URL = s.http.URL
}

// Close ends delays, waits for the requests being served, the handler's
// included, and shuts the server down.
func (s *Server) Close() {
	s.close()
	s.http.Close()
}

// Client returns an HTTP client for the server, whose idle connections Close
// closes.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Provider returns the provider as this server is to be reached: the given one
// with this server as its only host.
func (s *Server) Provider() providers.Provider {
	p := s.provider
	p.Hosts = slices.Clone(p.Hosts)
	return p
}

// Requests returns how many requests the server has read.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Advance moves the server's clock forward by d, beyond the time that passes by
// itself. Keys whose retention ends by then are forgotten.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// now is the time on the server's clock; s.mu is held.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }
