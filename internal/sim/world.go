package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/onceward/onceward/providers"
)

// contract is what a provider really does, and the table that says so.
type contract struct {
	name      string
	host      string
	memory    providers.Memory
	keyless   bool
	guard     bool
	handling  time.Duration
	retention time.Duration
}

var contracts = []contract{
	{name: "everything", memory: providers.Everything, guard: true, retention: 24 * time.Hour},
	{name: "clean", memory: providers.SuccessesCleanFailures, guard: true, retention: 24 * time.Hour},
	{name: "lost", memory: providers.SuccessesLostAnswers, guard: true, retention: 24 * time.Hour},
	{name: "successes", memory: providers.Successes, guard: true, retention: 24 * time.Hour},
	{name: "unguarded", memory: providers.Everything, handling: time.Minute, retention: 24 * time.Hour},
	{name: "keyless", keyless: true},
	{name: "short", memory: providers.Everything, guard: true, retention: 2 * time.Hour},
}

// table is the contract as a table; wrong ones promise more than is kept.
func (c contract) table(wrong bool) providers.Provider {
	retention := c.retention
	if retention == 0 {
		retention = time.Hour // said of no key
	}
	if wrong {
		retention *= 12
	}
	p := providers.Raw(retention, c.host)
	p.Name = c.name
	e := &p.Endpoints[0]
	e.Remembers, e.InFlightGuard, e.HandlingTime = c.memory, c.guard, c.handling
	if c.keyless {
		e.Key, e.Retention, e.Remembers, e.InFlightGuard = providers.Key{}, 0, 0, false
		e.Rules = []providers.Rule{
			{Status: 401, Verdict: providers.Rejected}, {Status: 429, Verdict: providers.NotExecuted},
			{Status: 402, Verdict: providers.Final},
		}
	}
	return p
}

// fate is what becomes of one request.
type fate int

const (
	goesWell   fate = iota
	refusedTCP      // no connection
	lostBefore      // the connection breaks before the provider has read it
	lostAfter       // … and after it was executed
	late            // it hangs, and is executed long after its sender gave up
	hangs           // it hangs, and is never executed
	slow            // it is answered, but takes its time
	cutAnswer       // the answer's body breaks off
	says429
	says503
	says409
	says401
	declines
	fails    // 500
	gateway  // a gateway's page of 502, after the effect
	pretends // a gateway's page of 200, without any
)

// world is every provider of a life, and the network before them.
type world struct {
	mu        sync.Mutex
	random    *rand.Rand
	contracts map[string]contract // by host
	memory    map[string]*remembered
	effects   map[string][]effect // by errand
	underway  map[string]int      // by errand: requests that may still be executed
	requests  int
	trouble   float64           // share of requests that meet a fault
	outage    func(string) bool // whether a host is down now
	refused   func(string) bool // whether it takes no credential now
	pages     bool              // a gateway's page may say 200
	tell      func(format string, args ...any)
	visited   map[string]int
}

// remembered is what a provider knows of a key.
type remembered struct {
	first  time.Time
	body   string
	answer *answer
}

type answer struct {
	status int
	body   string
	page   bool
}

// effect is one thing that a provider has done.
type effect struct {
	at    time.Time
	key   string
	by    string // the process that sent it
	trust bool   // its sender's table was right then
	id    string
}

// line is the network as one process sees it.
type line struct {
	*world
	process string
	trusts  func() bool
	dead    chan struct{}
}

var errNetwork = errors.New("connection reset by peer")

func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		body, _ = io.ReadAll(req.Body)
	}
	trace := httptrace.ContextClientTrace(req.Context())
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	form, _ := url.ParseQuery(string(body))
	errand, key := form.Get("errand"), req.Header.Get("Idempotency-Key")
	c, f := l.draw(req.URL.Host)
	l.tell("%s sends %s (key %.8s) to %s: %v", l.process, errand, key, c.name, f)
	if f == refusedTCP {
		return nil, errors.New("dial: connection refused")
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	execute := func(with fate) answer { return l.execute(c, errand, key, string(body), with, l.process, l.trusts()) }
	done := make(chan answer, 1)
	switch f {
	case lostBefore:
		return nil, errNetwork
	case lostAfter:
		l.begins(errand)
		execute(l.lostManner(c))
		l.ends(errand)
		return nil, errNetwork
	case hangs:
	case late:
		l.begins(errand)
		after := l.delay(c)
		go func() {
			time.Sleep(after)
			execute(goesWell)
			l.ends(errand)
		}()
	case slow:
		l.begins(errand)
		after := l.delay(c) / 4
		go func() {
			time.Sleep(after)
			a := execute(goesWell)
			l.ends(errand)
			done <- a
		}()
	case says429, says503, says409, says401:
		done <- answer{status: map[fate]int{says429: 429, says503: 503, says409: 409, says401: 401}[f], body: `{"error":"not now"}`}
	case gateway:
		l.begins(errand)
		execute(goesWell)
		l.ends(errand)
		done <- answer{status: 502, body: "<html>bad gateway</html>", page: true}
	case pretends:
		status := 504
		if l.pages {
			status = 200
		}
		done <- answer{status: status, body: "<html>gateway timeout</html>", page: true}
	default:
		l.begins(errand)
		done <- execute(f)
		l.ends(errand)
	}
	select {
	case a := <-done:
		return a.response(req, f == cutAnswer, f == says409 || f == says429 && key != ""), nil
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	case <-l.dead:
		return nil, errNetwork
	}
}

