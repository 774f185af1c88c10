package request_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// rawServer is a TCP server that keeps every request of its connections, including those that net/http sends by itself.
type rawServer struct {
	ln    net.Listener
	mu    sync.Mutex
	conns int
	got   []rawRequest
}

type rawRequest struct {
	Conn         int // connections are counted from 1
	Method, Body string
	Header       http.Header
	Encoding     []string // Transfer-Encoding
}

// newRawServer starts a rawServer. react answers the nth request of its connection, and reports whether the connection
// stays open.
func newRawServer(t *testing.T, react func(s *rawServer, conn net.Conn, nth int) bool) *rawServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	s := &rawServer{ln: ln}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, react)
		}
	}()
	return s
}

func (s *rawServer) serve(conn net.Conn, react func(*rawServer, net.Conn, int) bool) {
	defer conn.Close()
	s.mu.Lock()
	s.conns++
	number := s.conns
	s.mu.Unlock()
	in := bufio.NewReader(conn)
	for nth := 1; ; nth++ {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.got = append(s.got, rawRequest{number, req.Method, string(body), req.Header, req.TransferEncoding})
		s.mu.Unlock()
		if !react(s, conn, nth) {
			return
		}
	}
}

func (s *rawServer) requests() []rawRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]rawRequest(nil), s.got...)
}

func (s *rawServer) url() string { return "http://" + s.ln.Addr().String() + "/orders" }

const rawAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

func writes(conn net.Conn, answer string) bool {
	_, err := io.WriteString(conn, answer)
	return err == nil
}

// quiet is for servers whose clients misbehave on purpose.
var quiet = log.New(io.Discard, "", 0)

// redirectIsFinal makes a redirect the outcome.
func redirectIsFinal(e *providers.Endpoint) {
	e.Rules = append([]providers.Rule{{Status: 300, Through: 399, Verdict: providers.Final, Source: "a test"}}, e.Rules...)
}

// anywhere are the providers of a test whose servers have no address beforehand.
func anywhere(adjust ...func(*providers.Endpoint)) []providers.Provider {
	p := own(adjust...)
	p.Hosts = nil
	return []providers.Provider{p}
}

// counting counts attempts.
func counting(n *atomic.Int32) *onceward.Trace {
	return &onceward.Trace{AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) { n.Add(1) }}
}

func transportOf(t *testing.T) *http.Transport {
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// keeps counts the new connections of sequential requests, and whether the last one is kept. On a busy machine net/http
// may drop a connection whose answer came over 50 ms before it noted the request as written.
type keeps struct {
	made int
	kept bool
}

func (k *keeps) follow(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if !k.kept {
				k.made++
			}
			k.kept = false
		},
		PutIdleConn: func(err error) { k.kept = err == nil },
	})
}

// untilKept asks on new connections, and returns how many it took until one was kept.
func untilKept(t *testing.T, ask func(ctx context.Context)) int {
	var k keeps
	for !k.kept {
		ask(onceward.WithOperation(k.follow(t.Context()), fmt.Sprint("before-", k.made)))
	}
	return k.made
}

