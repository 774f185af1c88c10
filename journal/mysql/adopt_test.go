package mysql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/mysql"
	"github.com/onceward/onceward/journal/mysql/mysqltest"
)

// adopted has another process adopt the journal, which a test makes count as restored.
func adopted(t *testing.T, server *mysqltest.Server, opts mysql.Options) *mysql.Journal {
	t.Helper()
	server.Exec(t, "UPDATE "+opts.Schema+".journal SET restored = 'a test says so'")
	other := open(t, server, opts)
	_, err := other.Join(t.Context())
	require.ErrorIs(t, err, journal.ErrRestored)
	require.NoError(t, other.Adopt(t.Context()))
	return other
}

// A process that learns of the restore only after another process's Adopt does not make the journal count as restored again.
func TestLateReportAfterAnAdopt(t *testing.T) {
	server := mysqltest.Shared(t)
	opts := options(t, server)
	j := open(t, server, opts)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	begun(t, j, "a")
	begun(t, j, "b")
	server.Exec(t, "UPDATE "+opts.Schema+".lanes SET batch = batch - 1")
	other := adopted(t, server, opts)
	_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: "c"}, At: time.Now(), Session: s.ID(), Intent: intent("c")})
	require.ErrorIs(t, err, journal.ErrSessionLost)
	begun(t, other, "d")
	begun(t, j, "e")
}

// Another process adopts the journal while a commit is under way. If the caller gets a success, the operation is recorded, and
// counts as sent for the other process.
func TestAdoptDuringACommit(t *testing.T) {
	server := mysqltest.Shared(t)
	for name, row := range map[string]struct {
		fault int32
		lands bool
	}{"the commit comes late": {holdsRequest, false}, "the commit's answer is lost": {dropsAnswer, true}, "the commit is lost": {dropsRequest, false}} {
		t.Run(name, func(t *testing.T) {
			opts := options(t, server)
			r := newRelay(t, server.Addr())
			require.NoError(t, mysql.Migrate(t.Context(), server.DSN(), opts.Schema))
			opts.Migrate = false
			j, err := mysql.Open(t.Context(), server.DSNThrough(r.Addr().String()), opts)
			require.NoError(t, err)
			t.Cleanup(func() { _ = j.Close() })
			begun(t, j, "before") // the connections are there
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			r.armed.Store(row.fault)
			r.leads("127.0.0.1:1") // so no new connection asks what became of the commit
			type told struct {
				machine.Result
				err error
			}
			ended := make(chan told, 1)
			go func() {
				result, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventBegin, Ref: journal.Ref{ID: "late"}, At: time.Now(), Session: s.ID(), Intent: intent("late")})
				ended <- told{result, err}
			}()
			require.Eventually(t, func() bool { return r.armed.Load() == 0 }, 20*time.Second, time.Millisecond)
			if row.lands {
				watch := open(t, server, opts)
				require.Eventually(t, func() bool { _, err := watch.Get(t.Context(), journal.Ref{ID: "late"}); return err == nil }, 20*time.Second, time.Millisecond)
			}
			other := adopted(t, server, opts)
			r.leads(server.Addr())
			close(r.released)
			is := <-ended
			op, err := other.Get(t.Context(), journal.Ref{ID: "late"})
			if is.err == nil && is.Decision == machine.Execute {
				require.NoError(t, err, "it was acknowledged")
				assert.NotEqual(t, journal.StateInFlight, op.State, "and counts as sent, as Adopt saw it")
			}
			if row.lands {
				require.NoError(t, err)
			}
			if err == nil {
				assert.NotEqual(t, s.ID(), op.Holder, "its session was cut off")
			}
			begun(t, other, "next")
			begun(t, j, "after")
		})
	}
}
