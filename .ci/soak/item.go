package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

type kind string

const (
	test kind = "test"
	fuzz kind = "fuzz"
)

// item is something that soak runs again and again.
type item struct {
	kind    kind
	dir     string // of its package, from the root of the checkout
	name    string // of the test or the fuzz target
	program *program
	begun   int
	results []result
}

// program is shared by the items of one kind in a package.
type program struct {
	mu   sync.Mutex
	path string // "": it is not built yet
}

func (i *item) String() string { return i.dir + " " + i.name }

// args are the arguments of the item's program.
func (i *item) args() []string {
	if i.kind == fuzz {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		return []string{"-test.paniconexit0", "-test.run", "^$", "-test.fuzz", "^" + i.name + "$", "-test.fuzztime", "10s",
			"-test.fuzzminimizetime", "5s", "-test.parallel", "2", "-test.fuzzcachedir", filepath.Join(cache, "onceward-soak", i.dir)}
	}
	return []string{"-test.v", "-test.run", "^" + i.name + "$", "-test.timeout", limit.String()}
}

// repeat is the command that repeats the item's run.
func (i *item) repeat(seed uint64) string {
	if i.kind == fuzz {
		return fmt.Sprintf("(cd %s && go test -run '^$' -fuzz '^%s$' -fuzztime 1m)", i.dir, i.name)
	}
	return fmt.Sprintf("(cd %s && ONCEWARD_SOAK=%d go test -count 1 -run '^%s$')", i.dir, seed, i.name)
}

type verdict string

const (
	passed  verdict = "passed"
	failed  verdict = "FAILED"
	skipped verdict = "skipped"
	cut     verdict = "cut off" // by the end of the time
)

// result is one run's result.
type result struct {
	verdict
	took                   time.Duration
	reason, output, repeat string
}

var (
	skip         = regexp.MustCompile(`(?m)^--- SKIP: |^testing: warning: no tests to run$`)
	failingInput = regexp.MustCompile(`Failing input written to testdata/fuzz/(\w+)/(\S+)`)
	fuzzDeadline = regexp.MustCompile(`(?m)^ *context deadline exceeded$`)
)

// judge returns a run's result, by the output and the error.
func judge(i *item, seed uint64, output string, err error) result {
	r := result{verdict: passed}
	input := failingInput.FindStringSubmatch(output)
	switch {
	case err == nil && skip.MatchString(output):
		r.verdict = skipped
		return r
	case err == nil:
		return r
	case i.kind == fuzz && input == nil && fuzzDeadline.MatchString(output):
		// On a busy machine the end of the time itself may come out as a failure, without an input:
		// https://go.dev/issue/75804. The target has another turn.
		r.verdict = cut
		return r
	}
	r.verdict, r.reason, r.repeat = failed, err.Error(), i.repeat(seed)
	r.output = strings.TrimSpace(output)
	if lines := strings.Split(r.output, "\n"); len(lines) > 300 {
		r.output = strings.Join(slices.Concat(lines[:150], []string{"…"}, lines[len(lines)-150:]), "\n")
	}
	if input != nil {
		r.repeat = fmt.Sprintf("(cd %s && go test -run '^%s$/^%s$')", i.dir, input[1], input[2])
	}
	if strings.Contains(output, "panic: test timed out after") {
		r.reason = errHangs.Error()
	}
	return r
}

// report prints how often each item ran, and the failures. It returns an error if a run failed, or no run came to the
// end.
func report(w io.Writer, all []*item) error {
	fmt.Fprintf(w, "\n%8s%8s%8s%8s%10s\n", passed, failed, skipped, cut, "took")
	var notes strings.Builder
	total := map[verdict]int{}
	for _, i := range all {
		n := map[verdict]int{}
		var took time.Duration
		for _, r := range i.results {
			n[r.verdict]++
			total[r.verdict]++
			took += r.took
			if r.verdict == failed {
				fmt.Fprintf(&notes, "\n%s: %s\n    %s\n", i, r.reason, r.repeat)
			}
		}
		fmt.Fprintf(w, "%8d%8d%8d%8d%10s  %s\n", n[passed], n[failed], n[skipped], n[cut], took.Round(time.Second), i)
	}
	fmt.Fprint(w, notes.String())
	switch {
	case total[failed] > 0:
		return fmt.Errorf("%d runs failed, %d passed", total[failed], total[passed])
	case total[passed] == 0:
		return errors.New("no run came to its end")
	}
	return nil
}
