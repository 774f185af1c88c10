package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/server"
)

// leavingWriter lets a goroutine write between the status and the body of an answer.
type leavingWriter struct {
	*httptest.ResponseRecorder
	leaves  chan struct{}
	written chan error
	err     error
}

func (w *leavingWriter) WriteHeader(status int) {
	w.ResponseRecorder.WriteHeader(status)
	close(w.leaves)
	w.err = <-w.written
}

// A handler that breaks a rule neither doubles its effect nor hides it.
func TestHandlersThatBreakTheRules(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		run  func(t *testing.T, s *shop)
	}{
		{"it writes a status that HTTP lacks", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				var status int // the branch that sets it was forgotten
				w.WriteHeader(status)
			}), server.Endpoint{})
			assert.Panics(t, func() { ask(h, "POST", "/", "1", keyed(key)) }, "as net/http does, and not a success")
			assert.Zero(t, s.rows())
		}},
		{"it ends its goroutine", func(t *testing.T, s *shop) {
			ends := true
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if pay(w, r); ends {
					runtime.Goexit()
				}
			}), server.Endpoint{})
			over := make(chan struct{})
			go func() {
				defer close(over)
				ask(h, "POST", "/", "1", keyed(key))
			}()
			<-over
			assert.Zero(t, s.rows())
			assert.Zero(t, s.server.Stats())
			ends = false
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
		}},
		{"it gives up a large answer, of which the caller would get a part", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				server.Release(r.Context())
				_, _ = io.WriteString(w, `{"charges":[`)
				_, _ = w.Write(make([]byte, 100))
			}), server.Endpoint{MaxAnswer: 50})
			got := ask(h, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusInternalServerError, got.Code)
			assert.NotContains(t, got.Body.String(), "charges")
			assert.Zero(t, s.rows())
		}},
		{"it commits, and then says that nothing is to be kept", func(t *testing.T, s *shop) {
			for name, ends := range map[string]func(http.ResponseWriter, *http.Request){
				"logged.out": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
				"released":   func(_ http.ResponseWriter, r *http.Request) { server.Release(r.Context()) },
			} {
				h := s.server.Atomic(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					book(r)
					if tx, err := server.Tx(r.Context()); assert.NoError(t, err) {
						assert.NoError(t, tx.Commit())
					}
					ends(w, r)
				}), server.Endpoint{})
				for range 2 {
					got := ask(h, "POST", "/", "1", keyed("key-of-"+name))
					assert.Equal(t, http.StatusConflict, got.Code, name)
					assert.Empty(t, got.Header().Get("Idempotency-Recorded"), "nobody knows that")
				}
			}
			assert.Equal(t, 2, s.rows())
		}},
		{"it commits by SQL, begins anew and fails", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				tx, _ := server.Tx(r.Context())
				_, _ = tx.Exec("COMMIT")
				_, _ = tx.Exec("BEGIN")
				w.WriteHeader(http.StatusInternalServerError)
			}), server.Endpoint{})
			assert.Equal(t, http.StatusInternalServerError, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, http.StatusConflict, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, 1, s.rows())
		}},
		{"it commits by itself, and its answer is too large", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				tx, _ := server.Tx(r.Context())
				_ = tx.Commit()
				_, _ = w.Write(make([]byte, 2<<20))
			}), server.Endpoint{})
			got := ask(h, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusConflict, got.Code)
			assert.Contains(t, got.Body.String(), "Do not use a new key")
			assert.Equal(t, 1, s.rows())
		}},
		{"it is a function of Once that commits by itself and fails", func(t *testing.T, s *shop) {
			_, err := server.Once(t.Context(), s.server, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "job", Key: key}, nil, func(ctx context.Context) (int, error) {
				tx, err := server.Tx(ctx)
				require.NoError(t, err)
				_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
				assert.NoError(t, err)
				assert.NoError(t, tx.Commit())
				return 0, errors.New("it failed")
			})
			var refused *server.RefusedError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, "outcome-unknown", refused.Problem.Name)
			assert.Equal(t, 1, s.rows())
		}},
		{"it rolls back by itself, and answers with a success", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				if tx, err := server.Tx(r.Context()); assert.NoError(t, err) {
					assert.NoError(t, tx.Rollback())
				}
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})
			for range 2 {
				assert.Equal(t, http.StatusServiceUnavailable, ask(h, "POST", "/", "1", keyed(key)).Code)
			}
			assert.Zero(t, s.rows())
		}},
		{"a goroutine of it goes on to write the answer", func(t *testing.T, s *shop) {
			w := &leavingWriter{ResponseRecorder: httptest.NewRecorder(), leaves: make(chan struct{}), written: make(chan error)}
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				pay(rw, r)
				go func() {
					<-w.leaves
					_, err := io.WriteString(rw, " and more")
					w.written <- err
				}()
			}), server.Endpoint{})
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("1"))
			r.Header.Set("X-Tenant", "acme")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", key)
			h.ServeHTTP(w, r)
			require.Error(t, w.err)
			first := w.Body.String()
			assert.Equal(t, first, ask(h, "POST", "/", "1", keyed(key)).Body.String(), "all callers get one answer")
		}},
		{"it changes the request", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				pay(w, r)
				r.Method, r.URL.Path, r.URL.RawQuery = http.MethodPatch, "/elsewhere", "a=1"
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader("other")), 5
				r.Header.Set("Idempotency-Key", "key-0002")
				r.Header.Set("X-Tenant", "globex")
			}), server.Endpoint{})
			require.Equal(t, http.StatusCreated, ask(h, "POST", "/payments", "1", keyed(key)).Code)
			assert.Equal(t, "true", ask(h, "POST", "/payments", "1", keyed(key)).Header().Get("Idempotent-Replayed"))
			assert.Equal(t, http.StatusUnprocessableEntity, ask(h, "PATCH", "/elsewhere?a=1", "other", keyed(key)).Code)
			assert.Equal(t, 1, s.rows())
		}},
		{"it succeeds often without the transaction, and is noticed once", func(t *testing.T, s *shop) {
			var log bytes.Buffer
			h := s.another(func(o *server.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).
				Atomic("payments.create", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), server.Endpoint{})
			for i := range 3 {
				ask(h, "POST", "/", "1", keyed(fmt.Sprint(key, i)))
			}
			assert.Equal(t, 1, strings.Count(log.String(), "without the request's transaction"))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t, open(t, nil))
		})
	}
}

