package rows_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/postgres/internal/rows"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// fence is a change that fences lanes, and waits for another transaction. Two processes have the journal open.
type fence struct {
	server *postgrestest.Cluster
	schema string
	named  string // likewise, quoted
	conn   *pgx.Conn

	of, other *rows.Driver
}

func newFence(t *testing.T, restored bool) fence {
	t.Helper()
	server := postgrestest.Shared(t)
	schema := server.Schema(t)
	f := fence{server: server, schema: schema, named: pgx.Identifier{schema}.Sanitize(), conn: server.Conn(t)}
	f.other = driver(t, server, schema)
	if restored {
		_, err := f.conn.Exec(t.Context(), "UPDATE "+f.named+".journal SET restored = 'a test'")
		require.NoError(t, err)
	}
	f.of = driver(t, server, schema)
	t.Cleanup(func() { f.of.Close(); f.other.Close() })
	return f
}

// begin begins a transaction, with as many tries as it takes.
func begin(t *testing.T, d *rows.Driver) (tx rowstore.Tx, head rowstore.Head) {
	err := rowstore.ErrLocked
	for errors.Is(err, rowstore.ErrLocked) {
		tx, head, _, err = d.Begin(t.Context(), rowstore.Keys{Lock: rowstore.WaitLock})
	}
	assert.NoError(t, err)
	return tx, head
}

// waits reports whether a statement that begins so waits for a lock.
func (f fence) waits(t *testing.T, statement string) (is bool) {
	t.Helper()
	require.NoError(t, f.conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND starts_with(query, $1))", statement).Scan(&is))
	return is
}

// commits lets change run until it waits with that statement. Then the other process begins a transaction on a new lane. Then
// release ends the wait. commits reports whether the transaction commits after all, and returns the head of its decision.
func (f fence) commits(t *testing.T, statement string, change func() error, release func()) (head rowstore.Head, landed bool) {
	t.Helper()
	changed := make(chan error, 1)
	go func() { changed <- change() }()
	for !f.waits(t, statement) {
	}
	begun := make(chan struct{})
	var late rowstore.Tx
	go func() {
		defer close(begun)
		late, head = begin(t, f.other)
	}()
	for isBegun := false; !isBegun && !f.waits(t, "INSERT INTO "+f.named+".lanes"); {
		select {
		case <-begun:
			isBegun = true
		default:
		}
	}
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

func TestALeapFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	const leaps = `{"number":1,"untold":[]}`
	f := newFence(t, false)
	busy, _ := begin(t, f.other)
	head, landed := f.commits(t, "UPDATE "+f.named+".lanes", func() error {
		err := rowstore.ErrLocked
		for errors.Is(err, rowstore.ErrLocked) {
			tx, head := begin(t, f.of)
			head.Leaps = leaps
			err = tx.Commit(t.Context(), head, nil)
		}
		return err
	}, busy.Rollback)
	assert.True(t, !landed || head.Leaps == leaps)
}

func TestAConfirmationFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	f := newFence(t, true)
	holder, err := f.server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT FROM "+f.named+".sessions FOR UPDATE")
	require.NoError(t, err)
	head, landed := f.commits(t, "UPDATE "+f.named+".sessions", func() error { return f.of.Confirm(t.Context()) },
		func() { require.NoError(t, holder.Rollback(t.Context())) })
	assert.True(t, !landed || head.Epoch == 2)
}

func TestTheRestoredStateFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	const why = "a test"
	f := newFence(t, false)
	busy, _ := begin(t, f.other)
	head, landed := f.commits(t, "UPDATE "+f.named+".lanes", func() error {
		c, err := f.of.Dial(t.Context())
		if err != nil {
			return err
		}
		defer c.HangUp()
		return f.of.IsRestored(t.Context(), c, 1, why)
	}, busy.Rollback)
	assert.True(t, !landed || head.Restored == why)
}

func TestTheEndOfASessionFencesALaneThatIsMadeMeanwhile(t *testing.T) {
	f := newFence(t, false)
	id, err := f.other.Join(t.Context())
	require.NoError(t, err)
	busy, _ := begin(t, f.other)
	_, landed := f.commits(t, "UPDATE "+f.named+".lanes", func() error { return f.of.Bury(t.Context(), []string{id}, nil) }, busy.Rollback)
	assert.True(t, !landed || f.other.Lost(id))
}

// A session that is renewed while another process is about to end the session goes on.
func TestASessionThatIsRenewedMeanwhileIsNotEnded(t *testing.T) {
	f := newFence(t, false)
	_, err := f.conn.Exec(t.Context(), "INSERT INTO "+f.named+".sessions (id, process, epoch, beats, expires_at) VALUES ('slow', 'slow', 1, 7, 'epoch')")
	require.NoError(t, err)
	renews, err := f.server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = renews.Exec(t.Context(), "UPDATE "+f.named+".sessions SET beats = 8, expires_at = now() + interval '20 s' WHERE id = 'slow'")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- f.of.Bury(t.Context(), []string{"slow"}, map[string]int64{"slow": 7}) }()
	for !f.waits(t, "") {
	}
	require.NoError(t, renews.Commit(t.Context()))
	require.NoError(t, <-ended)
	living, err := f.of.Living(t.Context(), []string{"slow"})
	require.NoError(t, err)
	assert.NotEmpty(t, living)
}

// A process that starts while a confirmation is on its way belongs to the epoch that the confirmation begins.
func TestAProcessThatStartsDuringAConfirmation(t *testing.T) {
	f := newFence(t, true)
	holder, err := f.server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "SELECT FROM "+f.named+".sessions FOR UPDATE")
	require.NoError(t, err)
	confirmed, started := make(chan error, 1), make(chan *rows.Driver, 1)
	go func() { confirmed <- f.of.Confirm(t.Context()) }()
	for !f.waits(t, "UPDATE "+f.named+".sessions") {
	}
	go func() { started <- driver(t, f.server, f.schema) }()
	for len(started) == 0 && !f.waits(t, "INSERT INTO "+f.named+".sessions") {
	}
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, <-confirmed)
	d := <-started
	defer d.Close()
	tx, _ := begin(t, d)
	tx.Rollback()
	assert.EqualValues(t, 2, d.Member().Epoch)
}
