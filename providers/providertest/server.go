package providertest

import (
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// Server is a provider in a box. Its exported fields may be set between
// [NewUnstartedServer] and [Server.Start] or [Server.StartTLS], not later.
type Server struct {
	// URL is the server's base URL, of the form http://127.0.0.1:port or, with
	// TLS, https://127.0.0.1:port; in memory it has a host name and no port. Start
	// and StartTLS set it.
	URL string

	// Observe, if not nil, is called once for each request, as soon as it has
	// been read and before anything else is done with it, in the goroutine
	// that serves it. Calls may be concurrent.
	Observe func(Request)

	// RetryAfter is what the Retry-After header of an in-flight answer says,
	// rounded up to seconds. 0 means one second; if it is negative, the
	// header is not sent.
	RetryAfter time.Duration

	// RequireKey refuses requests without a key at every endpoint that takes
	// one, also where the provider doesn't: for tests that a key is always
	// sent.
	RequireKey bool

	// Repeat, if not nil, makes a repeat's answer of the recorded one, for
	// providers that answer from the current state of a resource (PayPal, Stripe
	// v2, Braintree, Shopify, AWS). It gets a copy. Calls may be concurrent.
	Repeat func(first Answer) Answer

	// Account, if not nil, says in which account a request is, by its credential for
	// instance, where no header that the provider has for it names one: two
	// accounts behind one host. Keys, look-ups and events are then an account's
	// own. Nil: all are in one. Calls may be concurrent.
	Account func(Request) string

	// MayLook, if not nil, says whose look-ups are answered; the others' get 403, as
	// those of a credential do that lacks the permission. Calls may be concurrent.
	MayLook func(Request) bool

	// OwnLooks leaves requests that a look-up of the table describes to the handler, as
	// all others: for a business that answers them itself, as the provider does.
	OwnLooks bool

	// PageSize bounds the pages of look-ups further than the table does, so that a
	// few objects make several. It does nothing where a short page is the last one.
	PageSize int

	// EventClient sends the events of [Server.Events]. Nil stands for
	// http.DefaultClient. A server in memory takes the client of what
	// [ServeInMemory] returned.
	EventClient *http.Client

	// SignEvent, if not nil, signs events in place of the provider's scheme: it sets
	// headers and returns the body that is sent. Calls may be concurrent.
	SignEvent func(g Signing, h http.Header, body []byte) ([]byte, error)

	// Manner says what the table leaves open at one of its endpoints.
	// NewUnstartedServer sets it to [MannerOf] the provider.
	Manner func(providers.Endpoint) Manner

	// EnableHTTP2 has the server's Client use HTTP/2: over TLS by ALPN, without
	// TLS by prior knowledge (h2c). Without TLS the server understands both
	// versions in any case.
	EnableHTTP2 bool

	// ErrorLog takes what net/http has to say, of handlers that panic for
	// instance. Nil stands for the log package's standard logger.
	ErrorLog *log.Logger

	http     *httptest.Server
	memory   *memoryListener // nil: it listens on the network
	handler  http.Handler
	provider providers.Provider
	router   *tables.Router
	idNames  []string
	closing  chan struct{}
	close    func()

	mu        sync.Mutex
	ahead     time.Duration
	script    []Fault
	draw      func(number int) Fault
	records   map[string]*record
	resources map[string]Answer // by path
	changed   chan struct{}     // closed and made anew when a waiting request should look again
	entries   []*entry
	effects   []Effect
	made      []*creation // by effect
	lag       func(seq int) time.Duration
	looking   []Fault // the script of look-ups
	everyLook *Fault
	closed    bool

	eventURL, eventSecret string
	eventScript           []EventManner
	eventManner           EventManner
	eventDraw             func(number int) EventManner
	eventCount            int
	heldEvents            []*event
	deliveries            []Delivery

	dues  []*due // what is to be done at its time
	doing sync.WaitGroup
}

// Request is one request as the server has read it.
type Request struct {
	// Number counts the requests that have reached the server, from 1.
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

// NewTLSServer is [NewServer] with TLS, by a certificate that [Server.Client]
// trusts.
func NewTLSServer(p providers.Provider, h http.Handler) *Server {
	s := NewUnstartedServer(p, h)
	s.StartTLS()
	return s
}

// NewUnstartedServer returns a server that has its port but does not serve yet,
// so that its fields can be set. The caller starts and closes it. It panics as
// [NewServer] does.
func NewUnstartedServer(p providers.Provider, h http.Handler) *Server {
	return unstarted(p, h, httptest.NewUnstartedServer(nil))
}

func unstarted(p providers.Provider, h http.Handler, on *httptest.Server) *Server {
	s := &Server{
		http:      on,
		handler:   h,
		closing:   make(chan struct{}),
		records:   map[string]*record{},
		resources: map[string]Answer{},
		changed:   make(chan struct{}),
	}
	s.close = sync.OnceFunc(func() { close(s.closing) })
	s.http.Config.Handler = http.HandlerFunc(s.serve)
	s.provider = p
	s.provider.Hosts = []string{s.http.Listener.Addr().String()}
	s.Manner = func(e providers.Endpoint) Manner { return MannerOf(p, e) }
	router, err := tables.NewRouter([]providers.Provider{s.provider})
	if err != nil {
		s.http.Close()
		panic(err)
	}
	s.router = router
	s.idNames = idNames(&s.provider)
	return s
}

// Start begins to serve HTTP/1.1 and h2c, and sets URL.
func (s *Server) Start() {
	s.http.Config.ErrorLog = s.ErrorLog
	s.http.Config.Protocols = new(http.Protocols)
	s.http.Config.Protocols.SetHTTP1(true)
	s.http.Config.Protocols.SetUnencryptedHTTP2(true)
	s.http.Start()
	s.started()
	if s.EnableHTTP2 {
		transport := s.http.Client().Transport.(*http.Transport)
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
}

// StartTLS begins to serve over TLS, by HTTP/2 if EnableHTTP2 is set and else by
// HTTP/1.1, and sets URL.
func (s *Server) StartTLS() {
	s.http.Config.ErrorLog = s.ErrorLog
	s.http.EnableHTTP2 = s.EnableHTTP2
	s.http.StartTLS()
	s.started()
}

func (s *Server) started() {
	s.URL = s.http.URL
	if s.memory != nil {
		s.memory.reachedBy(s.http.Client())
	}
}

// Close ends delays, waits for the requests being served, the handler's
// included, and shuts the server down. What would be due later, by [Straggle] or as an
// event, never happens. What the server knows can still be asked.
func (s *Server) Close() {
	s.close()
	s.http.Close()
	s.forget()
}

// Client returns an HTTP client for the server, which trusts its certificate and
// whose idle connections Close closes.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Detour returns a transport that sends every request to this server, whatever
// scheme and host it is for: for code whose URLs are fixed, a vendor's SDK for
// instance. The request then is under the endpoints of this server's provider.
func (s *Server) Detour() http.RoundTripper { return detour{s} }

type detour struct{ s *Server }

func (d detour) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := url.Parse(d.s.URL)
	if err != nil {
		return nil, err
	}
	asked := req
	req = req.Clone(req.Context())
	if req.Host == "" {
		req.Host = req.URL.Host
	}
	req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
	resp, err := d.s.Client().Transport.RoundTrip(req)
	if resp != nil {
		resp.Request = asked
	}
	return resp, err
}

// Provider returns the provider as this server is to be reached: the given one
// with this server as its only host.
func (s *Server) Provider() providers.Provider {
	p := s.provider
	p.Hosts = slices.Clone(p.Hosts)
	return p
}

// Requests returns how many requests have reached the server.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Now returns the time on the server's clock.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// now is the time on the server's clock; s.mu is held.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// wake has waiting requests look again; s.mu is held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}
