package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/server"
)

// wire asks handlers over a connection.
type wire struct {
	*shop
	http2   bool
	servers map[http.Handler]*httptest.Server
}

// answered is an answer as it came.
type answered struct {
	Code   int
	Header http.Header
	Body   string
}

func (w *wire) serverOf(h http.Handler) *httptest.Server {
	if w.servers[h] == nil {
		s := httptest.NewUnstartedServer(h)
		if s.EnableHTTP2 = w.http2; w.http2 {
			s.StartTLS()
		} else {
			s.Start()
		}
		w.t.Cleanup(s.Close)
		w.servers[h] = s
	}
	return w.servers[h]
}

func (w *wire) ask(h http.Handler, method, target, body string, how ...asked) answered {
	w.t.Helper()
	s := w.serverOf(h)
	r, err := http.NewRequestWithContext(w.t.Context(), method, s.URL+target, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("Content-Type", "application/json")
	for _, f := range how {
		f(r)
	}
	got, err := s.Client().Do(r)
	require.NoError(w.t, err)
	defer got.Body.Close()
	require.Equal(w.t, w.http2, got.ProtoMajor == 2)
	said, err := io.ReadAll(got.Body)
	require.NoError(w.t, err)
	return answered{got.StatusCode, got.Header, string(said)}
}

// isProblem checks a refusal of the flavour IETF.
func (w *wire) isProblem(got answered, status int, name string) {
	w.t.Helper()
	assert.Equal(w.t, status, got.Code)
	assert.Equal(w.t, "application/problem+json", got.Header.Get("Content-Type"))
	assert.Equal(w.t, "no-store", got.Header.Get("Cache-Control"))
	assert.Equal(w.t, `<https://api.example.com/keys>; rel="describedby"`, got.Header.Get("Link"))
	assert.Contains(w.t, got.Body, `"type":"https://api.example.com/keys#`+name+`"`)
	assert.NotContains(w.t, got.Body, "paid")
	what := server.Refused
	if status >= 500 {
		what = server.Failed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Contains(w.t, w.problems, server.Outcome{Kind: what, Status: status, Problem: name})
}

// isReplayed checks that the answer is the recorded one of pay.
func (w *wire) isReplayed(got answered) {
	w.t.Helper()
	assert.Equal(w.t, http.StatusCreated, got.Code)
	assert.Equal(w.t, `{"paid":true}`, got.Body)
	assert.Equal(w.t, "true", got.Header.Get("Idempotent-Replayed"))
	assert.NotEmpty(w.t, got.Header.Get("Idempotency-Expires"))
}

func (w *wire) receipts() (n int) {
	w.t.Helper()
	for _, err := range w.journal.ListReceipts(w.t.Context(), journal.ReceiptFilter{}) {
		require.NoError(w.t, err)
		n++
	}
	return n
}

func (w *wire) pays(e server.Endpoint) http.Handler {
	return w.server.Atomic("payments.create", http.HandlerFunc(pay), e)
}

const key = "key-0001"

// book writes to the ledger without an answer.
func book(r *http.Request) {
	if tx, err := server.Tx(r.Context()); err == nil {
		_, _ = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
	}
}

// Every situation of a request has its answer, and leaves the key as the documentation says.
func TestEndpointRules(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		run  func(t *testing.T, w *wire)
	}{
		{"a method without an effect is the handler's alone", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.get", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := server.Tx(r.Context())
				assert.ErrorIs(t, err, server.ErrNoTransaction)
			}), server.Endpoint{})
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
				assert.Equal(t, 200, w.ask(h, method, "/payments", "").Code, method)
				assert.Equal(t, 200, w.ask(h, method, "/payments", "", keyed(key)).Code, method)
			}
			assert.Zero(t, w.receipts())
		}},
		{"a PUT or DELETE without a key has a transaction and no receipt", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			for _, method := range []string{"PUT", "DELETE"} {
				got := w.ask(h, method, "/payments", "1")
				assert.Equal(t, http.StatusCreated, got.Code)
				assert.Empty(t, got.Header.Get("Idempotency-Expires"))
			}
			assert.Equal(t, 2, w.rows())
			assert.Zero(t, w.receipts())
		}},
		{"a PUT or DELETE with a key takes effect once", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			for i, method := range []string{"PUT", "DELETE"} {
				assert.Equal(t, http.StatusCreated, w.ask(h, method, "/payments", "1", keyed(key+method)).Code)
				w.isReplayed(w.ask(h, method, "/payments", "1", keyed(key+method)))
				assert.Equal(t, i+1, w.rows())
			}
		}},
		{"a POST or PATCH without a key is refused", func(t *testing.T, w *wire) {
			for _, method := range []string{"POST", "PATCH"} {
				w.isProblem(w.ask(w.another(w.options).Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{}), method, "/payments", "1"), 400, "key-missing")
			}
			assert.Zero(t, w.rows())
		}},
		{"with Optional a POST without a key has a transaction and no receipt", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{Optional: true})
			for range 2 {
				assert.Equal(t, http.StatusCreated, w.ask(h, "POST", "/payments", "1").Code)
			}
			assert.Equal(t, 2, w.rows())
			assert.Zero(t, w.receipts())
		}},
		{"a key that is none is refused", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			for name, how := range map[string]asked{
				"two lines":        func(r *http.Request) { r.Header["Idempotency-Key"] = []string{key, key} },
				"a comma":          keyed(key + ",b"),
				"a semicolon":      keyed(key + ";b"),
				"half a quote":     keyed(`"` + key),
				"a short one":      keyed("key"),
				"a long one":       keyed(strings.Repeat("k", 256)),
				"a space":          keyed("key 0001"),
				"not ASCII":        keyed("key-ü-0001"),
				"an empty string":  keyed(`""`),
				"an escaped quote": keyed(`"key-0001\"`),
			} {
				t.Log(name)
				w.isProblem(w.ask(h, "POST", "/payments", "1", how), 400, "key-malformed")
			}
			assert.Zero(t, w.rows())
		}},
		{"a key is the same one with quotes and without", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			assert.Equal(t, http.StatusCreated, w.ask(h, "POST", "/payments", "1", keyed(key)).Code)
			w.isReplayed(w.ask(h, "POST", "/payments", "1", keyed(`"`+key+`"`)))
		}},
		{"a caller who is not known learns nothing", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			for _, tenant := range []string{"?", "", strings.Repeat("t", 513)} {
				got := w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Tenant", tenant))
				w.isProblem(got, 500, "internal")
				assert.NotContains(t, got.Body, "detail")
			}
			assert.Zero(t, w.rows())
		}},
		{"a body that is too large leaves the key untouched", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{MaxRequest: 10})
			w.isProblem(w.ask(h, "POST", "/payments", "12345678901", keyed(key)), 413, "request-too-large")
			w.isProblem(w.ask(h, "POST", "/payments", "12345678901", keyed(key), func(r *http.Request) { r.ContentLength = -1 }), 413, "request-too-large")
			assert.Equal(t, http.StatusCreated, w.ask(h, "POST", "/payments", "1", keyed(key)).Code)
		}},
		{"a body that breaks off leaves the key untouched", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			broken := httptest.NewRequest("POST", "/payments", io.MultiReader(strings.NewReader("1"), errReader{}))
			broken.Header.Set("Idempotency-Key", key)
			broken.Header.Set("X-Tenant", "acme")
			got := httptest.NewRecorder()
			h.ServeHTTP(got, broken)
			assert.Equal(t, 400, got.Code)
			assert.Equal(t, http.StatusCreated, w.ask(h, "POST", "/payments", "1", keyed(key)).Code)
		}},
		{"a repeated request may be refused its answer", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{MayReplay: func(r *http.Request, receipt journal.Receipt) error {
				assert.Equal(t, "payments.create", receipt.Place)
				if r.Header.Get("X-Right") == "" {
					return errors.New("no more")
				}
				return nil
			}})
			assert.Equal(t, http.StatusCreated, w.ask(h, "POST", "/payments", "1", keyed(key)).Code)
			w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(key)), 403, "replay-forbidden")
			w.isReplayed(w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Right", "yes")))
		}},
		{"another request under the key learns nothing", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			other := w.server.Atomic("refunds.create", http.HandlerFunc(pay), server.Endpoint{})
			ada := with("X-Who", "ada")
			require.Equal(t, http.StatusCreated, w.ask(h, "POST", "/payments", "1", keyed(key), ada).Code)
			for name, got := range map[string]answered{
				"body":     w.ask(h, "POST", "/payments", "2", keyed(key), ada),
				"method":   w.ask(h, "PATCH", "/payments", "1", keyed(key), ada),
				"path":     w.ask(h, "POST", "/payments/2", "1", keyed(key), ada),
				"query":    w.ask(h, "POST", "/payments?a=1", "1", keyed(key), ada),
				"endpoint": w.ask(other, "POST", "/payments", "1", keyed(key), ada),
				"who":      w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Who", "eve")),
				"nobody":   w.ask(h, "POST", "/payments", "1", keyed(key)),
			} {
				w.isProblem(got, 422, "key-reused")
				for _, header := range []string{"Location", "Idempotent-Replayed", "Idempotency-Expires"} {
					assert.Empty(t, got.Header.Get(header), name)
				}
			}
			w.isReplayed(w.ask(h, "POST", "/payments", "1", keyed(key), ada))
		}},
		{"while a request is served, others wait or come again", func(t *testing.T, w *wire) {
			begun, goOn := make(chan struct{}), make(chan struct{})
			slow := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				close(begun)
				<-goOn
				pay(rw, r)
			})
			h := w.server.Atomic("payments.create", slow, server.Endpoint{})
			w.serverOf(h)
			first := make(chan answered)
			go func() { first <- w.ask(h, "POST", "/payments", "1", keyed(key)) }()
			<-begun
			got := w.ask(h, "POST", "/payments", "1", keyed(key))
			w.isProblem(got, 409, "in-flight")
			assert.Equal(t, "1", got.Header.Get("Retry-After"))
			w.isProblem(w.ask(h, "POST", "/payments", "2", keyed(key)), 422, "key-reused")
			close(goOn)
			assert.Equal(t, http.StatusCreated, (<-first).Code)
			w.isReplayed(w.ask(h, "POST", "/payments", "1", keyed(key)))
		}},
		{"with Wait it gets the answer", func(t *testing.T, w *wire) {
			begun, goOn := make(chan struct{}, 1), make(chan struct{})
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				begun <- struct{}{}
				<-goOn
				pay(rw, r)
			}), server.Endpoint{Wait: time.Minute})
			w.serverOf(h)
			answers := make(chan answered)
			for range 2 {
				go func() { answers <- w.ask(h, "POST", "/payments", "1", keyed(key)) }()
			}
			<-begun
			close(goOn)
			assert.Equal(t, http.StatusCreated, (<-answers).Code)
			assert.Equal(t, http.StatusCreated, (<-answers).Code)
			assert.Equal(t, 1, w.rows())
		}},
		{"a handler that commits stops its key", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				book(r)
				tx, _ := server.Tx(r.Context())
				assert.NoError(t, tx.Commit())
			}), server.Endpoint{})
			for range 2 {
				got := w.ask(h, "POST", "/payments", "1", keyed(key))
				w.isProblem(got, 409, "outcome-unknown")
				assert.Equal(t, "60", got.Header.Get("Retry-After"))
			}
			assert.Equal(t, 1, w.rows())
		}},
		{"a success without the transaction is recorded, and noticed", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), server.Endpoint{})
			assert.Equal(t, 200, w.ask(h, "POST", "/payments", "1", keyed(key)).Code)
			assert.Equal(t, "true", w.ask(h, "POST", "/payments", "1", keyed(key)).Header.Get("Idempotent-Replayed"))
			assert.Equal(t, []server.Kind{server.Untouched, server.Replayed}, w.outcomes)
		}},
		{"a 4xx is recorded if the handler has asked for the transaction", func(t *testing.T, w *wire) {
			for touches, recorded := range map[bool]string{true: "", false: "false"} {
				h := w.server.Atomic(fmt.Sprint("declines.", touches), http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if touches {
						book(r)
					}
					rw.WriteHeader(http.StatusPaymentRequired)
				}), server.Endpoint{})
				k := keyed(fmt.Sprint(key, touches))
				assert.Equal(t, recorded, w.ask(h, "POST", "/payments", "1", k).Header.Get("Idempotency-Recorded"))
				again := w.ask(h, "POST", "/payments", "1", k)
				assert.Equal(t, http.StatusPaymentRequired, again.Code)
				assert.Equal(t, touches, again.Header.Get("Idempotent-Replayed") == "true")
			}
			assert.Equal(t, 1, w.rows())
		}},
		{"a 401, 408, 425, 429 or 5xx leaves nothing", func(t *testing.T, w *wire) {
			status := 0
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				book(r)
				rw.Header().Set("Retry-After", "7")
				rw.WriteHeader(status)
			}), server.Endpoint{})
			for _, status = range []int{401, 408, 425, 429, 500, 502, 503} {
				got := w.ask(h, "POST", "/payments", "1", keyed(key))
				assert.Equal(t, status, got.Code)
				assert.Equal(t, "7", got.Header.Get("Retry-After"), "the handler's headers are given")
				assert.Zero(t, w.rows())
			}
			status = 201
			assert.Equal(t, 201, w.ask(h, "POST", "/payments", "1", keyed(key)).Code)
			assert.Equal(t, 1, w.rows())
		}},
		{"a mark of another service's answer is not passed on", func(t *testing.T, w *wire) {
			status := 0
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				for name, value := range map[string]string{"Idempotent-Replayed": "true", "Idempotency-Expires": "never", "Idempotency-Recorded": "false"} {
					rw.Header().Set(name, value)
				}
				rw.WriteHeader(status)
			}), server.Endpoint{})
			for _, status = range []int{402, 502, 200} {
				got := w.ask(h, "POST", "/payments", "1", keyed(key)).Header
				assert.Empty(t, got.Get("Idempotent-Replayed"))
				assert.NotEqual(t, "never", got.Get("Idempotency-Expires"))
				assert.Equal(t, status == 200, got.Get("Idempotency-Expires") != "")
				assert.Equal(t, status == 402, got.Get("Idempotency-Recorded") == "false")
			}
		}},
		{"Release leaves nothing", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				pay(rw, r)
				server.Release(r.Context())
			}), server.Endpoint{})
			got := w.ask(h, "POST", "/payments", "1", keyed(key))
			assert.Equal(t, 201, got.Code)
			assert.Equal(t, "false", got.Header.Get("Idempotency-Recorded"))
			assert.Zero(t, w.rows()+w.receipts())
		}},
		{"an answer that can't be given again is not given", func(t *testing.T, w *wire) {
			for name, answer := range map[string]func(http.ResponseWriter){
				"too.large":         func(rw http.ResponseWriter) { _, _ = rw.Write(make([]byte, 100)) },
				"trailer":           func(rw http.ResponseWriter) { rw.Header().Set("Trailer", "Sum") },
				"trailer.by.prefix": func(rw http.ResponseWriter) { rw.WriteHeader(200); rw.Header().Set(http.TrailerPrefix+"Sum", "1") },
				"compressed":        func(rw http.ResponseWriter) { rw.Header().Set("Content-Encoding", "gzip") },
				"upgrade":           func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusSwitchingProtocols) },
			} {
				h := w.server.Atomic(name, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					book(r)
					answer(rw)
				}), server.Endpoint{MaxAnswer: 50})
				w.isProblem(w.ask(h, "POST", "/payments", "1", keyed(key)), 500, "answer-not-recordable")
			}
			assert.Zero(t, w.rows()+w.receipts())
		}},
		{"nothing of an answer leaves before it is recorded", func(t *testing.T, w *wire) {
			const early = 1000 // bytes, in more than one packet of HTTP
			holds := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(rw)
				assert.ErrorIs(t, control.Flush(), http.ErrNotSupported)
				_, _, err := control.Hijack()
				assert.ErrorIs(t, err, http.ErrNotSupported)
				assert.ErrorIs(t, control.SetReadDeadline(time.Time{}), http.ErrNotSupported)
				assert.ErrorIs(t, control.SetWriteDeadline(time.Time{}), http.ErrNotSupported)
				_, pushes := rw.(http.Pusher)
				assert.False(t, pushes)
				rw.WriteHeader(http.StatusEarlyHints)
				rw.WriteHeader(http.StatusCreated)
				_, err = rw.Write(make([]byte, early<<10))
				assert.NoError(t, err)
			})
			client, err := onceward.New(onceward.Config{Journal: w.journal, Providers: []providers.Provider{providers.Stripe()}, Secret: make([]byte, 16)})
			require.NoError(t, err)
			both := w.another(func(o *server.Options) { w.options(o); o.Client = client })
			for name, h := range map[string]http.Handler{"atomic": both.Atomic("atomic", holds, server.Endpoint{}), "repeatable": both.Repeatable("repeatable", holds, server.Endpoint{})} {
				for _, replayed := range []string{"", "true"} {
					got := w.ask(h, "POST", "/payments", "1", keyed("key-"+name))
					assert.Equal(t, 201, got.Code)
					assert.Len(t, got.Body, early<<10)
					assert.Equal(t, replayed, got.Header.Get("Idempotent-Replayed"))
				}
			}
			require.NoError(t, client.Shutdown(t.Context()))
		}},
		{"a handler that is too slow leaves nothing", func(t *testing.T, w *wire) {
			slow := true
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if book(r); slow {
					<-r.Context().Done()
				}
			}), server.Endpoint{Limit: 3 * time.Second}) // if it ends before the handler begins, the answer is another one
			got := w.ask(h, "POST", "/payments", "1", keyed(key))
			w.isProblem(got, 503, "too-slow")
			assert.Equal(t, "1", got.Header.Get("Retry-After"))
			assert.Zero(t, w.rows()+w.receipts())
		}},
		{"a statement that has SQLite roll back leaves nothing", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				tx, err := server.Tx(r.Context())
				if assert.NoError(t, err) {
					_, _ = tx.Exec("INSERT INTO ledger (payee) VALUES ('ann')")
					_, _ = tx.Exec("INSERT OR ROLLBACK INTO ledger (payee) VALUES ('ann')")
					_, _ = tx.Exec("INSERT INTO ledger (payee) VALUES ('eve')")
				}
			}), server.Endpoint{})
			got := w.ask(h, "POST", "/payments", "1", keyed(key))
			w.isProblem(got, 503, "not-done")
			assert.Equal(t, "1", got.Header.Get("Retry-After"))
			got = w.ask(h, "PUT", "/payments", "1")
			w.isProblem(got, 503, "in-doubt")
			assert.Empty(t, got.Header.Get("Retry-After"), "the next one would be another request")
			assert.Zero(t, w.rows()+w.receipts())
		}},
		{"a store that fails has no handler called", func(t *testing.T, w *wire) {
			h := w.server.Atomic("payments.create", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("called") }), server.Endpoint{})
			require.NoError(t, w.journal.Close())
			got := w.ask(h, "POST", "/payments", "1", keyed(key))
			w.isProblem(got, 503, "store")
			assert.Equal(t, "5", got.Header.Get("Retry-After"))
		}},
		{"a receipt of a newer release is not taken for another request", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			tx, err := w.journal.BeginTx(t.Context())
			require.NoError(t, err)
			_, err = w.journal.ReceiveTx(t.Context(), tx, machine.ReceiptEvent{
				Kind: machine.ReceiptRecord, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: key}, At: time.Now(), Place: "payments.create",
				Fingerprint: "v99 new", Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: time.Hour, Answer: &journal.Answer{Status: 200},
			})
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			got := w.ask(h, "POST", "/payments", "1", keyed(key))
			w.isProblem(got, 503, "newer-release")
			assert.Equal(t, "5", got.Header.Get("Retry-After"))
		}},
		{"a tenant's requests at once are bounded, and not another's", func(t *testing.T, w *wire) {
			begun, goOn := make(chan struct{}), make(chan struct{})
			h := w.another(func(o *server.Options) { w.options(o); o.MaxInFlight = 1 }).Atomic("payments.create", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Tenant") == "acme" {
					close(begun)
					<-goOn
				}
			}), server.Endpoint{})
			w.serverOf(h)
			first := make(chan answered)
			go func() { first <- w.ask(h, "POST", "/payments", "1", keyed(key)) }()
			<-begun
			got := w.ask(h, "POST", "/payments", "1", keyed(key+"b"))
			w.isProblem(got, 429, "too-many")
			assert.Equal(t, "1", got.Header.Get("Retry-After"))
			assert.Equal(t, 200, w.ask(h, "POST", "/payments", "1", keyed(key), with("X-Tenant", "globex")).Code)
			close(goOn)
			assert.Equal(t, 200, (<-first).Code)
		}},
		{"headers of the middleware around stay", func(t *testing.T, w *wire) {
			h := w.pays(server.Endpoint{})
			around := http.NewServeMux()
			around.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
				h.ServeHTTP(rw, r)
			})
			for i, status := range []int{400, 201, 201} {
				how := []asked{with("Origin", fmt.Sprint("https://", i)), keyed(key)}
				got := w.ask(around, "POST", "/payments", "1", how[:min(i+1, 2)]...)
				assert.Equal(t, status, got.Code)
				assert.Equal(t, fmt.Sprint("https://", i), got.Header.Get("Access-Control-Allow-Origin"))
			}
		}},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/HTTP2=%v", row.name, http2), func(t *testing.T) {
				t.Parallel()
				w := &wire{http2: http2, servers: map[http.Handler]*httptest.Server{}}
				w.shop = open(t, w.options)
				row.run(t, w)
			})
		}
	}
}

