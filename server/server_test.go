package server_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/server"
)

// shop is a service with a ledger in the journal's file.
type shop struct {
	t       *testing.T
	path    string
	journal *sqlite.Journal
	server  *server.Server

	mu       sync.Mutex
	outcomes []server.Kind
	problems []server.Outcome // without their endpoints and tenants
}

func open(t *testing.T, adjust func(*server.Options)) *shop {
	t.Helper()
	return openIn(t, t.TempDir(), adjust)
}

func openIn(t *testing.T, folder string, adjust func(*server.Options)) *shop {
	t.Helper()
	path := filepath.Join(folder, "shop.db")
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	tx, err := j.BeginSQL(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE ledger (id INTEGER PRIMARY KEY, payee TEXT UNIQUE, amount INTEGER)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	s := &shop{t: t, path: path, journal: j}
	s.server = s.another(adjust)
	return s
}

// another is another process of the service.
func (s *shop) another(adjust func(*server.Options)) *server.Server {
	s.t.Helper()
	o := server.Options{
		Journal: s.journal, Secrets: [][]byte{[]byte("0123456789abcdef")}, Logger: slog.New(slog.DiscardHandler),
		Caller: func(r *http.Request) (server.Caller, error) {
			if r.Header.Get("X-Tenant") == "?" {
				return server.Caller{}, errors.New("who is that?")
			}
			return server.Caller{Tenant: r.Header.Get("X-Tenant"), Who: r.Header.Get("X-Who")}, nil
		},
		Observe: func(_ context.Context, o server.Outcome) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.outcomes = append(s.outcomes, o.Kind)
			if o.Problem != "" {
				s.problems = append(s.problems, server.Outcome{Kind: o.Kind, Status: o.Status, Problem: o.Problem})
			}
		},
	}
	if adjust != nil {
		adjust(&o)
	}
	srv, err := server.New(s.t.Context(), o)
	require.NoError(s.t, err)
	return srv
}

// rows counts the ledger.
func (s *shop) rows() (n int) {
	s.t.Helper()
	tx, err := s.journal.BeginSQL(s.t.Context())
	require.NoError(s.t, err)
	defer func() { _ = tx.Rollback() }()
	require.NoError(s.t, tx.QueryRow("SELECT count(*) FROM ledger").Scan(&n))
	return n
}

