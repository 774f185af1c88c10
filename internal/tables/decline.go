package tables

import "github.com/onceward/onceward/providers"

// maxDeclined is the largest decline body, in bytes.
const maxDeclined = 64 << 10

// Declined reports whether an answer is a provider's success that, by p.Declines, had no effect. body is the answer's,
// decoded and whole. The result is false for an unknown body (nil). Declined works for recorded answers and new ones, p
// may be nil, and concurrent use is safe.
func Declined(p *providers.Provider, a Answer) bool {
	if p == nil || len(p.Declines) == 0 || !Recognises(p, a.Status, a.Header, a.Body) ||
		len(a.Body) > maxDeclined || len(lines(a.Header, "Content-Encoding")) > 0 {
		return false
	}
	for i := range p.Declines {
		if everyBranchSays(a.Body, p.Declines[i].Field, p.Declines[i].Equals) {
			return true
		}
	}
	return false
}
