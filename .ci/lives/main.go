// Command lives has lives lived, of internal/sim, by code that is rewritten for them through
// an overlay, and keeps what came of it in docs/simulation.md.
//
//	go run ./.ci/lives -lives 1000               # what do they come past, and what never?
//	go run ./.ci/lives -lives 20000 -without 10  # do they miss every tenth clause of the rule and of Next?
//	go run ./.ci/lives -lives 20000 -only 'MaySend' -without 1
//
// With -without, so many lives are lived first to learn in which of them each clause makes a difference where it is
// asked, and then those without it, until a fault is found. The lives are the first ones, by
// their seeds, so that a run can be repeated; -fresh has others, for the first of the three.
package main

import (
	"bufio"
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
	only           string
	timeout        time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.lives, "lives", 200, "how many; with -without, among how many to look for those in which a clause makes a difference")
	flag.IntVar(&o.without, "without", 0, "take every so many clauses away, one at a time")
	flag.IntVar(&o.most, "most", 1000, "with -without: of those, how many to live without it, at most")
	flag.StringVar(&o.only, "only", "", "with -without: only clauses whose name matches this expression")
	flag.BoolVar(&o.fresh, "fresh", false, "seeds that nobody has lived")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "for the lives of a clause; one that hangs is found")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "lives:", err)
		os.Exit(1)
	}
}

const root = "."

func run(o options) error {
	temp, err := os.MkdirTemp("", "lives-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if o.without > 0 {
		err = remove(o, temp)
	} else {
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

// build builds the lives with what is rewritten.
func build(files clauses.Files, temp string) (binary string, err error) {
	overlay, err := files.Overlay(temp)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(temp, "lives.test")
	out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, "./internal/sim").CombinedOutput()
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
	binary, err := build(files, temp)
	if err != nil {
		return err
	}
	counts := filepath.Join(temp, "visits.json")
	lives := exec.Command(binary, "-test.run", "^TestLives$", "-test.timeout", "0", "-sim.lives", strconv.Itoa(o.lives), fmt.Sprintf("-sim.fresh=%v", o.fresh))
	lives.Dir, lives.Env = "internal/sim", append(os.Environ(), visits.Variable+"="+counts)
	lives.Stdout, lives.Stderr = os.Stdout, os.Stderr
	if err := lives.Run(); err != nil {
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
	binary, err := build(files, temp)
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
	if binary, err = build(files, temp); err != nil {
		return err
	}
	var chosen []int
	for i, name := range names {
		if i%o.without == 0 && only.MatchString(name) {
			chosen = append(chosen, i)
		}
	}
	all, next := make([]coverage.Removed, len(chosen)), make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				number := chosen[i] + 1
				seeds := mattered[number]
				r := coverage.Removed{Clause: names[chosen[i]], Of: o.lives, Mattered: len(seeds)}
				r.Lived, r.Seed, r.Fault = live(o, binary, number, seeds[:min(len(seeds), o.most)])
				fmt.Printf("%d of %d lives of %d %s: %s\n", r.Lived, r.Mattered, o.lives, r.Clause, r.Fault)
				all[i] = r
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	group.Wait()
	return coverage.Write(root, coverage.RemovedFile, all)
}

// learn returns the seeds of the lives in which each clause made a difference, by its number. Each process lives one life
// at a time, so that it can be told whose it was.
func learn(o options, binary, temp string) (mattered map[int][]uint64, err error) {
	processes := runtime.GOMAXPROCS(0)
	errs, parts := make([]error, processes), make([]map[int][]uint64, processes)
	var group sync.WaitGroup
	for i := range processes {
		group.Go(func() {
			file := filepath.Join(temp, fmt.Sprintf("matters%d.json", i))
			from, to := i*o.lives/processes, (i+1)*o.lives/processes
			lives := process(context.Background(), o, binary, "-sim.from", strconv.Itoa(1+from), "-sim.lives", strconv.Itoa(to-from))
			lives.Env = append(lives.Env, visits.MattersVariable+"="+file)
			out, err := lives.CombinedOutput()
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
	}
	group.Wait()
	mattered = map[int][]uint64{}
	for _, part := range parts {
		for clause, seeds := range part {
			mattered[clause] = append(mattered[clause], seeds...)
		}
	}
	return mattered, errors.Join(errs...)
}

func process(ctx context.Context, o options, binary string, flags ...string) *exec.Cmd {
	all := append([]string{"-test.run", "^TestLives$", "-test.v", "-test.timeout", "0", "-sim.shrink", "0"}, flags...)
	lives := exec.CommandContext(ctx, binary, all...)
	lives.Dir, lives.Env = "internal/sim", append(os.Environ(), "GOMAXPROCS=1")
	lives.WaitDelay = 10 * time.Second
	return lives
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
	lives := process(ctx, o, binary, "-sim.seeds", strings.Join(texts, ","))
	lives.Env = append(lives.Env, fmt.Sprintf("%s=%d", clauses.Variable, number))
	out, err := lives.StdoutPipe()
	lives.Stderr = lives.Stdout
	if err == nil {
		err = lives.Start()
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
		_ = lives.Wait()
		return slices.Index(seeds, seed) + 1, seed, fault
	}
	switch err := lives.Wait(); {
	case ctx.Err() != nil:
		fault = "it hangs"
	case err != nil && end != "":
		fault = end
	case err != nil:
		fault = err.Error()
	}
	return len(seeds), 0, fault
}