// pay is a handler that books the amount in its body.
func pay(w http.ResponseWriter, r *http.Request) {
	tx, err := server.Tx(r.Context())
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	if _, err := tx.ExecContext(r.Context(), "INSERT INTO ledger (amount) VALUES (?)", len(body)); err != nil {
		http.Error(w, "booking failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Location", "/payments/1")
	w.Header().Set("X-Request-Id", "of this exchange")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"paid":true}`)
}

type asked func(*http.Request)

func with(header, value string) asked { return func(r *http.Request) { r.Header.Set(header, value) } }

func keyed(key string) asked { return with("Idempotency-Key", key) }

func ask(h http.Handler, method, target, body string, how ...asked) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("Content-Type", "application/json")
	for _, f := range how {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A request takes effect once. A repeated one gets the first answer, without the headers that belong to the first
// exchange alone.
func TestAtomic(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	first := ask(h, "POST", "/payments", `{"amount":1}`, keyed("key-0001"))
	assert.Equal(t, http.StatusCreated, first.Code)
	assert.Equal(t, "of this exchange", first.Header().Get("X-Request-Id"))
	assert.Empty(t, first.Header().Get("Idempotent-Replayed"))
	assert.NotEmpty(t, first.Header().Get("Idempotency-Expires"))
	for _, how := range []asked{keyed("key-0001"), keyed(`"key-0001"`)} {
		again := ask(h, "POST", "/payments", `{ "amount": 1.0 }`, how)
		assert.Equal(t, http.StatusCreated, again.Code)
		assert.Equal(t, `{"paid":true}`, again.Body.String())
		assert.Equal(t, "/payments/1", again.Header().Get("Location"))
		assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
		assert.Equal(t, first.Header().Get("Idempotency-Expires"), again.Header().Get("Idempotency-Expires"))
		assert.Empty(t, again.Header().Get("X-Request-Id"))
	}
	assert.Equal(t, 1, s.rows())
	assert.Equal(t, []server.Kind{server.Created, server.Replayed, server.Replayed}, s.outcomes)
}

// A request that differs from the first under its key is refused, and learns nothing of it.
func TestKeyThatIsReused(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	payments := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	refunds := s.server.Atomic("refunds.create", http.HandlerFunc(pay), server.Endpoint{})
	require.Equal(t, http.StatusCreated, ask(payments, "POST", "/payments", `{"amount":1}`, keyed("key-0001")).Code)
	for name, again := range map[string]func() *httptest.ResponseRecorder{
		"another body": func() *httptest.ResponseRecorder {
			return ask(payments, "POST", "/payments", `{"amount":2}`, keyed("key-0001"))
		},
		"another method": func() *httptest.ResponseRecorder {
			return ask(payments, "PATCH", "/payments", `{"amount":1}`, keyed("key-0001"))
		},
		"another path": func() *httptest.ResponseRecorder {
			return ask(payments, "POST", "/payments/2", `{"amount":1}`, keyed("key-0001"))
		},
		"another query": func() *httptest.ResponseRecorder {
			return ask(payments, "POST", "/payments?a=1", `{"amount":1}`, keyed("key-0001"))
		},
		"another caller": func() *httptest.ResponseRecorder {
			ask(payments, "POST", "/payments", `{"amount":1}`, keyed("key-of-ada"), with("X-Who", "ada"))
			return ask(payments, "POST", "/payments", `{"amount":1}`, keyed("key-of-ada"), with("X-Who", "eve"))
		},
		"another endpoint": func() *httptest.ResponseRecorder {
			return ask(refunds, "POST", "/payments", `{"amount":1}`, keyed("key-0001"))
		},
	} {
		got := again()
		assert.Equal(t, http.StatusUnprocessableEntity, got.Code, name)
		assert.NotContains(t, got.Body.String(), "paid", name)
		assert.Empty(t, got.Header().Get("Location"), name)
	}
	assert.Equal(t, 2, s.rows())
	assert.Equal(t, http.StatusCreated, ask(payments, "POST", "/payments", `{"amount":2}`, keyed("key-0001"), with("X-Tenant", "globex")).Code, "another tenant's key is its own")
	assert.Equal(t, 3, s.rows())
}

// A renamed endpoint finds the answers under its former name. A process of the earlier deploy finds the answers of
// the renamed one.
func TestEndpointThatIsRenamed(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	before := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	require.Equal(t, http.StatusCreated, ask(before, "POST", "/payments", "1", keyed("key-0001")).Code)
	after := s.another(nil).Atomic("charges.create", http.HandlerFunc(pay), server.Endpoint{Formerly: []string{"payments.create"}})
	assert.Equal(t, "true", ask(after, "POST", "/payments", "1", keyed("key-0001")).Header().Get("Idempotent-Replayed"))
	assert.Equal(t, 1, s.rows())

	require.Equal(t, http.StatusCreated, ask(after, "POST", "/payments", "1", keyed("key-0002")).Code)
	again := ask(before, "POST", "/payments", "1", keyed("key-0002"))
	assert.Equal(t, http.StatusCreated, again.Code, "a process of the earlier deploy still serves")
	assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	assert.Equal(t, 2, s.rows())
}

// An operator finds the receipts of a renamed endpoint by the name in its metrics: there is one name for both.
func TestRenamedEndpointHasOneName(t *testing.T) {
	t.Parallel()
	var outcomes []server.Outcome
	s := open(t, func(o *server.Options) {
		o.Observe = func(_ context.Context, o server.Outcome) { outcomes = append(outcomes, o) }
	})
	h := s.server.Atomic("fees.create", http.HandlerFunc(pay), server.Endpoint{Formerly: []string{"charges.create", "payments.create"}})
	for _, how := range [][]asked{{keyed("key-0001")}, {keyed("key-0001")}, {keyed("key")}} {
		ask(h, "POST", "/payments", "1", how...)
	}
	require.Len(t, outcomes, 3)
	for _, o := range outcomes {
		assert.Equal(t, "payments.create", o.Endpoint, o.Kind)
	}
	n := 0
	for r, err := range s.journal.ListReceipts(t.Context(), journal.ReceiptFilter{Place: outcomes[0].Endpoint}) {
		require.NoError(t, err)
		assert.Equal(t, outcomes[0].Endpoint, r.Place)
		n++
	}
	assert.Equal(t, 1, n)
}

// Work of Once that is renamed finds the results under its former name, and its calls are the same ones. A process of
// the earlier deploy finds the results of the renamed work.
func TestOnceThatIsRenamed(t *testing.T) {
	t.Parallel()
	for _, perEndpoint := range []bool{false, true} {
		c := openCaller(t, func(o *server.Options) { o.KeysPerEndpoint = perEndpoint })
		runs := 0
		do := func(key string, fails error, name string, formerly ...string) error {
			_, err := server.Once(t.Context(), c.server, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: name, Formerly: formerly, Key: key}, nil, func(ctx context.Context) (int, error) {
				runs++
				status, err := c.post(ctx, "/charges")
				return status, errors.Join(err, fails)
			})
			return err
		}
		failure := errors.New("not today")
		require.ErrorIs(t, do("job-1", failure, "before"), failure)
		require.NoError(t, do("job-1", nil, "after", "before"))
		require.NoError(t, do("job-1", nil, "after", "before"))
		require.NoError(t, do("job-1", nil, "before"))
		assert.Equal(t, 2, runs)
		assert.Len(t, c.provider.Effects(), 1, "its call was made under the former name")
		if !perEndpoint {
			var refused *server.RefusedError
			require.ErrorAs(t, do("job-1", nil, "after"), &refused, "without Formerly it is another request")
			assert.Equal(t, "key-reused", refused.Problem.Name)
		}
	}
}

// waitingWriter writes no status before the other goroutine has an answer.
type waitingWriter struct {
	http.ResponseWriter
	late <-chan error
	err  error
}

func (w *waitingWriter) WriteHeader(status int) {
	w.err = <-w.late
	w.ResponseWriter.WriteHeader(status)
}

// A goroutine that outlives its handler gets no transaction: neither a new one, nor the one that records the answer.
func TestTransactionAfterTheHandler(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	records, late := make(chan struct{}), make(chan error, 1)
	h := s.another(func(o *server.Options) {
		o.Begin = func(ctx context.Context) (journal.Tx, error) {
			close(records)
			return s.journal.BeginTx(ctx)
		}
	}).Atomic("payments.create", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		go func() {
			<-records
			_, err := server.Tx(r.Context())
			late <- err
		}()
	}), server.Endpoint{})
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("1"))
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("Idempotency-Key", "key-0001")
	w := &waitingWriter{ResponseWriter: httptest.NewRecorder(), late: late}
	h.ServeHTTP(w, r)
	require.ErrorIs(t, w.err, server.ErrNoTransaction)
}

// A goroutine that outlives its handler writes nothing by the transaction that it has.
func TestWriteAfterTheHandler(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var kept *sql.Tx
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept, _ = server.Tx(r.Context())
		w.WriteHeader(http.StatusCreated)
		if r.Header.Get("X-Fails") != "" {
			server.Release(r.Context())
		}
	}), server.Endpoint{})
	for i, fails := range []string{"", "yes"} {
		require.Equal(t, http.StatusCreated, ask(h, "POST", "/payments", "1", keyed(fmt.Sprint("key-000", i)), with("X-Fails", fails)).Code)
		_, err := kept.Exec("INSERT INTO ledger (amount) VALUES (1)")
		require.ErrorIs(t, err, sql.ErrTxDone)
	}
	assert.Zero(t, s.rows())
}

// Exactly the headers that the documentation lists are given again, with those of KeepHeaders.
func TestDocumentListsTheKeptHeaders(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "docs", "server.md"))
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?s)Recorded headers are (.*?), and those of`).FindStringSubmatch(string(document))
	require.NotNil(t, listed)
	kept := []string{"X-Kept"}
	for _, name := range strings.FieldsFunc(listed[1], func(r rune) bool { return strings.ContainsRune(", \n", r) }) {
		if name != "and" {
			kept = append(kept, http.CanonicalHeaderKey(name))
		}
	}
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range append([]string{"Vary", "Cache-Control", "Server", "X-Ratelimit-Remaining", "Www-Authenticate", "Access-Control-Allow-Origin", "Allow", "Retry-After"}, kept...) {
			w.Header().Add(name, "1 of "+name)
			w.Header().Add(name, "2 of "+name)
		}
	}), server.Endpoint{KeepHeaders: []string{"x-kept"}})
	require.Equal(t, http.StatusOK, ask(h, "POST", "/payments", "1", keyed("key-0001")).Code)
	again := ask(h, "POST", "/payments", "1", keyed("key-0001")).Header()
	for _, mark := range []string{"Idempotent-Replayed", "Idempotency-Expires"} {
		assert.NotEmpty(t, again.Get(mark))
		again.Del(mark)
	}
	want := http.Header{}
	for _, name := range kept {
		want[name] = []string{"1 of " + name, "2 of " + name}
	}
	assert.Equal(t, want, again)
	for i, name := range []string{
		"Set-Cookie", "WWW-Authenticate", "Access-Control-Allow-Origin", "Date", "Connection", "Keep-Alive", "Proxy-Authenticate", "TE", "Trailer",
		"Transfer-Encoding", "Upgrade", "Content-Encoding", "Content-Length", "Vary", "Idempotent-Replayed", "Idempotency-Expires",
	} {
		assert.Panics(t, func() {
			s.server.Atomic(fmt.Sprint("refused.", i), http.NotFoundHandler(), server.Endpoint{KeepHeaders: []string{name}})
		}, name)
	}
}

