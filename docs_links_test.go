package onceward_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/core"
)

// pages returns the documents for readers, by their paths from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/providers/*.md", "benchmarks/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all[filepath.ToSlash(file)] = string(text)
		}
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInID = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the link anchors that GitHub derives from the headings of a page.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(notInID.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

// Every link in the documents has a target.
func TestDocumentLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	leads := map[string][]string{}
	for page, text := range all {
		for _, to := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(to[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(to[1], "#")
			target := page
			if file != "" {
				target = path.Join(path.Dir(page), file)
			}
			_, err := os.Stat(target)
			assert.NoError(t, err, "%s links to %s", page, to[1])
			if anchor != "" {
				assert.Contains(t, anchors(all[target]), anchor, "%s links to %s", page, to[1])
			}
			leads[page] = append(leads[page], target)
		}
	}
	reached := map[string]bool{"README.md": true}
	for next := []string{"README.md"}; len(next) > 0; next = next[1:] {
		for _, to := range leads[next[0]] {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for page := range all {
		assert.True(t, reached[page], "no link leads from README.md to %s", page)
	}
}

func TestDocumentedErrors(t *testing.T) {
	all := pages(t)
	rows := func(page string) (found []string) {
		for line := range strings.Lines(all[page]) {
			if strings.HasPrefix(line, "| `Err") {
				found = append(found, line)
			}
		}
		return found
	}
	t.Run("the README's rows are those of docs/errors.md", func(t *testing.T) {
		require.NotEmpty(t, rows("README.md"))
		for _, row := range rows("README.md") {
			assert.Contains(t, rows("docs/errors.md"), row)
		}
	})
	for folder, prefix := range map[string]string{".": "", "flow": "flow.", "journal": "journal.", "journal/sqlite": "sqlite."} {
		t.Run("docs/errors.md has every error of "+folder, func(t *testing.T) {
			for _, name := range exportedErrors(t, folder) {
				row := regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(prefix+name) + "`")
				assert.True(t, row.MatchString(all["docs/errors.md"]), "docs/errors.md has no row for %s", prefix+name)
			}
		})
	}
}

// exportedErrors returns the names of the errors that a package declares.
func exportedErrors(t *testing.T, folder string) (names []string) {
	t.Helper()
	for _, file := range goFiles(t, folder) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

// goFiles returns a folder's Go files without tests.
func goFiles(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

func TestDocumentedMap(t *testing.T) {
	const page = "docs/architecture.md"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, places, found := strings.Cut(string(text), "\n## The map\n")
	require.True(t, found)
	named := map[string]bool{".": true}
	for line := range strings.Lines(places) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| `"), "` |")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for folder := range strings.SplitSeq(cell, "`, `") {
			info, err := os.Stat(folder)
			assert.True(t, err == nil && info.IsDir(), "%s names %s", page, folder)
			named[folder] = true
		}
	}
	for _, folder := range goFolders(t) {
		room, _, inner := strings.Cut(folder, "/internal/")
		assert.True(t, named[folder] || inner && named[room], "%s has no row for %s", page, folder)
	}
}

// goFolders returns all folders of the checkout with Go files, by their paths from the root.
func goFolders(t *testing.T) (folders []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(file, ".go"):
			if folder := filepath.ToSlash(filepath.Dir(file)); !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
		return nil
	}))
	return folders
}

// The keys of the log are promised, and the documents explain each.
func TestLogEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/runbook.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## What the log says\n")
	require.True(t, found)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+\\.[a-z_]+)` \\| [a-z, ]+ \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	var events []string
	for _, event := range core.LogEvents {
		events = append(events, string(event))
	}
	assert.ElementsMatch(t, documented, events)
	assert.Equal(t, slices.Compact(slices.Sorted(slices.Values(documented))), slices.Sorted(slices.Values(documented)))

	// No log line is without a key, because Core.Note and Core.Say write them all.
	direct := regexp.MustCompile(`\b[lL]og(ger)?\.(Debug|Info|Warn|Error|Log|LogAttrs)(Context)?\(`)
	for _, folder := range []string{".", "internal/background", "internal/core", "internal/delivery", "internal/engine", "internal/naming", "internal/reconcile", "internal/throttle", "internal/wire"} {
		for _, name := range goFiles(t, folder) {
			code, err := os.ReadFile(name)
			require.NoError(t, err)
			assert.Equal(t, filepath.ToSlash(name) == "internal/core/observer.go", direct.Match(code), "%s logs by itself", name)
		}
	}
}

// Every test that docs/verification.md names exists.
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
	assert.Equal(t, 12, rows)
}
