package server_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/server"
)

// Each history breaks a server that is built in the obvious way. Some have tests of their own: TestKilledAtEachStep,
// TestEndpointThatIsRenamed, TestKeysAndEndpoints, TestSecretIsRotated, TestCallsBelowAtomic.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, history := range []struct {
		name string
		run  func(t *testing.T, s *shop)
	}{
		{"an error is overlooked after SQLite has rolled back, and the answer is recorded alone", func(t *testing.T, s *shop) {
			overlooks := true
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tx, err := server.Tx(r.Context())
				if !assert.NoError(t, err) {
					return
				}
				_, _ = tx.Exec("INSERT INTO ledger (payee) VALUES ('ann')")
				if overlooks {
					_, _ = tx.Exec("INSERT OR ROLLBACK INTO ledger (payee) VALUES ('ann')")
				}
				_, _ = tx.Exec("INSERT INTO ledger (payee) VALUES ('eve')")
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})
			for range 2 {
				assert.Equal(t, http.StatusServiceUnavailable, ask(h, "POST", "/", "1", keyed(key)).Code)
				assert.Zero(t, s.rows(), "neither half is there")
			}
			overlooks = false
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, 2, s.rows())
		}},
		{"a statement's context breaks the transaction off, and the handler goes on", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tx, err := server.Tx(r.Context())
				if !assert.NoError(t, err) {
					return
				}
				_, _ = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
				broken, cancel := context.WithCancel(r.Context())
				cancel()
				_, _ = tx.ExecContext(broken, "INSERT INTO ledger (amount) VALUES (2)")
				_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (3)")
				assert.NoError(t, err, "the statement did not begin, so that the transaction is whole")
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, 2, s.rows())
		}},
		{"the handler rolls back and begins anew by SQL", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				tx, _ := server.Tx(r.Context())
				_, _ = tx.Exec("ROLLBACK")
				_, _ = tx.Exec("BEGIN")
				_, _ = tx.Exec("INSERT INTO ledger (amount) VALUES (2)")
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})
			for range 2 {
				assert.GreaterOrEqual(t, ask(h, "POST", "/", "1", keyed(key)).Code, 500)
				assert.Zero(t, s.rows())
			}
		}},
		{"the handler commits and begins anew by SQL", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				tx, _ := server.Tx(r.Context())
				_, _ = tx.Exec("COMMIT")
				_, _ = tx.Exec("BEGIN")
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, "true", ask(h, "POST", "/", "1", keyed(key)).Header().Get("Idempotent-Replayed"))
			assert.Equal(t, 1, s.rows())
		}},
		{"many ask at once for an answer that is there", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
			require.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					assert.Equal(t, "true", ask(h, "POST", "/", "1", keyed(key)).Header().Get("Idempotent-Replayed"))
				})
			}
			all.Wait()
		}},
		{"a validation fails for want of a row that is then made", func(t *testing.T, s *shop) {
			known := false
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !known {
					http.Error(w, "no such customer", http.StatusNotFound)
					return
				}
				pay(w, r)
			}), server.Endpoint{})
			assert.Equal(t, http.StatusNotFound, ask(h, "POST", "/", "1", keyed(key)).Code)
			known = true
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
		}},
		{"headers of the first exchange are given to another caller", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for name, value := range map[string]string{
					"Set-Cookie": "session=1", "Access-Control-Allow-Origin": "https://a", "X-Request-Id": "1", "Date": "never", "X-Kept": "yes", "ETag": `"1"`,
				} {
					w.Header().Set(name, value)
				}
				pay(w, r)
			}), server.Endpoint{KeepHeaders: []string{"x-kept"}})
			assert.Equal(t, "session=1", ask(h, "POST", "/", "1", keyed(key)).Header().Get("Set-Cookie"))
			again := ask(h, "POST", "/", "1", keyed(key)).Header()
			for name, want := range map[string]string{"Set-Cookie": "", "Access-Control-Allow-Origin": "", "X-Request-Id": "", "Date": "", "X-Kept": "yes", "Etag": `"1"`} {
				assert.Equal(t, want, again.Get(name), name)
			}
		}},
		{"a handler compresses for a caller, and the next one can't read that", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Empty(t, r.Header.Get("Accept-Encoding"))
				pay(w, r)
			}), server.Endpoint{})
			require.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key), with("Accept-Encoding", "gzip")).Code)
		}},
		{"a handler asks its own service within its transaction", func(t *testing.T, s *shop) {
			inner := s.another(nil).Atomic("fees.create", http.HandlerFunc(pay), server.Endpoint{})
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				got := ask(inner, "POST", "/fees", "1", keyed("fee-0001"), func(inner *http.Request) {
					within, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					t.Cleanup(cancel)
					*inner = *inner.WithContext(within)
				})
				w.WriteHeader(got.Code)
			}), server.Endpoint{Held: 200 * time.Millisecond})
			assert.GreaterOrEqual(t, ask(h, "POST", "/", "1", keyed(key)).Code, 500)
			assert.LessOrEqual(t, s.rows(), 1, "the inner one may be done once the outer one was rolled back")
		}},
		{"a handler sleeps in its transaction, and nobody records anything", func(t *testing.T, s *shop) {
			asleep := make(chan struct{})
			slow := s.server.Atomic("slow", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				book(r)
				close(asleep)
				<-r.Context().Done()
			}), server.Endpoint{Limit: time.Second, Held: 50 * time.Millisecond})
			h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
			done := make(chan int)
			go func() { done <- ask(slow, "POST", "/", "1", keyed("slow-0001")).Code }()
			<-asleep
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, http.StatusServiceUnavailable, <-done)
			assert.Equal(t, 1, s.rows())
		}},
		{"two services share a journal, and one counts keys per endpoint", func(t *testing.T, s *shop) {
			o := server.Options{
				Journal: s.journal, Secrets: [][]byte{make([]byte, 16)}, KeysPerEndpoint: true,
				Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
			}
			_, err := server.New(t.Context(), o)
			require.ErrorContains(t, err, "keys of each endpoint")
		}},
		{"a batch is half done", func(t *testing.T, s *shop) {
			h := s.server.Atomic("batches.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for item := range 5 {
					if item < 3 {
						book(r)
					}
				}
				w.WriteHeader(http.StatusMultiStatus)
			}), server.Endpoint{})
			for range 2 {
				assert.Equal(t, http.StatusMultiStatus, ask(h, "POST", "/", "1", keyed(key)).Code)
			}
			assert.Equal(t, 3, s.rows())
		}},
		{"replicas of two releases keep answers for different times", func(t *testing.T, s *shop) {
			short := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{Retain: 24 * time.Hour})
			long := s.another(nil).Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{Retain: 7 * 24 * time.Hour})
			first := ask(short, "POST", "/", "1", keyed(key)).Header().Get("Idempotency-Expires")
			assert.Equal(t, first, ask(long, "POST", "/", "1", keyed(key)).Header().Get("Idempotency-Expires"))
		}},
	} {
		t.Run(history.name, func(t *testing.T) {
			t.Parallel()
			history.run(t, open(t, nil))
		})
	}
}

