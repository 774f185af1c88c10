package rows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/mysql/internal/rows"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// fence is a change that fences lanes, and waits for another transaction. Two processes have the journal open.
type fence struct {
	server *mysqltest.Server
	name   string // the database

	of, other *rows.Driver
}

func newFence(t *testing.T, restored bool) fence {
	t.Helper()
	f := fence{server: mysqltest.Shared(t)}
	f.name = f.server.Schema(t)
	f.other = driver(t, f.server, f.name)
	if restored {
		f.server.Exec(t, "UPDATE "+f.name+".journal SET restored = 'a test'")
	}
	f.of = driver(t, f.server, f.name)
	t.Cleanup(func() { _, _ = f.of.Close(), f.other.Close() })
	return f
}

// answers is between two questions of waiting: the server answers from a cache that was read within the last 100 ms.
const answers = 150 * time.Millisecond

// waiting reports whether at least so many transactions wait for a lock.
func (f fence) waiting(least int) bool {
	var n int
	err := f.server.DB().QueryRow("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n)
	return err == nil && n >= least
}

// commits lets change run until it waits for a row of the table. Then the other process begins a transaction on a new lane, and
// the wait ends. commits reports whether the transaction commits after all, and returns the head of its decision.
func (f fence) commits(t *testing.T, table, id string, change func() error) (head rowstore.Head, landed bool) {
	t.Helper()
	release := holding(t, f.server, "SELECT 1 FROM "+f.name+"."+table+" = ? FOR UPDATE", []byte(id))
	changed := make(chan error, 1)
	go func() { changed <- change() }()
	require.Eventually(t, func() bool { return f.waiting(1) }, time.Minute, answers)
	begun := make(chan struct{})
	var late rowstore.Tx
	go func() {
		defer close(begun)
		err := rowstore.ErrLocked
		for errors.Is(err, rowstore.ErrLocked) {
			late, head, _, err = f.other.Begin(t.Context(), rowstore.Keys{})
		}
		assert.NoError(t, err)
	}()
	require.Eventually(t, func() bool {
		select {
		case <-begun:
			return true
		default:
			return f.waiting(2)
		}
	}, time.Minute, answers)
	release()
	require.NoError(t, <-changed)
	<-begun
	err := late.Commit(t.Context(), head, nil)
	if !errors.Is(err, rowstore.ErrMissed) {
		require.NoError(t, err)
	}
	return head, err == nil
}

// Each test below has a transaction on a lane that is made while a change waits for another transaction. The transaction is
// decided after the change, or not committed.

func TestAConfirmationFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	f := newFence(t, true)
	head, landed := f.commits(t, "sessions WHERE id", f.of.Member().ID, func() error { return f.of.Confirm(t.Context()) })
	assert.True(t, !landed || head.Epoch == 2)
}

func TestTheRestoredStateFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	const why = "a test"
	f := newFence(t, false)
	busy, _, _, err := f.other.Begin(t.Context(), rowstore.Keys{})
	require.NoError(t, err)
	defer busy.Rollback()
	head, landed := f.commits(t, "lanes WHERE lane = 0 AND process", f.other.Member().ID, func() error {
		c, err := f.of.Dial(t.Context())
		if err != nil {
			return err
		}
		defer c.HangUp()
		return f.of.IsRestored(t.Context(), c, 1, why)
	})
	assert.True(t, !landed || head.Restored == why)
}

func TestTheEndOfASessionFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	f := newFence(t, false)
	id, err := f.other.Join(t.Context())
	require.NoError(t, err)
	busy, _, _, err := f.other.Begin(t.Context(), rowstore.Keys{})
	require.NoError(t, err)
	defer busy.Rollback()
	_, landed := f.commits(t, "sessions WHERE id", id, func() error { return f.of.Bury(t.Context(), []string{id}, nil) })
	assert.True(t, !landed || f.other.Lost(id))
}

// A session that is renewed while another process is about to end the session goes on.
func TestASessionThatIsRenewedMeanwhileIsNotEnded(t *testing.T) {
	f := newFence(t, false)
	f.server.Exec(t, "INSERT INTO "+f.name+".sessions (id, process, epoch, beats, expires_at, started_at, host, pid) VALUES ('slow', 'slow', 1, 7, 0, 0, '', 0)")
	renews, err := f.server.DB().Begin()
	require.NoError(t, err)
	_, err = renews.Exec("UPDATE " + f.name + ".sessions SET beats = 8 WHERE id = 'slow'")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.of.Bury(t.Context(), []string{"slow"}, map[string]int64{"slow": 7}) }()
	require.Eventually(t, func() bool { return f.waiting(1) }, time.Minute, answers)
	require.NoError(t, renews.Commit())
	require.NoError(t, <-ended)
	living, err := f.of.Living(t.Context(), []string{"slow"})
	require.NoError(t, err)
	assert.NotEmpty(t, living)
}

// A process that starts while a confirmation is on its way belongs to the epoch that the confirmation begins.
func TestAProcessThatStartsDuringAConfirmation(t *testing.T) {
	f := newFence(t, true)
	release := holding(t, f.server, "SELECT 1 FROM "+f.name+".handles WHERE name = ? FOR UPDATE", []byte("flows"))
	confirmed, started := make(chan error, 1), make(chan *rows.Driver, 1)
	go func() { confirmed <- f.of.Confirm(t.Context()) }()
	require.Eventually(t, func() bool { return f.waiting(1) }, time.Minute, answers)
	go func() { started <- driver(t, f.server, f.name) }()
	require.Eventually(t, func() bool { return len(started) > 0 || f.waiting(2) }, time.Minute, 10*time.Millisecond)
	release()
	require.NoError(t, <-confirmed)
	d := <-started
	t.Cleanup(func() { _ = d.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := rowstore.ErrLocked
	var tx rowstore.Tx
	for errors.Is(err, rowstore.ErrLocked) {
		tx, _, _, err = d.Begin(ctx, rowstore.Keys{})
	}
	require.NoError(t, err)
	tx.Rollback()
	assert.EqualValues(t, 2, d.Member().Epoch)
}
