package server_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/server"
)

// Each history breaks a server that is built in the obvious way. Some have tests of their own: TestKilledAtEachStep,
// TestEndpointThatIsRenamed, TestKeysAndEndpoints, TestSecretIsRotated, TestCallsBelowAtomic, and on PostgreSQL
// TestHistoriesOnPostgreSQL.
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
		{"a decline comes after SQLite has rolled back", func(t *testing.T, s *shop) {
			runs := 0
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				tx, err := server.Tx(r.Context())
				assert.NoError(t, err)
				_, err = tx.Exec("INSERT INTO ledger (payee) VALUES ('ann')")
				assert.NoError(t, err)
				_, err = tx.Exec("INSERT OR ROLLBACK INTO ledger (payee) VALUES ('ann')")
				assert.Error(t, err)
				w.WriteHeader(http.StatusConflict)
			}), server.Endpoint{})
			for range 2 {
				assert.Equal(t, http.StatusConflict, ask(h, "POST", "/", "1", keyed(key)).Code)
			}
			assert.Equal(t, 1, runs, "the decline is recorded")
			assert.Zero(t, s.rows())
		}},
		{"a decline breaks a deferred constraint", func(t *testing.T, s *shop) {
			runs := 0
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				tx, err := server.Tx(r.Context())
				assert.NoError(t, err)
				for _, statement := range []string{
					"INSERT INTO ledger (payee) VALUES ('ann')", "CREATE TABLE lines (payment REFERENCES payments (id) DEFERRABLE INITIALLY DEFERRED)",
					"CREATE TABLE payments (id PRIMARY KEY)", "INSERT INTO lines VALUES (7)",
				} {
					_, err = tx.Exec(statement)
					assert.NoError(t, err)
				}
				w.WriteHeader(http.StatusConflict)
			}), server.Endpoint{})
			for range 2 {
				assert.Equal(t, http.StatusConflict, ask(h, "POST", "/", "1", keyed(key)).Code)
			}
			assert.Equal(t, 1, runs, "the decline is recorded")
			assert.Zero(t, s.rows())
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
			var log bytes.Buffer
			h := s.another(func(o *server.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }).Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			assert.Contains(t, log.String(), "endpoint=payments.create")
			assert.Contains(t, log.String(), "a request to the service itself", "the operator gets a hint")
		}},
		{"a handler sleeps in its transaction, and no other request can write", func(t *testing.T, s *shop) {
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
		{"no connection is free, before anything was done", func(t *testing.T, s *shop) {
			exhausted := true
			h := s.another(func(o *server.Options) {
				o.Begin = func(ctx context.Context) (journal.Tx, error) {
					if exhausted {
						return nil, errors.New("all connections are in use")
					}
					return s.journal.BeginTx(ctx)
				}
			}).Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
			got := ask(h, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusServiceUnavailable, got.Code)
			assert.Equal(t, "5", got.Header().Get("Retry-After"))
			exhausted = false
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code, "the failure is not the key's answer")
			assert.Equal(t, 1, s.rows())
		}},
		{"a newer release has changed the layout of the file", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
			tx, err := s.journal.BeginSQL(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec("UPDATE onceward_head SET version = version + 10")
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			_, err = server.New(t.Context(), server.Options{
				Journal: s.journal, Secrets: [][]byte{make([]byte, 16)}, Caller: func(*http.Request) (server.Caller, error) { return server.Caller{Tenant: "acme"}, nil },
			})
			require.ErrorIs(t, err, journal.ErrVersion, "a replica of this release does not start any more")
			got := ask(h, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusServiceUnavailable, got.Code, "one that runs records nothing more")
			assert.Equal(t, "5", got.Header().Get("Retry-After"))
			assert.Zero(t, s.rows())
		}},
		{"some replicas do not serve keys yet", func(t *testing.T, s *shop) {
			unique := func(tx *sql.Tx) int {
				if _, err := tx.Exec("INSERT INTO ledger (payee) VALUES ('invoice 7 of ann')"); err != nil {
					return http.StatusConflict
				}
				return http.StatusCreated
			}
			former := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tx, err := s.journal.BeginSQL(r.Context())
				if !assert.NoError(t, err) {
					return
				}
				w.WriteHeader(unique(tx))
				assert.NoError(t, tx.Commit())
			})
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tx, err := server.Tx(r.Context())
				if err == nil {
					w.WriteHeader(unique(tx))
				}
			}), server.Endpoint{})
			require.Equal(t, http.StatusCreated, ask(former, "POST", "/", "1", keyed(key)).Code)
			for range 2 {
				assert.Equal(t, http.StatusConflict, ask(h, "POST", "/", "1", keyed(key)).Code, "a unique key of the application's own tells")
			}
			assert.Equal(t, http.StatusConflict, ask(former, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, 1, s.rows())
		}},
		{"GraphQL answers 200 with errors, and reads by POST", func(t *testing.T, s *shop) {
			fails := true
			pays := func(ctx context.Context, key string) (int, error) {
				return server.Once(ctx, s.server, server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "pay", Key: key}, "ann", func(ctx context.Context) (int, error) {
					tx, err := server.Tx(ctx)
					if err == nil {
						_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
					}
					if fails {
						err = errors.New("no funds")
					}
					return 7, err
				})
			}
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if body, _ := io.ReadAll(r.Body); string(body) == "query" {
					_, _ = io.WriteString(w, `{"data":{}}`)
				} else if id, err := pays(r.Context(), r.Header.Get("Idempotency-Key")); err != nil {
					_, _ = fmt.Fprintf(w, `{"errors":[{"message":%q}]}`, err)
				} else {
					_, _ = fmt.Fprintf(w, `{"data":{"pay":%d}}`, id)
				}
			})
			assert.Equal(t, `{"data":{}}`, ask(h, "POST", "/graphql", "query").Body.String(), "a query needs no key")
			assert.Contains(t, ask(h, "POST", "/graphql", "mutation", keyed(key)).Body.String(), "no funds")
			fails = false
			for range 2 {
				assert.Equal(t, `{"data":{"pay":7}}`, ask(h, "POST", "/graphql", "mutation", keyed(key)).Body.String())
			}
			assert.Equal(t, 1, s.rows())
		}},
		{"a handler writes by a pool of its own", func(t *testing.T, s *shop) {
			db, err := sql.Open("sqlite", "file:"+s.path+"?_pragma=busy_timeout(50)")
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			asks := true
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asks {
					book(r)
				}
				if _, err := db.Exec("INSERT INTO ledger (amount) VALUES (1)"); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})
			got := ask(h, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusInternalServerError, got.Code, "it waits for the lock of its own request")
			assert.Contains(t, got.Body.String(), "locked")
			assert.Zero(t, s.rows())
			asks = false
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, []server.Kind{server.Released, server.Untouched}, s.outcomes, "it is noticed")
		}},
		{"the disk is full, in the handler's write or in the answer's", func(t *testing.T, s *shop) {
			for full, writes := range map[string]int{"write": 1 << 20, "answer": 1} {
				room := false
				h := s.server.Atomic("payments."+full, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					tx, err := server.Tx(r.Context())
					if !assert.NoError(t, err) {
						return
					}
					most := 1 << 30
					if !room {
						require.NoError(t, tx.QueryRow("PRAGMA page_count").Scan(&most))
					}
					_, err = tx.Exec(fmt.Sprint("PRAGMA max_page_count = ", most))
					assert.NoError(t, err)
					_, _ = tx.Exec("INSERT INTO ledger (payee) VALUES (?)", full+strings.Repeat("x", writes)) // its error is overlooked
					w.WriteHeader(http.StatusCreated)
					answer := make([]byte, 200<<10)
					_, _ = rand.NewChaCha8([32]byte{}).Read(answer) // which can't be compressed
					_, _ = w.Write(answer)
				}), server.Endpoint{})
				before := s.rows()
				k := keyed("key-of-" + full)
				for range 2 {
					assert.Equal(t, http.StatusServiceUnavailable, ask(h, "POST", "/", "1", k).Code, full)
					assert.Equal(t, before, s.rows(), full)
				}
				room = true
				assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", k).Code, full)
				assert.Equal(t, before+1, s.rows(), full)
			}
		}},
		{"a repeated request accepts another language", func(t *testing.T, s *shop) {
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				book(r)
				w.Header().Set("Vary", "Accept-Language")
				w.Header().Set("Content-Language", r.Header.Get("Accept-Language"))
				w.WriteHeader(http.StatusCreated)
			}), server.Endpoint{})
			ask(h, "POST", "/", "1", keyed(key), with("Accept-Language", "de"))
			again := ask(h, "POST", "/", "1", keyed(key), with("Accept-Language", "fr"), with("Accept", "text/plain"))
			assert.Equal(t, http.StatusCreated, again.Code, "the first representation is the answer")
			assert.Equal(t, "de", again.Header().Get("Content-Language"))
			assert.Empty(t, again.Header().Get("Vary"))
		}},
		{"another transaction holds the file for longer than a request waits", func(t *testing.T, s *shop) {
			holds, err := s.journal.BeginSQL(t.Context())
			require.NoError(t, err)
			h := s.server.Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{Held: 20 * time.Millisecond})
			got := ask(h, "POST", "/", "1", keyed(key))
			assert.Equal(t, http.StatusServiceUnavailable, got.Code)
			assert.Equal(t, "1", got.Header().Get("Retry-After"))
			require.NoError(t, holds.Rollback())
			h = s.another(nil).Atomic("payments.create", http.HandlerFunc(pay), server.Endpoint{})
			assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, 1, s.rows())
		}},
		{"the record of a request is damaged", func(t *testing.T, s *shop) {
			calls := 0
			h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				pay(w, r)
			}), server.Endpoint{})
			require.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
			tx, err := s.journal.BeginSQL(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec("UPDATE onceward_receipts SET facts = x'00'")
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
			for range 2 {
				assert.Equal(t, http.StatusServiceUnavailable, ask(h, "POST", "/", "1", keyed(key)).Code)
			}
			assert.Equal(t, 1, calls, "it does not count as new")
			found, err := s.journal.Verify(t.Context())
			require.NoError(t, err)
			assert.Len(t, found, 1)
		}},
		{"a batch is done item by item, and stops in the middle", func(t *testing.T, s *shop) {
			stops := true
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for item := range 5 {
					if stops && item == 3 {
						http.Error(w, "not today", http.StatusServiceUnavailable)
						return
					}
					k := server.Key{Caller: server.Caller{Tenant: "acme"}, Name: "items.create", Key: fmt.Sprint(r.Header.Get("Idempotency-Key"), "-", item)}
					_, err := server.Once(r.Context(), s.server, k, item, func(ctx context.Context) (int, error) {
						tx, err := server.Tx(ctx)
						if err == nil {
							_, err = tx.Exec("INSERT INTO ledger (amount) VALUES (?)", item)
						}
						return item, err
					})
					assert.NoError(t, err)
				}
			})
			assert.Equal(t, http.StatusServiceUnavailable, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, 3, s.rows())
			stops = false
			assert.Equal(t, http.StatusOK, ask(h, "POST", "/", "1", keyed(key)).Code)
			assert.Equal(t, 5, s.rows())
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
func TestClockJumps(t *testing.T) {
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

// A transaction that is open for longer than Held is not committed, though the handler has more time. Its context ends.
func TestHeldTransaction(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, folder, nil)
		slow := true
		h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-time.After(20 * time.Second)
			began := time.Now()
			if pay(w, r); slow {
				<-r.Context().Done()
				assert.Equal(t, 5*time.Second, time.Since(began))
				<-time.After(time.Second) // it takes no notice
			}
		}), server.Endpoint{Limit: time.Minute})
		got := ask(h, "POST", "/", "1", keyed(key))
		assert.Equal(t, http.StatusServiceUnavailable, got.Code)
		assert.Contains(t, got.Body.String(), "took too long")
		assert.Zero(t, s.rows())
		slow = false
		assert.Equal(t, http.StatusCreated, ask(h, "POST", "/", "1", keyed(key)).Code)
		assert.Equal(t, 1, s.rows())
	})
}

