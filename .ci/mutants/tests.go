package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	Took    time.Duration    // of the processor's time
	Lasted  time.Duration    // while other tests ran beside it
	Reaches map[string][]int // blocks, by their functions' names
	Sum     string           // of the file that has the test
	name    string
	in      int    // of the programs
	file    string // the file that has it
}

// tests returns the tests of all programs whose names match o.run. It runs each alone, without a change, to learn
// which blocks it reaches and how long it takes. An earlier run of the same file, kept by o.known, saves that. Tests
// that fail are printed and left out: they would find every change.
func (b *binary) tests(o options) ([]test, error) {
	asked, err := regexp.Compile(o.run)
	if err != nil {
		return nil, err
	}
	earlier := map[string]map[string]test{}
	if text, err := os.ReadFile(o.known); err == nil {
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
		files, err := p.files()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !asked.MatchString(name) {
				continue
			}
			all = append(all, test{name: name, in: in, file: files[name].name, Sum: files[name].sum})
		}
	}
	failed := make([]bool, len(all))
	each(o.parallel, len(all), func(i int) {
		t := &all[i]
		if of, ok := earlier[keptAs(t.in)][t.name]; ok && of.Sum == t.Sum {
			t.Took, t.Lasted, t.Reaches = of.Took, of.Lasted, of.Reaches
			return
		}
		reached := filepath.Join(b.temp, fmt.Sprintf("reached%d", i))
		began := time.Now()
		told, took, err := b.programs[t.in].run([]string{t.name}, 10*time.Minute, reachedVariable+"="+reached)
		if err != nil {
			failed[i] = true
			fmt.Printf("%s fails without any change: %v\n%s\n", t.name, err, told)
			return
		}
		t.Took, t.Lasted, t.Reaches = took, time.Since(began), map[string][]int{}
		text, _ := os.ReadFile(reached) // there is none if nothing was
		_ = os.Remove(reached)
		for line := range strings.Lines(string(text)) {
			if number, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				function, block := b.block(number)
				if !slices.Contains(t.Reaches[function], block) {
					t.Reaches[function] = append(t.Reaches[function], block)
				}
			}
		}
	})
	sound := all[:0]
	for i, t := range all {
		if !failed[i] {
			sound = append(sound, t)
			earlier[keptAs(t.in)][t.name] = t
		}
	}
	if o.known == "" {
		return sound, nil
	}
	text, err := json.Marshal(earlier)
	if err != nil {
		return nil, err
	}
	return sound, os.WriteFile(o.known, text, 0o600)
}

// block tells whose a block is, and its number there.
func (b *binary) block(number int) (function string, block int) {
	for _, f := range b.functions {
		if number < len(f.blocks) {
			return f.name(), number
		}
		number -= len(f.blocks)
	}
	return "", 0
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

// file is one of tests.
type file struct{ name, sum string }

// files tells where each of the program's tests stands.
func (p program) files() (map[string]file, error) {
	files := map[string]file{}
	all, err := filepath.Glob(filepath.Join(p.dir, "*_test.go"))
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, match := range regexp.MustCompile(`(?m)^func (\w+)\(`).FindAllSubmatch(text, -1) {
			files[string(match[1])] = file{filepath.Base(path), fmt.Sprintf("%x", sha256.Sum256(text))[:16]}
		}
	}
	return files, err
}

// isOf tells whether the test's file is named after that file of code.
func (t test) isOf(file string) bool {
	name := strings.TrimSuffix(filepath.Base(file), ".go")
	return t.file == name+"_test.go" || strings.HasPrefix(t.file, name+"_")
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
		"-test.failfast", "-test.timeout", limit.String(), "-test.run", "^("+strings.Join(quoted, "|")+")$")
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

// id tells a test from those of all programs.
func (t test) id() string { return strconv.Itoa(t.in) + " " + t.name }

// finders are the tests that have found changes, by the functions that were changed: they are likely to find others.
type finders struct {
	mu    sync.Mutex
	times map[*function]map[string]int
}

