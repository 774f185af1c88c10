//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/sqlite"
)

// emptyIndex empties the index onceward_flows_ended, though flows have ended.
const emptyIndex = `CREATE INDEX onceward_other ON onceward_flows (ended_at) WHERE ended_at IS NOT NULL AND tombstone > 1; PRAGMA writable_schema = ON;
	UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'onceward_other') WHERE name = 'onceward_flows_ended';
	DELETE FROM sqlite_schema WHERE name = 'onceward_other'; PRAGMA writable_schema = RESET;`

// Verify reports SQLite's findings in the file if they concern the journal.
func TestVerifyChecksTheFile(t *testing.T) {
	path, j, s := joined(t)
	f := beginFlow(t, j, s, "flow")
	_, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventFinish, Ref: f.Ref, At: time.Now(), Claim: f.Claim})
	require.NoError(t, err)
	const ofTheApplication = "CREATE TABLE notes (n CHECK (n > 0)); PRAGMA ignore_check_constraints = ON; INSERT INTO notes VALUES (-1);"
	found := []string{"the file: integrity_check finds nothing, but: "}
	for name, row := range map[string]struct {
		statement string
		says      []string
	}{
		"an index that lacks something":                      {emptyIndex, append(found, "never used")},
		"an index that lacks something, beside other tables": {emptyIndex + ofTheApplication, found},
		"the application's tables are faulty":                {ofTheApplication, nil},
		"another definition of an index":                     {"DROP INDEX onceward_flows_ended; CREATE INDEX onceward_flows_ended ON onceward_flows (ended_at) WHERE tombstone = 0 AND ended_at IS NOT NULL", []string{"the file: the definition of onceward_flows_ended is as it was made"}},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "journal.db")
			require.NoError(t, j.Backup(t.Context(), to))
			j := open(t, to)
			alter(t, to, row.statement)
			saysThat(t, verify(t, j), row.says)
		})
	}
	require.NoError(t, s.End(t.Context()))
	assert.Empty(t, verify(t, j), path)
}

// If another file replaces a session's file, the session counts as one without a file.
func TestVerifyNamesACopiedSession(t *testing.T) {
	path, j, s := joined(t)
	file := path + "-session-" + s.ID()
	copyFile(t, file, file+".copy")
	require.NoError(t, os.Rename(file+".copy", file))
	saysThat(t, verify(t, j), []string{"the file: session " + s.ID() + " has its file"})
}

// Verify does not call a journal sound if its file was moved away.
func TestVerifyOfAFileThatIsGone(t *testing.T) {
	path, j, _ := joined(t)
	require.NoError(t, os.Rename(path, path+".away"))
	_, err := j.Verify(t.Context())
	require.ErrorContains(t, err, path)
	require.NoError(t, os.Rename(path+".away", path))
	assert.Empty(t, verify(t, j))
}

// If Verify can't read something to its end, it does not call it sound, though another statement on the same succeeded.
func TestBrokenStatementBesideLostSessions(t *testing.T) {
	t.Cleanup(sqlite.MarkNever())
	b := newBreaker(t)
	path, j, _ := joined(t)
	alter(t, path, "INSERT INTO onceward_sessions VALUES ('R'), ('S')")
	says := []string{"the file: session R has its file", "the file: session S has its file"}
	saysThat(t, verify(t, j), says)
	for n, failed := 0, true; failed; n++ {
		b.arm(n, interruptedRead)
		_, err := j.Verify(t.Context())
		broke := b.disarm()
		failed = broke != ""
		assert.Equal(t, failed, err != nil, "statement %d: %s", n, broke)
	}
}
