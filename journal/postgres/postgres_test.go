package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// options returns the options of tests, on a schema of their own.
func options(t testing.TB, server *postgrestest.Cluster) postgres.Options {
	return postgres.Options{Schema: server.Schema(t), Deployment: "test", Migrate: true, Unsafe: true}
}

func open(t testing.TB, server *postgrestest.Cluster, opts postgres.Options) *postgres.Journal {
	t.Helper()
	j, err := postgres.Open(t.Context(), server.URL(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func join(t testing.TB, j *postgres.Journal) machine.Session {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	return s
}

// begin is an event by which a session begins a named operation.
func begin(id string, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: s.ID(),
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: "v1:" + id, Key: "key-of-" + id,
			Request: journal.Request{Method: "POST", URL: "https://ledger.example.com/charges", Body: []byte(id)},
		},
	}
}

func complete(op journal.Operation, s machine.Session) machine.Event {
	return machine.Event{
		Kind: machine.EventComplete, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: s.ID(),
		Claim: op.Claim, Generation: op.Generation, Attempts: 1, Delivered: true,
		Answer: &journal.Answer{Status: 201, Body: []byte("paid " + op.ID)},
	}
}

func TestOneOperationLives(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s := join(t, j)
	begun, err := j.Apply(t.Context(), begin("order-1", s))
	require.NoError(t, err)
	require.Equal(t, machine.Execute, begun.Decision)
	again, err := j.Apply(t.Context(), begin("order-1", s))
	require.NoError(t, err)
	assert.Equal(t, machine.Wait, again.Decision)
	completed, err := j.Apply(t.Context(), complete(begun.Operation, s))
	require.NoError(t, err)
	require.Equal(t, machine.Recorded, completed.Decision)
	next := open(t, server, opts)
	replayed, err := next.Apply(t.Context(), begin("order-1", join(t, next)))
	require.NoError(t, err)
	assert.Equal(t, machine.Replay, replayed.Decision)
	assert.Equal(t, []byte("paid order-1"), replayed.Operation.Answer.Body)
}
