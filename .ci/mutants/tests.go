package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// test is one test of a package, as it went without any change.
type test struct {
	Took    time.Duration // of the processor's time
	Reaches []string      // functions, by their names
	name    string
	in      int // of the programs
}

// tests are those of all programs. Each is run alone, without a change, to learn what it
// reaches and how long it takes, unless that is known from an earlier run; known tells where it is
// kept, "" for nowhere. Those that fail are told and left out: they would find everything.
func (b *binary) tests(parallel int, known string) ([]test, error) {
	earlier := map[string]map[string]test{}
	if text, err := os.ReadFile(known); err == nil {
		if err := json.Unmarshal(text, &earlier); err != nil {
			return nil, err
		}
	}
	keptAs := func(in int) string {
		if in == 0 {
			return b.dir
		}
		return b.dir + " in " + b.programs[in].dir
	}
	var all []test
	for in, p := range b.programs {
		if earlier[keptAs(in)] == nil {
			earlier[keptAs(in)] = map[string]test{}
		}
		names, err := p.tests()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, test{name: name, in: in})
		}
	}
	failed := make([]bool, len(all))
	each(parallel, len(all), func(i int) {
		t := &all[i]
		if of, ok := earlier[keptAs(t.in)][t.name]; ok {
			t.Took, t.Reaches = of.Took, of.Reaches
			return
		}
		reached := filepath.Join(b.temp, fmt.Sprintf("reached%d", i))
		told, took, err := b.programs[t.in].run([]string{t.name}, 10*time.Minute, reachedVariable+"="+reached)
		if err != nil {
			failed[i] = true
			fmt.Printf("%s fails without any change: %v\n%s\n", t.name, err, told)
			return
		}
		t.Took = took
		text, _ := os.ReadFile(reached) // there is none if nothing was
		for line := range strings.Lines(string(text)) {
			if number, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				t.Reaches = append(t.Reaches, b.functions[number-1].name())
			}
		}
		slices.Sort(t.Reaches)
		t.Reaches = slices.Compact(t.Reaches)
	})
	sound := all[:0]
	for i, t := range all {
		if !failed[i] {
			sound = append(sound, t)
			earlier[keptAs(t.in)][t.name] = t
		}
	}
	if known == "" {
		return sound, nil
	}
	text, err := json.MarshalIndent(earlier, "", "\t")
	if err != nil {
		return nil, err
	}
	return sound, os.WriteFile(known, text, 0o600)
}

// tests are the names of the program's tests; there is no program of a package without any.
func (p program) tests() (names []string, err error) {
	list := exec.Command(p.path, "-test.list", ".")
	list.Dir = p.dir
	told, err := list.Output()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for name := range strings.Lines(string(told)) {
		if name = strings.TrimSpace(name); !strings.HasPrefix(name, "Benchmark") {
			names = append(names, name)
		}
	}
	return names, nil
}

// each calls f with 0 to n-1, so many at once.
func each(parallel, n int, f func(i int)) {
	next := make(chan int)
	var group sync.WaitGroup
	for range max(parallel, 1) {
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

var errHangs = errors.New("hangs")

// run runs tests of these names in one process, up to the first that fails.
func (p program) run(names []string, limit time.Duration, environment ...string) (said []byte, took time.Duration, err error) {
	temp, err := os.MkdirTemp(filepath.Dir(p.path), "run-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil { // some tests try what others may
		return nil, 0, err
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	// A change that never stops writing or allocating must not take the machine with it.
	test := exec.Command("sh", "-c", `ulimit -v 12000000; ulimit -f 8000000; exec "$0" "$@"`, p.path,
		"-test.short", "-test.failfast", "-test.timeout", limit.String(), "-test.run", "^("+strings.Join(quoted, "|")+")$")
	test.Dir = p.dir
	test.Env = append(os.Environ(), append(environment, "TMPDIR="+temp)...)
	test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var told bytes.Buffer
	test.Stdout, test.Stderr = &told, &told
	test.WaitDelay = 10 * time.Second
	if err := test.Start(); err != nil {
		return nil, 0, err
	}
	group := -test.Process.Pid
	late := time.AfterFunc(limit+20*time.Second, func() { syscall.Kill(group, syscall.SIGKILL) })
	err = test.Wait()
	late.Stop()
	syscall.Kill(group, syscall.SIGKILL) // whatever processes it has left
	if bytes.Contains(told.Bytes(), []byte("panic: test timed out")) {
		err = errHangs
	}
	return told.Bytes(), test.ProcessState.UserTime() + test.ProcessState.SystemTime(), err
}

// try makes one change and runs the tests that reach its function, the package's own before those of
// others, the quickest first. It returns who found the change, or nothing. It ends once tests have run
// that take as long as most.
func (b *binary) try(number int, tests []test, most time.Duration) (by string, err error) {
	function := b.mutants[number].in.name()
	var reaching []test
	for _, t := range tests {
		if slices.Contains(t.Reaches, function) {
			reaching = append(reaching, t)
		}
	}
	slices.SortFunc(reaching, func(x, y test) int { return cmp.Or(cmp.Compare(x.in, y.in), cmp.Compare(x.Took, y.Took)) })
	for len(reaching) > 0 && most > 0 {
		var names []string
		var sum time.Duration
		in := reaching[0].in
		for len(reaching) > 0 && reaching[0].in == in && sum < 3*time.Second {
			names, sum, reaching = append(names, reaching[0].name), sum+reaching[0].Took, reaching[1:]
		}
		most -= sum
		limit := 45*time.Second + 15*sum
		told, _, err := b.programs[in].run(names, limit, chosenVariable+"="+strconv.Itoa(number))
		var exit *exec.ExitError
		switch {
		case err == nil:
			continue
		case errors.Is(err, errHangs), errors.Is(err, exec.ErrWaitDelay):
			return "a hang", nil
		case !errors.As(err, &exit):
			return "", err
		}
		if match := regexp.MustCompile(`--- FAIL: (\S+)`).FindSubmatch(told); match != nil {
			return string(match[1]), nil
		}
		return "a crash", nil
	}
	return "", nil
}
