package request_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// The transport keeps the contract of http.RoundTripper on every way through it.
func TestTheRoundTripperContract(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		script  []reply
		ctx     func(context.Context) context.Context
		change  func(*http.Request)
		config  onceward.Config
		before  func(*process)
		answers bool
	}{
		{name: "an answer", answers: true},
		{name: "an unnamed answer", ctx: func(context.Context) context.Context { return context.Background() }, answers: true},
		{name: "a retried answer", script: []reply{loses(), cuts(200, paid), unavailable}, answers: true},
		{name: "a replay", before: func(p *process) { p.Ask(named(p.T, "invoice-1/charge"), with("Content-Type", "text/plain")) }, answers: true},
		{name: "a refusal", script: []reply{declined}, answers: true},
		{name: "an answer that says nothing", script: []reply{frozen}},
		{name: "a redirect", script: []reply{says(307, "", "Location", "/v1/moved")}, answers: true},
		{name: "an answer over the limit", config: onceward.Config{MaxResponseBody: 3}, answers: true},
		{name: "out of attempts", script: []reply{loses()}, config: onceward.Config{Backoff: once}},
		{name: "not due yet", script: []reply{limited}, config: onceward.Config{Backoff: once}, before: func(p *process) { p.Ask(named(p.T, "invoice-1/charge"), with("Content-Type", "text/plain")) }},
		{name: "an unknown outcome", script: []reply{misused}, config: onceward.Config{Secret: []byte("0123456789abcdef")}},
		{name: "another request under the name", before: func(p *process) { p.Ask(named(p.T, "invoice-1/charge"), body("other")) }},
		{name: "passing straight through", change: func(r *http.Request) { r.URL.Host = "elsewhere.example" }, ctx: func(context.Context) context.Context { return context.Background() }, answers: true},
		{name: "without effect", change: func(r *http.Request) { r.Method = http.MethodGet }, answers: true},
		{name: "a token request", change: func(r *http.Request) {
			r.Header.Set("Content-Type", form)
			r.Body.(*watchedBody).Reader = strings.NewReader("grant_type=password")
			r.ContentLength = 19
		}, answers: true},
		{name: "an invalid name", ctx: func(ctx context.Context) context.Context { return onceward.WithOperation(ctx, "") }},
		{name: "an invalid key", change: func(r *http.Request) { r.Header.Set("Idempotency-Key", "a b") }},
		{name: "userinfo", change: func(r *http.Request) { r.URL.User = userinfo }},
		{name: "a streaming request", change: func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }},
		{name: "a dead context", ctx: func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}},
		{name: "a body over the limit", config: onceward.Config{MaxRequestBody: 3}},
		{name: "a body that fails", change: func(r *http.Request) { r.Body.(*watchedBody).Reader = brokenBody }},
		{name: "after Shutdown", before: func(p *process) { _ = p.Shutdown(context.Background()) }},
		{name: "a failing journal", before: func(p *process) { p.Crash() }},
		{name: "a failing Authorize", config: onceward.Config{Authorize: func(*http.Request) error { return errors.New("no token") }}},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.script...)
			p := start(t, l, row.config)
			if row.before != nil {
				row.before(p)
			}
			ctx := named(t, "invoice-1/charge")
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			sentBody := &watchedBody{Reader: strings.NewReader(chargeForm)}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, chargeURL, sentBody)
			require.NoError(t, err)
			req.ContentLength = int64(len(chargeForm))
			req.Header = http.Header{"Content-Type": {"text/plain"}, "Authorization": {"Bearer x"}, "x-odd-Case": {"1", "2"}}
			if row.change != nil {
				row.change(req)
			}
			before := *req
			url, header := *req.URL, req.Header.Clone()

			resp, err := p.Transport().RoundTrip(req)

			after := *req
			assert.Equal(t, header, req.Header)
			assert.Equal(t, url, *req.URL)
			assert.True(t, sameRequest(&before, &after), "the request is not modified")
			assert.Equal(t, int32(1), sentBody.Closed.Load(), "its body is closed")
			if !row.answers {
				require.Error(t, err)
				require.Nil(t, resp)
				return
			}
			require.NoError(t, err)
			require.NotNil(t, resp)
			require.NotNil(t, resp.Body)
			require.NotNil(t, resp.Request)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, resp.Body.Close())
		})
	}
}

var userinfo = mustParse("https://me:pw@x").User

func sameRequest(a, b *http.Request) bool {
	return a.Method == b.Method && a.URL == b.URL && a.Body == b.Body && a.ContentLength == b.ContentLength &&
		a.Host == b.Host && a.Close == b.Close && (a.GetBody == nil) == (b.GetBody == nil) &&
		len(a.TransferEncoding) == len(b.TransferEncoding) && a.Context() == b.Context()
}