// An operator finds the endpoint of each failure in the log.
func TestFailuresAreLoggedWithTheirEndpoint(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var log bytes.Buffer
	h := s.another(func(o *server.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).
		Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			book(r)
			_, _ = w.Write(make([]byte, 100))
		}), server.Endpoint{MaxAnswer: 50})
	require.Equal(t, http.StatusInternalServerError, ask(h, "POST", "/", "1", keyed(key), with("X-Tenant", "")).Code)
	require.Equal(t, http.StatusInternalServerError, ask(h, "POST", "/", "1", keyed(key)).Code)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	for i, says := range []string{"the tenant has no name", "larger than Endpoint.MaxAnswer"} {
		assert.Contains(t, lines[i], says)
		assert.Contains(t, lines[i], "endpoint=payments.create")
	}
}

// A caller that repeats its request in another form neither pays twice nor gets the answer of another request.
func TestCallersThatRepeatOtherwise(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		run  func(t *testing.T, w *wire)
	}{
		{"with the same meaning", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			require.Equal(t, 201, w.ask(h, "POST", "/payments?a=1&b=2", `{"amount":1,"to":"ann"}`, keyed(key)).Code)
			for name, got := range map[string]answered{
				"in chunks":          w.ask(h, "POST", "/payments?a=1&b=2", `{"amount":1,"to":"ann"}`, keyed(key), func(r *http.Request) { r.ContentLength = -1 }),
				"waiting for a word": w.ask(h, "POST", "/payments?a=1&b=2", `{"amount":1,"to":"ann"}`, keyed(key), with("Expect", "100-continue")),
				"in another order":   w.ask(h, "POST", "/payments?b=2&a=1", `{"to":"ann","amount":1.0}`, keyed(key)),
				"quoted, with space": w.ask(h, "POST", "/payments?a=1&b=2", `{"amount":1,"to":"ann"}`, keyed(` "key-0001" `)),
				"with a parameter":   w.ask(h, "POST", "/payments?a=1&b=2", `{"amount":1,"to":"ann"}`, keyed(`"key-0001";v=1`)),
				"with a trailer": w.ask(h, "POST", "/payments?a=1&b=2", `{"amount":1,"to":"ann"}`, keyed(key), func(r *http.Request) {
					r.ContentLength, r.Trailer = -1, http.Header{"Idempotency-Key": {"key-0002"}}
				}),
			} {
				t.Log(name)
				w.isReplayed(got)
			}
			assert.Equal(t, 1, w.rows())
		}},
		{"with another meaning", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			require.Equal(t, 201, w.ask(h, "POST", "/payments", `{"amount":1}`, keyed(key), with("X-Who", "eve")).Code)
			for name, got := range map[string]answered{
				"another coding":         w.ask(h, "POST", "/payments", `{"amount":1}`, keyed(key), with("X-Who", "eve"), with("Content-Encoding", "br")),
				"another type":           w.ask(h, "POST", "/payments", `{"amount":1}`, keyed(key), with("X-Who", "eve"), with("Content-Type", "text/plain")),
				"a member twice":         w.ask(h, "POST", "/payments", `{"amount":1,"amount":2}`, keyed(key), with("X-Who", "eve")),
				"another path's case":    w.ask(h, "POST", "/Payments", `{"amount":1}`, keyed(key), with("X-Who", "eve")),
				"a path with a slash":    w.ask(h, "POST", "/payments/", `{"amount":1}`, keyed(key), with("X-Who", "eve")),
				"bytes that are no text": w.ask(h, "POST", "/payments", "{\"amount\":1\xff}", keyed(key), with("X-Who", "eve")),
			} {
				t.Log(name)
				w.isProblem(got, 422, "key-reused")
			}
			assert.Equal(t, 1, w.rows())
			assert.Equal(t, 201, w.ask(h, "POST", "/payments", `{"amount":1}`, keyed("KEY-0001"), with("X-Who", "eve")).Code, "a key has a case")
			assert.Equal(t, 2, w.rows())
		}},
		{"with several keys", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{Optional: true})
			for _, keys := range []string{`"key-0001", "key-0002"`, `"key-0001" "key-0002"`, `"key-0001"x`, `"key-0001";`, `"key-0001`, `key-0001"`, `("key-0001")`, "", " ", `""`} {
				got := w.ask(h, "POST", "/payments", "1", keyed(keys))
				if keys == `key-0001"` || keys == `("key-0001")` { // a string of visible characters is a key
					assert.Equal(t, 201, got.Code, keys)
					continue
				}
				t.Logf("%q", keys)
				w.isProblem(got, 400, "key-malformed")
			}
			assert.Equal(t, 2, w.rows())
		}},
		{"with its key in the trailer alone", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			w.isProblem(w.ask(h, "POST", "/payments", "1", func(r *http.Request) {
				r.ContentLength, r.Trailer = -1, http.Header{"Idempotency-Key": {key}}
			}), 400, "key-missing")
		}},
		{"with a method that asks for nothing", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			require.Equal(t, 201, w.ask(h, "POST", "/payments", "1", keyed(key)).Code)
			for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
				assert.Empty(t, w.ask(h, method, "/payments", "", keyed(key)).Header.Get("Idempotent-Replayed"), method)
			}
			for _, method := range []string{"get", "post", "QUERY"} {
				w.isProblem(w.ask(h, method, "/payments", "1"), 400, "key-missing")
				w.isProblem(w.ask(h, method, "/payments", "1", keyed(key)), 422, "key-reused")
			}
			assert.Equal(t, 1, w.rows())
		}},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/http2=%t", row.name, http2), func(t *testing.T) {
				t.Parallel()
				w := &wire{http2: http2, servers: map[http.Handler]*httptest.Server{}}
				w.shop = open(t, w.options)
				row.run(t, w)
			})
		}
	}
}

