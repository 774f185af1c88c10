package sim

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
)

// smallBudget is a Config.RetryBudget that is soon used up.
var smallBudget = backoff.Budget{Capacity: 3, Refill: 0.01, PerSuccess: 0.2, ProbeEvery: time.Minute}

// spending counts the requests that a process has sent to a host, and the requests outside the budget.
type spending struct {
	since           time.Time
	sent, free, won int
}

// spends returns the spending of a process at a host. w.mu is held.
func (w *world) spends(process, host string) *spending {
	s, there := w.spent[process+" "+host]
	if !there {
		s = &spending{since: time.Now()}
		w.spent[process+" "+host] = s
	}
	return s
}

// heedsBudget counts a request, and reports a fault if the process sends more than its budget allows.
func (l *line) heedsBudget(host string) {
	if !l.has(budgets) {
		return
	}
	l.mu.Lock()
	s := l.spends(l.process, host)
	s.sent++
	lasts := time.Since(s.since)
	b := smallBudget
	most := float64(s.free) + float64(b.Capacity) + b.Refill*lasts.Seconds() + b.PerSuccess*float64(s.won) + lasts.Seconds()/b.ProbeEvery.Seconds() + 1
	over, now := float64(s.sent) > most, *s
	l.mu.Unlock()
	if over {
		l.fault("%s: %d requests in %v, of which %d are first ones, and %d were answered: more than the budget allows", host, now.sent, lasts, now.free, now.won)
	}
}

// wins counts an answer that puts something back into the budget.
func (l *line) wins(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spends(l.process, host).won++
}

// frees counts a claim, whose first attempt is free. While a provider is down, Run's lanes limit the number of such
// attempts.
func (b *book) frees(res machine.Result) {
	if res.Decision != machine.Execute || !b.life.has(budgets) {
		return
	}
	w := b.life.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for host, c := range w.contracts {
		if c.name == res.Operation.Provider || res.Operation.Provider == "" {
			w.spends(b.process.name, host).free++
		}
	}
}

const elsewhere = "unlisted.example"

// strays has a caller send unprotected requests: to a host without a table and, except for upgrades, without a name.
func (l *life) strays() {
	random := l.dice("strays")
	for l.has(stricts) && time.Since(l.began) < l.length {
		time.Sleep(random.within(l.length / 2))
		p := l.anyProcess(random)
		if p == nil {
			continue
		}
		ctx, upgrade := context.Background(), random.of(2)
		if upgrade {
			ctx = onceward.WithOperation(ctx, "stray")
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+elsewhere+"/orders", strings.NewReader("stray"))
		if err != nil {
			panic(err)
		}
		if upgrade {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "websocket")
		}
		resp, err := p.client.HTTPClient().Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		l.tell("caller", p.name, "something is sent that nobody protects (strict: %v): %v", p.strict, err)
		if p.strict && err == nil {
			l.fault("Strict let something through")
		}
		l.visit("a stray request")
	}
}
