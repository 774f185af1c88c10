// Growth measures operations beside more and more pending ones in the journal, and spread over more and more providers. It
// shows whether an operation's time, processor time and memory grow with them.
//
//	go run ./growth -svg growth.svg
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
	"github.com/onceward/onceward/providers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// load is the work of one measurement.
type load struct {
	Folder     string // of the journal
	Providers  int
	Operations int
	Callers    int
}

// figures are the results of one measurement, in nanoseconds and bytes. CPU and Allocated are an operation's.
type figures struct {
	P50, P99, CPU       int64
	Allocated, Resident int64
}

// series is a row of measurements: one of Sizes grows, and the rest stays.
type series struct {
	Name    string
	Sizes   []int
	Figures []figures
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	dir := flags.String("dir", ".", "a folder on the disk to measure")
	pending := flags.String("pending", "1000,10000,100000,1000000", "how many pending operations are in the journal, in turn")
	hosts := flags.String("providers", "1,10,100,1000", "how many providers the operations go to, in turn")
	operations := flags.Int("operations", 10_000, "how many operations each measurement makes")
	callers := flags.Int("callers", 8, "how many callers make them at once")
	times := flags.Int("repetitions", 3, "how often each is measured")
	svg := flags.String("svg", "", "a file to draw the results to")
	child := flags.String("measure", "", "measure this load, in JSON: for the program's own use")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *child != "" {
		var l load
		if err := json.Unmarshal([]byte(*child), &l); err != nil {
			return err
		}
		f, err := measure(ctx, l)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(f)
	}
	beside := series{Name: "pending operations"}
	spread := series{Name: "providers"}
	var err error
	if beside.Sizes, err = sizes(*pending); err != nil {
		return err
	}
	if spread.Sizes, err = sizes(*hosts); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(*dir, "growth-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	l := load{Folder: folder, Providers: 1, Operations: *operations, Callers: *callers}
	planted := 0
	for _, n := range beside.Sizes {
		if err := plant(ctx, folder, planted, n, 1); err != nil {
			return err
		}
		planted = n
		f, err := median(ctx, l, *times)
		if err != nil {
			return err
		}
		beside.Figures = append(beside.Figures, f)
	}
	for _, n := range spread.Sizes {
		l.Folder, l.Providers = filepath.Join(folder, strconv.Itoa(n)), n
		if err := os.Mkdir(l.Folder, 0o700); err != nil {
			return err
		}
		if err := plant(ctx, l.Folder, 0, beside.Sizes[0], n); err != nil {
			return err
		}
		f, err := median(ctx, l, *times)
		if err != nil {
			return err
		}
		spread.Figures = append(spread.Figures, f)
	}
	fmt.Fprint(os.Stderr, "\r\x1b[K")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tp50, µs\tp99, µs\tCPU, µs\tallocated, KB\tresident, MiB\t")
	for _, s := range []series{beside, spread} {
		for i, f := range s.Figures {
			fmt.Fprintf(w, "%d %s\t%d\t%d\t%d\t%.1f\t%d\t\n", s.Sizes[i], s.Name, f.P50/1000, f.P99/1000, f.CPU/1000, float64(f.Allocated)/1000, f.Resident>>20)
		}
	}
	if err := w.Flush(); err != nil || *svg == "" {
		return err
	}
	var b bytes.Buffer
	draw(&b, beside, spread)
	return os.WriteFile(*svg, b.Bytes(), 0o600)
}

func sizes(list string) (sizes []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number of operations or providers", text)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

func host(i int) string { return "api-" + strconv.Itoa(i) + ".example" }

func named(i int) string { return "provider-" + strconv.Itoa(i) }

// plant adds pending operations to the journal, up to that many. They are due in an hour.
func plant(ctx context.Context, folder string, there, operations, ofProviders int) (err error) {
	j, err := sqlite.Open(filepath.Join(folder, "journal.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	session, err := j.Join(ctx)
	if err != nil {
		return err
	}
	return errors.Join(each(256, operations-there, func(i int) error {
		n := there + i
		at := n % ofProviders
		res, err := j.Apply(ctx, machine.Event{
			Kind: machine.EventBegin, Ref: journal.Ref{ID: "pending-" + strconv.Itoa(n)}, At: time.Now(), Session: session.ID(),
			Intent: &machine.Intent{
				Provider: named(at), Endpoint: "POST /v1/", Key: "key-" + strconv.Itoa(n), Fingerprint: strings.Repeat("f", 178),
				Terms: journal.Terms{Remembers: providers.Everything, Retention: 24 * time.Hour, Guard: true},
				Request: journal.Request{
					Method: http.MethodPost, URL: "https://" + host(at) + "/v1/charges", Body: body,
					Header: http.Header{"Content-Type": {"application/json"}}, WithheldHeaders: []string{"Authorization"},
				},
			},
		})
		if err != nil {
			return err
		}
		if n%10_000 == 0 {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%d of %d pending operations", n, operations)
		}
		_, err = j.Apply(ctx, machine.Event{
			Kind: machine.EventPark, Ref: res.Operation.Ref, Handle: res.Operation.Handle, At: time.Now(), Session: session.ID(),
			Claim: res.Operation.Claim, Attempts: 1, Open: true, Cause: "status 503", Due: time.Now().Add(time.Hour),
		})
		return err
	}), session.End(ctx))
}

// each calls task with 0 to n-1, by so many goroutines.
func each(callers, n int, task func(i int) error) error {
	var next atomic.Int64
	failed := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed[c] == nil; i = next.Add(1) - 1 {
				failed[c] = task(int(i))
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// median measures a load in processes of their own, and returns the median of each figure.
func median(ctx context.Context, l load, times int) (f figures, err error) {
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return f, err
	}
	all := make([]figures, times)
	for i := range all {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%d providers, run %d of %d", l.Providers, i+1, times)
		cmd := exec.CommandContext(ctx, self, "-measure", string(text))
		cmd.Stderr = os.Stderr
		result, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(result, &all[i])
		}
		if err != nil {
			return f, fmt.Errorf("a measurement: %w", err)
		}
	}
	middle := func(of func(figures) int64) int64 {
		slices.SortFunc(all, func(a, b figures) int { return int(of(a) - of(b)) })
		return of(all[times/2])
	}
	return figures{
		P50: middle(func(f figures) int64 { return f.P50 }), P99: middle(func(f figures) int64 { return f.P99 }), CPU: middle(func(f figures) int64 { return f.CPU }),
		Allocated: middle(func(f figures) int64 { return f.Allocated }), Resident: middle(func(f figures) int64 { return f.Resident }),
	}, nil
}

// answering is a network that answers at once.
type answering struct{}

var (
	body   = []byte(`{"amount":2000,"currency":"usd","description":"` + strings.Repeat("x", 400) + `"}`)
	answer = []byte(`{"id":"ch_1","object":"charge","amount":2000,"status":"succeeded"}`)
)

func (answering) RoundTrip(req *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, req.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)),
	}, errors.Join(err, req.Body.Close())
}

// measure makes the operations of a load, beside Run.
func measure(ctx context.Context, l load) (f figures, err error) {
	j, err := sqlite.Open(filepath.Join(l.Folder, "journal.db"), sqlite.Options{})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	all := make([]providers.Provider, l.Providers)
	for i := range all {
		all[i] = providers.Stripe()
		all[i].Name, all[i].KeysUnder, all[i].Hosts = named(i), named(i), []string{host(i)}
	}
	c, err := onceward.New(onceward.Config{Journal: j, Providers: all, HTTPClient: &http.Client{Transport: answering{}}})
	if err != nil {
		return f, err
	}
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	defer func() {
		ended := c.Shutdown(context.Background())
		if failed := <-ran; !errors.Is(failed, onceward.ErrShutdown) {
			err = errors.Join(err, failed)
		}
		err = errors.Join(err, ended)
	}()
	began := strconv.FormatInt(time.Now().UnixNano(), 36)
	make1 := func(i int) error {
		ctx := onceward.WithOperation(ctx, began+"-"+strconv.Itoa(i))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host(i%l.Providers)+"/v1/charges", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer sk_test")
		resp, err := c.HTTPClient().Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close())
	}
	warm := max(l.Operations/10, l.Providers)
	if err := each(l.Callers, warm, make1); err != nil {
		return f, err
	}
	took := make([]int64, l.Operations)
	cpu, allocated, _ := used()
	if err := each(l.Callers, l.Operations, func(i int) error {
		began := time.Now()
		err := make1(warm + i)
		took[i] = int64(time.Since(began))
		return err
	}); err != nil {
		return f, err
	}
	cpuAfter, allocatedAfter, resident := used()
	slices.Sort(took)
	return figures{
		P50: took[len(took)/2], P99: took[len(took)*99/100], CPU: (cpuAfter - cpu) / int64(l.Operations),
		Allocated: (allocatedAfter - allocated) / int64(l.Operations), Resident: resident,
	}, nil
}

// used returns the process's CPU time, the bytes that it has allocated, and its resident memory; 0 for the last if the system
// does not tell.
func used() (cpu, allocated, resident int64) {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		cpu = usage.Utime.Nano() + usage.Stime.Nano()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	var size, pages int64
	if data, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(data), &size, &pages)
	}
	return cpu, int64(stats.TotalAlloc), pages * int64(os.Getpagesize())
}
