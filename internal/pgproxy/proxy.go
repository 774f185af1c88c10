// Package pgproxy stands between tests and a PostgreSQL server, and injects faults. It delays round trips, cuts or
// holds a connection at any byte of one side, and cuts off all clients.
//
// It understands only the necessary part of the protocol, and changes nothing. The part is the ends of messages and
// exchanges, and the executed SQL, in version 3 (https://www.postgresql.org/docs/15/protocol-message-formats.html). It
// declines TLS.
package pgproxy

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Proxy listens at a separate address and passes on what clients and server say. Its methods are
// safe for concurrent use.
type Proxy struct {
	listener net.Listener
	network  string

	mu      sync.Mutex
	address string
	links   map[*link]bool
	faults  []*armed
	delay   time.Duration
	cutOff  chan struct{} // closed by Heal; nil: clients are not cut off
	closed  bool
	count   int
	serving sync.WaitGroup
}

// Start listens on this machine for clients of the server at address.
func Start(network, address string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, network: network, address: address, links: map[*link]bool{}}
	p.serving.Go(p.accept)
	return p, nil
}

// Addr returns the address that clients connect to.
func (p *Proxy) Addr() *net.TCPAddr { return p.listener.Addr().(*net.TCPAddr) }

// Close ends every connection and waits until nothing of the proxy is left.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Heal()
	p.CutAll()
	p.serving.Wait()
	return err
}

// Delay makes every exchange take that much longer from now on. The clients' requests reach the server later, and any
// number may be on the way. That takes one timer, since two of half the delay, one each way, are less exact.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Redirect makes new connections reach the server at another address.
func (p *Proxy) Redirect(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address = address
}

// CutAll resets the connections that there are. New ones are served.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// CutOff lets nothing through any more in either direction: connections stand open and are silent, new ones are
// accepted and silent too. A switch that drops packets does the same. Heal ends it.
func (p *Proxy) CutOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutOff == nil {
		p.cutOff = make(chan struct{})
	}
}

// Heal ends the cut-off, so that all bytes pass again. It resets connections that were open during the cut-off, if they
// are still there.
func (p *Proxy) Heal() {
	p.mu.Lock()
	cutOff := p.cutOff
	p.cutOff = nil
	p.mu.Unlock()
	if cutOff != nil {
		p.CutAll()
		close(cutOff)
	}
}

// Links returns how many open connections clients have.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Exchange is a client's messages up to the point at which the server has to answer: a pipeline with its Sync, or one
// simple query. The startup is not an exchange.
type Exchange struct {
	Link   int      // its connection's number, from 1
	Number int      // its place in the connection, from 1
	SQL    []string // of each statement that is executed, in their order; "" where the proxy has not seen it parsed
	Bytes  int      // its length
}

// Fault is something that happens to one exchange.
type Fault struct {
	// Match picks the exchange: the first of any connection for which it returns true. If it is nil, the fault meets
	// the next exchange. It must not call the proxy.
	Match func(Exchange) bool
	// Side and Byte are the fault's point: after so many bytes in the client's request, or in the server's answer, have
	// passed. A Byte past the end, or End, means the end.
	Side Side
	Byte int
	// Then is the action at that point.
	Then Action
	// Tag picks a statement in the exchange for Doubt. "": COMMIT.
	Tag string
}

// Side is one side's part of an exchange.
type Side int

// The sides.
const (
	Request Side = iota
	Answer
)

// End, as Fault.Byte, is after all of it.
const End = 1 << 30

// Action is a fault's effect on its connection.
type Action int

// The actions.
const (
	// Cut resets both connections.
	Cut Action = iota
	// Drop resets the client's connection; the server's gets what the client had asked up to that point, and
	// an orderly end when the fault is released.
	Drop
	// Hold keeps back the bytes of the fault's side until the fault is released. It then passes them on, though the
	// client may have gone away meanwhile.
	Hold
	// Doubt lets the server execute COMMIT, or the first statement whose tag begins with Fault.Tag, and answers it by
	// 40003 (statement completion unknown). Later statements in the exchange get no answer, whatever their result. It
	// replaces an answer, whatever Byte is.
	Doubt
)

// Fired is an armed Fault.
type Fired struct {
	a *armed
	p *Proxy
}

type armed struct {
	Fault
	fired, released chan struct{}
	once            sync.Once
	exchange        Exchange
	passed          int
}

// Arm makes the fault happen once.
func (p *Proxy) Arm(f Fault) *Fired {
	if f.Then == Doubt {
		f.Side = Answer
	}
	a := &armed{Fault: f, fired: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, a)
	return &Fired{a, p}
}

// Done returns a channel that is closed once the fault has happened.
func (f *Fired) Done() <-chan struct{} { return f.a.fired }

// Exchange waits for the fault and returns the exchange that met the fault.
func (f *Fired) Exchange() Exchange {
	<-f.a.fired
	return f.a.exchange
}

// Passed waits for the fault and returns how many bytes on the side had passed: Byte, or fewer if there were no more.
func (f *Fired) Passed() int {
	<-f.a.fired
	return f.a.passed
}

// Release ends a Hold or a Drop, or takes back a fault that has not happened yet. It may be called more than once.
func (f *Fired) Release() {
	f.p.mu.Lock()
	f.p.faults = slices.DeleteFunc(f.p.faults, func(a *armed) bool { return a == f.a })
	f.p.mu.Unlock()
	f.a.once.Do(func() { close(f.a.released) })
}

// fault takes an exchange's fault from the armed faults; nil: none.
func (p *Proxy) fault(ex Exchange) *armed {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.faults {
		if a.Match == nil || a.Match(ex) {
			p.faults = slices.Delete(p.faults, i, i+1)
			a.exchange = ex
			return a
		}
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		l := &link{proxy: p, client: client.(*net.TCPConn), ended: make(chan struct{}), statements: map[string]string{}, portals: map[string]string{}}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = client.Close()
			return
		}
		p.count++
		l.number = p.count
		p.links[l] = true
		p.mu.Unlock()
		p.serving.Go(func() {
			l.serve()
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
		})
	}
}

// pass waits while clients are cut off. It returns false if it had to wait, since the link is reset then.
func (p *Proxy) pass(l *link) bool {
	p.mu.Lock()
	cutOff := p.cutOff
	p.mu.Unlock()
	if cutOff == nil {
		return true
	}
	select {
	case <-cutOff:
	case <-l.ended:
	}
	return false // a link that was open during the cut-off is reset
}

// dial connects to the present server.
func (p *Proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	address := p.address
	p.mu.Unlock()
	return net.Dial(p.network, address)
}

func (p *Proxy) delayed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}
