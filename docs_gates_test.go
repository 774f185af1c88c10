package onceward_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every test exists that docs/verification.md names.
func TestDocumentedGates(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/verification.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "<!-- table: gates -->\n")
	require.True(t, found)
	table, _, found = strings.Cut(table, "<!-- end -->")
	require.True(t, found)
	read := map[string]string{}
	sources := func(folder string) string {
		if read[folder] == "" {
			files, err := filepath.Glob(filepath.Join(folder, "*.go"))
			require.NoError(t, err)
			var all strings.Builder
			for _, file := range files {
				source, err := os.ReadFile(file)
				require.NoError(t, err)
				all.Write(source)
			}
			read[folder] = all.String()
		}
		return read[folder]
	}
	suite := sources("journal/journaltest")
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| question ") {
			continue
		}
		rows++
		named := regexp.MustCompile("`(\\.[a-z/]*)` `(Test[^`]+)`").FindAllStringSubmatch(line, -1)
		assert.NotEmpty(t, named, "nothing shows: %s", line)
		for _, test := range named {
			source := sources(test[1])
			name, subtests, _ := strings.Cut(test[2], "/")
			assert.True(t, strings.Contains(source, "\nfunc "+name+"(t *testing.T) {"), "%s has no %s", test[1], name)
			if subtests == "" {
				continue
			}
			for subtest := range strings.SplitSeq(subtests, "/") {
				assert.True(t, strings.Contains(source+suite, strconv.Quote(subtest)), "%s of %s has no %q", name, test[1], subtest)
			}
		}
	}
	assert.Equal(t, 10, rows)
}
