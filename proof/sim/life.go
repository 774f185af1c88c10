// Package sim simulates a small business, again and again: its careless users, deploys, kills, outages and wrong
// tables. It runs the real client, real flows and a real journal, in virtual time. The oracle is the providers' ledger
// and the answers that the callers got, never the journal alone.
//
// A life is drawn from a seed (plan): the numbers of processes and errands, the habits and the faults. Most are small,
// since a small one fails in a way that can be read. Each later draw has dice of its own for one thing, such as the
// third request of an errand. So leaving another thing out changes nothing there. docs/verification.md says how to
// repeat a life and make a life smaller, and which parts can't be repeated.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// life is one plan's.
type life struct {
	plan
	world    *world
	journal  machine.Store
	disaster *disaster // nil: none
	began    time.Time

	mu         sync.Mutex
	history    []note
	faults     []string
	procs      []*process
	moments    moments
	knowing    knowing
	regretted  regretted
	behind     []leap // of clocks, so far
	putOff     map[journal.Ref]bool
	firstRead  sync.Once
	firstLeaps bool // the first clock that the journal has seen was far ahead, or behind, and it has no other to compare with
	wants      []*errand
	wrong      bool // the tables in use promise more than the providers keep, for now
	quoted     bool // the key is sent in a form that is not the providers', for now
	over       bool
	asks       sync.WaitGroup
	visited    map[string]int
	ledgers    map[string]string // by errand
	scoped     map[string]string // errands, by scope and name
	booked     map[string]int    // outcomes, by Outcomes.HandleTx
	onDisk     bool              // the journal lies in a database
	tellers    map[string]string // the errand whose caller got an answer, by its body
}

// errand is a task that the business wants done once.
type errand struct {
	name          string // the name in the request
	host          string
	told          map[string]bool // bodies of the answers that callers got
	asked         int
	naming        int // 0: by name; 1: by its own key; 2: by neither
	alone         bool
	key           string    // the caller's own; empty means none
	trip          *trip     // it is a flow
	ledger        string    // the ledger's name of its effect: its own, or one that the same request of several errands has
	shares        bool      // its key is another's, too
	blind         bool      // a process without its provider's table has begun it, so that nothing said where its key is
	contends      bool      // its second caller has another request
	promised      bool      // the latest answer to a caller says that it will be sent
	outbox        bool      // it is enqueued in a transaction
	gives         bool      // … that is rolled back each time, until it is given up
	queued        bool      // … that was committed
	misdated      bool      // its due date is by a clock that was far ahead
	due, notAfter time.Time // likewise
	shared        string    // its name, which is another errand's too, in another scope
	scope         string    // likewise
	accounts      bool      // its second caller is of another account
	seller        string    // the account that was answered first
	other         int       // how often its only caller has taken another name
	regretted     bool      // … which it does no more, since a person may withdraw it
}

func newLife(p plan, j machine.Store) *life {
	l := &life{plan: p, journal: j, began: time.Now(), knowing: newKnowing(), regretted: regretted{map[string]bool{}, map[string]bool{}}, visited: map[string]int{}, ledgers: map[string]string{}, tellers: map[string]string{}, booked: map[string]int{}, putOff: map[journal.Ref]bool{}, scoped: map[string]string{}}
	random := p.dice("world")
	l.world = &world{
		plan: p, contracts: map[string]contract{}, memory: map[string]*remembered{},
		effects: map[string][]effect{}, underway: map[string][]time.Time{}, asked: map[string]int{}, asks: map[string]wish{},
		looked: map[string]int{}, patience: map[string]wish{}, objects: map[string][]object{}, references: map[string]string{}, delivers: l.delivers, spans: map[string]between{}, spent: map[string]*spending{},
		named: map[string]time.Time{}, untrusted: map[string]bool{}, tell: l.tell, fault: l.fault, visited: l.visited,
	}
	for _, i := range random.Perm(len(contracts))[:1+random.IntN(3)] {
		c := contracts[i]
		c.host = c.name + ".example"
		if p.has(shortMemory) && c.retention > 0 {
			c.retention = 20*time.Minute + random.within(p.length)
		}
		c.shows = l.drawShows(c.host)
		l.world.contracts[c.host] = c
	}
	if l.has(boxed) {
		b := l.world.opens(adapters[l.dice("box").IntN(len(adapters))])
		l.world.contracts[b.host()] = contract{name: b.stated.Name, host: b.host(), box: b}
	}
	l.world.outage = l.spells(p.has(outages), "outage")
	l.world.refused = l.spells(p.has(refusedTokens), "refused")
	l.world.frozen, l.world.restored, l.world.withdrawn = l.isFrozen, l.wasRestored, l.isWithdrawn
	l.drawMoments(slices.Sorted(maps.Keys(l.world.contracts)))
	l.world.befalls = func(host string) (fate, bool) { return l.moments.befalls(host, time.Since(l.began)) }
	l.wrong, l.quoted = p.has(wrongTables) || p.has(wrongMemory), p.has(quotedKeys)
	return l
}

// spells returns a function that reports whether a host's spell is under way. Each host has at most one, long or
// short.
func (l *life) spells(there bool, of string) func(host string) bool {
	from, to := map[string]time.Duration{}, map[string]time.Duration{}
	for host := range l.world.contracts {
		random := l.dice(of, host)
		if there && random.IntN(3) > 0 {
			from[host] = random.within(l.length * 2 / 3)
			to[host] = from[host] + random.within(l.length)/time.Duration(1+random.IntN(50))
		}
	}
	return func(host string) bool {
		at := time.Since(l.began)
		return !l.isOver() && at >= from[host] && at < to[host]
	}
}

