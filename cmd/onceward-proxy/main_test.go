package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// binary is the built program: tests run it as people do.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "onceward-proxy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "onceward-proxy")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const apiKey = "sk_test_of_the_shop"

// shop is a provider in a box, and the file for a proxy in front of it.
type shop struct {
	*providertest.Server
	dir, file, socket string
	listeners         int
}

func open(t *testing.T, business http.Handler) *shop {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &shop{Server: providertest.NewServer(providers.Stripe(), business), dir: dir, file: filepath.Join(dir, "proxy.json"), socket: filepath.Join(dir, "stripe.sock"), listeners: 1}
	t.Cleanup(s.Close)
	s.write(t, map[string]any{"socket": s.socket})
	return s
}

// write writes the program's file, with its only listener's fields.
func (s *shop) write(t *testing.T, listener map[string]any) {
	t.Helper()
	for name, value := range map[string]any{"upstream": s.URL, "provider": "stripe", "scope": "shop", "credentials": []string{"env:STRIPE_KEY"}} {
		if _, given := listener[name]; !given {
			listener[name] = value
		}
	}
	text, err := json.Marshal(map[string]any{"journal": filepath.Join(s.dir, "payments.db"), "secret": "env:PROXY_SECRET", "listen": []any{listener}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.file, text, 0o600))
}

// process is a running program.
type process struct {
	*exec.Cmd
	mu     sync.Mutex
	log    strings.Builder
	served chan struct{} // once for each listener
	ended  chan error
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start starts the program, and waits until it serves.
func (s *shop) start(t testing.TB, args ...string) *process {
	t.Helper()
	p := s.run(t, args...)
	for range s.listeners {
		select {
		case <-p.served:
		case err := <-p.ended:
			require.NoError(t, err, p.logged())
			t.Fatalf("it ended: %s", p.logged())
		}
	}
	return p
}

func (s *shop) run(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(binary, append(args, s.file)...), served: make(chan struct{}, s.listeners), ended: make(chan error, 1)}
	p.Env = append(os.Environ(), "STRIPE_KEY="+apiKey, "PROXY_SECRET=a secret of 16 bytes or more")
	out, err := p.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			fmt.Fprintln(&p.log, lines.Text())
			p.mu.Unlock()
			if strings.Contains(lines.Text(), "msg=serving") {
				p.served <- struct{}{}
			}
		}
		p.ended <- p.Wait()
	}()
	return p
}

// client calls through the socket.
func (s *shop) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}}
}

// charge asks for a charge by its name. It returns the charge's id, or no id with the status.
func charge(c *http.Client, base, name string) (id string, status int, err error) {
	body := url.Values{"amount": {"2000"}, "currency": {"eur"}, "description": {name}}
	req, err := http.NewRequest(http.MethodPost, base+"/v1/charges", strings.NewReader(body.Encode()))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Onceward-Operation", name)
	resp, err := c.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	var object struct{ ID string }
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &object)
	}
	return object.ID, resp.StatusCode, err
}

const viaSocket = "http://localhost"

// The program makes a journal only by --new. It serves a socket for its group, ends by SIGTERM, and goes on with the same
// journal.
func TestStartAndEnd(t *testing.T) {
	s := open(t, providertest.Objects("ch_"))
	missing := s.run(t)
	require.Error(t, <-missing.ended)
	assert.Contains(t, missing.logged(), "add --new")
	assert.NotContains(t, missing.logged(), apiKey)

	p := s.start(t, "--new")
	info, err := os.Stat(s.socket)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	assert.Contains(t, p.logged(), "files.stripe.com", "the start warns of a host without a listener")
	first, status, err := charge(s.client(), viaSocket, "invoice-1")
	require.NoError(t, err)
	require.NotEmpty(t, first, status)
	second := s.run(t)
	require.Error(t, <-second.ended)
	assert.Contains(t, second.logged(), "another process serves it")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-p.ended, p.logged())

	again := s.run(t, "--new")
	require.Error(t, <-again.ended)
	assert.Contains(t, again.logged(), "leave out --new")
	s.start(t)
	replayed, _, err := charge(s.client(), viaSocket, "invoice-1")
	require.NoError(t, err)
	assert.Equal(t, first, replayed)
	assert.Len(t, s.Effects(), 1)
}

// The program is killed at each step in a call: before the effect, after the effect, and after the answer. The next process
// gives the name its charge, and there is one.
func TestKilledAtEachStep(t *testing.T) {
	for _, step := range []string{"before the effect", "after the effect", "after the answer"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			var p atomic.Pointer[process]
			kill := func() {
				if running := p.Swap(nil); running != nil {
					_ = running.Process.Kill()
					<-running.ended
				}
			}
			objects := providertest.Objects("ch_")
			s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if step == "before the effect" {
					kill()
				}
				objects.ServeHTTP(w, r)
				if step == "after the effect" {
					kill()
				}
			}))
			p.Store(s.start(t, "--new"))
			_, _, err := charge(s.client(), viaSocket, "invoice-1")
			if step == "after the answer" {
				require.NoError(t, err)
				kill()
			} else {
				require.Error(t, err, "the caller's connection broke")
			}
			s.start(t)
			require.Eventually(t, func() bool {
				id, _, err := charge(s.client(), viaSocket, "invoice-1")
				return err == nil && id != ""
			}, time.Minute, 50*time.Millisecond)
			assert.Len(t, s.Effects(), 1)
		})
	}
}