func (f *finders) found(in *function, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.times == nil {
		f.times = map[*function]map[string]int{}
	}
	if f.times[in] == nil {
		f.times[in] = map[string]int{}
	}
	f.times[in][id]++
}

func (f *finders) of(in *function) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.times[in])
}

// try makes one change, runs the tests that reach its block, and returns the test that found the change, or "". The
// order is: tests that have found other changes of the function, tests whose file is named after the code's, the
// package's others, and those of other packages. Of each, the quickest come first. It ends once it has run tests that
// take as long as o.most. Tests fail on a busy machine too, so a test has to fail twice, the second time alone and
// with twice the time.
func (b *binary) try(number int, tests []test, o options) (by string, err error) {
	changed := b.mutants[number]
	var reaching, coming []test
	for _, t := range tests {
		blocks := t.Reaches[changed.in.name()]
		if slices.Contains(blocks, changed.block()) {
			reaching = append(reaching, t)
		}
		if len(blocks) > 0 {
			coming = append(coming, t)
		}
	}
	if len(reaching) == 0 { // the function may be another than when it was learnt who reaches what
		reaching = coming
	}
	place := func(t test) int {
		if t.isOf(changed.in.file) {
			return -1
		}
		return t.in
	}
	often := b.finders.of(changed.in)
	slices.SortFunc(reaching, func(x, y test) int {
		return cmp.Or(cmp.Compare(often[y.id()], often[x.id()]), cmp.Compare(place(x), place(y)), cmp.Compare(x.Took, y.Took))
	})
	// go test has its own order, so that a batch is small while what finds it is likely to be in it.
	batch := time.Second / 4
	for most := o.most; len(reaching) > 0 && most > 0; batch = min(2*batch, 8*time.Second) {
		var names []string
		var sum, last time.Duration
		in := reaching[0].in
		for _, t := range reaching {
			if t.in != in || sum >= batch {
				break
			}
			names, sum, last = append(names, t.name), sum+t.Took, last+t.Lasted
		}
		most -= sum
		limit := limitOf(last)
		by, alone, err := b.noticed(number, in, names, limit)
		if err != nil {
			return "", err
		}
		if by == "" {
			reaching = reaching[len(names):]
			continue
		}
		for _, t := range reaching {
			if t.in == in && t.name == alone {
				names, limit = []string{alone}, limitOf(t.Lasted)
			}
		}
		if again, _, err := b.noticed(number, in, names, 2*limit); again != "" || err != nil {
			if len(names) == 1 {
				b.finders.found(changed.in, test{in: in, name: names[0]}.id())
			}
			return again, err
		}
		reaching = slices.DeleteFunc(reaching, func(t test) bool { return t.in == in && slices.Contains(names, t.name) })
	}
	return "", nil
}

// limitOf returns the time after which tests count as hanging, if they take lasts without a change.
func limitOf(lasts time.Duration) time.Duration { return 5*time.Second + 4*lasts }

// noticed runs tests with a change, and returns the test that noticed it, or "a hang" or "a crash". It also returns
// the name of the top-level test, if the output shows it.
func (b *binary) noticed(number, in int, names []string, limit time.Duration) (by, test string, err error) {
	told, _, err := b.programs[in].run(names, limit, chosenVariable+"="+strconv.Itoa(number))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", "", nil
	case errors.Is(err, errHangs), errors.Is(err, exec.ErrWaitDelay):
		if match := regexp.MustCompile(`running tests:\s+(\w+)`).FindSubmatch(told); match != nil {
			test = string(match[1])
		}
		return "a hang", test, nil
	case !errors.As(err, &exit):
		return "", "", err
	case exit.ExitCode() == 126 || exit.ExitCode() == 127: // sh's, of a program that it can't run
		return "", "", fmt.Errorf("the tests can't be run: %s", told)
	}
	if match := regexp.MustCompile(`--- FAIL: (\S+)`).FindSubmatch(told); match != nil {
		test, _, _ = strings.Cut(string(match[1]), "/")
		return string(match[1]), test, nil
	}
	return "a crash", "", nil
}
