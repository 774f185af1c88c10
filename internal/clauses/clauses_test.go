package clauses_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/clauses"
)

const root = "../.."

func TestWhatIsRewrittenCompiles(t *testing.T) {
	_, removable, err := clauses.Removable(filepath.Join(root, "journal"))
	require.NoError(t, err)
	_, telling, err := clauses.Telling(filepath.Join(root, "journal"))
	require.NoError(t, err)
	counted, err := clauses.Counted(root)
	require.NoError(t, err)
	for name, files := range map[string]clauses.Files{"removable": removable, "telling": telling, "counted": counted} {
		t.Run(name, func(t *testing.T) {
			overlay, err := files.Overlay(t.TempDir())
			require.NoError(t, err)
			out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, root).CombinedOutput()
			assert.NoError(t, err, "%s", out)
		})
	}
}

// Each operand of the rule's conditions is a condition.
func TestOperandsAreConditions(t *testing.T) {
	names, err := clauses.Conditions(filepath.Join(root, "journal", "rule.go"), "MaySend")
	require.NoError(t, err)
	assert.Contains(t, names, "rule.go, MaySend, !q.MayHaveRun || q.Idempotent")
	assert.Contains(t, names, "rule.go, MaySend, !q.MayHaveRun")
	assert.Contains(t, names, "rule.go, MaySend, q.Idempotent")
	assert.Contains(t, names, "rule.go, MaySend, q.Doubted", "a case")
}
