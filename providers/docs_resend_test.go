package providers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
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
		return ""
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
	var again, unknown, state grouped
	for i, e := range s.provider.Endpoints {
		at := fmt.Sprint(i)
		switch resendOf(e) {
		case resendAlways:
			again.add("for "+window(s.provider, e), at)
		case resendLostAnswer:
			again.add("after a lost answer only, for "+window(s.provider, e), at)
			unknown.add("after a failure that was received", at)
		case resendIdempotent:
			again.add("unnamed, while its caller waits, as the provider calls it idempotent", at)
		case resendNever:
			unknown.add(reasons(e), at)
		}
		if fields := toState(e); len(fields) > 0 {
			state.add(code(fields), at)
		}
	}
	line := func(name string, g grouped, text func(subject, fact string) string, none string) {
		var texts []string
		for _, fact := range g.facts {
			texts = append(texts, text(s.subject(g.texts[fact]), fact))
		}
		if len(texts) == 0 {
			texts = []string{none}
		}
		fmt.Fprintf(b, "- *%s:* %s.", name, strings.Join(texts, ". "))
	}
	line("Sent again", again, func(subject, fact string) string { return subject + ", " + fact }, "Nothing that may have run")
	b.WriteString("\n")
	line("Ends unknown", unknown, func(subject, fact string) string {
		switch {
		case fact == "" && subject != "Every request without a key":
			return subject + ", without a key"
		case fact == "":
			return subject
		case strings.HasPrefix(fact, "after"):
			return subject + " " + fact
		}
		return subject + ": " + fact
	}, "Only after that time")
	if len(s.provider.Events) == 0 && len(s.lookups) == 0 {
		b.WriteString(" No look-up is known.")
	}
	b.WriteString("\n")
	var absences grouped
	for i, look := range s.lookups {
		if cell := absenceCell(look.endpoint, look.lookup); strings.HasPrefix(cell, "`") {
			absences.add(cell, fmt.Sprint(i+1))
		}
	}
	nothing := "Nothing"
	if len(absences.facts) > 0 {
		nothing = "Nothing for a repeat"
	}
	line("To state", state, func(subject, fact string) string { return fact + " for " + lower(subject) }, nothing)
	for _, fields := range absences.facts {
		fmt.Fprintf(b, " To prove an absence: %s for %s.", fields, lookupNumbers(absences.texts[fields]))
	}
	b.WriteString("\n")
}

// lookupNumbers names look-ups.
func lookupNumbers(numbers []string) string {
	if len(numbers) == 1 {
		return "look-up " + numbers[0]
	}
	return "look-ups " + runsOf(numbers)
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
