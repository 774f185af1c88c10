package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
)

// lifetime is how long a service lives at most that is to be killed.
const lifetime = 500 * time.Millisecond

// world is what is outside the service: riders, both providers, and a killer.
type world struct {
	options
	stdout, stderr  io.Writer
	dispatch, cards *providertest.Server

	mu      sync.Mutex
	address string // of the service of the moment
	drawn   map[string]string
	killed  int
}

// storm runs the world until every rider has an answer, and judges what is left.
func storm(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "onceward-ride-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	w := &world{options: o, stdout: stdout, stderr: stderr, drawn: map[string]string{}}
	w.dispatch, w.cards = newBox(providers.IETF(24*time.Hour).WithStoredFailures(), o.seed), newBox(providers.Stripe(), o.seed+1)
	defer w.dispatch.Close()
	defer w.cards.Close()
	fmt.Fprintf(stdout, "%d rides, %d kills (-seed %d)\n", o.rides, o.kills, o.seed)

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- w.keepServing(ctx) }()
	answers := make([]int, o.rides)
	var riders sync.WaitGroup
	for i := range answers {
		riders.Go(func() {
			pause(ctx, time.Duration(i*(o.kills+1))*lifetime/time.Duration(o.rides))
			answers[i] = w.ask(ctx, i)
		})
	}
	asked := make(chan struct{})
	go func() { riders.Wait(); close(asked) }()
	select {
	case <-asked:
		stop()
		err = <-served
	case err = <-served:
		stop()
		<-asked
	}
	if err != nil {
		return err
	}
	return w.judge(answers)
}

// newBox starts a provider that misbehaves.
func newBox(p providers.Provider, seed uint64) *providertest.Server {
	box := providertest.NewUnstartedServer(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pause(r.Context(), 20*time.Millisecond)
		w.Header().Set("Content-Type", "application/json")
		if isBroke(r.FormValue("description")) {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, `{"error":{"type":"card_error","code":"card_declined"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"of-today"}`)
	}))
	box.RetryAfter = -1
	box.Seed(seed, providertest.Mix{DropBefore: 0.05, DropAfter: 0.05, Status: 0.08, DelayBefore: 0.1, DelayAfter: 0.1})
	box.Start()
	return box
}

func riderName(i int) string { return fmt.Sprintf("rider-%02d", i) }

// isBroke tells of every seventh rider.
func isBroke(rider string) bool {
	var i int
	n, _ := fmt.Sscanf(rider, "rider-%d", &i)
	return n == 1 && i%7 == 3
}

// ask asks for a ride, with the same key until there is an answer, and returns its
// status.
func (w *world) ask(ctx context.Context, i int) int {
	body, _ := json.Marshal(order{Rider: riderName(i), Cents: 1000 + i}) // a string and a number
	for ctx.Err() == nil {
		if status := w.try(ctx, riderName(i), body); status == http.StatusOK || status == http.StatusPaymentRequired {
			return status
		}
		pause(ctx, 100*time.Millisecond)
	}
	return 0
}

func (w *world) try(ctx context.Context, rider string, body []byte) int {
	w.mu.Lock()
	address := w.address
	w.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/rides", bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Idempotency-Key", "ride-of-"+rider)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// keepServing runs one service after another, and kills the first few.
func (w *world) keepServing(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for life := 0; ctx.Err() == nil; life++ {
		service := exec.Command(self, "-dir", w.dir)
		service.Env = append(os.Environ(), dispatchVariable+"="+w.dispatch.URL, cardsVariable+"="+w.cards.URL)
		service.Stderr = w.stderr
		told, err := service.StdoutPipe()
		if err != nil {
			return err
		}
		if err := service.Start(); err != nil {
			return err
		}
		lived, over := context.WithCancel(ctx)
		if life < w.kills {
			time.AfterFunc(lifetime/2+rand.N(lifetime/2), over)
		}
		unwatch := context.AfterFunc(lived, func() { _ = service.Process.Kill() })
		w.listen(told)
		err = service.Wait()
		unwatch()
		killed := lived.Err() != nil
		over()
		switch {
		case ctx.Err() != nil:
			return nil
		case !killed:
			return fmt.Errorf("the service ended: %w", err)
		}
		w.mu.Lock()
		w.killed++
		fmt.Fprintf(w.stdout, "          ✕ killed (%d of %d)\n", w.killed, w.kills)
		w.mu.Unlock()
	}
	return nil
}

// listen draws what the service tells, until it ends. A kill may cut off its last line.
func (w *world) listen(told io.Reader) {
	lines := bufio.NewReader(told)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		w.mu.Lock()
		switch what {
		case "listening":
			w.address = rest
		case "flow":
			key, path, _ := strings.Cut(rest, " ")
			if w.drawn[key] != path {
				w.drawn[key] = path
				fmt.Fprintf(w.stdout, "%-9s %s\n", strings.TrimPrefix(key, "ride-of-"), path)
			}
		}
		w.mu.Unlock()
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
