package run

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/internal/wire"
	"github.com/onceward/onceward/providers"
)

// classify asks the provider's table what an answer means.
func (r *Run) classify() {
	a := &r.attempt
	if a.local != nil {
		return
	}
	if a.err == nil {
		answer, read := r.answerHead(), false
		switch {
		case a.cut != nil:
			answer = wire.Begun(answer, a.body, false, *r.route)
		case a.partial:
			answer, read = wire.Legible(answer, a.whole, *r.route)
		default:
			answer, read = wire.Legible(answer, a.body, *r.route)
		}
		a.judged = r.route.Classify(answer)
		if d, ok := r.route.Declared(answer); ok && d < r.op.Terms.Retention {
			r.op.Terms.Retention, r.stats.declared = d, cmp.Or(d, -1)
		}
		if a.open = !read && r.route.Open(answer, a.judged.Verdict) || a.cut == nil && r.hidesDecline(); a.open {
			a.judged.Credential = false // nor does it tell of a credential
		}
		a.whole = nil // the stream has it
	}
	r.seen()
	r.attempted()
}

// declined reports whether the provider's table takes the answer for a decline: a success without an effect.
func (r *Run) declined() bool {
	a, p := &r.attempt, r.route.Provider
	if p == nil || len(p.Declines) == 0 || a.partial || a.cut != nil {
		return false
	}
	answer, read := wire.Plain(r.answerHead(), a.body)
	return read && tables.Declined(p, answer)
}

// finalByStatus reports whether a cut answer's status line and headers alone
// are the operation's answer. A success is not if it may be a decline.
func (r *Run) finalByStatus() bool {
	return r.attempt.judged.Verdict == providers.Final && !r.attempt.open && !r.hidesDecline()
}

// hidesDecline reports whether an answer may be a decline: a success from a table with declines, whose body is cut or
// has an unreadable coding.
func (r *Run) hidesDecline() bool {
	a, p := &r.attempt, r.route.Provider
	if p == nil || len(p.Declines) == 0 || a.partial || a.judged.Verdict != providers.Final || a.resp.StatusCode >= 300 {
		return false
	}
	_, read := wire.Plain(r.answerHead(), a.body)
	return a.cut != nil || !read && len(a.resp.Header.Values("Content-Encoding")) > 0
}

// comparesRequests reports whether the provider documents an answer for a key that comes with another request.
func (r *Run) comparesRequests() bool {
	return slices.ContainsFunc(r.route.Endpoint.Rules, func(rule providers.Rule) bool { return rule.Verdict == providers.Misuse })
}

func (a *attempt) status() string { return fmt.Sprintf("status %d", a.resp.StatusCode) }
