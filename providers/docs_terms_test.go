package providers_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// termsTable compares the providers, one row each.
func termsTable() string {
	var b strings.Builder
	b.WriteString("| provider | key | kept for | replays | two at once | another body | 429 proves not executed | keys belong to |\n|---|---|---|---|---|---|---|---|\n")
	for _, p := range adapters() {
		var key, kept, replays, guard, misuse, limited []string
		for _, e := range p.Endpoints {
			if e.NoEffect {
				continue
			}
			limited = appendNew(limited, limitCell(e))
			if e.Key.Place == providers.KeyNone {
				continue
			}
			key = appendNew(key, fmt.Sprintf("%s `%s`", e.Key.Place, e.Key.Name))
			kept = appendNew(kept, retentionCell(p, e))
			replays = appendNew(replays, e.Remembers.String())
			guard = appendNew(guard, guardCell(e))
			misuse = appendNew(misuse, misuseCell(e))
		}
		belong := "–"
		if p.CredentialScoped {
			belong = "credential"
		}
		fmt.Fprintf(&b, "| [%s](#%s)", p.Name, strings.ReplaceAll(p.Name, ".", ""))
		for _, cells := range [][]string{key, kept, replays, guard, misuse, limited} {
			fmt.Fprintf(&b, " | %s", cmp.Or(strings.Join(cells, "<br>"), "–"))
		}
		fmt.Fprintf(&b, " | %s |\n", belong)
	}
	return b.String()
}

// guardCell describes the fate of a second request while the first is worked on.
func guardCell(e providers.Endpoint) string {
	switch {
	case e.InFlightGuard:
		return "one runs"
	case e.HandlingTime > 0:
		return "one runs, " + period(e.HandlingTime) + " apart"
	}
	return "not published"
}

// misuseCell names the status of a provider's refusal if a key was used with another request.
func misuseCell(e providers.Endpoint) string {
	var statuses []string
	for _, r := range e.Rules {
		if r.Verdict == providers.Misuse {
			status, _, _ := strings.Cut(conditions([]providers.Rule{r}), "; ")
			statuses = appendNew(statuses, status)
		}
	}
	if len(statuses) == 0 {
		return "no rule"
	}
	return strings.Join(statuses, ", ")
}

// limitCell says whether a 429 proves that its request was not executed.
func limitCell(e providers.Endpoint) string {
	var proofs, unless []string
	for _, r := range e.Rules {
		if last := max(r.Status, r.Through); r.Status > 429 || r.Status != 0 && last < 429 {
			continue
		}
		var texts []string
		if r.Equals != "" {
			texts = append(texts, r.Equals)
		}
		whenever := strings.Join(moreConditions(r, texts), ", ")
		marks := strings.Join(confidence.FindAllString(r.Source, -1), "")
		switch proves := r.Verdict == providers.NotExecuted || r.Verdict == providers.Rejected; {
		case whenever != "" && r.Verdict == providers.NotExecuted:
			proofs = append(proofs, "if "+whenever+" "+marks)
		case whenever != "" && !proves:
			unless = append(unless, " unless "+whenever)
		case whenever != "":
		case proves:
			return strings.TrimSpace("yes "+marks) + strings.Join(unless, ", ")
		default:
			return cmp.Or(strings.Join(proofs, ", "), "no")
		}
	}
	return cmp.Or(strings.Join(proofs, ", "), "no")
}

// If the page says yes, a 429 with any body was not executed. Otherwise a 429 without a known body does not prove that.
func TestDocumentedLimitsAreTheVerdicts(t *testing.T) {
	t.Parallel()
	for _, p := range adapters() {
		for _, e := range p.Endpoints {
			if e.NoEffect {
				continue
			}
			rt := tables.Route{Provider: &p, Endpoint: &e, Listed: true}
			for _, later := range []bool{false, true} {
				verdict := rt.Classify(row{"", http.StatusTooManyRequests, "", "", 0, 0}.answer(later)).Verdict
				assert.Equal(t, strings.HasPrefix(limitCell(e), "yes"), verdict == notExecuted, "%s, %s: %v", p.Name, e.Pattern, verdict)
			}
		}
	}
}