// draw decides on a request's fate.
func (w *world) draw(host string) (contract, fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	c := w.contracts[host]
	f := goesWell
	switch {
	case w.outage(host):
		f = []fate{refusedTCP, lostBefore, hangs, says503}[w.random.IntN(4)]
	case w.refused(host):
		f = says401
	case w.random.Float64() < w.trouble:
		f = fate(1 + w.random.IntN(int(pretends)))
	}
	w.visited["fate "+f.String()]++
	return c, f
}

// lostManner is how a request is executed whose answer is lost.
func (w *world) lostManner(c contract) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.memory == providers.Successes && w.random.IntN(3) == 0 {
		return fails
	}
	return goesWell
}

// delay is how long a request dawdles: within the stated handling time where there is one.
func (w *world) delay(c contract) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := 10 * time.Minute
	if c.handling > 0 {
		most = c.handling
	}
	if c.retention > 0 {
		most = min(most, c.retention/8)
	}
	return time.Duration(w.random.Int64N(int64(most)))
}

func (w *world) begins(errand string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underway[errand]++
}

func (w *world) ends(errand string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underway[errand]--
}

// execute is a provider's work on a request, by its contract.
func (w *world) execute(c contract, errand, key, body string, with fate, process string, trust bool) answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	id := c.host + " " + key
	rec := w.memory[id]
	if rec != nil && now.Sub(rec.first) >= c.retention {
		rec = nil
	}
	if rec != nil && !c.keyless {
		if rec.body != body {
			return answer{status: 422, body: `{"error":"another request"}`}
		}
		if rec.answer != nil {
			a := *rec.answer
			a.body = "replayed " + a.body
			return a
		}
	}
	a, kept := w.work(c, errand, key, with, process, trust)
	if !c.keyless && kept {
		w.memory[id] = &remembered{first: now, body: body, answer: &a}
	}
	return a
}

// work has the effect, or not, and tells whether the provider remembers it.
func (w *world) work(c contract, errand, key string, with fate, process string, trust bool) (a answer, kept bool) {
	takes := func() answer {
		e := effect{at: time.Now(), key: key, by: process, trust: trust, id: fmt.Sprintf("e%d", len(w.memory)*1000+w.requests)}
		w.effects[errand] = append(w.effects[errand], e)
		w.tell("%s takes effect at %s as %s (%d.)", errand, c.name, e.id, len(w.effects[errand]))
		return answer{status: 200, body: fmt.Sprintf(`{"id":%q,"errand":%q}`, e.id, errand)}
	}
	switch with {
	case declines:
		return answer{status: 402, body: `{"error":"declined"}`}, c.memory == providers.Everything
	case fails:
		switch c.memory {
		case providers.Everything:
			takes()
			return answer{status: 500, body: `{"error":"failed"}`}, true
		case providers.SuccessesCleanFailures:
			return answer{status: 500, body: `{"error":"failed"}`}, false
		}
		if c.memory != providers.SuccessesLostAnswers || w.underway[errand] <= 1 {
			// Else a resend that fails with an effect would meet one that dawdled: nobody
			// promises anything of that.
			takes()
		}
		return answer{status: 500, body: `{"error":"failed"}`}, false
	}
	return takes(), true
}

func (a answer) response(req *http.Request, cut, retryAfter bool) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	if a.page {
		h.Set("Content-Type", "text/html")
	}
	if retryAfter {
		h.Set("Retry-After", "1")
	}
	body := a.body
	if rest, replayed := bytes.CutPrefix([]byte(body), []byte("replayed ")); replayed {
		h.Set("Idempotent-Replayed", "true")
		body = string(rest)
	}
	var r io.Reader = bytes.NewReader([]byte(body))
	if cut {
		r = io.MultiReader(bytes.NewReader([]byte(body[:len(body)/2])), broken{})
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(body)), Body: io.NopCloser(r), Request: req,
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

var fateNames = [...]string{"goes well", "no connection", "lost before", "lost after", "late", "hangs", "slow", "cut", "429", "503", "409", "401",
	"declined", "500", "502 page after", "504 page"}

func (f fate) String() string { return fateNames[f] }
