package vendorsdk_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"github.com/onceward/onceward"
)

// mockProcess is the one stripe-mock of all tests, which keeps no state.
var mockProcess *exec.Cmd

// stripeMock builds Stripe's mock from its Go module, at the version of go.mod,
// starts it on a free port, and returns its URL.
var stripeMock = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stripe-mock-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "stripe-mock")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/stripe/stripe-mock").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building stripe-mock: %w\n%s", err, out)
	}
	mock := exec.Command(binary, "-http-addr", "127.0.0.1:0")
	mock.Stderr = os.Stderr
	stdout, err := mock.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := mock.Start(); err != nil {
		return "", err
	}
	mockProcess = mock
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, address, found := strings.Cut(lines.Text(), "Listening for HTTP at address: "); found {
			go func() { _, _ = io.Copy(io.Discard, stdout) }() // it logs every request
			return "http://" + address, nil
		}
	}
	return "", fmt.Errorf("stripe-mock ended before it listened: %w", mock.Wait())
})

func stopStripeMock() {
	if mockProcess != nil {
		_ = mockProcess.Process.Kill()
		_ = mockProcess.Wait()
	}
}

// mocked is stripe-mock behind a proxy that sees every request, and may keep back
// the answer.
type mocked struct {
	*httptest.Server
	wire
}

// inFrontOfStripeMock starts a proxy before the mock. keepBack, if not nil, is called after the mock has answered and
// before the client gets the answer. Its error drops the connection instead.
func inFrontOfStripeMock(t *testing.T, keepBack func() error) *mocked {
	t.Helper()
	address, err := stripeMock()
	require.NoError(t, err)
	to, err := url.Parse(address)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if keepBack != nil {
		proxy.ModifyResponse = func(*http.Response) error { return keepBack() }
	}
	m := &mocked{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.see(r.URL.Path, r.Header.Get("Idempotency-Key"))
		proxy.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	}))
	t.Cleanup(m.Close)
	return m
}

// A name keeps its key at stripe-mock though stripe-go makes up another after a kill.
func TestStripeMockNameKeepsItsKey(t *testing.T) {
	t.Parallel()
	answered, gone := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(answered) })
	m := inFrontOfStripeMock(t, func() error {
		first()
		<-gone
		return nil
	})
	letGo := sync.OnceFunc(func() { close(gone) })
	t.Cleanup(letGo)
	path := filepath.Join(t.TempDir(), "journal.db")
	killed := childPlan{SDK: stripeGo.name, Journal: path, URL: m.URL}.start(t)
	killed.reach(answered)
	killed.kill()
	letGo()

	p := stripeGo.start(t, path, m.URL, patient)
	var ids []string
	for range 2 {
		id, err := p.pay(named(t))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	assert.True(t, strings.HasPrefix(ids[0], "pi_"), ids[0])
	assert.Equal(t, ids[0], ids[1], "the second call got the recorded answer")
	op := p.operation(t, payment)
	assert.Equal(t, []string{string(op.Key), string(op.Key)}, m.seen(), "the killed process's request, and one more")
	assert.Equal(t, 1, p.replaced, "the SDK's new key gave way to the journal's")
}

// A stripe-mock that is not heard gets no more requests than our policy makes.
func TestStripeMockWithLostAnswers(t *testing.T) {
	t.Parallel()
	m := inFrontOfStripeMock(t, func() error { return io.ErrUnexpectedEOF })
	p := stripeGo.start(t, filepath.Join(t.TempDir(), "journal.db"), m.URL, ours)
	for range 2 {
		_, err := p.pay(named(t))
		requireOurs(t, err, onceward.ErrPending, stripeGo)
	}
	key := string(p.operation(t, payment).Key)
	assert.Equal(t, []string{key, key, key, key}, m.seen())
}

// stripe-go sees the typed errors of stripe-mock.
func TestStripeMockTypedErrors(t *testing.T) {
	t.Parallel()
	m := inFrontOfStripeMock(t, nil)
	p := stripeGo.start(t, filepath.Join(t.TempDir(), "journal.db"), m.URL, ours)
	sc := stripeClient(p.HTTPClient(), m.URL, true)
	for range 2 {
		_, err := sc.V1PaymentIntents.Create(named(t), &stripe.PaymentIntentCreateParams{Currency: stripe.String("eur")})
		var own *stripe.Error
		require.ErrorAs(t, err, &own)
		assert.Equal(t, http.StatusBadRequest, own.HTTPStatusCode)
		assert.Equal(t, stripe.ErrorTypeInvalidRequest, own.Type)
		assert.Contains(t, own.Msg, "amount")
	}
	assert.Len(t, m.seen(), 1, "the refusal is the operation's answer")
}

// Every call of stripe-go is made once under its name, at every endpoint. A call without an effect is left alone.
func TestStripeMockEveryCallIsMadeOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		call     func(ctx context.Context, sc *stripe.Client) (id string, last *stripe.APIResponse, err error)
		requests int  // of two calls under one name
		keyed    bool // the endpoint takes a key
	}{
		{"create a customer", func(ctx context.Context, sc *stripe.Client) (string, *stripe.APIResponse, error) {
			c, err := sc.V1Customers.Create(ctx, &stripe.CustomerCreateParams{Description: stripe.String("invoice 991")})
			return c.ID, c.LastResponse, err
		}, 1, true},
		{"update a customer", func(ctx context.Context, sc *stripe.Client) (string, *stripe.APIResponse, error) {
			c, err := sc.V1Customers.Update(ctx, "cus_1", &stripe.CustomerUpdateParams{Description: stripe.String("invoice 991")})
			return c.ID, c.LastResponse, err
		}, 1, true},
		{"confirm a payment intent, without a body", func(ctx context.Context, sc *stripe.Client) (string, *stripe.APIResponse, error) {
			pi, err := sc.V1PaymentIntents.Confirm(ctx, "pi_1", nil)
			return pi.ID, pi.LastResponse, err
		}, 1, true},
		{"refund a charge", func(ctx context.Context, sc *stripe.Client) (string, *stripe.APIResponse, error) {
			r, err := sc.V1Refunds.Create(ctx, &stripe.RefundCreateParams{Charge: stripe.String("ch_1"), Amount: stripe.Int64(100)})
			return r.ID, r.LastResponse, err
		}, 1, true},
		{"delete a customer", func(ctx context.Context, sc *stripe.Client) (string, *stripe.APIResponse, error) {
			c, err := sc.V1Customers.Delete(ctx, "cus_1", nil)
			return c.ID, c.LastResponse, err
		}, 1, false},
		{"look up a customer", func(ctx context.Context, sc *stripe.Client) (string, *stripe.APIResponse, error) {
			c, err := sc.V1Customers.Retrieve(ctx, "cus_1", nil)
			return c.ID, c.LastResponse, err
		}, 2, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := inFrontOfStripeMock(t, nil)
			p := stripeGo.start(t, filepath.Join(t.TempDir(), "journal.db"), m.URL, ours)
			sc := stripeClient(p.HTTPClient(), m.URL, true)
			var ids []string
			for range 2 {
				id, last, err := row.call(named(t), sc)
				require.NoError(t, err)
				ids = append(ids, id)
				if row.keyed {
					assert.Equal(t, string(p.operation(t, payment).Key), last.IdempotencyKey, "the SDK is told the key that was sent")
				}
			}
			assert.NotEmpty(t, ids[0])
			assert.Equal(t, ids[0], ids[1])
			require.Len(t, m.seen(), row.requests)
			if row.keyed {
				assert.NotEmpty(t, m.seen()[0])
			}
		})
	}
}