// The handler's answer decides whether it is kept, together with the handler's writes.
func TestAnswersThatAreKept(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		status   int
		touches  bool
		releases bool
		kept     bool
	}{
		{"a success", 201, true, false, true},
		{"a redirect", 303, true, false, true},
		{"a success without the transaction", 200, false, false, true},
		{"a decline", 402, true, false, true},
		{"a validation", 422, false, false, false},
		{"a request to log in", 401, true, false, false},
		{"a request to come later", 429, true, false, false},
		{"a failure", 500, true, false, false},
		{"a success that is released", 201, true, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, nil)
			calls := 0
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				if row.touches {
					tx, err := server.Tx(r.Context())
					if !assert.NoError(t, err) {
						return
					}
					_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
					assert.NoError(t, err)
				}
				if row.releases {
					server.Release(r.Context())
				}
				w.WriteHeader(row.status)
			}), server.Endpoint{})
			for range 2 {
				assert.Equal(t, row.status, ask(h, "POST", "/payments", "1", keyed("key-0001")).Code)
			}
			wanted := map[bool]int{true: 1, false: 2}[row.kept]
			assert.Equal(t, wanted, calls)
			if row.touches {
				assert.Equal(t, map[bool]int{true: 1}[row.kept], s.rows())
			}
		})
	}
}

