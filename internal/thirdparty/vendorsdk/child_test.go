package vendorsdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
)

// childVariable holds the plan of a process that pays and is killed.
const childVariable = "VENDORSDK_TEST_CHILD"

func TestMain(m *testing.M) {
	encoded, isChild := os.LookupEnv(childVariable)
	if !isChild {
		code := m.Run()
		stopStripeMock()
		os.Exit(code)
	}
	var plan childPlan
	err := json.Unmarshal([]byte(encoded), &plan)
	if err == nil {
		err = plan.carryOut()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// childPlan directs one process. The process asks for the payment, reports the result and waits for its end.
type childPlan struct {
	SDK       string
	Journal   string // the file
	URL       string // of the provider
	Unplugged bool   // no payment leaves it
	AsDefault bool   // the SDK uses its own client, and http.DefaultTransport is ours
}

// childReport is the result that the process got.
type childReport struct {
	ID      string // of the created object
	Pending bool   // the error was ErrPending
	Err     string
	Key     string // that the journal has

	Recorded bool // the journal has the operation
	Panicked bool // the SDK could not be connected
}

var errUnplugged = errors.New("the network is unplugged")

// unplugged lets requests for a token through and nothing else.
type unplugged struct{ http.RoundTripper }

func (u unplugged) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == tokenPath {
		return u.RoundTripper.RoundTrip(r)
	}
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, onceward.NotSent(errUnplugged)
}

func (plan childPlan) carryOut() error {
	s := sdkNamed(plan.SDK)
	j, err := sqlite.Open(plan.Journal, sqlite.Options{})
	if err != nil {
		return err
	}
	var via http.RoundTripper = http.DefaultTransport
	policy := patient
	if plan.Unplugged {
		via, policy = unplugged{via}, backoff.Policy{MaxAttempts: 1, Initial: 1, Max: 1}
	}
	client, err := onceward.New(onceward.Config{
		Journal:    j,
		Providers:  s.at(plan.URL),
		HTTPClient: &http.Client{Transport: via},
		Authorize:  s.authorize,
		Backoff:    policy,
	})
	if err != nil {
		return err
	}
	hc := client.HTTPClient()
	if plan.AsDefault {
		http.DefaultTransport = client.Transport()
		hc = nil
	}
	var report childReport
	pay, err := s.connectOrPanic(hc, plan.URL, &report.Panicked)
	if err != nil {
		return err
	}
	report.ID, err = pay(onceward.WithOperation(context.Background(), payment))
	if err != nil {
		report.Pending, report.Err = errors.Is(err, onceward.ErrPending), err.Error()
	}
	op, err := client.Operation(context.Background(), onceward.Ref{ID: payment})
	if err != nil && !errors.Is(err, onceward.ErrNotFound) {
		return err
	}
	report.Recorded, report.Key = err == nil, string(op.Key)
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent is gone
	return err
}

// connectOrPanic is connect. If that panics, nothing is paid.
func (s sdk) connectOrPanic(hc *http.Client, url string, panicked *bool) (p pay, err error) {
	defer func() {
		if recover() != nil {
			*panicked = true
			p = func(context.Context) (string, error) { return "", nil }
		}
	}()
	return s.connect(hc, url, true)
}

// child is a process that carries out a plan.
type child struct {
	t       *testing.T
	process *exec.Cmd
	reports chan childReport // one, unless it dies before; closed then
	stdin   io.WriteCloser   // open for as long as the child may live
}

func (plan childPlan) start(t *testing.T) *child {
	t.Helper()
	encoded, err := json.Marshal(plan)
	require.NoError(t, err)
	c := &child{t: t, process: exec.Command(os.Args[0]), reports: make(chan childReport, 1)}
	c.process.Env = append(os.Environ(), childVariable+"="+string(encoded))
	c.process.Stderr = os.Stderr
	c.stdin, err = c.process.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.process.Start())
	go func() {
		defer close(c.reports)
		var r childReport
		if json.NewDecoder(stdout).Decode(&r) == nil {
			c.reports <- r
		}
	}()
	t.Cleanup(func() {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
	})
	return c
}

// report waits for the report of the process.
func (c *child) report() childReport {
	c.t.Helper()
	r, ok := <-c.reports
	require.True(c.t, ok, "it died before it had told anything")
	return r
}

// reach waits until the process has come to a point, which is before its report.
func (c *child) reach(point <-chan struct{}) {
	c.t.Helper()
	select {
	case <-point:
	case r := <-c.reports:
		require.Fail(c.t, "its call ended before the point was reached", r.Err)
	}
}

// kill ends it by SIGKILL.
func (c *child) kill() {
	c.t.Helper()
	require.NoError(c.t, c.process.Process.Kill())
	for range c.reports { // its output is read to the end before Wait closes it
	}
	var killed *exec.ExitError
	require.ErrorAs(c.t, c.process.Wait(), &killed)
	require.False(c.t, killed.Exited(), "it was killed and did not end by itself")
}
