package model_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	mutate  = flag.Bool("model.mutate", false, "weaken journal's rule and Next, a clause at a time: each must be missed")
	mutants = flag.String("model.mutants", "", "with -model.mutate: only mutants whose name matches this expression")
	keep    = flag.String("model.histories", "", "with -model.mutate: the directory where the history that a mutant was noticed by is kept")
	stride  = flag.Int("model.stride", 1, "with -model.mutate: every so many mutants only, for a sample")
)

// mutated are the files whose clauses are removed: the state machine and the rule.
var mutated = []string{"next.go", "rule.go"}

const journalDir = "../../journal"

// TestEveryClauseIsNeeded removes each clause of the rule and each guard of Next, one
// at a time, and has the short searches run by the rest: an invariant breaks, or at
// least a test of package journal fails.
//
// All mutants are in one binary, so that it is built once: the source files are
// rewritten, and go test -overlay compiles what came of them. A variable of the
// environment says which mutant it is.
func TestEveryClauseIsNeeded(t *testing.T) {
	if !*mutate {
		t.Skip("with -model.mutate")
	}
	only := regexp.MustCompile(*mutants)
	names, overlay := overlaid(t)
	binaries := t.TempDir()
	searches, tests := filepath.Join(binaries, "model.test"), filepath.Join(binaries, "journal.test")
	for binary, dir := range map[string]string{searches: ".", tests: journalDir} {
		out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.Equal(t, survived, kill(t, 0, "the original", searches, tests))

	var chosen []int
	for i, name := range names {
		if only.MatchString(name) && i%*stride == 0 {
			chosen = append(chosen, i)
		}
	}
	ends := make([]string, len(names))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2)
	start := time.Now()
	for _, i := range chosen {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ends[i] = kill(t, i+1, names[i], searches, tests)
			t.Logf("%-24s %s", ends[i], names[i])
		})
	}
	wg.Wait()

	score := map[string]int{}
	for _, i := range chosen {
		by, _, _ := strings.Cut(ends[i], ":")
		if reason, ok := redundant[names[i]]; ok {
			assert.Equal(t, survived, ends[i], "%s is missed after all", names[i])
			t.Logf("not missed: %s: %s", names[i], reason)
			by = "redundant"
		} else {
			assert.NotEqual(t, survived, ends[i], "nobody misses %s", names[i])
		}
		score[by]++
	}
	t.Logf("%d clauses removed in %v: %d break an invariant of the model, %d a test of journal, %d are known to change nothing, %d survived",
		len(chosen), time.Since(start).Round(time.Second), score["model"], score["journal"], score["redundant"], score[survived])
}

const survived = "survived"

// kill says who noticed a mutant: the model, by an invariant, or a test of journal.
func kill(t *testing.T, number int, name, searches, tests string) string {
	environment := append(os.Environ(), fmt.Sprintf("%s=%d", mutantVariable, number))
	search := exec.CommandContext(t.Context(), searches, "-test.run", "^TestNoInvariantIsBrokenInAnyHistory$", "-test.v")
	search.Env = environment
	out, err := search.CombinedOutput()
	if broken := regexp.MustCompile(`invariant (\d+) is broken`).FindSubmatch(out); err != nil && broken != nil {
		if *keep != "" {
			file := regexp.MustCompile(`\W+`).ReplaceAllString(name, "_") + ".txt"
			assert.NoError(t, os.WriteFile(filepath.Join(*keep, file), append([]byte(name+"\n"), out...), 0o600))
		}
		return "model: invariant " + string(broken[1])
	}
	test := exec.CommandContext(t.Context(), tests, "-test.failfast")
	test.Env, test.Dir = environment, journalDir
	if out, err := test.CombinedOutput(); err != nil {
		failed := regexp.MustCompile(`--- FAIL: (\w+)`).FindSubmatch(out)
		if failed == nil {
			return "journal: panics"
		}
		return "journal: " + string(failed[1])
	}
	return survived
}

// overlaid rewrites the mutated files so that each clause can be switched off. It
// returns the clauses' names in the order of their numbers, the first being 1, and
// the overlay.
func overlaid(t *testing.T) (names []string, overlay string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	add := func(name string, source []byte) {
		original, err := filepath.Abs(filepath.Join(journalDir, name))
		require.NoError(t, err)
		replace[original] = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(replace[original], source, 0o600))
	}
	p := &pruner{}
	for _, file := range mutated {
		p.file = file
		source, err := os.ReadFile(filepath.Join(journalDir, file))
		require.NoError(t, err)
		add(file, p.prune(t, source))
	}
	add("zz_mutant.go", []byte(mutantSource))
	list, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, list, 0o600))
	return p.names, overlay
}

const mutantVariable = "ONCEWARD_MUTANT"

// mutantSource is what the rewritten clauses call.
const mutantSource = `package journal

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("` + mutantVariable + `"))

func mutantTrue(n int, was bool) bool { return was || mutant == n }

func mutantFalse(n int, was bool) bool { return was && mutant != n }

func mutantNever[T ~uint8](n int, was T) T {
	if mutant == n {
		return 255
	}
	return was
}

func mutantEither[T any](n int, one, other, was T) T {
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
var withoutClauses = []string{"String", "Error", "Unwrap", "noWindow", "because", "invalid"}

func (p *pruner) prune(t *testing.T, source []byte) []byte {
	t.Helper()
	p.files = token.NewFileSet()
	tree, err := parser.ParseFile(p.files, p.file, source, 0)
	require.NoError(t, err)
	for _, decl := range tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && !slices.Contains(withoutClauses, f.Name.Name) {
			p.function = f.Name.Name
			ast.Inspect(f, p.visit)
		}
	}
	var b bytes.Buffer
	require.NoError(t, format.Node(&b, p.files, tree))
	return b.Bytes()
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

func TestTheClausesThatAreKnownToBeRedundantAreThere(t *testing.T) {
	names, _ := overlaid(t)
	assert.Greater(t, len(names), 200)
	for name, reason := range redundant {
		assert.Contains(t, names, name)
		assert.NotEmpty(t, reason)
	}
}
