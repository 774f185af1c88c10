package providers_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/providers"
)

// resend is the fate of a request that may have run.
type resend uint8

const (
	resendNever      resend = iota
	resendAlways            // after every ambiguous failure
	resendLostAnswer        // but not after a failure that was received
	resendIdempotent        // while the caller waits
	notJournaled
)

// resendOf asks the resend rule.
func resendOf(e providers.Endpoint) resend {
	now := conformanceTime
	terms := termsOf(e)
	may := func(failed bool) bool {
		q := machine.Question{MayHaveRun: true, Failed: failed, Terms: terms, FirstSentAt: now, LastEndedAt: now, Clock: now, Last: now}
		if !terms.Guard {
			q.Clock = now.Add(terms.Handling)
		}
		return machine.MaySend(q).Answer == machine.SendNow
	}
	switch {
	case e.NoEffect:
		return notJournaled
	case may(true):
		return resendAlways
	case may(false):
		return resendLostAnswer
	case e.Idempotent:
		return resendIdempotent
	}
	return resendNever
}

// toState lists the fields of an endpoint that would have its requests sent again after every ambiguous failure.
func toState(e providers.Endpoint) (fields []string) {
	if e.NoEffect || e.Key.Place == providers.KeyNone {
		return nil
	}
	if e.Remembers < providers.SuccessesCleanFailures {
		fields = append(fields, "Remembers")
	}
	if e.Retention == 0 {
		fields = append(fields, "Retention")
	}
	if !e.InFlightGuard && e.HandlingTime == 0 {
		fields = append(fields, "InFlightGuard")
	}
	return fields
}

// reasons says why an endpoint's requests are not sent again.
func reasons(e providers.Endpoint) string {
	if e.Key.Place == providers.KeyNone {
		return "the request has no key"
	}
	if e.Remembers == providers.Nothing {
		return "nothing is known of the key"
	}
	var texts []string
	for _, field := range toState(e) {
		switch {
		case field == "Remembers" && e.Remembers == providers.Successes:
			texts = append(texts, "a failure may have had an effect")
		case field == "Retention":
			texts = append(texts, "no retention is published")
		case field == "InFlightGuard":
			texts = append(texts, "no guard is published")
		}
	}
	return strings.Join(texts, "; ")
}

// window says for how long a request is sent again.
func window(p providers.Provider, e providers.Endpoint) string {
	text := period(termsOf(e).Window())
	if callersRetention(p, e) {
		text = "your retention less the margin"
	}
	if !e.InFlightGuard && e.HandlingTime > 0 {
		text += fmt.Sprintf(", %s after an attempt at the earliest", period(e.HandlingTime))
	}
	return text
}

// threeLines lists the requests that are sent again, those that end unknown, and the facts that a caller may state.
func threeLines(b *strings.Builder, s *section) {
	var again, unknown, limits, state grouped
	for i, e := range s.provider.Endpoints {
		at := fmt.Sprint(i)
		if !e.NoEffect {
			limits.add(afterLimit(e), at)
		}
		switch resendOf(e) {
		case resendAlways:
			again.add("after every ambiguous failure, for "+window(s.provider, e), at)
		case resendLostAnswer:
			again.add("after a lost answer only, for "+window(s.provider, e), at)
			unknown.add("after a failure that the provider sent", at)
		case resendIdempotent:
			again.add("while the caller waits, if the operation has no name. The provider calls the request idempotent", at)
		case resendNever:
			unknown.add(reasons(e), at)
		}
		if fields := toState(e); len(fields) > 0 {
			state.add(code(fields), at)
		}
	}
	list := func(name string, g grouped, none string) {
		fmt.Fprintf(b, "- **%s**", name)
		if len(g.facts) == 0 {
			fmt.Fprintf(b, ": %s.\n", none)
			return
		}
		b.WriteString(":\n")
		for _, fact := range g.facts {
			fmt.Fprintf(b, "  - %s: %s.\n", s.subject(g.texts[fact]), fact)
		}
	}
	list("Sent again", again, "no request that may have run")
	list("Ends unknown", unknown, "a request that Onceward could not repeat in time")
	list("After a 429", limits, "not known")
	list("For you to state", state, "nothing")
}

func lower(text string) string {
	if strings.HasPrefix(text, "Every") || strings.HasPrefix(text, "Row") {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// With the facts that the page asks for, a request is sent again after every ambiguous failure. Each of them is needed.
func TestDocumentedFactsToStateAreEnough(t *testing.T) {
	t.Parallel()
	for _, p := range adapters() {
		for _, e := range p.Endpoints {
			fields := toState(e)
			if e.NoEffect || e.Key.Place == providers.KeyNone {
				continue
			}
			assert.Equal(t, resendAlways, resendOf(stated(e, fields, "")), "%s, %s", p.Name, e.Pattern)
			for _, without := range fields {
				assert.NotEqual(t, resendAlways, resendOf(stated(e, fields, without)), "%s, %s without %s", p.Name, e.Pattern, without)
			}
		}
	}
}

// stated returns an endpoint with all of the fields stated but one.
func stated(e providers.Endpoint, fields []string, without string) providers.Endpoint {
	for _, field := range fields {
		switch {
		case field == without:
		case field == "Remembers":
			e.Remembers = providers.SuccessesCleanFailures
		case field == "Retention":
			e.Retention = 24 * time.Hour
		case field == "InFlightGuard":
			e.InFlightGuard = true
		}
	}
	return e
}

// afterLimit says what a 429 shows.
func afterLimit(e providers.Endpoint) string {
	cell := limitCell(e)
	if proof, yes := strings.CutPrefix(cell, "yes"); yes {
		return "not executed" + proof
	}
	if cell == "no" {
		return "the request may have run"
	}
	return "not executed " + cell
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
