package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/providers"
)

// contract is a provider's true behavior, and the source of its table.
type contract struct {
	name      string
	host      string
	memory    providers.Memory
	keyless   bool
	guard     bool
	handling  time.Duration
	retention time.Duration
	shows
	box *box // nil: the contract is kept by the world itself
}

// leastRetention returns the provider's shortest retention of a key, or 0 for none.
func (c contract) leastRetention() time.Duration {
	least := c.retention
	if c.box != nil {
		for i := range c.box.stated.Endpoints {
			if r := c.box.stated.Endpoints[i].Retention; r > 0 && (least == 0 || r < least) {
				least = r
			}
		}
	}
	return least
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

// table returns the contract as a table. A wrong one promises a longer retention (retains) or a better memory
// (remembers).
func (c contract) table(retains, remembers bool) providers.Provider {
	if c.box != nil {
		return c.box.stated.Clone()
	}
	retention := c.retention
	if retention == 0 {
		retention = time.Hour // said of no key
	}
	if retains {
		retention *= 12
	}
	p := providers.Raw(retention, c.host).WithStoredFailures()
	p.Name = c.name
	e := &p.Endpoints[0]
	e.Remembers, e.InFlightGuard, e.HandlingTime = c.memory, c.guard, c.handling
	if remembers {
		e.Remembers, e.InFlightGuard = providers.Everything, true
	}
	if c.keyless {
		e.Key, e.Retention, e.Remembers, e.InFlightGuard, e.RefusalsRegisterNoKey = providers.Key{}, 0, 0, false, false
		e.Rules = []providers.Rule{
			{Status: 401, Verdict: providers.Rejected}, {Status: 429, Verdict: providers.NotExecuted},
			{Status: 402, Verdict: providers.Final},
		}
	}
	c.shows.tellsIn(&p)
	return p
}

// fate is the way that one request goes.
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
	fails      // 500
	gateway    // a gateway's page of 502, after the effect
	pretends   // a gateway's page of 200, without any
	blackHole  // no connection, and no error until a timeout
	goAway     // the provider restarts, and has not read it
	goAwayLate // … and has executed it
	movedHere  // 307 to another path of the same host
	movedAway  // 307 to another host
	movedAfter // 303 to the new object
	fateCount
)

// world is every provider of a life, and the network before them.
type world struct {
	plan
	mu         sync.Mutex
	contracts  map[string]contract // by host
	memory     map[string]*remembered
	effects    map[string][]effect    // by errand
	underway   map[string][]time.Time // by errand: when the requests began that may still be executed
	asks       map[string]wish        // by errand: the last Retry-After
	named      map[string]time.Time   // by errand: the latest time of a Retry-After
	untrusted  map[string]bool        // by errand: it was sent by wrong tables
	befalls    func(host string) (f fate, there bool)
	restored   func() bool // the journal is a copy
	frozen     func() bool // nothing may be sent now
	fault      func(format string, args ...any)
	asked      map[string]int                        // by errand: requests so far
	looked     map[string]int                        // by host: looks so far
	patience   map[string]wish                       // by process and host: the time before which no other look may come
	references map[string]string                     // the key that each was first sent with, by reference
	objects    map[string][]object                   // by host: the objects that it shows
	spent      map[string]*spending                  // by process and host
	spans      map[string]between                    // by errand: when it may be sent for the first time
	delivers   func(c contract, o object, id string) // sends events about it
	well       bool                                  // nothing goes wrong any more
	outage     func(string) bool                     // whether a host is down now
	withdrawn  func(string) bool                     // whether an errand is withdrawn
	refused    func(string) bool                     // whether it takes no credential now
	tell       func(kind, process, format string, args ...any)
	visited    map[string]int
}

// remembered is a provider's memory of a key.
type remembered struct {
	first  time.Time
	body   string
	answer *answer
}

type answer struct {
	status int
	body   string
	page   bool
	header [2]string // one more
	heard  func()    // called when the client gets it, if not nil
}

// wish is a provider's request not to be asked again before a time.
type wish struct {
	process, key, account string
	at, until             time.Time
	cancelled             bool // the operation was cancelled since
}

// effect is one effect at a provider.
type effect struct {
	at    time.Time
	key   string
	by    string // the process that sent it
	trust bool   // its sender's table was right then
	knew  bool   // its sender had a table
	mode  string // of the request's credential
	id    string
	body  string // that it was answered by
}

