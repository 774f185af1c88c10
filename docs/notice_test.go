package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// NOTICE names each dependency that is under the Mozilla Public License.
func TestNoticeNamesMozillasModules(t *testing.T) {
	notice := content(t, "NOTICE")
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./...")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	named := 0
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if module == "" || seen[module] {
			continue
		}
		seen[module] = true
		files, err := filepath.Glob(filepath.Join(dir, "LICENSE*"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.Contains(string(text[:min(len(text), 200)]), "Mozilla Public License") { // as the title
				named++
				assert.Contains(t, notice, module)
			}
		}
	}
	assert.Positive(t, named)
}
