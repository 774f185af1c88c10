package providertest

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// NewServer starts a server that keeps p's contract around the handler h. The caller closes it. Like
// httptest.NewServer it panics if it cannot listen, and also if p is not valid.
func NewServer(p providers.Provider, h http.Handler) *Server {
	s := NewUnstartedServer(p, h)
	s.Start()
	return s
}

// NewTLSServer is [NewServer] with TLS and a certificate that [Server.Client] trusts.
func NewTLSServer(p providers.Provider, h http.Handler) *Server {
	s := NewUnstartedServer(p, h)
	s.StartTLS()
	return s
}

// NewUnstartedServer returns a server that has its port but does not serve yet, so that its fields can be
// set. The caller starts and closes it. It panics like [NewServer].
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

// StartTLS begins to serve over TLS, with HTTP/2 if EnableHTTP2 is set and otherwise with HTTP/1.1, and sets
// URL.
func (s *Server) StartTLS() {
	s.http.Config.ErrorLog = s.ErrorLog
	s.http.EnableHTTP2 = s.EnableHTTP2
	s.http.TLS = &tls.Config{Certificates: []tls.Certificate{certificate()}}
	s.http.StartTLS()
	s.started()
}

func (s *Server) started() {
	s.URL = s.http.URL
	if s.memory != nil {
		s.memory.reachedBy(s.http.Client())
	}
}

// Close ends delays, waits for the requests in progress and their handlers, and shuts the server down. Later
// requests of [Straggle] and later events never happen. The server's records stay readable.
func (s *Server) Close() {
	s.close()
	s.http.Close()
	s.forget()
}