// line is the network as one process sees it.
type line struct {
	*world
	process string
	clock   *clock
	knows   map[string]bool
	trusts  func() bool
	dead    chan struct{}
	strict  bool
	still   *stillness
	resumes time.Duration // for how long the process does so
}

var errNetwork = errors.New("connection reset by peer")

func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		body, _ = io.ReadAll(req.Body)
	}
	if req.URL.Host == elsewhere {
		if l.strict {
			l.fault("Strict let through what nobody protects")
		}
		return answer{status: 200, body: "{}"}.response(req, false), nil
	}
	if b := l.contracts[req.URL.Host].box; b != nil {
		if req.Method == http.MethodGet {
			return l.passes(req, b, nil)
		}
		return l.boxes(req, b, body)
	}
	trace := httptrace.ContextClientTrace(req.Context())
	if trace == nil {
		trace = &httptrace.ClientTrace{}
	}
	l.still.pass("the connection to", req.URL.Host)
	if trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	if req.Method == http.MethodGet {
		return l.looksUp(req)
	}
	l.heedsBudget(req.URL.Host)
	l.still.pass("the handshake with", req.URL.Host)
	if l.still != nil && req.Context().Err() != nil {
		return nil, context.Cause(req.Context())
	}
	form, _ := url.ParseQuery(string(body))
	errand, key, account := form.Get("errand"), req.Header.Get("Idempotency-Key"), req.Header.Get(seller)
	defer l.hears(req.URL.Host, errand)
	c, f, random := l.draw(req.URL.Host, errand)
	l.tell("provider", l.process, "%s is sent (key %.8s) to %s: %v", errand, key, req.URL.Host, f)
	if !c.keyless || !strings.HasPrefix(errand, "fee-at-") { // two of them are two operations there
		l.heeds(errand, key, account)
	}
	if reference := form.Get("reference"); reference != "" && key != "" && !l.has(quotedKeys) {
		l.mu.Lock()
		if l.references[reference] == "" {
			l.references[reference] = key
		}
		first := l.references[reference]
		l.mu.Unlock()
		if first != key && !l.restored() {
			l.fault("%s: sent under two keys with one reference, %.8s and %.8s: nobody can tell of which of them an object is", errand, first, key)
		}
	}
	if !l.trusts() {
		l.mu.Lock()
		l.untrusted[errand] = true
		l.mu.Unlock()
	}
	if l.frozen() {
		l.fault("%s: sent while the journal is a copy that nobody has adopted", errand)
	}
	switch f {
	case refusedTCP:
		return nil, errors.New("dial: connection refused")
	case blackHole:
		return l.waits(req, errand, nil, f)
	}
	if err := l.connects(req, trace, errand); err != nil {
		l.tell("provider", l.process, "%s is not sent after all: %v", errand, err)
		return nil, err
	}
	l.heedsRegret(errand)
	r := request{contract: c, errand: errand, variant: form.Get("variant"), key: key, body: string(body), process: l.process, trust: l.trusts(), knew: l.knows[req.URL.Host],
		mode: modeOf(req.Header), reference: form.Get("reference"), account: account}
	done := make(chan answer, 1)
	switch f {
	case lostBefore:
		return nil, errNetwork
	case goAway:
		return nil, errors.New("http2: Transport received Server's graceful shutdown GOAWAY")
	case lostAfter, goAwayLate:
		ends := l.begins(errand)
		l.execute(r, lostManner(random, c))
		ends()
		if f == goAwayLate {
			return nil, errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`)
		}
		return nil, errNetwork
	case hangs:
	case late, slow:
		after := delay(random, c)
		if f == slow {
			after /= 4
		}
		ends := l.begins(errand)
		// Either the network dawdles or the provider does, which then has seen the key.
		if random.of(2) {
			if a, over := l.arrives(&r); over {
				ends()
				done <- a
				break
			}
		}
		go func() {
			time.Sleep(after)
			a := l.execute(r, goesWell)
			ends()
			if f == slow {
				done <- a
			}
		}()
	case says429, says503, says409, says401:
		a := answer{status: map[fate]int{says429: 429, says503: 503, says409: 409, says401: 401}[f], body: `{"error":"not now"}`}
		if f != says401 {
			a.header, a.heard = l.asksFor(errand, key, account, f == says409 && !c.keyless, random) // a table without keys has no 409
		}
		done <- a
	case gateway, movedAfter:
		ends := l.begins(errand)
		l.execute(r, goesWell)
		ends()
		if f == movedAfter {
			done <- answer{status: 303, header: [2]string{"Location", "https://" + req.URL.Host + "/made"}}
			break
		}
		done <- answer{status: 502, body: "<html>bad gateway</html>", page: true}
	case movedHere:
		l.mu.Lock()
		l.spends(l.process, req.URL.Host).free++ // if the client follows it, that is no attempt of its own
		l.mu.Unlock()
		done <- answer{status: 307, header: [2]string{"Location", "https://" + req.URL.Host + "/moved"}}
	case movedAway:
		done <- answer{status: 307, header: [2]string{"Location", "https://elsewhere.example/orders"}}
	case pretends:
		status := 504
		if l.has(pages) && !l.has(partialTables) {
			status = 200
		}
		done <- answer{status: status, body: "<html>gateway timeout</html>", page: true}
	default:
		ends := l.begins(errand)
		done <- l.execute(r, f)
		ends()
	}
	return l.waits(req, errand, done, f)
}

// attemptTimeout is Config.AttemptTimeout's default.
const attemptTimeout = 30 * time.Second

func (l *line) waits(req *http.Request, errand string, done chan answer, f fate) (*http.Response, error) {
	began := time.Now()
	select {
	case a := <-done:
		if a.heard != nil {
			a.heard()
		}
		if a.status < 500 {
			l.wins(req.URL.Host)
		}
		return a.response(req, f == cutAnswer), nil
	case <-req.Context().Done():
		c := l.contracts[req.URL.Host]
		if took := time.Since(began); f == slow && c.keyless && l.trusts() && !l.has(partialTables) && took == attemptTimeout && l.resumes != took && began.Sub(l.namedUntil(errand)).Abs() > time.Second { // by which its call may end when an attempt would
			l.fault("a request to %s was broken off after %v, and there may be no other", req.URL.Host, took)
		}
		return nil, context.Cause(req.Context())
	case <-l.dead:
		return nil, errNetwork
	}
}

// hears is the gate before an answer is read. A Retry-After in seconds counts from then on.
func (l *line) hears(host, errand string) {
	came := time.Now()
	l.still.pass("the answer of", host)
	l.mu.Lock()
	defer l.mu.Unlock()
	if until, there := l.named[errand]; there {
		l.named[errand] = until.Add(time.Since(came))
	}
}

// heeds reports a fault if a process asks again before the time that the provider named. A process that was killed
// meanwhile may not know the time.
func (l *line) heeds(errand, key, account string) {
	l.mu.Lock()
	w, there := l.asks[errand]
	l.mu.Unlock()
	if now := time.Now(); there && !l.clock.leapt(w.at) && !l.still.countedAsDead(w.at) && w.process == l.process && w.key == key && w.account == account && now.Before(w.until.Add(-3*time.Millisecond)) { // a journal rounds, by a clock that differs
		l.fault("%s: asked for again %v before the time that its provider named", errand, w.until.Sub(now))
	}
}

// found returns the answer that a provider's dashboard shows of an errand's effect, or nil. The dashboard shows test
// effects apart from live ones. If an operation was sent in no known mode, the operator looks at both.
func (w *world) found(errand, mode string) *onceward.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.effects[errand], func(e effect) bool { return mode == "" || mode == e.mode })
	if i < 0 {
		return nil
	}
	e := w.effects[errand][i]
	return &onceward.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(e.body)}
}

// namedUntil returns the time until which an errand's providers asked for patience.
func (w *world) namedUntil(errand string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.named[errand]
}

// misled reports whether a wrong table may explain a second effect of an errand. Either the table promises too good a
// memory, or it promises too long a retention and a provider's true retention has passed since the first effect.
func (w *world) misled(errand string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.untrusted[errand] || w.has(wrongMemory) || !w.has(wrongTables) || len(w.effects[errand]) == 0 {
		return w.untrusted[errand] && w.has(wrongMemory)
	}
	since := time.Since(w.effects[errand][0].at)
	for _, c := range w.contracts {
		if c.retention > 0 && since > c.retention {
			return true
		}
	}
	return false
}

// knewTable reports whether the process that made an errand's effect had a table. The effect is found by its answer.
func (w *world) knewTable(errand, body string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.effects[errand] {
		if e.body == body {
			return e.knew
		}
	}
	return false
}

// forgives forgets an errand's Retry-After.
func (w *world) forgives(errand string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.asks, errand)
}

// cancels notes that an operation is cancelled. The end frees the name: a later call by the name need not wait for the
// Retry-After, while an earlier caller still has to.
func (w *world) cancels(errand string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wish, there := w.asks[errand]; there {
		wish.cancelled = true
		w.asks[errand] = wish
	}
}

// asksAnew forgets a cancelled operation's Retry-After.
func (w *world) asksAnew(errand string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asks[errand].cancelled {
		delete(w.asks, errand)
	}
}

// asksFor draws a Retry-After, in one of its forms, or none. It counts once heard is called. A caller that has gone
// away, or whose process has stood still for too long, may not hear the answer.
func (l *line) asksFor(errand, key, account string, busy bool, random dice) (header [2]string, heard func()) {
	now := time.Now()
	wait := time.Duration(1+random.IntN(90)) * time.Second
	in := func(d time.Duration) string { return now.Add(d).UTC().Format(http.TimeFormat) }
	switch header[0] = "Retry-After"; random.IntN(9) {
	case 0:
		return [2]string{}, nil
	case 1:
		wait, header[1] = 0, "0"
	case 2:
		wait, header[1] = 0, "soon"
	case 3:
		wait, header[1] = 0, in(-time.Hour)
	case 4:
		wait, header[1] = 0, "-30"
	case 5:
		// Dates have whole seconds.
		header[1] = in(wait)
		wait -= time.Second
	case 6:
		wait, header[0], header[1] = 1500*time.Millisecond, "Retry-After-Ms", "1500"
	case 7:
		wait, header[1] = 10*time.Minute, "600"
	default:
		header[1] = fmt.Sprint(int(wait.Seconds()))
	}
	return header, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if until := now.Add(wait + time.Second); until.After(l.named[errand]) {
			l.named[errand] = until
		}
		if busy {
			wait = max(wait, 2*time.Millisecond) // such attempts are not counted: there are none at once
		}
		if key != "" {
			l.asks[errand] = wish{process: l.process, key: key, account: account, at: now, until: now.Add(wait)}
		}
	}
}

// seller is a header that names the caller's account to a provider, like a credential of the account.
const seller = "Seller"

// modeOf returns "test" for a test credential, else "live".
func modeOf(h http.Header) string {
	if strings.Contains(h.Get("Authorization"), "test_") {
		return "test"
	}
	return "live"
}

// draw returns a request's fate. The same request of the same errand has the same fate, whatever else happens
// meanwhile.
func (w *world) draw(host, errand string) (contract, fate, dice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[errand]++
	random := w.dice("request", errand, w.asked[errand])
	c, there := w.contracts[host]
	if !there {
		go w.fault("%s: sent to %s", errand, host)
	}
	f := goesWell
	moment, met := w.befalls(host)
	trouble := random.Float64() < w.trouble
	switch {
	case w.well:
	case met:
		f = moment
	case w.outage(host):
		f = []fate{refusedTCP, lostBefore, hangs, says503}[random.IntN(4)]
	case w.refused(host):
		f = says401
	case trouble && w.fates != 0:
		all := w.fates.members()
		f = fate(all[random.IntN(len(all))])
	}
	if w.has(fickle) && there && !w.well && w.asked[errand] <= 2 && w.dice("fickle", errand).of(2) {
		f = []fate{late, declines}[w.asked[errand]-1]
	}
	w.visited["fate "+f.String()]++
	return c, f, random
}

// lostManner returns how the provider executes a request whose answer is lost.
func lostManner(random dice, c contract) fate {
	if c.memory == providers.Successes && random.IntN(3) == 0 {
		return fails
	}
	return goesWell
}

// delay returns how long a request dawdles: within the stated handling time, if there is one.
func delay(random dice, c contract) time.Duration {
	most := 10 * time.Minute
	if c.handling > 0 {
		most = c.handling
	}
	if c.retention > 0 {
		most = min(most, c.retention/8)
	}
	return random.within(most)
}

// begins notes a request that may be executed, until ends is called.
func (w *world) begins(errand string) (ends func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := time.Now()
	w.underway[errand] = append(w.underway[errand], began)
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		all := w.underway[errand]
		i := slices.Index(all, began)
		w.underway[errand] = slices.Delete(all, i, i+1)
	})
}

// request is a request that reached the provider.
type request struct {
	contract
	errand, variant, key, body, mode string
	reference                        string
	account                          string
	process                          string
	trust, knew                      bool
	arrived                          time.Time // when the provider began with it; zero: when it is executed
	ahead                            bool      // it began when the key was not known
}

func (r *request) id() string { return strings.Join([]string{r.host, r.mode, r.account, r.key}, " ") }

// arrives has a provider begin with a request that takes long. It reports in over whether the request is answered
// already.
func (w *world) arrives(r *request) (a answer, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.keyless {
		return a, false
	}
	if a, over = w.answered(r); over {
		return a, true
	}
	r.arrived, r.ahead = time.Now(), true
	if r.guard {
		w.memory[r.id()] = &remembered{first: r.arrived, body: r.body}
	}
	return a, false
}

// answered returns the answer that a provider gives without working, if there is one. w.mu is held.
func (w *world) answered(r *request) (a answer, over bool) {
	rec := w.memory[r.id()]
	switch {
	case r.keyless || rec == nil || time.Since(rec.first) >= r.retention:
		return a, false
	case rec.body != r.body:
		return answer{status: 422, body: `{"error":"another request"}`}, true
	case rec.answer == nil:
		return answer{status: 409, body: `{"error":"in progress"}`}, true
	}
	a = *rec.answer
	a.body = "replayed " + a.body
	return a, true
}

// execute executes a request by its provider's contract, and returns the answer.
func (w *world) execute(r request, with fate) answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.ahead {
		if a, over := w.answered(&r); over {
			return a
		}
		r.arrived = time.Now()
	}
	a, kept := w.work(r, with)
	switch {
	case r.keyless:
	case kept:
		w.memory[r.id()] = &remembered{first: r.arrived, body: r.body, answer: &a}
	case r.ahead && r.guard:
		delete(w.memory, r.id())
	}
	return a
}

// work has the effect, or not, and reports whether the provider remembers the answer.
func (w *world) work(r request, with fate) (a answer, kept bool) {
	takes := func() answer {
		e := effect{at: time.Now(), key: r.key, by: r.process, trust: r.trust, knew: r.knew, mode: r.mode, id: fmt.Sprintf("%s.%d", r.errand, len(w.effects[r.errand])+1)}
		e.body = fmt.Sprintf(`{"id":%q,"errand":%q,"variant":%q,"mode":%q}`, e.id, r.errand, r.variant, r.mode)
		if r.shows != (shows{}) {
			e.body = fmt.Sprintf(`{"id":%q,"errand":%q,"variant":%q,"mode":%q,"reference":%q,"state":"made","created":%d}`, e.id, r.errand, r.variant, r.mode, r.reference, e.at.Unix())
			o := object{host: r.host, mode: r.mode, reference: r.reference, body: e.body, at: e.at}
			w.objects[r.host] = append(w.objects[r.host], o)
			if !w.well {
				w.delivers(r.contract, o, e.id)
			}
		}
		w.effects[r.errand] = append(w.effects[r.errand], e)
		w.tell("provider", r.process, "%s takes effect at %s (%d.)", r.errand, r.name, len(w.effects[r.errand]))
		return answer{status: 200, body: e.body}
	}
	switch with {
	case declines:
		return answer{status: 402, body: `{"error":"declined"}`}, r.memory == providers.Everything
	case fails:
		switch r.memory {
		case providers.Everything:
			takes()
			return answer{status: 500, body: `{"error":"failed"}`}, true
		case providers.SuccessesCleanFailures:
			return answer{status: 500, body: `{"error":"failed"}`}, false
		}
		if r.memory != providers.SuccessesLostAnswers || len(w.underway[r.errand]) <= 1 {
			// Else a resend that fails with an effect would meet a request that dawdled. No contract promises
			// anything of that.
			takes()
		}
		return answer{status: 500, body: `{"error":"failed"}`}, false
	}
	return takes(), true
}

func (a answer) response(req *http.Request, cut bool) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}, "Set-Cookie": {"session=" + canary}}
	if a.page {
		h.Set("Content-Type", "text/html")
	}
	if a.header[0] != "" {
		h.Set(a.header[0], a.header[1])
	}
	body := a.body
	if rest, replayed := strings.CutPrefix(body, "replayed "); replayed {
		h.Set("Idempotent-Replayed", "true")
		body = rest
	}
	var r io.Reader = strings.NewReader(body)
	if cut {
		r = io.MultiReader(strings.NewReader(body[:len(body)/2]), broken{})
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(body)), Body: io.NopCloser(r), Request: req,
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

var fateNames = [...]string{"goes well", "no connection", "lost before", "lost after", "late", "hangs", "slow", "cut", "429", "503", "409", "401",
	"declined", "500", "502 page after", "504 page", "black hole", "goaway", "goaway after", "307", "307 elsewhere", "303 after"}

func (f fate) String() string { return fateNames[f] }