// A request is refused before its handler runs if it has no valid key or no known caller. So is a request whose body
// is too large or cut off. GET, HEAD, OPTIONS, PUT and DELETE need no key, nor does an optional endpoint.
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	calls := 0
	count := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls++ })
	h := s.server.Atomic("payments.create", count, server.Endpoint{MaxRequest: 10})
	for _, row := range []struct {
		name, method, body string
		status             int
		how                []asked
	}{
		{"no key", "POST", "1", 400, nil},
		{"two keys", "POST", "1", 400, []asked{func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"key-0001", "key-0002"} }}},
		{"two keys in a line", "POST", "1", 400, []asked{keyed("key-0001, key-0002")}},
		{"half a quote", "POST", "1", 400, []asked{keyed(`"key-0001`)}},
		{"an empty key", "POST", "1", 400, []asked{keyed("")}},
		{"a short key", "POST", "1", 400, []asked{keyed("key")}},
		{"a long key", "POST", "1", 400, []asked{keyed(strings.Repeat("k", 256))}},
		{"a key with a control character", "POST", "1", 400, []asked{keyed("key-\x01-0001")}},
		{"a large body", "POST", "12345678901", 413, []asked{keyed("key-0001")}},
		{"a large body of unknown length", "POST", "12345678901", 413, []asked{keyed("key-0001"), func(r *http.Request) { r.ContentLength = -1 }}},
		{"a body that is cut off", "POST", "1", 400, []asked{keyed("key-0001"), func(r *http.Request) { r.ContentLength = 2 }}},
		{"no tenant", "POST", "1", 500, []asked{keyed("key-0001"), with("X-Tenant", "")}},
		{"a caller who is not known", "POST", "1", 500, []asked{keyed("key-0001"), with("X-Tenant", "?")}},
	} {
		got := ask(h, row.method, "/payments", row.body, row.how...)
		assert.Equal(t, row.status, got.Code, row.name)
		assert.Equal(t, "application/problem+json", got.Header().Get("Content-Type"), row.name)
		assert.Equal(t, "no-store", got.Header().Get("Cache-Control"), row.name)
		assert.NotContains(t, got.Body.String(), "who is that", row.name)
	}
	assert.Zero(t, calls)
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
		assert.Equal(t, 200, ask(h, method, "/payments", "").Code, method)
	}
	optional := s.server.Atomic("optional", count, server.Endpoint{Optional: true})
	assert.Equal(t, 200, ask(optional, "POST", "/payments", "1").Code)
	assert.Equal(t, 6, calls)
}

// A handler that panics leaves nothing, and the key free.
func TestHandlerThatPanics(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	panics := true
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pay(w, r)
		if panics {
			panic(http.ErrAbortHandler)
		}
	}), server.Endpoint{})
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { ask(h, "POST", "/payments", "1", keyed("key-0001")) })
	assert.Zero(t, s.rows())
	panics = false
	assert.Equal(t, http.StatusCreated, ask(h, "POST", "/payments", "1", keyed("key-0001")).Code)
	assert.Equal(t, 1, s.rows())
}

// If a handler commits the transaction by itself, as an ORM might, the key is stopped. The payment is not made twice.
func TestHandlerThatCommits(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, err := server.Tx(r.Context())
		if assert.NoError(t, err) {
			_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
			assert.NoError(t, err)
			assert.NoError(t, tx.Commit())
		}
		w.WriteHeader(http.StatusCreated)
	}), server.Endpoint{})
	for range 3 {
		got := ask(h, "POST", "/payments", "1", keyed("key-0001"))
		assert.Equal(t, http.StatusConflict, got.Code)
		assert.Contains(t, got.Body.String(), "not known")
	}
	assert.Equal(t, 1, s.rows())
	receipt, err := s.journal.GetReceipt(t.Context(), journal.ReceiptKey{Scope: "t acme", Key: "key-0001"})
	require.NoError(t, err)
	assert.Equal(t, journal.ReceiptReserved, receipt.State)
}

