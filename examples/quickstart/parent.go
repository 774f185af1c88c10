package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/providers/providertest"
)

const (
	restartAfter = 100 * time.Millisecond // how long a killed payer stays dead
	deployAfter  = 2 * time.Second        // from a payer's first request
	outage       = 2 * time.Second
)

// storm is one payer's storm, as the parent sees it.
type storm struct {
	options
	invoices []invoice
	boxes    *boxes
	killer   *killer
	stderr   io.Writer
	seen     *seen
	hooks    string // where the payer takes webhooks
}

// parent raises a storm for each payer, all at once, and judges what they left.
func parent(ctx context.Context, o options, invoices []invoice, stdout, stderr io.Writer) (err error) {
	asked := o.dir
	if o.dir, err = workDir(asked); err != nil {
		return err
	}
	defer func() {
		if asked == "" && err == nil {
			err = os.RemoveAll(o.dir)
			return
		}
		fmt.Fprintln(stdout, "the payers' files are kept in", o.dir)
	}()
	fmt.Fprintf(stdout, "%d invoices, %d kills a payer, a deploy %v after each start, an outage of %v (-seed %d)\n", len(invoices), o.kills, deployAfter, outage, o.seed)

	told := &shared{w: stderr}
	var storms []*storm
	for _, name := range payers {
		if o.payer == "" || o.payer == name {
			s, err := newStorm(o, name, invoices, told)
			if err != nil {
				return err
			}
			defer s.boxes.close()
			storms = append(storms, s)
		}
	}
	showing := newProgress(stdout, storms)
	var group sync.WaitGroup
	raged := make([]error, len(storms))
	for i, s := range storms {
		group.Go(func() { raged[i] = s.rage(ctx) })
	}
	group.Wait()
	showing.end()

	var columns []left
	var verdict error
	for i, s := range storms {
		l := s.audit()
		columns = append(columns, l)
		if raged[i] != nil {
			verdict = errors.Join(verdict, fmt.Errorf("%s: %w", s.payer, raged[i]))
		}
		if s.payer == "onceward" {
			verdict = errors.Join(verdict, l.verdict())
		}
	}
	print(stdout, columns)
	return verdict
}

// shared is written to by several storms.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

func newStorm(o options, payer string, invoices []invoice, stderr io.Writer) (*storm, error) {
	o.payer, o.dir = payer, filepath.Join(o.dir, payer)
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return nil, err
	}
	s := &storm{options: o, invoices: invoices, stderr: stderr, seen: newSeen()}
	s.killer = &killer{ahead: drawKills(o.seed, o.kills, o.span())}
	if o.verbose {
		s.killer.told = stderr
	}
	s.boxes = newBoxes(o.seed, func(r providertest.Request) {
		s.seen.request(invoiceOf(r.Body))
		s.killer.observe(r)
	})
	var err error
	if s.hooks, err = freeAddress(); err != nil {
		s.boxes.close()
		return nil, err
	}
	s.boxes.square.Events(s.hooks+"/square", hookSecret)
	s.boxes.gocardless.Events(s.hooks+"/gocardless", hookSecret)
	return s, nil
}

// freeAddress is a free address on this machine. The payer listens there later, so the port must stay free.
// On Linux all of 127.0.0.0/8 is the machine's own, and other programs use 127.0.0.1.
func freeAddress() (string, error) {
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), l.Close()
}

// workDir makes the payer's directory. It refuses a folder with files: the box forgets everything at the end, so an
// earlier journal would not match the box.
func workDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "onceward-quickstart-")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("-dir %s is not empty: its journal would belong to another provider", dir)
	}
	return filepath.Abs(dir)
}

// rage runs one payer after another until one reaches its end.
func (s *storm) rage(ctx context.Context) error {
	weather, calm := context.WithCancel(ctx)
	defer calm()
	go s.breakDown(weather)
	for {
		ended, err := s.runPayer(ctx)
		if ended == finished || err != nil {
			return err
		}
		s.seen.ended(ended == killed)
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// breakDown has the providers go down once, in the middle.
func (s *storm) breakDown(ctx context.Context) {
	for s.seen.requested() < len(s.invoices)/2 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	s.boxes.goDown()
	select {
	case <-time.After(outage):
		s.boxes.misbehave()
	case <-ctx.Done():
	}
}

// end is how a payer came to its end.
type end int

const (
	finished end = iota
	killed
	deployed
)

// runPayer runs one payer until it ends.
func (s *storm) runPayer(ctx context.Context) (end, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	payer := exec.CommandContext(ctx, self, "-dir", s.dir, "-payer", s.payer,
		"-invoices", strconv.Itoa(len(s.invoices)), "-kills", "0", "-asked", s.seen.gone(s.invoices))
	payer.Env = append(os.Environ(), stripeVariable+"="+s.boxes.stripe.URL, courierVariable+"="+s.boxes.courier.URL,
		squareVariable+"="+s.boxes.square.URL, gocardlessVariable+"="+s.boxes.gocardless.URL, hooksVariable+"="+s.hooks)
	payer.Stderr = s.stderr
	told, err := payer.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := s.killer.start(payer); err != nil {
		return 0, err
	}
	s.listen(told)
	err = payer.Wait()
	landed := s.killer.miss()
	switch {
	case err == nil:
		return finished, nil
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case landed:
		return killed, nil
	case payer.ProcessState.ExitCode() == stopped, diedOfStop(payer.ProcessState):
		return deployed, nil
	}
	return 0, fmt.Errorf("the payer failed: %w", err)
}

// diedOfStop reports whether a payer was stopped before listening for the stop.
func diedOfStop(s *os.ProcessState) bool {
	return s.ExitCode() == -1 && s.String() == "signal: "+syscall.SIGTERM.String()
}

// listen notes what the payer tells, until it ends. A kill may cut off its last
// line.
func (s *storm) listen(told io.Reader) {
	lines := bufio.NewReader(told)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.seen.tells(what, name)
	}
}
