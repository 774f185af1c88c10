package providertest

import (
	"net/http"
	"net/http/httptest"

	"github.com/onceward/onceward/providers"
)

// NewServerInMemory is [NewServer] without the network. The server listens in memory, at a host name of its own, and
// only [Server.Client] and [Server.Detour] reach the server. The runtime sees every wait in the server, so the server
// works inside a testing/synctest bubble with virtual time. Make, use and close such a server inside one bubble.
func NewServerInMemory(p providers.Provider, h http.Handler) *Server {
	s := NewUnstartedServerInMemory(p, h)
	s.Start()
	return s
}

// NewUnstartedServerInMemory is [NewUnstartedServer] with the listener of [NewServerInMemory]. TLS and HTTP/2
// work as over the network.
func NewUnstartedServerInMemory(p providers.Provider, h http.Handler) *Server {
	l := listenInMemory()
	s := unstarted(p, h, unstartedInMemory(l))
	s.memory = l
	return s
}

// ServeInMemory serves h like [NewServerInMemory], without a provider's contract. It receives a server's events inside
// a bubble. The caller closes it. Only the server's Client reaches the server.
func ServeInMemory(h http.Handler) *httptest.Server {
	l := listenInMemory()
	s := unstartedInMemory(l)
	s.Config.Handler = h
	s.Start()
	l.reachedBy(s.Client())
	return s
}

func unstartedInMemory(l *memoryListener) *httptest.Server {
	return &httptest.Server{Listener: l, Config: new(http.Server)}
}
