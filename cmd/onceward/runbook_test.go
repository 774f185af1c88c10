package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// headingsOf are the runbook's anchors.
func headingsOf(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbook.md")
	require.NoError(t, err)
	headings := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		headings[strings.ReplaceAll(strings.ToLower(h[1]), " ", "-")] = true
	}
	return headings
}

// Every doctor finding says what to do and leads to a heading of the runbook that is there, whichever file it is in.
func TestDoctorsRunbook(t *testing.T) {
	headings := headingsOf(t)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	set := token.NewFileSet()
	text := func(e ast.Expr) (string, bool) {
		literal, is := e.(*ast.BasicLit)
		if !is || literal.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(literal.Value)
		return s, err == nil
	}
	found, where := 0, map[string]bool{}
	leads := func(at ast.Node, toDo, anchor ast.Expr) {
		if to, is := text(anchor); is {
			assert.True(t, headings[to], "%s: docs/runbook.md has no heading %q", set.Position(at.Pos()), to)
			found++
			where[set.Position(at.Pos()).Filename] = true
		}
		if says, is := text(toDo); is {
			assert.NotEmpty(t, says, set.Position(at.Pos()))
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return n.Name.Name != "failed" // the finding for a check that failed leads to no heading
			case *ast.CallExpr:
				if f, is := n.Fun.(*ast.SelectorExpr); is && f.Sel.Name == "finds" && len(n.Args) == 5 {
					leads(n, n.Args[3], n.Args[4])
				}
			case *ast.CompositeLit:
				if of, is := n.Type.(*ast.Ident); is && of.Name == "checked" && len(n.Elts) == 5 {
					leads(n, n.Elts[3], n.Elts[4])
				}
				if rows, is := n.Type.(*ast.ArrayType); is && hasField(rows.Elt, "runbook") {
					for _, row := range n.Elts {
						of := row.(*ast.CompositeLit).Elts
						leads(row, of[len(of)-2], of[len(of)-1])
					}
				}
			}
			return true
		})
	}
	assert.Greater(t, found, 30)
	assert.Greater(t, len(where), 3, "findings of files, databases and machines")
}

// hasField reports whether a type is a struct whose last field has this name.
func hasField(of ast.Expr, name string) bool {
	s, is := of.(*ast.StructType)
	if !is || len(s.Fields.List) == 0 {
		return false
	}
	names := s.Fields.List[len(s.Fields.List)-1].Names
	return len(names) > 0 && names[len(names)-1].Name == name
}
