package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one change to one function: bytes from start to end are replaced.
type mutant struct {
	in         *function
	start, end int // in the file's text
	to         string
}

// function is what changes are made to.
type function struct {
	file string
	text []byte // of the whole file
	decl *ast.FuncDecl
	base token.Pos // of the file

	blocks []block // the body first, and then by their starts
}

// block is code that runs as a whole once it is reached, except for the blocks in it: bytes of the file's text.
type block struct{ start, end int }

// findBlocks finds the function's blocks: bodies, and the statements below a case.
func (f *function) findBlocks() {
	cases := map[*ast.BlockStmt]bool{}
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SwitchStmt:
			cases[n.Body] = true
		case *ast.TypeSwitchStmt:
			cases[n.Body] = true
		case *ast.SelectStmt:
			cases[n.Body] = true
		case *ast.CaseClause:
			f.blocks = append(f.blocks, block{f.at(n.Colon) + 1, f.at(n.End())})
		case *ast.CommClause:
			f.blocks = append(f.blocks, block{f.at(n.Colon) + 1, f.at(n.End())})
		case *ast.BlockStmt:
			if !cases[n] {
				f.blocks = append(f.blocks, block{f.at(n.Lbrace) + 1, f.at(n.Rbrace)})
			}
		}
		return true
	})
	slices.SortFunc(f.blocks, func(x, y block) int { return cmp.Compare(x.start, y.start) })
}

// block is the innermost block that is changed, by its number in the function.
func (m mutant) block() (innermost int) {
	for i, b := range m.in.blocks {
		if b.start <= m.start && m.start < b.end {
			innermost = i
		}
	}
	return innermost
}

// name is the function's, after its receiver's type.
func (f *function) name() string {
	if f.decl.Recv == nil {
		return f.decl.Name.Name
	}
	of := f.decl.Recv.List[0].Type
	receiver, _, _ := strings.Cut(string(f.text[f.at(of.Pos()):f.at(of.End())]), "[")
	return strings.TrimPrefix(receiver, "*") + "." + f.decl.Name.Name
}

// at is where in the text a position is.
func (f *function) at(p token.Pos) int { return int(p - f.base) }

// name says what is changed, and does not depend on the line, so that it stands as long
// as the code does.
func (m mutant) name() string {
	text := m.in.text
	from := strings.Join(strings.Fields(string(text[m.start:m.end])), " ")
	if len(from) > 80 {
		from = from[:77] + "..."
	}
	if m.start == m.end { // something is put in
		from, _, _ = strings.Cut(string(text[m.start:]), "\n")
	}
	to := strings.TrimSpace(m.to)
	if to == "" {
		to = "nothing"
	}
	before := text[m.in.at(m.in.decl.Pos()):m.start]
	nth := strings.Count(string(before), from) + 1
	return fmt.Sprintf("%s %s #%d: %s → %s", filepath.ToSlash(m.in.file), m.in.name(), nth, strings.TrimSuffix(from, " {"), to)
}

// mutantsOf returns every change to a package's code. It skips tests, and files named for Windows or for other
// systems.
func mutantsOf(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no code in %s", dir)
	}
	var all []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_windows.go") || strings.HasSuffix(file, "_other.go") {
			continue
		}
		found, err := mutantsIn(file)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func mutantsIn(file string) ([]mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, 0)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, declared := range tree.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "String" || f.Name.Name == "Error" || f.Name.Name == "Format" || f.Name.Name == "GoString" {
			continue
		}
		in := &function{file: file, text: text, decl: f, base: tree.FileStart}
		in.findBlocks()
		change := func(from, to token.Pos, with string) {
			all = append(all, mutant{in: in, start: in.at(from), end: in.at(to), to: with})
		}
		ast.Inspect(f.Body, func(n ast.Node) bool { return mutate(n, change) })
	}
	return all, nil
}

// opposites are what an operator is changed to.
var opposites = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="},
	token.LSS: {">=", "<="}, token.LEQ: {">", "<"}, token.GTR: {"<=", ">="}, token.GEQ: {"<", ">"},
	token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD: {"-"}, token.SUB: {"+"},
}

// mutate makes the changes that a node gives rise to, and tells whether to go on below.
func mutate(n ast.Node, change func(from, to token.Pos, text string)) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if isText(n.X) || isText(n.Y) {
			if n.Op == token.ADD {
				return true // of strings
			}
		}
		for _, to := range opposites[n.Op] {
			change(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to)
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			change(n.OpPos, n.OpPos+1, "")
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			change(n.Pos(), n.End(), "false")
		case "false":
			change(n.Pos(), n.End(), "true")
		case "WaitLock": // a row that another transaction holds is left out
			change(n.Pos(), n.End(), "TryLock")
		}
	case *ast.IfStmt:
		if n.Init == nil && !mentionsError(n.Cond) {
			return true // its condition is changed
		}
		change(n.Cond.Pos(), n.Cond.Pos(), "false && ")
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && !isLog(call) {
			change(n.Pos(), n.End(), "")
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE && len(n.Lhs) == 1 {
			if lhs, ok := n.Lhs[0].(*ast.SelectorExpr); ok && lhs.Sel != nil {
				change(n.Pos(), n.End(), "")
			}
		}
	case *ast.DeferStmt:
		change(n.Pos(), n.End(), "")
	case *ast.CaseClause:
		if len(n.List) > 1 {
			change(n.List[0].Pos(), n.List[1].Pos(), "")
		}
	}
	return true
}

func isText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING
}

// isLog reports whether a call only logs, which is output for people.
func isLog(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch selector.Sel.Name {
	case "Debug", "Info", "Warn", "Error", "note", "say":
		return true
	}
	return false
}

// mentionsError reports whether a condition compares an error, such as err != nil.
func mentionsError(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return false
	}
	id, ok := b.X.(*ast.Ident)
	return ok && strings.HasPrefix(id.Name, "err")
}