// A key whose outcome is unknown is settled by a person, with an answer or as not done.
func TestResolve(t *testing.T) {
	t.Parallel()
	for name, done := range map[string]bool{"done": true, "not done": false} {
		for _, perEndpoint := range []bool{false, true} {
			s := open(t, func(o *server.Options) { o.KeysPerEndpoint = perEndpoint })
			commits := true
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tx, err := server.Tx(r.Context()); assert.NoError(t, err) && commits {
					assert.NoError(t, tx.Commit())
				}
			}), server.Endpoint{})
			require.Equal(t, http.StatusConflict, ask(h, "POST", "/payments", "1", keyed("key-0001")).Code, name)
			seen := s.unknown()
			found := server.Resolution{By: "ada"}
			if done {
				found.Answer = &journal.Answer{Status: http.StatusCreated, Body: []byte("paid")}
			}
			require.ErrorIs(t, s.server.Resolve(t.Context(), journal.Receipt{ReceiptKey: seen.ReceiptKey}, found), journal.ErrInvalidEvent)
			require.ErrorIs(t, s.server.Resolve(t.Context(), seen, server.Resolution{}), journal.ErrInvalidEvent)
			require.NoError(t, s.server.Resolve(t.Context(), seen, found))
			require.ErrorIs(t, s.server.Resolve(t.Context(), seen, found), journal.ErrInvalidEvent)
			commits = false
			got := ask(h, "POST", "/payments", "1", keyed("key-0001"))
			assert.Equal(t, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[done], got.Code)
			assert.Equal(t, done, got.Header().Get("Idempotent-Replayed") == "true")
		}
	}
}

// unknown returns the one receipt whose outcome is unknown, as an operator sees it.
func (s *shop) unknown() (seen journal.Receipt) {
	s.t.Helper()
	for r, err := range s.journal.ListReceipts(s.t.Context(), journal.ReceiptFilter{States: []journal.ReceiptState{journal.ReceiptReserved}}) {
		require.NoError(s.t, err)
		require.Zero(s.t, seen.Handle, "there is one")
		seen = r
	}
	require.NotZero(s.t, seen.Handle)
	return seen
}

// Two operators look at one receipt, and the first frees its key. The late word of the second says nothing about the next
// request, whose handler commits by itself too.
func TestLateResolutionDoesNotCountForTheNextReservation(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		book(r)
		if tx, err := server.Tx(r.Context()); assert.NoError(t, err) {
			assert.NoError(t, tx.Commit())
		}
	}), server.Endpoint{})
	pays := func() int { return ask(h, "POST", "/payments", "1", keyed("key-0001")).Code }
	require.Equal(t, http.StatusConflict, pays())
	seen := s.unknown()
	require.NoError(t, s.server.Resolve(t.Context(), seen, server.Resolution{By: "ada"}))
	require.Equal(t, http.StatusConflict, pays(), "the next request has committed too")
	late := s.server.Resolve(t.Context(), seen, server.Resolution{By: "bob"})
	require.ErrorIs(t, late, onceward.ErrMoved)
	require.Equal(t, http.StatusConflict, pays(), "its outcome is still unknown")
	assert.Equal(t, 2, s.rows())
	require.NoError(t, s.server.Resolve(t.Context(), s.unknown(), server.Resolution{By: "bob", Answer: &journal.Answer{}}))
}

// An operator can state an answer. Without a status it is a 200. A status that HTTP lacks is refused.
func TestResolveWithoutAStatus(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tx, err := server.Tx(r.Context()); assert.NoError(t, err) {
			assert.NoError(t, tx.Commit())
		}
	}), server.Endpoint{})
	tenant := with("X-Tenant", "acme")
	require.Equal(t, http.StatusConflict, ask(h, "POST", "/payments", "1", keyed("key-0001"), tenant).Code)
	seen := s.unknown()
	require.ErrorIs(t, s.server.Resolve(t.Context(), seen, server.Resolution{By: "ada", Answer: &journal.Answer{Status: 20}}), journal.ErrInvalidEvent)
	require.NoError(t, s.server.Resolve(t.Context(), seen, server.Resolution{By: "ada", Answer: &journal.Answer{Body: []byte("paid")}}))
	got := ask(h, "POST", "/payments", "1", keyed("key-0001"), tenant)
	assert.Equal(t, http.StatusOK, got.Code)
	assert.Equal(t, "paid", got.Body.String())
}

// A handler that misses a rollback by SQLite does not answer its client with a success.
func TestHandlerThatMissesARollback(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, err := server.Tx(r.Context())
		if assert.NoError(t, err) {
			_, err = tx.Exec("INSERT INTO ledger (payee) VALUES ('ann')")
			assert.NoError(t, err)
			_, _ = tx.Exec("INSERT OR ROLLBACK INTO ledger (payee) VALUES ('ann')")
		}
		w.WriteHeader(http.StatusCreated)
	}), server.Endpoint{})
	for range 2 {
		assert.Equal(t, http.StatusServiceUnavailable, ask(h, "POST", "/payments", "1", keyed("key-0001")).Code)
	}
	assert.Zero(t, s.rows())
}

// While a request is served, a repetition gets 409 with a Retry-After. A different request with its key gets 422.
func TestRequestsAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-goOn
		pay(w, r)
	})
	h := s.server.Atomic("payments.create", slow, server.Endpoint{})
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- ask(h, "POST", "/payments", "1", keyed("key-0001")) }()
	<-begun
	same := ask(h, "POST", "/payments", "1", keyed("key-0001"))
	assert.Equal(t, http.StatusConflict, same.Code)
	assert.Equal(t, "1", same.Header().Get("Retry-After"))
	assert.Equal(t, http.StatusUnprocessableEntity, ask(h, "POST", "/payments", "2", keyed("key-0001")).Code)
	close(goOn)
	assert.Equal(t, http.StatusCreated, (<-first).Code)
	assert.Equal(t, "true", ask(h, "POST", "/payments", "1", keyed("key-0001")).Header().Get("Idempotent-Replayed"))
	assert.Equal(t, 1, s.rows())
}

