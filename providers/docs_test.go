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

var update = flag.Bool("update", false, "rewrite the pages in docs/providers, which are made from the adapters")

// The index has a line for every table.
func TestDocumentedIndex(t *testing.T) {
	documented(t, pagesFolder+"/README.md", "index", index(t))
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
	assert.True(t, made == stands, "%s is not what the adapters say; remake the table by: go generate ./docs", file)
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
