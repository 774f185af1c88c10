package tables

import (
	"bytes"
	"strings"

	"github.com/onceward/onceward/providers"
)

// everyBranchSays reports whether all branches of a path in a JSON body lead to a scalar with the text, or with any
// text if equals is empty. A branch is an array element, or for a * the object's only member. A branch without the
// scalar, and a member that occurs twice, make the answer false.
func everyBranchSays(body []byte, path, equals string) bool {
	said := true
	w := branchWalk{jsonText: jsonText{in: body}, value: func(value []byte) {
		said = said && value[0] != '{' && value[0] != '[' && !isEmpty(value) && (equals == "" || scalarSays(value, equals))
	}}
	return w.body(path) && !w.broken && said
}

// leadsToNothing reports whether no branch of a path in an answer's body leads to more than null or an empty value. It
// returns true for an answer without a body, and false for an unreadable body.
func leadsToNothing(a *reading, path string) bool {
	if len(a.Body) == 0 {
		return true
	}
	nothing := true
	w := branchWalk{jsonText: jsonText{in: a.json()}, value: func(value []byte) { nothing = nothing && isEmpty(value) }}
	return w.body(path) && nothing
}

// isEmpty reports whether a JSON value is null, "", {} or [].
func isEmpty(value []byte) bool {
	switch value[0] {
	case 'n':
		return true
	case '"':
		return len(value) == 2
	case '{', '[':
		return len(bytes.TrimLeft(value[1:], " \t\r\n")) == 1
	}
	return false
}

// branchWalk reads a JSON text once, and follows all branches of a path.
type branchWalk struct {
	jsonText
	value  func(value []byte) // receives the value at each branch's end
	broken bool               // a branch has no such value, or an object has several members on the path
}

// body consumes the whole text.
func (w *branchWalk) body(path string) bool {
	w.space()
	return w.follow(strings.Split(strings.ReplaceAll(path, "[]", ".[]"), "."), 0) && w.ended()
}

// follow consumes a value, and the path goes on in it.
func (w *branchWalk) follow(path []string, depth int) (ok bool) {
	if depth > maxDepth {
		return false
	}
	from, found := w.pos, 0
	switch c := w.next(); {
	case len(path) == 0:
		if ok = w.jsonText.value(depth); ok {
			w.value(w.in[from:w.pos])
		}
	case c == '{':
		ok = w.members(func(name []byte) bool {
			if path[0] != "*" && !isName(name, path[0]) {
				return w.jsonText.value(depth + 1)
			}
			found++
			return w.follow(path[1:], depth+1)
		})
		w.broken = w.broken || found != 1
	case c == '[' && path[0] == "[]":
		ok = w.elements(func() bool {
			found++
			return w.follow(path[1:], depth+1)
		})
		w.broken = w.broken || found == 0
	default:
		ok, w.broken = w.jsonText.value(depth), true
	}
	return ok
}

// deniesEffect reports whether a verdict says that the attempt had no effect. If one of several errors has another
// kind, the effect is open.
func deniesEffect(v providers.Verdict) bool {
	return v == providers.Rejected || v == providers.NotExecuted
}
