// Package benchmarks runs the same work through Onceward and its peers, in one
// run, so that the figures can be compared.
package benchmarks

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

// answering is a network that answers at once, so that only the client's own work is measured.
type answering struct{}

var answer = []byte(`{"id":"ch_1","object":"charge","amount":2000,"status":"succeeded"}`)

func (answering) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	return &http.Response{
		Status: "200 OK", StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}, "Request-Id": {"req_1"}},
		Body:          io.NopCloser(bytes.NewReader(answer)),
		ContentLength: int64(len(answer)),
		Request:       req,
	}, nil
}

// body is a one-KiB JSON body.
func body() []byte {
	head := []byte(`{"amount":2000,"currency":"usd","customer":"cus_1","metadata":{"invoice":"991"},"description":"`)
	return append(append(head, bytes.Repeat([]byte("x"), 1024-len(head)-2)...), `"}`...)
}

// charge is one named operation, from the request to the closed response.
func charge(hc *http.Client, name string, payload []byte) error {
	ctx := onceward.WithOperation(context.Background(), name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.stripe.com/v1/charges", bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer sk_test")
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// config is of a client with this journal and the network above.
func config(j machine.Store) onceward.Config {
	return onceward.Config{
		Journal:    j,
		Providers:  []providers.Provider{providers.Stripe()},
		HTTPClient: &http.Client{Transport: answering{}},
	}
}

func newClient(j machine.Store) (*onceward.Client, error) { return onceward.New(config(j)) }

// BenchmarkOperation makes named charges.
func BenchmarkOperation(b *testing.B) {
	onceJournal := func(open func(b *testing.B) machine.Store) func(*testing.B) *http.Client {
		return func(b *testing.B) *http.Client {
			j := open(b)
			c, err := newClient(j)
			require.NoError(b, err)
			b.Cleanup(func() {
				require.NoError(b, c.Shutdown(context.Background()))
				require.NoError(b, j.Close())
			})
			return c.HTTPClient()
		}
	}
	peers := []struct {
		name   string
		client func(*testing.B) *http.Client
	}{
		{"http.Client", func(*testing.B) *http.Client { return &http.Client{Transport: answering{}} }},
		{"retryablehttp", func(*testing.B) *http.Client {
			rc := retryablehttp.NewClient()
			rc.HTTPClient = &http.Client{Transport: answering{}}
			rc.Logger = nil
			return rc.StandardClient()
		}},
		{"onceward-memory", onceJournal(func(*testing.B) machine.Store { return memory.New() })},
		{"onceward-sqlite", onceJournal(func(b *testing.B) machine.Store {
			j, err := sqlite.Open(filepath.Join(b.TempDir(), "bench.db"), sqlite.Options{})
			require.NoError(b, err)
			return j
		})},
	}
	payload := body()
	for _, peer := range peers {
		b.Run(peer.name, func(b *testing.B) {
			hc := peer.client(b)
			run := strconv.FormatInt(time.Now().UnixNano(), 36)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := charge(hc, "invoice-"+run+"-"+strconv.Itoa(i), payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
