package tables

import (
	"bytes"
	"strings"

	"github.com/onceward/onceward/providers"
)

// reader is an endpoint's rules, prepared for reading many answers.
type reader struct {
	rules []providers.Rule
	reads []ruleReads

	paths  [][]step
	all    pathSet
	ending []pathSet // by the number of their steps
	wild   []pathSet // with a "*" after so many steps
}

// ruleReads holds the numbers of the paths that one rule reads in a body, or none.
type ruleReads struct{ field, pointer int }

const none = -1

// pathSet is a set of paths, by their number in a reader.
type pathSet uint64

// maxPaths is the number of paths that a pathSet has room for. [providers.Provider.Validate] refuses more.
const maxPaths = 64

// step is one name in a field's path.
type step struct {
	name  string // "*": any
	array bool   // its value is an array, any element of which goes on
}

func stepsOf(path string) (steps []step) {
	for name := range strings.SplitSeq(path, ".") {
		name, array := strings.CutSuffix(name, "[]")
		steps = append(steps, step{name, array})
	}
	return steps
}

func newReader(rules []providers.Rule) *reader {
	r := &reader{rules: rules, reads: make([]ruleReads, len(rules))}
	numbers := map[string]int{}
	for i := range rules {
		r.reads[i] = ruleReads{field: none, pointer: none}
		if rules[i].Field != "" {
			r.reads[i].field = r.number(numbers, rules[i].Field)
		}
		if rules[i].Verdict == providers.AlreadyDone && rules[i].Pointer != "" {
			r.reads[i].pointer = r.number(numbers, rules[i].Pointer)
		}
	}
	return r
}

// number returns a path's. One too many leads nowhere; Validate has refused it.
func (r *reader) number(numbers map[string]int, path string) int {
	n, known := numbers[path]
	if known {
		return n
	}
	n = len(r.paths)
	numbers[path] = n
	if n >= maxPaths {
		return maxPaths
	}
	steps := stepsOf(path)
	r.paths = append(r.paths, steps)
	r.all |= 1 << n
	for len(r.ending) <= len(steps) {
		r.ending = append(r.ending, 0)
		r.wild = append(r.wild, 0)
	}
	r.ending[len(steps)] |= 1 << n
	for i, s := range steps {
		if s.name == "*" {
			r.wild[i] |= 1 << n
		}
	}
	return n
}

// of reports whether the reader was made from these rules.
func (r *reader) of(rules []providers.Rule) bool {
	return r != nil && len(r.rules) == len(rules) && (len(rules) == 0 || &r.rules[0] == &rules[0])
}

func (r *reader) endingAt(steps int) pathSet {
	if steps < len(r.ending) {
		return r.ending[steps]
	}
	return 0
}

func (r *reader) wildAt(steps int) pathSet {
	if steps < len(r.wild) {
		return r.wild[steps]
	}
	return 0
}

// under returns the paths whose next step is a member with the name, a string literal, and the paths whose step there
// is an array.
func (r *reader) under(on pathSet, steps int, literal []byte) (into, lists pathSet) {
	if on == 0 {
		return 0, 0
	}
	name := inner(literal)
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(literal))
	}
	for i, path := range r.paths {
		if on&(1<<i) == 0 || len(path) <= steps {
			continue
		}
		if s := &path[steps]; s.name == string(name) || s.name == "*" {
			into |= 1 << i
			if s.array {
				lists |= 1 << i
			}
		}
	}
	return into, lists
}

// decide finds the first rule that matches.
func (r *reader) decide(a *reading, j *Judgement) bool {
	a.use(r)
	for i := range r.rules {
		if pointer, ok := matches(&r.rules[i], a, r.reads[i]); ok {
			rule := &r.rules[i]
			j.Verdict, j.Pointer, j.Source = rule.Verdict, pointer, rule.Source
			j.Credential = rule.Verdict == providers.Rejected && (rule.Credential || a.Status == 401 || a.Status == 407)
			return true
		}
	}
	return false
}

var defaultReader = newReader(defaultRules)