// note is a line in a life's history.
type note struct {
	at            time.Duration
	kind, process string
	format        string
	args          []any
}

func (n note) String() string {
	return fmt.Sprintf("%13v  %-6s %-9s ", n.at.Round(time.Millisecond), n.process, n.kind) + fmt.Sprintf(n.format, n.args...)
}

func (l *life) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// tell adds a line to the history: its kind, the process, and the text. The args are formatted later, so they must
// not change any more.
func (l *life) tell(kind, process, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, note{time.Since(l.began), kind, process, format, args})
}

func (l *life) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.tell("FAULT", "", "%s", text)
	l.mu.Lock()
	l.faults = append(l.faults, text)
	l.mu.Unlock()
}

func (l *life) visit(what string) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	l.visited[what]++
}

// tables returns the tables in a process's Config. If right is set, all of them are correct.
func (l *life) tables(right bool) []providers.Provider {
	l.mu.Lock()
	wrong, quoted := l.wrong && !right, l.quoted && !right
	l.mu.Unlock()
	var all []providers.Provider
	for _, host := range slices.Sorted(maps.Keys(l.world.contracts)) {
		c := l.world.contracts[host]
		p := c.table(wrong && l.has(wrongTables), wrong && l.has(wrongMemory))
		if c.box != nil {
			all = append(all, p)
			continue
		}
		if l.has(modes) {
			p.CredentialModes = []providers.CredentialMode{{Prefix: "test_", Mode: "test"}, {Prefix: "live_", Mode: "live"}}
		}
		if l.has(pages) && !l.has(partialTables) {
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
	name      string
	client    *onceward.Client
	runner    *flow.Runner
	book      *book
	line      *line
	still     *stillness // nil: it never stands still
	strict    bool
	namedOnly bool
	reconcile *onceward.Reconcile
	stop      context.CancelFunc // of Run
	ran       chan struct{}
	knows     map[string]bool // hosts
	trips     []*flow.Func[trip, string]
	dieOnce   sync.Once
	dying     chan struct{} // closed once it was killed
}

// die kills the process as kill -9 does.
func (p *process) die() {
	p.dieOnce.Do(func() {
		_ = p.book.Cut()
		p.book.rollsBack()
		close(p.line.dead)
		close(p.dying)
		p.book.leaves()
	})
}

// start starts a process as an application does: with Resume, and Run in the background.
func (l *life) start(name string, right bool) *process {
	l.mu.Lock()
	trusts := right || !l.wrong
	l.mu.Unlock()
	drawn := &chance{random: l.dice("process", name)}
	p := &process{name: name, ran: make(chan struct{}), dying: make(chan struct{})}
	p.still = l.newStillness(p, right)
	p.book = l.newBook(p, right)
	p.line = &line{still: p.still, world: l.world, process: name, clock: &p.book.clock, trusts: func() bool { return trusts }, dead: make(chan struct{})}
	cfg := onceward.Config{
		Journal:    p.book,
		Providers:  l.tables(right),
		HTTPClient: &http.Client{Transport: p.line},
		Backoff:    backoff.Policy{MaxAttempts: 1 + drawn.below(4)},
		NamedOnly:  drawn.of(7),
		Keep:       map[bool]time.Duration{true: time.Minute}[l.has(shortKeep)],
		Logger:     slog.New(slog.NewTextHandler(logged{l}, nil)),
	}
	p.namedOnly = cfg.NamedOnly
	p.strict = l.has(stricts) && drawn.of(2)
	p.line.strict, cfg.Strict = p.strict, p.strict
	if l.has(budgets) {
		cfg.RetryBudget = smallBudget
	}
	p.reconcile = l.reconciles(p, right)
	cfg.Reconcile = p.reconcile
	switch {
	case l.has(settledTx):
		cfg.Outcomes = &onceward.Outcomes{HandleTx: l.handleTx(p, drawn)}
	case !l.has(noOutcomes) || drawn.of(2) || l.has(regrets):
		cfg.Outcomes = &onceward.Outcomes{Handle: l.settled}
	}
	if l.has(secrets) {
		cfg.Secret = []byte("a secret of a business that is small")
	}
	if l.has(partialTables) && !right && drawn.of(3) {
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
	p.line.knows = p.knows
	if l.has(panics) && !right && drawn.of(2) {
		hook := func() {
			if drawn.of(20) {
				panic("a hook's")
			}
		}
		cfg.Trace = &onceward.Trace{
			AttemptEnded: func(context.Context, onceward.Operation, onceward.Attempt) { hook() },
			Ended:        func(context.Context, onceward.Operation, error) { hook() },
			Started:      func(ctx context.Context, _ onceward.Operation, _ onceward.Why) context.Context { hook(); return ctx },
		}
	}
	token := "Bearer live_" + canary
	if l.has(modes) && !right && drawn.of(4) {
		token = "Bearer test_" + canary
	}
	if (l.has(withheld) || l.has(modes) || l.has(looks)) && (!l.has(ownTokens) || right || drawn.of(2)) {
		fails := l.has(sealedVaults) && !right && drawn.of(2)
		until := time.Now().Add(time.Duration(drawn.below(int(l.length / 4))))
		cfg.Authorize = func(req *http.Request) error {
			if fails && time.Now().Before(until) {
				return errors.New("the vault is sealed")
			}
			if req.Header.Get("Authorization") == "" {
				req.Header.Set("Authorization", token)
			}
			return nil
		}
	}
	client, err := onceward.New(cfg)
	if err != nil {
		panic(err)
	}
	p.client = client
	p.trips = l.trips(p, drawn, right)
	known := flow.Config{}
	for _, trip := range p.trips {
		known.Definitions = append(known.Definitions, trip)
	}
	if p.runner, err = flow.New(client, known); err != nil {
		panic(err)
	}
	l.tell("process", name, "starts, tables right: %v, keys quoted: %v", trusts, l.quoted && !right)
	if l.has(clocks) {
		l.tell("process", name, "has a clock that is ahead by %v, and by others at times: %v", time.Duration(p.book.clock.wrong), p.book.clock.leaps)
	}
	ctx, stop := context.WithCancel(l.polls(right))
	p.stop = stop
	timeout := time.Duration(1+drawn.below(60)) * time.Second
	p.line.resumes = timeout
	go func() {
		defer close(p.ran)
		resuming, cancel := context.WithTimeout(ctx, timeout)
		_, _ = client.Resume(resuming)
		cancel()
		_ = client.Run(ctx)
	}()
	return p
}

// polls returns the context of a process's Run. In seven lives of eight, until their end, Run looks at the journal
// less often than a client of a business does. Mostly nothing has changed there, and due operations wake it.
func (l *life) polls(right bool) context.Context {
	if right || l.dice("polls").of(8) {
		return context.Background()
	}
	return seam.Seldom(context.Background(), min(max(l.length/120, 20*time.Second), time.Minute))
}

// chance is dice for concurrent use.
type chance struct {
	mu     sync.Mutex
	random dice
}

func (c *chance) of(n int) bool { return c.below(n) == 0 }

func (c *chance) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (l *life) settled(_ context.Context, op onceward.Operation) error {
	l.tell("caller", "", "Outcomes.Handle: %s is %v", op.ID, op.State)
	l.tellsRegret(op)
	l.endsPromise(op)
	return nil
}

// endsPromise ends the promise to send an operation, if Outcomes.Handle reports the operation as cancelled for one of
// two reasons. Either the operation was too late to be sent, or its own look-up said "not executed", after the process
// died. A caller that asks later begins anew.
func (l *life) endsPromise(op onceward.Operation) {
	name := l.ledgerName(op.Ref)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.wants {
		if e.name == name && op.State == onceward.StateCancelled && (strings.Contains(op.Cause, "not to be sent after") || strings.Contains(op.Cause, "its own look-up says")) {
			e.promised = false
		}
	}
}

// ending is how a process ends.
type ending int

const (
	killed ending = iota
	stopped
	shutDown
)

// end kills a process, stops Run and shuts the process down, or only shuts the process down.
func (l *life) end(p *process, how ending) {
	select {
	case <-p.dying:
		how = killed
	default:
	}
	if how != killed {
		p.still.goesOn()
	}
	switch how {
	case killed:
		l.tell("process", p.name, "is killed")
		p.die()
		p.stop()
		expired, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.client.Shutdown(expired)
	case stopped:
		l.tell("process", p.name, "has its Run ended, then shuts down")
		p.stop()
		<-p.ran
		ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = p.client.Shutdown(ending)
		cancel()
	default:
		l.tell("process", p.name, "shuts down")
		ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = p.client.Shutdown(ending)
		cancel()
		p.stop()
	}
	<-p.ran
	p.book.leaves()
}

// live starts and ends processes until the life is over.
func (l *life) live() {
	var group sync.WaitGroup
	for i := range l.processes {
		random := l.dice("fleet", i)
		group.Go(func() {
			waited := false
			defer func() {
				if l.disaster != nil && !waited {
					<-l.disaster.begins
					l.disaster.wait(&waited)
				}
			}()
			for run := 0; time.Since(l.began) < l.length; run++ {
				l.disaster.wait(&waited)
				corrected := l.correctedThen()
				p := l.start(fmt.Sprintf("p%d.%d", i, run), false)
				l.mu.Lock()
				l.procs = append(l.procs, p)
				l.mu.Unlock()
				span := time.Minute + random.within(l.length/2)
				if random.IntN(3) == 0 {
					span = random.within(max(l.length/300, 10*time.Second))
				}
				timer := time.NewTimer(min(span, l.length-time.Since(l.began)))
				select {
				case <-timer.C:
				case <-p.dying:
				case <-l.lostThen(waited):
				case <-corrected:
				}
				timer.Stop()
				l.mu.Lock()
				for k, other := range l.procs {
					if other == p {
						l.procs = append(l.procs[:k], l.procs[k+1:]...)
						break
					}
				}
				if random.IntN(6) == 0 {
					l.wrong, l.quoted = false, false // an operator corrects the table
				}
				l.mu.Unlock()
				how := []ending{killed, stopped, shutDown, shutDown}[random.IntN(4)]
				if how == killed && !l.has(kills) || how == stopped && !l.has(stops) {
					how = shutDown
				}
				l.end(p, how)
				time.Sleep(random.within(min(10*time.Minute, l.length/10)))
			}
		})
	}
	group.Wait()
}

// operate has an operator decide unknown and pending operations, once in a while, by the ledger. An operation may
// move between the operator's look and the decision.
func (l *life) operate() {
	random := l.dice("operator")
	for l.has(operators) && time.Since(l.began) < l.length {
		time.Sleep(random.within(min(6*time.Hour, l.length/3)))
		p := l.anyProcess(random)
		if p == nil {
			continue
		}
		l.operateTrips(p, random)
		var seen []onceward.Operation
		for op, err := range p.client.Operations(context.Background(), onceward.Filter{}) {
			if err == nil && op.State == onceward.StateCompleted && op.Resolved != nil && l.ledgerName(op.Ref) != "" {
				l.supplies(p, op)
			}
			if err == nil && (op.State == onceward.StateUnknown || op.State == onceward.StatePending) && l.ledgerName(op.Ref) != "" {
				seen = append(seen, op)
			}
		}
		if len(seen) == 0 {
			continue
		}
		op := seen[random.IntN(len(seen))]
		if op.State == onceward.StatePending && random.IntN(2) == 0 {
			held, err := p.client.Resolve(context.Background(), op.Seen, onceward.Hold, onceward.ResolveOptions{By: "somebody"})
			l.tell("person", p.name, "puts %s on hold: %v", op.ID, err)
			if err != nil {
				continue
			}
			op = held
			if l.lets(p, op) {
				continue
			}
		}
		made, more := l.world.count(l.ledgerName(op.Ref))
		as := onceward.Executed
		if made == 0 {
			as = onceward.NotExecuted
			if random.IntN(2) == 0 {
				as = onceward.SendAgain
			}
		}
		if made == 0 && more > 0 {
			continue // the operator can't know
		}
		quicker := l.has(colleagues) && as != onceward.Executed
		if quicker {
			l.world.decides(l.ledgerName(op.Ref))
			l.world.forgives(l.ledgerName(op.Ref))
			_, err := p.client.Resolve(context.Background(), op.Seen, onceward.SendAgain, onceward.ResolveOptions{By: "a colleague", Why: "the ledger"})
			l.tell("person", p.name, "a colleague has %s sent again: %v", op.ID, err)
		}
		if random.IntN(3) == 0 || quicker {
			time.Sleep(random.within(min(time.Hour, l.length/4))) // lunch: the evidence grows stale
		}
		how := onceward.ResolveOptions{By: "somebody", Why: "the ledger"}
		if as == onceward.Executed && random.of(2) {
			how.Answer = l.found(op.Ref)
		}
		l.world.decides(l.ledgerName(op.Ref))
		now, _ := l.current().Get(context.Background(), op.Ref)
		resolved, err := p.client.Resolve(context.Background(), op.Seen, as, how)
		l.judgesWord(&resolved, as, made, err)
		if moved := now.Generation != op.Generation || now.Claim != op.Claim && as != onceward.Executed; err == nil && moved {
			l.fault("%s: resolved as %v by who had seen generation %d, claim %d, and it was at %d and %d", op.ID, as, op.Generation, op.Claim, now.Generation, now.Claim)
		}
		l.world.forgives(l.ledgerName(op.Ref))
		l.tell("person", p.name, "resolves %s as %v: %v", op.ID, as, err)
		l.visit("resolved as " + as.String())
	}
}

// judgesWord reports a fault if an operator's decision was accepted and has no effect, or was rejected for a false
// reason.
func (l *life) judgesWord(op *onceward.Operation, as onceward.Resolution, made int, err error) {
	switch {
	case err == nil && as == onceward.SendAgain && op.Withdrawn != nil:
		l.fault("%s: somebody was told that it is sent again, and it is not wanted", op.ID)
	case err != nil && made == 0 && strings.Contains(err.Error(), "there is evidence that it took effect") && !l.inGap(l.ledgerName(op.Ref)):
		if made, _ := l.world.count(l.ledgerName(op.Ref)); made == 0 {
			l.fault("%s: nobody may say that it took no effect, as it did not: %v", op.ID, err)
		}
	}
}

// found returns the answer that an operator finds of an operation, or nil.
func (l *life) found(ref onceward.Ref) *onceward.Answer {
	op, err := l.current().Get(context.Background(), ref)
	if err != nil {
		return nil
	}
	return l.world.found(l.ledgerName(ref), op.Mode)
}

// supplies has an operator supply the answer of an operation that was completed by hand without one.
func (l *life) supplies(p *process, op onceward.Operation) {
	answer := l.found(op.Ref)
	op, err := p.client.Operation(context.Background(), op.Ref)
	if answer == nil || err != nil || op.Answer == nil || !op.Answer.ByHand || !op.Answer.Omitted {
		return
	}
	op, err = p.client.Resolve(context.Background(), op.Seen, onceward.Executed, onceward.ResolveOptions{By: "somebody", Why: "found it", Answer: answer})
	if now, _ := l.current().Get(context.Background(), op.Ref); err == nil && now.Answer != nil && now.Answer.Replaced != nil && now.Answer.Replaced.ByHand {
		l.fault("%s: what its answer took the place of was said by a person, and is told to be its provider's", op.ID)
	}
	l.tell("person", p.name, "supplies the answer of %s: %v", op.ID, err)
	if errors.Is(err, journal.ErrInvalidEvent) {
		l.fault("%s: nobody may supply the answer that it lacks: %v", op.ID, err)
	}
}

// anyProcess returns a process that serves now, or nil.
func (l *life) anyProcess(random dice) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.procs) == 0 {
		return nil
	}
	return l.procs[random.IntN(len(l.procs))]
}

// want draws an errand with careless habits, waits for the errand's time, and starts the callers.
func (l *life) want(i int) {
	random := l.dice("errand", i)
	hosts := l.ownHosts()
	e := &errand{name: fmt.Sprintf("errand-%d", i), host: hosts[random.IntN(len(hosts))], told: map[string]bool{}}
	switch n := random.IntN(10); {
	case n >= 9 && l.has(unnamed):
		e.naming = 2
	case n >= 6 && l.has(carriedKeys):
		e.naming = 1
	}
	if l.has(boxed) && e.naming == 0 && l.dice("boxed", e.name).of(2) {
		e.host = l.boxHost()
	}
	if l.world.contracts[e.host].keyless && e.naming == 1 {
		e.naming = 2 // a key that is not taken is no name
	}
	switch {
	case e.naming == 1 || e.naming == 0 && l.has(keyUnderName) && random.of(2) && l.world.contracts[e.host].box == nil:
		e.key = "key-of-" + e.name
		if l.has(sharedKeys) && !l.has(partialTables) { // a process that lacks the table can't tell whose key it is
			e.key, e.shares = fmt.Sprintf("key-at-%s-%d", e.host, i%2), true
			if e.naming == 0 && random.of(2) {
				e.ledger = fmt.Sprintf("fee-at-%s-%d", e.host, i%2)
			}
		}
	}
	if l.has(flows) && random.IntN(2) == 0 {
		e.naming, e.name, e.ledger = 0, fmt.Sprintf("flow-%d", i), ""
		e.trip = &trip{Name: e.name, Parallel: random.of(3)}
		for k := range e.trip.Hosts {
			e.trip.Hosts[k] = hosts[random.IntN(len(hosts))]
		}
	}
	if e.ledger == "" {
		e.ledger = e.name
	}
	if l.has(scopes) && e.naming == 0 && e.key == "" && e.trip == nil && e.ledger == e.name {
		e.shared, e.scope = fmt.Sprintf("errand-of-%d", i/2), fmt.Sprintf("tenant-%d", i%2)
	}
	l.mu.Lock()
	if e.scope != "" {
		l.scoped[e.scope+" "+e.shared] = e.name
	}
	l.ledgers[e.name] = e.ledger
	l.wants = append(l.wants, e)
	l.mu.Unlock()
	at := random.within(l.length * 2 / 3)
	if moment, there := l.draws(e); there {
		at = moment
	}
	time.Sleep(at)
	if l.has(outboxes) && e.scope == "" && e.naming == 0 && e.key == "" && e.trip == nil && e.ledger == e.name && !random.of(3) {
		e.outbox, e.gives = true, random.of(4)
		e.due = time.Now().Add(random.within(20 * time.Minute))
		if random.of(2) {
			e.notAfter = e.due.Add(random.within(20 * time.Minute))
		}
		l.world.mu.Lock()
		l.world.spans[e.name] = between{e.due, e.notAfter}
		l.world.mu.Unlock()
	}
	askers := 1
	if e.naming < 2 && l.has(doubles) && random.IntN(2) == 0 {
		askers = 2
	}
	e.alone = askers == 1
	e.accounts = !e.alone && e.trip == nil && !e.outbox && e.naming == 0 && l.has(accounts) && random.of(2)
	e.contends = e.accounts || !e.alone && e.trip == nil && !e.outbox && l.world.contracts[e.host].box == nil && l.has(otherRequests) && random.of(2)
	for a := range askers {
		l.asks.Go(func() { l.pursue(e, a) })
	}
}

// pursue asks until the caller knows the outcome, or its patience is used up.
func (l *life) pursue(e *errand, asker int) {
	random := l.dice("asker", e.name, asker)
	patience := 1 + random.IntN(8)
	if e.naming == 2 {
		patience = 1
	}
	for n := range patience {
		p := l.anyProcess(random)
		if p == nil || e.naming != 0 && !p.knows[e.host] { // without a table, an unnamed request would pass unprotected
			time.Sleep(time.Minute)
			continue
		}
		if l.ask(p, e, asker, l.dice("ask", e.name, asker, n)) {
			return
		}
		wait := random.within(min(time.Hour, l.length/4))
		if random.IntN(3) == 0 || l.has(hurried) && random.IntN(2) == 0 {
			wait /= 600
		}
		if l.has(blips) && l.dice("again", e.name, asker, n).of(2) {
			wait = 20*time.Second + wait/30 // before the next attempt in the background
		}
		time.Sleep(wait)
	}
}

// ask asks once, and reports whether its caller is content with the answer.
func (l *life) ask(p *process, e *errand, asker int, random dice) (content bool) {
	ctx := context.Background()
	if random.IntN(2) == 0 && l.has(deadlines) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, random.within(3*time.Minute))
		defer cancel()
	}
	if random.IntN(3) == 0 && l.has(cancels) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(random.within(10*time.Second), cancel)
		defer timer.Stop()
		defer cancel()
	}
	if e.trip != nil {
		return l.askTrip(ctx, p, e)
	}
	if e.naming == 0 {
		ctx = onceward.WithOperation(ctx, e.calls()+strings.Repeat("~", e.other))
		if e.scope != "" {
			ctx = onceward.WithScope(ctx, e.scope)
		}
	}
	account := ""
	if l.has(accounts) && e.naming == 0 {
		if account = "seller-1"; e.accounts && asker == 1 {
			account = "seller-2"
		}
		ctx = onceward.WithAccount(ctx, account)
	}
	variant, mode := "", "live"
	if e.contends && !e.accounts && asker == 1 {
		variant = "another"
	}
	req := l.order(ctx, e.host, e.ledger, variant)
	if account != "" && l.world.contracts[e.host].box == nil {
		req.Header.Set(seller, account)
	}
	switch {
	case e.key == "":
	case e.naming == 0 && !e.shares && random.of(3): // an SDK's, made up for each attempt
		req.Header.Set("Idempotency-Key", fmt.Sprintf("made-up-%d", random.Uint64()))
	default:
		req.Header.Set("Idempotency-Key", e.key+strings.Repeat("~", e.other))
	}
	if l.has(modes) && random.of(5) {
		mode = "test"
	}
	if l.has(withheld) || l.has(modes) || l.has(looks) {
		req.Header.Set("Authorization", "Bearer "+mode+"_"+canary)
	}
	if l.hasToEnqueue(e) {
		return l.enqueue(ctx, p, e, req, random) && random.of(2)
	}
	if e.gives {
		return true
	}
	l.world.mu.Lock()
	if span, there := l.world.spans[e.name]; there {
		l.world.spans[e.name] = between{from: span.from}
	}
	l.world.mu.Unlock()
	l.mu.Lock()
	e.asked++
	e.blind = e.blind || !p.knows[e.host]
	l.mu.Unlock()
	l.world.asksAnew(e.ledger)
	l.tell("caller", p.name, "%s is asked for (key %.12s, %s)", e.name+strings.Repeat("~", e.other), req.Header.Get("Idempotency-Key"), mode)
	defer func() {
		if v := recover(); v != nil {
			l.tell("caller", p.name, "%s: met a panic: %v", e.name, v)
			l.visit("met a panic")
			l.mu.Lock()
			e.promised = false
			l.mu.Unlock()
		}
	}()
	began := time.Now()
	resp, err := p.client.HTTPClient().Do(req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	p.still.pass("a caller of", e.name)
	select {
	case <-p.line.dead:
		return false // the caller died with the process
	default:
	}
	if err == nil && resp.StatusCode/100 == 2 {
		l.sells(e, account)
	}
	if err != nil && account != "" && errors.Is(err, onceward.ErrKeyReused) {
		l.visit("refused for another account")
	}
	return l.hear(p, e, began, variant, mode, resp, body, err)
}