// A request whose target is a whole URL, as a proxy sends it, is the same request as one whose target is a path.
func TestTargetThatIsAWholeURL(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	web := httptest.NewServer(s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{}))
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	for _, target := range []string{"/payments?a=1", "http://" + host + "/payments?a=1", "http://shop.example/payments?a=1"} {
		conn, err := net.Dial("tcp", host)
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop.example\r\nX-Tenant: acme\r\nIdempotency-Key: %s\r\nContent-Length: 1\r\n\r\n1", target, key)
		require.NoError(t, err)
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		assert.Equal(t, http.StatusCreated, got.StatusCode, target)
		require.NoError(t, conn.Close())
	}
	assert.Equal(t, 1, s.rows())
}

// A middleware around may have read a form, so that the body is gone. Two forms are not taken for one request then.
func TestFormThatAMiddlewareHasRead(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	restores := false
	around := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		r.Body = io.NopCloser(bytes.NewReader(body))
		assert.NoError(t, r.ParseForm())
		if restores {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		h.ServeHTTP(w, r)
	})
	form := func(body string) int {
		return ask(around, "POST", "/", body, keyed(key), with("Content-Type", "application/x-www-form-urlencoded"), func(r *http.Request) { r.ContentLength = -1 }).Code
	}
	for _, body := range []string{"amount=1", "amount=2"} {
		assert.Equal(t, http.StatusInternalServerError, form(body))
	}
	restores = true
	assert.Equal(t, http.StatusCreated, form("amount=1"))
	assert.Equal(t, http.StatusUnprocessableEntity, form("amount=2"))
	assert.Equal(t, http.StatusCreated, form("amount=1"))
	assert.Equal(t, 1, s.rows())
}

