package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Result is a search's result.
type Result struct {
	States, Transitions int
	Depth               int        // the longest of the shortest ways to a state
	Edges               []Edge     // the changes of records by events, each once
	Violation           *Violation // nil: every invariant holds in every state
}

// Edge is a change of a record's state by an event.
type Edge struct {
	From, To string // a state, or "tombstone"
	Event    machine.EventKind
}

// Violation is a broken invariant, and a shortest history that breaks the invariant.
type Violation struct {
	Invariant *Invariant
	History   History
}

// ErrTooLarge means that a search met the limit, so the result is not exhaustive.
var ErrTooLarge = errors.New("model: the search met its limit of states")

// Explore searches every possible history of a world, breadth first, and stops at the first invariant that is broken.
// Without one, and without an error, the search was exhaustive within the world's budgets. The error is ErrTooLarge
// if there are more states than limit.
func Explore(cfg *Config, rules Rules, limit int) (Result, error) {
	x := newExplorer(cfg, rules)
	g := &graph{parents: []uint32{0}}
	first := x.initial()
	x.canonical(&first)
	g.add(first.pack(), 0)
	var (
		res     Result
		current uint32
		before  state
		broken  *Invariant
		fair    = &edges{}
		full    bool
	)
	x.emit = func(s *state, ev event, f facts) {
		if broken != nil || full {
			return
		}
		res.Transitions++
		c := change{cfg, &before, s, x.op(&before), x.op(s), f}
		for i := range Invariants {
			if in := &Invariants[i]; in.holds != nil && (rules.Only == 0 || rules.Only == in.Number) && !in.holds(&c) {
				broken = in
				res.Violation = &Violation{in, x.history(g, current, ev)}
				return
			}
		}
		x.canonical(s)
		n := g.add(s.pack(), current)
		if !f.faulty {
			fair.add(n)
		}
		full = len(g.states) > limit
	}
	level := uint32(1)
	for current = 0; int(current) < len(g.states); current++ {
		if current == level {
			res.Depth++
			level = uint32(len(g.states))
		}
		before = g.states[current].unpack()
		fair.begin()
		x.successors(&before)
		if broken != nil {
			break
		}
		if full {
			return res, fmt.Errorf("%w: more than %d", ErrTooLarge, limit)
		}
	}
	res.States, res.Edges = len(g.states), x.edges()
	if broken != nil || rules.Only != 0 && Invariants[rules.Only-1].holds != nil {
		return res, nil
	}
	if stuck, any := x.stuck(g, fair); any {
		for i := range Invariants {
			if Invariants[i].holds == nil {
				res.Violation = &Violation{&Invariants[i], x.historyTo(g, stuck)}
			}
		}
	}
	return res, nil
}

// edges are the changes of state that Next was seen to make.
func (x *explorer) edges() []Edge {
	seen := map[Edge]bool{}
	for a, out := range x.answers {
		e := Edge{x.records.values[a.op].place(), x.records.values[out.op].place(), a.kind}
		if e.From != e.To {
			seen[e] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Event, b.Event))
	})
}

func (r *record) place() string {
	if r.Tombstone {
		return "tombstone"
	}
	return r.State.String()
}

// graph is the set of states found, in the order of their discovery.
type graph struct {
	states  []key
	parents []uint32
	table   []uint32 // open addressing: a state's number and one
}

func (g *graph) add(k key, parent uint32) uint32 {
	if 2*len(g.states) >= len(g.table) {
		g.grow()
	}
	mask := uint64(len(g.table) - 1)
	for i := k.hash() & mask; ; i = (i + 1) & mask {
		n := g.table[i]
		if n == 0 {
			g.table[i] = uint32(len(g.states) + 1)
			g.states = append(g.states, k)
			if len(g.states) > 1 {
				g.parents = append(g.parents, parent)
			}
			return uint32(len(g.states) - 1)
		}
		if g.states[n-1] == k {
			return n - 1
		}
	}
}

func (g *graph) grow() {
	g.table = make([]uint32, max(1024, 2*len(g.table)))
	mask := uint64(len(g.table) - 1)
	for n := range g.states {
		i := g.states[n].hash() & mask
		for g.table[i] != 0 {
			i = (i + 1) & mask
		}
		g.table[i] = uint32(n + 1)
	}
}

func (k *key) hash() uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range k {
		h = (h ^ w) * 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}

// edges are the steps without a fault, by the state that they start from.
type edges struct {
	starts []uint32
	ends   []uint32
}

func (e *edges) begin() { e.starts = append(e.starts, uint32(len(e.ends))) }

func (e *edges) add(to uint32) { e.ends = append(e.ends, to) }

// stuck returns the first state from which no path without faults leads to an end. It works backwards from the ends.
func (x *explorer) stuck(g *graph, fair *edges) (uint32, bool) {
	fair.begin()
	ends := make([]bool, len(g.states))
	for again := true; again; {
		again = false
		for n := len(g.states) - 1; n >= 0; n-- {
			if ends[n] {
				continue
			}
			op := &x.records.values[uint32(g.states[n][0])]
			ends[n] = op.State == journal.StateAbsent || op.State > journal.StateInFlight
			for _, to := range fair.ends[fair.starts[n]:fair.starts[n+1]] {
				ends[n] = ends[n] || ends[to]
			}
			again = again || ends[n]
		}
	}
	for n := range ends {
		if !ends[n] {
			return uint32(n), true
		}
	}
	return 0, false
}
