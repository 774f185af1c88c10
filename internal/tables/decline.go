package tables

import (
	"strings"

	"github.com/onceward/onceward/providers"
)

// maxDeclined is the largest body of a decline, in bytes.
const maxDeclined = 64 << 10

// Declined reports whether an answer is a success of the provider's that says, by p.Declines, that nothing took
// effect. body is the answer's, decoded and whole. It returns false if the body is not known (nil). It works for a
// recorded answer as well as for a new one, p may be nil, and it is safe for concurrent use.
func Declined(p *providers.Provider, a Answer) bool {
	if p == nil || len(p.Declines) == 0 || !Recognises(p, a.Status, a.Header, a.Body) ||
		len(a.Body) > maxDeclined || len(lines(a.Header, "Content-Encoding")) > 0 {
		return false
	}
	for i := range p.Declines {
		if says(&p.Declines[i], a.Body) {
			return true
		}
	}
	return false
}

func says(d *providers.Decline, body []byte) bool {
	w := declineWalk{jsonText: jsonText{in: body}, equals: d.Equals, said: true}
	w.space()
	return w.follow(strings.Split(strings.ReplaceAll(d.Field, "[]", ".[]"), "."), 0) && w.ended() && w.said
}

// declineWalk reads a JSON text once.
type declineWalk struct {
	jsonText
	equals string
	said   bool // all that the path led to so far, in each of its branches
}

// follow consumes a value, and the path goes on in it.
func (w *declineWalk) follow(path []string, depth int) (ok bool) {
	if depth > maxDepth {
		return false
	}
	from, found := w.pos, 0
	switch c := w.next(); {
	case c == '{' && len(path) > 0:
		ok = w.members(func(name []byte) bool {
			if path[0] != "*" && !isName(name, path[0]) {
				return w.value(depth + 1)
			}
			found++
			return w.follow(path[1:], depth+1)
		})
		w.said = w.said && found == 1
	case c == '[' && len(path) > 0 && path[0] == "[]":
		ok = w.elements(func() bool {
			found++
			return w.follow(path[1:], depth+1)
		})
		w.said = w.said && found > 0
	default:
		ok = w.value(depth)
		w.said = w.said && ok && len(path) == 0 && c != '{' && c != '[' && c != 'n' && scalarSays(w.in[from:w.pos], w.equals)
	}
	return ok
}
