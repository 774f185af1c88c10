package shown_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/texts.txt")

// speaking are the packages whose texts a user or an operator reads.
var speaking = []string{
	"", "internal/background", "internal/core", "internal/delivery", "internal/engine", "internal/engine/*", "internal/fault", "internal/lookup", "internal/naming",
	"internal/receipts", "internal/reconcile", "internal/shown", "internal/throttle", "internal/wire", "flow", "server", "consume",
	"journal", "journal/memory", "journal/sqlite", "journal/postgres", "journal/mysql", "providers", "webhook", "internal/tables", "internal/template", "internal/secret",
	"internal/fingerprint", "journal/internal/*", "journal/sqlite/internal/*", "journal/postgres/internal/*", "journal/mysql/internal/*",
}

// The places of a text: the functions that take it, and the fields and variables that hold it.
var places = map[string]string{
	"errors.New": "Errors", "fmt.Errorf": "Errors", "panic": "Errors", "malformed": "Errors", "refused": "Errors",
	"Say": "Log lines", "Note": "Log lines", "Warn": "Log lines", "Error": "Log lines", "ErrorContext": "Log lines",
	"WarnContext": "Log lines", "PassFailed": "Log lines", "JournalFailed": "Log lines", "failed": "Log lines",
	"park": "Causes", "markUnknown": "Causes", "retryOrEnd": "Causes", "inconclusive": "Causes", "cancelsUnsent": "Causes", "misuse": "Causes",
	"looksRestored": "Causes", "isOlder": "Causes", "Fail": "Causes", "because": "Causes", "giveUp": "Causes", "alert": "Causes",
	"invalid": "Causes", "invalidFlow": "Causes", "invalidReceipt": "Causes", "must": "Causes",
	"Reason": "Causes", "Cause": "Causes", "cause": "Causes", "Why": "Causes", "why": "Causes", "Because": "Causes", "Advice": "Causes", "Invariant": "Causes",
}

// Texts.txt lists, on one page, each text of an error, a log line and a cause that a program says at run time. They
// are in order, by kind. "…" stands for a value. A text without a space is an identifier.
func TestDocumentTexts(t *testing.T) {
	t.Parallel()
	texts := map[string]map[string]bool{"Errors": {}, "Log lines": {}, "Causes": {}}
	for _, dir := range speaking {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				kind, found := textsOf(n, !strings.HasPrefix(dir, "journal/") && dir != "providers")
				for _, x := range found {
					if kind == "" {
						continue
					}
					if text := strings.ReplaceAll(textOf(x), "\n", " "); strings.Count(strings.Trim(text, " …"), " ") > 0 {
						texts[kind][text] = true
					}
				}
				return true
			})
		}
	}
	var page strings.Builder
	for _, kind := range []string{"Errors", "Log lines", "Causes"} {
		page.WriteString(kind + "\n\n" + strings.Join(slices.Sorted(maps.Keys(texts[kind])), "\n") + "\n\n")
	}
	const golden = "testdata/texts.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(page.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	was, is := strings.Split(strings.ReplaceAll(string(want), "\r\n", "\n"), "\n"), strings.Split(page.String(), "\n")
	for _, text := range was {
		assert.True(t, slices.Contains(is, text), "%s has a text that no package says: go generate ./docs: %s", golden, text)
	}
	for _, text := range is {
		assert.True(t, slices.Contains(was, text), "%s lacks a text: go generate ./docs: %s", golden, text)
	}
}

// textsOf returns the expressions of n that are texts, and their kind. Unless plain, the results of functions and the
// values of variables are left out, for packages that are full of SQL or of sources.
func textsOf(n ast.Node, plain bool) (kind string, texts []ast.Expr) {
	switch n := n.(type) {
	case *ast.CallExpr:
		return kindOf(n.Fun), n.Args
	case *ast.KeyValueExpr:
		return kindOf(n.Key), []ast.Expr{n.Value}
	case *ast.AssignStmt:
		return kindOf(n.Lhs[0]), n.Rhs
	case *ast.ReturnStmt:
		if plain {
			return "Causes", n.Results
		}
	case *ast.ValueSpec:
		if plain {
			return "Causes", n.Values
		}
	}
	return "", nil
}

func kindOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return places[x.Name]
	case *ast.SelectorExpr:
		if pkg, ok := x.X.(*ast.Ident); ok && places[pkg.Name+"."+x.Sel.Name] != "" {
			return places[pkg.Name+"."+x.Sel.Name]
		}
		return places[x.Sel.Name]
	}
	return ""
}

// textOf returns the text of an expression, with "…" in place of each part that is not a literal.
func textOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return text
		}
	case *ast.ParenExpr:
		return textOf(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			return textOf(x.X) + textOf(x.Y)
		}
	case *ast.CallExpr:
		if f, ok := x.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			return textOf(x.Args[0])
		}
	}
	return "…"
}
