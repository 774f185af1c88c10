package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/server"
)

// A request of an untrusted client is bounded in memory and time. A request over a bound is refused, and leaves nothing
// behind.
func TestInputIsBounded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		run  func(t *testing.T, w *wire)
	}{
		{"a body", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			body := strings.Repeat("1", 1<<20)
			assert.Equal(t, 201, w.ask(h, "POST", "/payments", body, keyed(key)).Code, "the default is 1 MiB")
			w.isProblem(w.ask(h, "POST", "/payments", body+"1", keyed(key+"b")), 413, "request-too-large")
			w.isProblem(w.ask(h, "POST", "/payments", body+"1", keyed(key+"b"), func(r *http.Request) { r.ContentLength = -1 }), 413, "request-too-large")
			w.leaves(1)
		}},
		{"a body that never ends", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{MaxRequest: 100})
			w.isProblem(w.ask(h, "POST", "/payments", "", keyed(key), func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(endless{}), -1 }), 413, "request-too-large")
			w.leaves(0)
		}},
		{"a body that does not come", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{Limit: 50 * time.Millisecond})
			body, more := io.Pipe()
			t.Cleanup(func() { _ = more.Close() })
			go func() { _, _ = more.Write([]byte("1")) }()
			w.isProblem(w.ask(h, "POST", "/payments", "", keyed(key), func(r *http.Request) { r.Body, r.ContentLength = body, 10 }), 400, "request-broken")
			w.leaves(0)
		}},
		{"a body without a key", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{MaxRequest: 100, Optional: true})
			for _, method := range []string{"PUT", "DELETE", "POST", "PATCH"} {
				assert.Equal(t, 201, w.ask(h, method, "/payments", strings.Repeat("1", 100)).Code, method)
				w.isProblem(w.ask(h, method, "/payments", strings.Repeat("1", 101)), 413, "request-too-large")
				w.isProblem(w.ask(h, method, "/payments", "", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(endless{}), -1 }), 413, "request-too-large")
			}
			assert.Equal(t, 4, w.rows())
		}},
		{"a body without a key that does not come", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{Limit: 50 * time.Millisecond})
			w.isProblem(w.ask(h, "PUT", "/payments", "", slowly(t)), 400, "request-broken")
			assert.Zero(t, w.rows(), "its handler was not called")
		}},
		{"a body that does not come, behind a middleware that hides the connection", func(t *testing.T, w *wire) {
			routes, hidden := http.NewServeMux(), http.NewServeMux()
			routes.Handle("/payments", w.pays(server.Endpoint{Limit: 50 * time.Millisecond}))
			routes.Handle("/unhurried", w.server.Atomic("payments.unhurried", http.HandlerFunc(pay), server.Endpoint{}))
			hidden.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) { routes.ServeHTTP(struct{ http.ResponseWriter }{rw}, r) })
			for _, around := range []http.Handler{hidden, http.TimeoutHandler(routes, time.Hour, "")} {
				w.isProblem(w.ask(around, "POST", "/payments", "", slowly(t), keyed(key)), 400, "request-broken")
				w.isProblem(w.ask(around, "PUT", "/payments", "", slowly(t)), 400, "request-broken")
				assert.Equal(t, 201, w.ask(around, "PUT", "/unhurried", "1").Code, "the connection is still of use")
			}
			w.leaves(0)
		}},
		{"requests without a key at once", func(t *testing.T, w *wire) {
			begun, goOn := make(chan struct{}), make(chan struct{})
			s := w.another(func(o *server.Options) {
				w.options(o)
				o.MaxInFlight = 2
			})
			h := s.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				begun <- struct{}{}
				<-goOn
				rw.WriteHeader(201)
			}), server.Endpoint{})
			answers := make(chan answered, 2)
			w.serverOf(h)
			go func() { answers <- w.ask(h, "PUT", "/payments", "1") }()
			go func() { answers <- w.ask(h, "POST", "/payments", "1", keyed(key)) }()
			<-begun
			<-begun
			w.isProblem(w.ask(h, "PUT", "/payments", "1"), 429, "too-many")
			w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(key+"b")), 429, "too-many")
			go func() { <-begun }()
			other := make(chan answered, 1)
			go func() { other <- w.ask(h, "PUT", "/payments", "1", with("X-Tenant", "globex")) }()
			close(goOn)
			assert.Equal(t, 201, (<-other).Code, "another tenant is not held up")
			for range 2 {
				assert.Equal(t, 201, (<-answers).Code)
			}
		}},
		{"a compressed body, which is not unpacked", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{MaxRequest: 20 << 10})
			assert.Equal(t, 201, w.ask(h, "POST", "/payments", packed(t, 8<<20), keyed(key), with("Content-Encoding", "gzip")).Code)
			w.leaves(1)
		}},
		{"a body that is deep, wide or long", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			const size = 1<<18 - 16
			for i, body := range []string{
				strings.Repeat("[", size), strings.Repeat(`{"a":`, size/5), `{` + strings.Repeat(`"a":1,`, size/6) + `"a":1}`, "[" + strings.Repeat("0,", size/2) + "0]",
				strings.Repeat("9", size), "1e" + strings.Repeat("9", size), `"` + strings.Repeat(`\u0000`, size/6) + `"`,
			} {
				for _, replayed := range []string{"", "true"} {
					got := w.ask(h, "POST", "/payments", body, keyed(fmt.Sprint(key, i)))
					assert.Equal(t, 201, got.Code, i)
					assert.Equal(t, replayed, got.Header.Get("Idempotent-Replayed"), i)
				}
			}
			w.leaves(7)
		}},
		{"a key", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			assert.Equal(t, 201, w.ask(h, "POST", "/payments", "1", keyed(strings.Repeat("k", 255))).Code)
			for _, long := range []string{strings.Repeat("k", 256), strings.Repeat("k", 500<<10), `"` + strings.Repeat("k", 500<<10) + `"`, `"` + strings.Repeat(`\"`, 200<<10)} {
				w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(long)), 400, "key-malformed")
			}
			w.leaves(1)
		}},
		{"many lines of keys", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			got := w.ask(h, "POST", "/payments", "1", func(r *http.Request) {
				for i := range 5000 {
					r.Header.Add("Idempotency-Key", fmt.Sprint(key, i))
				}
			})
			w.isProblem(got, 400, "key-malformed")
			w.leaves(0)
		}},
		{"a tenant", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			assert.Equal(t, 201, w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Tenant", strings.Repeat("t", 512))).Code)
			w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Tenant", strings.Repeat("t", 513))), 500, "internal")
			w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Tenant", "")), 500, "internal")
			w.leaves(1)
		}},
		{"headers of the request", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			assert.Equal(t, 201, w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Filler", strings.Repeat("x", 500<<10))).Code)
			assert.Equal(t, "true", w.ask(h, "POST", "/payments", "1", keyed(key)).Header.Get("Idempotent-Replayed"), "nothing of them is kept or compared")
		}},
		{"headers of an answer that repeats its request", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				book(r)
				rw.Header().Set("Location", r.Header.Get("X-Return-To"))
			}), server.Endpoint{MaxAnswer: 1 << 10})
			assert.Equal(t, 200, w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Return-To", strings.Repeat("x", 1000))).Code)
			w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(key+"b"), with("X-Return-To", strings.Repeat("x", 1020))), 500, "answer-not-recordable")
			w.leaves(1)
			assert.Equal(t, 1, w.rows())
		}},
		{"an answer", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				book(r)
				for {
					if _, err := rw.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
			}), server.Endpoint{})
			w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(key)), 500, "answer-not-recordable")
			w.leaves(0)
			assert.Zero(t, w.rows())
		}},
		{"many keys that come to nothing", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Fails") != "" {
					book(r)
					http.Error(rw, "no", http.StatusInternalServerError)
					return
				}
				http.NotFound(rw, r)
			}), server.Endpoint{})
			for i := range 50 {
				assert.Equal(t, 404, w.ask(h, "POST", "/payments", "1", keyed(fmt.Sprint(key, i))).Code)
				assert.Equal(t, 500, w.ask(h, "POST", "/payments", "1", keyed(fmt.Sprint(key, i)), with("X-Fails", "yes")).Code)
			}
			w.leaves(0)
		}},
		{"requests that wait for one key", func(t *testing.T, w *wire) {
			begun, goOn := make(chan struct{}), make(chan struct{})
			s := w.another(func(o *server.Options) { w.options(o); o.MaxInFlight = 3 })
			h := s.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				close(begun)
				<-goOn
				pay(rw, r)
			}), server.Endpoint{Wait: time.Minute})
			w.serverOf(h)
			answers := make(chan answered)
			ask := func() { answers <- w.ask(h, "POST", "/payments", "1", keyed(key)) }
			go ask()
			<-begun
			assert.Equal(t, 1, s.Stats().Serving)
			assert.False(t, s.Stats().Oldest.IsZero())
			for range 5 {
				go ask()
			}
			for range 3 { // two wait while one is served
				w.isProblem(<-answers, 429, "too-many")
			}
			close(goOn)
			for range 3 {
				assert.Equal(t, 201, (<-answers).Code)
			}
			w.serverOf(h).Close()
			assert.Zero(t, s.Stats())
			w.leaves(1)
		}},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/http2=%t", row.name, http2), func(t *testing.T) {
				t.Parallel()
				w := &wire{http2: http2, servers: map[http.Handler]*httptest.Server{}}
				w.shop = open(t, w.options)
				row.run(t, w)
				for _, s := range w.servers {
					s.Close() // it waits for its requests
				}
				assert.Zero(t, w.server.Stats(), "nothing is served any more")
			})
		}
	}
}

// leaves checks how many receipts there are.
func (w *wire) leaves(n int) {
	w.t.Helper()
	assert.Equal(w.t, n, w.receipts())
}

// slowly sends the first byte of a body, and no other.
func slowly(t *testing.T) asked {
	return func(r *http.Request) {
		body, more := io.Pipe()
		t.Cleanup(func() { _ = more.Close() })
		go func() { _, _ = more.Write([]byte("1")) }()
		r.Body, r.ContentLength = body, 10
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '1'
	}
	return len(b), nil
}

// packed is so many bytes, as gzip packs them.
func packed(t *testing.T, n int64) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := io.CopyN(z, endless{}, n)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.String()
}
