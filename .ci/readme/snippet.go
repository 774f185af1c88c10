package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// packages are what statements may use without importing it: a document's snippets
// leave their imports out.
var packages = map[string]string{
	"backoff":      "github.com/onceward/onceward/backoff",
	"compare":      "github.com/onceward/onceward/compare",
	"consume":      "github.com/onceward/onceward/consume",
	"context":      "context",
	"errors":       "errors",
	"flow":         "github.com/onceward/onceward/flow",
	"fmt":          "fmt",
	"http":         "net/http",
	"io":           "io",
	"iter":         "iter",
	"journal":      "github.com/onceward/onceward/journal",
	"log":          "log",
	"sql":          "database/sql",
	"memory":       "github.com/onceward/onceward/journal/memory",
	"onceward":     "github.com/onceward/onceward",
	"pgx":          "github.com/jackc/pgx/v5",
	"pgxpool":      "github.com/jackc/pgx/v5/pgxpool",
	"mysql":        "github.com/onceward/onceward/journal/mysql",
	"postgres":     "github.com/onceward/onceward/journal/postgres",
	"os":           "os",
	"providers":    "github.com/onceward/onceward/providers",
	"providertest": "github.com/onceward/onceward/providers/providertest",
	"server":       "github.com/onceward/onceward/server",
	"servertest":   "github.com/onceward/onceward/server/servertest",
	"slog":         "log/slog",
	"seal":         "github.com/onceward/onceward/seal",
	"sqlite":       "github.com/onceward/onceward/journal/sqlite",
	"strings":      "strings",
	"testing":      "testing",
	"time":         "time",
	"url":          "net/url",
	"webhook":      "github.com/onceward/onceward/webhook",
}

// program makes a file from a block that is a program, or holds statements.
func program(b block) ([]byte, error) {
	if strings.HasPrefix(strings.TrimSpace(b.text), "package ") {
		return []byte(b.text), nil
	}
	for _, result := range []string{"", "error"} {
		body := "package main\n\nfunc main() {}\n\nfunc snippet(" + b.params + ") " + result + " {\n" + b.text
		end := "}\n"
		if result != "" {
			end = "return nil\n}\n"
		}
		file, err := parser.ParseFile(token.NewFileSet(), b.at, body+end, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("neither a file nor statements: %w", err)
		}
		function := file.Decls[1].(*ast.FuncDecl)
		if result == "" && returnsValue(function) {
			continue
		}
		return []byte(withImports(body+uses(function)+end, file)), nil
	}
	return nil, fmt.Errorf("returns more than an error")
}

// returnsValue tells whether the function itself, not a literal within it, returns
// something.
func returnsValue(function *ast.FuncDecl) (found bool) {
	ast.Inspect(function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			found = found || len(n.Results) > 0
		}
		return true
	})
	return found
}

// uses keeps the compiler from complaining of what a snippet only declares.
func uses(function *ast.FuncDecl) string {
	var b strings.Builder
	for _, statement := range function.Body.List {
		assign, ok := statement.(*ast.AssignStmt)
		if !ok || assign.Tok != token.DEFINE {
			continue
		}
		for _, left := range assign.Lhs {
			if name, ok := left.(*ast.Ident); ok && name.Name != "_" {
				fmt.Fprintf(&b, "_ = %s\n", name.Name)
			}
		}
	}
	return b.String()
}

// withImports adds imports for the packages that the file's selectors name.
func withImports(source string, file *ast.File) string {
	var paths []string
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if base, ok := selector.X.(*ast.Ident); ok {
				if path := packages[base.Name]; path != "" && !slices.Contains(paths, path) {
					paths = append(paths, path)
				}
			}
		}
		return true
	})
	if len(paths) == 0 {
		return source
	}
	slices.Sort(paths)
	imports := "import (\n\t\"" + strings.Join(paths, "\"\n\t\"") + "\"\n)\n"
	return strings.Replace(source, "package main\n", "package main\n\n"+imports, 1)
}