// If the database turns read-only beneath a request, the server can't know at once whether the commit went through. It refuses further
// requests, since the store fails.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openIn(t, folder, nil)
		h := s.server.Atomic("payments.create", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tx, err := server.Tx(r.Context())
			if err != nil {
				return
			}
			_, _ = tx.Exec("INSERT INTO ledger (amount) VALUES (1)")
			_, err = tx.Exec("PRAGMA query_only = ON")
			assert.NoError(t, err)
			w.WriteHeader(http.StatusCreated)
		}), server.Endpoint{})
		began := time.Now()
		got := ask(h, "POST", "/", "1", keyed(key))
		assert.Equal(t, http.StatusServiceUnavailable, got.Code)
		assert.Contains(t, got.Body.String(), "not known yet whether it was done")
		assert.Equal(t, "1", got.Header().Get("Retry-After"))
		assert.Equal(t, 5*time.Second, time.Since(began))
		got = ask(h, "POST", "/", "1", keyed(key))
		assert.Equal(t, http.StatusServiceUnavailable, got.Code)
		assert.Contains(t, got.Body.String(), "can't be recorded")
		assert.Equal(t, "5", got.Header().Get("Retry-After"))
	})
}

// After a backup was put back, no handler is called before an operator has adopted the journal. Answers that the
// backup has are given.
func TestRestoredBackup(t *testing.T) {
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
