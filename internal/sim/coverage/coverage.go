// Package coverage holds what a run of lives has come past against what there is to come past:
// the transitions of journal.Next, the conditions of the resend rule, the rows of the fault
// table, the verdicts of the adapters' tables, the errors that callers are told and the client's functions. It makes
// docs/simulation.md of both.
package coverage

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/clauses"
)

// Run is what some lives came past.
type Run struct {
	Lives  int              `json:"lives"`
	Visits map[string]int64 `json:"visits"` // as internal/clauses names them
}

// Removed is what lives made of the code without one of its clauses.
type Removed struct {
	Clause   string `json:"clause"`
	Of       int    `json:"of"`       // lives, with all clauses
	Mattered int    `json:"mattered"` // in so many of them it made a difference
	Lived    int    `json:"lived"`    // so many of those, without it, until a fault was found; where none was, all that were lived
	Seed     uint64 `json:"seed"`     // of the life with the fault, where it is known
	Fault    string `json:"fault"`    // "": none was found
	Test     string `json:"test"`     // of the client, that fails without it, where lives found no fault
}

// Where the latest runs are kept, below the module's root.
const (
	RunFile     = "internal/sim/coverage/run.json"
	RemovedFile = "internal/sim/coverage/removed.json"
	Document    = "docs/simulation.md"
)

// Row is something to come past.
type Row struct {
	Cells  []string
	Visits string // matches the names of the visits that show it
}

// Transitions are those of the table in docs/design.md.
func Transitions(root string) ([]Row, error) {
	lines, err := section(filepath.Join(root, "docs", "design.md"), "<!-- table: transitions -->\n", "<!-- end -->")
	if err != nil {
		return nil, err
	}
	var rows []Row
	events := cells(lines[0])[1:]
	for _, line := range lines[2:] {
		all := cells(line)
		for i, event := range events {
			for _, to := range strings.Split(all[i+1], "<br>") {
				if to != "–" {
					rows = append(rows, Row{[]string{all[0], event, to}, exactly("next: " + all[0] + ", " + event + ": " + to)})
				}
			}
		}
	}
	return rows, nil
}

// Conditions are those of the resend rule, each of which goes two ways.
func Conditions(root string) ([]Row, error) {
	var rows []Row
	for _, function := range []string{"MaySend", "inside", "Window", "stricterHandling"} {
		names, err := clauses.Conditions(filepath.Join(root, "journal", "rule.go"), function)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			condition := strings.TrimPrefix(name, "rule.go, "+function+", ")
			rows = append(rows, Row{[]string{function, "`" + condition + "`"}, exactly(name)})
		}
	}
	return rows, nil
}

// Faults are the rows of the fault table in docs/design.md.
func Faults(root string) ([]Row, error) {
	lines, err := section(filepath.Join(root, "docs", "design.md"), "\n## Faults, and what the caller sees\n", "\n## ")
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, line := range lines[2:] {
		name := cells(line)[0]
		rows = append(rows, Row{[]string{name}, faults[name]})
	}
	return rows, nil
}

// faults are the visits that show a row of the fault table.
var faults = map[string]string{
	"journal can't record the intent": `^error: ErrJournal$`,
	"journal can't record an answer, park, doubt or cancel, or an intent's commit fails and may have landed": `^func: backlog\.go, add$`,
	"another operation has the carried key":                          `^func: carried\.go, keyHeld$`,
	"same ID, another request":                                       `^next: \w+, begin: misuse$`,
	"another goroutine or process holds it":                          `^next: in_flight, begin: wait$`,
	"the provider says in flight (409)":                              `^verdict: .*, in flight$`,
	"delay beyond the deadline":                                      `^judge\.go, retryOrEnd, at\.After\(r\.ends\): true$`,
	"out of attempts, or refused after an attempt that may have run": `^cause: \w+, out of attempts`,
	"an attempt takes longer than `AttemptTimeout`":                  `^cause: .*timed out`,
	"response cut after its status line":                             `^cause: .*body cut short`,
	"retention passed before a resend":                               `^rule\.go, inside, !at\.Before\(q\.FirstSentAt\.Add\(window\)\): true$`,
	"context cancelled before anything was sent":                     `^error: ErrNotSent$`,
	"context cancelled after it":                                     `^next: in_flight, cancel: recorded → (pending|unknown)$`,
	"`Run` or `Resume` ends while it sends what was pending":         `^cause: \w+, Run or Resume ended`,
	"a wrong credential (401) on a first attempt":                    `^cause: cancel, status 401`,
	"a wrong credential on what was pending":                         `^error: ErrCredentialRefused$`,
	"a withheld header is missing on a resumed attempt":              `^error: ErrCredentialMissing$`,
	"the credential changed where keys are scoped to it":             `^cause: \w+, the credential is another one`,
	"asked again after reap":                                         `^next: completed, begin: gone$`,
	"the clock stands behind the journal":                            `^rule\.go, inside, behind: true$`,
	"the journal was restored or copied":                             `^error: ErrJournalRestored$`,
	"body over the limit, unreadable body, invalid key":              `^error: ErrInvalidRequest$`,
	"CONNECT, Upgrade, a streaming request":                          `^(identify|read)\.go, \w+, (!streams\(req\): false|streams\(k\.req\): true)$`,
}