func (w *wire) options(o *server.Options) { o.Flavour = server.IETF("https://api.example.com/keys") }

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, net.ErrClosed }

// A key's answer is given until it expires, the key is then refused for a while, and new after that.
func TestKeyLifecycle(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reaps     bool
		refuseFor time.Duration
	}{"reaped": {true, 24 * time.Hour}, "not reaped": {false, 24 * time.Hour}, "not refused": {false, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := openIn(t, path, func(o *server.Options) { o.Flavour = server.IETF("https://api.example.com/keys") })
				h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{Retain: 24 * time.Hour, RefuseFor: row.refuseFor})
				n := 0
				later := func(after time.Duration) { // with some traffic, by which the journal sees the time
					for end := time.Now().Add(after); time.Now().Before(end); {
						<-time.After(time.Hour)
						n++
						require.Equal(t, 201, ask(h, "POST", "/payments", "1", keyed(fmt.Sprint("traffic-", n))).Code)
						<-time.After(time.Minute)
						synctest.Wait()
					}
				}
				if row.reaps {
					go func() { _ = s.server.Run(t.Context()) }()
				}
				expires := time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat)
				first := ask(h, "POST", "/payments", "1", keyed(key))
				require.Equal(t, 201, first.Code)
				assert.Equal(t, expires, first.Header().Get("Idempotency-Expires"))
				later(23 * time.Hour)
				again := ask(h, "POST", "/payments", "1", keyed(key)).Header()
				assert.Equal(t, "true", again.Get("Idempotent-Replayed"))
				assert.Equal(t, expires, again.Get("Idempotency-Expires"))
				later(2 * time.Hour)
				if row.refuseFor > 0 {
					for range 2 {
						got := ask(h, "POST", "/payments", "1", keyed(key))
						(&wire{shop: s}).isProblem(answered{got.Code, got.Header(), got.Body.String()}, 410, "key-expired")
					}
					later(24 * time.Hour)
				}
				before := s.rows()
				assert.Equal(t, 201, ask(h, "POST", "/payments", "2", keyed(key)).Code)
				assert.Equal(t, before+1, s.rows())
				if last := s.outcomes[len(s.outcomes)-1]; row.reaps {
					assert.Equal(t, server.Created, last)
				} else {
					assert.Equal(t, server.Again, last)
				}
			})
		})
	}
}

