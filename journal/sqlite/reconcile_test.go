//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// doubt begins an operation and leaves it unknown.
func doubt(ctx context.Context, j machine.Store, id string, s machine.Session) (journal.Operation, error) {
	ev := begin(id, s)
	ev.Intent.Reference, ev.Intent.ReferenceOurs = "ref-"+id, true
	begun, err := j.Apply(ctx, ev)
	if err != nil {
		return journal.Operation{}, err
	}
	end := complete(begun.Operation, s)
	end.Kind, end.Answer, end.Delivered = machine.EventMarkUnknown, nil, false
	ended, err := j.Apply(ctx, end)
	return ended.Operation, err
}

// tookEffect is evidence that an operation took effect.
func tookEffect(op journal.Operation, object string) machine.Event {
	return machine.Event{
		Kind: machine.EventEvidence, Ref: op.Ref, At: time.Now(), Claim: op.Claim, Generation: op.Generation, Object: object,
		Answer:   &journal.Answer{Status: 200, Body: []byte(object)},
		Evidence: &journal.Evidence{Source: journal.SourceEvent, Finding: journal.FindingTookEffect, Basis: journal.BasisReference},
	}
}

// childHears makes operations unknown, looks for them, and hears events about them, each step in one commit. It prints
// the acknowledged ones.
func childHears(path string) error {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := j.Join(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		id := fmt.Sprint(s.ID(), "-", n)
		op, err := doubt(ctx, j, id, s)
		if err != nil {
			return err
		}
		fmt.Println("unknown", id)
		now := time.Now()
		if _, err := j.Looks(ctx, machine.Event{Kind: machine.EventLook, At: now, Due: now.Add(time.Hour)}, 1); err != nil {
			return err
		}
		fmt.Println("leased", id)
		// An event about two operations at once, the second of which is in flight.
		held, err := j.Apply(ctx, begin("held-"+id, s))
		if err != nil {
			return err
		}
		_, first, err := j.RecordEvent(ctx, machine.Heard{Provider: "stripe", ID: id}, []machine.Event{tookEffect(op, "charge "+id), tookEffect(held.Operation, "charge held "+id)})
		if err != nil || !first {
			return fmt.Errorf("heard first %v: %w", first, err)
		}
		fmt.Println("heard", id)
	}
}

// Acknowledged look-ups and events survive a kill at any point. An event is heard with all of its results, or not at
// all.
func TestKilledDuringAWebhook(t *testing.T) {
	kills := soak.Times(3, 10)
	path := filepath.Join(t.TempDir(), "journal.db")
	acknowledged := map[string]string{} // the last step of each
	for n := range kills {
		cmd, lines := start(t, "hear", path)
		for range 3 + 17*n {
			require.True(t, lines.Scan())
			step, id, _ := strings.Cut(lines.Text(), " ")
			require.NotEqual(t, "error", step, lines.Text())
			acknowledged[id] = step
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		for lines.Scan() {
			step, id, _ := strings.Cut(lines.Text(), " ")
			acknowledged[id] = step
		}
		_ = cmd.Wait()
	}
	j := open(t, path)
	require.Empty(t, verify(t, j))
	all := 0
	for id, step := range acknowledged {
		op, err := j.Get(t.Context(), journal.Ref{ID: id})
		require.NoError(t, err, id)
		matches, err := j.FindBy(t.Context(), op.Provider, machine.ByReference, "ref-"+id)
		require.NoError(t, err)
		require.Len(t, matches, 1, id)
		held, heldErr := j.Get(t.Context(), journal.Ref{ID: "held-" + id})
		_, first, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "stripe", ID: id}, []machine.Event{{Kind: machine.EventHint, Ref: op.Ref, At: time.Now()}})
		require.NoError(t, err)
		switch {
		case step == "heard":
			all++
			assert.False(t, first, "%s was heard", id)
			fallthrough
		case !first: // it was heard, and its caller got no answer
			assert.Equal(t, journal.StateCompleted, op.State, id)
			assert.Equal(t, "charge "+id, op.Object)
			assert.Equal(t, []byte("charge "+id), op.Answer.Body)
			require.NoError(t, heldErr)
			require.Len(t, held.Evidence, 1, "both, or none")
			assert.Equal(t, "charge held "+id, held.Evidence[0].Object)
		default:
			assert.Equal(t, journal.StateUnknown, op.State, id)
			assert.Empty(t, op.Evidence, id)
			assert.Empty(t, held.Evidence, "both, or none")
			if step == "leased" {
				assert.Equal(t, 1, op.Looks, "its lease stands")
			}
		}
	}
	assert.Positive(t, all)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	results, err := j.Claim(t.Context(), claim(s), 1000)
	require.NoError(t, err)
	weighed := 0
	for _, r := range results {
		if r.Decision == machine.Weighed {
			weighed++
			assert.Equal(t, []byte("charge held "+strings.TrimPrefix(r.Operation.ID, "held-")), r.Operation.Answer.Body)
		}
	}
	assert.Positive(t, weighed, "what the dead held is what was heard of it")
	require.Empty(t, verify(t, j))
}

