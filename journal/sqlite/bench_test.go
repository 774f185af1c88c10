//go:build unix

package sqlite_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore/rowstoretest"
	"github.com/onceward/onceward/journal/sqlite"
)

// BenchmarkBeginAndComplete measures operations, two durable commits each, by callers that each wait for their own. It
// uses the journal, with generated keys, with random keys that requests carry, and with references and objects as
// marks. It also uses SQLite in the naive way, with a transaction for every write (WAL, synchronous=FULL, one
// connection). It needs a real disk: set TMPDIR if /tmp is memory. Compare only within one run.
func BenchmarkBeginAndComplete(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d/journal", callers), func(b *testing.B) { run(b, callers, newOnceward(b, journal.Generated, sqlite.Options{}, false)) })
		b.Run(fmt.Sprintf("callers=%d/sealed", callers), func(b *testing.B) {
			run(b, callers, newOnceward(b, journal.Generated, sqlite.Options{Seal: rowstoretest.Ring(b, "k1")}, false))
		})
		b.Run(fmt.Sprintf("callers=%d/carried", callers), func(b *testing.B) { run(b, callers, newOnceward(b, journal.Carried, sqlite.Options{}, false)) })
		b.Run(fmt.Sprintf("callers=%d/recognised", callers), func(b *testing.B) {
			run(b, callers, newOnceward(b, journal.Generated, sqlite.Options{}, true))
		})
		b.Run(fmt.Sprintf("callers=%d/naive", callers), func(b *testing.B) { run(b, callers, newNaive(b)) })
	}
}

// run makes callers do b.N operations.
func run(b *testing.B, callers int, operation func(key string) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	before := processorTime(b)
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := operation(uuid.NewString()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(0, "ns/op")
}

// processorTime is the processor time of this process so far.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

var (
	requestBody = bytes.Repeat([]byte("amount=100&"), 36)
	answerBody  = bytes.Repeat([]byte(`{"id":"ch_1"}`), 34)
)

func newOnceward(b *testing.B, naming journal.Naming, opts sqlite.Options, recognised bool) func(key string) error {
	j, err := sqlite.Open(filepath.Join(b.TempDir(), "journal.db"), opts)
	require.NoError(b, err)
	b.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(b.Context())
	require.NoError(b, err)
	return func(key string) error {
		reference, object := "", ""
		if recognised {
			reference, object = "ref-"+key, "charge ch-"+key
		}
		begun, err := j.Apply(b.Context(), machine.Event{
			Kind: machine.EventBegin, Ref: journal.Ref{ID: key}, New: naming == journal.Generated, At: time.Now(), Session: s.ID(),
			Intent: &machine.Intent{
				Naming: naming, Provider: "stripe", Endpoint: "POST /v1/charges", Key: key, Reference: reference,
				Fingerprint: "v1:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
				Terms:       journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
				Request: journal.Request{
					Method: http.MethodPost, URL: "https://api.stripe.com/v1/charges",
					Header:          http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Stripe-Version": {"2025-03-31.basil"}},
					Body:            requestBody,
					WithheldHeaders: []string{"Authorization"},
				},
			},
		})
		if err != nil {
			return err
		}
		_, err = j.Apply(b.Context(), machine.Event{
			Kind: machine.EventComplete, Ref: begun.Operation.Ref, Handle: begun.Operation.Handle, At: time.Now(), Session: s.ID(),
			Claim: begun.Operation.Claim, Attempts: 1, Delivered: true, Object: object,
			Answer: &journal.Answer{
				Status: http.StatusOK, Body: answerBody,
				Header: http.Header{"Content-Type": {"application/json"}, "Request-Id": {"req_0123456789abcd"},
					"Stripe-Version": {"2025-03-31.basil"}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
			},
		})
		return err
	}
}

func newNaive(b *testing.B) func(key string) error {
	dsn := "file:" + filepath.Join(b.TempDir(), "naive.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)"
	db, err := sql.Open("sqlite", dsn)
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(b.Context(), `CREATE TABLE operations (key TEXT PRIMARY KEY, state INTEGER NOT NULL, began_at INTEGER NOT NULL,
		settled_at INTEGER, request TEXT, request_body BLOB, answer TEXT, answer_body BLOB)`)
	require.NoError(b, err)
	begin, err := db.PrepareContext(b.Context(), "INSERT INTO operations (key, state, began_at, request, request_body) VALUES (?, 2, ?, ?, ?)")
	require.NoError(b, err)
	complete, err := db.PrepareContext(b.Context(), "UPDATE operations SET state = 3, settled_at = ?, answer = ?, answer_body = ? WHERE key = ?")
	require.NoError(b, err)
	head := string(bytes.Repeat([]byte("h"), 280))
	return func(key string) error {
		if _, err := begin.ExecContext(b.Context(), key, time.Now().UnixMilli(), head, requestBody); err != nil {
			return err
		}
		_, err := complete.ExecContext(b.Context(), time.Now().UnixMilli(), head[:180], answerBody, key)
		return err
	}
}

// BenchmarkClaim measures a claim of the first 100 due of 100,000 pending
// operations, its commit included.
func BenchmarkClaim(b *testing.B) {
	const pending, limit = 100_000, 100
	j, err := sqlite.Open(filepath.Join(b.TempDir(), "journal.db"), sqlite.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(b.Context())
	require.NoError(b, err)
	park := func(op journal.Operation) {
		ev := complete(op, s)
		ev.Kind, ev.Answer, ev.Delivered, ev.Open = machine.EventPark, nil, false, true
		_, err := j.Apply(b.Context(), ev)
		require.NoError(b, err)
	}
	sideBySide(pending, func(i int) {
		begun, err := j.Apply(b.Context(), begin(fmt.Sprint("op-", i), s))
		require.NoError(b, err)
		park(begun.Operation)
	})
	for b.Loop() {
		results, err := j.Claim(b.Context(), claim(s), limit)
		require.NoError(b, err)
		require.Len(b, results, limit)
		b.StopTimer()
		sideBySide(limit, func(i int) { park(results[i].Operation) })
		b.StartTimer()
	}
}

// BenchmarkGet measures a look-up by name, and one by generated key, among 50,000
// operations of each kind.
func BenchmarkGet(b *testing.B) {
	const many = 50_000
	j, err := sqlite.Open(filepath.Join(b.TempDir(), "journal.db"), sqlite.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(b.Context())
	require.NoError(b, err)
	sideBySide(many, func(i int) {
		_, err := j.Apply(b.Context(), begin(fmt.Sprint("named-", i), s))
		require.NoError(b, err)
		_, err = j.Apply(b.Context(), generate(fmt.Sprint("generated-", i), s))
		require.NoError(b, err)
	})
	for _, kind := range []string{"named", "generated"} {
		b.Run(kind, func(b *testing.B) {
			i := 0
			for b.Loop() {
				i = (i + 7919) % many
				_, err := j.Get(b.Context(), journal.Ref{ID: fmt.Sprint(kind, "-", i)})
				require.NoError(b, err)
			}
		})
	}
}