// A clock that leaps a month ahead ends no key, and nothing is done again.
func TestClockThatLeaps(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, folder, nil)
		h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{Retain: 24 * time.Hour, RefuseFor: -1})
		require.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
		<-time.After(time.Minute) // the journal has seen the time
		synctest.Wait()
		<-time.After(31 * 24 * time.Hour)
		assert.Equal(t, "true", ask(h, "POST", "/", "1", keyed(key)).Header().Get("Idempotent-Replayed"))
		assert.Equal(t, 1, s.rows())
	})
}

// After a backup was put back, no handler is called before somebody has adopted the journal. Answers that it has are given.
func TestBackupThatIsPutBack(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "shop.db")
	calls := 0
	served := func(use func(h http.Handler, j *sqlite.Journal)) {
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
		require.NoError(t, err)
		s := &shop{t: t, journal: j}
		h := s.another(nil).Atomic("payments.create", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }), server.Endpoint{})
		use(h, j)
		require.NoError(t, j.Close())
	}
	served(func(h http.Handler, _ *sqlite.Journal) { ask(h, "POST", "/", "1", keyed("before-1")) })
	backup, err := os.ReadFile(path)
	require.NoError(t, err)
	served(func(h http.Handler, _ *sqlite.Journal) { ask(h, "POST", "/", "1", keyed("after-01")) })
	require.NoError(t, os.WriteFile(path, backup, 0o600))
	require.Equal(t, 2, calls)

	o := server.Options{
		Secrets: [][]byte{[]byte("0123456789abcdef")},
		Caller:  func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
	}
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	require.NoError(t, err)
	defer j.Close()
	o.Journal = j
	srv, err := server.New(t.Context(), o)
	require.NoError(t, err, "a service starts, and answers what it can")
	h := srv.Atomic("payments.create", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }), server.Endpoint{})
	got := ask(h, "POST", "/", "1", keyed("after-01"))
	assert.Equal(t, http.StatusServiceUnavailable, got.Code)
	assert.Equal(t, "60", got.Header().Get("Retry-After"))
	assert.Equal(t, "true", ask(h, "POST", "/", "1", keyed("before-1")).Header().Get("Idempotent-Replayed"))
	assert.Equal(t, 2, calls)
	require.NoError(t, j.Adopt(t.Context()))
	assert.Equal(t, 200, ask(h, "POST", "/", "1", keyed("after-01")).Code)
}