// An operation that never becomes unknown leaves no row of its marks.
func TestMarksExistOnlyIfNeeded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	marks := func() (n int) {
		t.Helper()
		require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(), "SELECT count(*) FROM onceward_marks").Scan(&n))
		return n
	}
	others(t, j, s, "completed")
	assert.Zero(t, marks())
	op, err := doubt(t.Context(), j, "unknown", s)
	require.NoError(t, err)
	assert.Equal(t, 2, marks(), "its key and its reference")
	_, _, err = j.RecordEvent(t.Context(), machine.Heard{ID: "evt_1"}, []machine.Event{tookEffect(op, "charge ch_1")})
	require.NoError(t, err)
	assert.Equal(t, 6, marks(), "and its object, with and without its kind, each twice: as one that was found too")
	require.Empty(t, verify(t, j))
}

// The answer of evidence for an operation in flight is a copy. The caller may change its own afterwards.
func TestEvidenceKeepsItsAnswer(t *testing.T) {
	_, j, s := joined(t)
	held, err := j.Apply(t.Context(), begin("held", s))
	require.NoError(t, err)
	ev := tookEffect(held.Operation, "charge 1")
	ev.Answer.Header = http.Header{"X-Of": {"the answer"}}
	_, first, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "stripe", ID: "evt_1"}, []machine.Event{ev})
	require.NoError(t, err)
	require.True(t, first)
	clear(ev.Answer.Body)
	ev.Answer.Header["X-Of"][0] = "another"

	end := complete(held.Operation, s)
	end.Kind, end.Answer, end.Delivered = machine.EventMarkUnknown, nil, false
	_, err = j.Apply(t.Context(), end)
	require.NoError(t, err)
	op, err := j.Get(t.Context(), journal.Ref{ID: "held"})
	require.NoError(t, err)
	require.Equal(t, journal.StateCompleted, op.State)
	assert.Equal(t, "charge 1", string(op.Answer.Body))
	assert.Equal(t, "the answer", op.Answer.Header.Get("X-Of"))
}

// damagedRow damages the first operation.
const damagedRow = "UPDATE onceward_rows SET record = zeroblob(length(record)) WHERE handle = 1"

// unknowns makes that many unknown operations, the first of them damaged.
func unknowns(t *testing.T, n int, damage string) (path string, j *sqlite.Journal) {
	t.Helper()
	path, j, s := joined(t)
	for i := range n {
		_, err := doubt(t.Context(), j, fmt.Sprint("op-", i), s)
		require.NoError(t, err)
	}
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	alter(t, path, damage)
	return path, open(t, path)
}

// An unreadable operation does not count as absent.
func TestFindOfADamagedOperation(t *testing.T) {
	path, j := unknowns(t, 2, damagedRow)
	looks, err := sqlite.Open(path, readOnly)
	require.NoError(t, err)
	defer looks.Close()
	for _, j := range []*sqlite.Journal{j, looks} {
		_, err := j.FindBy(t.Context(), "ledger", machine.ByReference, "ref-op-0")
		require.ErrorContains(t, err, "damaged")
		found, err := j.FindBy(t.Context(), "ledger", machine.ByReference, "ref-op-1")
		require.NoError(t, err)
		assert.Len(t, found, 1)
	}
}

// A damaged operation prevents neither the look-ups of other due operations nor a begin beside them.
func TestLooksBesideADamagedOperation(t *testing.T) {
	for _, damage := range []string{damagedRow, "UPDATE onceward_requests SET body = x'00' WHERE handle = 1"} {
		_, j := unknowns(t, 3, damage)
		now := time.Now().Add(time.Hour)
		looks := func(limit int) (ids []string, err error) {
			results, err := j.Looks(t.Context(), machine.Event{Kind: machine.EventLook, At: now, Due: now.Add(time.Hour)}, limit)
			for _, r := range results {
				ids = append(ids, r.Operation.ID)
			}
			return ids, err
		}
		for _, id := range []string{"op-1", "op-2"} {
			ids, err := looks(1)
			require.NoError(t, err, damage)
			assert.Equal(t, []string{id}, ids, damage)
		}
		s, err := j.Join(t.Context())
		require.NoError(t, err)
		release := sqlite.HoldTurn(j)
		began, looked := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := j.Apply(t.Context(), generate("beside", s))
			began <- err
		}()
		go func() {
			_, err := looks(10)
			looked <- err
		}()
		until(t, func() bool { return sqlite.Turns(j) == 2 })
		release()
		require.NoError(t, <-began, damage)
		require.ErrorContains(t, <-looked, "damaged", damage)
	}
}
