package request_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

const installVariable = "ONCEWARD_TEST_INSTALL"

// TestInstall runs its subtests in a child process, because Install changes the whole process.
func TestInstall(t *testing.T) {
	if os.Getenv(installVariable) == "" {
		t.Parallel()
		child := exec.Command(os.Args[0], "-test.run=^TestInstall$", "-test.timeout=2m")
		child.Env = append(os.Environ(), installVariable+"=child")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "no tests to run")
		return
	}
	original := http.DefaultTransport
	for name, test := range map[string]func(t *testing.T, b *installBox){
		"listed hosts go through the client, and others don't": testInstallRoutes,
		"a second one is refused until the first is undone":    testInstallTwice,
		"another package's transport above it stays":           testInstallWrapped,
		"a client's own requests go past it":                   testInstallBelow,
		"tables without hosts are refused":                     testInstallNoHosts,
		"a read keeps its response's Request":                  testInstallRead,
		"an operation is not followed to an unlisted host":     testInstallRedirected,
	} {
		t.Run(name, func(t *testing.T) {
			b := &installBox{Server: providertest.NewServer(providers.Stripe(), providertest.Objects("ch_")), journal: memory.New()}
			t.Cleanup(b.Close)
			test(t, b)
		})
		require.True(t, http.DefaultTransport == original, "restored after %s", name)
	}
}

// installBox is a Stripe in a box.
type installBox struct {
	*providertest.Server
	journal *memory.Journal
}

func (b *installBox) client(t *testing.T, base http.RoundTripper) *onceward.Client {
	t.Helper()
	return b.clientOf(t, providers.Stripe(), base)
}

func (b *installBox) clientOf(t *testing.T, p providers.Provider, base http.RoundTripper) *onceward.Client {
	t.Helper()
	u, err := url.Parse(b.URL)
	require.NoError(t, err)
	p.Hosts = []string{u.Host}
	cfg := onceward.Config{Journal: b.journal, Providers: []providers.Provider{p, providers.Raw(24 * time.Hour)}}
	if base != nil {
		cfg.HTTPClient = &http.Client{Transport: base}
	}
	c, err := onceward.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	return c
}

// install undoes it when the test ends.
func (b *installBox) install(t *testing.T, c *onceward.Client) (undo func()) {
	t.Helper()
	undo, err := onceward.Install(c)
	require.NoError(t, err)
	t.Cleanup(undo)
	return undo
}

