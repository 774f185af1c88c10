package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/providers"
)

// payer is a client's process.
type payer struct {
	*life
	name   string
	of     int // its ledger
	book   *severed.Journal
	client *onceward.Client
	stop   context.CancelFunc
	ran    sync.WaitGroup
	dead   chan struct{}
}

func (l *life) pays(name string, of int) *payer {
	random := l.dice("payer", name)
	p := &payer{life: l, name: name, of: of, book: &severed.Journal{Store: l.ledgers[of]}, dead: make(chan struct{})}
	var err error
	p.client, err = onceward.New(onceward.Config{
		Journal: p.book, Providers: []providers.Provider{providers.Onceward(month, shop)}, HTTPClient: &http.Client{Transport: line{p}}, Secret: secret,
		Backoff: backoff.Policy{MaxAttempts: 1 + random.IntN(4)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	l.tell("%s starts", name)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.ran.Go(func() { _ = p.client.Run(ctx) })
	return p
}

func (p *payer) ends(killed bool) {
	if killed {
		_ = p.book.Cut()
		close(p.dead)
	}
	p.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.client.Shutdown(ctx)
	p.ran.Wait()
	p.tell("%s has ended, killed: %v", p.name, killed)
}

// asks makes a caller ask for a wish, and reports whether the caller has the answer.
func (p *payer) asks(ctx context.Context, of wish) (final bool) {
	body, _ := json.Marshal(of)
	r, err := http.NewRequestWithContext(onceward.WithOperation(ctx, of.Name), http.MethodPost, "https://"+shop+of.path(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := p.client.HTTPClient().Do(r)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		p.tell("%s asks for %s: %v", p.name, of, err)
		p.visit("told " + kindOf(err))
		return errors.Is(err, onceward.ErrKeyReused) || errors.Is(err, onceward.ErrOutcomeUnknown)
	}
	p.tell("%s asks for %s: %d %s", p.name, of, resp.StatusCode, bytes.TrimSpace(text))
	p.visit(fmt.Sprint("told ", resp.StatusCode))
	if resp.StatusCode == http.StatusUnprocessableEntity {
		return true // its name stands for another request
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusPaymentRequired {
		return false
	}
	var answer given
	if err := json.Unmarshal(text, &answer); err != nil || answer.wish != of {
		p.fault("%s: its caller got the answer of another: %s", of, text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard[of.Name] == nil {
		p.heard[of.Name] = map[string]bool{}
	}
	p.heard[of.Name][string(text)] = true
	return true
}

func kindOf(err error) string {
	var failed *onceward.Error
	if errors.As(err, &failed) {
		return failed.Kind.Error()
	}
	return "an error of its own"
}

// line is the network between a client and the service.
type line struct{ *payer }

func (n line) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var of wish
	_ = json.Unmarshal(body, &of)
	random := n.dice("request", of.Name, n.next("request of "+of.Name))
	bad := !n.isWell() && random.Float64() < n.trouble
	fate := random.IntN(5)
	if bad && fate == 0 {
		return nil, errNetwork
	}
	done := make(chan *http.Response, 1)
	broken := make(chan struct{})
	go func() {
		if bad && fate == 1 {
			time.Sleep(within(random, 10*time.Minute)) // it arrives late, if its client still waits or not
		}
		p := n.anyService(random)
		if p == nil {
			close(broken)
			return
		}
		if got := p.serves(r, body); got != nil {
			done <- got
			return
		}
		close(broken)
	}()
	select {
	case got := <-done:
		switch {
		case bad && fate == 2:
			return nil, errNetwork
		case bad && fate == 3:
			got.Body = io.NopCloser(io.MultiReader(io.LimitReader(got.Body, 7), cut{}))
		}
		return got, nil
	case <-broken:
		return nil, errNetwork
	case <-n.dead:
		return nil, errNetwork
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// serves has a process serve a request, and returns nil if it dies first.
func (p *process) serves(r *http.Request, body []byte) *http.Response {
	ctx, hangUp := context.WithCancel(context.Background())
	defer context.AfterFunc(r.Context(), hangUp)()
	in := r.Clone(ctx)
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer := httptest.NewRecorder()
	served := make(chan bool, 1)
	go func() {
		returned := false
		defer func() {
			_ = recover() // as net/http does
			hangUp()
			served <- returned
		}()
		p.handler.ServeHTTP(steppingWriter{answer, p}, in)
		returned = true
	}()
	select {
	case <-p.dead:
		return nil
	case returned := <-served:
		select {
		case <-p.dead:
			return nil
		default:
		}
		if !returned {
			return nil // the connection breaks
		}
	}
	got := answer.Result()
	got.Request = r
	return got
}

// anyService returns a process that serves now, or nil.
func (l *life) anyService(random *rand.Rand) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return anyOf(l.services, random)
}

// anyOf returns a process that runs now, or nil. The order of their starts does not change the draw.
func anyOf[P process | payer](all []*P, random *rand.Rand) *P {
	running := slices.DeleteFunc(slices.Clone(all), func(p *P) bool { return p == nil })
	if len(running) == 0 {
		return nil
	}
	return running[random.IntN(len(running))]
}
