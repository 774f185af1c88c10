// Backlog has Resume work off pending operations that a crash left, and compares its rate with that of callers who
// send as many at once.
//
//	go run ./backlog                      100,000 pending operations
//	go run ./backlog -beside 1000000      with completed operations in the journal as well
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "backlog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("backlog", flag.ContinueOnError)
	dir := flags.String("dir", ".", "a folder on the disk to measure")
	pending := flags.Int("pending", 100_000, "how many operations Resume finds")
	completed := flags.Int("beside", 0, "how many completed operations are in the journal as well")
	concurrency := flags.Int("concurrency", 64, "how many are sent at once, by Resume and by callers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(*dir, "backlog-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	b := &box{effects: map[string]int{}}
	server := httptest.NewServer(b)
	defer server.Close()
	m := machine{path: filepath.Join(folder, "journal.db"), url: server.URL, concurrency: *concurrency}

	if *completed > 0 {
		if _, err := m.foreground(ctx, "completed", *completed); err != nil {
			return err
		}
	}
	foreground, err := m.foreground(ctx, "foreground", *pending)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "foreground: %d operations by %d callers, %.0f a second\n", *pending, *concurrency, foreground)

	b.down.Store(true)
	if err := m.park(ctx, *pending); err != nil {
		return err
	}
	b.down.Store(false)
	rate, memory, err := m.resume(ctx, *pending)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "resume: %d operations, %.0f a second, %.2f of the foreground's rate (aim ≥ 0.8)\n", *pending, rate, rate/foreground)
	fmt.Fprintf(out, "resident memory: %d MiB before, %d MiB after a quarter, %d MiB at most\n", memory.before>>20, memory.quarter>>20, memory.most>>20)
	if n := b.doubled(); n > 0 {
		return fmt.Errorf("%d operations took effect twice", n)
	}
	return nil
}

// box is a provider that remembers its keys.
type box struct {
	down    atomic.Bool
	mu      sync.Mutex
	effects map[string]int
}

func (b *box) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	if b.down.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.mu.Lock()
	b.effects[r.Header.Get("Idempotency-Key")]++
	b.mu.Unlock()
	_, _ = io.WriteString(w, `{"id":"ch_1","object":"charge","amount":2000,"status":"succeeded"}`)
}

// doubled counts the keys that were executed more than once.
func (b *box) doubled() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, times := range b.effects {
		if times > 1 {
			n++
		}
	}
	return n
}

// machine is one journal, and the provider that its operations go to.
type machine struct {
	path, url   string
	concurrency int
}

// with runs work with a client of its own, as a process of its own would have.
func (m machine) with(config onceward.Config, work func(*onceward.Client) error) (err error) {
	j, err := sqlite.Open(m.path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	stripe := providers.Stripe()
	stripe.Hosts = []string{strings.TrimPrefix(m.url, "http://")}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, m.concurrency
	defer t.CloseIdleConnections()
	config.Journal, config.Providers, config.HTTPClient = j, []providers.Provider{stripe}, &http.Client{Transport: t}
	config.Concurrency = m.concurrency
	c, err := onceward.New(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Shutdown(context.Background())) }()
	return work(c)
}

// foreground sends named operations by callers and returns their rate, per second.
func (m machine) foreground(ctx context.Context, name string, operations int) (rate float64, err error) {
	err = m.with(onceward.Config{}, func(c *onceward.Client) error {
		began := time.Now()
		err := m.each(operations, func(i int) error {
			status, err := m.send(ctx, c, name+"-"+strconv.Itoa(i))
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("status %d", status)
			}
			return err
		})
		rate = float64(operations) / time.Since(began).Seconds()
		return err
	})
	return rate, err
}

// park leaves operations pending: the provider is down, and each has one attempt.
func (m machine) park(ctx context.Context, operations int) error {
	once := backoff.Policy{Initial: time.Millisecond, Max: time.Millisecond, MaxAttempts: 1}
	return m.with(onceward.Config{Backoff: once}, func(c *onceward.Client) error {
		return m.each(operations, func(i int) error {
			status, err := m.send(ctx, c, "pending-"+strconv.Itoa(i))
			switch {
			case errors.Is(err, onceward.ErrPending):
				return nil
			case err == nil:
				return fmt.Errorf("status %d of a provider that is down", status)
			}
			return err
		})
	})
}

func (m machine) each(n int, task func(i int) error) error {
	var next atomic.Int64
	failed := make([]error, m.concurrency)
	var wg sync.WaitGroup
	for w := range m.concurrency {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && failed[w] == nil; i = next.Add(1) {
				failed[w] = task(int(i))
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

func (m machine) send(ctx context.Context, c *onceward.Client, name string) (status int, err error) {
	req, err := http.NewRequestWithContext(onceward.WithOperation(ctx, name), http.MethodPost, m.url+"/v1/charges",
		strings.NewReader("amount=2000&currency=usd&description="+strings.Repeat("x", 400)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.HTTPClient().Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, cmp.Or(err, resp.Body.Close())
}

// memory is what the process had resident, in bytes.
type memory struct{ before, quarter, most int64 }

// resume works off what is pending and returns the rate, per second.
func (m machine) resume(ctx context.Context, operations int) (rate float64, used memory, err error) {
	config := onceward.Config{Trace: &onceward.Trace{Progress: func(r onceward.Report) {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%d of %d completed", r.Completed, operations)
		now := resident()
		used.most = max(used.most, now)
		if used.quarter == 0 && r.Completed >= operations/4 {
			used.quarter = now
		}
	}}}
	err = m.with(config, func(c *onceward.Client) error {
		used.before = resident()
		began := time.Now()
		report, err := c.Resume(ctx)
		rate = float64(operations) / time.Since(began).Seconds()
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		if err == nil && report.Completed != operations {
			err = fmt.Errorf("%d of %d operations were completed: %v", report.Completed, operations, report)
		}
		return err
	})
	return rate, used, err
}

// resident is what the process has in memory, in bytes; 0 where the system doesn't tell.
func resident() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
