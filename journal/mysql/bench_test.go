package mysql_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// calls runs b.N times do, by that many callers, and reports the rate.
func calls(b *testing.B, callers int, do func(caller, n int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		group.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				do(c, int(n))
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// An operation is a begin and a complete, each durable. The naive way is a row that is inserted and updated.
func BenchmarkOperation(b *testing.B) {
	server := mysqltest.Start(b, mysqltest.Durable())
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("journal/", callers), func(b *testing.B) {
			opts := options(b, server)
			opts.Unsafe = false
			j, err := mysql.Open(b.Context(), server.DSN(), opts)
			require.NoError(b, err)
			defer j.Close()
			s, err := j.Join(b.Context())
			require.NoError(b, err)
			calls(b, callers, func(_, n int) {
				id := fmt.Sprint("op-", n)
				begun, err := j.Apply(b.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: j.Now(), Session: s.ID(), Intent: intent(id)})
				require.NoError(b, err)
				op := begun.Operation
				_, err = j.Apply(b.Context(), machine.Event{
					Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: j.Now(), Session: s.ID(), Claim: op.Claim, Attempts: 1, Delivered: true,
					Answer: &journal.Answer{Status: 201, Body: []byte("paid")},
				})
				require.NoError(b, err)
			})
		})
		b.Run(fmt.Sprint("naive/", callers), func(b *testing.B) {
			name := server.Schema(b)
			_, err := server.DB().Exec("CREATE DATABASE " + name)
			require.NoError(b, err)
			_, err = server.DB().Exec("CREATE TABLE " + name + ".operations (name VARCHAR(100) PRIMARY KEY, state INT NOT NULL, request BLOB, answer BLOB) ENGINE=InnoDB")
			require.NoError(b, err)
			db := server.DB()
			db.SetMaxIdleConns(64)
			calls(b, callers, func(_, n int) {
				id := fmt.Sprint("op-", n)
				_, err := db.Exec("INSERT INTO "+name+".operations VALUES (?, 1, ?, NULL)", id, []byte(id))
				require.NoError(b, err)
				_, err = db.Exec("UPDATE "+name+".operations SET state = 2, answer = ? WHERE name = ?", []byte("paid"), id)
				require.NoError(b, err)
			})
		})
	}
}
