package model_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/proof/model"
)

var update = flag.Bool("update", false, "rewrite the parts of docs/verification.md that are made from the code")

const document = "../../docs/verification.md"

func TestTheDocumentSaysWhatTheModelIs(t *testing.T) {
	for _, part := range []struct {
		name string
		made func(*testing.T) string
	}{
		{"invariants", invariantTable},
		{"states", diagram},
	} {
		t.Run(part.name, func(t *testing.T) {
			made := part.made(t)
			text, err := os.ReadFile(document)
			require.NoError(t, err)
			before, rest, found := strings.Cut(string(text), "<!-- table: "+part.name+" -->\n")
			require.True(t, found, "%s has no place for it", document)
			stands, after, found := strings.Cut(rest, "<!-- end -->")
			require.True(t, found)
			if *update {
				whole := before + "<!-- table: " + part.name + " -->\n" + made + "<!-- end -->" + after
				require.NoError(t, os.WriteFile(document, []byte(whole), 0o644))
				return
			}
			assert.Equal(t, made, stands, "made from the code anew by: go generate ./docs")
		})
	}
}

func invariantTable(*testing.T) string {
	var b strings.Builder
	b.WriteString("| | invariant | what holds |\n|---|---|---|\n")
	for _, in := range model.Invariants {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", in.Number, in.Name, in.Statement)
	}
	return b.String()
}

// diagram draws the transitions of records by events in all worlds. They come from the answers of Next, not from a
// description of it.
func diagram(t *testing.T) string {
	events := map[[2]string][]string{}
	for _, cfg := range model.Worlds {
		res, err := short[cfg.Name]()
		require.NoError(t, err)
		for _, e := range res.Edges {
			way := [2]string{place(e.From, "[*]"), place(e.To, "[*]")}
			if name := e.Event.String(); !slices.Contains(events[way], name) {
				events[way] = append(events[way], name)
			}
		}
	}
	var lines []string
	for way, names := range events {
		slices.Sort(names)
		lines = append(lines, fmt.Sprintf("    %s --> %s: %s\n", way[0], way[1], strings.Join(names, ", ")))
	}
	slices.Sort(lines)
	return "```mermaid\nstateDiagram-v2\n" + strings.Join(lines, "") + "```\n"
}

func place(state, absent string) string {
	if state == journal.StateAbsent.String() {
		return absent
	}
	return state
}

func TestEveryStateIsReached(t *testing.T) {
	reached := map[string]bool{}
	for _, cfg := range model.Worlds {
		res, err := short[cfg.Name]()
		require.NoError(t, err)
		for _, e := range res.Edges {
			reached[e.To] = true
		}
	}
	for _, s := range journal.States {
		assert.True(t, reached[s.String()], s)
	}
	assert.True(t, reached["tombstone"])
	assert.True(t, reached[journal.StateAbsent.String()])
}
