package request_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
)

// Frame types, flags and error codes of HTTP/2, RFC 9113 sections 6 and 7.
const (
	frameData      = 0x0
	frameHeaders   = 0x1
	frameRSTStream = 0x3
	frameSettings  = 0x4
	framePing      = 0x6
	frameGoAway    = 0x7

	flagAck        = 0x1 // of SETTINGS and PING
	flagEndStream  = 0x1 // of HEADERS and DATA
	flagEndHeaders = 0x4

	codeNone            = 0x0
	codeProtocolError   = 0x1
	codeInternalError   = 0x2
	codeRefusedStream   = 0x7
	codeCancel          = 0x8
	codeEnhanceYourCalm = 0xb
)

// frameServer is a hand-made HTTP/2 server. It counts streams, and treats each whole request as no net/http server
// does.
type frameServer struct {
	*httptest.Server
	react func(c *frameConn, stream uint32, nth int) bool

	resets chan uint32 // codes that the client reset streams with

	mu   sync.Mutex
	seen int // whole requests, over all connections
}

// newFrameServer starts a frameServer. react answers the nth request, and reports whether the connection stays open.
func newFrameServer(t *testing.T, react func(c *frameConn, stream uint32, nth int) bool) *frameServer {
	t.Helper()
	s := &frameServer{Server: httptest.NewUnstartedServer(nil), react: react, resets: make(chan uint32, 16)}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) { s.serve(&frameConn{conn}) },
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *frameServer) serve(c *frameConn) {
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(c, preface); err != nil || !c.write(frameSettings, 0, 0, nil) {
		return
	}
	for {
		kind, flags, stream, payload, err := c.read()
		if err != nil {
			return
		}
		open := true
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			open = c.write(frameSettings, flagAck, 0, nil)
		case kind == framePing && flags&flagAck == 0:
			open = c.write(framePing, flagAck, 0, payload)
		case kind == frameRSTStream:
			s.resets <- binary.BigEndian.Uint32(payload)
		case (kind == frameHeaders || kind == frameData) && flags&flagEndStream != 0:
			s.mu.Lock()
			s.seen++
			nth := s.seen
			s.mu.Unlock()
			open = s.react(c, stream, nth)
		}
		if !open {
			return
		}
	}
}

func (s *frameServer) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// nextReset returns the code in the client's next RST_STREAM.
func (s *frameServer) nextReset(t *testing.T) uint32 {
	t.Helper()
	select {
	case code := <-s.resets:
		return code
	case <-time.After(10 * time.Second):
		require.Fail(t, "the client has reset no stream")
		return 0
	}
}

type frameConn struct{ *tls.Conn }

func (c *frameConn) read() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c, head[:]); err != nil {
		return
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c, payload)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload, err
}

func (c *frameConn) write(kind, flags byte, stream uint32, payload []byte) bool {
	n := len(payload)
	frame := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, binary.BigEndian.AppendUint32(nil, stream)...)
	_, err := c.Write(append(frame, payload...))
	return err == nil
}

// answer is a 200 without a body. 0x88 is ":status: 200" (RFC 7541 appendix A).
func (c *frameConn) answer(stream uint32) bool {
	return c.write(frameHeaders, flagEndHeaders|flagEndStream, stream, []byte{0x88})
}

