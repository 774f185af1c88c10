package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
	"github.com/onceward/onceward/journal/sqlite"
)

var (
	operationsOf = flag.Int("operations", 10_000, "of the benchmarks' journals")
	keptIn       = flag.String("kept", "", "a folder where the benchmarks' file is kept, and looked for; else it is removed")
)

// seeded fills a benchmark's journal. Of a thousand operations one is unknown and forty wait, and a thousand scopes
// have equally many. A few of the first operations belong to a provider that is not used any more.
func seeded(ctx context.Context, j machine.Store, many int, at func() time.Time) error {
	session, err := j.Join(ctx)
	if err != nil {
		return err
	}
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, 64)
	for range cap(failed) {
		all.Go(func() {
			for n := next.Add(1); n <= int64(many); n = next.Add(1) {
				if err := seed(ctx, j, session.ID(), n, at()); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return errors.Join(<-failed, session.End(ctx))
}

func seed(ctx context.Context, j machine.Store, session string, n int64, at time.Time) error {
	provider := "ledger"
	if n < 100 && n%10 == 0 {
		provider = "retired"
	}
	began, err := j.Apply(ctx, machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{Scope: fmt.Sprint("tenant-", n%1000), ID: fmt.Sprintf("invoice-%d/charge", n)}, At: at, Session: session, Asker: n,
		Intent: &machine.Intent{
			Provider: provider, Endpoint: "POST /charges", Fingerprint: "f", Key: fmt.Sprintf("key-%032d", n), Terms: journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(`{"amount":2000}`)},
		},
	})
	if err != nil {
		return err
	}
	op := began.Operation
	ev := machine.Event{Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, Session: session, Claim: op.Claim, At: at, Attempts: 1, Delivered: true,
		Answer: &journal.Answer{Status: 200, Body: []byte(`{"id":"ch_1"}`)}}
	switch {
	case n%1000 == 0:
		ev.Kind, ev.Answer, ev.Cause, ev.Open = machine.EventMarkUnknown, nil, "no answer", true
	case n%25 == 0:
		ev.Kind, ev.Answer, ev.Cause, ev.Unsent, ev.Due, ev.Delivered = machine.EventPark, nil, "connection refused", true, at.Add(time.Hour), false
	}
	_, err = j.Apply(ctx, ev)
	return err
}

// measured lists the commands that the benchmarks measure, each in a separate process.
var measured = [][]string{
	{"ls"}, {"ls", "--oldest-first"}, {"ls", "--state", "unknown"}, {"ls", "--state", "completed"}, {"ls", "--provider", "none"}, {"ls", "--provider", "retired"}, {"ls", "--scope", "none"},
	{"ls", "--scope", "tenant-7"}, {"ls", "--older-than", "1ms"}, {"ls", "--older-than", "1h"}, {"attention"}, {"stats"}, {"flows"}, {"doctor"},
}

func benchmark(b *testing.B, env []string) {
	for _, args := range measured {
		b.Run(fmt.Sprint(args), func(b *testing.B) {
			for b.Loop() {
				s, err := tryIn(b.Context(), env, "", args...)
				require.NoError(b, err)
				require.Contains(b, []int{exitDone, exitFindings}, s.code, s.err)
			}
		})
	}
}

// BenchmarkFile measures the command over a SQLite file: -operations 1000000 -kept /var/tmp for a million.
func BenchmarkFile(b *testing.B) {
	folder := *keptIn
	if folder == "" {
		folder = b.TempDir()
	}
	path := filepath.Join(folder, fmt.Sprintf("onceward-%d.db", *operationsOf))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
		require.NoError(b, err)
		require.NoError(b, seeded(b.Context(), j, *operationsOf, time.Now))
		require.NoError(b, j.Close())
	}
	benchmark(b, []string{"ONCEWARD_JOURNAL=" + path})
}

// BenchmarkPostgres measures it over PostgreSQL.
func BenchmarkPostgres(b *testing.B) {
	server := postgrestest.Start(b, postgrestest.Setting("fsync", "off"))
	j, err := postgres.Open(b.Context(), server.URL(), postgres.Options{Deployment: "test", Migrate: true, Unsafe: true})
	require.NoError(b, err)
	require.NoError(b, seeded(b.Context(), j, *operationsOf, j.Now))
	require.NoError(b, j.Close())
	server.Exec(b, "VACUUM ANALYZE")
	benchmark(b, []string{"ONCEWARD_JOURNAL=" + server.URL()})
}
