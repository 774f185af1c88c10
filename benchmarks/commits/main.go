// Commits builds two commits and runs the operation, the loopback and the journals of each in turn, in one run, and
// prints their medians and ratios.
//
//	go run ./commits BASE          the checkout as it stands, beside the commit BASE
//	go run ./commits BASE NEW      two commits
//
// Times on a machine that does other work are noise. The ratios to a peer in the same run, the processor time and the
// allocations say more.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/benchmarks/internal/timing"
)

func main() { timing.Main("commits", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("commits", flag.ContinueOnError)
	dir := flags.String("dir", ".", "a folder on the disk to measure")
	rounds := flags.Int("rounds", 5, "how often each commit runs")
	runs := flags.Duration("duration", time.Second, "how long each loopback client and journal runs each time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 1 || flags.NArg() > 2 {
		return fmt.Errorf("name the commit to compare with, and after it another one if it is not the checkout")
	}
	temp, err := os.MkdirTemp("", "commits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	var built [2]string // folders of programs
	for i := range built {
		built[i] = filepath.Join(temp, strconv.Itoa(i))
		if err := build(ctx, flags.Arg(i), built[i]); err != nil {
			return err
		}
	}
	var measured [2]figures
	for round := range *rounds {
		for i, programs := range built {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, *rounds, []string{"base", "new"}[i])
			for _, measure := range []func(context.Context, *figures, string, string, time.Duration) error{operation, loopback, journals} {
				if err := measure(ctx, &measured[i], programs, *dir, *runs); err != nil {
					return err
				}
			}
		}
	}
	return report(out, measured[0], measured[1])
}

// build builds a commit's programs; "" is the checkout. The commit needs none of this program.
func build(ctx context.Context, commit, into string) error {
	module := "."
	if commit != "" {
		tree := into + "-tree"
		if err := command(ctx, ".", "git", "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
			return err
		}
		defer func() { _ = command(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", tree) }()
		module = filepath.Join(tree, "benchmarks")
	}
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	if err := command(ctx, module, "go", "test", "-c", "-o", filepath.Join(into, "operation"), "."); err != nil {
		return err
	}
	return command(ctx, module, "go", "build", "-o", into, "./loopback", "./journals")
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// figures have a value from each round, by the figure's name.
type figures map[string][]float64

func (f *figures) add(what string, value float64) {
	if *f == nil {
		*f = figures{}
	}
	(*f)[what] = append((*f)[what], value)
}

// The figures, in the order of the table.
var order = []string{times, cpu, bytes, allocations, rate, journal, journalCPU}

const (
	operations = 20_000

	times       = "operation over memory: time ÷ http.Client's"
	cpu         = "operation over memory: processor time, µs"
	bytes       = "operation over memory: bytes"
	allocations = "operation over memory: allocations"
	rate        = "loopback, 64 callers: requests/s ÷ http.Client's"
	journal     = "journal on SQLite, 64 callers: ops/s ÷ naive's"
	journalCPU  = "journal on SQLite, 64 callers: processor time, µs"
)

func operation(ctx context.Context, f *figures, programs, _ string, _ time.Duration) error {
	nanoseconds := map[string]float64{}
	for _, client := range []string{"http.Client", "onceward-memory"} {
		cmd := exec.CommandContext(ctx, filepath.Join(programs, "operation"), "-test.run=^$",
			"-test.bench=^BenchmarkOperation$/^"+client+"$", "-test.benchtime="+strconv.Itoa(operations)+"x")
		rows, err := table(cmd, "BenchmarkOperation/"+client, 0)
		if err != nil {
			return err
		}
		row := rows[0] // name, rounds, and values, each before its unit
		nanoseconds[client] = number(row[2])
		if client == "http.Client" {
			continue
		}
		f.add(times, nanoseconds[client]/nanoseconds["http.Client"])
		f.add(cpu, float64((cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Microseconds())/operations)
		f.add(bytes, number(row[4]))
		f.add(allocations, number(row[6]))
	}
	return nil
}

func loopback(ctx context.Context, f *figures, programs, dir string, runs time.Duration) error {
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "loopback"), "-dir", dir, "-repetitions", "1", "-duration", runs.String())
	rows, err := table(cmd, "onceward,", 2)
	if err != nil {
		return err
	}
	f.add(rate, number(rows[0][1]))
	return nil
}

func journals(ctx context.Context, f *figures, programs, dir string, runs time.Duration) error {
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "journals"), "-dir", dir, "-repetitions", "1", "-duration", runs.String(),
		"-callers", "64", "-only", "onceward,naive")
	rows, err := table(cmd, "", -1)
	if err != nil {
		return err
	}
	perSecond := map[string]float64{}
	for _, row := range rows {
		if len(row) != 7 || row[0] != "64" {
			continue
		}
		perSecond[row[6]] = number(row[1])
		if took, err := time.ParseDuration(row[4]); err == nil && row[6] == "onceward" {
			f.add(journalCPU, float64(took.Nanoseconds())/1000)
		}
	}
	f.add(journal, perSecond["onceward"]/perSecond["naive"])
	return nil
}

// table returns each printed line's words whose word in the column has the prefix. A negative column takes all of
// them. It returns an error if there is none.
func table(cmd *exec.Cmd, prefix string, column int) (rows [][]string, err error) {
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, output)
	}
	for line := range strings.Lines(string(output)) {
		words := strings.Fields(line)
		if column < 0 || len(words) > column && strings.HasPrefix(words[column], prefix) {
			rows = append(rows, words)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s printed no %q: %s", strings.Join(cmd.Args, " "), prefix, output)
	}
	return rows, nil
}

// number returns a value, or 0 for a text that is none.
func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

func report(to io.Writer, base, changed figures) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "base\tnew\tnew ÷ base\t  median of\t")
	for _, what := range order {
		ratios := make([]float64, min(len(base[what]), len(changed[what])))
		for i := range ratios {
			ratios[i] = changed[what][i] / base[what][i]
		}
		fmt.Fprintf(w, "%.4g\t%.4g\t%.2f\t  %s\t\n", timing.MedianOf(base[what]), timing.MedianOf(changed[what]), timing.MedianOf(ratios), what)
	}
	return w.Flush()
}
