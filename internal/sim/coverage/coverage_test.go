package coverage_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/clauses"
	"github.com/onceward/onceward/internal/sim/coverage"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/simulation.md")

const root = "../../.."

// The document has a row for all that lives may come past.
func TestDocumentHasARowForAll(t *testing.T) {
	made, err := coverage.Make(root)
	require.NoError(t, err)
	file := filepath.Join(root, coverage.Document)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(made), 0o644))
		return
	}
	stands, err := os.ReadFile(file)
	require.NoError(t, err)
	want, err := coverage.Held(made)
	require.NoError(t, err)
	got, err := coverage.Held(string(stands))
	require.NoError(t, err)
	assert.Equal(t, want, got, "made anew, with the counts of the latest run, by: go test ./internal/sim/coverage -run Document -update")
}

func TestThereIsMuchToComePast(t *testing.T) {
	for name, rows := range map[string]func(string) ([]coverage.Row, error){
		"transitions": coverage.Transitions, "conditions": coverage.Conditions, "faults": coverage.Faults,
		"errors": coverage.Errors, "verdicts": coverage.Verdicts, "functions": coverage.Functions,
	} {
		all, err := rows(root)
		require.NoError(t, err)
		assert.Greater(t, len(all), 20, name)
	}
}

// Every row of the fault table has visits that show it.
func TestFaultTableHasVisits(t *testing.T) {
	rows, err := coverage.Faults(root)
	require.NoError(t, err)
	names := []string{}
	for file, functions := range map[string][]string{"journal/rule.go": {"MaySend", "inside"}, "judge.go": {"retryOrEnd"}, "read.go": {"understand"}} {
		for _, function := range functions {
			conditions, err := clauses.Conditions(filepath.Join(root, file), function)
			require.NoError(t, err)
			for _, name := range conditions {
				names = append(names, name+": true", name+": false")
			}
		}
	}
	for _, of := range []func(string) ([]coverage.Row, error){coverage.Functions, coverage.Errors} {
		all, err := of(root)
		require.NoError(t, err)
		for _, row := range all {
			names = append(names, "func: "+row.Cells[0]+", "+row.Cells[len(row.Cells)-1], "error: "+row.Cells[0][1:len(row.Cells[0])-1])
		}
	}
	elsewhere := regexp.MustCompile(`^\^(next|verdict|cause)`)
	for _, row := range rows {
		require.NotEmpty(t, row.Visits, "%q: nothing shows it", row.Cells[0])
		if elsewhere.MatchString(row.Visits) {
			continue
		}
		pattern := regexp.MustCompile(row.Visits)
		there := false
		for _, name := range names {
			there = there || pattern.MatchString(name)
		}
		assert.True(t, there, "%q: %s names nothing that is there", row.Cells[0], row.Visits)
	}
}

// What neither a life nor a test of the client misses has a reason.
func TestClauseThatNobodyMissesHasAReason(t *testing.T) {
	made, err := coverage.Make(root)
	require.NoError(t, err)
	assert.Regexp(t, `(?m) \| not in \d+: .+ \|$`, made, "there are some with a reason")
	assert.NotRegexp(t, `(?m) \| not in \d+ \|$`, made)
}
