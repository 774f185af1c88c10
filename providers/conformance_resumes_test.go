//go:build unix

package providers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal/sqlite"
)

func TestMain(m *testing.M) { oncetest.Main(m, (*ordinaryRequests).carryOut) }

// ordinaryRequests is the plan of a process that makes every request of the contracts, reaches no provider, and is
// killed. With a Storm, it is that plan.
type ordinaryRequests struct {
	Path  string
	Storm *storm
}

const numbered = "X-Number"

func (p *ordinaryRequests) carryOut() error {
	if p.Storm != nil {
		return p.Storm.carryOut()
	}
	unreached := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nothing is reached") }}
	c, err := clientOfAll(p.Path, unreached)
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	for i, text := range everyRequest() {
		calls.Go(func() {
			if err := ask(c, i, text); errors.Is(err, onceward.ErrInvalidRequest) && !strings.Contains(text, "\n\n") {
				_ = ask(c, i, text+"\n\n{}") // the key stands in the body
			}
		})
	}
	calls.Wait()
	return syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
}

func clientOfAll(path string, via http.RoundTripper) (*onceward.Client, error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return onceward.New(onceward.Config{
		Journal: j, Providers: adapters(), HTTPClient: &http.Client{Transport: via},
		Backoff: backoff.Policy{MaxAttempts: 1, Initial: time.Millisecond, Max: time.Millisecond},
	})
}

// everyRequest has each request of the contracts that has an effect once.
func everyRequest() (all []string) {
	for _, c := range contracts() {
		all = append(all, c.requests()...)
	}
	for _, h := range hiccups {
		all = append(all, h.request)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func ask(c *onceward.Client, i int, text string) error {
	head, body, _ := strings.Cut(text, "\n\n")
	line, header, _ := strings.Cut(head, "\n")
	method, url, _ := strings.Cut(line, " ")
	ctx := onceward.WithOperation(context.Background(), strconv.Itoa(i))
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(numbered, strconv.Itoa(i))
	for field := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(field), ": ")
		req.Header.Add(name, value)
	}
	_, err = c.HTTPClient().Do(req)
	return err
}

// Every adapter's requests without a card go on after a process was killed, without the caller that made them.
func TestEveryRequestOfAContractResumesAfterAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	child, err := oncetest.StartChild(t.Context(), ordinaryRequests{Path: path})
	require.NoError(t, err)
	killed, err := child.End()
	require.NoError(t, err)
	require.True(t, killed, "%s", &child.Stderr)

	var mu sync.Mutex
	sent := map[string]bool{}
	c, err := clientOfAll(path, roundTripper(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		sent[req.Header.Get(numbered)] = true
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"id":"1"}`)), Request: req}, nil
	}))
	require.NoError(t, err)
	var journaled []string
	for op, err := range c.Operations(t.Context(), onceward.Filter{}) {
		require.NoError(t, err)
		journaled = append(journaled, op.Ref.ID)
	}
	all := everyRequest()
	assert.Greater(t, len(journaled), len(all)*9/10)
	_, err = c.Resume(t.Context())
	require.NoError(t, err)
	for _, number := range journaled {
		i, err := strconv.Atoi(number)
		require.NoError(t, err)
		assert.True(t, sent[number], "not resumed: %s", all[i])
	}
	require.NoError(t, c.Shutdown(t.Context()))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
