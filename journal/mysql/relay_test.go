package mysql_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay passes bytes between clients and a server. Once armed, it drops the connection with the next COMMIT: before the server
// gets it, or before the client gets the answer. Or it holds the COMMIT: it says so by held, and goes on once released ends.
type relay struct {
	net.Listener
	armed          atomic.Int32
	held, released chan struct{}

	mu     sync.Mutex
	server string
	open   []net.Conn
}

// goesTo leads to another server from now on, and cuts the connections.
func (r *relay) goesTo(server string) {
	r.leads(server)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.open {
		_ = conn.Close()
	}
	r.open = nil
}

// leads has new connections lead to another server.
func (r *relay) leads(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = server
}

func (r *relay) dial(client net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	server, err := net.Dial("tcp", r.server)
	if err == nil {
		r.open = append(r.open, client, server)
	}
	return server, err
}

const (
	dropsRequest = 1
	dropsAnswer  = 2
	holdsRequest = 3
)

func newRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{Listener: l, server: server, held: make(chan struct{}, 1), released: make(chan struct{})}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(client)
		}
	}()
	return r
}

func (r *relay) pass(client net.Conn) {
	defer client.Close()
	server, err := r.dial(client)
	if err != nil {
		return
	}
	defer server.Close()
	var drops atomic.Bool
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil || drops.Load() {
				_ = client.Close()
				return
			}
			_, _ = client.Write(buf[:n])
		}
	}()
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("batch = batch + 1, last_at")) {
			switch r.armed.Swap(0) {
			case dropsRequest:
				return
			case dropsAnswer:
				drops.Store(true)
			case holdsRequest:
				r.held <- struct{}{}
				<-r.released
			}
		}
		if _, err := server.Write(buf[:n]); err == io.EOF {
			return
		}
	}
}
