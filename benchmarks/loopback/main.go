// Loopback sends the same charges over HTTP on one machine through a plain http.Client, through go-retryablehttp and
// through Onceward with a SQLite journal, in turn. Two proxies follow: httputil.ReverseProxy alone, and package proxy.
// It compares their rates a second.
//
//	go run ./loopback
//	go run ./loopback -callers 1    # a second by a rate is one charge's time
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/benchmarks/internal/timing"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/proxy"
)

func main() { timing.Main("loopback", run) }

// client is one way to send a charge.
type client struct {
	name string
	// open returns the client's HTTP client and what releases it.
	open func(folder, host string) (*http.Client, func() error, error)
}

var clients = []client{
	{"http.Client", openPlain},
	{"go-retryablehttp", openRetryable},
	{"onceward, SQLite", openOnceward},
	{"httputil.ReverseProxy", openReverseProxy},
	{"onceward's proxy, SQLite", openProxy},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("loopback", flag.ContinueOnError)
	dir := flags.String("dir", ".", "a folder on the disk to measure")
	callers := flags.Int("callers", 64, "how many callers send at once")
	times := flags.Int("repetitions", 5, "how often each client runs")
	runs := flags.Duration("duration", 2*time.Second, "how long it runs each time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(charge))
	defer server.Close()
	rates := make([][]float64, len(clients))
	for turn := range *times {
		for i, c := range clients {
			fmt.Fprintf(os.Stderr, "\r\x1b[Krun %d of %d: %s", turn+1, *times, c.name)
			rate, err := measure(ctx, c, *dir, server.URL, *callers, *runs)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rates[i] = append(rates[i], rate)
		}
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "requests/s\t÷ http.Client\t  client\t")
	for i, c := range clients {
		fmt.Fprintf(w, "%.0f\t%.2f\t  %s\t\n", timing.MedianOf(rates[i]), timing.MedianOf(rates[i])/timing.MedianOf(rates[0]), c.name)
	}
	return w.Flush()
}

// measure counts the charges that callers get done in so long a time, per second.
func measure(ctx context.Context, c client, dir, url string, callers int, runs time.Duration) (rate float64, err error) {
	folder, err := os.MkdirTemp(dir, "loopback-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	hc, release, err := c.open(folder, strings.TrimPrefix(url, "http://"))
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, release()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	times, err := timing.Load(ctx, callers, runs, func(ctx context.Context, _ int) error { return send(ctx, hc, url) })
	return float64(len(times)) / time.Since(began).Seconds(), err
}

// body is a form with about half a KiB, as payment APIs take them.
var body = "amount=2000&currency=usd&customer=cus_1&description=" + strings.Repeat("x", 400)

func send(ctx context.Context, hc *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Idempotency-Key", uuid.NewString())
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

var answer = []byte(`{"data":[` + strings.Repeat(`{"id":"ch_1"},`, 31) + `{"id":"ch_1"}]}`)

// charge answers at once.
func charge(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// transport keeps a connection for each caller.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 1024
	return t
}

func openPlain(string, string) (*http.Client, func() error, error) {
	t := transport()
	return &http.Client{Transport: t}, func() error { t.CloseIdleConnections(); return nil }, nil
}

func openRetryable(string, string) (*http.Client, func() error, error) {
	t := transport()
	rc := retryablehttp.NewClient()
	rc.Logger = nil
	rc.HTTPClient.Transport = t
	return rc.StandardClient(), func() error { t.CloseIdleConnections(); return nil }, nil
}

func openOnceward(folder, host string) (*http.Client, func() error, error) {
	c, end, err := newClient(folder, host, onceward.Config{})
	if err != nil {
		return nil, nil, err
	}
	return c.HTTPClient(), end, nil
}

// newClient makes a client with a journal in the folder. The function ends both.
func newClient(folder, host string, cfg onceward.Config) (*onceward.Client, func() error, error) {
	j, err := sqlite.Open(filepath.Join(folder, "journal.db"), sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	stripe := providers.Stripe()
	stripe.Hosts = []string{host}
	t := transport()
	cfg.Journal, cfg.Providers, cfg.HTTPClient = j, []providers.Provider{stripe}, &http.Client{Transport: t}
	c, err := onceward.New(cfg)
	if err != nil {
		return nil, nil, cmp.Or(err, j.Close())
	}
	return c, func() error {
		t.CloseIdleConnections()
		return cmp.Or(c.Shutdown(context.Background()), j.Close())
	}, nil
}

// via sends each request to a proxy, under its own name.
type via struct {
	*http.Transport
	host string
}

const credential = "Bearer sk_test_of_the_benchmark"

func (v via) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Host = v.host
	out.Header.Set("Authorization", credential)
	out.Header.Set("Onceward-Operation", r.Header.Get("Idempotency-Key"))
	return v.Transport.RoundTrip(out)
}

// serve has callers go through a proxy.
func serve(h http.Handler, end func() error) (*http.Client, func() error, error) {
	front, t := httptest.NewServer(h), transport()
	return &http.Client{Transport: via{t, front.Listener.Addr().String()}}, func() error {
		t.CloseIdleConnections()
		front.Close()
		return end()
	}, nil
}

func openReverseProxy(_, host string) (*http.Client, func() error, error) {
	forward, t := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host}), transport()
	forward.Transport = t
	return serve(forward, func() error { t.CloseIdleConnections(); return nil })
}

func openProxy(folder, host string) (*http.Client, func() error, error) {
	u := proxy.Upstream{URL: &url.URL{Scheme: "http", Host: host}, Credentials: [][]byte{[]byte(credential)}}
	c, end, err := newClient(folder, host, onceward.Config{Secret: []byte("a secret of the benchmark"), Authorize: proxy.Authorize(u)})
	if err != nil {
		return nil, nil, err
	}
	h, err := proxy.New(c, u)
	if err != nil {
		return nil, nil, cmp.Or(err, end())
	}
	return serve(h, end)
}
