package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/secret"
)

// connTrace learns how far an attempt got.
type connTrace struct {
	asked, got atomic.Bool
	wrote      atomic.Bool              // headers, all of them
	resent     atomic.Bool              // another connection was got after that
	hopped     bool                     // a redirect was followed: something was sent
	refused    atomic.Bool              // a connection was not used, and nothing was sent before
	conn       atomic.Pointer[net.Conn] // the latest connection, where it is HTTP/1's
	hooks      httptrace.ClientTrace

	request *http.Request // the attempt's
	all     int32         // its fields by which it is known: see shows
	fields  atomic.Int32  // those that the request now being written has
	written atomic.Bool   // a request with all of them was written

	guard   Guard
	session string
	by      time.Time
	end     context.CancelCauseFunc
}

// refuse leaves a connection unused. HTTP/2 looks at the context before it writes, and others may have requests on
// the connection; HTTP/1 does not look.
func (t *connTrace) refuse(conn net.Conn, cause error) {
	t.end(cause)
	if conn == nil { // by a transport of another's, which need not heed the context
		return
	}
	if isHTTP1(conn) {
		_ = conn.Close()
	}
	t.refused.Store(!t.wrote.Load() && !t.hopped)
}

func isHTTP1(conn net.Conn) bool {
	secured, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	return !ok || secured.ConnectionState().NegotiatedProtocol != "h2"
}

// unsent reports whether the attempt provably sent nothing. There are three proofs. The hooks saw a connection asked
// for and none got. The transport marked the error as a refusal of its own. Or net/http's error says so about a
// connection that was ready. A transport that calls no hooks and sets no mark proves nothing.
func (t *connTrace) unsent(err error) bool {
	return !t.got.Load() && !t.hopped && (t.asked.Load() || fault.IsMarkedNotSent(err)) || t.refused.Load() || t.provesUnsent(err)
}

// shows returns the value of a header field if the field identifies the attempt's request on the wire, or "". A layer may
// overwrite trace headers, and HTTP/2 splits cookies and fields with several values.
func (t *connTrace) shows(name string) string {
	if name == "Content-Length" && t.request.ContentLength > 0 {
		return strconv.FormatInt(t.request.ContentLength, 10)
	}
	if values := t.request.Header[name]; len(values) == 1 && name != "Cookie" && !secret.Propagated(name) {
		return values[0]
	}
	return ""
}

// sends notes the attempt's request.
func (t *connTrace) sends(req *http.Request) {
	t.request = req
	if req.ContentLength > 0 {
		t.all++
	}
	for name := range req.Header {
		if name != "Content-Length" && http.CanonicalHeaderKey(name) == name && t.shows(name) != "" { // SetBody adds another spelling
			t.all++
		}
	}
}

// wroteField counts the attempt's header fields in the request that a transport is writing. Another request under the
// attempt's context lacks some of these fields, such as a layer's request for a token.
func (t *connTrace) wroteField(name string, values []string) {
	if t.request == nil || len(values) != 1 {
		return
	}
	if is := t.shows(http.CanonicalHeaderKey(name)); is == "" || is != values[0] {
		return
	}
	if t.fields.Add(1) == t.all {
		t.written.Store(true)
	}
}

// repeats reports whether a connection is for a second request of the attempt. net/http makes no second one, since it
// can't rewind the body (SetBody). The engine makes one after a redirect.
func (t *connTrace) repeats() bool {
	t.fields.Store(0)
	return t.written.Load() && !t.hopped
}

// follow returns the context under which requests are followed.
func (t *connTrace) follow(ctx context.Context) context.Context {
	t.hooks.GetConn = func(string) { t.asked.Store(true) }
	t.hooks.GotConn = func(info httptrace.GotConnInfo) {
		t.got.Store(true)
		if t.wrote.Load() {
			t.resent.Store(true)
		}
		if t.repeats() {
			t.refuse(info.Conn, ErrRepeated)
			return
		}
		if info.Conn != nil && isHTTP1(info.Conn) {
			t.conn.Store(&info.Conn)
		}
		switch {
		case !t.guard.Holds(t.session):
			t.refuse(info.Conn, ErrLeaseOver)
		case info.Conn != nil && !t.wrote.Load() && !t.hopped: // where to refuse leaves no doubt
			if err := t.guard.Late(t.by); err != nil {
				t.refuse(info.Conn, err)
			}
		}
	}
	t.hooks.WroteHeaderField = t.wroteField
	t.hooks.WroteHeaders = func() {
		t.wrote.Store(true)
		// net/http still holds the headers in a buffer, or at least their end. A process that was paused after getting
		// the connection sends nothing either. HTTP/2 has sent them. The error proves nothing: another's transport may
		// have sent the headers too.
		if conn := t.conn.Load(); conn != nil && !t.refused.Load() && !t.guard.Holds(t.session) {
			t.end(ErrLeaseOver)
			_ = (*conn).Close()
		}
	}
	return httptrace.WithClientTrace(ctx, &t.hooks)
}

// These are the errors of net/http and x/net/http2 for a request with a connection that no server has processed. Their
// types are not exported, so the texts count, and only if the hooks agree. The texts of another release are not
// recognised: the request may have run then.
//
// The same texts around PROTOCOL_ERROR prove nothing, although net/http would send again after it too.
var (
	// RFC 9113 section 6.8: streams above the last one of a GOAWAY were not processed;
	// section 8.7: nor was one refused by REFUSED_STREAM.
	unprocessed = regexp.MustCompile(`^(http2: Transport received Server's graceful shutdown GOAWAY` +
		`|http2: Transport received GOAWAY from server ErrCode:[A-Z_0-9]+` +
		`|stream error: stream ID [0-9]+; REFUSED_STREAM; received from peer)$`)

	// net/http waits for the writer before returning this error, and the writer announces written headers by a hook.
	// The last is what becomes of a request for which one connection after another over HTTP/2 turned out unusable.
	unwritten = regexp.MustCompile(`^(http: server closed idle connection$` +
		`|net/http: Transport failed to read from server: ` +
		`|net/http: cannot rewind body after connection loss$)`)
)

const (
	cannotRetry      = "http2: Transport: cannot retry err ["
	withoutTheirBody = "] after Request.Body was written; define Request.GetBody to avoid this error"
)

// provesUnsent reports whether a transport's error proves that no request which got a connection was processed. At
// most one request was written, and the error is about that one.
func (t *connTrace) provesUnsent(err error) bool {
	if !t.got.Load() || t.resent.Load() || t.hopped {
		return false
	}
	for ; err != nil; err = errors.Unwrap(err) {
		text := err.Error()
		if unwritten.MatchString(text) {
			return !t.wrote.Load()
		}
		if rest, is := strings.CutPrefix(text, cannotRetry); is {
			text = strings.TrimSuffix(rest, withoutTheirBody)
		}
		if unprocessed.MatchString(text) {
			return true
		}
	}
	return false
}