// sells reports a fault if two accounts both got the answer that an errand is done for them.
func (l *life) sells(e *errand, account string) {
	if account == "" {
		return
	}
	l.mu.Lock()
	if e.seller == "" {
		e.seller = account
	}
	first := e.seller
	l.mu.Unlock()
	if first != account && !l.wasRestored() {
		l.fault("%s: answered for %s, and before for %s", e.name, account, first)
	}
}

// calls returns the operation name that the errand's callers use.
func (e *errand) calls() string {
	if e.shared != "" {
		return e.shared
	}
	return e.name
}

// judgeAlert reports a fault if a completed operation needs attention for a false reason.
func (l *life) judgeAlert(op *journal.Operation, made int) {
	refused := strings.Contains(op.Attention, "answered as refused")
	switch {
	case l.wasRestored() || op.State != journal.StateCompleted || op.Answer == nil:
	case op.SecondEffects > 0 && made < 2:
		l.fault("%s is told to have taken effect twice, and has %d effects: %s", op.ID, made, op.Attention)
	case refused && made == 0, refused && op.Answer.Status == 200:
		l.fault("%s is told to be answered as refused, and to have taken effect: %d, of which it has %d", op.ID, op.Answer.Status, made)
	}
}

// hasToEnqueue reports whether an errand is yet to be enqueued.
func (l *life) hasToEnqueue(e *errand) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.outbox && (e.gives || !e.queued)
}

