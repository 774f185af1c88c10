package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// provider executes what comes under a new key, and answers a known one as it did before.
type provider struct {
	mu      sync.Mutex
	answers map[string]string // by key
	effects map[effect]int    // the ledger
}

// effect is what a call is for.
type effect struct{ flow, step string }

func newProvider() *provider {
	return &provider{answers: map[string]string{}, effects: map[effect]int{}}
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "no form", http.StatusBadRequest)
		return
	}
	key := r.Header.Get(keyHeader)
	if key == "" {
		http.Error(w, "no key", http.StatusBadRequest)
		return
	}
	answer := p.execute(key, effect{r.PostForm.Get("flow"), r.PostForm.Get("step")})
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

func (p *provider) execute(key string, e effect) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer, known := p.answers[key]
	if !known {
		p.effects[e]++
		answer = fmt.Sprintf(`{"id":"%s_%d","object":"%s","amount":2000,"livemode":false,"description":"%s"}`,
			e.step, len(p.effects), e.step, strings.Repeat("x", 340))
		p.answers[key] = answer
	}
	return answer
}

// check says what is wrong with the ledger, if it is not one effect for each step of so many flows.
func (p *provider) check(flows int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e, times := range p.effects {
		if times != 1 {
			return fmt.Errorf("step %s of flow %s took effect %d times", e.step, e.flow, times)
		}
	}
	if want := flows * len(steps); len(p.effects) != want {
		return fmt.Errorf("%d steps took effect, of %d", len(p.effects), want)
	}
	return nil
}