// A request on a dead kept-alive connection counts as an attempt of ours.
func TestStaleKeepAliveConnection(t *testing.T) {
	ends := map[string]func(net.Conn) bool{
		"closed": func(net.Conn) bool { return false },
		"reset": func(conn net.Conn) bool {
			_ = conn.(*net.TCPConn).SetLinger(0)
			return false
		},
	}
	for how, end := range ends {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			for what, text := range map[string]string{"with a body": "x", "without a body": ""} {
				dies := func(_ *rawServer, conn net.Conn, nth int) bool {
					if nth > 1 {
						return end(conn)
					}
					return writes(conn, rawAnswer)
				}
				t.Run(how+", "+method+" "+what, func(t *testing.T) {
					srv := newRawServer(t, dies)
					var attempts atomic.Int32
					p := start(t, transportOf(t), onceward.Config{Providers: anywhere(), Backoff: quick, Trace: counting(&attempts)})
					n := untilKept(t, func(ctx context.Context) {
						require.NoError(t, p.Ask(ctx, to(method, srv.url()), body(text)).Err)
					})
					out := p.Ask(named(t, "order-2"), to(method, srv.url()), body(text))
					require.NoError(t, out.Err)
					got := srv.requests()
					require.Len(t, got, n+2)
					assert.EqualValues(t, n+2, attempts.Load())
					assert.Equal(t, 2, out.Op.Attempts)
					assert.Equal(t, []int{n, n, n + 1}, []int{got[n-1].Conn, got[n].Conn, got[n+1].Conn})
					for _, r := range got[n:] {
						assert.Equal(t, string(out.Op.Key), r.Header.Get("Idempotency-Key"))
						assert.Equal(t, text, r.Body)
						assert.Empty(t, r.Encoding)
					}
				})

				t.Run(how+", "+method+" "+what+", and net/http alone would send it again by itself", func(t *testing.T) {
					srv := newRawServer(t, dies)
					hc := &http.Client{Transport: transportOf(t)}
					ask := func(ctx context.Context) {
						req, err := http.NewRequestWithContext(ctx, method, srv.url(), strings.NewReader(text))
						require.NoError(t, err)
						req.Header.Set("Idempotency-Key", "1")
						resp, err := hc.Do(req)
						require.NoError(t, err)
						_, err = io.Copy(io.Discard, resp.Body)
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
					}
					n := untilKept(t, ask)
					ask(t.Context())
					assert.Len(t, srv.requests(), n+2, "for the last call, two")
				})
			}
		}
	}
}

// A server executes a request on a kept-alive connection, and closes it without an answer. net/http would resend a POST
// with one of the first two headers unseen. The request arrives once whatever the header.
func TestKeptConnectionWithEachKeyHeader(t *testing.T) {
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", "PayPal-Request-Id", "Cko-Idempotency-Key", "Klarna-Idempotency-Key",
		"X-Payout-Idempotency", "Repeatability-Request-ID"} {
		for what, text := range map[string]string{"with a body": "x", "without a body": ""} {
			t.Run(header+", "+what, func(t *testing.T) {
				srv := newRawServer(t, func(_ *rawServer, conn net.Conn, nth int) bool { return nth == 1 && writes(conn, rawAnswer) })
				takes := func(e *providers.Endpoint) { e.Key.Name = header }
				p := start(t, transportOf(t), onceward.Config{Providers: anywhere(takes, noRetention), Backoff: quick})
				n := untilKept(t, func(ctx context.Context) {
					require.NoError(t, p.Ask(ctx, to(http.MethodPost, srv.url()), body(text)).Err)
				})
				out := p.Ask(named(t, "order-2"), to(http.MethodPost, srv.url()), body(text))
				require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
				got := srv.requests()
				require.Len(t, got, n+1)
				assert.Equal(t, string(out.Op.Key), got[n].Header.Get(header))
				assert.Equal(t, 1, out.Op.Attempts)
			})
		}
	}
}

func TestRequestWithoutABodyIsMarked(t *testing.T) {
	srv := newRawServer(t, func(_ *rawServer, conn net.Conn, _ int) bool { return writes(conn, rawAnswer) })
	p := start(t, transportOf(t), onceward.Config{Providers: anywhere()})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
		require.NoError(t, p.Ask(t.Context(), to(method, srv.url()), body("")).Err)
	}
	for _, r := range srv.requests() {
		// RFC 9110 section 8.6: a server may insist on it by a 411.
		assert.Equal(t, "0", r.Header.Get("Content-Length"), r.Method)
	}
}

func TestInterruptedAnswersAreRequestedAgain(t *testing.T) {
	packed := &bytes.Buffer{}
	w := gzip.NewWriter(packed)
	_, _ = io.WriteString(w, strings.Repeat(paid, 20))
	_ = w.Close()
	for name, first := range map[string]string{
		"nothing at all":                   "",
		"within the status line":           "HTTP/1.1 20",
		"within the headers":               "HTTP/1.1 200 OK\r\nContent-Len",
		"after an interim answer":          "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
		"before the body":                  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
		"within the body":                  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{",
		"before the first chunk":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"within a chunk":                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{",
		"before the last chunk":            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"within the trailer":               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\n{}\r\n0\r\nX-S",
		"within a packed body that closes": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + packed.String()[:packed.Len()/2],
		"in something that is not HTTP":    "SSH-2.0-OpenSSH_9.9\r\n",
		"a length that is not a number":    "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			srv := newRawServer(t, func(s *rawServer, conn net.Conn, _ int) bool {
				if len(s.requests()) > 1 {
					return writes(conn, rawAnswer)
				}
				writes(conn, first)
				return false
			})
			p := start(t, transportOf(t), onceward.Config{Providers: anywhere(), Backoff: quick})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.url()), body("x"))
			require.NoError(t, out.Err)
			assert.Equal(t, "{}", out.Body)
			assert.Equal(t, onceward.StateCompleted, out.Op.State)
			assert.Equal(t, 2, out.Op.Attempts)
			got := srv.requests()
			require.Len(t, got, 2)
			assert.Equal(t, got[0].Header, got[1].Header)
			assert.Equal(t, "x", got[1].Body)
		})
	}
}

