package request_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// wording is a transport that gets connections, and fails with the text of another transport.
type wording struct {
	conns, writes int // the last of them write the headers
	text          string
}

func (w wording) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	for i := range w.conns {
		trace.GetConn(req.URL.Host)
		trace.GotConn(httptrace.GotConnInfo{})
		if i >= w.conns-w.writes {
			trace.WroteHeaders()
		}
	}
	return nil, errors.New(w.text)
}

// An error text of net/http proves that nothing was processed only if the trace hooks agree.
func TestUnsentByNetHTTPsWordsAndItsHooks(t *testing.T) {
	const (
		goAway  = "http2: Transport received Server's graceful shutdown GOAWAY"
		refused = "stream error: stream ID 5; REFUSED_STREAM; received from peer"
		retry   = "http2: Transport: cannot retry err [%s] after Request.Body was written; define Request.GetBody to avoid this error"
	)
	for _, row := range []struct {
		via    wording
		unsent bool
	}{
		{wording{1, 0, "http: server closed idle connection"}, true},
		{wording{1, 1, "http: server closed idle connection"}, false},
		{wording{2, 0, "http: server closed idle connection"}, true},
		{wording{0, 0, "http: server closed idle connection"}, false},
		{wording{3, 0, "net/http: cannot rewind body after connection loss"}, true},
		{wording{3, 1, "net/http: cannot rewind body after connection loss"}, false},
		{wording{1, 0, "net/http: Transport failed to read from server: read tcp: connection reset by peer"}, true},
		{wording{1, 1, "net/http: Transport failed to read from server: read tcp: connection reset by peer"}, false},
		{wording{1, 1, goAway}, true},
		{wording{1, 1, fmt.Sprintf(retry, goAway)}, true},
		{wording{2, 1, fmt.Sprintf(retry, goAway)}, true},
		{wording{2, 2, fmt.Sprintf(retry, goAway)}, false},
		{wording{1, 1, fmt.Sprintf(retry, refused)}, true},
		{wording{1, 1, fmt.Sprintf(retry, "stream error: stream ID 5; PROTOCOL_ERROR; received from peer")}, false},
		{wording{1, 1, "stream error: stream ID 5; REFUSED_STREAM"}, false},
		{wording{1, 1, "stream error: stream ID 5; INTERNAL_ERROR; received from peer"}, false},
		{wording{1, 1, "http2: Transport received GOAWAY from server ErrCode:INTERNAL_ERROR"}, true},
		{wording{1, 1, `http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug="` + goAway + `"`}, false},
		{wording{1, 1, "unexpected EOF"}, false},
		{wording{1, 0, "unexpected EOF"}, false},
	} {
		virtual(t, fmt.Sprint(row.via), func(t *testing.T) {
			p := start(t, row.via, onceward.Config{Providers: []providers.Provider{own(noRetention)}, Backoff: once})
			kind := onceward.ErrOutcomeUnknown
			if row.unsent {
				kind = onceward.ErrPending
			}
			require.ErrorIs(t, p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL)).Err, kind)
		})
	}
}

