package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

const (
	host = "https://messages.example.com"
	rest = time.Minute
)

// messages takes no key, so that nothing can be resent once it may have arrived. With such a provider it does the
// most harm to mistake a refusal for a failure.
var messages = providers.Provider{
	Name:      "messages",
	Hosts:     []string{"messages.example.com"},
	Endpoints: []providers.Endpoint{{Pattern: "POST /"}},
}

// wire is the network: it answers every request with its status, or fails.
type wire struct {
	status int
	err    error
	sent   []*http.Request
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.sent = append(w.sent, req)
	if req.Body != nil {
		req.Body.Close()
	}
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{StatusCode: w.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("words")), Request: req}, nil
}

func (w *wire) posts() (n int) {
	for _, req := range w.sent {
		if req.Method == http.MethodPost {
			n++
		}
	}
	return n
}

// transport is a RoundTripper of a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// newClient returns an *http.Client of Onceward's over below.
func newClient(t *testing.T, below http.RoundTripper) *http.Client {
	client, err := onceward.New(onceward.Config{
		Journal:    memory.New(),
		Providers:  []providers.Provider{messages},
		HTTPClient: &http.Client{Transport: below},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Shutdown(context.Background())) })
	return client.HTTPClient()
}

func request(ctx context.Context, t *testing.T, method, url string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("text=hello"))
	require.NoError(t, err)
	return req
}

// open fails requests without an effect until the host's circuit is open.
func open(t *testing.T, w *wire, through http.RoundTripper) {
	w.status = http.StatusServiceUnavailable
	for range 3 {
		resp, err := through.RoundTrip(request(t.Context(), t, http.MethodGet, host+"/health"))
		require.NoError(t, err)
		resp.Body.Close()
	}
	w.status = http.StatusOK
}

// A request that the breaker refuses locally is sent once afterwards.
func TestRefusedLocallyIsSentOnceAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		b := newBreaker(w, rest)
		hc := newClient(t, b)
		open(t, w, b)

		ctx := onceward.WithOperation(t.Context(), "reminder-17")
		_, err := hc.Do(request(ctx, t, http.MethodPost, host+"/send"))
		require.ErrorIs(t, err, onceward.ErrPending)
		require.ErrorIs(t, err, gobreaker.ErrOpenState, "the cause says that it was local")
		require.Zero(t, w.posts())

		synctest.Wait()
		<-time.After(rest)
		resp, err := hc.Do(request(ctx, t, http.MethodPost, host+"/send"))
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, 1, w.posts())
	})
}

// An unnamed operation that is refused locally is cancelled.
func TestRefusedLocallyUnnamedIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		b := newBreaker(w, rest)
		hc := newClient(t, b)
		open(t, w, b)

		_, err := hc.Do(request(t.Context(), t, http.MethodPost, host+"/send"))
		require.ErrorIs(t, err, onceward.ErrNotSent)
		require.ErrorIs(t, err, gobreaker.ErrOpenState)
		assert.Zero(t, w.posts())
	})
}

// Without the mark a local refusal is an unknown outcome. breaker.go avoids that mistake.
func TestRefusedLocallyWithoutTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hc := newClient(t, transport(func(*http.Request) (*http.Response, error) { return nil, gobreaker.ErrOpenState }))
		ctx := onceward.WithOperation(t.Context(), "reminder-17")
		_, err := hc.Do(request(ctx, t, http.MethodPost, host+"/send"))
		assert.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
	})
}

func TestAFailureOfTheNetworkIsNotMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// An inner breaker might return this after it has sent something.
		w := &wire{err: gobreaker.ErrOpenState}
		hc := newClient(t, newBreaker(w, rest))
		ctx := onceward.WithOperation(t.Context(), "reminder-17")
		_, err := hc.Do(request(ctx, t, http.MethodPost, host+"/send"))
		assert.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		assert.Equal(t, 1, w.posts())
	})
}

// The circuit opens on results that indicate a failure of the provider.
func TestCircuitOpens(t *testing.T) {
	for _, row := range []struct {
		name  string
		wire  *wire
		opens bool
	}{
		{"a 500", &wire{status: 500}, true},
		{"a 503", &wire{status: 503}, true},
		{"a lost connection", &wire{err: io.ErrUnexpectedEOF}, true},
		{"a timeout", &wire{err: context.DeadlineExceeded}, true},
		{"a caller that gave up", &wire{err: context.Canceled}, false},
		{"a 200", &wire{status: 200}, false},
		{"a 402", &wire{status: 402}, false},
		{"a 429", &wire{status: 429}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBreaker(row.wire, rest)
			for range 4 {
				resp, err := b.RoundTrip(request(t.Context(), t, http.MethodPost, host))
				if err == nil {
					assert.Equal(t, row.wire.status, resp.StatusCode, "an answer is handed on as it is")
					resp.Body.Close()
				} else {
					assert.Nil(t, resp)
				}
			}
			if row.opens {
				assert.Len(t, row.wire.sent, 3)
			} else {
				assert.Len(t, row.wire.sent, 4)
			}
		})
	}
}

func TestEachHostHasItsOwnCircuit(t *testing.T) {
	w := &wire{}
	b := newBreaker(w, rest)
	open(t, w, b)
	_, err := b.RoundTrip(request(t.Context(), t, http.MethodPost, host))
	require.ErrorIs(t, err, gobreaker.ErrOpenState)
	resp, err := b.RoundTrip(request(t.Context(), t, http.MethodPost, "https://ledger.example.com"))
	require.NoError(t, err)
	assert.NoError(t, resp.Body.Close())
}

func TestARefusedRequestsBodyIsClosed(t *testing.T) {
	w := &wire{}
	b := newBreaker(w, rest)
	open(t, w, b)
	body := &closing{}
	req := request(t.Context(), t, http.MethodPost, host)
	req.Body = body
	_, err := b.RoundTrip(req)
	require.Error(t, err)
	assert.True(t, body.closed)

	_, err = b.RoundTrip(&http.Request{Method: http.MethodPost, URL: req.URL})
	assert.ErrorIs(t, err, gobreaker.ErrOpenState, "nor does it need one")
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	if c.closed {
		return errors.New("closed twice")
	}
	c.closed = true
	return nil
}

func TestTheExampleChargesEachInvoiceOnce(t *testing.T) {
	box := newBox()
	defer box.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	require.NoError(t, run(ctx, box, &out))

	assert.Contains(t, out.String(), "requests at the provider: 3, effects: 0", "the rest was refused locally")
	assert.Equal(t, 3, strings.Count(out.String(), "/charge: completed"))
	assert.Len(t, box.Effects(), len(invoices))
	assert.Equal(t, 3+len(invoices), box.Requests())
}
