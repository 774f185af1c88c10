// Command mutants changes the code in one place at a time, and prints the changes that no test notices: neither the
// package's own nor those that -tests names. Code that no test checks can break unnoticed.
//
//	go run ./.ci/mutants [-sample 60] [-seed 1] [-only judge.go,next.go] [-tests ./internal/clienttest/request] [-j 1] [-v] . ./internal/machine ./journal/sqlite
//
// It changes no file. Each package's tests are built once, by an overlay, with all changes in them, and an environment
// variable chooses the change to make. The tests are first run without any change, one by one, to learn which blocks
// each test reaches. A mutant is found if a test that reaches its block fails, hangs or crashes, and does so again. A
// mutant that does not compile does not count. Changes that make no difference stand in equivalent.txt beside this
// file, each with its reason, and are not made. The exit status is 1 if in any package fewer than -least percent of the
// others were found.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
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
	only, these      string
	known, tests     string
	run              string
	most             time.Duration
	list             bool
	verbose          bool
	packages         []string
}

func main() {
	var o options
	flag.IntVar(&o.sample, "sample", 0, "try this many of each package, drawn by -seed; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "of the draw")
	flag.IntVar(&o.parallel, "j", 1, "how many are tested at once")
	flag.Float64Var(&o.least, "least", 95, "percent that have to be found")
	flag.StringVar(&o.only, "only", "", "files to change, by their names, with commas")
	flag.StringVar(&o.these, "these", "", "a file of mutants to try, each as it is printed")
	flag.StringVar(&o.known, "known", "", "a file that keeps, for later runs, what each test reaches")
	flag.StringVar(&o.tests, "tests", "", "other packages, with commas, whose tests are asked where the package's own miss a change")
	flag.StringVar(&o.run, "run", "", "ask only those tests whose names match this expression")
	flag.DurationVar(&o.most, "most", time.Hour, "of the processor's time for each mutant; what is missed by then counts as missed")
	flag.BoolVar(&o.list, "list", false, "list the mutants and try none")
	flag.BoolVar(&o.verbose, "v", false, "tell who found what")
	flag.Parse()
	if o.packages = flag.Args(); len(o.packages) == 0 {
		o.packages = []string{".", "./internal/machine", "./journal/sqlite"}
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	var errs []error
	for _, dir := range o.packages {
		if err := measure(o, dir); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// measure tries the mutants of one package.
func measure(o options, dir string) error {
	all, err := mutantsOf(dir)
	if err != nil {
		return err
	}
	var functions []*function
	for _, m := range all {
		if len(functions) == 0 || functions[len(functions)-1] != m.in {
			functions = append(functions, m.in)
		}
	}
	same := names(equivalentText)
	these, err := os.ReadFile(o.these)
	if err != nil && o.these != "" {
		return err
	}
	tried := names(string(these))
	only := strings.Split(o.only, ",")
	equivalent := 0
	all = slices.DeleteFunc(all, func(m mutant) bool {
		switch {
		case o.only != "" && !slices.Contains(only, filepath.Base(m.in.file)):
			return true
		case o.these != "" && !tried[m.name()]:
			return true
		case same[m.name()]:
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
	if len(all) == 0 {
		return nil
	}
	fmt.Printf("%s: %d of %d mutants (-seed %d), besides %d that make no difference\n", dir, len(all), total, o.seed, equivalent)
	temp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	var others []string
	if o.tests != "" {
		others = strings.Split(o.tests, ",")
	}
	b, err := build(dir, others, temp, functions, all)
	if err != nil {
		return err
	}
	missed, err := b.tryAll(o)
	if err != nil {
		return err
	}
	compiled := len(b.mutants)
	found := compiled - missed
	percent := 100 * float64(found) / float64(max(compiled, 1))
	from, to := interval(found, compiled)
	fmt.Printf("%s: found %d of the %d that compile: %.1f %%; of all, by a draw, %.1f to %.1f %%\n", dir, found, compiled, percent, from, to)
	if percent < o.least {
		return fmt.Errorf("that is less than %g %%", o.least)
	}
	return nil
}

// interval is where, by a draw, the percentage of all lies: 95 of 100 such intervals hold it (Wilson).
func interval(found, drawn int) (from, to float64) {
	const z = 1.96
	n := float64(max(drawn, 1))
	p := float64(found) / n
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return 100 * (middle - half) / (1 + z*z/n), 100 * (middle + half) / (1 + z*z/n)
}

// tryAll tries every mutant that compiles, and returns how many no test noticed.
func (b *binary) tryAll(o options) (missed int, err error) {
	tests, err := b.tests(o)
	if err != nil {
		return 0, err
	}
	if len(tests) == 0 {
		return 0, errors.New("no test passes without a change")
	}
	numbers := slices.Sorted(maps.Keys(b.mutants))
	var (
		mu   sync.Mutex
		errs []error
		done int
	)
	each(o.parallel, len(numbers), func(i int) {
		name := b.mutants[numbers[i]].name()
		by, err := b.try(numbers[i], tests, o)
		mu.Lock()
		defer mu.Unlock()
		done++
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case by == "":
			missed++
			fmt.Printf("%d/%d missed: %s\n", done, len(numbers), name)
		case o.verbose:
			fmt.Printf("%d/%d %s found %s\n", done, len(numbers), by, name)
		}
	})
	return missed, errors.Join(errs...)
}

// names are the mutants that a text lists, each on a line of its own.
func names(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all[line] = true
		}
	}
	return all
}
