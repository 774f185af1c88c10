package rows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/rows"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// A transaction on a lane that is made while a confirmation waits for another transaction is decided after the confirmation, or
// not committed.
func TestAConfirmationFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	server := mysqltest.Shared(t)
	name := server.Schema(t)
	other := driver(t, server, name)
	t.Cleanup(func() { _ = other.Close() })
	server.Exec(t, "UPDATE "+name+".journal SET restored = 'a test'")
	of := driver(t, server, name)
	t.Cleanup(func() { _ = of.Close() })
	begin := func(d *rows.Driver) (tx rowstore.Tx, head rowstore.Head) {
		err := rowstore.ErrLocked
		for errors.Is(err, rowstore.ErrLocked) {
			tx, head, _, err = d.Begin(t.Context(), rowstore.Keys{})
		}
		require.NoError(t, err)
		return tx, head
	}
	waiting := func(least int) bool {
		var n int
		err := server.DB().QueryRow("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n)
		return err == nil && n >= least
	}
	const answers = 150 * time.Millisecond // the server answers from a cache that was read within the last 100 ms
	release := holding(t, server, "SELECT id FROM "+name+".sessions WHERE id <> ? FOR UPDATE", "")
	confirmed := make(chan error, 1)
	go func() { confirmed <- of.Confirm(t.Context()) }()
	require.Eventually(t, func() bool { return waiting(1) }, time.Minute, answers)
	begun := make(chan struct{})
	var late rowstore.Tx
	var head rowstore.Head
	go func() {
		defer close(begun)
		late, head = begin(other)
	}()
	require.Eventually(t, func() bool {
		select {
		case <-begun:
			return true
		default:
			return waiting(2)
		}
	}, time.Minute, answers)
	release()
	require.NoError(t, <-confirmed)
	<-begun
	if err := late.Commit(t.Context(), head, nil); !errors.Is(err, rowstore.ErrMissed) {
		require.NoError(t, err)
		assert.EqualValues(t, 2, head.Epoch, "it was decided after the confirmation")
	}
}
