// Command mutants changes the code in one place at a time and tells which changes no
// test of the package notices. What a test does not miss can be broken by anybody.
//
//	go run ./.ci/mutants [-sample 50] [-seed 1] [-only judge.go,next.go] [-j 2] . ./journal ./journal/sqlite
//
// It changes no file: the compiler is given each change as an overlay. A mutant is
// found if the package's tests fail, hang or crash; one that does not compile does not
// count. Changes that make no difference stand in equivalent.txt beside this file, each with
// its reason, and are not made. The exit status is 1 if fewer than -least percent of
// the others were found.
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed equivalent.txt
var equivalentText string

type options struct {
	sample, parallel int
	seed             uint64
	least            float64
	timeout          time.Duration
	only             string
	list             bool
	packages         []string
}

func main() {
	var o options
	flag.IntVar(&o.sample, "sample", 0, "try this many, drawn by -seed; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "of the draw")
	flag.IntVar(&o.parallel, "j", 2, "how many are tested at once")
	flag.Float64Var(&o.least, "least", 95, "percent that have to be found")
	flag.DurationVar(&o.timeout, "timeout", 4*time.Minute, "after which a mutant counts as found, since it hangs")
	flag.StringVar(&o.only, "only", "", "files to change, by their names, with commas")
	flag.BoolVar(&o.list, "list", false, "list the mutants and try none")
	flag.Parse()
	if o.packages = flag.Args(); len(o.packages) == 0 {
		o.packages = []string{".", "./journal", "./journal/sqlite"}
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	known := equivalents()
	var all []mutant
	for _, dir := range o.packages {
		found, err := mutantsOf(dir)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	only := strings.Split(o.only, ",")
	equivalent := 0
	all = slices.DeleteFunc(all, func(m mutant) bool {
		if o.only != "" && !slices.Contains(only, filepath.Base(m.file)) {
			return true
		}
		if known[m.name()] {
			equivalent++
			return true
		}
		return false
	})
	total := len(all)
	if o.sample > 0 && o.sample < total {
		random := rand.New(rand.NewPCG(o.seed, 0))
		random.Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.sample]
	}
	if o.list {
		for _, m := range all {
			fmt.Println(m.name())
		}
		return nil
	}
	fmt.Printf("%d of %d mutants (-seed %d), besides %d that make no difference\n", len(all), total, o.seed, equivalent)
	survived, invalid, err := try(o, all)
	if err != nil {
		return err
	}
	for _, m := range survived {
		fmt.Println("missed:", m.name())
	}
	compiled := len(all) - invalid
	found := compiled - len(survived)
	percent := 100 * float64(found) / float64(max(compiled, 1))
	fmt.Printf("found %d of the %d that compile: %.1f %%\n", found, compiled, percent)
	if percent < o.least {
		return fmt.Errorf("that is less than %g %%", o.least)
	}
	return nil
}

// equivalents are the names of mutants that make no difference.
func equivalents() map[string]bool {
	known := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(equivalentText))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			known[line] = true
		}
	}
	return known
}

// try tests every mutant and returns those that no test noticed.
func try(o options, all []mutant) (survived []mutant, invalid int, err error) {
	temp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(temp)
	var (
		mu    sync.Mutex
		errs  []error
		done  int
		group sync.WaitGroup
		next  = make(chan mutant)
	)
	for i := range max(o.parallel, 1) {
		dir := filepath.Join(temp, fmt.Sprint(i))
		group.Go(func() {
			for m := range next {
				end, err := m.try(dir, o.timeout)
				mu.Lock()
				done++
				switch {
				case err != nil:
					errs = append(errs, fmt.Errorf("%s: %w", m.name(), err))
				case end == broken:
					invalid++
				case end == missed:
					survived = append(survived, m)
					fmt.Printf("%d/%d missed: %s\n", done, len(all), m.name())
				case done%20 == 0:
					fmt.Printf("%d/%d\n", done, len(all))
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		next <- m
	}
	close(next)
	group.Wait()
	return survived, invalid, errors.Join(errs...)
}

// end is what came of a mutant.
type end int

const (
	found  end = iota
	missed     // the tests pass
	broken     // it does not compile
)

// try runs the tests of the mutant's package with it. dir is the caller's alone.
func (m mutant) try(dir string, timeout time.Duration) (end, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, m.source(), 0o600); err != nil {
		return 0, err
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	test := exec.CommandContext(ctx, "go", "test", "-short", "-failfast", "-count=1", "-vet=off", "-overlay", overlay, m.dir)
	test.WaitDelay = 10 * time.Second
	told, err := test.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return missed, nil
	case ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay):
		return found, nil
	case errors.As(err, &exit) && bytes.Contains(told, []byte("[build failed]")):
		return broken, nil
	case errors.As(err, &exit):
		return found, nil
	}
	return 0, err
}