func (c *frameConn) reset(stream, code uint32) bool {
	return c.write(frameRSTStream, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (c *frameConn) goAway(last, code uint32) bool {
	return c.write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

// wireKeys adds a trace to ctx that collects the key of each request that net/http sends under it.
func wireKeys(ctx context.Context) (context.Context, func() []string) {
	var mu sync.Mutex
	var keys []string
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteHeaderField: func(name string, values []string) {
				if strings.EqualFold(name, "Idempotency-Key") {
					mu.Lock()
					defer mu.Unlock()
					keys = append(keys, values...)
				}
			},
		}), func() []string {
			mu.Lock()
			defer mu.Unlock()
			return append([]string(nil), keys...)
		}
}

// streamEnds lists how a stream or its connection ends after the request has arrived. The field resent says that
// net/http alone sends more than one request then, if it can rewind the body. Our operation is ambiguous all the same.
// It is sent again with the same key if the rule allows that, and is unknown otherwise. It is unsent only if the server
// says that it did not process the request.
var streamEnds = []struct {
	name   string
	end    func(c *frameConn, stream uint32) bool
	resent bool
	final  bool // the answer's status had come
	proven bool // the server says that it did not process the request
}{
	{"RST_STREAM REFUSED_STREAM", func(c *frameConn, id uint32) bool { return c.reset(id, codeRefusedStream) }, true, false, true},
	{"RST_STREAM PROTOCOL_ERROR", func(c *frameConn, id uint32) bool { return c.reset(id, codeProtocolError) }, true, false, false},
	{"RST_STREAM INTERNAL_ERROR", func(c *frameConn, id uint32) bool { return c.reset(id, codeInternalError) }, false, false, false},
	{"RST_STREAM CANCEL", func(c *frameConn, id uint32) bool { return c.reset(id, codeCancel) }, false, false, false},
	{"RST_STREAM ENHANCE_YOUR_CALM", func(c *frameConn, id uint32) bool { return c.reset(id, codeEnhanceYourCalm) }, false, false, false},
	{"RST_STREAM NO_ERROR", func(c *frameConn, id uint32) bool { return c.reset(id, codeNone) }, false, false, false},
	{"RST_STREAM after the headers of an answer", func(c *frameConn, id uint32) bool {
		return c.write(frameHeaders, flagEndHeaders, id, []byte{0x88}) && c.reset(id, codeInternalError)
	}, false, true, false},
	{"GOAWAY before the stream", func(c *frameConn, id uint32) bool { c.goAway(id-1, codeNone); return false }, true, false, true},
	{"GOAWAY with an error, before the stream", func(c *frameConn, id uint32) bool { c.goAway(id-1, codeInternalError); return false }, false, false, true},
	{"GOAWAY after the stream", func(c *frameConn, id uint32) bool { c.goAway(id, codeNone); return false }, false, false, false},
	{"GOAWAY with an error", func(c *frameConn, id uint32) bool { c.goAway(id, codeInternalError); return false }, false, false, false},
	{"the connection closes", func(*frameConn, uint32) bool { return false }, false, false, false},
}

// A request over HTTP/2 is an attempt of ours however its stream ends.
func TestHTTP2HoweverItsStreamEnds(t *testing.T) {
	for _, row := range streamEnds {
		once := func(c *frameConn, stream uint32, nth int) bool {
			if nth > 1 {
				return c.answer(stream)
			}
			return row.end(c, stream)
		}
		for what, text := range map[string]string{"with a body": "x", "without a body": ""} {
			t.Run(row.name+", "+what, func(t *testing.T) {
				srv := newFrameServer(t, once)
				var attempts atomic.Int32
				p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere(), Backoff: quick, Trace: counting(&attempts)})
				ctx, keys := wireKeys(named(t, "order-1"))
				out := p.Ask(ctx, to(http.MethodPost, srv.URL), body(text))
				require.NoError(t, out.Err)
				assert.Equal(t, onceward.StateCompleted, out.Op.State)
				assert.Equal(t, 2, srv.requests())
				assert.EqualValues(t, 2, attempts.Load())
				assert.Equal(t, []string{string(out.Op.Key), string(out.Op.Key)}, keys())
			})

			t.Run(row.name+", "+what+", where there is no other attempt", func(t *testing.T) {
				srv := newFrameServer(t, once)
				p := start(t, srv.Client().Transport, onceward.Config{
					Providers: anywhere(), Backoff: backoff.Policy{MaxAttempts: 1},
				})
				require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), body(text)).Err, onceward.ErrPending)
				assert.Equal(t, 1, srv.requests())
			})

			t.Run(row.name+", "+what+", where the API remembers nothing", func(t *testing.T) {
				srv := newFrameServer(t, once)
				p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere(noRetention), Backoff: quick})
				out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), body(text))
				op := p.Recorded(onceward.Ref{ID: "order-1"})
				if row.proven {
					require.NoError(t, out.Err)
					assert.Equal(t, 2, srv.requests())
					return
				}
				if row.final {
					assert.Equal(t, onceward.StateCompleted, op.State)
					assert.True(t, op.Answer.Cut)
				} else {
					require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
					assert.Equal(t, onceward.StateUnknown, op.State)
				}
				assert.Equal(t, 1, srv.requests())
			})
		}

		t.Run(row.name+", through net/http alone", func(t *testing.T) {
			srv := newFrameServer(t, once)
			resp, err := srv.Client().Post(srv.URL, "", strings.NewReader("x"))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
			}
			assert.Equal(t, row.resent, srv.requests() == 2)
		})
	}
}

// An attempt's timeout over HTTP/2 ends only its stream.
func TestHTTP2AttemptsTimeoutEndsItsStream(t *testing.T) {
	t.Parallel()
	srv := newFrameServer(t, func(c *frameConn, stream uint32, nth int) bool { return nth == 1 || c.answer(stream) })
	policy := quick
	policy.MaxAttempts = 100 // on a slow machine more attempts than the first take longer than they may
	p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere(), Backoff: policy, AttemptTimeout: time.Second})
	var conns atomic.Int32
	ctx := httptrace.WithClientTrace(named(t, "order-1"), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if !info.Reused {
				conns.Add(1)
			}
		},
	})
	out := p.Ask(ctx, to(http.MethodPost, srv.URL), body("x"))
	require.NoError(t, out.Err)
	require.NoError(t, ctx.Err())
	assert.GreaterOrEqual(t, out.Op.Attempts, 2)
	assert.EqualValues(t, 1, conns.Load(), "the connection is everybody's")
	assert.GreaterOrEqual(t, srv.requests(), 2)
	assert.EqualValues(t, codeCancel, srv.nextReset(t))
}

