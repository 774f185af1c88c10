// Command lives has lives lived, of internal/sim, by code that is rewritten for them through
// an overlay, and keeps what came of it in docs/simulation.md.
//
//	go run ./.ci/lives -lives 1000               # what do they come past, and what never?
//	go run ./.ci/lives -lives 200 -without 10    # do they miss every tenth clause of the rule and of Next?
//	go run ./.ci/lives -lives 200 -only 'MaySend' -without 1
//
// Without a clause, lives are lived until a fault is found. The lives are the first ones, by
// their seeds, so that a run can be repeated; -fresh has others, for the first of the three.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/clauses"
	"github.com/onceward/onceward/internal/sim/coverage"
	"github.com/onceward/onceward/internal/sim/visits"
)

type options struct {
	lives, without int
	fresh          bool
	only           string
	timeout        time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.lives, "lives", 200, "how many; without a clause, at most")
	flag.IntVar(&o.without, "without", 0, "take every so many clauses away, one at a time")
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

func remove(o options, temp string) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	names, files, err := clauses.Removable(filepath.Join(root, "journal"))
	if err != nil {
		return err
	}
	binary, err := build(files, temp)
	if err != nil {
		return err
	}
	if whole := live(o, binary, 0, "nothing"); whole.Fault != "" {
		return fmt.Errorf("with all clauses, life %d has a fault: %s", whole.Lives, whole.Fault)
	}
	var all []coverage.Removed
	for i, name := range names {
		if i%o.without != 0 || !only.MatchString(name) {
			continue
		}
		r := live(o, binary, i+1, name)
		fmt.Printf("%4d %s: %s\n", r.Lives, r.Clause, r.Fault)
		all = append(all, r)
	}
	return coverage.Write(root, coverage.RemovedFile, all)
}

var faultOf = regexp.MustCompile(`-sim\.seed (\d+): (.*)`)

// live lives without a clause until a fault is found.
func live(o options, binary string, number int, name string) coverage.Removed {
	ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
	defer cancel()
	lives := exec.CommandContext(ctx, binary, "-test.run", "^TestLives$", "-test.v", "-test.timeout", "0", "-sim.lives", strconv.Itoa(o.lives))
	lives.Dir, lives.Env = "internal/sim", append(os.Environ(), fmt.Sprintf("%s=%d", clauses.Variable, number))
	lives.WaitDelay = 10 * time.Second
	r := coverage.Removed{Clause: name, Lives: o.lives}
	out, err := lives.StdoutPipe()
	lives.Stderr = lives.Stdout
	if err == nil {
		err = lives.Start()
	}
	if err != nil {
		r.Fault = err.Error()
		return r
	}
	end := "" // the first line of what ended it
	for told := bufio.NewScanner(out); told.Scan(); {
		line := strings.TrimSpace(told.Text())
		if c := faultOf.FindStringSubmatch(line); c != nil {
			r.Lives, _ = strconv.Atoi(c[1])
			r.Fault, _, _ = strings.Cut(c[2], "; ")
			break
		}
		if end == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
			end = line
		}
	}
	if r.Fault != "" {
		cancel()
		_ = lives.Wait()
		return r
	}
	switch err := lives.Wait(); {
	case ctx.Err() != nil:
		r.Fault = "it hangs"
	case err != nil && end != "":
		r.Fault = end
	case err != nil:
		r.Fault = err.Error()
	}
	return r
}
