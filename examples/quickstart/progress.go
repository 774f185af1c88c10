package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress counts what happens and shows it: on a terminal by a line that is
// written over, elsewhere by a line a second.
type progress struct {
	w        io.Writer
	terminal bool
	invoices int
	started  time.Time

	mu       sync.Mutex
	requests int
	kills    int
	paidSet  map[string]bool
	resumes  map[string]bool

	stop, stopped chan struct{}
}

func newProgress(w io.Writer, invoices int) *progress {
	p := &progress{
		w: w, terminal: isTerminal(w), invoices: invoices, started: time.Now(),
		paidSet: map[string]bool{}, resumes: map[string]bool{},
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%3.0f s  paid %d of %d, requests %d, kills %d",
		time.Since(p.started).Seconds(), len(p.paidSet), p.invoices, p.requests, p.kills)
	if len(p.resumes) > 0 {
		line += fmt.Sprintf(", operations resumed %d", len(p.resumes))
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

func (p *progress) request() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
}

func (p *progress) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills++
}

func (p *progress) paid(invoice string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paidSet[invoice] = true
}

func (p *progress) resumed(operation string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumes[operation] = true
}
