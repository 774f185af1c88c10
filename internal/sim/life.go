// Package sim lives the life of a small business, again and again: its careless users,
// its deploys, kills, outages and wrong tables, over the real client and a real journal, in
// virtual time. The oracle is the providers' ledger and what each caller was told,
// never the journal alone.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/severed"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// life is one seed's.
type life struct {
	seed    uint64
	random  *rand.Rand // of the plan; not of what happens at once
	world   *world
	journal journal.Journal
	began   time.Time

	mu      sync.Mutex
	history []string
	faults  []string
	procs   []*process
	errands []*errand
	wrong   bool // the tables in use promise more than is kept, for now
	quoted  bool // the key is sent in a form that is not the providers', for now
	over    bool
	signs   bool // credentials are withheld, and added by Authorize
	partial bool // some processes don't know some of the providers
	panics  bool // some processes have hooks that panic
	asks    sync.WaitGroup
	visited map[string]int
}

// errand is something that the business wants done once.
type errand struct {
	name     string // that its effect is told by
	host     string
	told     map[string]bool // IDs of effects that callers were told
	asked    int
	naming   int // 0: by name; 1: by its own key; 2: by neither
	alone    bool
	promised bool // its latest caller was told that it will be sent
	other    int  // how often its only asker has taken another name
}

const day = 24 * time.Hour

func newLife(seed uint64, j journal.Journal) *life {
	random := rand.New(rand.NewPCG(seed, 1))
	l := &life{seed: seed, random: random, journal: j, began: time.Now(), visited: map[string]int{}}
	l.world = &world{
		random: rand.New(rand.NewPCG(seed, 2)), contracts: map[string]contract{}, memory: map[string]*remembered{},
		effects: map[string][]effect{}, underway: map[string]int{}, trouble: 0.1 + 0.4*random.Float64(), tell: l.tell, visited: l.visited,
	}
	for _, i := range random.Perm(len(contracts))[:1+random.IntN(3)] {
		c := contracts[i]
		c.host = c.name + ".example"
		l.world.contracts[c.host] = c
	}
	down := map[string][2]time.Duration{}
	for host := range l.world.contracts {
		if random.IntN(2) == 0 {
			from := time.Duration(random.Int64N(int64(2 * day)))
			down[host] = [2]time.Duration{from, from + time.Duration(random.Int64N(int64(36*time.Hour)))/time.Duration(1+random.IntN(200))}
		}
	}
	l.world.outage = func(host string) bool {
		at := time.Since(l.began)
		d := down[host]
		return !l.isOver() && at >= d[0] && at < d[1]
	}
	refused := map[string][2]time.Duration{}
	if random.IntN(3) == 0 {
		for host := range l.world.contracts {
			from := time.Duration(random.Int64N(int64(day)))
			refused[host] = [2]time.Duration{from, from + time.Duration(random.Int64N(int64(12*time.Hour)))}
		}
	}
	l.world.refused = func(host string) bool {
		at := time.Since(l.began)
		d := refused[host]
		return !l.isOver() && at >= d[0] && at < d[1]
	}
	l.signs, l.partial, l.panics = random.IntN(3) == 0, random.IntN(3) == 0, random.IntN(4) == 0
	l.world.pages = !l.partial && random.IntN(3) == 0
	l.wrong = random.IntN(3) == 0
	l.quoted = random.IntN(8) == 0
	return l
}

func (l *life) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

