package providers_test

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
)

var update = flag.Bool("update", false, "rewrite the tables in README.md and docs/ that are made from the adapters")

// The adapters in the documents are the tables.
func TestDocumentedAdapters(t *testing.T) {
	for _, table := range []struct {
		file, name string
		made       string
	}{
		{"../README.md", "adapters", list(t)},
		{"../docs/adapters.md", "providers", overview(t)},
		{"../docs/providers.md", "terms", termsTable()},
		{"../docs/providers.md", "shared sources", sharedSourcesTable()},
		{"../docs/providers.md", "sections", sections(t)},
	} {
		t.Run(table.name, func(t *testing.T) { documented(t, table.file, table.name, table.made) })
	}
}

// documented compares a table of a document with the text made from its source. With -update it writes the table
// anew.
func documented(t *testing.T, file, name, made string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), "<!-- table: "+name+" -->\n")
	require.True(t, found, "%s has no place for the table", file)
	stands, after, found := strings.Cut(rest, "<!-- end -->")
	require.True(t, found)
	if *update {
		whole := before + "<!-- table: " + name + " -->\n" + made + "<!-- end -->" + after
		require.NoError(t, os.WriteFile(file, []byte(whole), 0o644))
		return
	}
	assert.True(t, made == stands, "%s is not what the adapters say; it is made anew by: go test -run Documented . ./providers -update", file)
}

// list links every adapter to its contract.
func list(t *testing.T) string {
	t.Helper()
	calls := calls(t)
	var links []string
	for _, p := range adapters() {
		name, _, _ := strings.Cut(calls[p.Name], "(")
		links = append(links, fmt.Sprintf("[%s](docs/providers.md#%s)", name, strings.ReplaceAll(p.Name, ".", "")))
	}
	var b strings.Builder
	for line := range slices.Chunk(links, 4) {
		b.WriteString(strings.Join(line, " · ") + " ·\n")
	}
	return strings.TrimSuffix(b.String(), " ·\n") + "\n"
}

// overview is a line for every adapter, with the facts that its endpoints have in common.
func overview(t *testing.T) string {
	t.Helper()
	calls := calls(t)
	var b strings.Builder
	b.WriteString("| adapter | key | kept for | sent again after an ambiguous failure |\n|---|---|---|---|\n")
	for _, p := range adapters() {
		var keys, kept []string
		var shortest, longest time.Duration
		again, keyed, lost := 0, 0, 0
		for _, e := range p.Endpoints {
			if e.Key.Place == providers.KeyNone {
				continue
			}
			keys = appendNew(keys, fmt.Sprintf("%s `%s`", e.Key.Place, e.Key.Name))
			keyed++
			if termsOf(e).Window() > 0 {
				again++
				if e.Remembers == providers.SuccessesLostAnswers {
					lost++
				}
			}
			switch {
			case callersRetention(p, e):
				kept = appendNew(kept, "as you say")
			case e.Retention == 0:
				kept = appendNew(kept, "not published")
			default:
				longest = max(longest, e.Retention)
				if shortest == 0 || e.Retention < shortest {
					shortest = e.Retention
				}
			}
		}
		switch {
		case shortest == longest && longest > 0:
			kept = slices.Insert(kept, 0, period(longest))
		case longest > 0:
			kept = slices.Insert(kept, 0, period(shortest)+" to "+period(longest))
		}
		if keyed == 0 {
			keys, kept = []string{"none"}, []string{"–"}
		}
		resent := "no"
		switch {
		case again > 0 && again < keyed:
			resent = "some requests with a key"
		case again > 0:
			resent = "every request with a key"
		}
		if lost > 0 {
			resent += ", after a lost answer"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", calls[p.Name], strings.Join(keys, "; "), strings.Join(kept, "; "), resent)
	}
	return b.String()
}

// calls are the adapters' functions with the names of their parameters, by the
// name of the provider.
func calls(t *testing.T) map[string]string {
	t.Helper()
	byFunction := map[string]string{}
	for _, fn := range adapterFunctions(t) {
		var parameters []string
		for _, field := range fn.Type.Params.List {
			for _, name := range field.Names {
				parameters = append(parameters, name.Name)
				if _, ok := field.Type.(*ast.Ellipsis); ok {
					parameters[len(parameters)-1] += "..."
				}
			}
		}
		byFunction[strings.ToLower(fn.Name.Name)] = fn.Name.Name + "(" + strings.Join(parameters, ", ") + ")"
	}
	byName := map[string]string{}
	for _, p := range adapters() {
		call := byFunction[strings.TrimSuffix(p.Name, ".com")]
		require.NotEmpty(t, call, "no function is named like %s", p.Name)
		byName[p.Name] = call
	}
	return byName
}

// callersRetention reports whether a retention is the one that the caller gave to the adapter.
func callersRetention(p providers.Provider, e providers.Endpoint) bool {
	return strings.Contains(e.Source, "the caller") || p.Name == "ietf" || p.Name == "raw"
}

func code(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = "`" + text + "`"
	}
	return strings.Join(quoted, ", ")
}

// cell is a text as it stands in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// period writes a duration with the units that it needs.
func period(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{day, "day"}, {time.Hour, "h"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		n := d / unit.length
		switch d -= n * unit.length; {
		case n == 0:
		case unit.length == day && n == 1:
			d += day
		case n == 1 || unit.name == "h":
			parts = append(parts, fmt.Sprintf("%d %s", n, unit.name))
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", n, unit.name))
		}
	}
	return strings.Join(parts, " ")
}
