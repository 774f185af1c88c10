package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/planted"
	"github.com/onceward/onceward/journal"
)

func TestResolve(t *testing.T) {
	path, j := journalWith(t)
	get := func(scope, id string) journal.Operation {
		op, err := j.Get(t.Context(), journal.Ref{Scope: scope, ID: id})
		require.NoError(t, err)
		return op
	}
	at := func(args ...string) said { return runs(t, append([]string{"-j", path, "-o", "json"}, args...)...) }

	t.Run("required flags", func(t *testing.T) {
		for _, args := range [][]string{
			{"resolve", planted.Unknown},
			{"resolve", planted.Unknown, "--executed"},
			{"resolve", planted.Unknown, "--executed", "--not-executed", "--because", "x"},
			{"resolve", planted.Unknown, "--executed", "--because", "x", "--yes"},
			{"resolve", planted.Unknown, "--executed", "--because", "x", "--yes", "--seen", "zero"},
			{"resolve", planted.Unknown, "--not-executed", "--because", "x", "--yes", "--seen", "0.1", "--answer", "-"},
			{"resolve", planted.Unknown, "--executed", "--because", "x"}, // there is no terminal to ask on
			{"resolve"},
			{"resolve", "--all", "--executed"},
		} {
			s := at(args...)
			assert.Equal(t, exitUsage, s.code, "%v: %s", args, s.err)
			assert.Empty(t, s.out)
		}
		assert.Equal(t, journal.StateUnknown, get("", planted.Unknown).State)
	})
	t.Run("an operation that has moved, is in flight, known or missing is left alone", func(t *testing.T) {
		for _, row := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{planted.Unknown, "--not-executed", "--seen", "0.7"}, exitRefused, "has changed"},
			{[]string{planted.Unknown, "--executed", "--seen", "3.1"}, exitRefused, "has changed"},
			{[]string{planted.Held, "--executed", "--seen", "0.1"}, exitRefused, "another caller is sending it"},
			{[]string{planted.Completed, "--not-executed", "--seen", "0.1"}, exitRefused, "outcome is known"},
			{[]string{planted.Closing, "--send-again", "--seen", "0.1"}, exitRefused, "waiting sends it"},
			{[]string{"no-such", "--executed", "--seen", "0.1"}, exitNotFound, "no operation"},
			{[]string{"#4711", "--executed", "--seen", "0.1"}, exitNotFound, "no operation"},
		} {
			s := at(append([]string{"resolve", "--because", "x", "--yes"}, row.args...)...)
			assert.Equal(t, row.code, s.code, "%v: %s", row.args, s.err)
			assert.Contains(t, s.err, row.says)
		}
	})
	t.Run("executed, with the provider's answer", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "answer.json")
		require.NoError(t, os.WriteFile(file, []byte(`{"id":"ch_9"}`), 0o600))
		s := at("resolve", planted.Unknown, "--executed", "--because", "dashboard shows ch_9", "--by", "ann", "--yes", "--seen", "0.1", "--answer", file)
		require.Equal(t, exitDone, s.code, s.err)
		op := get("", planted.Unknown)
		assert.Equal(t, journal.StateCompleted, op.State)
		assert.Equal(t, `{"id":"ch_9"}`, string(op.Answer.Body))
		assert.True(t, op.Answer.ByHand)
		assert.Equal(t, "ann", op.Resolved.By)
		assert.Equal(t, "dashboard shows ch_9", op.Resolved.Why)
		var printed detail
		require.NoError(t, json.Unmarshal([]byte(s.out), &printed))
		assert.Equal(t, "completed", printed.State)
	})
	t.Run("sent again, under another key", func(t *testing.T) {
		was := get("", planted.Long)
		s := at("resolve", planted.Long, "--send-again", "--because", "the ledger has none", "--yes", "--seen", "0.1")
		require.Equal(t, exitDone, s.code, s.err)
		op := get("", planted.Long)
		assert.Equal(t, journal.StatePending, op.State)
		assert.Equal(t, 1, op.Generation)
		assert.NotEqual(t, was.Key, op.Key)
		assert.NotEmpty(t, op.Resolved.By)
	})
	t.Run("cancelled, if nothing was sent", func(t *testing.T) {
		s := at("cancel", planted.Closing, "--yes", "--seen", "0.1")
		assert.Equal(t, exitRefused, s.code)
		assert.Contains(t, s.err, "resolve")
		s = at("cancel", planted.Unsent, "--scope", planted.Scope, "--yes", "--seen", "0.1")
		require.Equal(t, exitDone, s.code, s.err)
		assert.Equal(t, journal.StateCancelled, get(planted.Scope, planted.Unsent).State)
	})
	t.Run("flows", func(t *testing.T) {
		require.Equal(t, exitDone, at("flow", "retry", planted.SetAside).code)
		f, err := j.GetFlow(t.Context(), journal.Ref{ID: planted.SetAside})
		require.NoError(t, err)
		assert.Equal(t, journal.FlowStateWaiting, f.State)
		assert.Equal(t, exitUsage, at("flow", "give-up", planted.Waiting).code)
		require.Equal(t, exitDone, at("flow", "give-up", planted.Waiting, "--because", "the customer left", "--yes").code)
		f, err = j.GetFlow(t.Context(), journal.Ref{ID: planted.Waiting})
		require.NoError(t, err)
		assert.True(t, f.Undoing)
		assert.Equal(t, "the customer left", f.GivenUpFor)
	})
	found, err := j.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found)
}

// Behind /dev/null, as under cron, the command does not prompt.
func TestNoPromptBehindDevNull(t *testing.T) {
	path, _ := journalWith(t)
	cmd := exec.Command(binary, "-j", path, "reap", "--keep", "1h") // its input is /dev/null
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, exitUsage, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(said), "add --yes")
}

// why gives the resend rule's answer for the same record at the same time.
func TestWhy(t *testing.T) {
	path, j := journalWith(t)
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		s := runs(t, "-j", path, "-o", "json", "why", handleOf(op.Handle))
		require.Equal(t, exitDone, s.code, s.err)
		var told reasons
		require.NoError(t, json.Unmarshal([]byte(s.out), &told))
		now := time.Now()
		assert.Equal(t, machine.MaySend(machine.QuestionOf(&op, now, now, time.Time{})).Answer.String(), told.Rule, op.ID)
		if op.State != journal.StatePending {
			assert.Equal(t, "never", told.Answer, op.ID)
		}
	}
}