func (l *life) tell(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, fmt.Sprintf("%12v  ", time.Since(l.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (l *life) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.tell("FAULT: %s", text)
	l.mu.Lock()
	l.faults = append(l.faults, text)
	l.mu.Unlock()
}

func (l *life) visit(what string) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	l.visited[what]++
}

// tables are what a process is configured with. right: nobody doubts them any more.
func (l *life) tables(right bool) []providers.Provider {
	l.mu.Lock()
	wrong, quoted := l.wrong && !right, l.quoted && !right
	l.mu.Unlock()
	var all []providers.Provider
	for _, c := range l.world.contracts {
		p := c.table(wrong)
		if l.world.pages {
			p.Answers = []string{"application/json"}
		}
		if quoted && !c.keyless {
			p.Endpoints[0].Key.Place = providers.KeyQuotedHeader
		}
		all = append(all, p)
	}
	return all
}

// process is one running client.
type process struct {
	name    string
	client  *onceward.Client
	journal *severed.Journal
	line    *line
	stop    context.CancelFunc // of Run
	ran     chan struct{}
	crashed bool
	knows   map[string]bool // hosts
}

// start starts a process as somebody would: with Resume, and Run in the background.
func (l *life) start(name string, right bool) *process {
	l.mu.Lock()
	trusts := right || !l.wrong
	l.mu.Unlock()
	p := &process{name: name, journal: &severed.Journal{Journal: l.journal}, ran: make(chan struct{})}
	p.line = &line{world: l.world, process: name, trusts: func() bool { return trusts }, dead: make(chan struct{})}
	cfg := onceward.Config{
		Journal:    p.journal,
		Providers:  l.tables(right),
		HTTPClient: &http.Client{Transport: p.line},
		Backoff:    backoff.Policy{MaxAttempts: 1 + int(l.seed%4)},
		NamedOnly:  l.seed%7 == 0,
		OnSettled:  l.settled,
	}
	if l.seed%6 == 0 {
		cfg.OnSettled = nil
	}
	if l.seed%5 == 0 {
		cfg.Secret = []byte("a secret of a business that is small")
	}
	drawn := &chance{random: rand.New(rand.NewPCG(l.seed, uint64(len(name)*1000+int(name[len(name)-1]))))}
	if l.partial && !right && drawn.of(3) {
		n := drawn.below(len(cfg.Providers))
		cfg.Providers = append(cfg.Providers[:n:n], cfg.Providers[n+1:]...)
		if len(cfg.Providers) == 0 {
			cfg.Providers = []providers.Provider{providers.Stripe()}
		}
	}
	p.knows = map[string]bool{}
	for _, known := range cfg.Providers {
		p.knows[known.Hosts[0]] = true
	}
	if l.panics && !right && drawn.of(2) {
		hook := func() {
			if drawn.of(20) {
				panic("a hook's")
			}
		}
		cfg.Trace = &onceward.Trace{
			Attempted: func(onceward.Operation, onceward.Attempt) { hook() },
			Left:      func(onceward.Operation) { hook() },
			Begun:     func(onceward.Operation) { hook() },
		}
	}
	if l.signs {
		fails := !right && drawn.of(3)
		until := time.Now().Add(time.Duration(drawn.below(int(4 * time.Hour))))
		cfg.Authorize = func(req *http.Request) error {
			if fails && time.Now().Before(until) {
				return errors.New("the vault is sealed")
			}
			req.Header.Set("Authorization", "Bearer of the business")
			return nil
		}
	}
	client, err := onceward.New(cfg)
	if err != nil {
		panic(err)
	}
	p.client = client
	l.tell("%s starts, tables right: %v, quoted: %v", name, trusts, l.quoted && !right)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	timeout := time.Duration(1+l.seed%60) * time.Second
	go func() {
		defer close(p.ran)
		resuming, cancel := context.WithTimeout(ctx, timeout)
		_, _ = client.Resume(resuming)
		cancel()
		_ = client.Run(ctx)
	}()
	return p
}

// chance is drawn from at once by many.
type chance struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (c *chance) of(n int) bool { return c.below(n) == 0 }

func (c *chance) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (l *life) settled(_ context.Context, op onceward.Operation) error {
	l.tell("OnSettled: %s is %v", op.ID, op.State)
	return nil
}

// end ends a process in one of the ways in which processes end.
func (l *life) end(p *process, how int) {
	switch how {
	case 0:
		l.tell("%s is killed", p.name)
		_ = p.journal.Cut()
		close(p.line.dead)
		p.stop()
		p.crashed = true
		expired, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.client.Shutdown(expired)
	case 1:
		l.tell("%s is told to stop", p.name)
		p.stop()
		<-p.ran
		ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = p.client.Shutdown(ending)
		cancel()
	default:
		l.tell("%s shuts down", p.name)
		ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = p.client.Shutdown(ending)
		cancel()
		p.stop()
	}
	<-p.ran
}

// live has processes come and go until the life is over.
func (l *life) live(n, days int) {
	var group sync.WaitGroup
	until := time.Duration(days) * day
	for i := range n {
		random := rand.New(rand.NewPCG(l.seed, uint64(100+i)))
		group.Go(func() {
			for run := 0; time.Since(l.began) < until; run++ {
				p := l.start(fmt.Sprintf("p%d.%d", i, run), false)
				l.mu.Lock()
				l.procs = append(l.procs, p)
				l.mu.Unlock()
				life := time.Duration(random.Int64N(int64(8 * time.Hour)))
				if random.IntN(3) == 0 {
					life /= 1000
				}
				time.Sleep(min(life, until-time.Since(l.began)))
				l.mu.Lock()
				for k, other := range l.procs {
					if other == p {
						l.procs = append(l.procs[:k], l.procs[k+1:]...)
						break
					}
				}
				if random.IntN(6) == 0 {
					l.wrong, l.quoted = false, false // somebody corrects the table
				}
				l.mu.Unlock()
				l.end(p, random.IntN(4))
				time.Sleep(time.Duration(random.Int64N(int64(10 * time.Minute))))
			}
		})
	}
	group.Wait()
}

// operate has somebody look after what is unknown, once in a while, with the ledger's
// evidence: what they look at may have moved by the time they say what became of it.
func (l *life) operate(days int) {
	random := rand.New(rand.NewPCG(l.seed, 77))
	for time.Since(l.began) < time.Duration(days)*day {
		time.Sleep(time.Duration(random.Int64N(int64(6 * time.Hour))))
		p := l.anyProcess(random)
		if p == nil {
			continue
		}
		var seen []onceward.Operation
		for op, err := range p.client.Operations(context.Background(), onceward.Filter{}) {
			if err == nil && (op.State == onceward.Unknown || op.State == onceward.Pending) && strings.HasPrefix(op.ID, "errand-") {
				seen = append(seen, op)
			}
		}
		if len(seen) == 0 {
			continue
		}
		op := seen[random.IntN(len(seen))]
		if op.State == onceward.Pending {
			held, err := p.client.Resolve(context.Background(), op.Seen, onceward.Hold, onceward.ResolveOptions{By: "somebody"})
			l.tell("%s is put on hold: %v", op.ID, err)
			if err != nil {
				continue
			}
			op = held
		}
		made, more := l.world.count(strings.TrimRight(op.ID, "~"))
		as := onceward.Executed
		if made == 0 {
			as = onceward.NotExecuted
			if random.IntN(2) == 0 {
				as = onceward.SendAgain
			}
		}
		if made == 0 && more > 0 {
			continue // nobody can know
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(time.Hour)))) // lunch: the evidence grows stale
		}
		_, err := p.client.Resolve(context.Background(), op.Seen, as, onceward.ResolveOptions{By: "somebody", Why: "the ledger"})
		l.tell("%s is resolved as %v: %v", op.ID, as, err)
		l.visit("resolved as " + as.String())
	}
}

