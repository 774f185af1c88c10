package onceward_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longestTestName is what CONTRIBUTING.md allows.
const longestTestName = 40

func TestDocumentedTests(t *testing.T) {
	const page = "docs/architecture.md"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(text), "\n## The tests\n")
	require.True(t, found)
	rows, _, _ = strings.Cut(rows, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(rows) {
		if place, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| `") {
			for _, name := range regexp.MustCompile("`([a-z0-9_/]+_test\\.go)`").FindAllStringSubmatch(place, -1) {
				listed[name[1]] = true
			}
		}
	}
	for _, folder := range []string{".", "flow", "journal"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			name := path.Clean(filepath.ToSlash(file))
			if !listed[name] {
				assert.True(t, testsAFile(file), "%s is named after no file, and %s has no row for it", name, page)
			}
			delete(listed, name)
		}
	}
	assert.Empty(t, listed, "what %s lists and is not there", page)
}

// testsAFile reports whether a test's file is named after the file that it tests, or has
// the name of one before an underscore.
func testsAFile(file string) bool {
	name := strings.TrimSuffix(file, "_test.go")
	for {
		if _, err := os.Stat(name + ".go"); err == nil {
			return true
		}
		i := strings.LastIndexByte(name, '_')
		if i < 0 {
			return false
		}
		name = name[:i]
	}
}

func TestDocumentedTestNames(t *testing.T) {
	for _, folder := range goFolders(t) {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, name := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)`).FindAllSubmatch(source, -1) {
				assert.LessOrEqual(t, len(name[1]), longestTestName, "%s in %s", name[1], file)
			}
		}
	}
}
