package pgproxy

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// link is one client's connection and the matching connection to the server.
type link struct {
	proxy  *Proxy
	number int
	client *net.TCPConn

	ended chan struct{} // closed when both are to end
	once  sync.Once

	mu      sync.Mutex
	server  net.Conn // nil: there is none yet
	awaited []*armed // of the exchanges that the server has not answered whole: each one's fault, or nil
	dropped *armed   // the fault that took the client away, and not the server

	// The facts that the request reader knows about the connection.
	exchanges  int
	statements map[string]string // SQL by a prepared statement's name
	portals    map[string]string // … by the name of a portal
}

// cut resets both connections.
func (l *link) cut() {
	l.once.Do(func() { close(l.ended) })
	reset(l.client)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		reset(l.server)
	}
}

// reset closes a connection so that the other side sees the end at once, before reading the bytes under way.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// sent is a stretch of what the client asks, and when it is to reach the server.
type sent struct {
	at    time.Time
	bytes []byte
	fault *armed
	ends  bool // the server answers, up to ReadyForQuery
}

// The requests that come without a type: https://www.postgresql.org/docs/15/protocol-message-formats.html
const (
	cancelRequest    = 80877102
	sslRequest       = 80877103
	gssRequest       = 80877104
	maxStartupLength = 10000
)

func (l *link) serve() {
	defer l.cut()
	reader := bufio.NewReaderSize(l.client, 64<<10)
	startup, cancels, err := l.startup(reader)
	if err != nil || !l.proxy.pass(l) {
		return
	}
	server, err := l.proxy.dial()
	if err != nil {
		return
	}
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	select {
	case <-l.ended:
		_ = server.Close()
		return
	default:
	}
	if _, err := server.Write(startup); err != nil {
		return
	}
	if cancels {
		// The server answers nothing, and closes after reading the request.
		_, _ = io.Copy(io.Discard, server)
		return
	}
	ahead := make(chan sent, 4096)
	var both sync.WaitGroup
	both.Go(func() { l.answers(bufio.NewReaderSize(server, 64<<10)) })
	both.Go(func() { l.requests(server, ahead) })
	l.read(reader, ahead)
	close(ahead)
	both.Wait()
}

// startup reads a client's first message, and declines encryption before it.
func (l *link) startup(r *bufio.Reader) (message []byte, cancels bool, err error) {
	for {
		head, err := r.Peek(8)
		if err != nil {
			return nil, false, err
		}
		length, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if length < 8 || length > maxStartupLength {
			return nil, false, io.ErrUnexpectedEOF
		}
		message := make([]byte, length)
		if _, err := io.ReadFull(r, message); err != nil {
			return nil, false, err
		}
		if code != sslRequest && code != gssRequest {
			return message, code == cancelRequest, nil
		}
		if _, err := l.client.Write([]byte{'N'}); err != nil {
			return nil, false, err
		}
	}
}

// read takes what the client asks apart, until it goes away.
func (l *link) read(r *bufio.Reader, ahead chan<- sent) {
	var burst bytes.Buffer
	var asked []string
	for {
		kind, message, err := readMessage(r)
		if err != nil {
			return
		}
		burst.Write(message)
		body := message[5:]
		switch kind {
		case 'P': // Parse
			name, rest := text(body)
			l.statements[name], _ = text(rest)
		case 'B': // Bind
			portal, rest := text(body)
			statement, _ := text(rest)
			l.portals[portal] = l.statements[statement]
		case 'E': // Execute
			portal, _ := text(body)
			asked = append(asked, l.portals[portal])
		case 'Q': // Query
			query, _ := text(body)
			asked = append(asked, query)
		}
		s := sent{ends: kind == 'Q' || kind == 'S' || kind == 'F'}
		if !s.ends && (kind == 'P' || kind == 'B' || kind == 'E' || kind == 'D' || kind == 'C') {
			continue // its Sync is yet to come
		}
		s.bytes = bytes.Clone(burst.Bytes())
		burst.Reset()
		if s.ends {
			l.exchanges++
			s.fault = l.proxy.fault(Exchange{Link: l.number, Number: l.exchanges, SQL: asked, Bytes: len(s.bytes)})
			asked = nil
		}
		if d := l.proxy.delayed(); d > 0 {
			s.at = time.Now().Add(d)
		}
		select {
		case ahead <- s:
		case <-l.ended:
			return
		}
	}
}