// Errors are those that callers are told.
func Errors(root string) ([]Row, error) {
	var rows []Row
	for _, file := range []string{"errors.go", "flow/errors.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
				rows = append(rows, Row{[]string{"`" + v.Names[0].Name + "`"}, exactly("error: " + v.Names[0].Name)})
			}
			return true
		})
	}
	return rows, nil
}

// Verdicts are what an adapter's rules give, by docs/providers.md.
func Verdicts(root string) ([]Row, error) {
	lines, err := section(filepath.Join(root, "docs", "providers.md"), "<!-- table: matrix -->\n", "<!-- end -->")
	if err != nil {
		return nil, err
	}
	given, provider := map[string][]string{}, ""
	var names []string
	for _, line := range lines {
		if name, is := strings.CutPrefix(line, "## "); is {
			provider = name
			names = append(names, name)
		}
		if c := cells(line); len(c) == 3 && slices.Contains(verdicts, c[1]) && !slices.Contains(given[provider], c[1]) {
			given[provider] = append(given[provider], c[1])
		}
	}
	var rows []Row
	for _, name := range names {
		for _, v := range verdicts {
			if slices.Contains(given[name], v) {
				rows = append(rows, Row{[]string{name, v}, exactly("verdict: " + name + ", " + v)})
			}
		}
	}
	return rows, nil
}

var verdicts = []string{"final", "rejected", "not executed", "retry", "in flight", "already done", "misuse", "indeterminate"}

// Functions are the client's, by file.
func Functions(root string) ([]Row, error) {
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil && !slices.Contains([]string{"String", "Error", "Unwrap"}, f.Name.Name) {
				file := filepath.Base(path)
				rows = append(rows, Row{[]string{file, f.Name.Name}, exactly("func: " + file + ", " + f.Name.Name)})
			}
		}
	}
	return rows, nil
}

func exactly(name string) string { return "^" + regexp.QuoteMeta(name) + "(: true|: false)?$" }

// section is the lines of a file between two texts.
func section(file, from, to string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, after, found := strings.Cut(string(text), from)
	if !found {
		return nil, fmt.Errorf("%s has no %q", file, strings.TrimSpace(from))
	}
	within, _, _ := strings.Cut(after, to)
	lines := strings.Split(strings.TrimSpace(within), "\n")
	if strings.HasPrefix(lines[0], "|") || strings.HasPrefix(lines[0], "## ") {
		return lines, nil
	}
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "|") }), nil
}

func cells(line string) []string {
	all := strings.Split(strings.Trim(line, "| "), " | ")
	for i := range all {
		all[i] = strings.TrimSpace(strings.ReplaceAll(all[i], `\|`, "|"))
	}
	return all
}

// Count is how often a run came past a row.
func (r Run) Count(row Row) int64 {
	if row.Visits == "" {
		return 0
	}
	pattern, n := regexp.MustCompile(row.Visits), int64(0)
	for name, visits := range r.Visits {
		if pattern.MatchString(name) {
			n += visits
		}
	}
	return n
}

// Keep drops the visits that no table shows.
func (r Run) Keep(root string) error {
	var patterns []*regexp.Regexp
	for _, rows := range []func(string) ([]Row, error){Transitions, Conditions, Faults, Errors, Verdicts} {
		all, err := rows(root)
		if err != nil {
			return err
		}
		for _, row := range all {
			if row.Visits != "" {
				patterns = append(patterns, regexp.MustCompile(row.Visits))
			}
		}
	}
	maps.DeleteFunc(r.Visits, func(name string, _ int64) bool {
		if strings.HasPrefix(name, "func: ") || strings.HasPrefix(name, "verdict: ") || strings.HasPrefix(name, "next: ") && !strings.HasSuffix(name, "–") {
			return false
		}
		return !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
	})
	return nil
}

// Read reads a run, or what was removed, from the module's folder.
func Read(root, file string, into any) error {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Write keeps it there.
func Write(root, file string, what any) error {
	text, err := json.MarshalIndent(what, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, file), append(text, '\n'), 0o644)
}
