package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// All connections of the application's pool are in use by transactions that call the journal. No such call takes
// another connection. A begin of a name that the caller's own transaction holds waits as long as its context allows,
// and succeeds as soon as it can.
func TestExhaustedPoolOfTheApplication(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	config, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	closes(t, pool)
	ctx := within(t, time.Minute)
	var all []pgx.Tx
	for range config.MaxConns {
		tx, err := pool.Begin(ctx)
		require.NoError(t, err)
		all = append(all, tx)
	}
	j, err := postgres.OpenPool(ctx, pool, options(t, server))
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	s := join(t, j)
	for i, tx := range all {
		name := fmt.Sprint("order-", i)
		r, err := j.EnqueueTx(ctx, postgres.Pgx(tx), enqueue(name))
		require.NoError(t, err)
		assert.Equal(t, machine.Recorded, r.Decision)
		r, err = j.Apply(ctx, begin(name+"/another", s))
		require.NoError(t, err)
		assert.Equal(t, machine.Execute, r.Decision)
		impatient, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err = j.Apply(impatient, begin(name, s))
		stop()
		require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for its own transaction")
	}
	require.Zero(t, pool.Stat().IdleConns(), "else this shows nothing")
	for i, tx := range all {
		require.NoError(t, tx.Commit(ctx))
		r, err := j.Apply(ctx, begin(fmt.Sprint("order-", i), s))
		require.NoError(t, err)
		assert.Contains(t, []machine.Decision{machine.Execute, machine.Wait}, r.Decision, "what the impatient caller asked for may be recorded")
		assert.Equal(t, s.ID(), r.Operation.Holder)
	}
}

// Transactions of BeginTx have four connections of their own. A caller that begins a fifth waits as long as its context
// allows, and blocks no other caller.
func TestBeginTxBeyondItsConnections(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	j := open(t, server, options(t, server))
	s := join(t, j)
	ctx := within(t, time.Minute)
	var all []journal.Tx
	for range 4 {
		tx, err := j.BeginTx(ctx)
		require.NoError(t, err)
		all = append(all, tx)
	}
	impatient, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	_, err := j.BeginTx(impatient)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = j.Apply(ctx, begin("order", s))
	require.NoError(t, err)
	for _, tx := range all {
		require.NoError(t, tx.Rollback(ctx))
	}
	tx, err := j.BeginTx(ctx)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(ctx))
}
