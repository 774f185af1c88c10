package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// plan describes a life: drawn from its seed, and made smaller by flags.
type plan struct {
	seed      uint64
	processes int
	errands   []int // numbers of things that the business wants done
	length    time.Duration
	trouble   float64 // share of requests that meet a fault
	habits    set
	fates     set
	sqlite    bool
}

// habit is a behavior or a fault that some lives have.
type habit int

const (
	outages        habit = iota // providers that are down for a while
	refusedTokens               // providers that take no credential for a while
	wrongTables                 // tables that promise more time than there is, until an operator corrects them
	wrongMemory                 // … that promise to recognise more than the provider does
	quotedKeys                  // a form of the key that is not the provider's, likewise
	partialTables               // processes that don't know every provider
	withheld                    // credentials, which the journal withholds and Authorize adds
	sealedVaults                // … or fails to, for a while
	panics                      // hooks that panic
	pages                       // gateways that answer with a page of 200
	operators                   // an operator who resolves unknown operations
	kills                       // processes that are killed, at any moment
	killedInCommit              // … and just before or after a commit
	stops                       // processes that end Run before they shut down
	deadlines                   // callers with little time
	cancels                     // callers that go away
	doubles                     // two callers at once
	carriedKeys                 // callers with a key instead of a name
	unnamed                     // callers with neither
	otherNames                  // callers that take another name once nothing took effect
	hurried                     // callers that ask again at once
	noOutcomes                  // processes without Outcomes.Handle
	secrets                     // keys that follow from names
	shortMemory                 // providers that forget within the life
	otherRequests               // a second caller with another request by the same name or key
	keyUnderName                // callers with a name and a key, the same or a new one each time
	sharedKeys                  // … that another errand has, too
	modes                       // test and live credentials
	ownTokens                   // credentials that only the caller has
	ailingJournal               // a journal that fails for a while, before or after its commits
	flows                       // functions of several calls
	flowChanges                 // … that are changed between versions, with and without saying so
	shortKeep                   // journals that keep outcomes no longer than providers know their keys
	disasters                   // a journal on SQLite that is lost, and restored from a backup
	clocks                      // clocks that are wrong, by less than the margin, jump, and are set right
	corrections                 // wrong tables that are corrected while a provider is down for longer than it remembers
	colleagues                  // a second operator, quicker with the same evidence
	blips                       // networks that are down for seconds, during many calls
	looks                       // Config.Reconcile, and providers that show their objects
	webhooks                    // … and send events: lost, late, doubled and out of order
	lookless                    // … at half of the processes
	lookHooks                   // … and a look-up of the business's own
	outboxes                    // operations that are enqueued in transactions, which commit or roll back
	boxed                       // a provider of this module's tables, by providertest
	settledTx                   // Outcomes.HandleTx, at every process
	stricts                     // Config.Strict, and unprotected requests
	scopes                      // one name in two scopes
	accounts                    // a second caller for another account
	budgets                     // Config.RetryBudget, that is soon used up
	standstills                 // processes that stand still for a while, also for longer than their session lasts
	regrets                     // a person who withdraws operations
	undos                       // flows that are given up more often, each step undone by two calls, with failures between them
	releases                    // operators who put pending operations on hold, and release them
	returns                     // callers that ask again when all is well, for operations that were cancelled long ago
	fickle                      // providers that decline a second request while the first one dawdles
	habitCount

	firstHabits = corrections // those after it are drawn each for itself, so that a seed's others stay as they were
)

var habitNames = [habitCount]string{
	"outages", "refused-tokens", "wrong-tables", "wrong-memory", "quoted-keys", "partial-tables", "withheld", "sealed-vaults", "panics", "pages",
	"operators", "kills", "killed-in-commit", "stops", "deadlines", "cancels", "doubles", "carried-keys", "unnamed", "other-names",
	"hurried", "no-on-settled", "secrets", "short-memory", "other-requests", "key-under-name", "shared-keys", "modes", "own-tokens",
	"ailing-journal", "flows", "flow-changes", "short-keep", "disasters", "clocks",
	"corrections", "colleagues", "blips", "looks", "webhooks", "lookless", "look-hooks", "outboxes", "boxed", "settled-tx", "stricts", "scopes", "accounts", "budgets",
	"standstills", "regrets", "undos", "releases", "returns", "fickle",
}

func (h habit) String() string { return habitNames[h] }

// set is a set of habits or of fates, by number.
type set uint64

func (s set) has(n int) bool { return s&(1<<n) != 0 }

func setOf(members ...int) (s set) {
	for _, n := range members {
		s |= 1 << n
	}
	return s
}

func (s set) members() (all []int) {
	for n := range 64 {
		if s.has(n) {
			all = append(all, n)
		}
	}
	return all
}

func drawSet(random dice, n int, share float64) (s set) {
	for i := range n {
		if random.Float64() < share {
			s |= 1 << i
		}
	}
	return s
}