// pay charges by name and returns the answer's body.
func payBy(t *testing.T, hc *http.Client, baseURL string) string {
	t.Helper()
	named := onceward.WithOperation(t.Context(), "invoice-991/charge")
	req, err := http.NewRequestWithContext(named, http.MethodPost, baseURL+"/v1/charges", strings.NewReader("amount=2000&currency=eur"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := hc.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func (b *installBox) operations(t *testing.T, c *onceward.Client) (n int) {
	t.Helper()
	for _, err := range c.Operations(t.Context(), onceward.Filter{}) {
		require.NoError(t, err)
		n++
	}
	return n
}

func testInstallRoutes(t *testing.T, b *installBox) {
	var keys []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(other.Close)
	c := b.client(t, nil)
	undo := b.install(t, c)
	first := payBy(t, http.DefaultClient, b.URL)
	assert.Equal(t, first, payBy(t, &http.Client{}, b.URL), "the recorded answer")
	assert.Len(t, b.Effects(), 1)
	for range 2 {
		payBy(t, http.DefaultClient, other.URL)
	}
	assert.Equal(t, []string{"", ""}, keys, "no table lists this host, though one serves it")
	assert.Equal(t, 1, b.operations(t, c))

	undo()
	payBy(t, http.DefaultClient, b.URL)
	assert.Len(t, b.Effects(), 2, "unprotected again")
}

func testInstallTwice(t *testing.T, b *installBox) {
	c, other := b.client(t, nil), b.client(t, nil)
	undo := b.install(t, c)
	installed := http.DefaultTransport
	for _, again := range []*onceward.Client{c, other} {
		_, err := onceward.Install(again)
		require.ErrorContains(t, err, "a client is installed already")
		require.Same(t, installed, http.DefaultTransport)
	}
	undo()
	second := b.install(t, other)
	undo() // harmless: it undoes only its own
	assert.NotSame(t, installed, http.DefaultTransport)
	_, err := onceward.Install(c)
	require.ErrorContains(t, err, "a client is installed already")
	second()
}

func testInstallWrapped(t *testing.T, b *installBox) {
	original := http.DefaultTransport
	undo := b.install(t, b.client(t, nil))
	wrapped := &installCounter{base: http.DefaultTransport}
	http.DefaultTransport = wrapped
	t.Cleanup(func() { http.DefaultTransport = original })
	undo()
	require.Same(t, wrapped, http.DefaultTransport)
	payBy(t, http.DefaultClient, b.URL)
	payBy(t, http.DefaultClient, b.URL)
	assert.EqualValues(t, 2, wrapped.n.Load())
	assert.Len(t, b.Effects(), 2, "the client is not asked any more")
}

type installCounter struct {
	base http.RoundTripper
	n    atomic.Int64
}

func (c *installCounter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.base.RoundTrip(req)
}

// funcTransport hides what it sends by.
type funcTransport func(*http.Request) (*http.Response, error)

func (f funcTransport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func testInstallBelow(t *testing.T, b *installBox) {
	dynamic := funcTransport(func(req *http.Request) (*http.Response, error) { return http.DefaultTransport.RoundTrip(req) })
	first := b.client(t, dynamic)
	b.install(t, first)
	payBy(t, http.DefaultClient, b.URL)
	for _, base := range []http.RoundTripper{nil, http.DefaultTransport, &installCounter{base: http.DefaultTransport}, dynamic} {
		other := *b
		other.journal = memory.New()
		c := other.client(t, base)
		payBy(t, c.HTTPClient(), b.URL)
		assert.Equal(t, 1, other.operations(t, c))
	}
	assert.Len(t, b.Effects(), 5, "five journals, and an operation in each")
	assert.Equal(t, 1, b.operations(t, first))
}

func testInstallRead(t *testing.T, b *installBox) {
	c := b.client(t, &installCounter{base: http.DefaultTransport})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL+"/v1/charges/ch_1", nil)
	require.NoError(t, err)
	resp, err := c.Transport().RoundTrip(req)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Same(t, req, resp.Request)
}

// If http.Client followed the recorded redirect, each call under the name would charge again.
func testInstallRedirected(t *testing.T, b *installBox) {
	charges := 0
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			charges++
		}
	}))
	t.Cleanup(other.Close)
	status := http.StatusTemporaryRedirect
	b.Close()
	b.Server = providertest.NewServer(providers.Stripe(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, status)
	}))
	t.Cleanup(b.Close)
	b.install(t, b.clientOf(t, redirecting()[0], nil))
	for _, status = range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for range 2 {
			named := onceward.WithOperation(t.Context(), fmt.Sprint("invoice-", status))
			req, err := http.NewRequestWithContext(named, http.MethodPost, b.URL+"/v1/charges", strings.NewReader("amount=2000&currency=eur"))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			_, err = http.DefaultClient.Do(req)
			require.ErrorIs(t, err, onceward.ErrRedirected)
		}
	}
	assert.Zero(t, charges)
	status = http.StatusSeeOther
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/v1/charges", strings.NewReader("amount=1&currency=eur"))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err, "it is followed by a GET")
	require.NoError(t, resp.Body.Close())
}

func testInstallNoHosts(t *testing.T, b *installBox) {
	c, err := onceward.New(onceward.Config{Journal: b.journal, Providers: []providers.Provider{providers.Raw(24 * time.Hour)}})
	require.NoError(t, err)
	undo, err := onceward.Install(c)
	require.ErrorContains(t, err, "lists a host")
	require.Nil(t, undo)
}
