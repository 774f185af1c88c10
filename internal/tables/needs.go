package tables

import "github.com/onceward/onceward/providers"

// NeedsBody reports whether an answer's meaning may depend on body fields. The body is then wanted whole and decoded.
// a.Body is not looked at.
func (rt Route) NeedsBody(a Answer) bool {
	if rt.Endpoint.Declared.Field != "" {
		return true
	}
	r := rt.head(a)
	for i := range rt.Endpoint.Rules {
		rule := &rt.Endpoint.Rules[i]
		if matchesHead(rule, &r) {
			return rule.Field != "" || rule.Verdict == providers.AlreadyDone || rule.Without != ""
		}
	}
	return false
}

// NeedsBeginning reports whether the first decoded bytes of an answer's body may show a sender other than the
// provider: see [Recognises].
func (rt Route) NeedsBeginning(a Answer) bool {
	return rt.Listed && success(a.Status) && rt.Provider != nil && len(rt.Provider.Answers) > 0
}

// Open reports whether the fields in an unknown body could change an answer's verdict. They could if a rule that may
// match, up to the first rule without a field, has another verdict.
func (rt Route) Open(a Answer, judged providers.Verdict) bool {
	if !rt.NeedsBody(a) {
		return false
	}
	r := rt.head(a)
	for i := range rt.Endpoint.Rules {
		rule := &rt.Endpoint.Rules[i]
		if !matchesHead(rule, &r) {
			continue
		}
		if rule.Verdict != judged || rule.Verdict == providers.AlreadyDone {
			return true
		}
		if rule.Field == "" && rule.Without == "" {
			return false
		}
	}
	var j Judgement
	defaultReader.decide(&r, &j)
	return j.Verdict != judged
}

// head returns the known parts of an answer without its body.
func (rt Route) head(a Answer) reading {
	r := reading{Answer: a}
	if p := rt.Provider; rt.Listed && p != nil && p.ReplayHeader != "" {
		r.Later = r.Later || headerSays(a.Header, p.ReplayHeader, p.ReplayValue)
	}
	return r
}
