package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// seenAt shows the journal an asker's clock, and returns the result.
func seenAt(t *testing.T, j machine.Store, at time.Time) machine.Result {
	t.Helper()
	result, err := j.Apply(t.Context(), machine.Event{Kind: machine.EventClock, At: at})
	require.NoError(t, err)
	return result
}

// Later processes know of a jump of the clock.
func TestClockJumpIsKnownToLaterProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	now := time.Now().Truncate(time.Millisecond).UTC()
	goOn(t, j, "invoice-1")
	far := now.Add(1000 * time.Hour)
	result := seenAt(t, j, far)
	assert.Equal(t, far.Add(machine.Confirmation), result.Unconfirmed)
	assert.True(t, result.Last.Before(far))
	require.NoError(t, j.Close())
	j = open(t, path)
	result = seenAt(t, j, far.Add(time.Minute))
	assert.Equal(t, far.Add(machine.Confirmation), result.Unconfirmed, "it goes on from where it jumped to")
	result = seenAt(t, j, far.Add(machine.Confirmation))
	assert.Zero(t, result.Unconfirmed)
	assert.Equal(t, far.Add(machine.Confirmation), result.Last)
}

func TestAClockThatIsResetStaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	goOn(t, j, "invoice-1")
	now := time.Now().Truncate(time.Millisecond).UTC()
	far := now.Add(1000 * time.Hour)
	seenAt(t, j, far)
	seenAt(t, j, far.Add(machine.Confirmation))
	goOn(t, j, "invoice-2")
	require.NoError(t, j.ResetClock(t.Context(), now))
	for range 2 {
		result := seenAt(t, j, now.Add(time.Second))
		assert.Equal(t, now.Add(time.Second), result.Last)
		assert.Zero(t, result.Unconfirmed)
		require.NoError(t, j.Close())
		j = open(t, path)
	}
	assert.Empty(t, verify(t, j))
}

// A damaged operation does not keep another operation's window open.
func TestClockBesideADamagedOperation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	now := time.Now().Truncate(time.Millisecond).UTC()
	seenAt(t, j, now)
	for _, id := range []string{"a", "b"} { // by a clock that is three hours ahead
		ev := begin(id, s)
		ev.At = now.Add(3 * time.Hour)
		begun, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		park := complete(begun.Operation, s)
		park.Kind, park.Answer, park.Open, park.At = machine.EventPark, nil, true, ev.At
		_, err = j.Apply(t.Context(), park)
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, "UPDATE onceward_rows SET record = x'00' WHERE instr(record, CAST('key-of-a' AS BLOB)) > 0")
	j = open(t, path)
	for _, after := range []time.Duration{0, machine.Confirmation, machine.Confirmation + time.Minute} {
		_, err = j.Apply(t.Context(), machine.Event{Kind: machine.EventClock, At: now.Add(after)})
		assert.NoError(t, err, "it is the damaged one's alone")
	}
	s, err = j.Join(t.Context())
	require.NoError(t, err)
	ev := begin("b", s)
	ev.At = now.Add(4 * time.Hour)
	result, err := j.Apply(t.Context(), ev)
	require.NoError(t, err)
	assert.Equal(t, machine.Stop, result.Decision, "nobody can tell when it was sent")
	assert.True(t, result.Operation.WindowClosed)
}

// An operation that is begun by a clock behind keeps its window, though others write.
func TestBegunBehindWhileOthersWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	alter(t, path, "CREATE TABLE app (x)")
	now := time.Now().Truncate(time.Millisecond).UTC()
	beginAt := func(id string, at time.Time) {
		ev := begin(id, s)
		ev.At = at
		_, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
	}
	beginAt("ahead", now.Add(20*time.Hour))
	seenAt(t, j, now)
	seenAt(t, j, now.Add(machine.Confirmation))
	beginAt("behind", now.Add(3*time.Hour))
	alter(t, path, "INSERT INTO app VALUES (1)")
	seenAt(t, j, now.Add(3*time.Hour+time.Minute))
	for id, closed := range map[string]bool{"ahead": true, "behind": false} {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err)
		assert.Equal(t, closed, op.WindowClosed, id)
	}
}

// A reset of the clock is written even if nothing else is.
func TestClockResetWithNothingToWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	now := time.Now().Truncate(time.Millisecond).UTC()
	seenAt(t, j, now)
	seenAt(t, j, now.Add(20*time.Hour))
	_, err := j.Join(t.Context()) // this commits the clock
	require.NoError(t, err)
	require.NoError(t, j.ResetClock(t.Context(), now))
	copied := filepath.Join(t.TempDir(), "journal.db")
	for _, name := range filesOf(t, path) { // as it is found after a kill
		if suffix := name[len(path):]; suffix != "-shm" {
			copyFile(t, name, copied+suffix)
		}
	}
	result := seenAt(t, open(t, copied), now.Add(time.Second))
	assert.Equal(t, now.Add(time.Second), result.Last)
}
