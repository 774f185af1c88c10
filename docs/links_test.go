package docs_test

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

// root is the checkout. All other paths in these tests are paths from there.
const root = ".."

// content returns a file's text.
func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(text)
}

// glob returns the files that match a pattern.
func glob(t *testing.T, pattern string) (files []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	require.NoError(t, err)
	for _, file := range found {
		file, err := filepath.Rel(root, file)
		require.NoError(t, err)
		files = append(files, filepath.ToSlash(file))
	}
	return files
}

// pages returns the documents for readers, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/providers/*.md", "benchmarks/*.md"} {
		for _, file := range glob(t, pattern) {
			all[file] = content(t, file)
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

// anchors returns the link anchors that GitHub derives from a page's headings.
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
			_, err := os.Stat(filepath.Join(root, target))
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
	for folder, prefix := range map[string]string{".": "", "flow": "flow.", "journal": "journal.", "journal/sqlite": "sqlite.", "journal/postgres": "postgres.", "journal/mysql": "mysql."} {
		t.Run("docs/errors.md has every error of "+folder, func(t *testing.T) {
			for _, name := range exportedErrors(t, folder) {
				row := regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(prefix+name) + "`")
				assert.True(t, row.MatchString(all["docs/errors.md"]), "docs/errors.md has no row for %s", prefix+name)
			}
		})
	}
}

// exportedErrors returns the error names that a package declares.
func exportedErrors(t *testing.T, folder string) (names []string) {
	t.Helper()
	for _, file := range goFiles(t, folder) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, content(t, file), parser.SkipObjectResolution)
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
	return slices.DeleteFunc(glob(t, path.Join(folder, "*.go")), func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

func TestDocumentedMap(t *testing.T) {
	const page = "docs/architecture.md"
	_, places, found := strings.Cut(content(t, page), "\n## The map\n")
	require.True(t, found)
	named := map[string]bool{".": true}
	for line := range strings.Lines(places) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| `"), "` |")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for folder := range strings.SplitSeq(cell, "`, `") {
			info, err := os.Stat(filepath.Join(root, folder))
			assert.True(t, err == nil && info.IsDir(), "%s names %s", page, folder)
			named[folder] = true
		}
	}
	for _, folder := range goFolders(t) {
		room, _, inner := strings.Cut(folder, "/internal/")
		assert.True(t, named[folder] || inner && named[room], "%s has no row for %s", page, folder)
	}
}

// goFolders returns all checkout folders with Go files.
func goFolders(t *testing.T) (folders []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(file, ".go"):
			folder, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return err
			}
			if folder = filepath.ToSlash(folder); !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
		return nil
	}))
	return folders
}

// The log's keys are promised, and the documents explain each.
func TestLogEventsAreDocumented(t *testing.T) {
	_, section, found := strings.Cut(content(t, "docs/runbook.md"), "\n## What the log says\n")
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
	for _, folder := range []string{".", "internal/background", "internal/core", "internal/delivery", "internal/engine", "internal/engine/call", "internal/engine/exchange", "internal/engine/run", "internal/naming", "internal/reconcile", "internal/throttle", "internal/wire"} {
		for _, name := range goFiles(t, folder) {
			assert.Equal(t, name == "internal/core/observer.go", direct.MatchString(content(t, name)), "%s logs by itself", name)
		}
	}
}

// Every test that docs/verification.md names exists.
func TestDocumentedGates(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(content(t, "docs/verification.md"), "<!-- table: gates -->\n")
	require.True(t, found)
	table, _, found = strings.Cut(table, "<!-- end -->")
	require.True(t, found)
	read := map[string]string{}
	sources := func(folder string) string {
		if read[folder] == "" {
			var all strings.Builder
			for _, file := range glob(t, path.Join(folder, "*.go")) {
				all.WriteString(content(t, file))
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
	assert.Equal(t, 16, rows)
}

var (
	runFlag  = regexp.MustCompile("-(?:run|skip)[ =](?:'([^']+)'|([^\\s`'\"]+))")
	raceSkip = regexp.MustCompile(`(?m)^Test\S+`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
)

// Every test that a command names in a document, or in .ci/run, exists.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	var names []string
	for _, folder := range goFolders(t) {
		for _, file := range glob(t, path.Join(folder, "*_test.go")) {
			for _, found := range testFunc.FindAllStringSubmatch(content(t, file), -1) {
				names = append(names, found[1])
			}
		}
	}
	all := pages(t)
	all[".ci/run"] = content(t, ".ci/run")
	all[".ci/race-skips.txt"] = "-skip '" + strings.Join(raceSkip.FindAllString(content(t, ".ci/race-skips.txt"), -1), "|") + "'"
	for page, text := range all {
		for _, flag := range runFlag.FindAllStringSubmatch(text, -1) {
			for pattern := range strings.SplitSeq(strings.ReplaceAll(flag[1]+flag[2], `\|`, "|"), "|") {
				if pattern == "^$" || pattern == "NAME" { // no test, and a placeholder
					continue
				}
				name, _, _ := strings.Cut(pattern, "/")
				matches, err := regexp.Compile(name)
				require.NoError(t, err, page)
				assert.True(t, slices.ContainsFunc(names, matches.MatchString), "%s: no test matches %s", page, pattern)
			}
		}
	}
}