// requests passes on the client's requests, each at its time, and ends the server's connection afterwards.
func (l *link) requests(server net.Conn, ahead <-chan sent) {
	for s := range ahead {
		if wait := time.Until(s.at); !s.at.IsZero() && wait > 0 {
			time.Sleep(wait)
		}
		if !l.proxy.pass(l) {
			l.cut()
			continue
		}
		if s.ends {
			l.mu.Lock()
			l.awaited = append(l.awaited, s.fault)
			l.mu.Unlock()
		}
		rest := s.bytes
		if s.fault != nil && s.fault.Side == Request {
			n := min(s.fault.Byte, len(rest))
			if _, err := server.Write(rest[:n]); err != nil {
				l.cut()
				continue
			}
			rest = rest[n:]
			if !l.happen(s.fault, n) {
				rest = nil
			}
		}
		if _, err := server.Write(rest); err != nil {
			l.cut()
		}
	}
	// The client has gone away. Bytes for it are of no use. The server sees its end, unless the end
	// can't get through.
	l.mu.Lock()
	dropped := l.dropped
	l.mu.Unlock()
	if dropped != nil {
		select {
		case <-dropped.released:
		case <-l.ended:
		}
	}
	_ = l.proxy.pass(l)
	l.cut()
}

// happen does what a fault does after so many bytes, and reports whether its side may go on.
func (l *link) happen(a *armed, passed int) bool {
	a.passed = passed
	if a.Then == Drop {
		l.mu.Lock()
		l.dropped = a
		l.mu.Unlock()
		reset(l.client)
	}
	close(a.fired)
	if a.Then != Cut {
		select {
		case <-a.released:
		case <-l.ended:
		}
	}
	if a.Then == Hold {
		return true
	}
	l.cut()
	return false
}

// answers passes on what the server says.
func (l *link) answers(r *bufio.Reader) {
	w := bufio.NewWriterSize(l.client, 64<<10)
	said := 0 // bytes of the answer under way
	doubted := false
	for {
		kind, message, err := readMessage(r)
		if err != nil {
			_ = w.Flush()
			l.cut()
			return
		}
		if !l.proxy.pass(l) {
			l.cut()
			return
		}
		l.mu.Lock()
		var fault *armed
		if len(l.awaited) > 0 {
			fault = l.awaited[0]
		}
		ready := kind == 'Z' && len(l.awaited) > 0
		if ready {
			l.awaited = l.awaited[1:]
		}
		l.mu.Unlock()

		rest := message
		if fault != nil && fault.Then == Doubt {
			switch {
			case doubted && !ready:
				rest = nil // as after any error
			case !doubted && kind == 'C' && strings.HasPrefix(string(message[5:]), cmp.Or(fault.Tag, "COMMIT")):
				rest, doubted = ambiguous(), true
				close(fault.fired)
			}
		} else if fault != nil && fault.Side == Answer && (said+len(message) > fault.Byte || ready) {
			n := max(0, min(fault.Byte-said, len(message)))
			_, _ = w.Write(rest[:n])
			_ = w.Flush()
			rest = rest[n:]
			if !l.happen(fault, said+n) {
				return
			}
			l.mu.Lock()
			if !ready && len(l.awaited) > 0 {
				l.awaited[0] = nil // it happens once
			}
			l.mu.Unlock()
		}
		if said += len(message); ready {
			said, doubted = 0, false
		}
		_, _ = w.Write(rest)
		if r.Buffered() == 0 {
			_ = w.Flush() // the client may be gone, while its pipeline is on the way
		}
	}
}

// ambiguous returns the answer of a server, or of a proxy before the server, that does not know whether the commit
// landed. The SQLSTATE is the one of the SQL standard for that
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func ambiguous() []byte {
	fields := "SERROR\x00VERROR\x00C40003\x00Mresult is ambiguous\x00\x00"
	return append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields))), fields...)
}

// readMessage reads a message, its head included.
func readMessage(r *bufio.Reader) (kind byte, message []byte, err error) {
	head, err := r.Peek(5)
	if err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > 1<<30 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	kind, message = head[0], make([]byte, 1+length)
	_, err = io.ReadFull(r, message)
	return kind, message, err
}

// text reads a string that ends by NUL.
func text(b []byte) (s string, rest []byte) {
	before, after, _ := bytes.Cut(b, []byte{0})
	return string(before), after
}
