package rows_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// A transaction on a lane that is made while a leap of the clock waits for another transaction is decided after the leap, or
// not committed.
func TestALeapFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	const leaps = `{"number":1,"untold":[]}`
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	of := driver(t, server, schema)
	defer of.Close()
	other := driver(t, server, schema)
	defer other.Close()
	begin := func(d rowstore.Driver) (tx rowstore.Tx, head rowstore.Head) {
		err := rowstore.ErrLocked
		for errors.Is(err, rowstore.ErrLocked) {
			tx, head, _, err = d.Begin(t.Context(), rowstore.Keys{Lock: rowstore.WaitLock})
		}
		require.NoError(t, err)
		return tx, head
	}
	busy, _ := begin(other)
	leapt := make(chan struct{})
	go func() {
		defer close(leapt)
		err := rowstore.ErrLocked
		for errors.Is(err, rowstore.ErrLocked) {
			tx, head := begin(of)
			head.Leaps = leaps
			err = tx.Commit(t.Context(), head, nil)
		}
		assert.NoError(t, err)
	}()
	table, conn := pgx.Identifier{schema}.Sanitize()+".lanes", server.Conn(t)
	waits := func(statement string) (is bool) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND starts_with(query, $1))", statement+table).Scan(&is))
		return is
	}
	for !waits("UPDATE ") {
	}
	begun := make(chan struct{})
	var late rowstore.Tx
	var head rowstore.Head
	go func() {
		defer close(begun)
		late, head = begin(other)
	}()
	for isBegun := false; !isBegun && !waits("INSERT INTO "); {
		select {
		case <-begun:
			isBegun = true
		default:
		}
	}
	busy.Rollback()
	<-leapt
	<-begun
	if err := late.Commit(t.Context(), head, nil); !errors.Is(err, rowstore.ErrMissed) {
		require.NoError(t, err)
		assert.Equal(t, leaps, head.Leaps, "it was decided after the leap")
	}
}

// A transaction on a lane that is made while a confirmation waits for another transaction is decided after the confirmation, or
// not committed.
func TestAConfirmationFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	other := driver(t, server, schema)
	defer other.Close()
	named, conn := pgx.Identifier{schema}.Sanitize(), server.Conn(t)
	_, err := conn.Exec(t.Context(), "UPDATE "+named+".journal SET restored = 'a test'")
	require.NoError(t, err)
	of := driver(t, server, schema)
	defer of.Close()
	waits := func(statement string) (is bool) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND starts_with(query, $1))", statement).Scan(&is))
		return is
	}
	holder, err := server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT FROM "+named+".sessions FOR UPDATE")
	require.NoError(t, err)
	confirmed := make(chan error, 1)
	go func() { confirmed <- of.Confirm(t.Context()) }()
	for !waits("UPDATE " + named + ".sessions") {
	}
	begun := make(chan struct{})
	var late rowstore.Tx
	var head rowstore.Head
	go func() {
		defer close(begun)
		err := rowstore.ErrLocked
		for errors.Is(err, rowstore.ErrLocked) {
			late, head, _, err = other.Begin(t.Context(), rowstore.Keys{Lock: rowstore.WaitLock})
		}
		assert.NoError(t, err)
	}()
	for isBegun := false; !isBegun && !waits("INSERT INTO "+named+".lanes"); {
		select {
		case <-begun:
			isBegun = true
		default:
		}
	}
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, <-confirmed)
	<-begun
	if err := late.Commit(t.Context(), head, nil); !errors.Is(err, rowstore.ErrMissed) {
		require.NoError(t, err)
		assert.EqualValues(t, 2, head.Epoch, "it was decided after the confirmation")
	}
}