func TestAnswerKeepsNetHTTPsFields(t *testing.T) {
	const text = "a body that net/http unpacks"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			_, _ = io.WriteString(packed, text)
			_ = packed.Close()
		case "/trailer":
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, text)
			w.Header().Set("X-Sum", "42")
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		default:
			_, _ = io.WriteString(w, text)
		}
	}))
	defer srv.Close()
	p := start(t, srv.Client().Transport, onceward.Config{Providers: []providers.Provider{providers.Raw(time.Hour).WithStoredFailures()}})
	for _, row := range []struct {
		path, body    string
		length        int64
		uncompressed  bool
		trailer       http.Header
		replayTrailer http.Header
	}{
		{"/plain", text, int64(len(text)), false, nil, nil},
		{"/gzip", text, -1, true, nil, nil},
		{"/trailer", text, -1, false, http.Header{"X-Sum": {"42"}}, http.Header{"X-Sum": {"42"}}},
		{"/nothing", "", 0, false, nil, nil},
	} {
		t.Run(row.path, func(t *testing.T) {
			ctx := named(t, row.path)
			var header http.Header
			for attempt := range 2 {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+row.path, strings.NewReader("x=1"))
				require.NoError(t, err)
				resp, err := p.Transport().RoundTrip(req)
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, row.body, string(got))
				if attempt == 1 {
					assert.Equal(t, header, resp.Header)
					assert.Equal(t, int64(len(row.body)), resp.ContentLength)
					assert.Equal(t, row.replayTrailer, resp.Trailer)
					continue
				}
				header = resp.Header
				assert.Equal(t, row.length, resp.ContentLength)
				assert.Equal(t, row.uncompressed, resp.Uncompressed)
				assert.Equal(t, row.trailer, resp.Trailer)
			}
		})
	}
}

// A POST without a body is sent once, with a length of zero.
func TestBodylessPOSTHasALengthOfZero(t *testing.T) {
	for name, none := range map[string]io.Reader{"nil": nil, "http.NoBody": http.NoBody, "an empty reader": strings.NewReader("")} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Pointer[http.Request]
			srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got.Store(r) }))
			defer srv.Close()
			p := start(t, srv.Client().Transport, onceward.Config{Providers: []providers.Provider{providers.Raw(time.Hour).WithStoredFailures()}})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, none)
			require.NoError(t, err)
			resp, err := p.HTTP.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, "0", got.Load().Header.Get("Content-Length"))
			assert.Zero(t, got.Load().ContentLength)
			assert.Empty(t, got.Load().TransferEncoding)
		})
	}
}

func TestNoBodyAndNilAreTheSameRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{})
		for _, none := range []io.ReadCloser{nil, http.NoBody, io.NopCloser(strings.NewReader(""))} {
			out := p.Ask(named(t, "invoice-1/charge"), func(r *http.Request) { r.Body, r.GetBody, r.ContentLength = none, nil, 0 })
			require.NoError(t, out.Err)
		}
		assert.Len(t, l.Sent(), 1)
	})
}

// A request whose body cannot be recorded fails before anything is recorded or sent.
func TestBodyThatCanNotBeJournaled(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, row := range []struct {
		name  string
		body  io.Reader
		cause error
	}{
		{"over the limit", strings.NewReader(strings.Repeat("x", 11)), nil},
		{"fails in the middle", io.MultiReader(strings.NewReader("abc"), failingReader{broken}), broken},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := &line{}
			p := start(t, l, onceward.Config{MaxRequestBody: 10})
			out := p.Ask(named(t, "invoice-1/charge"), func(r *http.Request) {
				r.Body, r.GetBody, r.ContentLength = io.NopCloser(row.body), nil, -1
			})
			require.ErrorIs(t, out.Err, onceward.ErrInvalidRequest)
			if row.cause != nil {
				require.ErrorIs(t, out.Err, row.cause)
			}
			assert.Empty(t, l.Sent())
			assert.Empty(t, p.Everything())
			exact := p.Ask(named(t, "invoice-1/charge"), body(strings.Repeat("x", 10)))
			require.NoError(t, exact.Err, "the limit itself is allowed")
		})
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// An answer over the size limit is streamed, and recorded without its body.
func TestAnswerOverTheLimitIsStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("0123456789", 100)
		l := (&line{}).Always(says(200, long))
		p := start(t, l, onceward.Config{MaxResponseBody: 64})
		ctx := named(t, "invoice-1/charge")
		out := p.Ask(ctx)
		require.NoError(t, out.Err)
		assert.Equal(t, long, out.Body)
		assert.Equal(t, onceward.StateCompleted, out.Op.State)
		recorded := p.Recorded(out.Op.Ref)
		assert.True(t, recorded.Answer.Omitted)
		assert.Empty(t, recorded.Answer.Body)

		again := p.Ask(ctx)
		require.NoError(t, again.Err, "the provider repeats it under its key")
		assert.Equal(t, long, again.Body)
		assert.True(t, again.Op.Replayed)
		require.Len(t, l.Sent(), 2)
		assert.Equal(t, l.Sent()[0].Key, l.Sent()[1].Key)
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrAnswerGone, "once a minute")
		pass(24 * time.Hour)
		require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrAnswerGone, "the provider may have forgotten the key")
		assert.Len(t, l.Sent(), 2)
	})
}