// draw draws a life. Most are small, since a small one finds a fault sooner and tells
// more of it.
func draw(seed uint64) plan {
	random := dice{rand.New(rand.NewPCG(seed, 1))}
	p := plan{seed: seed, trouble: 0.05 + 0.55*random.Float64()}
	var errands int
	switch n := random.IntN(40); {
	case n < 28:
		p.processes, errands = 1+random.IntN(2), 1+random.IntN(4)
		p.length = 10*time.Minute + random.within(time.Hour)
		p.habits, p.fates = drawSet(random, int(firstHabits), 0.25), drawSet(random, int(fateCount), 0.3)
	case n < 39:
		p.processes, errands = 1+random.IntN(3), 2+random.IntN(9)
		p.length = time.Hour + random.within(3*time.Hour)
		p.habits, p.fates = drawSet(random, int(firstHabits), 0.35), drawSet(random, int(fateCount), 0.5)
	default:
		p.processes, errands = 1+random.IntN(4), 4+random.IntN(24)
		p.length = 6*time.Hour + random.within(18*time.Hour)
		p.habits, p.fates = drawSet(random, int(firstHabits), 0.5), 1<<fateCount-1
	}
	p.fates &^= setOf(int(goesWell))
	for h := firstHabits; h < habitCount; h++ {
		if p.dice("habit", h.String()).of(4) {
			p.habits |= setOf(int(h))
		}
	}
	if p.has(corrections) {
		p.habits |= setOf(int(wrongTables))
		p.length = max(p.length, 2*time.Hour)
	}
	for i := range errands {
		p.errands = append(p.errands, i)
	}
	if p.length < 2*time.Hour { // the others take seconds there
		p.sqlite = random.of(50) || p.has(disasters) && random.of(15)
	}
	return p
}

func (p plan) has(h habit) bool { return p.habits.has(int(h)) }

// dice are separate streams, one for each drawn thing, so leaving one thing out changes nothing of the others.
func (p plan) dice(about ...any) dice {
	h := fnv.New64a()
	fmt.Fprint(h, about...)
	return dice{rand.New(rand.NewPCG(p.seed, h.Sum64()))}
}

// dice are drawn from by one at a time.
type dice struct{ *rand.Rand }

// of is true once in n times.
func (d dice) of(n int) bool { return d.IntN(n) == 0 }

// within is shorter than most.
func (d dice) within(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(max(int64(most), 1)))
}

// flags are the flags that repeat the plan.
func (p plan) flags() string {
	whole := draw(p.seed)
	flags := []string{fmt.Sprintf("-sim.seed %d", p.seed)}
	if p.processes != whole.processes {
		flags = append(flags, fmt.Sprintf("-sim.processes %d", p.processes))
	}
	if !slices.Equal(p.errands, whole.errands) {
		flags = append(flags, "-sim.errands "+strings.ReplaceAll(strings.Trim(fmt.Sprint(p.errands), "[]"), " ", ","))
	}
	var without []string
	for h := range habitCount {
		if whole.has(h) && !p.has(h) {
			without = append(without, h.String())
		}
	}
	for f := range fateCount {
		if whole.fates.has(int(f)) && !p.fates.has(int(f)) {
			without = append(without, strings.ReplaceAll(f.String(), " ", "-"))
		}
	}
	if len(without) > 0 {
		flags = append(flags, "-sim.without "+strings.Join(without, ","))
	}
	return strings.Join(flags, " ")
}

// only returns the plan made smaller by the flags.
func (p plan) only(processes int, errands, without string) (plan, error) {
	if processes > 0 {
		p.processes = min(p.processes, processes)
	}
	if errands != "" {
		p.errands = nil
		for _, n := range strings.Split(errands, ",") {
			i, err := strconv.Atoi(n)
			if err != nil {
				return p, fmt.Errorf("-sim.errands: %w", err)
			}
			p.errands = append(p.errands, i)
		}
	}
	out, err := parse(without)
	p.habits &^= out.habits
	p.fates &^= out.fates
	return p, err
}

// parts are habits and fates.
type parts struct{ habits, fates set }

// hasAll tells whether all of them are in the plan.
func (p plan) hasAll(of parts) bool {
	return p.habits&of.habits == of.habits && p.fates&of.fates == of.fates
}

// parse reads habits and fates from a flag.
func parse(names string) (of parts, err error) {
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' }) {
		found := false
		for h := range habitCount {
			if h.String() == name {
				of.habits |= setOf(int(h))
				found = true
			}
		}
		for f := range fateCount {
			if strings.ReplaceAll(f.String(), " ", "-") == name {
				of.fates |= setOf(int(f))
				found = true
			}
		}
		if !found {
			return of, fmt.Errorf("there is no %q in lives", name)
		}
	}
	return of, nil
}

// smaller are plans with less than this plan, the smallest first.
func (p plan) smaller() (all []plan) {
	add := func(change func(*plan)) {
		q := p
		q.errands = slices.Clone(p.errands)
		change(&q)
		all = append(all, q)
	}
	if n := len(p.errands); n > 1 {
		add(func(q *plan) { q.errands = q.errands[:n/2] })
		add(func(q *plan) { q.errands = q.errands[n/2:] })
		if n <= 8 {
			for i := range n {
				add(func(q *plan) { q.errands = slices.Delete(q.errands, i, i+1) })
			}
		}
	}
	for _, of := range []func(*plan) *set{func(q *plan) *set { return &q.habits }, func(q *plan) *set { return &q.fates }} {
		there := of(&p).members()
		for half := range slices.Chunk(there, max((len(there)+1)/2, 2)) {
			add(func(q *plan) { *of(q) &^= setOf(half...) })
		}
		for _, i := range there {
			add(func(q *plan) { *of(q) &^= setOf(i) })
		}
	}
	if p.processes > 1 {
		add(func(q *plan) { q.processes = 1 })
		add(func(q *plan) { q.processes-- })
	}
	return all
}