// net/http's own transport proves that nothing was sent if no connection came about. The API here remembers nothing, so
// the operation would be unknown without that proof.
func TestUnsentByNetHTTPsOwnTransport(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		requests.Add(1)
		pays(w, r)
	})
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ErrorLog = quiet
	srv.StartTLS()
	defer srv.Close()
	proxy := httptest.NewServer(handler)
	defer proxy.Close()
	trusting := func() *http.Transport { return srv.Client().Transport.(*http.Transport).Clone() }
	const slow = "a connection that takes too long"
	for name, base := range map[string]func() *http.Transport{
		"no connection": func() *http.Transport {
			tr := trusting()
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
			return tr
		},
		slow: func() *http.Transport {
			tr := trusting()
			tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return tr
		},
		"a certificate of an unknown authority": func() *http.Transport { return &http.Transport{} },
		"a proxy that refuses": func() *http.Transport {
			tr := trusting()
			tr.Proxy = http.ProxyURL(mustParse(proxy.URL))
			return tr
		},
	} {
		for hooks, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
			"":                           func(rt http.RoundTripper) http.RoundTripper { return rt },
			", and the hooks are silent": func(rt http.RoundTripper) http.RoundTripper { return hookless{rt} },
		} {
			run := func(t *testing.T, name string, f func(*testing.T)) { t.Run(name, f) }
			if name == slow {
				run = virtual // nothing of it leaves the process
			}
			run(t, name+hooks, func(t *testing.T) {
				tr := base()
				t.Cleanup(tr.CloseIdleConnections)
				proven := hooks == ""
				var unsent, attempts int
				var limit time.Duration
				if name == slow {
					limit = 2 * time.Second // an attempt that ends before a connection was asked for proves nothing
				}
				p := start(t, wrap(tr), onceward.Config{
					Providers:      anywhere(noRetention),
					Backoff:        backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond, MaxAttempts: 2},
					AttemptTimeout: limit,
					MaxWait:        4 * limit, // without the hooks the attempt goes on until then
					Trace: &onceward.Trace{AttemptEnded: func(_ context.Context, _ onceward.Operation, a onceward.Attempt) {
						attempts++
						if a.Unsent {
							unsent++
						}
					}},
				})
				out := p.Ask(named(t, "order-1"), to(http.MethodPost, srv.URL))
				assert.Zero(t, requests.Load())
				if proven {
					require.ErrorIs(t, out.Err, onceward.ErrPending)
					assert.Equal(t, 2, unsent)
					return
				}
				require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
				assert.Zero(t, unsent)
				assert.Equal(t, 1, attempts)
			})
		}
	}
}

// hookless drops the trace hooks from the transport below, and keeps the cancellation.
type hookless struct{ http.RoundTripper }

func (h hookless) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
	defer stop()
	return h.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// refusing is a transport that fails by itself, after the given number of tries with the transport below.
type refusing struct {
	*line
	tries int
	mark  func(error) error
}

var errOpen = errors.New("the circuit is open")

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	for range r.tries {
		if resp, err := r.line.RoundTrip(req); err == nil {
			return resp, nil
		}
	}
	return nil, r.mark(errOpen)
}

// NotSent proves that nothing was sent only if the transport itself sent nothing.
func TestUnsentByATransportThatRefuses(t *testing.T) {
	keyless := own()
	keyless.Endpoints = []providers.Endpoint{{Pattern: "POST /"}}
	plain := func(err error) error { return err }
	wrapped := func(err error) error { return fmt.Errorf("breaker: %w", onceward.NotSent(err)) }
	for _, row := range []struct {
		name  string
		tries int
		mark  func(error) error
		want  onceward.State
	}{
		{"marked, nothing tried before", 0, onceward.NotSent, onceward.StatePending},
		{"marked and wrapped", 0, wrapped, onceward.StatePending},
		{"not marked", 0, plain, onceward.StateUnknown},
		{"marked, but a try of its own was sent", 1, onceward.NotSent, onceward.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Always(loses())
			p := start(t, refusing{l, row.tries, row.mark}, onceward.Config{Providers: []providers.Provider{keyless}})
			out := p.Ask(named(t, "a"), to("POST", ownURL))
			require.ErrorIs(t, out.Err, errOpen)
			assert.Equal(t, row.want, out.Op.State)
			assert.NotErrorIs(t, out.Err, onceward.ErrNotSent, "the mark is an attempt's, the kind the operation's")
			assert.LessOrEqual(t, len(l.Sent()), 1, "never sent again on a hunch")
		})
	}
	virtual(t, "marked, behind a redirect that was followed", func(t *testing.T) {
		hops := 0
		p := start(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			if hops++; hops == 1 {
				return says(307, "", "Location", "/elsewhere").Answer(req)
			}
			return nil, onceward.NotSent(errOpen)
		}), onceward.Config{Providers: []providers.Provider{keyless}})
		out := p.Ask(named(t, "a"), to("POST", ownURL))
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 2, hops)
	})
	assert.NoError(t, onceward.NotSent(nil))
	assert.ErrorIs(t, onceward.NotSent(errOpen), onceward.ErrNotSent)
	assert.ErrorIs(t, wrapped(errOpen), onceward.ErrNotSent)
}

// silent hides the trace hooks from the transport below.
type silent struct{ http.RoundTripper }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.RoundTripper.RoundTrip(r.WithContext(context.Background()))
}

