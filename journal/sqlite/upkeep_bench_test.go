//go:build unix

package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// invoice is a body of about that many bytes, with repetitions like JSON's.
func invoice(size int) []byte {
	var body bytes.Buffer
	body.WriteString(`{"lines":[`)
	for body.Len() < size {
		fmt.Fprintf(&body, `{"id":%q,"description":"Monthly subscription","amount":%d,"currency":"eur"},`, uuid.NewString(), body.Len()*7919%100_000)
	}
	body.WriteString(`{}]}`)
	return body.Bytes()
}

// BenchmarkLargeBodies measures operations whose request and answer have large bodies,
// by 8 callers.
func BenchmarkLargeBodies(b *testing.B) {
	for _, size := range []int{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "journal.db")
			j, err := sqlite.Open(path, sqlite.Options{})
			require.NoError(b, err)
			b.Cleanup(func() { _ = j.Close() })
			s, err := j.Join(b.Context())
			require.NoError(b, err)
			body := invoice(size)
			run(b, 8, func(key string) error {
				ev := generate(key, s)
				ev.Intent.Request.Body = body
				begun, err := j.Apply(b.Context(), ev)
				if err != nil {
					return err
				}
				ev = complete(begun.Operation, s)
				ev.Answer.Body = body
				_, err = j.Apply(b.Context(), ev)
				return err
			})
			require.NoError(b, sqlite.Flush(j))
			st, err := j.Stats(b.Context())
			require.NoError(b, err)
			b.ReportMetric(float64(st.FileBytes)/float64(b.N), "disk-B/op")
		})
	}
}

// BenchmarkReap measures how long 16 callers wait for an operation while completed ones are reaped, and without that,
// in turns of a second. ONCEWARD_REAP sets the number of completed operations. Default: 100,000.
func BenchmarkReap(b *testing.B) {
	many := 100_000
	if asked, err := strconv.Atoi(os.Getenv("ONCEWARD_REAP")); err == nil {
		many = asked
	}
	for b.Loop() {
		benchmarkReap(b, many)
	}
}

func benchmarkReap(b *testing.B, many int) {
	j, err := sqlite.Open(filepath.Join(b.TempDir(), "journal.db"), sqlite.Options{})
	require.NoError(b, err)
	defer j.Close()
	s, err := j.Join(b.Context())
	require.NoError(b, err)
	old := time.Now().Add(-1000 * time.Hour)
	apply := func(ev machine.Event) journal.Operation {
		result, err := j.Apply(b.Context(), ev)
		if err != nil {
			b.Error(err)
		}
		return result.Operation
	}
	sideBySide(many, func(i int) {
		ev := generate(fmt.Sprint("generated-", i), s)
		if i%4 == 0 {
			ev = begin(fmt.Sprint("named-", i), s)
		}
		ev.At = old
		done := complete(apply(ev), s)
		done.At = old
		apply(done)
	})
	// foreground returns how long operations took until ctx ended.
	foreground := func(ctx context.Context) (waits []time.Duration) {
		var mu sync.Mutex
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				var mine []time.Duration
				for ctx.Err() == nil {
					from := time.Now()
					apply(complete(apply(generate(uuid.NewString(), s)), s))
					mine = append(mine, time.Since(from))
				}
				mu.Lock()
				waits = append(waits, mine...)
				mu.Unlock()
			})
		}
		callers.Wait()
		return waits
	}
	reaped, took := 0, time.Duration(0)
	var with, without []time.Duration
	for turn, done := 0, false; !done && turn < 60; turn++ {
		quiet, cancel := context.WithTimeout(b.Context(), time.Second)
		without = append(without, foreground(quiet)...)
		cancel()
		busy, cancel := context.WithTimeout(b.Context(), time.Second)
		var reaper sync.WaitGroup
		reaper.Go(func() {
			for from := time.Now(); busy.Err() == nil && !done; {
				n, err := j.Reap(b.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: 100 * time.Hour}, 100)
				if err != nil {
					b.Error(err)
				}
				reaped += n
				done = n < 100
				took += time.Since(from)
				from = time.Now()
			}
			cancel()
		})
		with = append(with, foreground(busy)...)
		reaper.Wait()
		cancel()
	}
	slices.Sort(with)
	slices.Sort(without)
	percentile := func(waits []time.Duration, p int) time.Duration { return waits[(len(waits)-1)*p/100] }
	b.Logf("with the reaper p50 %v, p99 %v (of %d); without p50 %v, p99 %v (of %d)",
		percentile(with, 50), percentile(with, 99), len(with), percentile(without, 50), percentile(without, 99), len(without))
	b.ReportMetric(float64(percentile(with, 99))/float64(percentile(without, 99)), "p99-ratio")
	b.ReportMetric(float64(reaped)/took.Seconds(), "reaped/s")
	b.ReportMetric(0, "ns/op")
}
