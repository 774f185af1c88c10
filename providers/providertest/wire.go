package providertest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"
)

// spoilt sends the answer as the fault has it.
func (a Answer) spoilt(w http.ResponseWriter, r *http.Request, f Fault) {
	switch f.kind {
	case dropAfter:
		hangUp(w, f.ending(reset))
	case cut:
		if len(a.Body) == 0 || a.bodiless() || r.Method == http.MethodHead {
			hangUp(w, f.ending(orderly))
			return
		}
		at := f.point(len(a.Body))
		if conn := taken(w); conn != nil {
			send(conn, f, a.wireHead(len(a.Body)), a.Body[:at])
			return
		}
		a.broken(w, len(a.Body), a.Body[:at])
	case cutResponse:
		if conn := taken(w); conn != nil {
			all := append(a.wireHead(len(a.Body)), a.Body...)
			send(conn, f, all[:f.point(len(all))])
			return
		}
		panic(http.ErrAbortHandler)
	case malformedChunk:
		half := a.Body[:(len(a.Body)+1)/2]
		if conn := taken(w); conn != nil {
			var chunk []byte
			if len(half) > 0 { // an empty one would be the last
				chunk = fmt.Appendf(nil, "%x\r\n%s\r\n", len(half), half)
			}
			send(conn, f, a.wireHead(-1), chunk, []byte("not a chunk\r\n"))
			return
		}
		a.broken(w, -1, half)
	case wrongLength:
		length := max(len(a.Body)+f.bytes, 0)
		if conn := taken(w); conn != nil {
			a.Header = a.Header.Clone()
			a.Header.Set("Connection", "close") // the rest must not be read as the answer to another request
			send(conn, f, a.wireHead(length), a.Body)
			return
		}
		if length < len(a.Body) {
			a.Body = a.Body[:length]
			a.write(w)
			return
		}
		a.broken(w, length, a.Body)
	case inform:
		w.WriteHeader(f.status)
		a.write(w)
	default:
		a.write(w)
	}
}

// wireHead is the response's head in HTTP/1.1. A negative length stands for a
// chunked body.
func (a Answer) wireHead(length int) []byte {
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", a.Status, http.StatusText(a.Status))
	header := a.Header.Clone()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if length < 0 {
		header.Set("Transfer-Encoding", "chunked")
	} else {
		header.Set("Content-Length", strconv.Itoa(length))
	}
	_ = header.Write(&head) // a buffer takes it all
	head.WriteString("\r\n")
	return head.Bytes()
}

// broken sends the head and the beginning of a body over HTTP/2, and resets the
// stream.
func (a Answer) broken(w http.ResponseWriter, length int, body []byte) {
	maps.Copy(w.Header(), a.Header)
	if length >= 0 {
		w.Header().Set("Content-Length", strconv.Itoa(length))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(body)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// taken takes the connection from net/http; nil over HTTP/2, which has streams.
func taken(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	return conn
}

// send writes the rest of a response and ends the connection.
func send(conn net.Conn, f Fault, parts ...[]byte) {
	_, _ = conn.Write(bytes.Join(parts, nil))
	end(conn, f.ending(orderly))
}

// hangUp ends the connection, or the stream, without a response.
func hangUp(w http.ResponseWriter, how ending) {
	conn := taken(w)
	if conn == nil {
		panic(http.ErrAbortHandler)
	}
	end(conn, how)
}

func end(conn net.Conn, how ending) {
	if how == reset {
		if secured, is := conn.(*tls.Conn); is {
			conn = secured.NetConn() // without the notice that TLS closes with
		}
		switch conn := conn.(type) {
		case *net.TCPConn:
			_ = conn.SetLinger(0)
		case memoryConn:
			conn.reset()
		}
	}
	_ = conn.Close()
}
