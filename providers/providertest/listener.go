package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
)

// memoryListener is a listener whose connections are pipes.
type memoryListener struct {
	host   string
	dialed chan net.Conn
	closed chan struct{}
	close  func()
}

var memoryHosts atomic.Int64

// The servers' certificate is valid for this name.
func listenInMemory() *memoryListener {
	l := &memoryListener{
		host:   fmt.Sprintf("box-%d.example.com", memoryHosts.Add(1)),
		dialed: make(chan net.Conn),
		closed: make(chan struct{}),
	}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// reachedBy connects a client of httptest to the listener, whatever address it asks for.
func (l *memoryListener) reachedBy(client *http.Client) {
	transport := client.Transport.(*http.Transport)
	transport.DialContext = l.dial
	if transport.TLSClientConfig != nil {
		transport.TLSClientConfig.ServerName = "example.com"
	}
}

func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	broken := new(atomic.Bool)
	select {
	case l.dialed <- memoryConn{there, broken}:
		return memoryConn{here, broken}, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: l.Addr(), Err: ctx.Err()}
	}
}

// Accept waits for a connection.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialed:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener. Connections continue.
func (l *memoryListener) Close() error {
	l.close()
	return nil
}

// Addr returns the host name.
func (l *memoryListener) Addr() net.Addr { return memoryAddr(l.host) }

type memoryAddr string

func (memoryAddr) Network() string { return "pipe" }

func (a memoryAddr) String() string { return string(a) }

// memoryConn is one end of a pipe that can also be reset, as a TCP connection can.
type memoryConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c memoryConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.told("read", err)
}

func (c memoryConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.told("write", err)
}

func (c memoryConn) told(op string, err error) error {
	if err == nil || !c.broken.Load() || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return &net.OpError{Op: op, Net: "pipe", Err: syscall.ECONNRESET}
}

// reset has the other end see a reset when this one is closed.
func (c memoryConn) reset() { c.broken.Store(true) }
