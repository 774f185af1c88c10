// Command lives has lives lived, of internal/sim, by code that is rewritten for them through
// an overlay, and keeps what came of it in docs/simulation.md.
//
//	go run ./.ci/lives -lives 1000               # what do they come past, and what never?
//	go run ./.ci/lives -lives 20000 -without 10  # do they miss every tenth clause of the rule and of Next?
//	go run ./.ci/lives -lives 20000 -only 'MaySend' -without 1
//	go run ./.ci/lives -tests .,./flow           # do the client's tests miss those that lives don't?
//
// With -without, so many lives are lived first to learn in which of them each clause makes a difference where it is
// asked, and then those without it, until a fault is found. The lives are the first ones, by
// their seeds, so that a run can be repeated; -fresh has others, for the first of the three.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/clauses"
	"github.com/onceward/onceward/internal/sim/coverage"
	"github.com/onceward/onceward/internal/sim/visits"
)

type options struct {
	lives, without int
	most           int
	fresh          bool
	only, tests    string
	timeout        time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.lives, "lives", 200, "how many; with -without, among how many to look for those in which a clause makes a difference")
	flag.IntVar(&o.without, "without", 0, "take every so many clauses away, one at a time")
	flag.IntVar(&o.most, "most", 1000, "with -without: of those, how many to live without it, at most")
	flag.StringVar(&o.only, "only", "", "with -without or -tests: only clauses whose name matches this expression; of the others stays what is kept")
	flag.StringVar(&o.tests, "tests", "", "packages, with commas, whose tests are asked for the clauses that the latest -without has not found")
	flag.BoolVar(&o.fresh, "fresh", false, "seeds that nobody has lived")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "for the lives of a clause; one that hangs is found")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "lives:", err)
		os.Exit(1)
	}
}

const (
	root  = "."
	lives = "./internal/sim"
)

func run(o options) error {
	temp, err := os.MkdirTemp("", "lives-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	switch {
	case o.tests != "":
		err = askTests(o, temp)
	case o.without > 0:
		err = remove(o, temp)
	default:
		err = count(o, temp)
	}
	if err != nil {
		return err
	}
	text, err := coverage.Make(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, coverage.Document), []byte(text), 0o644)
}

// build builds the tests of a package, as the lives are, with what is rewritten.
func build(files clauses.Files, temp, folder string) (binary string, err error) {
	overlay, err := files.Overlay(temp)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(temp, "rewritten.test")
	out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, folder).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
}

func count(o options, temp string) error {
	files, err := clauses.Counted(root)
	if err != nil {
		return err
	}
	binary, err := build(files, temp, lives)
	if err != nil {
		return err
	}
	counts := filepath.Join(temp, "visits.json")
	living := exec.Command(binary, "-test.run", "^TestLives$", "-test.timeout", "0", "-sim.lives", strconv.Itoa(o.lives), fmt.Sprintf("-sim.fresh=%v", o.fresh))
	living.Dir, living.Env = lives, append(os.Environ(), visits.Variable+"="+counts)
	living.Stdout, living.Stderr = os.Stdout, os.Stderr
	if err := living.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "lives:", err) // what they came past counts all the same
	}
	told := coverage.Run{Lives: o.lives}
	text, err := os.ReadFile(counts)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &told.Visits); err != nil {
		return err
	}
	if err := told.Keep(root); err != nil {
		return err
	}
	return coverage.Write(root, coverage.RunFile, told)
}