// A caller who gives up over HTTP/2 ends the stream.
func TestHTTP2CancelledCallerEndsTheStream(t *testing.T) {
	arrived := make(chan struct{})
	srv := newFrameServer(t, func(*frameConn, uint32, int) bool { close(arrived); return true })
	p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere()})
	ctx, cancel := context.WithCancel(named(t, "order-1"))
	defer cancel()
	go func() {
		<-arrived
		cancel()
	}()
	out := p.Ask(ctx, to(http.MethodPost, srv.URL), body("x"))
	require.ErrorIs(t, out.Err, onceward.ErrPending)
	require.ErrorIs(t, out.Err, context.Canceled)
	assert.Equal(t, 1, out.Op.Attempts)
	assert.EqualValues(t, codeCancel, srv.nextReset(t))
}

// tally counts each key's requests.
type tally struct {
	mu   sync.Mutex
	keys map[string]int
}

func (c *tally) count(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys = map[string]int{}
	}
	c.keys[r.Header.Get("Idempotency-Key")]++
}

func (c *tally) of(key onceward.Key) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys[string(key)]
}

func (c *tally) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys)
}

// Many callers share one HTTP/2 connection.
func TestHTTP2ManyCallersOverOneConnection(t *testing.T) {
	for name, row := range map[string]struct {
		limit int // of concurrent streams
		serve http.HandlerFunc
	}{
		"that takes few streams at a time": {2, pays},
		"that the server ends after each answer (GOAWAY)": {0, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			pays(w, r)
		}},
		"that breaks off streams now and then": {0, func() http.HandlerFunc {
			var n atomic.Int32
			return func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1)%3 == 0 {
					panic(http.ErrAbortHandler)
				}
				pays(w, r)
			}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			const callers = 24
			var got tally
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got.count(r)
				row.serve(w, r)
			}))
			srv.EnableHTTP2 = true
			srv.Config.ErrorLog = quiet
			srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: row.limit}
			srv.StartTLS()
			defer srv.Close()
			policy := quick
			policy.MaxAttempts = 200
			p := start(t, srv.Client().Transport, onceward.Config{
				Providers: anywhere(), Backoff: policy, RetryBudget: backoff.Budget{Capacity: math.MaxInt},
			})
			outs := make([]outcome, callers)
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					outs[i] = p.Ask(named(t, "order-"+strconv.Itoa(i)), to(http.MethodPost, srv.URL), body([]string{"x", ""}[i%2]))
				})
			}
			all.Wait()
			for _, out := range outs {
				require.NoError(t, out.Err)
				assert.Equal(t, paid, out.Body)
				// A request that a GOAWAY came before is an attempt that reached no handler.
				assert.GreaterOrEqual(t, out.Op.Attempts, got.of(out.Op.Key))
				assert.NotZero(t, got.of(out.Op.Key))
			}
			assert.Equal(t, callers, got.len(), "one key each")
		})
	}
}

// A server that shuts down over HTTP/2 finishes the requests that it has.
func TestHTTP2ServerThatShutsDown(t *testing.T) {
	var requests atomic.Int32
	begun, finish := make(chan struct{}), make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		close(begun)
		<-finish
		pays(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	p := start(t, srv.Client().Transport, onceward.Config{Providers: anywhere(), Backoff: quick})
	down := make(chan error, 1)
	go func() {
		<-begun
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		srv.Config.RegisterOnShutdown(func() { close(finish) })
		down <- srv.Config.Shutdown(ctx)
	}()
	out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL))
	require.NoError(t, out.Err)
	require.NoError(t, <-down)
	assert.Equal(t, paid, out.Body)
	assert.Equal(t, 1, out.Op.Attempts)
	assert.EqualValues(t, 1, requests.Load())
}

// A deployment restarts a server gracefully again and again. Nothing becomes unknown, because the server names the
// requests that it did not process.
func TestHTTP2ServerThatRestartsGracefully(t *testing.T) {
	const callers, each = 16, 8
	var got tally
	var n atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.count(r)
		if n.Add(1)%2 == 0 {
			w.Header().Set("Connection", "close") // GOAWAY
		}
		pays(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = quiet
	srv.StartTLS()
	defer srv.Close()
	policy := quick
	policy.MaxAttempts = 5000 // how often one operation is hit is chance, on a slow machine more than that
	var attempts, unsent atomic.Int32
	p := start(t, srv.Client().Transport, onceward.Config{
		Providers: anywhere(noRetention), Backoff: policy, RetryBudget: backoff.Budget{Capacity: math.MaxInt},
		Trace: &onceward.Trace{AttemptEnded: func(_ context.Context, _ onceward.Operation, a onceward.Attempt) {
			attempts.Add(1)
			if a.Unsent {
				unsent.Add(1)
			}
		}},
	})
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for k := range each {
				out := p.Ask(named(t, "order-"+strconv.Itoa(i)+"/"+strconv.Itoa(k)), to(http.MethodPost, srv.URL), body("x"))
				if assert.NoError(t, out.Err) {
					assert.Equal(t, 1, got.of(out.Op.Key))
				}
			}
		})
	}
	all.Wait()
	assert.Equal(t, callers*each, got.len())
	t.Logf("%d attempts, %d of them not processed", attempts.Load(), unsent.Load())
}
