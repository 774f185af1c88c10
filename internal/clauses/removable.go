// Package clauses rewrites the state machine and the resend rule for one build, by an overlay: so
// that any of their clauses can be taken away, or so that what is visited is counted.
// It changes no file of the module.
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

// Variable of the environment says, by its number, which clause is taken away in a
// binary that was built with what Removable returns. Without it none is.
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

// Decisive are the files whose clauses are taken away: the state machine and the rule.
var Decisive = []string{"next.go", "evidence.go", "rule.go"}

// Removable rewrites the decisive files of package journal, which lies in dir, so that each of their
// clauses can be taken away: each condition and case, each operand of an and or or, and
// each side of what takes one of two. The names stand in the order of the clauses' numbers, the
// first of which is 1.
func Removable(dir string) (names []string, files Files, err error) {
	return rewritten(dir, mutantUntold)
}

// Telling is Removable, and has what is compiled tell internal/sim/visits of each clause that makes a difference: without
// it Next or MaySend would have said something else, but for its reasons, of what they were asked.
func Telling(dir string) (names []string, files Files, err error) {
	names, files, err = rewritten(dir, mutantTold)
	if err != nil {
		return nil, nil, err
	}
	repeat := filepath.Join(dir, "repeat.go")
	if files[repeat], err = os.ReadFile(repeat); err != nil {
		return nil, nil, err
	}
	for path, source := range files {
		if filepath.Base(path) == mutantFile {
			continue
		}
		for was, is := range map[string]string{"MaySend(": "maySendUntold(", "func Next(": "func nextUntold("} {
			source = bytes.ReplaceAll(source, []byte(was), []byte(is))
		}
		files[path] = source
	}
	return names, files, nil
}