// remove lives first with all clauses, to learn in which lives each makes a difference where it is asked, and then those
// without it.
func remove(o options, temp string) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "journal")
	names, files, err := clauses.Telling(dir)
	if err != nil {
		return err
	}
	binary, err := build(files, temp, lives)
	if err != nil {
		return err
	}
	mattered, err := learn(o, binary, temp)
	if err != nil {
		return err
	}
	_, files, err = clauses.Removable(dir)
	if err != nil {
		return err
	}
	if binary, err = build(files, temp, lives); err != nil {
		return err
	}
	var chosen []int
	for i, name := range names {
		if i%o.without == 0 && only.MatchString(name) {
			chosen = append(chosen, i)
		}
	}
	all := make([]coverage.Removed, len(chosen))
	each(len(chosen), func(i int) {
		number := chosen[i] + 1
		seeds := mattered[number]
		r := coverage.Removed{Clause: names[chosen[i]], Of: o.lives, Mattered: len(seeds)}
		r.Lived, r.Seed, r.Fault = live(o, binary, number, seeds[:min(len(seeds), o.most)])
		fmt.Printf("%d of %d lives of %d %s: %s\n", r.Lived, r.Mattered, o.lives, r.Clause, r.Fault)
		all[i] = r
	})
	if o.only != "" {
		if all, err = besideOthers(all); err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(r coverage.Removed) bool { // which are every so many may have shifted since
			at := slices.Index(names, r.Clause)
			return at < 0 || at%o.without != 0
		})
	}
	return coverage.Write(root, coverage.RemovedFile, all)
}

// besideOthers puts what came of some clauses in the place of what is kept of them.
func besideOthers(some []coverage.Removed) ([]coverage.Removed, error) {
	var all []coverage.Removed
	if err := coverage.Read(root, coverage.RemovedFile, &all); err != nil {
		return nil, err
	}
	for _, r := range some {
		at := slices.IndexFunc(all, func(kept coverage.Removed) bool { return kept.Clause == r.Clause })
		if at < 0 {
			all = append(all, r)
			continue
		}
		if r.Fault == "" {
			r.Test = all[at].Test
		}
		all[at] = r
	}
	return all, nil
}

// learn returns the seeds of the lives in which each clause made a difference, by its number. Each process lives one life
// at a time, so that it can be told whose it was.
func learn(o options, binary, temp string) (mattered map[int][]uint64, err error) {
	processes := runtime.GOMAXPROCS(0)
	errs, parts := make([]error, processes), make([]map[int][]uint64, processes)
	each(processes, func(i int) {
		file := filepath.Join(temp, fmt.Sprintf("matters%d.json", i))
		from, to := i*o.lives/processes, (i+1)*o.lives/processes
		living := process(context.Background(), binary, "-sim.from", strconv.Itoa(1+from), "-sim.lives", strconv.Itoa(to-from))
		living.Env = append(living.Env, visits.MattersVariable+"="+file)
		out, err := living.CombinedOutput()
		if err != nil {
			errs[i] = fmt.Errorf("with all clauses: %w: %s", err, out[max(0, len(out)-4000):])
			return
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &parts[i])
		}
		errs[i] = err
	})
	mattered = map[int][]uint64{}
	for _, part := range parts {
		for clause, seeds := range part {
			mattered[clause] = append(mattered[clause], seeds...)
		}
	}
	return mattered, errors.Join(errs...)
}

func process(ctx context.Context, binary string, flags ...string) *exec.Cmd {
	all := append([]string{"-test.run", "^TestLives$", "-test.v", "-test.timeout", "0", "-sim.shrink", "0"}, flags...)
	living := exec.CommandContext(ctx, binary, all...)
	living.Dir, living.Env = lives, append(os.Environ(), "GOMAXPROCS=1")
	living.WaitDelay = 10 * time.Second
	return living
}

var faultOf = regexp.MustCompile(`-sim\.seed (\d+): (.*)`)

// live lives without a clause until a fault is found.
func live(o options, binary string, number int, seeds []uint64) (lived int, seed uint64, fault string) {
	if len(seeds) == 0 {
		return 0, 0, ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
	defer cancel()
	texts := make([]string, len(seeds))
	for i, seed := range seeds {
		texts[i] = strconv.FormatUint(seed, 10)
	}
	living := process(ctx, binary, "-sim.seeds", strings.Join(texts, ","))
	living.Env = append(living.Env, fmt.Sprintf("%s=%d", clauses.Variable, number))
	out, err := living.StdoutPipe()
	living.Stderr = living.Stdout
	if err == nil {
		err = living.Start()
	}
	if err != nil {
		return 0, 0, err.Error()
	}
	end := "" // the first line of what ended it
	for told := bufio.NewScanner(out); told.Scan(); {
		line := strings.TrimSpace(told.Text())
		if c := faultOf.FindStringSubmatch(line); c != nil {
			seed, _ = strconv.ParseUint(c[1], 10, 64)
			fault, _, _ = strings.Cut(c[2], "; ")
			break
		}
		if end == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
			end = line
		}
	}
	if fault != "" {
		cancel()
		_ = living.Wait()
		return slices.Index(seeds, seed) + 1, seed, fault
	}
	switch err := living.Wait(); {
	case ctx.Err() != nil:
		fault = "it hangs"
	case err != nil && end != "":
		fault = end
	case err != nil:
		fault = err.Error()
	}
	return len(seeds), 0, fault
}

