package sim

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/sim/visits"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // a life keeps little, and is over soon
	code := m.Run()
	if err := visits.Write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Every error that callers may be told is looked for.
func TestErrorsAreAllLookedFor(t *testing.T) {
	var declared []string
	for _, file := range []string{"../../errors.go", "../../flow/errors.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
				declared = append(declared, v.Names[0].Name)
			}
			return true
		})
	}
	slices.Sort(declared)
	assert.Equal(t, declared, slices.Sorted(maps.Keys(errorsSeen)))
}