// A request that waits does not count as served if an outer middleware ends its context.
func TestWaitThatAMiddlewareEnds(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	begun, goOn, first := make(chan struct{}), make(chan struct{}), make(chan int)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-goOn
		pay(w, r)
	}), server.Endpoint{Wait: time.Minute})
	go func() { first <- ask(h, "POST", "/payments", "1", keyed("key-0001")).Code }()
	<-begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	got := ask(h, "POST", "/payments", "1", keyed("key-0001"), func(r *http.Request) { *r = *r.WithContext(over) })
	assert.Equal(t, http.StatusConflict, got.Code)
	assert.Equal(t, "1", got.Header().Get("Retry-After"))
	close(goOn)
	assert.Equal(t, http.StatusCreated, <-first)
}

// Of two processes that serve one key at once, one takes effect and both give its answer.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var both, all sync.WaitGroup
	both.Add(2)
	meet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		both.Done()
		both.Wait()
		pay(w, r)
	})
	answers := make([]*httptest.ResponseRecorder, 2)
	for i := range answers {
		h := s.another(nil).Atomic("payments.create", meet, server.Endpoint{})
		all.Go(func() { answers[i] = ask(h, "POST", "/payments", "1", keyed("key-0001")) })
	}
	all.Wait()
	assert.Equal(t, 1, s.rows())
	replayed := 0
	for _, a := range answers {
		assert.Equal(t, http.StatusCreated, a.Code)
		assert.Equal(t, `{"paid":true}`, a.Body.String())
		if a.Header().Get("Idempotent-Replayed") != "" {
			replayed++
		}
	}
	assert.Equal(t, 1, replayed)
}

// A caller that disconnected finds the answer when it repeats the request.
func TestCallerThatDisconnectsFindsItsAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	gone, goAway := context.WithCancel(t.Context())
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		goAway()
		assert.NoError(t, r.Context().Err())
		pay(w, r)
	}), server.Endpoint{})
	ask(h, "POST", "/payments", "1", keyed("key-0001"), func(r *http.Request) { *r = *r.WithContext(gone) })
	assert.Equal(t, "true", ask(h, "POST", "/payments", "1", keyed("key-0001")).Header().Get("Idempotent-Replayed"))
	assert.Equal(t, 1, s.rows())
}

// An answer that can't be given again as it was is not given at all, and nothing is kept.
func TestAnswerThatCantBeRecorded(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
		w.WriteHeader(http.StatusEarlyHints)
		pay(w, r)
		_, _ = w.Write(make([]byte, 100))
	}), server.Endpoint{MaxAnswer: 50})
	assert.Equal(t, http.StatusInternalServerError, ask(h, "POST", "/payments", "1", keyed("key-0001")).Code)
	assert.Zero(t, s.rows())
}

// A secret is rotated without refusing a repeated request.
func TestSecretIsRotated(t *testing.T) {
	t.Parallel()
	old, fresh := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	s := open(t, nil)
	served := func(secrets ...[]byte) http.Handler {
		return s.another(func(o *server.Options) { o.Secrets = secrets }).Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	}
	require.Equal(t, http.StatusCreated, ask(served(old), "POST", "/payments", "1", keyed("key-0001")).Code)
	for _, secrets := range [][][]byte{{old, fresh}, {fresh, old}} {
		assert.Equal(t, "true", ask(served(secrets...), "POST", "/payments", "1", keyed("key-0001")).Header().Get("Idempotent-Replayed"))
		assert.Equal(t, http.StatusUnprocessableEntity, ask(served(secrets...), "POST", "/payments", "2", keyed("key-0001")).Code)
	}
	assert.Equal(t, http.StatusServiceUnavailable, ask(served(fresh), "POST", "/payments", "1", keyed("key-0001")).Code, "it can't be compared, and is not refused for good")
	assert.Equal(t, 1, s.rows())
}

// Once runs a function that serves no HTTP endpoint, such as a job, once per key.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	calls := 0
	do := func(key string, request any, fails error) (string, error) {
		return server.Once(t.Context(), s.server, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "job", Key: key}, request, func(ctx context.Context) (string, error) {
			calls++
			tx, err := server.Tx(ctx)
			if err == nil {
				_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
			}
			return "done", cmpErr(err, fails)
		})
	}
	failure := errors.New("not today")
	_, err := do("job-1", 1, failure)
	require.Equal(t, failure, err)
	assert.Zero(t, s.rows())
	for range 2 {
		result, err := do("job-1", 1, nil)
		require.NoError(t, err)
		assert.Equal(t, "done", result)
	}
	assert.Equal(t, 2, calls)
	assert.Equal(t, 1, s.rows())
	_, err = do("job-1", 2, nil)
	var refused *server.RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "key-reused", refused.Problem.Name)
	require.ErrorIs(t, err, server.ErrRefused)
	_, err = server.Tx(t.Context())
	require.ErrorIs(t, err, server.ErrNoTransaction)
}