// anyProcess is one that serves now, or nil.
func (l *life) anyProcess(random *rand.Rand) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.procs) == 0 {
		return nil
	}
	return l.procs[random.IntN(len(l.procs))]
}

// want has somebody run an errand, in their own careless way.
func (l *life) want(i, days int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(10_000+i)))
	hosts := make([]string, 0, len(l.world.contracts))
	for _, c := range contracts {
		if _, there := l.world.contracts[c.name+".example"]; there {
			hosts = append(hosts, c.name+".example")
		}
	}
	e := &errand{name: fmt.Sprintf("errand-%d", i), host: hosts[random.IntN(len(hosts))], told: map[string]bool{}}
	switch n := random.IntN(10); {
	case n < 7:
	case n < 9:
		e.naming = 1
	default:
		e.naming = 2
	}
	if e.naming == 1 && l.world.contracts[e.host].keyless {
		e.naming = 2 // a key that is not taken is no name
	}
	l.mu.Lock()
	l.errands = append(l.errands, e)
	l.mu.Unlock()
	time.Sleep(time.Duration(random.Int64N(int64(time.Duration(days) * day * 2 / 3))))
	askers := 1
	if e.naming < 2 && random.IntN(4) == 0 {
		askers = 2
	}
	e.alone = askers == 1
	for a := range askers {
		random := rand.New(rand.NewPCG(l.seed, uint64(1_000_000+10*i+a)))
		l.asks.Go(func() { l.pursue(e, random) })
	}
}

