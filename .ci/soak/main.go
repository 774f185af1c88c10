// Command soak runs tests with fresh seeds and many repetitions until its time is over.
//
//	go run ./.ci/soak [-for 10m] [-only EXPRESSION] [-seed N] [-j 2] [-vulndb ADDRESS]
//
// Before that time, it searches every module for known vulnerabilities by govulncheck, once. The database must be
// reachable: a module that was not searched is a failure.
//
// It divides the time between two kinds of work:
//
//   - every test of every module that uses internal/soak, which includes simulated lives and a sample of the clauses,
//   - every fuzz target, for ten seconds.
//
// A run of more than five minutes counts as a failure, and its processes are killed. At the end soak reports what ran
// how often, and prints each failure with a repeating command. The exit status is 1 if there is a failure, or if
// nothing ran to its end.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// limit is how long one run may take.
const limit = 5 * time.Minute

func main() {
	only := flag.String("only", ".", "run only the work whose name matches this `expression`, such as 'journal/sqlite Test' or Fuzz")
	lasts := flag.Duration("for", 10*time.Minute, "how long to run")
	seed := flag.Uint64("seed", rand.Uint64N(1<<40), "the seed of the first run; each further run takes the next one")
	parallel := flag.Int("j", 2, "how many runs at once")
	vulndb := flag.String("vulndb", "https://vuln.go.dev", "the `address` of govulncheck's database, which may be a folder: file:///…")
	flag.Parse()
	if err := run(*only, *lasts, *seed, *parallel, *vulndb); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(only string, lasts time.Duration, seed uint64, parallel int, vulndb string) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	all, err := find()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(i *item) bool { return !match.MatchString(i.String()) })
	search := match.MatchString(govulncheck)
	if len(all) == 0 && !search {
		return errors.New("nothing matches -only")
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s := &soak{all: all, seed: seed, spent: map[kind]time.Duration{}}
	if s.temp, err = os.MkdirTemp("", "soak-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.temp)
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var vulnerable error
	if search {
		if vulnerable = vulnerabilities(interrupted, s.temp, vulndb, os.Stdout); len(all) == 0 {
			return vulnerable
		}
	}
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(interrupted, lasts)
	defer cancel()
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for ctx.Err() == nil {
				s.turn(ctx)
			}
		})
	}
	workers.Wait()
	return errors.Join(report(os.Stdout, all), vulnerable)
}

type soak struct {
	temp  string
	began time.Time

	mu    sync.Mutex
	all   []*item
	spent map[kind]time.Duration
	seed  uint64 // of the next run
}

// shares says how the time is divided between the kinds.
var shares = map[kind]time.Duration{test: 3, fuzz: 1}

// next chooses the kind that has had the least of its share, and within the kind the item that has run the least often.
func (s *soak) next() *item {
	return slices.MinFunc(s.all, func(a, b *item) int {
		return cmp.Or(cmp.Compare(s.spent[a.kind]/shares[a.kind], s.spent[b.kind]/shares[b.kind]), cmp.Compare(a.begun, b.begun))
	})
}

// turn runs one item once.
func (s *soak) turn(ctx context.Context) {
	s.mu.Lock()
	i, seed := s.next(), s.seed
	i.begun++
	s.seed++
	s.spent[i.kind] += time.Second // so that another worker takes another kind
	s.mu.Unlock()

	began := time.Now()
	r := s.result(ctx, i, seed)
	r.took = time.Since(began)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent[i.kind] += r.took
	i.results = append(i.results, r)
	if r.verdict == failed {
		fmt.Println(r.output)
	}
	fmt.Printf("%6s  %-7s %s, seed %d, %.1f s\n", time.Since(s.began).Round(time.Second), r.verdict, i, seed, r.took.Seconds())
}

func (s *soak) result(ctx context.Context, i *item, seed uint64) result {
	output, err := s.execute(ctx, i, seed)
	if err != nil && ctx.Err() != nil {
		return result{verdict: cut}
	}
	return judge(i, seed, output, err)
}

var errHangs = errors.New("hangs")

// execute runs an item's program, and ends all processes that the program leaves.
func (s *soak) execute(ctx context.Context, i *item, seed uint64) (output string, err error) {
	program, err := s.build(ctx, i)
	if err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(s.temp, "run-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	for _, dir := range []string{s.temp, temp} { // some tests try what other users may do
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, limit+20*time.Second) // the program's own timeout tells more
	defer cancel()
	cmd := exec.CommandContext(bounded, program, i.args()...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Dir = i.dir
	if i.kind == test {
		cmd.Env = append(cmd.Env, fmt.Sprintf("ONCEWARD_SOAK=%d", seed))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &told, &told
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if bounded.Err() != nil {
		err = errHangs
	}
	return told.String(), err
}

// build builds an item's program, once for all items of a kind in a package.
func (s *soak) build(ctx context.Context, i *item) (path string, err error) {
	i.program.mu.Lock()
	defer i.program.mu.Unlock()
	if i.program.path != "" {
		return i.program.path, nil
	}
	path = filepath.Join(s.temp, fmt.Sprintf("%p", i.program))
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", path)
	build.Dir = i.dir
	if i.kind == fuzz {
		build.Args = append(build.Args, "-fuzz", ".")
	}
	if told, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not build: %w\n%s", err, strings.TrimSpace(string(told)))
	}
	i.program.path = path
	return path, nil
}
