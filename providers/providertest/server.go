package providertest

import (
	"cmp"
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

// Server is a provider in a box. Set its exported fields only between [NewUnstartedServer] and [Server.Start]
// or [Server.StartTLS]. All methods are safe for concurrent use.
type Server struct {
	// URL is the server's base URL, http://127.0.0.1:port or, with TLS, https://127.0.0.1:port. In memory it
	// has a host name and no port. Start and StartTLS set it.
	URL string

	// Observe, if not nil, is called once for each request, as soon as the server has read the request and before any
	// other step, in the serving goroutine. Calls may be concurrent.
	Observe func(Request)

	// RetryAfter is the Retry-After value in an in-flight answer, rounded up to seconds. Negative means no header.
	// Default: one second.
	RetryAfter time.Duration

	// RequireKey refuses requests without a key at every endpoint that takes one, even if the provider does not. Tests
	// set RequireKey to prove that a key is always sent.
	RequireKey bool

	// Repeat, if not nil, makes a repeat's answer from a copy of the recorded one, for providers that answer from a
	// resource's current state (PayPal, Stripe v2, Braintree, Shopify, AWS). Calls may be concurrent.
	Repeat func(first Answer) Answer

	// Account, if not nil, returns a request's account, for example by its credential, if none of the provider's
	// headers names one. Keys, look-ups and events then belong to that account. Nil means one account. Calls may be
	// concurrent.
	Account func(Request) string

	// MayLook, if not nil, reports whether a look-up is answered. Others get 403, as from a credential
	// without the permission. Calls may be concurrent.
	MayLook func(Request) bool

	// OwnLooks passes look-ups to the handler like other requests, for a business that answers look-ups like the
	// provider.
	OwnLooks bool

	// PageSize bounds the pages of look-ups below the table's size, so that a few objects make several pages.
	// It has no effect if a short page is the last one.
	PageSize int

	// EventClient sends the events of [Server.Events]. A server in memory needs the client that
	// [ServeInMemory] returned. Default: http.DefaultClient.
	EventClient *http.Client

	// SignEvent, if not nil, signs events instead of the provider's scheme. It sets headers and returns the
	// body to send. Calls may be concurrent.
	SignEvent func(g Signing, h http.Header, body []byte) ([]byte, error)

	// Manner returns the behavior of an endpoint that the table leaves open. NewUnstartedServer sets it to [MannerOf]
	// the provider.
	Manner func(providers.Endpoint) Manner

	// EnableHTTP2 makes the server's Client use HTTP/2: over TLS by ALPN, without TLS by prior knowledge
	// (h2c). Without TLS the server always understands both versions.
	EnableHTTP2 bool

	// ErrorLog receives net/http's messages, for example about handlers that panic. Default: the log
	// package's standard logger.
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
	looking   []Fault // the look-ups' script
	everyLook *Fault
	closed    bool

	eventURL, eventSecret string
	eventScript           []EventManner
	eventManner           EventManner
	eventDraw             func(number int) EventManner
	eventCount            int
	heldEvents            []*event
	events                []*event // that the list has, the oldest first
	deliveries            []Delivery

	dues  []*due // work with a due time
	doing sync.WaitGroup
}

// Request is one request as the server read it.
type Request struct {
	// Number counts the requests that have reached the server, from 1.
	Number int

	Method string
	Path   string
	Header http.Header
	Body   []byte

	// Key is the decoded idempotency key, without quotes. It is empty if the key is missing or malformed.
	Key string

	// Fault is the fault that hits this request.
	Fault Fault
}

// Client returns an HTTP client for the server. It trusts the server's certificate, and Close closes its idle
// connections.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Detour returns a transport that sends every request to this server, whatever its scheme and host. It is for
// code with fixed URLs, such as a vendor's SDK. The request is matched against the endpoints of this server's
// provider.
func (s *Server) Detour() http.RoundTripper { return detour{s} }

type detour struct{ s *Server }

func (d detour) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := url.Parse(d.s.URL)
	if err != nil {
		return nil, err
	}
	asked := req
	req = req.Clone(req.Context())
	req.Host = cmp.Or(req.Host, req.URL.Host)
	req.URL.Scheme, req.URL.Host = to.Scheme, to.Host
	resp, err := d.s.Client().Transport.RoundTrip(req)
	if resp != nil {
		resp.Request = asked
	}
	return resp, err
}

// Provider returns the given provider with this server as its only host.
func (s *Server) Provider() providers.Provider {
	p := s.provider
	p.Hosts = slices.Clone(p.Hosts)
	return p
}

// Requests returns how many requests reached the server.
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

// wake lets waiting requests check again. s.mu is held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// due is something that the server does at a time on its clock.
type due struct {
	at   time.Time
	do   func()
	done chan struct{}

	taken     bool // a goroutine runs it
	forgotten bool // it will not run
	straggler bool // it is a request
}
