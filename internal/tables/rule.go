package tables

import (
	"net/http"
	"strings"

	"github.com/onceward/onceward/providers"
)

// matches reports whether all conditions hold. reads are the rule's paths.
func matches(r *providers.Rule, a *reading, reads ruleReads) (pointer string, ok bool) {
	if !matchesHead(r, a) {
		return "", false
	}
	if reads.field != none && !a.fieldSays(reads.field, r.Equals) {
		return "", false
	}
	if reads.field != none && deniesEffect(r.Verdict) && !everyBranchSays(a.json(), r.Field, r.Equals) {
		return "", false
	}
	if r.Without != "" && !leadsToNothing(a, r.Without) {
		return "", false
	}
	if reads.pointer != none {
		return a.onlyField(reads.pointer)
	}
	return "", true
}

// matchesHead reports whether all conditions hold that are not about the body.
func matchesHead(r *providers.Rule, a *reading) bool {
	if r.Status != 0 && (a.Status < r.Status || a.Status > max(r.Status, r.Through)) {
		return false
	}
	switch r.On {
	case providers.FirstAttempt:
		if a.Later {
			return false
		}
	case providers.LaterAttempt:
		if !a.Later {
			return false
		}
	case providers.FirstAttemptOwnKey:
		if a.Later || !a.OwnKey {
			return false
		}
	}
	return r.Header == "" || headerSays(a.Header, r.Header, r.Value)
}

// headerSays reports whether the header is present and every line has the value. A header that contradicts itself says
// nothing.
func headerSays(h http.Header, name, value string) bool {
	lines := h.Values(name)
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if value == "" && line != strings.TrimSpace(lines[0]) || value != "" && !strings.EqualFold(line, value) {
			return false
		}
	}
	return len(lines) > 0
}