// overtaken lets another request come right after a request has looked for its receipt.
type overtaken struct {
	*sqlite.Journal
	by func()
}

func (j *overtaken) LookReceipt(ctx context.Context, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
	looked, err := j.Journal.LookReceipt(ctx, ev)
	if by := j.by; by != nil {
		j.by = nil
		by()
	}
	return looked, err
}

// A handler that does not ask for the transaction runs once in a process, although a request may look for its receipt just
// before another one records it. So does work of Once.
func TestRequestThatIsOvertakenRunsOnce(t *testing.T) {
	t.Parallel()
	runs := 0
	open := func() (*overtaken, *server.Server) {
		j := &overtaken{Journal: open(t, nil).journal}
		s, err := server.New(t.Context(), server.Options{
			Journal: j, Secrets: [][]byte{make([]byte, 16)}, Logger: slog.New(slog.DiscardHandler),
			Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
		})
		require.NoError(t, err)
		runs = 0
		return j, s
	}
	j, s := open()
	h := s.Atomic("mails.send", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }), server.Endpoint{})
	j.by = func() { ask(h, "POST", "/", "1", keyed(key)) }
	assert.Equal(t, http.StatusOK, ask(h, "POST", "/", "1", keyed(key)).Code)
	assert.Equal(t, 1, runs)
	assert.Zero(t, s.Stats())

	j, s = open()
	once := func() (int, error) {
		return server.Once(t.Context(), s, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "job", Key: "job-1"}, nil, func(context.Context) (int, error) {
			runs++
			return runs, nil
		})
	}
	j.by = func() { _, _ = once() }
	result, err := once()
	require.NoError(t, err)
	assert.Equal(t, 1, result)
	assert.Equal(t, 1, runs)
	assert.Zero(t, s.Stats())
}

// Names of tenants and callers are compared by their bytes. Bytes that are no text, and spaces, tell them apart.
func TestNamesAreComparedByTheirBytes(t *testing.T) {
	t.Parallel()
	var caller server.Caller
	s := open(t, func(o *server.Options) {
		o.Caller = func(*http.Request) (server.Caller, error) { return caller, nil }
	})
	h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	tenants := []string{"acme", "Acme", "acme ", " acme", "acme\x00", "acme\xff", "acme\xfe", "acme\ufffd", "acme\u00e9", "acmee\u0301", "t acme"}
	for _, replayed := range []string{"", "true"} {
		for _, caller.Tenant = range tenants {
			got := ask(h, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusCreated, got.Code, "%q", caller.Tenant)
			assert.Equal(t, replayed, got.Header().Get("Idempotent-Replayed"), "%q", caller.Tenant)
		}
		assert.Equal(t, len(tenants), s.rows())
	}
	caller = server.Caller{Tenant: "globex", Who: "eve"}
	require.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
	for _, caller.Who = range []string{"", "Eve", "eve ", " eve", "\teve", "eve\x00", "eve\xff"} {
		assert.Equal(t, http.StatusUnprocessableEntity, ask(h, "POST", "/", "1", keyed(key)).Code, "%q", caller.Who)
	}
}

// The error of a function of the application's may hold a credential, and is logged without it.
func TestErrorsAreLoggedWithoutCredentials(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	failure := errors.New("Get https://auth.example/introspect?token=sk_live_0123456789abcdef: no route")
	s := open(t, nil)
	srv := s.another(func(o *server.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Caller = func(r *http.Request) (server.Caller, error) {
			if r.Header.Get("X-Tenant") == "" {
				return server.Caller{}, failure
			}
			return server.Caller{Tenant: "acme"}, nil
		}
		o.Begin = func(context.Context) (journal.Tx, error) { return nil, failure }
	})
	h := srv.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	assert.Equal(t, http.StatusInternalServerError, ask(h, "POST", "/", "1", keyed(key), with("X-Tenant", "")).Code)
	assert.Equal(t, http.StatusServiceUnavailable, ask(h, "POST", "/", "1", keyed(key)).Code)
	assert.Equal(t, 2, strings.Count(log.String(), "auth.example/introspect"))
	assert.NotContains(t, log.String(), "sk_live")
}