// A signal that comes during a call lets the call end: its caller gets the answer.
func TestASignalLetsACallEnd(t *testing.T) {
	var p *process
	objects := providertest.Objects("ch_")
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, p.Process.Signal(syscall.SIGTERM))
		assert.Eventually(t, func() bool { return strings.Contains(p.logged(), "msg=ending") }, 10*time.Second, 10*time.Millisecond)
		objects.ServeHTTP(w, r)
	}))
	p = s.start(t, "--new")
	id, status, err := charge(s.client(), viaSocket, "invoice-1")
	require.NoError(t, err)
	assert.NotEmpty(t, id, status)
	require.NoError(t, <-p.ended, p.logged())
}

// An address is served too, with a certificate or, on the loopback interface, without.
func TestAddress(t *testing.T) {
	s := open(t, providertest.Objects("ch_"))
	other := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	other.Close()
	private, err := x509.MarshalPKCS8PrivateKey(other.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	certificate, key := filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	for i, scheme := range []string{"http", "https"} {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, free.Close())
		listener := map[string]any{"addr": free.Addr().String()}
		if scheme == "https" {
			listener["certificate"], listener["key"] = certificate, key
		}
		s.write(t, listener)
		p := s.start(t, [][]string{{"--new"}, nil}[i]...)
		id, _, err := charge(trusting, scheme+"://"+free.Addr().String(), "invoice-1")
		require.NoError(t, err)
		assert.NotEmpty(t, id)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.NoError(t, <-p.ended)
	}
}

// An unknown field, a secret in the file, and an unsafe listener are errors that name the field. None shows a secret.
func TestFileIsStrict(t *testing.T) {
	t.Setenv("STRIPE_KEY", apiKey)
	t.Setenv("PROXY_SECRET", "a secret of 16 bytes or more")
	listen := `{"socket":"s","upstream":"https://api.stripe.com","provider":"stripe","credentials":["env:STRIPE_KEY"]}`
	file := func(listen string) string {
		return `{"journal":"j","secret":"env:PROXY_SECRET","listen":[` + listen + `]}`
	}
	with := func(old, with string) string { return file(strings.Replace(listen, old, with, 1)) }
	for text, want := range map[string]string{
		file(listen):                         "",
		file(listen) + "{}":                  "more follows",
		with(`"socket"`, `"soket"`):          "soket",
		with(`"socket":"s",`, ``):            `either "socket" or "addr"`,
		with(`"s"`, `"s","certificate":"c"`): "go together",
		with("env:STRIPE_KEY", apiKey):       "env:NAME or file:PATH",
		with("env:STRIPE_KEY", "env:NONE"):   "NONE is empty",
		with(`"stripe"`, `"mollie"`):         `give adyen, paypal, resend, square, stripe, svix, or ietf`,
		with(`"stripe"`, `"adyen"`):          "does not serve api.stripe.com",
		with(`api.stripe.com","provider":"stripe"`, `a-b-checkout-live.adyenpayments.com","provider":"adyen"`): "",
		with(`api.stripe.com","provider":"stripe"`, `a-b-pal-live.adyenpayments.com","provider":"adyen"`):      "",
		with(`api.stripe.com","provider":"stripe"`, `api-m.paypal.com","provider":"paypal"`):                   "",
		with("api.stripe.com", "a.example"):                                           "does not serve a.example",
		with("https://api.stripe.com", ":"):                                           `the field "upstream"`,
		with(`"stripe"`, `"ietf"`):                                                    `the field "retention"`,
		with(`"stripe"`, `"raw","retention":"a day"`):                                 `the field "retention"`,
		file(listen + `,` + strings.Replace(listen, "STRIPE_KEY", "PROXY_SECRET", 1)): "other credentials",
		`{"secret":"env:PROXY_SECRET","listen":[` + listen + `]}`:                     `the field "journal"`,
		strings.Replace(file(listen), `"j"`, `"postgres://shop:hunter2@db/shop"`, 1):  "which may hold a password",
		strings.Replace(file(listen), `"j"`, `"mysql://shop:hunter2@db/"`, 1):         "which may hold a password",
		strings.Replace(file(listen), `"j"`, `"shop:hunter2@tcp(db:3306)/"`, 1):       "which may hold a password",
		strings.Replace(file(listen), `"j"`, `"shop:hunter2@db:3306/"`, 1):            "which may hold a password",
		strings.Replace(file(listen), `"j"`, `"env:STRIPE_KEY"`, 1):                   `the field "deployment"`,
		strings.Replace(file(listen), `"j"`, `"env:STRIPE_KEY","deployment":"p"`, 1):  "no address of a database",
		strings.Replace(file(listen), `"j"`, `"j","schema":"onceward"`, 1):            `the fields "schema"`,
		strings.Replace(file(listen), `"j"`, `"j","deployment":"prod"`, 1):            `the field "deployment"`,
		strings.Replace(file(listen), `"j"`, `"env:NONE","deployment":"prod"`, 1):     `the field "journal"`,
		`{"journal":"j","secret":"hunter2","listen":[` + listen + `]}`:                `the field "secret"`,
		`{"journal":"j","secret":"env:PROXY_SECRET"}`:                                 `the field "listen"`,
	} {
		path := filepath.Join(t.TempDir(), "proxy.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := read(path)
		if want == "" {
			assert.NoError(t, err)
			continue
		}
		if assert.ErrorContains(t, err, want, text) {
			assert.NotContains(t, err.Error(), apiKey)
			assert.NotContains(t, err.Error(), "hunter2")
		}
	}
	_, err := (&listener{Addr: "0.0.0.0:443"}).listen()
	assert.ErrorContains(t, err, "unencrypted")
}