// An answer that is a secret goes to its caller, and is not recorded.
func TestAnswerThatIsASecretIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own(func(e *providers.Endpoint) { e.SecretResponse = true })}})
		out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
		require.NoError(t, out.Err)
		assert.Equal(t, paid, out.Body)
		recorded := p.Recorded(out.Op.Ref)
		assert.True(t, recorded.Answer.Omitted)
		assert.Empty(t, recorded.Answer.Body)
	})
}

func TestACutAnswer(t *testing.T) {
	elsewhere := to(http.MethodPost, "https://elsewhere.example/orders")
	for _, row := range []struct {
		name    string
		options []option
		script  []reply
		state   onceward.State
		kind    error // nil: a response
		cut     bool  // the response's body is
	}{
		{"is asked for again where the rule allows it", nil, []reply{cuts(200, paid), cuts(200, paid)}, onceward.StateCompleted, nil, false},
		{"is parked when there are no more attempts", nil, []reply{cuts(200, paid), cuts(200, paid), cuts(200, paid), cuts(200, paid), cuts(200, paid)}, onceward.StatePending, onceward.ErrPending, false},
		{"completes, marked cut, if its status alone is final and there is no other attempt", []option{elsewhere}, []reply{cuts(200, paid)}, onceward.StateCompleted, nil, true},
		{"is unknown if its status alone says nothing", []option{elsewhere}, []reply{cuts(503, paid)}, onceward.StateUnknown, onceward.ErrOutcomeUnknown, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.script...)
			p := start(t, l, onceward.Config{})
			out := p.Ask(named(t, "order-1"), row.options...)
			recorded := p.Recorded(onceward.Ref{ID: "order-1"})
			assert.Equal(t, row.state, recorded.State)
			if row.kind != nil {
				require.ErrorIs(t, out.Err, row.kind)
				return
			}
			assert.Equal(t, row.cut, recorded.Answer.Cut)
			for range 2 {
				if row.cut {
					require.ErrorIs(t, out.Err, io.ErrUnexpectedEOF)
					require.ErrorIs(t, out.Err, onceward.ErrAnswerGone, "whoever reads it is told that it is done")
					assert.Equal(t, paid[:len(paid)/2], out.Body)
				} else {
					require.NoError(t, out.Err)
					assert.Equal(t, paid, out.Body)
				}
				out = p.Ask(named(t, "order-1"), row.options...) // the replay is the same
			}
			req, err := http.NewRequestWithContext(named(t, "order-1"), http.MethodPost, chargeURL, strings.NewReader(chargeForm))
			require.NoError(t, err)
			req.Header.Set("Content-Type", form)
			for _, o := range row.options {
				o(req)
			}
			resp, err := p.HTTP.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, row.cut, resp.ContentLength == -1)
		})
	}
}

// pooled is a transport whose connection pool belongs to the caller.
type pooled struct {
	*line
	emptied atomic.Int32
}

func (p *pooled) CloseIdleConnections() { p.emptied.Add(1) }

func TestCallersConnectionPoolIsUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &pooled{line: (&line{}).Always(loses())}
		p := start(t, base, onceward.Config{})
		require.ErrorIs(t, p.Ask(named(t, "invoice-1/charge")).Err, onceward.ErrPending)
		require.Len(t, base.Sent(), 5)
		assert.Zero(t, base.emptied.Load())
	})
}

// net/http resends a request with an Idempotency-Key by itself when a kept-alive connection is dead, unless it can't
// rewind the body.
func TestNetHTTPSendsNothingBehindOurBack(t *testing.T) {
	for name, text := range map[string]string{"with a body": "x", "without a body": ""} {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int32
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			go answerOncePerConnection(ln, &posts)
			attempts := 0
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			p := start(t, base, onceward.Config{
				Providers: []providers.Provider{providers.Raw(time.Hour).WithStoredFailures()},
				Backoff:   backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond, MaxAttempts: 1},
				Trace:     &onceward.Trace{AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) { attempts++ }},
			})
			url := "http://" + ln.Addr().String()
			n := untilKept(t, func(ctx context.Context) {
				require.NoError(t, p.Ask(ctx, to(http.MethodPost, url), body(text)).Err)
			})
			out := p.Ask(named(t, "order-2"), to(http.MethodPost, url), body(text))
			require.ErrorIs(t, out.Err, onceward.ErrPending)
			assert.Equal(t, n+1, attempts)
			assert.EqualValues(t, n+1, posts.Load())
		})
	}
}

