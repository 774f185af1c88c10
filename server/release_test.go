package server_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/server"
)

// A release that would refuse a request gives the answer that an earlier one has recorded for it. Its client would otherwise take the
// refusal for the outcome, and pay again.
func TestRecordedAnswerWinsOverARelease(t *testing.T) {
	t.Parallel()
	const long = "key-of-an-earlier-release"
	body := strings.Repeat("1", 2000)
	chunked := func(r *http.Request) {
		r.ContentLength, r.Body = -1, io.NopCloser(struct{ io.Reader }{r.Body})
	}
	for name, row := range map[string]struct {
		next  server.Endpoint // the release's
		how   []asked
		code  int // for a key without an answer
		other int // for another request under the key
	}{
		"it lowers MaxRequest":                            {server.Endpoint{MaxRequest: 1000}, nil, 413, 422},
		"it lowers MaxRequest, and bodies have no length": {server.Endpoint{MaxRequest: 1000}, []asked{chunked}, 413, 422},
		"it wants longer keys":                            {server.Endpoint{KeyBytes: [2]int{30, 40}}, nil, 400, 422},
		"it wants shorter keys":                           {server.Endpoint{KeyBytes: [2]int{8, 20}}, nil, 400, 422},
		"it begins to name callers":                       {server.Endpoint{}, []asked{with("X-Who", "ada")}, 201, 422},
		"all of them":                                     {server.Endpoint{MaxRequest: 1000, KeyBytes: [2]int{8, 20}}, []asked{with("X-Who", "ada"), chunked}, 0, 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, nil)
			before := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
			require.Equal(t, 201, ask(before, "POST", "/payments", body, keyed(long)).Code)
			after := s.another(nil).Atomic("payments.create", http.HandlerFunc(pay), row.next)
			again := func(body, key string) (int, string) {
				got := ask(after, "POST", "/payments", body, append([]asked{keyed(key)}, row.how...)...)
				return got.Code, got.Header().Get("Idempotent-Replayed")
			}
			code, replayed := again(body, long)
			assert.Equal(t, 201, code)
			assert.Equal(t, "true", replayed)
			code, _ = again(strings.Repeat("2", 2000), long)
			assert.Equal(t, row.other, code, "another request learns nothing")
			assert.Equal(t, 1, s.rows())
			if row.code != 0 {
				code, _ = again(body, long+"2")
				assert.Equal(t, row.code, code, "a new request is judged by the release")
			}
		})
	}
}

// A body far over MaxRequest is not read, whatever its key has.
func TestRecordedAnswerHasABound(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	require.Equal(t, 201, ask(h, "POST", "/payments", "1", keyed(key)).Code)
	assert.Equal(t, 413, ask(h, "POST", "/payments", "", keyed(key), func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(endless{}), -1 }).Code)
}

// The answer of http.Error comes again with the header that keeps browsers from guessing its type.
func TestAnswerOfHTTPErrorIsReplayed(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		book(r)
		http.Error(w, "<b>declined</b>", http.StatusConflict)
	}), server.Endpoint{})
	for _, replayed := range []string{"", "true"} {
		got := ask(h, "POST", "/payments", "1", keyed(key))
		assert.Equal(t, replayed, got.Header().Get("Idempotent-Replayed"))
		assert.Equal(t, "nosniff", got.Header().Get("X-Content-Type-Options"))
		assert.Equal(t, "text/plain; charset=utf-8", got.Header().Get("Content-Type"))
	}
}

// A request that has waited for its key runs its handler for as long as any other.
func TestHandlerAfterAWaitHasItsWholeLimit(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, folder, nil)
		fails := true
		h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-time.After(7 * time.Second)
			if fails {
				fails = false
				http.Error(w, "try again", http.StatusInternalServerError)
				return
			}
			pay(w, r)
		}), server.Endpoint{Limit: 10 * time.Second, Wait: 9 * time.Second})
		first := make(chan int)
		go func() { first <- ask(h, "POST", "/payments", "1", keyed(key)).Code }()
		synctest.Wait()
		assert.Equal(t, 201, ask(h, "POST", "/payments", "1", keyed(key)).Code)
		assert.Equal(t, 500, <-first)
		assert.Equal(t, 1, s.rows())
	})
}

// A journal that is closed during a request tells nothing of its commit any more, so no time is spent to ask it.
func TestJournalThatIsClosedDuringARequest(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, folder, nil)
		var closed time.Time
		h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			book(r)
			_ = s.journal.Close() // it waits for the transaction in vain
			closed = time.Now()
			w.WriteHeader(201)
		}), server.Endpoint{Held: time.Minute, Limit: time.Minute})
		got := ask(h, "POST", "/payments", "1", keyed(key))
		assert.Equal(t, 503, got.Code)
		assert.Equal(t, "1", got.Header().Get("Retry-After"))
		assert.Zero(t, time.Since(closed))
	})
}

// A handler may have the tenant of a request without a key at once.
func TestCallerWithoutAKeyIsKnown(t *testing.T) {
	t.Parallel()
	var tenants []string
	s := open(t, func(o *server.Options) {
		o.Observe = func(_ context.Context, o server.Outcome) { tenants = append(tenants, o.Tenant) }
	})
	h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	assert.Equal(t, 201, ask(h, "PUT", "/payments", "1").Code)
	assert.Equal(t, 500, ask(h, "PUT", "/payments", "1", with("X-Tenant", "?")).Code)
	assert.Equal(t, []string{"acme", ""}, tenants)
	assert.Equal(t, 1, s.rows())
}

// While the database is away, each request is refused. The log has one line.
func TestOutageIsOneLine(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	s := open(t, func(o *server.Options) { o.Logger = slog.New(slog.NewTextHandler(&lines, nil)) })
	h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
	other := s.server.Atomic("refunds.create", http.HandlerFunc(pay), server.Endpoint{})
	require.NoError(t, s.journal.Close())
	for range 20 {
		assert.Equal(t, 503, ask(h, "POST", "/payments", "1", keyed(key)).Code)
		assert.Equal(t, 503, ask(other, "POST", "/refunds", "1", keyed(key)).Code)
		assert.Equal(t, 503, ask(h, "PUT", "/payments", "1").Code)
	}
	assert.Equal(t, 1, strings.Count(lines.String(), "\n"), lines.String())
}