// pursue asks until it knows, or has had enough.
func (l *life) pursue(e *errand, random *rand.Rand) {
	patience := 1 + random.IntN(8)
	if e.naming == 2 {
		patience = 1
	}
	for range patience {
		p := l.anyProcess(random)
		if p == nil || e.naming != 0 && !p.knows[e.host] { // what has no name would pass there
			time.Sleep(time.Minute)
			continue
		}
		if l.ask(p, e, random) {
			return
		}
		wait := time.Duration(random.Int64N(int64(time.Hour)))
		if random.IntN(3) == 0 {
			wait /= 600
		}
		time.Sleep(wait)
	}
}

// ask asks once, and tells whether its caller is content with what it was told.
func (l *life) ask(p *process, e *errand, random *rand.Rand) (content bool) {
	ctx := context.Background()
	if random.IntN(2) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(3*time.Minute))))
		defer cancel()
	}
	if random.IntN(6) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(time.Duration(random.Int64N(int64(10*time.Second))), cancel)
		defer timer.Stop()
		defer cancel()
	}
	if e.naming == 0 {
		ctx = onceward.WithOperation(ctx, e.name+strings.Repeat("~", e.other))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+e.host+"/orders", strings.NewReader("errand="+e.name))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if e.naming == 1 {
		req.Header.Set("Idempotency-Key", "key-of-"+e.name)
	}
	l.mu.Lock()
	e.asked++
	l.mu.Unlock()
	l.tell("%s is asked for at %s", e.name, p.name)
	if l.signs {
		req.Header.Set("Authorization", "Bearer of the business")
	}
	defer func() {
		if v := recover(); v != nil {
			l.tell("%s: its caller met a panic: %v", e.name, v)
			l.visit("met a panic")
			l.mu.Lock()
			e.promised = false
			l.mu.Unlock()
		}
	}()
	resp, err := p.client.HTTPClient().Do(req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	select {
	case <-p.line.dead:
		return false // whoever asked died with the process
	default:
	}
	return l.hear(e, resp, body, err)
}