// Work of Once that is being done, or that keeps nothing, says so.
func TestOnceThatIsUnderWayOrReleased(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	k := server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "job", Key: "job-1"}
	runs := 0
	do := func(ctx context.Context) (int, error) {
		runs++
		_, err := server.Once(t.Context(), s.server, k, nil, func(context.Context) (int, error) { return 0, errors.New("called") })
		var refused *server.RefusedError
		if assert.ErrorAs(t, err, &refused) {
			assert.Equal(t, "in-flight", refused.Problem.Name)
		}
		tx, err := server.Tx(ctx)
		if err == nil {
			_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
		}
		if runs == 1 {
			server.Release(ctx)
		}
		return runs, err
	}
	for _, want := range []int{1, 2, 2} {
		result, err := server.Once(t.Context(), s.server, k, nil, do)
		require.NoError(t, err)
		assert.Equal(t, want, result)
	}
	assert.Equal(t, 1, s.rows())
}

// A result of Once that can't be recorded is an error, and nothing is kept.
func TestResultOfOnceThatCantBeRecorded(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for name, result := range map[string]any{"no JSON": func() {}, "too large": strings.Repeat("x", 1<<20)} {
		_, err := server.Once(t.Context(), s.server, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "job", Key: "job-1"}, nil, func(ctx context.Context) (any, error) {
			tx, err := server.Tx(ctx)
			if err == nil {
				_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
			}
			return result, err
		})
		require.Error(t, err, name)
		assert.Zero(t, s.rows(), name)
		for range s.journal.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
			t.Error("a receipt was recorded", name)
		}
	}
}

// An outcome names the tenant, so that an application can count the repetitions of each.
func TestOutcomesNameTheTenant(t *testing.T) {
	t.Parallel()
	replayed := map[string]int{}
	s := open(t, func(o *server.Options) {
		o.Observe = func(_ context.Context, o server.Outcome) {
			if o.Kind == server.Replayed {
				replayed[o.Tenant]++
			}
		}
	})
	h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	for _, tenant := range []string{"acme", "globex", "acme", "acme", "globex"} {
		require.Equal(t, http.StatusCreated, ask(h, "POST", "/payments", "1", keyed("key-0001"), with("X-Tenant", tenant)).Code)
	}
	assert.Equal(t, map[string]int{"acme": 2, "globex": 1}, replayed)
}

// problems returns the problems that the server has, as its source lists them.
func problems(t *testing.T) (list []server.Problem) {
	t.Helper()
	source, err := os.ReadFile("problem.go")
	require.NoError(t, err)
	for _, p := range regexp.MustCompile(`= Problem\{"([a-z-]+)", http\.Status(\w+), ("[^"]*"), (\d+)\}`).FindAllStringSubmatch(string(source), -1) {
		problem := server.Problem{Name: p[1], Status: 100}
		for strings.ReplaceAll(http.StatusText(problem.Status), " ", "") != p[2] && problem.Status < 600 {
			problem.Status++
		}
		problem.Detail, err = strconv.Unquote(p[3])
		require.NoError(t, err)
		problem.RetryAfter, err = strconv.Atoi(p[4])
		require.NoError(t, err)
		list = append(list, problem)
	}
	require.Len(t, list, strings.Count(string(source), "Problem{\""))
	return list
}

// The documentation lists each problem with its status, and the headers and errors that come with it. It lists no others.
func TestDocumentListsTheProblems(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "docs", "server.md"))
	require.NoError(t, err)
	said := string(document)
	names := map[string]int{"idempotency_error": http.StatusBadRequest, "lock_timeout": http.StatusTooManyRequests} // of Stripe's
	for _, p := range problems(t) {
		names[p.Name] = p.Status
		assert.Contains(t, said, fmt.Sprintf("%d `%s`", p.Status, p.Name))

		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| `Retry-After: %d` \\| .*`%s`", p.RetryAfter, p.Name))
		assert.Equal(t, p.RetryAfter > 0, row.MatchString(said), "%s: Retry-After: %d", p.Name, p.RetryAfter)

		stripes := httptest.NewRecorder()
		server.Stripe().Refuse(stripes, p)
		var got struct{ Error struct{ Type, Code string } }
		require.NoError(t, json.Unmarshal(stripes.Body.Bytes(), &got))
		status, kind, code := p.Status, "invalid_request_error", map[string]string{"in-flight": "idempotency_key_in_use", "too-many": "rate_limit"}[p.Name]
		switch {
		case p.Name == "key-reused":
			status, kind = http.StatusBadRequest, "idempotency_error"
		case p.Status >= 500, p.Name == "outcome-unknown":
			kind, code = "api_error", "onceward_"+strings.ReplaceAll(p.Name, "-", "_")
		}
		assert.Equal(t, []any{status, kind, code}, []any{stripes.Code, got.Error.Type, got.Error.Code}, p.Name)
		assert.Contains(t, said, "`"+kind+"`")
		if code != "" && kind != "api_error" {
			assert.Contains(t, said, "`"+code+"` for `"+p.Name+"`")
		}
		assert.Equal(t, p.Name == "outcome-unknown", stripes.Header().Get("Stripe-Should-Retry") == "false")
	}
	for _, mentioned := range regexp.MustCompile("([45][0-9][0-9]) `([a-z_-]+)`").FindAllStringSubmatch(said, -1) {
		assert.Equal(t, mentioned[1], fmt.Sprint(names[mentioned[2]]), mentioned[0])
	}
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// If the journal fails, a request gets 503. Its handler is not called as if the key were new.
func TestJournalThatFails(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	calls := 0
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }), server.Endpoint{})
	require.NoError(t, s.journal.Close())
	got := ask(h, "POST", "/payments", "1", keyed("key-0001"))
	assert.Equal(t, http.StatusServiceUnavailable, got.Code)
	assert.Equal(t, "5", got.Header().Get("Retry-After"))
	assert.Zero(t, calls)
}

