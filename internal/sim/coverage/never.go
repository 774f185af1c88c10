package coverage

import (
	"regexp"
	"strings"
)

// never says why lives don't come past a row: which habit they lack, or what forbids it. The key
// matches the row's cells, joined by commas; the first that matches counts.
var never = []struct{ row, why string }{
	// Transitions.
	{`^\w+, enqueue, `, "nobody enqueues it then"},
	{`^pending, (begin|claim), recorded → cancelled`, "nobody comes by once its time has passed"},
	{`^absent, (park|doubt|complete|deliver)`, "no claim is given up of what was reaped, or never begun"},
	{`^absent, (claim|reap)`, "a store offers no operation that it does not have"},
	{`^\w+, adopt, `, "no journal is restored from a backup"},
	{`^\w+, (park|doubt|cancel), (stale|replay)`, "nobody gives up at that moment what another has taken over"},
	{`^cancelled, resolve, recorded → completed`, "people go by the ledger, and nobody there says of what took effect that it did not"},
	{`^\w+, complete, (recorded → completed|replay|gone)`, "nobody's answer comes at that moment, after another has taken over"},
	{`^\w+, resolve, stale`, "no operator is overtaken between the look and the word"},
	{`^(pending|in_flight), resolve, `, "operators hold what is pending before they say what became of it, and leave what is in flight alone"},
	{`^in_flight, claim, wait`, "a claim passes over what a live session holds"},
	{`^(pending|unknown|cancelled|completed), claim, ignored`, "a claim takes what is due and undelivered only"},
	{`^pending, claim, later`, "a claim takes what is due only; later is seen of the unnamed, and where a clock has jumped"},
	{`^\w+, deliver, ignored`, "an outcome is delivered once, while it stands"},
	{`→ (tombstone|absent)|, gone$`, "no life is longer than an outcome is kept"},
	{`misuse`, "nobody asks for another request by the same name at that moment"},
	// Conditions of the rule.
	{`q\.Idempotent`, "nobody sends a PUT or DELETE without a name and a key"},
	{`t\.Retention <= 0`, "every table with a memory states a retention"},
	{`t\.Handling <= 0`, "every table without a guard states a handling time"},
	{`behind|SentBy|q\.FirstSentAt\.After|q\.WindowClosed|q\.Unconfirmed`, "the clock does not do that"},
	// Faults.
	{`^another operation has the carried key`, "nobody brings along a key that another operation has"},
	{`^the credential changed where keys are scoped`, "no table says that keys are scoped to the credential"},
	{`^the journal was restored`, "no journal is restored from a backup"},
	{`^CONNECT, Upgrade`, "nobody streams"},
	{`^asked again after reap`, "no life is longer than an outcome is kept"},
	// Errors.
	{"^`ErrOpenTransaction", "no local step asks for anything"},
	{"^`ErrJournalRestored", "no journal is restored from a backup"},
	{"^`ErrUnprotected", "nobody sends past a strict process then"},
	{"^`ErrNameNeeded", "no unnamed calls are made under a parent"},
	{"^`ErrRedirected", "no provider redirects"},
	{"^`ErrMoved", "no operator is overtaken between the look and the word"},
	{"^`ErrRetryBudget", "no process has as much under way at once"},
}

// notFound says why lives don't miss a clause, where that is known; of what no test of the client misses either, it says why
// nobody can. The key matches the clause's name; the first that matches counts.
var notFound = []struct{ clause, why string }{
	{`^rule\.go, Margin: .*→ t\.Retention / 4`, "needless"},
	{`^rule\.go, inside: if !behind → `, "it decides on words alone"},
	{`^next\.go, Next: case Withdrawn`, "when it was updated is recorded by no store where nothing else changes, and told to nobody"},
	{`^next\.go, termsBy: .*→ op\.Provider == ""$`, "a request that no provider serves has no terms, and narrows any to none"},
	{`^next\.go, claim: op\.State == StateInFlight && !live`, "a store offers nothing that a live session holds"},
	{`^next\.go, complete: case op\.Tombstone → false`, "whose answer comes too late is told the same of what is gone, and of what has an answer that is not there"},
	{`^next\.go, complete: case ev\.Answer == nil`, "the client records no answer that it does not have"},
	{`^next\.go, resolve: key == ""`, "the client makes a next key for whatever has one"},
	{`^evidence\.go, look: case ev\.Due\.IsZero`, "the client looks under a lease alone"},
	{`^evidence\.go, lastLooked: .*→ e\.Source != SourceEvent$`, "what a repeat has shown is kept of what that has completed, and no completed operation is looked for"},
	{`^evidence\.go, evidence: case e\.Finding == FindingAbsent`, "of a look that finds nothing, the client says how it was made; what a hook says not to be there, it resolves"},
	{`^evidence\.go, evidence: ev\.Claim < .*ev\.Generation < 0 → `, "the client has generations from the journal alone, which counts them from 0"},
	{`^next\.go, begin: ev\.Intent == nil`, "the client begins nothing without an intent and a session"},
	{`^next\.go, deliver: `, "nobody delivers what is not there"},
	{`^next\.go, reap: !op\.State\.Settled`, "no life is as long as an outcome is kept"},
	{`^next\.go, supply: `, "no operator supplies an answer"},
	{`^next\.go, resolve: case heard`, "no operator speaks of what was heard of while it was under way"},
	{`^next\.go, resolve: (case|ev\.Resolution|if)`, "no operator is overtaken, or holds what is unknown"},
	{`^next\.go, confirm: .*→ !ev\.Since\.IsZero\(\)$`, "nobody asks for the window of what is completed"},
	{`^next\.go, over: if began\.IsZero`, "what was never sent is begun anew by whoever asks for it again"},
	{`^next\.go, send: later\(op\.WakeAt, op\.DueAt\)`, "the background comes somewhat sooner, once it is due"},
	{`^next\.go, reap: max\(keep, EvidenceKeep\)`, "no person says that nothing took effect of what did, so that nothing late is told of it"},
	{`^next\.go, offer: op\.State == StateAbsent`, "a store offers nothing that is delivered"},
	{`^evidence\.go, hint: `, "it is looked for at its own time instead"},
	{`^next\.go, leave: op\.BodyWithheld`, "no body is withheld"},
}

func whyNotFound(clause string) string {
	for _, n := range notFound {
		if regexp.MustCompile(n.clause).MatchString(clause) {
			return n.why
		}
	}
	return ""
}

func whyNever(row Row) string {
	for _, n := range never {
		if regexp.MustCompile(n.row).MatchString(strings.Join(row.Cells, ", ")) {
			return n.why
		}
	}
	return ""
}