// hear holds what a caller is told against the ledger.
func (l *life) hear(e *errand, resp *http.Response, body []byte, err error) (content bool) {
	made, more := l.world.count(e.name)
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		l.tell("%s: 200 %s", e.name, body)
		l.visit("told 200")
		if made == 0 {
			l.fault("%s: its caller was told of an effect that there is not", e.name)
		}
		if !strings.Contains(string(body), `"`+e.name+`"`) {
			l.fault("%s: its caller got the answer of another: %s", e.name, body)
		}
		l.mu.Lock()
		e.told[string(body)] = true
		several := len(e.told) > 1
		l.mu.Unlock()
		if several && e.naming == 0 {
			l.fault("%s: two callers were told different outcomes", e.name)
		}
		return true
	case err == nil:
		l.tell("%s: %d", e.name, resp.StatusCode)
		l.visit(fmt.Sprintf("told %d", resp.StatusCode))
		if op, _ := onceward.OperationOf(resp); op.State != onceward.Completed && op.State != onceward.Cancelled {
			l.fault("%s: %d was handed over of an operation that is %v", e.name, resp.StatusCode, op.State)
		}
		if made > 0 && resp.StatusCode != http.StatusInternalServerError {
			l.fault("%s: refused by %d, and took effect", e.name, resp.StatusCode)
		}
		l.mu.Lock()
		e.promised = false
		l.mu.Unlock()
		l.elsewhere(e)
		return resp.StatusCode == http.StatusPaymentRequired
	}
	var oe *onceward.Error
	kind := "an error of its own"
	if errors.As(err, &oe) {
		kind = oe.Kind.Error()
	}
	l.tell("%s: %v", e.name, err)
	l.visit("told " + kind)
	if errors.Is(err, onceward.ErrNotSent) && made+more > 0 {
		l.fault("%s: its caller was told that nothing took effect: %d did, %d may", e.name, made, more)
	}
	l.mu.Lock()
	e.promised = errors.Is(err, onceward.ErrPending) && oe.InBackground
	l.mu.Unlock()
	if errors.Is(err, onceward.ErrNotSent) {
		l.elsewhere(e)
	}
	if errors.Is(err, onceward.ErrKeyReused) {
		l.fault("%s: taken for another request", e.name)
	}
	return errors.Is(err, onceward.ErrOutcomeUnknown) || errors.Is(err, onceward.ErrAnswerGone)
}

// elsewhere has whoever was told that nothing took effect ask under another name.
func (l *life) elsewhere(e *errand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.alone && e.asked%2 == 0 {
		e.other++
	}
}

// count is how many effects an errand has, and how many requests may still have one.
func (w *world) count(errand string) (made, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.effects[errand]), w.underway[errand]
}

// heal ends the life: the world is well, the tables are right, one process goes on for
// two days, and then everything must be known.
func (l *life) heal() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.world.mu.Lock()
	l.world.trouble = 0
	l.world.mu.Unlock()
	l.tell("the world is well")
	p := l.start("the last", true)
	time.Sleep(27 * time.Hour)
	l.end(p, 2)
}

// judge holds the ledger against what is explained, and the journal against both.
func (l *life) judge() (unknown map[string]int) {
	unknown = map[string]int{}
	states := map[string]journal.Operation{}
	for op, err := range l.journal.List(context.Background(), journal.Filter{}) {
		if err != nil {
			l.fault("list: %v", err)
			break
		}
		states[op.ID] = op
		l.visit("left " + op.State.String())
		switch op.State {
		case journal.Pending, journal.InFlight:
			if op.Naming == journal.Carried && op.State == journal.Pending && op.WakeAt.After(time.Now()) {
				break // its caller may ask again until the end of its window, as the table had it then
			}
			if op.Provider == "" && l.partial {
				break // begun where nobody knew its provider: left to those
			}
			l.fault("%s is still %v, due %v, to be looked at %v: %s", op.ID, op.State, op.DueAt.Sub(l.began), op.WakeAt.Sub(l.began), op.Cause)
		case journal.Unknown:
			unknown[op.Cause]++
		}
	}
	for _, e := range l.errands {
		effects := l.world.effects[e.name]
		unexplained := 0
		for i, made := range effects {
			if i > 0 && made.trust && e.naming < 2 {
				unexplained++
			}
		}
		if unexplained > 0 {
			l.fault("%s took effect %d times", e.name, len(effects))
		}
		if op, there := states[e.name]; there && e.naming == 0 && e.other == 0 {
			if op.State == journal.Cancelled && e.promised && op.Resolved == nil && !strings.Contains(op.Cause, "refused") {
				l.fault("%s was to be sent, as its caller was told, and is cancelled: %s", e.name, op.Cause)
			}
			if op.State == journal.Cancelled && len(effects) > 0 {
				l.fault("%s is cancelled, and took effect", e.name)
			}
			if op.State == journal.Completed && op.Answer != nil && op.Answer.Status == 200 && len(effects) == 0 {
				l.fault("%s is completed, and has no effect", e.name)
			}
		}
	}
	return unknown
}
