package receipt_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/proof/model/receipt"
)

// limit of states: a search that meets it fails, since it is not exhaustive.
const limit = 1_000_000

// searches has the search of each world, once for all tests.
var searches = func() map[string]func() (receipt.Result, error) {
	all := map[string]func() (receipt.Result, error){}
	for _, cfg := range receipt.Worlds {
		all[cfg.Name] = sync.OnceValues(func() (receipt.Result, error) { return receipt.Explore(&cfg, receipt.Real(), limit) })
	}
	return all
}()

func TestNoInvariantIsBrokenInAnyHistory(t *testing.T) {
	t.Parallel()
	for _, cfg := range receipt.Worlds {
		t.Run(cfg.Name, func(t *testing.T) {
			t.Parallel()
			res, err := searches[cfg.Name]()
			if v := res.Violation; v != nil {
				t.Fatalf("invariant %d is broken: %s\n%s", v.Invariant.Number, v.Invariant.Statement, strings.Join(v.History, "\n"))
			}
			require.NoError(t, err)
			t.Logf("%s %d states, %d transitions, depth %d, exhaustive", cfg.About, res.States, res.Transitions, res.Depth)
		})
	}
}

// The searches meet every decision that a service gets.
func TestEveryDecisionIsReached(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	for _, search := range searches {
		res, err := search()
		require.NoError(t, err)
		maps.Copy(reached, res.Decisions)
	}
	assert.Equal(t, []string{
		"complete of reserved: recorded",
		"reap of absent: ignored", "reap of completed: ignored", "reap of completed: recorded", "reap of reserved: ignored",
		"record of absent: recorded", "record of completed: misuse", "record of completed: replay",
		"reserve of absent: execute",
		"reserve of completed: execute", "reserve of completed: gone", "reserve of completed: misuse", "reserve of completed: replay",
		"reserve of reserved: misuse", "reserve of reserved: stop",
		"resolve of reserved: recorded", "resolve of reserved: stale",
	}, slices.Sorted(maps.Keys(reached)))
}

var update = flag.Bool("update", false, "rewrite the table of docs/verification.md that is made from the code")

const document = "../../../docs/verification.md"

func TestTheDocumentSaysWhatTheModelIs(t *testing.T) {
	t.Parallel()
	var made strings.Builder
	made.WriteString("| | invariant | what holds |\n|---|---|---|\n")
	for _, in := range receipt.Invariants {
		fmt.Fprintf(&made, "| %d | %s | %s |\n", in.Number, in.Name, in.Statement)
	}
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	const begins, ends = "<!-- table: invariants of receipts -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(string(text), begins)
	require.True(t, found, "%s has no place for it", document)
	stands, after, found := strings.Cut(rest, ends)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(before+begins+made.String()+ends+after), 0o644))
		return
	}
	assert.Equal(t, made.String(), stands, "made from the code anew by: go generate ./docs")
}
