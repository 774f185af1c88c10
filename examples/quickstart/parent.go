package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/providers/providertest"
)

// restartAfter is how long a killed payer stays dead.
const restartAfter = 100 * time.Millisecond

// storm is one run, as its parent sees it.
type storm struct {
	options
	invoices []invoice
	box      *providertest.Server
	killer   *killer
	stderr   io.Writer
	seen     *progress
}

// parent raises the storm and judges what is left.
func parent(ctx context.Context, o options, invoices []invoice, stdout, stderr io.Writer) (err error) {
	asked := o.dir
	if o.dir, err = workDir(asked); err != nil {
		return err
	}
	defer func() {
		switch {
		case asked == "" && (o.plain || err == nil):
			err = errors.Join(err, os.RemoveAll(o.dir))
		default:
			fmt.Fprintln(stdout, "the payer's files are kept in", o.dir)
		}
	}()

	fmt.Fprintf(stdout, "%s pays %d invoices (-seed %d)\n", o.payer(), len(invoices), o.seed)
	s := &storm{options: o, invoices: invoices, stderr: stderr, seen: newProgress(stdout, len(invoices))}
	s.killer = &killer{ahead: drawKills(o.seed, o.kills, o.span())}
	if o.verbose {
		s.killer.told = stderr
	}
	s.box = newBox(o.seed, func(r providertest.Request) {
		s.seen.request()
		s.killer.observe(r)
	})
	defer s.box.Close()

	raged := s.rage(ctx)
	s.seen.end()
	found, err := s.audit(ctx)
	if err != nil {
		return errors.Join(raged, err)
	}
	found.print(stdout)
	return errors.Join(raged, found.verdict())
}

func (o options) payer() string {
	if o.plain {
		return "go-retryablehttp alone"
	}
	return "Onceward"
}

// workDir makes the payer's directory. The box forgets everything when it ends, so
// that nobody else's journal would match it.
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
	for {
		killed, err := s.runPayer(ctx)
		if !killed || err != nil {
			return err
		}
		s.seen.kill()
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// runPayer runs one payer until it ends or is killed.
func (s *storm) runPayer(ctx context.Context) (killed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	payer := exec.CommandContext(ctx, self, "-dir", s.dir,
		"-invoices", strconv.Itoa(len(s.invoices)), "-kills", "0", "-plain="+strconv.FormatBool(s.plain))
	payer.Env = append(os.Environ(), providerVariable+"="+s.box.URL)
	payer.Stderr = s.stderr
	told, err := payer.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := s.killer.start(payer); err != nil {
		return false, err
	}
	s.listen(told)
	err = payer.Wait()
	landed := s.killer.miss()
	switch {
	case err == nil:
		return false, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case landed:
		return true, nil
	}
	return false, fmt.Errorf("the payer failed: %w", err)
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
		switch what {
		case "paid":
			s.seen.paid(name)
		case "resumed":
			s.seen.resumed(name)
		}
	}
}