// Refusals are worded as Stripe's, for clients that know these.
func TestStripeFlavour(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *server.Options) { o.Flavour = server.Stripe() })
	h := s.server.Atomic("charges", http.HandlerFunc(pay), server.Endpoint{})
	commits := s.server.Atomic("commits", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		tx, _ := server.Tx(r.Context())
		_ = tx.Commit()
	}), server.Endpoint{})
	require.Equal(t, 201, ask(h, "POST", "/v1/charges", "1", keyed(key)).Code)
	for name, row := range map[string]struct {
		got    *httptest.ResponseRecorder
		status int
		says   string
	}{
		"no key":      {ask(h, "POST", "/v1/charges", "1"), 400, `"type":"invalid_request_error"`},
		"another use": {ask(h, "POST", "/v1/charges", "2", keyed(key)), 400, `"type":"idempotency_error"`},
		"unknown":     {ask(commits, "POST", "/v1/charges", "2", keyed(key+"b")), 409, `"type":"api_error"`},
	} {
		assert.Equal(t, row.status, row.got.Code, name)
		assert.Contains(t, row.got.Body.String(), row.says, name)
		assert.Equal(t, "application/json", row.got.Header().Get("Content-Type"), name)
		assert.Equal(t, name == "unknown", row.got.Header().Get("Stripe-Should-Retry") == "false", name)
	}
	assert.Equal(t, "true", ask(h, "POST", "/v1/charges", "1", keyed(key)).Header().Get("Idempotent-Replayed"))
}