// counted is a server that counts its connections.
func counted(t *testing.T, h http.HandlerFunc) (srv *httptest.Server, conns *atomic.Int32) {
	t.Helper()
	conns = &atomic.Int32{}
	srv = httptest.NewUnstartedServer(h)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, conns
}

func TestIdleConnectionsOutliveFailures(t *testing.T) {
	elsewhere, elsewhereConns := counted(t, pays)
	failing, failingConns := counted(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{}}`, http.StatusServiceUnavailable)
	})
	dropping, _ := counted(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	base := transportOf(t)
	var mine keeps
	get := func() {
		req, err := http.NewRequestWithContext(mine.follow(t.Context()), http.MethodGet, elsewhere.URL, nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: base}).Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	get()
	p := start(t, base, onceward.Config{Providers: anywhere(), Backoff: quick})
	var failures keeps
	out := p.Ask(failures.follow(named(t, "order-1")), to(http.MethodPost, failing.URL))
	require.ErrorIs(t, out.Err, onceward.ErrPending)
	require.Equal(t, 503, out.Status)
	require.Equal(t, 5, out.Op.Attempts)
	require.ErrorIs(t, p.Ask(named(t, "order-2"), to(http.MethodPost, dropping.URL)).Err, onceward.ErrPending)
	get()
	assert.EqualValues(t, mine.made, elsewhereConns.Load(), "the caller's own connection to somebody else is still there")
	assert.EqualValues(t, failures.made, failingConns.Load(), "five failures went over one connection")

	p.HTTP.CloseIdleConnections() // by the caller's own wish
	mine.kept = false
	get()
	assert.EqualValues(t, mine.made, elsewhereConns.Load())
}

// The operation is available from the error or response of http.Client.
func TestOperationIsFoundInHTTPClientsReturn(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/see-other" {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
		pays(w, r)
	}))
	defer srv.Close()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	p := start(t, nil, onceward.Config{Providers: anywhere(redirectIsFinal), HTTPClient: &http.Client{
		Transport: srv.Client().Transport, Jar: jar, Timeout: time.Minute,
	}})
	post := func(name, path string) *http.Response {
		req, err := http.NewRequestWithContext(named(t, name), http.MethodPost, srv.URL+path, strings.NewReader("x=1"))
		require.NoError(t, err)
		resp, err := p.HTTP.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	for range 2 { // the second is a replay
		op, ok := onceward.OperationOf(post("order-1", "/"))
		require.True(t, ok)
		assert.Equal(t, "order-1", op.ID)
	}

	landed := post("order-2", "/see-other")
	_, ok := onceward.OperationOf(landed)
	assert.False(t, ok, "that is the answer to a GET")
	op, ok := onceward.OperationOf(landed.Request.Response)
	require.True(t, ok)
	assert.Equal(t, "order-2", op.ID)
}

// A file is sent from its position with every attempt and read once.
func TestFileIsSentFromItsPosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "statement.csv")
	require.NoError(t, os.WriteFile(path, []byte("header;the rest"), 0o600))
	for name, length := range map[string]int64{"of a stated length": 8, "of no stated length": 0} {
		t.Run(name, func(t *testing.T) {
			srv := newRawServer(t, func(s *rawServer, conn net.Conn, _ int) bool {
				return len(s.requests()) > 2 && writes(conn, rawAnswer)
			})
			p := start(t, transportOf(t), onceward.Config{Providers: anywhere(), Backoff: quick})
			f, err := os.Open(path)
			require.NoError(t, err)
			_, err = f.Seek(7, io.SeekStart)
			require.NoError(t, err)
			out := p.Ask(named(t, "upload-1"), to(http.MethodPost, srv.url()), func(r *http.Request) {
				r.Body, r.GetBody, r.ContentLength = f, nil, length
			})
			require.NoError(t, out.Err)
			require.Len(t, srv.requests(), 3)
			for _, r := range srv.requests() {
				assert.Equal(t, "the rest", r.Body)
				assert.Equal(t, "8", r.Header.Get("Content-Length"))
				assert.Empty(t, r.Encoding)
			}
			require.ErrorIs(t, f.Close(), os.ErrClosed, "the transport closed it, as http.RoundTripper says")
		})
	}
}

// The caller gets the last answer before the deadline has passed.
func TestLastAnswerIsReturnedBeforeTheDeadline(t *testing.T) {
	const text = `{"error":{"message":"try later"}}`
	for _, row := range []struct {
		name, retryAfter string
		status, requests int
	}{
		{"a delay beyond the deadline", "3600", 429, 1},
		{"a delay of a thousand years", "31536000000", 503, 1},
		{"out of attempts", "", 503, 5},
	} {
		t.Run(row.name, func(t *testing.T) {
			var requests atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("X-Request-Id", "req_1")
				if row.retryAfter != "" {
					w.Header().Set("Retry-After", row.retryAfter)
				}
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, text)
			}))
			defer srv.Close()
			p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere(), Backoff: quick})
			// Long enough for a slow machine. A caller that waits in vain would return with an expired context.
			ctx, cancel := context.WithTimeout(named(t, "order-1"), 20*time.Second)
			defer cancel()
			out := p.Ask(ctx, to(http.MethodPost, srv.URL))
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			require.NoError(t, ctx.Err())
			assert.Equal(t, row.status, out.Status)
			assert.Equal(t, text, out.Body)
			assert.Equal(t, "req_1", out.Header.Get("X-Request-Id"))
			assert.Equal(t, strconv.Itoa(len(text)), out.Header.Get("Content-Length"))
			assert.Equal(t, onceward.StatePending, out.Op.State)
			assert.EqualValues(t, row.requests, requests.Load())
		})
	}
}

func TestAnErrorNamesTheURLOnce(t *testing.T) {
	t.Parallel()
	dropped := newRawServer(t, func(*rawServer, net.Conn, int) bool { return false })
	tlsOnly := httptest.NewUnstartedServer(http.HandlerFunc(pays))
	tlsOnly.Config.ErrorLog = quiet
	tlsOnly.StartTLS()
	defer tlsOnly.Close()
	refused := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }}
	// A base that is itself an http.Client wraps the URL once more.
	nested := roundTrip(func(r *http.Request) (*http.Response, error) {
		r.RequestURI = ""
		return (&http.Client{Transport: transportOf(t)}).Do(r)
	})
	for name, row := range map[string]struct {
		base http.RoundTripper
		url  string
	}{
		"a dropped connection":                 {transportOf(t), dropped.url()},
		"a dropped connection, nested clients": {nested, dropped.url()},
		"no connection":                        {refused, dropped.url()},
		"an unknown authority":                 {transportOf(t), tlsOnly.URL},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, row.base, onceward.Config{Providers: anywhere(), Backoff: quick})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, row.url+"?token=s3cret"))
			var outer *url.Error
			require.ErrorAs(t, out.Err, &outer, "http.Client's own")
			var e *onceward.Error
			require.ErrorAs(t, out.Err, &e)
			assert.Same(t, e, outer.Err, "nothing lies between")
			assert.Equal(t, 1, strings.Count(e.Error(), "://"), e.Error())
			assert.NotContains(t, e.Error(), "s3cret")
			assert.False(t, errors.As(e.Err, new(*url.Error)))
		})
	}
}

// protocols lists how an answer can arrive.
var protocols = []struct {
	name  string
	major int
	tls   bool
}{
	{"HTTP/1.1", 1, false},
	{"HTTP/1.1 over TLS", 1, true},
	{"HTTP/2", 2, true},
}

// serveOver runs a test over every protocol.
func serveOver(t *testing.T, h http.HandlerFunc, f func(t *testing.T, major int, secure bool, srv *httptest.Server)) {
	for _, proto := range protocols {
		t.Run(proto.name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(h)
			srv.EnableHTTP2 = proto.major == 2
			if proto.tls {
				srv.StartTLS()
			} else {
				srv.Start()
			}
			t.Cleanup(srv.Close)
			f(t, proto.major, proto.tls, srv)
		})
	}
}

func TestAnswerKeepsItsProtocol(t *testing.T) {
	packed := &bytes.Buffer{}
	w := gzip.NewWriter(packed)
	_, _ = io.WriteString(w, paid)
	_ = w.Close()
	serveOver(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Packed", r.Header.Get("Accept-Encoding"))
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		} else {
			_, _ = io.WriteString(w, paid)
		}
		w.Header().Set("X-Sum", "42")
	}, func(t *testing.T, major int, secure bool, srv *httptest.Server) {
		p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere()})
		for _, row := range []struct {
			name, accepts, encoding, body string
			uncompressed                  bool
		}{
			{"compressed for net/http alone", "", "", paid, true},
			{"compressed for a caller that accepts it", "gzip", "gzip", packed.String(), false},
			{"not compressed", "identity", "", paid, false},
		} {
			t.Run(row.name, func(t *testing.T) {
				for _, replayed := range []bool{false, true} {
					req, err := http.NewRequestWithContext(named(t, row.name), http.MethodPost, srv.URL, strings.NewReader("x=1"))
					require.NoError(t, err)
					if row.accepts != "" {
						req.Header.Set("Accept-Encoding", row.accepts)
					}
					resp, err := p.HTTP.Do(req)
					require.NoError(t, err)
					text, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					op, ok := onceward.OperationOf(resp)
					require.True(t, ok)
					require.Equal(t, replayed, op.Replayed)
					assert.Equal(t, row.body, string(text))
					assert.Equal(t, row.encoding, resp.Header.Get("Content-Encoding"))
					assert.Equal(t, http.Header{"X-Sum": {"42"}}, resp.Trailer)
					if replayed {
						continue
					}
					assert.Equal(t, row.uncompressed, resp.Uncompressed)
					assert.Equal(t, major, resp.ProtoMajor)
					assert.Equal(t, secure, resp.TLS != nil && resp.TLS.HandshakeComplete && len(resp.TLS.PeerCertificates) > 0)
				}
			})
		}
	})
}

func TestInterimAnswersAreNotTheAnswer(t *testing.T) {
	var requests atomic.Int32
	serveOver(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Link", "</style.css>; rel=preload")
		for range 3 {
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.WriteHeader(http.StatusProcessing)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	}, func(t *testing.T, _ int, _ bool, srv *httptest.Server) {
		requests.Store(0)
		var interim []int
		ctx := httptrace.WithClientTrace(named(t, "order-1"), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				interim = append(interim, code)
				return nil
			},
		})
		p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere()})
		out := p.Ask(ctx, to(http.MethodPost, srv.URL), body("x"))
		require.NoError(t, out.Err)
		assert.Equal(t, http.StatusCreated, out.Status)
		assert.Equal(t, "x", out.Body)
		assert.Empty(t, out.Header.Get("Link"))
		assert.Equal(t, 1, out.Op.Attempts)
		assert.EqualValues(t, 1, requests.Load())
		assert.Equal(t, []int{103, 103, 103, 102}, interim, "the caller's own trace sees them")
	})
}

func TestExpectContinue(t *testing.T) {
	for name, refuses := range map[string]bool{"the server asks for the body": false, "the server refuses before it has seen the body": true} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			serveOver(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1); refuses && r.Header.Get("Authorization") == "" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				_, _ = io.Copy(w, r.Body)
			}, func(t *testing.T, _ int, _ bool, srv *httptest.Server) {
				requests.Store(0)
				base := srv.Client().Transport.(*http.Transport)
				base.ExpectContinueTimeout = time.Minute
				p := start(t, base, onceward.Config{Providers: anywhere()})
				expect := with("Expect", "100-continue")
				out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), body("x"), expect)
				if refuses {
					assert.Equal(t, http.StatusUnauthorized, out.Status)
					assert.Equal(t, onceward.StateCancelled, out.Op.State)
					require.EqualValues(t, 1, requests.Load())
					out = p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), body("x"), expect, with("Authorization", "Bearer x"))
				}
				require.NoError(t, out.Err)
				assert.Equal(t, 200, out.Status)
				assert.Equal(t, "x", out.Body)
				assert.Equal(t, onceward.StateCompleted, out.Op.State)
				assert.Equal(t, 1, out.Op.Attempts-int(requests.Load()-1))
			})
		})
	}
}

// piped is net/http's own transport and server in virtual time: a handler behind
// connections in memory.
func piped(t *testing.T, h http.HandlerFunc) *http.Transport {
	ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(ln) }()
	base := &http.Transport{DialContext: ln.dial}
	t.Cleanup(func() {
		base.CloseIdleConnections()
		_ = srv.Close()
	})
	return base
}

type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "in memory", Net: "unix"} }

// stalling sends the first part of an answer, and is silent until the client is gone.
func stalling(before func(w http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		before(w)
		<-r.Context().Done()
	}
}

var silences = map[string]func(w http.ResponseWriter){
	"before the status line": func(http.ResponseWriter) {},
	"after interim answers":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
	"before the body":        func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	"within the body": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
	},
}

func TestAnAttemptsTimeoutIsNotTheCallers(t *testing.T) {
	for where, before := range silences {
		virtual(t, "once, "+where, func(t *testing.T) {
			var keys []string
			silent := stalling(before)
			p := start(t, piped(t, func(w http.ResponseWriter, r *http.Request) {
				if keys = append(keys, r.Header.Get("Idempotency-Key")); len(keys) == 1 {
					silent(w, r)
					return
				}
				pays(w, r)
			}), onceward.Config{AttemptTimeout: 5 * time.Second, Providers: anywhere()})
			ctx := named(t, "order-1")
			out := p.Ask(ctx, to(http.MethodPost, "http://own.example/"))
			require.NoError(t, out.Err)
			require.NoError(t, ctx.Err())
			assert.Equal(t, paid, out.Body)
			require.Len(t, keys, 2)
			assert.Equal(t, keys[0], keys[1])
		})

		virtual(t, "always, "+where, func(t *testing.T) {
			p := start(t, piped(t, stalling(before)), onceward.Config{AttemptTimeout: 5 * time.Second, Providers: anywhere()})
			ctx := named(t, "order-1")
			out := p.Ask(ctx, to(http.MethodPost, "http://own.example/"))
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			require.ErrorIs(t, out.Err, context.DeadlineExceeded)
			require.NotErrorIs(t, out.Err, context.Canceled)
			require.NoError(t, ctx.Err())
			assert.Equal(t, 5, out.Op.Attempts)
			assert.True(t, out.Op.DueAt.After(time.Now()), "the caller did not give up, so it rests")
			var net net.Error
			require.ErrorAs(t, out.Err, &net)
			assert.True(t, net.Timeout())
		})

		virtual(t, "and the caller gives up first, "+where, func(t *testing.T) {
			p := start(t, piped(t, stalling(before)), onceward.Config{AttemptTimeout: time.Minute, Providers: anywhere()})
			ctx, cancel := context.WithCancel(named(t, "order-1"))
			defer cancel()
			time.AfterFunc(time.Second, cancel)
			out := p.Ask(ctx, to(http.MethodPost, "http://own.example/"))
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			require.ErrorIs(t, out.Err, context.Canceled)
			require.NotErrorIs(t, out.Err, context.DeadlineExceeded)
			assert.Equal(t, 1, out.Op.Attempts)
			assert.False(t, out.Op.DueAt.After(time.Now()), "it is due as soon as somebody asks")
		})
	}
}

// Errors keep their type under http.Client's timeout.
func TestErrorsUnderHTTPClientsTimeout(t *testing.T) {
	for where, before := range silences {
		for _, timeout := range []time.Duration{50 * time.Millisecond, time.Second, time.Minute} {
			virtual(t, where+", "+timeout.String(), func(t *testing.T) {
				p := start(t, nil, onceward.Config{Providers: anywhere(), HTTPClient: &http.Client{
					Transport: piped(t, stalling(before)), Timeout: timeout,
				}})
				began := time.Now()
				out := p.Ask(named(t, "order-1"), to(http.MethodPost, "http://own.example/"))
				assert.Less(t, time.Since(began), timeout)
				var outer *url.Error
				require.ErrorAs(t, out.Err, &outer)
				assert.True(t, outer.Timeout())
				var e *onceward.Error
				require.ErrorAs(t, out.Err, &e)
				assert.Equal(t, onceward.ErrPending, e.Kind)
				assert.Equal(t, "order-1", e.Operation.ID)
			})
		}
	}
}

// A protocol switch that the caller did not request does not block the call.
func TestUnrequestedProtocolSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		p := start(t, piped(t, func(w http.ResponseWriter, _ *http.Request) {
			requests++
			conn, rw, err := http.NewResponseController(w).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_ = rw.Flush()
			_ = conn.SetReadDeadline(time.Now().Add(time.Hour))
			_, _ = io.Copy(io.Discard, conn) // until the client is gone
			_ = conn.Close()
		}), onceward.Config{Providers: anywhere(), AttemptTimeout: 30 * time.Second})
		ctx, cancel := context.WithTimeout(named(t, "order-1"), time.Minute)
		defer cancel()
		out := p.Ask(ctx, to(http.MethodPost, "http://own.example/"))
		require.NoError(t, ctx.Err(), "it came back within its deadline")
		assert.Equal(t, onceward.StateUnknown, out.Op.State)
		assert.Equal(t, 1, requests)
	})
}

// slowToBegin is a journal on a disk that needs time for an intent.
type slowToBegin struct {
	machine.Store
	takes time.Duration
}

func (j slowToBegin) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	res, err := j.Store.Apply(ctx, ev)
	if ev.Kind == machine.EventBegin {
		pass(j.takes)
	}
	return res, err
}

// A call whose time is up before its first attempt sends nothing.
func TestTimeIsUpBeforeTheFirstAttempt(t *testing.T) {
	for _, named := range []bool{true, false} {
		virtual(t, fmt.Sprintf("named: %t", named), func(t *testing.T) {
			l := (&line{}).Always(takes(10*time.Millisecond, says(200, paid)))
			p := start(t, l, onceward.Config{
				// The provider remembers nothing, so an interrupted attempt would be unknown.
				Providers: anywhere(noRetention),
				Journal:   slowToBegin{memory.New(), 950 * time.Millisecond},
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if named {
				ctx = onceward.WithOperation(ctx, "order-1")
			}
			out := p.Ask(ctx, to(http.MethodPost, ownURL))
			require.ErrorIs(t, out.Err, onceward.ErrNotSent)
			require.ErrorIs(t, out.Err, context.DeadlineExceeded)
			assert.Equal(t, onceward.StateCancelled, out.Op.State)
			assert.Empty(t, l.Sent())
		})
	}
}

// A pending operation whose caller had no time left for an attempt is available to Run as soon as it is due.
func TestPendingOperationOfAnExpiredCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory.New()
		first := start(t, (&line{}).Then(refuses()), onceward.Config{Journal: m, Backoff: once})
		require.ErrorIs(t, first.Ask(named(t, "order-1")).Err, onceward.ErrPending)
		pass(time.Hour)
		l := &line{}
		p := start(t, l, onceward.Config{Journal: slowToBegin{m, 950 * time.Millisecond}})
		ctx, cancel := context.WithTimeout(named(t, "order-1"), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
		assert.Empty(t, l.Sent())
		op := p.Recorded(onceward.Ref{ID: "order-1"})
		assert.False(t, op.WakeAt.After(op.DueAt))
	})
}

// A request's connection headers are kept.
func TestConnectionHeadersOfARequestAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closes []bool
		p := start(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			closes = append(closes, r.Close)
			return unavailable.Answer(r)
		}), onceward.Config{Providers: anywhere(), Backoff: backoff.Policy{MaxAttempts: 2}})
		p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL), func(r *http.Request) { r.Close = true })
		assert.Equal(t, []bool{true, true}, closes)
	})
}

// net/http sends a trailer only with a chunked body. Its values are known only after the body has been read.
func TestARequestWithATrailerIsAStream(t *testing.T) {
	var sums []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		sums = append(sums, r.Trailer.Get("X-Sum"))
	}))
	defer srv.Close()
	p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere()})
	trailing := func(r *http.Request) {
		r.Trailer = http.Header{"X-Sum": {"42"}}
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader("x=1")), nil, -1
	}
	require.NoError(t, p.Ask(t.Context(), to(http.MethodPost, srv.URL), trailing).Err)
	assert.Equal(t, []string{"42"}, sums, "unnamed, it passes through")
	require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), trailing).Err, onceward.ErrInvalidRequest)
	assert.Len(t, sums, 1)
	assert.Empty(t, p.Everything())
}