// A transport without trace hooks proves nothing.
func TestUnsentIsNotProvenWithoutHooks(t *testing.T) {
	for name, hooks := range map[string]bool{"with hooks": true, "without": false} {
		virtual(t, name, func(t *testing.T) {
			l := (&line{}).Then(refuses())
			var base http.RoundTripper = l
			if !hooks {
				base = silent{l}
			}
			p := start(t, base, onceward.Config{Providers: []providers.Provider{own(noRetention)}})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			if hooks {
				require.NoError(t, out.Err)
				return
			}
			require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
			assert.Empty(t, l.Sent())
		})
	}
}

// fading is a journal whose sessions a test can lose.
type fading struct {
	machine.Store
	lost atomic.Bool
}

type fadingSession struct {
	machine.Session
	j *fading
}

func (s fadingSession) Lost() bool { return s.j.lost.Load() || s.Session.Lost() }

func (j *fading) Join(ctx context.Context) (machine.Session, error) {
	s, err := j.Store.Join(ctx)
	return fadingSession{s, j}, err
}

// secured returns a server of the given HTTP version that counts its requests, and its table.
func secured(t *testing.T, version string) (srv *httptest.Server, contract providers.Provider, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(`{"id":"ch_1"}`))
	}))
	srv.EnableHTTP2 = version == "HTTP/2"
	srv.StartTLS()
	t.Cleanup(srv.Close)
	contract = providers.Stripe()
	contract.Hosts = []string{oncetest.MustParse(srv.URL).Host}
	return srv, contract, requests
}

// An attempt whose session is lost while it connects, or waits for a credential, is not sent. That holds for new and
// idle connections, in both versions of HTTP.
func TestNothingIsSentAfterTheLease(t *testing.T) {
	for _, version := range []string{"HTTP/1", "HTTP/2"} {
		t.Run(version, func(t *testing.T) {
			srv, contract, requests := secured(t, version)
			j := &fading{Store: memory.New()}
			var pass atomic.Bool
			transport := srv.Client().Transport.(*http.Transport).Clone()
			dial := transport.DialContext
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if !pass.Load() {
					j.lost.Store(true)
				}
				if dial == nil {
					dial = new(net.Dialer).DialContext
				}
				return dial(ctx, network, address)
			}
			client, err := onceward.New(onceward.Config{
				Journal: j, Providers: []providers.Provider{contract}, HTTPClient: &http.Client{Transport: transport},
				Backoff: oncetest.Once,
				Authorize: func(req *http.Request) error {
					if req.Header.Get("Pause") != "" {
						j.lost.Store(true)
					}
					return nil
				},
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Shutdown(context.Background()) })
			send := func(name, pause string) error {
				req, err := http.NewRequestWithContext(onceward.WithOperation(t.Context(), name), http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("amount=1"))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if pause != "" {
					req.Header.Set("Pause", pause)
				}
				resp, err := client.HTTPClient().Do(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				return err
			}
			require.ErrorIs(t, send("connecting", ""), onceward.ErrPending)
			assert.Zero(t, requests.Load(), "a new connection")

			pass.Store(true)
			j.lost.Store(false)
			require.NoError(t, send("calm", ""))
			assert.EqualValues(t, 1, requests.Load())
			require.ErrorIs(t, send("paused", "while a credential is fetched"), onceward.ErrPending)
			assert.EqualValues(t, 1, requests.Load(), "a connection that lay ready")
			op, err := client.Operation(t.Context(), onceward.Ref{ID: "paused"})
			require.NoError(t, err)
			assert.Equal(t, onceward.StatePending, op.State)

			j.lost.Store(false)
			require.NoError(t, send("connecting", ""))
			assert.EqualValues(t, 2, requests.Load())

			if version == "HTTP/1" { // HTTP/2 has sent them by then
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { j.lost.Store(true) }})
				req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, "stopped"), http.MethodPost, srv.URL+"/v1/charges", strings.NewReader("amount=1"))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				_, err = client.HTTPClient().Do(req)
				require.ErrorIs(t, err, onceward.ErrPending)
				assert.EqualValues(t, 2, requests.Load(), "headers in a buffer")
			}
		})
	}
}
