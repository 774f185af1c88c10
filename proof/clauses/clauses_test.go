package clauses_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/proof/clauses"
)

func TestRewrittenJournalCompiles(t *testing.T) {
	const dir = "../../internal/machine"
	names, files, err := clauses.Removable(dir)
	require.NoError(t, err)
	assert.Greater(t, len(names), 200)
	assert.Contains(t, names, "rule.go, MaySend: if q.Withdrawn → false")
	overlay, err := files.Overlay(filepath.ToSlash(t.TempDir()))
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, dir).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
