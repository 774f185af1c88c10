package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows how the storms get on: on a terminal by a line that is written over,
// elsewhere by a line a second.
type progress struct {
	w        io.Writer
	terminal bool
	started  time.Time
	storms   []*storm

	stop, stopped chan struct{}
}

func newProgress(w io.Writer, storms []*storm) *progress {
	p := &progress{w: w, terminal: isTerminal(w), started: time.Now(), storms: storms, stop: make(chan struct{}), stopped: make(chan struct{})}
	go p.show()
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) show() {
	defer close(p.stopped)
	every := time.Second
	if p.terminal {
		every = time.Second / 10
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.line()
		case <-p.stop:
			p.line()
			if p.terminal {
				fmt.Fprintln(p.w)
			}
			return
		}
	}
}

func (p *progress) line() {
	line := fmt.Sprintf("%3.0f s", time.Since(p.started).Seconds())
	for _, s := range p.storms {
		line += "   " + s.seen.line(s.payer)
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r%-78s", line)
		return
	}
	fmt.Fprintln(p.w, line)
}

func (p *progress) end() {
	close(p.stop)
	<-p.stopped
}

// seen is what a storm's parent has seen happen.
type seen struct {
	mu       sync.Mutex
	requests int
	kills    int
	deploys  int
	asked    map[string]bool // that a provider has seen
	told     map[string]map[string]bool
}

func newSeen() *seen { return &seen{asked: map[string]bool{}, told: map[string]map[string]bool{}} }

func (s *seen) line(payer string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%s: paid %d, kills %d", payer, len(s.told["paid"]), s.kills)
}

func (s *seen) request(invoice string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.asked[invoice] = true
}

// requested is how many requests there were so far.
func (s *seen) requested() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ended takes note of why a payer did.
func (s *seen) ended(killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if killed {
		s.kills++
	} else {
		s.deploys++
	}
}

// tells takes note of what a payer says about an invoice: paid, failed, unknown, resumed.
func (s *seen) tells(what, invoice string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[what] == nil {
		s.told[what] = map[string]bool{}
	}
	s.told[what][invoice] = true
}

func (s *seen) has(what, invoice string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[what][invoice]
}

func (s *seen) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.told[what])
}

// gone are the invoices whose customers have gone away.
func (s *seen) gone(invoices []invoice) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, inv := range invoices {
		if inv.Kind == once && s.asked[inv.ID] {
			ids = append(ids, inv.ID)
		}
	}
	return strings.Join(ids, ",")
}
