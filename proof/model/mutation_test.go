package model_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/proof/clauses"
)

var (
	mutate  = flag.Bool("model.mutate", false, "weaken machine's rule, Next and NextReceipt, a clause at a time: each must be missed")
	mutants = flag.String("model.mutants", "", "with -model.mutate: only mutants whose name matches this expression")
	keep    = flag.String("model.histories", "", "with -model.mutate: the directory where the history that a mutant was noticed by is kept")
	stride  = flag.Int("model.stride", 1, "with -model.mutate: every so many mutants only, for a sample")
	soonest = flag.Bool("model.soonest", false, "with -model.mutate: ask who answers soonest first: the quick tests of machine, the others, the model")
)

const machineDir = "../../internal/machine"

// TestEveryClauseIsNeeded removes each clause of the rule and each guard of Next and of NextReceipt, one at a time.
// Then it runs the short searches without that clause. An invariant breaks, or at least a test of package machine
// fails.
//
// All mutants are in one binary, so that it is built once. The source files are rewritten, and go test -overlay
// compiles the result. An environment variable selects the mutant.
func TestEveryClauseIsNeeded(t *testing.T) {
	if !*mutate && !soak.On() {
		t.Skip("with -model.mutate, or in the soak")
	}
	every, offset := *stride, 0
	if soak.On() && !*mutate {
		every, *soonest = 50, true
		offset = int(soak.Seed(t, 0) % uint64(every))
	}
	only := regexp.MustCompile(*mutants)
	names, overlay := overlaid(t)
	binaries := t.TempDir()
	searches, receipts, tests := filepath.Join(binaries, "model.test"), filepath.Join(binaries, "receipt.test"), filepath.Join(binaries, "machine.test")
	for binary, dir := range map[string]string{searches: ".", receipts: "./receipt", tests: machineDir} {
		out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.Equal(t, survived, kill(t, 0, "the original", searches, tests))
	require.Equal(t, survived, kill(t, 0, "the original", receipts, tests))

	var chosen []int
	for i, name := range names {
		if only.MatchString(name) && i%every == offset {
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
			model := searches
			if strings.HasPrefix(names[i], "receiptnext.go") {
				model = receipts
			}
			ends[i] = kill(t, i+1, names[i], model, tests)
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
	t.Logf("%d clauses removed in %v: %d break an invariant of the model, %d a test of machine, %d are known to change nothing, %d survived",
		len(chosen), time.Since(start).Round(time.Second), score["model"], score["machine"], score["redundant"], score[survived])
}

const survived = "survived"

// laws are the tests of machine that take longer than all others together.
const laws = "^TestTheLaws|^TestNextInEverySituation$"

// kill names the test that noticed a mutant: the model, by an invariant, or a test of machine. It asks the model
// first, unless any of them suffices.
func kill(t *testing.T, number int, name, searches, tests string) string {
	environment := append(os.Environ(), fmt.Sprintf("%s=%d", clauses.Variable, number))
	model := func() string {
		search := exec.CommandContext(t.Context(), searches, "-test.run", "^TestNoInvariantIsBrokenInAnyHistory$", "-test.v")
		search.Env = environment
		out, err := search.CombinedOutput()
		broken := regexp.MustCompile(`invariant (\d+) is broken`).FindSubmatch(out)
		if err == nil || broken == nil {
			return survived
		}
		if *keep != "" {
			file := regexp.MustCompile(`\W+`).ReplaceAllString(name, "_") + ".txt"
			assert.NoError(t, os.WriteFile(filepath.Join(*keep, file), append([]byte(name+"\n"), out...), 0o600))
		}
		return "model: invariant " + string(broken[1])
	}
	machine := func(which ...string) func() string {
		return func() string {
			test := exec.CommandContext(t.Context(), tests, append(which, "-test.failfast")...)
			test.Env, test.Dir = environment, machineDir
			out, err := test.CombinedOutput()
			if err == nil {
				return survived
			}
			failed := regexp.MustCompile(`--- FAIL: (\w+)`).FindSubmatch(out)
			if failed == nil {
				return "machine: panics"
			}
			return "machine: " + string(failed[1])
		}
	}
	asked := []func() string{model, machine()}
	if *soonest {
		asked = []func() string{machine("-test.skip", laws), machine("-test.run", laws), model}
	}
	for _, noticed := range asked {
		if by := noticed(); by != survived {
			return by
		}
	}
	return survived
}

// overlaid returns the clauses' names in the order of their numbers, from 1 on, and an overlay that can switch each
// of them off.
func overlaid(t *testing.T) (names []string, overlay string) {
	t.Helper()
	names, files, err := clauses.Removable(machineDir)
	require.NoError(t, err)
	overlay, err = files.Overlay(t.TempDir())
	require.NoError(t, err)
	return names, overlay
}

// The clauses that are known to be redundant are there.
func TestRedundantClausesAreThere(t *testing.T) {
	names, _ := overlaid(t)
	assert.Greater(t, len(names), 200)
	for name, reason := range redundant {
		assert.Contains(t, names, name)
		assert.NotEmpty(t, reason)
	}
}
