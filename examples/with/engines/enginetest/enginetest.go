// Package enginetest has the helpers that the engines' tests share. They are a provider in a box, and
// processes that are killed between an effect and its engine's acknowledgement.
package enginetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const variable = "ONCEWARD_TEST_ENGINE"

// Plan is one process's work. It works for an engine until the engine has one acknowledgement.
type Plan struct {
	Provider string // the box's URL
	Journal  string // the file
	Engine   string // where the engine keeps its work: a folder, a file or a URL
	Stays    bool   // it charges, and is killed before its engine learns that
}

// Main runs the tests or, in a process that a plan started, work.
func Main(m *testing.M, work func(context.Context, Plan) error) {
	encoded, isChild := os.LookupEnv(variable)
	if !isChild {
		os.Exit(m.Run())
	}
	var p Plan
	err := json.Unmarshal([]byte(encoded), &p)
	if err == nil {
		err = work(context.Background(), p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Box starts a Stripe in a box, which ends with the test.
func Box(t testing.TB) *providertest.Server {
	t.Helper()
	b := providertest.NewServer(providers.Stripe(), providertest.Objects("ch_"))
	t.Cleanup(b.Close)
	return b
}

// Client opens the journal and makes a client for the box. The caller calls end.
func (p Plan) Client() (c *onceward.Client, end func(), err error) {
	j, err := sqlite.Open(p.Journal, sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(p.Provider)
	if err != nil {
		return nil, nil, err
	}
	stripe := providers.Stripe()
	stripe.Hosts = []string{u.Host}
	c, err = onceward.New(onceward.Config{Journal: j, Providers: []providers.Provider{stripe}})
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	return c, func() {
		_ = c.Close()
		_ = j.Close()
	}, nil
}

// Charge charges under ctx, and prints the charge's ID for the test. A process that stays does not return from it.
func (p Plan) Charge(ctx context.Context, hc *http.Client) (id string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Provider+"/v1/charges", strings.NewReader("amount=2000&currency=eur"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var charge struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&charge); err != nil {
		return "", err
	}
	fmt.Println(charge.ID)
	if p.Stays {
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent is gone
		os.Exit(1)
	}
	return charge.ID, nil
}

// Process carries out a plan.
type Process struct {
	t   testing.TB
	cmd *exec.Cmd
	out *bufio.Scanner
	in  io.Closer // open for as long as the process may live
}

// Start starts the test's own binary with a plan.
func (p Plan) Start(t testing.TB) *Process {
	t.Helper()
	encoded, err := json.Marshal(p)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+string(encoded))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &Process{t, cmd, bufio.NewScanner(out), in}
}

// Charged waits for the charge and returns its ID.
func (p *Process) Charged() (id string) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatal("the process ended before it had charged")
	}
	return p.out.Text()
}

// Kill ends the process by SIGKILL.
func (p *Process) Kill() {
	p.t.Helper()
	must(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
}

// Ends waits until the process has ended by itself.
func (p *Process) Ends() {
	p.t.Helper()
	for p.out.Scan() {
		p.t.Fatalf("it charged again: %s", p.out.Text())
	}
	must(p.t, p.cmd.Wait())
}

// KilledBeforeItsAcknowledgement runs a plan twice. The first process is killed after the effect and before its
// engine learns that. It calls between before the second. It fails unless both got the same charge, of one effect.
func KilledBeforeItsAcknowledgement(t *testing.T, box *providertest.Server, p Plan, between func()) {
	t.Helper()
	p.Provider = box.URL
	stays := p
	stays.Stays = true
	first := stays.Start(t)
	id := first.Charged()
	first.Kill()
	between()
	second := p.Start(t)
	if again := second.Charged(); again != id {
		t.Errorf("the second process got %s, and the first %s", again, id)
	}
	second.Ends()
	if n := len(box.Effects()); n != 1 {
		t.Errorf("%d effects:\n%s", n, box.Ledger())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
