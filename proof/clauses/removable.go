// Package clauses rewrites the state machines and the resend rule for one build, by an overlay, so that a test can take
// away any one of their clauses. It changes no file of the module.
package clauses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Variable is an environment variable with the number of a clause. A binary built with the files of Removable runs
// without that clause. If it is unset, no clause is taken away.
const Variable = "ONCEWARD_MUTANT"

// Files has sources by the path of the file that they are compiled in place of.
type Files map[string][]byte

// Overlay writes the sources into a folder, and the list that go build -overlay takes, and
// returns the list's path.
func (f Files) Overlay(folder string) (string, error) {
	replace := map[string]string{}
	n := 0
	for path, source := range f {
		original, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		n++
		replace[original] = filepath.Join(folder, fmt.Sprintf("%d-%s", n, filepath.Base(path)))
		if err := os.WriteFile(replace[original], source, 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// Decisive are the files of the state machines and the rule. Their clauses are taken away.
var Decisive = []string{"next.go", "evidence.go", "rule.go", "receiptnext.go"}

// Removable rewrites the decisive files of package machine, which lies in dir, so that each of their clauses can be
// taken away. A clause is a condition, a case, an operand of && or ||, or one of the two arguments of min, max or
// later. The names are in the order of the clauses' numbers, which begin at 1.
func Removable(dir string) (names []string, files Files, err error) {
	p := &pruner{}
	files = Files{filepath.Join(dir, "zz_mutant.go"): []byte(mutantSource)}
	for _, name := range Decisive {
		path := filepath.Join(dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		p.file = name
		if files[path], err = p.prune(source); err != nil {
			return nil, nil, err
		}
	}
	return p.names, files, nil
}

// mutantSource has the functions that the rewritten clauses call.
const mutantSource = `package machine

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("` + Variable + `"))

func mutantTrue(n int, was bool) bool { return was || mutant == n }

func mutantFalse(n int, was bool) bool { return was && mutant != n }

func mutantNever[T ~uint8](n int, was T) T {
	if mutant == n {
		return 255
	}
	return was
}

func mutantEither[T comparable](n int, one, other, was T) T {
	switch mutant {
	case n:
		return one
	case n + 1:
		return other
	}
	return was
}
`

// pruner finds the clauses of a file, and has each call a function of mutantSource.
type pruner struct {
	files    *token.FileSet
	file     string
	function string
	names    []string
}

// withoutClauses are functions that decide nothing.
var withoutClauses = []string{"String", "Error", "Unwrap", "noWindow", "because", "invalid", "invalidReceipt"}

func (p *pruner) prune(source []byte) ([]byte, error) {
	p.files = token.NewFileSet()
	tree, err := parser.ParseFile(p.files, p.file, source, 0)
	if err != nil {
		return nil, err
	}
	for _, decl := range tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && !slices.Contains(withoutClauses, f.Name.Name) {
			p.function = f.Name.Name
			ast.Inspect(f, p.visit)
		}
	}
	var b bytes.Buffer
	err = format.Node(&b, p.files, tree)
	return b.Bytes(), err
}

// number returns the number of the next mutant, and names the mutant by the old and the new text.
func (p *pruner) number(was, is string) ast.Expr {
	name := fmt.Sprintf("%s, %s: %s → %s", p.file, p.function, was, is)
	same := name
	for again := 2; slices.Contains(p.names, name); again++ {
		name = fmt.Sprintf("%s (%d)", same, again)
	}
	p.names = append(p.names, name)
	return &ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(len(p.names))}
}

func (p *pruner) text(n ast.Node) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, p.files, n)
	return strings.Join(strings.Fields(b.String()), " ")
}

func call(function string, args ...ast.Expr) ast.Expr {
	return &ast.CallExpr{Fun: ast.NewIdent(function), Args: args}
}

func (p *pruner) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		n.Cond = p.constant("if "+p.text(n.Cond), n.Cond)
	case *ast.SwitchStmt:
		for _, stmt := range n.Body.List {
			list := stmt.(*ast.CaseClause).List
			for i := range list {
				if n.Tag == nil {
					list[i] = p.constant("case "+p.text(list[i]), list[i])
				} else {
					list[i] = call("mutantNever", p.number("case "+p.text(list[i]), "removed"), list[i])
				}
			}
		}
	case *ast.BinaryExpr:
		was, x, y := p.text(n), p.text(n.X), p.text(n.Y)
		switch n.Op {
		case token.LAND:
			n.X, n.Y = call("mutantTrue", p.number(was, y), n.X), call("mutantTrue", p.number(was, x), n.Y)
		case token.LOR:
			n.X, n.Y = call("mutantFalse", p.number(was, y), n.X), call("mutantFalse", p.number(was, x), n.Y)
		}
	case *ast.CallExpr:
		// A call that takes one of its two arguments is a clause for each argument.
		f, ok := n.Fun.(*ast.Ident)
		if !ok || len(n.Args) != 2 || !slices.Contains([]string{"min", "max", "later"}, f.Name) {
			return true
		}
		was, one, other := p.text(n), n.Args[0], n.Args[1]
		number := p.number(was, p.text(one))
		p.number(was, p.text(other))
		*n = *call("mutantEither", number, one, other, call(f.Name, one, other)).(*ast.CallExpr)
		return false
	}
	return true
}

// constant makes a condition always true, and always false.
func (p *pruner) constant(was string, cond ast.Expr) ast.Expr {
	cond = call("mutantTrue", p.number(was, "true"), cond)
	return call("mutantFalse", p.number(was, "false"), cond)
}
