package tables

import "github.com/onceward/onceward/providers"

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
		if everyBranchSays(a.Body, p.Declines[i].Field, p.Declines[i].Equals) {
			return true
		}
	}
	return false
}