// answerOncePerConnection reads a second request on each connection too, and drops
// it.
func answerOncePerConnection(ln net.Listener, posts *atomic.Int32) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			buf := make([]byte, 4096)
			for answered := false; ; answered = true {
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				posts.Add(int32(bytes.Count(buf[:n], []byte("POST "))))
				if answered {
					return
				}
				if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(2)+"\r\n\r\n{}"); err != nil {
					return
				}
			}
		}()
	}
}

// A stream reset over HTTP/2 is one attempt.
func TestHTTP2StreamResetIsOneAttempt(t *testing.T) {
	var posts, attempts atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if posts.Add(1)%2 == 1 {
			panic(http.ErrAbortHandler)
		}
		pays(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for _, text := range []string{"x", ""} {
		p := start(t, srv.Client().Transport, onceward.Config{
			Providers: []providers.Provider{providers.Raw(time.Hour).WithStoredFailures()},
			Backoff:   quick,
			Trace:     &onceward.Trace{AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) { attempts.Add(1) }},
		})
		require.NoError(t, p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL), body(text)).Err)
		assert.Equal(t, attempts.Load(), posts.Load())
	}
	assert.EqualValues(t, 4, posts.Load())
}

func TestPassThroughCarriesNoHeadersOfOnceward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Authorize: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer x")
			return nil
		}})
		require.NoError(t, p.Ask(named(t, "order-1"), to(http.MethodPost, "https://elsewhere.example/")).Err)
		require.NoError(t, p.Ask(t.Context(), to(http.MethodPost, "https://elsewhere.example/")).Err)
		for _, s := range l.Sent() {
			assert.Empty(t, s.Header.Get("Authorization"), "credentials go to providers only")
		}
	})
}

// Trace.Asked gets a request that is refused before it is recorded. It does not get a request that passes through.
func TestAskedReportsRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []onceward.CallResult
		l := &line{}
		tells := &onceward.Trace{Asked: func(_ context.Context, _ onceward.Operation, o onceward.CallResult, _ error, _ time.Duration) {
			told = append(told, o)
		}}
		p := start(t, l, onceward.Config{Trace: tells})
		require.ErrorIs(t, p.Ask(named(t, "order-1"), func(r *http.Request) { r.Header.Set("Upgrade", "x"); r.Header.Set("Connection", "Upgrade") }).Err, onceward.ErrInvalidRequest)
		assert.Equal(t, []onceward.CallResult{onceward.CallRefused}, told)
		require.NoError(t, p.Ask(t.Context(), to(http.MethodPost, "https://elsewhere.example/")).Err)
		everywhere := start(t, l, onceward.Config{Trace: tells, Providers: anywhere()})
		require.NoError(t, everywhere.Ask(t.Context(), to(http.MethodPost, "https://elsewhere.example/token"), body("grant_type=client_credentials")).Err)
		assert.Empty(t, everywhere.Everything(), "its body says that it is none")
		assert.Len(t, told, 1)
		require.NoError(t, p.Ask(named(t, "order-1")).Err)
		assert.Len(t, told, 2)
	})
}

func TestFaultsOfARealConnection(t *testing.T) {
	t.Parallel()
	eachJournal(t, func(t *testing.T, open func() machine.Store) {
		srv, p := inBox(t, providers.Stripe(), onceward.Config{Journal: open()})
		for name, faults := range map[string][]providertest.Fault{
			"none":                         nil,
			"dropped before the effect":    {providertest.DropBefore()},
			"dropped after the effect":     {providertest.DropAfter()},
			"cut in the body":              {providertest.CutAt(3)},
			"cut before the body":          {providertest.CutAt(0)},
			"limited":                      {providertest.Status(429, nil)},
			"unavailable":                  {providertest.Status(503, nil), providertest.Status(502, nil)},
			"in use":                       {providertest.DropAfter(), providertest.Status(409, nil)},
			"one after another of several": {providertest.DropBefore(), providertest.CutAt(5), providertest.Status(500, nil), providertest.DropAfter()},
		} {
			t.Run(name, func(t *testing.T) {
				effects := len(srv.Effects())
				srv.Script(faults...)
				for range 2 {
					out := p.Ask(named(t, name), to(http.MethodPost, srv.URL+"/v1/charges"))
					require.NoError(t, out.Err)
					assert.Equal(t, paid, out.Body)
					assert.Equal(t, onceward.StateCompleted, out.Op.State)
				}
				assert.Len(t, srv.Effects(), effects+1)
			})
		}
	})
}
