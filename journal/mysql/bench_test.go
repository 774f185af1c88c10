package mysql_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// The work is that of the PostgreSQL store's measurement: an intent of about 0.9 KB and an answer of about 0.75 KB.
var (
	intentHead = bytes.Repeat([]byte("h"), 440)
	intentBody = bytes.Repeat([]byte("amount=100&"), 40)
	answerHead = bytes.Repeat([]byte("h"), 300)
	answerBody = bytes.Repeat([]byte(`{"id":"ch_1"}`), 34)
)

// calls runs b.N times do, by that many callers, and reports the rate.
func calls(b *testing.B, callers int, do func(key string)) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ResetTimer()
	for range callers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				do(uuid.NewString())
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// An operation is a begin and a complete, each durable. "naive" is a transaction for each of the two, which reads the row that
// it decides by. "statements" is an INSERT and an UPDATE, which decide nothing.
func BenchmarkOperation(b *testing.B) {
	server := mysqltest.Start(b, mysqltest.Durable())
	for _, callers := range []int{1, 8, 64} {
		for _, contender := range []struct {
			name string
			open func(*testing.B, *mysqltest.Server) (operation func(key string))
		}{{"journal", ofJournal}, {"naive", naive}, {"statements", statements}} {
			b.Run(fmt.Sprint(contender.name, "/", callers), func(b *testing.B) { calls(b, callers, contender.open(b, server)) })
		}
	}
}

func ofJournal(b *testing.B, server *mysqltest.Server) func(key string) {
	opts := options(b, server)
	opts.Unsafe = false
	j, err := mysql.Open(b.Context(), server.DSN(), opts)
	require.NoError(b, err)
	b.Cleanup(func() { _ = j.Close() })
	s, err := j.Join(b.Context())
	require.NoError(b, err)
	return func(key string) {
		begun, err := j.Apply(b.Context(), machine.Event{
			Kind: machine.EventBegin, Ref: journal.Ref{ID: key}, New: true, At: j.Now(), Session: s.ID(),
			Intent: &machine.Intent{
				Naming: journal.Generated, Provider: "stripe", Endpoint: "POST /v1/", Key: key, Fingerprint: string(intentHead[:178]),
				Terms: journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
				Request: journal.Request{
					Method: http.MethodPost, URL: "https://api.stripe.com/v1/charges",
					Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Stripe-Version": {"2025-03-31.basil"}},
					Body:   intentBody, WithheldHeaders: []string{"Authorization"},
				},
			},
		})
		require.NoError(b, err)
		op := begun.Operation
		_, err = j.Apply(b.Context(), machine.Event{
			Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: j.Now(), Session: s.ID(), Claim: op.Claim, Attempts: 1, Delivered: true,
			Answer: &journal.Answer{
				Status: http.StatusOK, Body: answerBody,
				Header: http.Header{"Content-Type": {"application/json"}, "Request-Id": {"req_0123456789abcd"}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
			},
		})
		require.NoError(b, err)
	}
}

// tables makes a table of operations, with an own session that lives, and returns the tables' database.
func tables(b *testing.B, server *mysqltest.Server) (schema string) {
	schema = server.Schema(b)
	server.Exec(b, "CREATE DATABASE "+schema)
	server.Exec(b, "CREATE TABLE "+schema+".sessions (id VARBINARY(64) PRIMARY KEY, expires_at DATETIME NOT NULL) ENGINE=InnoDB")
	server.Exec(b, "INSERT INTO "+schema+".sessions VALUES ('own', NOW() + INTERVAL 1 DAY)")
	server.Exec(b, "CREATE TABLE "+schema+`.operations (name VARBINARY(64) PRIMARY KEY, state INT NOT NULL, session VARBINARY(64), began_at BIGINT NOT NULL, settled_at BIGINT,
		request BLOB NOT NULL, request_body BLOB NOT NULL, answer BLOB, answer_body BLOB, KEY (session)) ENGINE=InnoDB`)
	server.DB().SetMaxOpenConns(64)
	server.DB().SetMaxIdleConns(64)
	return schema
}

const (
	insertOne = ".operations (name, state, session, began_at, request, request_body) VALUES (?, 1, 'own', ?, ?, ?)"
	updateOne = ".operations SET state = 3, session = NULL, settled_at = ?, answer = ?, answer_body = ? WHERE name = ?"
)

func naive(b *testing.B, server *mysqltest.Server) func(key string) {
	schema, db := tables(b, server), server.DB()
	deciding := func(by string, arg any, statement string, args ...any) {
		tx, err := db.BeginTx(b.Context(), nil)
		require.NoError(b, err)
		var is int
		require.NoError(b, tx.QueryRow(by, arg).Scan(&is))
		require.Equal(b, 1, is)
		_, err = tx.Exec(statement, args...)
		require.NoError(b, err)
		require.NoError(b, tx.Commit())
	}
	return func(key string) {
		deciding("SELECT expires_at > NOW() FROM "+schema+".sessions WHERE id = ?", "own",
			"INSERT INTO "+schema+insertOne, key, time.Now().UnixMilli(), intentHead, intentBody)
		deciding("SELECT state FROM "+schema+".operations WHERE name = ? FOR UPDATE", key,
			"UPDATE "+schema+updateOne, time.Now().UnixMilli(), answerHead, answerBody, key)
	}
}

func statements(b *testing.B, server *mysqltest.Server) func(key string) {
	schema, db := tables(b, server), server.DB()
	return func(key string) {
		_, err := db.Exec("INSERT INTO "+schema+insertOne, key, time.Now().UnixMilli(), intentHead, intentBody)
		require.NoError(b, err)
		_, err = db.Exec("UPDATE "+schema+updateOne, time.Now().UnixMilli(), answerHead, answerBody, key)
		require.NoError(b, err)
	}
}