// Options that can't work are refused with advice.
func TestOptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	caller := func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil }
	secrets := [][]byte{make([]byte, 16)}
	for want, o := range map[string]server.Options{
		"Options.Journal is nil":   {Caller: caller, Secrets: secrets},
		"Options.Caller is nil":    {Journal: s.journal, Secrets: secrets},
		"Options.Secrets is empty": {Journal: s.journal, Caller: caller},
		"Options.Secrets[0] has 2": {Journal: s.journal, Caller: caller, Secrets: [][]byte{{1, 2}}},
		"keys of each endpoint":    {Journal: s.journal, Caller: caller, Secrets: secrets, KeysPerEndpoint: true},
		"Options.MaxInFlight is -": {Journal: s.journal, Caller: caller, Secrets: secrets, MaxInFlight: -1},
	} {
		_, err := server.New(t.Context(), o)
		assert.ErrorContains(t, err, want)
	}
	reads, err := sqlite.Open(s.path, sqlite.Options{ReadOnly: true})
	require.NoError(t, err)
	defer reads.Close()
	_, err = server.New(t.Context(), server.Options{Journal: reads, Caller: caller, Secrets: secrets})
	require.ErrorIs(t, err, sqlite.ErrReadOnly)
	for name, e := range map[string]server.Endpoint{
		"":                      {},
		"a b":                   {},
		strings.Repeat("n", 65): {},
		"retain":                {Retain: time.Hour},
		"limit":                 {Limit: time.Hour},
		"negative.answer":       {MaxAnswer: -1},
		"negative.request":      {MaxRequest: -1},
		"negative.held":         {Held: -1},
		"negative.wait":         {Wait: -1},
		"negative.limit":        {Limit: -1},
		"key.bytes.0":           {KeyBytes: [2]int{0, 8}},
		"key.bytes.256":         {KeyBytes: [2]int{8, 256}},
		"cookies":               {KeepHeaders: []string{"set-cookie"}},
		"replayed":              {KeepHeaders: []string{"idempotent-replayed"}},
		"expires":               {KeepHeaders: []string{"Idempotency-Expires"}},
		"recorded":              {KeepHeaders: []string{"Idempotency-Recorded"}},
		"formerly":              {Formerly: []string{""}},
		"key.bytes":             {KeyBytes: [2]int{9, 8}},
	} {
		assert.Panics(t, func() { s.server.Atomic(name, http.NotFoundHandler(), e) }, name)
	}
	s.server.Atomic("twice", http.NotFoundHandler(), server.Endpoint{})
	assert.Panics(t, func() { s.server.Atomic("twice", http.NotFoundHandler(), server.Endpoint{}) })
}

// A handler sees the receipt of its key once it has asked for the transaction.
func TestReceiptOf(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	none := func(ctx context.Context) {
		t.Helper()
		_, is := server.ReceiptOf(ctx)
		assert.False(t, is)
	}
	none(t.Context())
	var last context.Context
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		last = r.Context()
		none(last)
		if r.Method == http.MethodGet {
			return
		}
		_, err := server.Tx(last)
		assert.NoError(t, err)
		if r.Header.Get("Idempotency-Key") == "" {
			none(last)
			return
		}
		receipt, is := server.ReceiptOf(last)
		assert.True(t, is)
		assert.Equal(t, journal.ReceiptReserved, receipt.State)
		assert.Equal(t, "payments.create", receipt.Place)
		assert.EqualValues(t, 1, receipt.Claim)
		assert.Equal(t, 24*time.Hour, receipt.ExpiresAt.Sub(receipt.CreatedAt))
	}), server.Endpoint{Retain: 24 * time.Hour, Optional: true})
	assert.Equal(t, http.StatusOK, ask(h, "POST", "/", "1", keyed("key-0001")).Code)
	none(last)
	assert.Equal(t, http.StatusOK, ask(h, "GET", "/", "", keyed("key-0001")).Code)
	assert.Equal(t, http.StatusOK, ask(h, "POST", "/", "1").Code)
}
