package clauses

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Counted rewrites the module at root so that internal/sim/visits counts, by these names:
//
//   - "next: STATE, EVENT: DECISION → STATE", each transition of journal.Next;
//   - "cause: EVENT, CAUSE", what a claim was given up for;
//   - "FILE, FUNCTION, CONDITION: true" or "false", which way each condition of the state machine, of
//     the resend rule and of the client went;
//   - "func: FILE, FUNCTION", each entry into a function of the client;
//   - "verdict: PROVIDER, VERDICT", each judgement of an answer by the client.
func Counted(root string) (Files, error) {
	files := Files{}
	client, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range client {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if err := files.count(path, true); err != nil {
			return nil, err
		}
	}
	next, classify := filepath.Join(root, "journal", "next.go"), filepath.Join(root, "internal", "tables", "classify.go")
	for _, path := range []string{filepath.Join(root, "journal", "rule.go"), next, classify} {
		if err := files.count(path, false); err != nil {
			return nil, err
		}
	}
	files.rename(next, "func Next(", "func nextUncounted(", countedNext)
	files.rename(classify, "func (rt Route) Classify(", "func (rt Route) classifyUncounted(", countedClassify)
	return files, nil
}

// Conditions are the names of a file's conditions in one function, as Counted counts them.
func Conditions(path, function string) ([]string, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := counter{file: filepath.Base(path), source: source}
	err = c.visit(false)
	c.names = slices.DeleteFunc(c.names, func(name string) bool {
		return !strings.HasPrefix(name, c.file+", "+function+", ")
	})
	return c.names, err
}

func (f Files) rename(path, function, uncounted, counted string) {
	f[path] = append([]byte(strings.Replace(string(f[path]), function, uncounted, 1)), counted...)
}

func (f Files) count(path string, functions bool) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c := counter{file: filepath.Base(path), source: source}
	if err := c.visit(functions); err != nil {
		return err
	}
	f[path] = c.rewritten()
	return nil
}

// counter puts calls of visits into a file's text, which keeps its lines.
type counter struct {
	file     string
	source   []byte
	files    *token.FileSet
	function string
	before   map[int]string // by offset: what goes there, closing
	after    map[int]string // … and opening
	names    []string
}

const (
	visitsImport = `; import "github.com/onceward/onceward/internal/sim/visits"`
	visitsUsed   = "; var _ = visits.Count"
)

func (c *counter) visit(functions bool) error {
	c.files, c.before, c.after = token.NewFileSet(), map[int]string{}, map[int]string{}
	tree, err := parser.ParseFile(c.files, c.file, c.source, 0)
	if err != nil {
		return err
	}
	used := c.offset(tree.Name.End())
	c.after[used] = visitsImport
	for _, decl := range tree.Decls {
		if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
			used = c.offset(d.End())
		}
	}
	c.after[used] += visitsUsed
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil || slices.Contains(withoutClauses, f.Name.Name) {
			continue
		}
		c.function = f.Name.Name
		if functions {
			c.after[c.offset(f.Body.Lbrace)+1] += "visits.Count(" + strconv.Quote("func: "+c.file+", "+c.function) + ");"
		}
		ast.Inspect(f.Body, c.node)
	}
	return nil
}

func (c *counter) offset(p token.Pos) int { return c.files.Position(p).Offset }

func (c *counter) text(n ast.Node) string {
	return strings.Join(strings.Fields(string(c.source[c.offset(n.Pos()):c.offset(n.End())])), " ")
}

func (c *counter) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		c.condition(n.Cond)
	case *ast.SwitchStmt:
		for _, stmt := range n.Body.List {
			for _, e := range stmt.(*ast.CaseClause).List {
				if n.Tag == nil {
					c.condition(e)
				}
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.LAND || n.Op == token.LOR {
			c.condition(n.X)
			c.condition(n.Y)
		}
	}
	return true
}

// condition counts which way e goes. What encloses e was seen before it.
func (c *counter) condition(e ast.Expr) {
	if p, ok := e.(*ast.ParenExpr); ok {
		e = p.X
	}
	name := c.file + ", " + c.function + ", " + c.text(e)
	from, to := c.offset(e.Pos()), c.offset(e.End())
	c.after[from] += "visits.If(" + strconv.Quote(name) + ","
	c.before[to] = ")" + c.before[to]
	if !slices.Contains(c.names, name) {
		c.names = append(c.names, name)
	}
}

func (c *counter) rewritten() []byte {
	var all []byte
	for i := range len(c.source) + 1 {
		all = append(all, c.before[i]+c.after[i]...)
		if i < len(c.source) {
			all = append(all, c.source[i])
		}
	}
	return all
}

const countedNext = `
func Next(op Operation, live bool, ev Event) (Operation, Decision, error) {
	next, decision, err := nextUncounted(op, live, ev)
	cell := decision.String()
	switch {
	case err != nil:
		cell = "–"
	case decision == Ignored || decision == Stale || next.State == op.State && !next.Tombstone || op.Tombstone && next.Tombstone:
	case next.Tombstone:
		cell += " → tombstone"
	default:
		cell += " → " + next.State.String()
	}
	visits.Count("next: " + op.State.String() + ", " + ev.Kind.String() + ": " + cell)
	if err == nil && (ev.Kind == EventPark || ev.Kind == EventDoubt || ev.Kind == EventCancel) {
		visits.Count("cause: " + ev.Kind.String() + ", " + ev.Cause)
	}
	return next, decision, err
}
`

const countedClassify = `
func (rt Route) Classify(a Answer) Judgement {
	j := rt.classifyUncounted(a)
	name := "unlisted"
	if rt.Listed && rt.Provider != nil {
		name = rt.Provider.Name
	}
	visits.CountBeside("verdict: "+name+", "+j.Verdict.String(), "/providertest.")
	return j
}
`