// hear checks a caller's answer or error against the ledger, and reports whether the caller is content with it.
func (l *life) hear(p *process, e *errand, since time.Time, variant, mode string, resp *http.Response, body []byte, err error) (content bool) {
	made, more := l.world.count(e.ledger)
	counts := e.ledger == e.name && !l.inGap(e.name, e.key)
	if !counts || l.world.misled(e.ledger) {
		made, more = 0, 0 // it is not known which are its own
	}
	if made > 0 && l.isForgotten(e, l.world.latest(e.ledger), effect{at: time.Now()}) {
		made = 0 // its key counts as new
	}
	if err == nil || errors.Is(err, onceward.ErrNotSent) {
		l.world.forgives(e.ledger) // a later caller need not wait
	}
	switch {
	case err == nil && resp.StatusCode/100 == 2:
		l.tell("caller", p.name, "%s: 200 %s", e.name, body)
		l.visit("told 200")
		if own, _ := l.world.count(e.ledger); own == 0 && counts {
			l.fault("%s: its caller was told of an effect that there is not", e.name)
		}
		boxed := l.world.contracts[e.host].box != nil
		if boxed && !strings.Contains(string(body), e.ledger+".") {
			l.fault("%s: its caller got the answer of another: %s", e.name, body)
		}
		if !boxed && !strings.Contains(string(body), fmt.Sprintf(`"errand":%q,"variant":%q,"mode":`, e.ledger, variant)) || !boxed && l.has(modes) && p.knows[e.host] && l.world.knewTable(e.ledger, string(body)) && !strings.Contains(string(body), mode) {
			l.fault("%s: its caller got the answer of another: %s", e.name, body)
		}
		l.mu.Lock()
		e.told[string(body)] = true
		several := len(e.told) > 1
		another := e.name
		if e.naming == 0 {
			if first, there := l.tellers[string(body)]; there {
				another = first
			}
			l.tellers[string(body)] = another
		}
		l.mu.Unlock()
		if another != e.name && !l.wasRestored() && !e.blind {
			l.fault("%s: its caller was told of the effect of %s, and its own is lost", e.name, another)
		}
		if forgotten := e.naming == 1 && l.has(shortKeep); several && e.naming < 2 && e.other == 0 && !l.wasRestored() && !forgotten {
			l.fault("%s: two callers were told different outcomes", e.name)
		}
		return true
	case err == nil:
		l.tell("caller", p.name, "%s: %d", e.name, resp.StatusCode)
		l.visit(fmt.Sprintf("told %d", resp.StatusCode))
		if op, _ := onceward.OperationOf(resp); op.State != onceward.StateCompleted && op.State != onceward.StateCancelled {
			l.fault("%s: %d was handed over of an operation that is %v", e.name, resp.StatusCode, op.State)
		}
		if p.still.stood(since) {
			made = 0 // since it was refused others may have asked
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
	l.tell("caller", p.name, "%s: %v", e.name, err)
	l.keepsSecret("an error", err.Error())
	l.visit("told " + kind)
	l.heedsAsker(p, e, err)
	if p.still.stood(since) {
		made, more = 0, 0 // since then others may have asked
	}
	l.hearsRegret(e, err, made, more)
	l.hearsBlind(p, e, since, err)
	if !e.alone && made+more > 0 { // the other caller may have begun since it was cancelled
		made, more = l.world.countBefore(e.ledger, since, p.name)
	}
	if errors.Is(err, onceward.ErrNotSent) && made+more > 0 && !l.hasForgotten(e.ledger) {
		l.fault("%s: its caller was told that nothing took effect: %d did, %d may", e.name, made, more)
	}
	l.mu.Lock()
	e.promised = errors.Is(err, onceward.ErrPending) && oe.InBackground
	l.mu.Unlock()
	if errors.Is(err, onceward.ErrNotSent) {
		l.elsewhere(e)
	}
	box := l.world.contracts[e.host].box
	bound := box != nil && e.other > 0 && strings.Contains(box.body, "REF-key") // the first name has the key that its body brings along
	if errors.Is(err, onceward.ErrKeyReused) && !l.wasRestored() && !e.contends && !e.shares && !bound && !(l.has(partialTables) && box != nil) && !(l.has(modes) && strings.Contains(err.Error(), "mode")) {
		l.fault("%s: taken for another request: %v", e.name, err)
	}
	return errors.Is(err, onceward.ErrOutcomeUnknown) || errors.Is(err, onceward.ErrAnswerGone)
}

// heedsAsker reports a fault if a caller was put off without need. The causes are a pause by the client, older than any
// delay of the policy, and a time that no provider named.
func (l *life) heedsAsker(p *process, e *errand, err error) {
	var oe *onceward.Error
	if !errors.As(err, &oe) || oe.Kind != onceward.ErrPending || !p.knows[e.host] || errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "the vault is sealed") {
		return
	}
	op, err := l.current().Get(context.Background(), oe.Operation.Ref)
	if err != nil || op.State != journal.StatePending || op.MayHaveRun || op.Provider == "" {
		return
	}
	l.mu.Lock()
	last := l.knowing.changed[op.Parent+" "+op.ID]
	l.mu.Unlock()
	now, since, patience := time.Now(), time.Since(last.at), 15*time.Second
	if l.has(clocks) {
		patience += 2 * clockError // the two clocks differ
	}
	if p.still.stood(last.at) {
		return // it asked with a reading that is long past
	}
	if last.book == nil || last.book.clock.leapt(last.at) || p.book.clock.leapt(last.at) || !p.book.clock.off().in(op.DueAt).After(now) {
		return
	}
	if op.DueOwn && since > patience {
		l.fault("%s: its caller is put off by a pause of the client's own that began %v ago, and nothing has run", e.name, since)
	}
	if op.Enqueued && op.Attempts == 0 && !op.DueAt.After(e.due) {
		return // its enqueuer set that time
	}
	if until := op.DueAt.Sub(l.began); !op.DueOwn && since > patience && !l.world.namedUntil(e.ledger).After(now) {
		l.fault("%s: its caller is put off until %v, which no provider asked for, and nothing has run: %s", e.name, until, op.Cause)
	}
}

// elsewhere makes a caller ask under another name from now on, after the caller learned that nothing took effect.
func (l *life) elsewhere(e *errand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(otherNames) && e.alone && e.asked%2 == 0 && !e.regretted {
		e.other++
	}
}

// ownHosts returns the hosts of the providers whose contracts the world keeps itself.
func (l *life) ownHosts() (hosts []string) {
	for _, host := range slices.Sorted(maps.Keys(l.world.contracts)) {
		if l.world.contracts[host].box == nil {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// boxHost returns the host of the adapter's provider, or "".
func (l *life) boxHost() string {
	for host, c := range l.world.contracts {
		if c.box != nil {
			return host
		}
	}
	return ""
}

// count returns the number of an errand's effects, and of the errand's requests that may still have one.
func (w *world) count(errand string) (made, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.effects[errand]), len(w.underway[errand])
}

// latest returns an errand's last effect.
func (w *world) latest(errand string) effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effects[errand][len(w.effects[errand])-1]
}

// countBefore is count without other processes' later effects, and without requests that began since.
func (w *world) countBefore(errand string, then time.Time, process string) (made, more int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.effects[errand] {
		if e.at.Before(then) || e.by == process {
			made++
		}
	}
	for _, began := range w.underway[errand] {
		if began.Before(then) {
			more++
		}
	}
	return made, more
}

// heal ends the life. The world is well and the tables are right. One process runs now and then until every window is
// over, and then everything must be known. Between its runs there is no process, for less than a day at a time.
func (l *life) heal() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.world.mu.Lock()
	l.world.well = true
	l.world.mu.Unlock()
	l.tell("world", "", "everything is well from here on")
	for i, pause := range []time.Duration{0, time.Hour, 20 * time.Hour, 8 * time.Hour} {
		time.Sleep(pause)
		p := l.start(fmt.Sprintf("end.%d", i), true)
		l.retryTrips(p)
		l.settles()
		l.runs(p)
		if i == 3 {
			l.comesBack(p)
		}
		l.asksAfterwards(p)
		l.end(p, shutDown)
	}
}

// runs reports a fault for a due, named operation that a process's Run leaves alone without a reason.
func (l *life) runs(p *process) {
	for op, err := range l.current().List(context.Background(), journal.Filter{States: []journal.State{journal.StatePending}}) {
		if err == nil && op.Naming == journal.Named && !op.BodyWithheld && op.Provider != "" && op.Mode != "test" && op.Parent == "" && !l.has(modes) && !l.has(withheld) && !l.has(ownTokens) && !l.has(clocks) && op.DueAt.Add(5*time.Minute).Before(time.Now()) && op.WakeAt.Add(5*time.Minute).Before(time.Now()) {
			l.fault("%s is left alone by %s, which has run for long enough: due %v: %s", op.ID, p.name, op.DueAt.Sub(l.began), op.Cause)
		}
	}
}

// settles waits until no work is left, for at most 12 minutes. That is enough, since a clock is believed after ten.
func (l *life) settles() {
	for began := time.Now(); time.Since(began) < 12*time.Minute; {
		time.Sleep(10 * time.Second)
		if l.isSettled() {
			return
		}
	}
}

// isSettled reports whether no operation is pending, in flight or undelivered, and every flow has ended. With
// look-ups it also waits for unknown operations, until they need attention.
func (l *life) isSettled() bool {
	for op, err := range l.current().List(context.Background(), journal.Filter{}) {
		if err != nil || !op.State.Settled() && op.State != journal.StateUnknown || op.State.Settled() && !op.Delivered || l.has(looks) && op.State == journal.StateUnknown && op.Attention == "" {
			return false
		}
	}
	for f, err := range l.current().(machine.Flows).ListFlows(context.Background(), journal.FlowFilter{}) {
		if err != nil || !f.State.Ended() {
			return false
		}
	}
	return true
}

// isForgotten reports whether one effect came so long after another that the errand's carried key was forgotten. Such
// a key is no name and leaves no tombstone.
func (l *life) isForgotten(e *errand, one, another effect) bool {
	return e.naming == 1 && l.has(shortKeep) && another.at.Sub(one.at) >= l.world.contracts[e.host].retention
}

// judge compares the ledger with the effects that are explained, and the journal with both. It returns the causes of
// the operations that are still unknown, with the numbers.
func (l *life) judge() (unknown map[string]int) {
	unknown = map[string]int{}
	states := map[string]journal.Operation{}
	for op, err := range l.current().List(context.Background(), journal.Filter{}) {
		if err != nil {
			l.fault("list: %v", err)
			break
		}
		if op.Parent == "" && op.Scope != "" {
			states[l.ledgerName(op.Ref)] = op
		} else if op.Parent == "" {
			states[op.ID] = op
		}
		l.visit("left " + op.State.String())
		if whole, err := l.current().Get(context.Background(), op.Ref); err == nil {
			l.keepsSecret("the journal", recorded(&whole))
		}
		if op.State.Settled() && !op.DueAt.IsZero() {
			l.fault("%s is %v, and told to be due", op.ID, op.State)
		}
		switch op.State {
		case journal.StatePending, journal.StateInFlight:
			if op.Naming == journal.Carried && op.State == journal.StatePending && op.WakeAt.After(time.Now()) {
				break // its caller may ask again until the end of its window, as the table had it then
			}
			if op.Mode == "test" {
				break // left to tests
			}
			if l.has(modes) && strings.Contains(op.Cause, "the credential is another one") {
				break // likewise, if its table does not recognize test credentials
			}
			if op.Enqueued && op.DueAt.After(time.Now()) && slices.ContainsFunc(l.wants, func(e *errand) bool { return e.name == op.ID && e.misdated }) {
				break // its caller may have meant that date
			}
			if l.isPutOff(&op) {
				break
			}
			if op.Provider == "" && l.has(partialTables) {
				break // begun by a process without the table, and left to such processes
			}
			l.fault("%s is still %v, due %v, to be looked at %v: %s", op.ID, op.State, op.DueAt.Sub(l.began), op.WakeAt.Sub(l.began), op.Cause)
		case journal.StateUnknown:
			unknown[op.Cause]++
			l.judgeUnknown(&op)
		}
	}
	l.judgeOutbox(states)
	l.judgeEntries(l.finishedFlows())
	for _, e := range l.wants {
		if e.trip != nil {
			l.judgeTrip(e)
			continue
		}
		if e.ledger != e.name {
			continue // several errands' together
		}
		effects := l.world.effects[e.name]
		unexplained := 0
		for i, made := range effects {
			if i > 0 && made.trust && e.naming < 2 && !l.inGap(e.name, e.key, made.key, effects[0].key) && !l.isForgotten(e, effects[0], made) {
				unexplained++
			}
		}
		if unexplained > 0 {
			l.fault("%s took effect %d times", e.name, len(effects))
		}
		if op, there := states[e.name]; there && e.naming == 0 && e.other == 0 && !l.world.misled(e.name) && !l.inGap(e.name) {
			if op.State == journal.StateCancelled && e.promised && !e.regretted && !l.wasRestored() && op.Resolved == nil && !e.contends && !strings.Contains(op.Cause, "refused") && !strings.Contains(op.Cause, "not to be sent after") {
				l.fault("%s was to be sent, as its caller was told, and is cancelled: %s", e.name, op.Cause)
			}
			l.judgeRegret(e, &op, len(effects))
			l.judgeAlert(&op, len(effects))
			if op.State == journal.StateCancelled && len(effects) > 0 && !l.hasForgotten(e.name) {
				l.fault("%s is cancelled, and took effect", e.name)
			}
			if op.State == journal.StateCompleted && op.Answer != nil && op.Answer.Status == 200 && len(effects) == 0 {
				l.fault("%s is completed, and has no effect", e.name)
			}
		}
	}
	return unknown
}