func rewritten(dir, asked string) (names []string, files Files, err error) {
	p := &pruner{copies: map[ast.Node]bool{}}
	files = Files{filepath.Join(dir, mutantFile): []byte(asked + mutantSource)}
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

const mutantFile = "zz_mutant.go"

const mutantUntold = `package journal

import (
	"os"
	"strconv"
)

const mutantTold = false

func mutantMatters(int) {}
`

// mutantTold asks again, without each clause that may make a difference, and holds what comes of it against what came
// with it.
const mutantTold = `package journal

import (
	"os"
	"reflect"
	"strconv"
	"sync"

	"github.com/onceward/onceward/internal/sim/visits"
)

const mutantTold = true

var (
	mutantAsking sync.Mutex
	mutantNoting sync.Mutex   // others ask for margins meanwhile
	mutantNoted  map[int]bool // nil: nothing is noted
)

func mutantMatters(n int) {
	mutantNoting.Lock()
	if mutantNoted != nil {
		mutantNoted[n] = true
	}
	mutantNoting.Unlock()
}

// mutantNotes has what is noted from now on go elsewhere, and returns where it went.
func mutantNotes(to map[int]bool) (before map[int]bool) {
	mutantNoting.Lock()
	defer mutantNoting.Unlock()
	before, mutantNoted = mutantNoted, to
	return before
}

// mutantAgain asks for what a function says, and then without each clause that was noted.
func mutantAgain(says func() any) {
	mutantNotes(map[int]bool{})
	with := says()
	noted := mutantNotes(nil)
	for n := range noted {
		if !reflect.DeepEqual(with, mutantWithout(n, says)) {
			visits.Matters(n)
		}
	}
}

func mutantWithout(n int, says func() any) (said any) {
	defer func() {
		mutant = 0
		if recover() != nil {
			said = "a panic"
		}
	}()
	mutant = n
	return says()
}

type mutantSaid struct {
	op       Operation
	decision Decision
	refused  bool
}

func Next(op Operation, live bool, ev Event) (next Operation, decision Decision, err error) {
	mutantAsking.Lock()
	defer mutantAsking.Unlock()
	asked := ev
	first := true
	if ev.Today != nil { // it takes slots, and asks MaySend
		var today Today
		var known, told bool
		asked.Today = func(of *Operation) (Today, bool) {
			switch {
			case told:
				return today, known
			case !first:
				return Today{Terms: of.Terms, Form: of.Form}, true
			}
			noted := mutantNotes(nil)
			mutantAsking.Unlock()
			today, known = ev.Today(of)
			mutantAsking.Lock()
			mutantNotes(noted)
			told = true
			return today, known
		}
	}
	if ev.Intent != nil && ev.Intent.NextKey != nil { // it may draw one
		in, keys := *ev.Intent, map[int]string{}
		in.NextKey = func(generation int) string {
			if keys[generation] == "" {
				keys[generation] = ev.Intent.NextKey(generation)
			}
			return keys[generation]
		}
		asked.Intent = &in
	}
	mutantAgain(func() any {
		op, d, e := nextUntold(op, live, asked)
		if first {
			first, next, decision, err = false, op, d, e
		}
		op.Cause = ""
		if op.Dead != "" {
			op.Dead = "for a reason"
		}
		return mutantSaid{op, d, e != nil}
	})
	return next, decision, err
}

func MaySend(q Question) (p Permission) {
	mutantAsking.Lock()
	defer mutantAsking.Unlock()
	first := true
	mutantAgain(func() any {
		said := maySendUntold(q)
		if first {
			first, p = false, said
		}
		said.Reason = ""
		return said
	})
	return p
}
`

// mutantSource is what the rewritten clauses call. What is handed over as a function is asked only to tell whether a
// clause may make a difference: where the first operand of an and is false, say, the second may not bear to be asked, and
// then the difference is a panic.
const mutantSource = `
var mutant, _ = strconv.Atoi(os.Getenv("` + Variable + `"))

func mutantWould(n int, differ func() bool) {
	defer func() {
		if recover() != nil {
			mutantMatters(n)
		}
	}()
	if differ() {
		mutantMatters(n)
	}
}

func mutantTrue(n int, was bool) bool {
	if mutantTold && !was {
		mutantMatters(n)
	}
	return was || mutant == n
}

func mutantFalse(n int, was bool) bool {
	if mutantTold && was {
		mutantMatters(n)
	}
	return was && mutant != n
}

func mutantBefore(n int, was bool, and func() bool) bool {
	if mutantTold && !was {
		mutantWould(n, and)
	}
	return was || mutant == n
}

func mutantInstead(n int, was bool, or func() bool) bool {
	if mutantTold && was {
		mutantWould(n, func() bool { return !or() })
	}
	return was && mutant != n
}

func mutantNever[T ~uint8](n int, of, was T) T {
	if mutantTold && of == was {
		mutantMatters(n)
	}
	if mutant == n {
		return 255
	}
	return was
}

func mutantEither[T comparable](n int, one, other, was T) T {
	if mutantTold && one != was {
		mutantMatters(n)
	}
	if mutantTold && other != was {
		mutantMatters(n + 1)
	}
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
	copies   map[ast.Node]bool // of what is rewritten elsewhere
}

// withoutClauses are functions that decide nothing.
var withoutClauses = []string{"String", "Error", "Unwrap", "noWindow", "because", "invalid"}

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

// number is that of the next mutant, which is named by what was and what is.
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

// later hands on an expression, as it stands, to be asked or not.
func (p *pruner) later(text string) ast.Expr {
	again, err := parser.ParseExpr(text)
	if err != nil {
		panic(err) // it was parsed, and printed
	}
	f := &ast.FuncLit{
		Type: &ast.FuncType{Params: &ast.FieldList{}, Results: &ast.FieldList{List: []*ast.Field{{Type: ast.NewIdent("bool")}}}},
		Body: &ast.BlockStmt{List: []ast.Stmt{&ast.ReturnStmt{Results: []ast.Expr{again}}}},
	}
	p.copies[f] = true
	return f
}

func (p *pruner) visit(n ast.Node) bool {
	if p.copies[n] {
		return false
	}
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
					list[i] = call("mutantNever", p.number("case "+p.text(list[i]), "removed"), n.Tag, list[i])
				}
			}
		}
	case *ast.BinaryExpr:
		was, x, y := p.text(n), p.text(n.X), p.text(n.Y)
		switch n.Op {
		case token.LAND:
			n.X, n.Y = call("mutantBefore", p.number(was, y), n.X, p.later(y)), call("mutantTrue", p.number(was, x), n.Y)
		case token.LOR:
			n.X, n.Y = call("mutantInstead", p.number(was, y), n.X, p.later(y)), call("mutantFalse", p.number(was, x), n.Y)
		}
	case *ast.CallExpr:
		// What takes the one or the other of two is a clause for each.
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