// askTests asks tests of the client for the clauses that lives did not find: those in which a clause makes a difference,
// the quickest first. What fails has to fail twice.
func askTests(o options, temp string) error {
	var all []coverage.Removed
	if err := coverage.Read(root, coverage.RemovedFile, &all); err != nil {
		return err
	}
	dir := filepath.Join(root, "journal")
	names, telling, err := clauses.Telling(dir)
	if err != nil {
		return err
	}
	_, removable, err := clauses.Removable(dir)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	for i := range all {
		if only.MatchString(all[i].Clause) {
			all[i].Test = ""
		}
	}
	for folder := range strings.SplitSeq(o.tests, ",") {
		binary, err := build(telling, temp, folder)
		if err != nil {
			return err
		}
		misses, err := askEach(binary, folder, temp)
		if err != nil {
			return err
		}
		if binary, err = build(removable, temp, folder); err != nil {
			return err
		}
		each(len(all), func(i int) {
			r := &all[i]
			number := slices.Index(names, r.Clause) + 1
			if r.Fault != "" || r.Test != "" || number == 0 || !only.MatchString(r.Clause) {
				return
			}
			for _, test := range misses[number] {
				without := fmt.Sprintf("%s=%d", clauses.Variable, number)
				failed := true
				for range 2 {
					failed = failed && !runTest(binary, folder, test, without)
				}
				if failed {
					r.Test = strings.TrimPrefix(filepath.Base(folder)+" ", ". ") + test
					break
				}
			}
			fmt.Printf("%s, asked of %d: %s\n", r.Clause, len(misses[number]), r.Test)
		})
	}
	return coverage.Write(root, coverage.RemovedFile, all)
}

// askEach runs each test of a package alone and returns, by a clause's number, those in which it made a difference, the
// quickest first. Those that fail are left out.
func askEach(binary, folder, temp string) (misses map[int][]string, err error) {
	list := exec.Command(binary, "-test.list", "^Test")
	list.Dir = folder
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	tests := slices.DeleteFunc(strings.Fields(string(out)), func(test string) bool {
		return strings.HasPrefix(test, "TestDocument") // they ask the state machine for its tables, and no client
	})
	matters, took := make([][]int, len(tests)), map[string]time.Duration{}
	var mu sync.Mutex
	each(len(tests), func(i int) {
		file := filepath.Join(temp, fmt.Sprintf("matters-%d", i))
		began := time.Now()
		passed := runTest(binary, folder, tests[i], visits.AtOnceVariable+"="+file)
		mu.Lock()
		took[tests[i]] = time.Since(began)
		mu.Unlock()
		if !passed {
			fmt.Println(tests[i], "fails without any change")
			return
		}
		text, _ := os.ReadFile(file) // there is none if nothing mattered
		_ = os.Remove(file)
		for line := range strings.FieldsSeq(string(text)) {
			if number, err := strconv.Atoi(line); err == nil {
				matters[i] = append(matters[i], number)
			}
		}
	})
	misses = map[int][]string{}
	for i, numbers := range matters {
		for _, number := range numbers {
			misses[number] = append(misses[number], tests[i])
		}
	}
	for _, of := range misses {
		slices.SortFunc(of, func(x, y string) int { return cmp.Compare(took[x], took[y]) })
	}
	return misses, nil
}

func runTest(binary, folder, test string, environment ...string) (passed bool) {
	run := exec.Command(binary, "-test.run", "^"+test+"$", "-test.short", "-test.timeout", "2m")
	run.Dir, run.Env = folder, append(os.Environ(), environment...)
	run.WaitDelay = 10 * time.Second
	return run.Run() == nil
}

// each calls f with 0 to n-1, as many at once as there are processors.
func each(n int, f func(i int)) {
	next := make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}
