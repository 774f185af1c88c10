package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/sample"
	"github.com/onceward/onceward/journal"
)

// situations are the columns of the table of transitions. Their product is every situation that the table must answer.
// situation.build leaves out of the operation what its state rules out, such as a cancelled operation that may have
// run.
var situations = []struct {
	column string
	values []string
}{
	{"state", []string{"absent", "pending", "pending_told", "in_flight", "completed", "omitted", "tombstone", "unknown", "on_hold", "cancelled", "by_hand"}},
	{"event", []string{
		"begin", "begin_in_another_mode", "begin_in_another_form", "claim", "claim_named_only", "claim_others", "claim_in_another_form",
		"complete", "complete_earlier", "refused_earlier", // these two answer the generation before
		"park", "park_told", "doubt", "cancel", "cancel_unnumbered",
		"resolve_executed", "resolve_replacing", "resolve_not_executed", "resolve_send_again", "hold",
		"deliver", "reap", "reap_early", "clock", "adopt",
		"look", "hint", "took", "took_earlier", "refused_there", "absent_there", "inconclusive", "withdraw", "reinstate",
		"enqueue", "enqueue_in_another_mode", "sign",
	}},
	{"holder", []string{"live", "dead"}},
	{"claim", []string{"current", "stale"}},
	{"request", []string{"same", "other"}},
	{"naming", []string{"named", "carried", "generated"}},
	{"ran", []string{"ran", "not"}},               // whether it may have run; in flight: before the claim
	{"rule", []string{"now", "later", "never"}},   // what the resend rule says if it may have run
	{"outcome", []string{"delivered", "undeliv"}}, // of an operation with an outcome
}

// transitions has one row for each set of situations with one end: the columns of situations, then the decision, the
// state, and whether the generation grows. A row may name several values of a column. * stands for all.
const transitions = `
absent                               begin|begin_in_another_mode|begin_in_another_form * * * * * * *   → execute in_flight
pending|pending_told                 begin|begin_in_another_form * * other * * * *                     → misuse pending
pending|pending_told                 begin|begin_in_another_form * * same * not * *                    → execute in_flight
pending|pending_told                 begin                * * same * ran now *                         → execute in_flight
pending|pending_told                 begin                * * same * ran later *                       → later pending
pending|pending_told                 begin                * * same * ran never *                       → stop unknown
pending|pending_told                 begin_in_another_form * * same * ran * *                          → stop unknown
in_flight                            begin|begin_in_another_form * * other * * * *                     → misuse in_flight
in_flight                            begin|begin_in_another_form live * same * * * *                   → wait in_flight
in_flight                            begin                dead * same * * now *                        → execute in_flight
in_flight                            begin                dead * same * * later *                      → later pending
in_flight                            begin                dead * same * * never *                      → stop unknown
in_flight                            begin_in_another_form dead * same * * * *                         → stop unknown
completed|omitted                    begin|begin_in_another_form * * other * * * *                     → misuse completed
completed|omitted                    begin|begin_in_another_form * * same * * * *                      → replay completed
unknown|on_hold                      begin|begin_in_another_form * * other * * * *                     → misuse unknown
unknown|on_hold                      begin|begin_in_another_form * * same * * * *                      → stop unknown
pending|pending_told                 begin_in_another_mode * * * * * * *                               → misuse pending
in_flight                            begin_in_another_mode * * * * * * *                               → misuse in_flight
completed|omitted                    begin_in_another_mode * * * * * * *                               → misuse completed
unknown|on_hold                      begin_in_another_mode * * * * * * *                               → misuse unknown
tombstone                            begin|begin_in_another_mode|begin_in_another_form * * * * * * *   → gone completed
cancelled                            begin|begin_in_another_mode|begin_in_another_form * * other * * * * → execute in_flight +1
cancelled                            begin|begin_in_another_mode|begin_in_another_form * * same * * * *  → execute in_flight
by_hand                              begin|begin_in_another_mode|begin_in_another_form * * * * * * *   → execute in_flight +1

absent                               claim|claim_named_only|claim_others|claim_in_another_form * * * * * * * → ignored absent
pending|pending_told                 claim_others         * * * * * * *                                → ignored pending
pending                              claim|claim_in_another_form * * * * not * *                       → execute in_flight
pending                              claim                * * * * ran now *                            → execute in_flight
pending                              claim                * * * * ran later *                          → later pending
pending                              claim                * * * * ran never *                          → stop unknown
pending                              claim_in_another_form * * * * ran * *                             → stop unknown
pending_told                         claim|claim_in_another_form * * * named not * *                   → execute in_flight
pending_told                         claim                * * * named ran now *                        → execute in_flight
pending_told                         claim                * * * named ran later *                      → later pending
pending_told                         claim                * * * named ran never *                      → stop unknown
pending_told                         claim_in_another_form * * * named ran * *                         → stop unknown
pending_told                         claim|claim_in_another_form * * * carried|generated * now|later *   → later pending
pending_told                         claim|claim_in_another_form * * * carried|generated not never *     → recorded cancelled
pending_told                         claim|claim_in_another_form * * * carried|generated ran never *     → stop unknown
pending|pending_told                 claim_named_only     * * * named not * *                          → execute in_flight
pending|pending_told                 claim_named_only     * * * named ran now *                        → execute in_flight
pending|pending_told                 claim_named_only     * * * named ran later *                      → later pending
pending|pending_told                 claim_named_only     * * * named ran never *                      → stop unknown
pending                              claim_named_only     * * * carried|generated not * *              → ignored pending
pending                              claim_named_only     * * * carried|generated ran now|later *      → ignored pending
pending                              claim_named_only     * * * carried|generated ran never *          → stop unknown
pending_told                         claim_named_only     * * * carried|generated * now|later *        → later pending
pending_told                         claim_named_only     * * * carried|generated not never *          → recorded cancelled
pending_told                         claim_named_only     * * * carried|generated ran never *          → stop unknown
in_flight                            claim|claim_named_only|claim_others|claim_in_another_form live * * * * * * → wait in_flight
in_flight                            claim_others         dead * * * * * *                             → ignored in_flight
in_flight                            claim                dead * * * * now *                           → execute in_flight
in_flight                            claim                dead * * * * later *                         → later pending
in_flight                            claim                dead * * * * never *                         → stop unknown
in_flight                            claim_in_another_form dead * * * * * *                            → stop unknown
in_flight                            claim_named_only     dead * * named * now *                       → execute in_flight
in_flight                            claim_named_only     dead * * named * later *                     → later pending
in_flight                            claim_named_only     dead * * named * never *                     → stop unknown
in_flight                            claim_named_only     dead * * carried|generated * * *             → stop unknown
completed|omitted                    claim|claim_named_only|claim_others|claim_in_another_form * * * * * * delivered    → ignored completed
completed|omitted                    claim|claim_named_only|claim_others|claim_in_another_form live * * * * * undeliv   → wait completed
completed|omitted                    claim|claim_named_only|claim_others|claim_in_another_form dead * * * * * undeliv   → offer completed
tombstone                            claim|claim_named_only|claim_others|claim_in_another_form * * * * * * *            → ignored completed
unknown|on_hold                      claim|claim_named_only|claim_others|claim_in_another_form * * * * * * delivered    → ignored unknown
unknown|on_hold                      claim|claim_named_only|claim_others|claim_in_another_form live * * * * * undeliv   → wait unknown
unknown|on_hold                      claim|claim_named_only|claim_others|claim_in_another_form dead * * * * * undeliv   → offer unknown
cancelled|by_hand                    claim|claim_named_only|claim_others|claim_in_another_form * * * * * * delivered    → ignored cancelled
cancelled|by_hand                    claim|claim_named_only|claim_others|claim_in_another_form live * * * * * undeliv   → wait cancelled
cancelled|by_hand                    claim|claim_named_only|claim_others|claim_in_another_form dead * * * * * undeliv   → offer cancelled

absent                               complete|complete_earlier|refused_earlier * * * * * * *           → error absent
pending|pending_told|in_flight       complete             * * * * * * *                                → recorded completed
unknown|on_hold|cancelled|by_hand    complete             * * * * * * *                                → recorded completed
completed                            complete             * * * * * * *                                → replay completed
omitted                              complete             * * * * * * *                                → recorded completed
tombstone                            complete             * * * * * * *                                → gone completed
pending|pending_told                 complete_earlier     * * * * not * *                              → recorded completed
pending|pending_told                 complete_earlier     * * * * ran * *                              → second_effect unknown
in_flight                            complete_earlier     * * * * * * *                                → second_effect in_flight
unknown                              complete_earlier     * * * * * * *                                → second_effect unknown
on_hold                              complete_earlier     * * * * not * *                              → recorded completed
on_hold                              complete_earlier     * * * * ran * *                              → second_effect unknown
cancelled|by_hand                    complete_earlier     * * * * * * *                                → recorded completed
completed|omitted|tombstone          complete_earlier     * * * * * * *                                → second_effect completed
pending|pending_told                 refused_earlier      * * * * * * *                                → ignored pending
in_flight                            refused_earlier      * * * * * * *                                → ignored in_flight
unknown|on_hold                      refused_earlier      * * * * * * *                                → ignored unknown
cancelled|by_hand                    refused_earlier      * * * * * * *                                → ignored cancelled
completed|omitted|tombstone          refused_earlier      * * * * * * *                                → ignored completed

absent                               park|park_told|doubt|cancel|cancel_unnumbered * * * * * * *       → stale absent
pending|pending_told                 park|park_told|doubt|cancel|cancel_unnumbered * * * * * * *       → stale pending
completed|omitted                    park|park_told|doubt|cancel|cancel_unnumbered * * * * * * *       → replay completed
tombstone                            park|park_told|doubt|cancel|cancel_unnumbered * * * * * * *       → stale completed
unknown|on_hold                      park|park_told|doubt|cancel|cancel_unnumbered * * * * * * *       → stale unknown
cancelled|by_hand                    park|park_told|doubt|cancel|cancel_unnumbered * * * * * * *       → stale cancelled
in_flight                            park|park_told|doubt|cancel * stale * * * * *                     → stale in_flight
in_flight                            park                 * current * * not * *                        → recorded pending
in_flight                            park                 * current * * ran now|later *                → recorded pending
in_flight                            park                 * current * * ran never *                    → recorded unknown
in_flight                            park_told            * current * named not * *                    → recorded pending
in_flight                            park_told            * current * named ran now|later *            → recorded pending
in_flight                            park_told            * current * named ran never *                → recorded unknown
in_flight                            park_told            * current * carried * now|later *            → recorded pending
in_flight                            park_told            * current * carried not never *              → recorded cancelled
in_flight                            park_told            * current * carried ran never *              → recorded unknown
in_flight                            park_told            * current * generated not * *                → recorded cancelled
in_flight                            park_told            * current * generated ran * *                → recorded unknown
in_flight                            doubt                * current * * * * *                          → recorded unknown
in_flight                            cancel               * current * * not * *                        → recorded cancelled
in_flight                            cancel               * current * * ran now|later *                → recorded pending
in_flight                            cancel               * current * * ran never *                    → recorded unknown
in_flight                            cancel_unnumbered    * * * * not * *                              → recorded cancelled
in_flight                            cancel_unnumbered    * * * * ran now|later *                      → recorded pending
in_flight                            cancel_unnumbered    * * * * ran never *                          → recorded unknown

absent                               resolve_executed|resolve_replacing|resolve_not_executed|resolve_send_again|hold * * * * * * *               → error absent
completed                            resolve_executed     * * * * * * *                                → error completed
completed                            resolve_replacing    * * * * * * *                                → recorded completed
omitted                              resolve_executed|resolve_replacing * * * * * * *                  → recorded completed
tombstone                            resolve_executed|resolve_replacing * * * * * * *                  → gone completed
completed|omitted|tombstone          resolve_not_executed|resolve_send_again|hold * current * * * * *                                            → error completed
completed|omitted|tombstone          resolve_not_executed|resolve_send_again|hold * stale * * * * *                                              → stale completed
cancelled|by_hand                    resolve_executed|resolve_replacing * * * * * * *                  → recorded completed
cancelled|by_hand                    resolve_not_executed|resolve_send_again|hold * current * * * * *                                            → error cancelled
cancelled|by_hand                    resolve_not_executed|resolve_send_again|hold * stale * * * * *                                              → stale cancelled
in_flight                            resolve_executed|resolve_replacing live * * * * * *               → wait in_flight
in_flight                            resolve_not_executed|resolve_send_again|hold live current * * * * *                                         → wait in_flight
in_flight                            resolve_not_executed|resolve_send_again|hold * stale * * * * *                                              → stale in_flight
in_flight                            resolve_executed|resolve_replacing dead * * * * * *               → recorded completed
in_flight                            resolve_not_executed dead current * * * * *                       → recorded cancelled
in_flight                            resolve_send_again   dead current * * * * *                       → recorded pending +1
in_flight                            hold                 dead current * * * * *                       → recorded unknown
pending|pending_told|unknown|on_hold resolve_executed|resolve_replacing * * * * * * *                  → recorded completed
pending|pending_told|unknown|on_hold resolve_not_executed * current * * * * *                          → recorded cancelled
pending|pending_told|unknown|on_hold resolve_send_again   * current * * * * *                          → recorded pending +1
pending|pending_told                 hold                 * current * * * * *                          → recorded unknown
unknown                              hold                 * current * * * * *                          → error unknown
on_hold                              hold                 * current * * * * *                          → recorded unknown
on_hold                              reinstate            * current * * not * *                        → recorded pending
on_hold                              reinstate            * current * * ran now|later *                → recorded pending
on_hold                              reinstate            * current * * ran never *                    → recorded unknown
pending|pending_told                 resolve_not_executed|resolve_send_again|hold * stale * * * * *                                              → stale pending
unknown|on_hold                      resolve_not_executed|resolve_send_again|hold * stale * * * * *                                              → stale unknown

absent                               deliver|reap|reap_early|clock * * * * * * *                       → ignored absent
pending|pending_told                 deliver|reap|reap_early|clock * * * * * * *                       → ignored pending
in_flight                            deliver|reap|reap_early|clock * * * * * * *                       → ignored in_flight
tombstone                            deliver|reap|reap_early|clock * * * * * * *                       → ignored completed
completed|omitted                    reap_early|clock     * * * * * * *                                → ignored completed
completed|omitted                    deliver              * * * * * * delivered                        → ignored completed
completed|omitted                    deliver              * * * * * * undeliv                          → recorded completed
completed|omitted                    reap                 * * * * * * undeliv                          → ignored completed
completed|omitted                    reap                 * * * named * * delivered                    → recorded completed
completed|omitted                    reap                 * * * carried|generated * * delivered        → recorded absent
unknown|on_hold                      reap|reap_early|clock * * * * * * *                               → ignored unknown
unknown|on_hold                      deliver              * * * * * * delivered                        → ignored unknown
unknown|on_hold                      deliver              * * * * * * undeliv                          → recorded unknown
cancelled|by_hand                    reap_early|clock     * * * * * * *                                → ignored cancelled
cancelled|by_hand                    deliver              * * * * * * delivered                        → ignored cancelled
cancelled|by_hand                    deliver              * * * * * * undeliv                          → recorded cancelled
cancelled|by_hand                    reap                 * * * * * * undeliv                          → ignored cancelled
cancelled|by_hand                    reap                 * * * * * * delivered                        → recorded absent

absent                               adopt                * * * * * * *                                → ignored absent
completed|omitted|tombstone          adopt                * * * * * * *                                → ignored completed
pending                              adopt                * * * * * now|later *                        → recorded pending
pending                              adopt                * * * * * never *                            → recorded unknown
pending_told                         adopt                * * * named|carried * now|later *            → recorded pending
pending_told                         adopt                * * * named|carried * never *                → recorded unknown
pending_told                         adopt                * * * generated * * *                        → recorded unknown
in_flight                            adopt                live * * * * * *                             → wait in_flight
in_flight                            adopt                dead * * * * now|later *                     → recorded pending
in_flight                            adopt                dead * * * * never *                         → recorded unknown
unknown|on_hold|cancelled|by_hand    adopt                * * * * * * *                                → recorded unknown

absent                               look|hint            * * * * * * *                          → ignored absent
absent                               took|took_earlier|refused_there|absent_there|inconclusive|withdraw|reinstate * * * * * * *                          → error absent
pending|pending_told                 look|hint|absent_there|inconclusive * * * * * * *                          → ignored pending
in_flight                            look|hint|absent_there|inconclusive * * * * * * *                          → ignored in_flight
completed|omitted|tombstone          look|hint|absent_there|inconclusive * * * * * * *                          → ignored completed
cancelled|by_hand                    look|hint|absent_there|inconclusive * * * * * * *                          → ignored cancelled
unknown|on_hold                      look                 * * * * * * *                          → look unknown
unknown|on_hold                      hint                 * * * * * * *                          → ignored unknown
unknown|on_hold                      inconclusive         * * * * * * *                          → recorded unknown
unknown|on_hold                      absent_there         * current * * * * *                    → recorded unknown
unknown|on_hold                      absent_there         * stale * * * * *                      → stale unknown

completed|omitted|tombstone          took                 * * * * * * *                          → recorded completed
in_flight                            took                 * * * * * * *                          → recorded in_flight
pending|pending_told                 took                 * * * * * * *                          → recorded completed
unknown                              took                 * * * * * * *                          → recorded completed
on_hold                              took                 * * * * * * *                          → recorded unknown
cancelled|by_hand                    took                 * * * * * * *                          → recorded completed
completed|omitted|tombstone          took_earlier         * * * * * * *                          → second_effect completed
in_flight                            took_earlier         * * * * * * *                          → second_effect in_flight
pending|pending_told                 took_earlier         * * * * ran * *                        → second_effect unknown
pending|pending_told                 took_earlier         * * * * not * *                        → recorded completed
unknown                              took_earlier         * * * * * * *                          → second_effect unknown
on_hold                              took_earlier         * * * * ran * *                        → second_effect unknown
on_hold                              took_earlier         * * * * not * *                        → recorded unknown
cancelled|by_hand                    took_earlier         * * * * * * *                          → recorded completed
completed|omitted|tombstone          refused_there        * * * * * * *                          → ignored completed
cancelled|by_hand                    refused_there        * * * * * * *                          → ignored cancelled
in_flight                            refused_there        * * * * * * *                          → recorded in_flight
pending|pending_told                 refused_there        * * * * ran now|later *                → recorded completed
pending|pending_told                 refused_there        * * * * ran never *                    → ignored pending
pending|pending_told                 refused_there        * * * * not * *                        → ignored pending
unknown                              refused_there        * * * * * now|later *                  → recorded completed
unknown                              refused_there        * * * * * never *                      → recorded unknown
on_hold                              refused_there        * * * * * * *                          → recorded unknown

pending|pending_told                 withdraw|reinstate   * stale * * * * *                      → stale pending
pending|pending_told                 reinstate            * current * * * * *                    → error pending
in_flight                            withdraw|reinstate   * stale * * * * *                      → stale in_flight
in_flight                            reinstate            * current * * * * *                    → error in_flight
completed|omitted|tombstone          withdraw|reinstate   * stale * * * * *                      → stale completed
completed|omitted|tombstone          reinstate            * current * * * * *                    → error completed
cancelled|by_hand                    withdraw|reinstate   * stale * * * * *                      → stale cancelled
cancelled|by_hand                    reinstate            * current * * * * *                    → error cancelled
unknown|on_hold                      withdraw|reinstate   * stale * * * * *                      → stale unknown
unknown                              reinstate            * current * * * * *                    → error unknown
completed|omitted|tombstone          withdraw             * current * * * * *                    → error completed
cancelled|by_hand                    withdraw             * current * * * * *                    → recorded cancelled
in_flight                            withdraw             live current * * * * *                 → wait in_flight
in_flight                            withdraw             dead current * * * * *                 → recorded unknown
pending|pending_told                 withdraw             * current * * ran * *                  → recorded unknown
pending|pending_told                 withdraw             * current * * not * *                  → recorded cancelled
unknown|on_hold                      withdraw             * current * * * * *                    → recorded unknown

absent                               enqueue|enqueue_in_another_mode * * * named * * *           → recorded pending
absent                               enqueue|enqueue_in_another_mode * * * carried|generated * * * → error absent
pending|pending_told                 enqueue|enqueue_in_another_mode * * * carried|generated * * * → error pending
in_flight                            enqueue|enqueue_in_another_mode * * * carried|generated * * * → error in_flight
completed|omitted|tombstone          enqueue|enqueue_in_another_mode * * * carried|generated * * * → error completed
unknown|on_hold                      enqueue|enqueue_in_another_mode * * * carried|generated * * * → error unknown
cancelled|by_hand                    enqueue|enqueue_in_another_mode * * * carried|generated * * * → error cancelled
pending|pending_told                 enqueue              * * same named * * *                   → ignored pending
in_flight                            enqueue              * * same named * * *                   → ignored in_flight
completed|omitted                    enqueue              * * same named * * *                   → ignored completed
unknown|on_hold                      enqueue              * * same named * * *                   → ignored unknown
pending|pending_told                 enqueue              * * other named * * *                  → misuse pending
in_flight                            enqueue              * * other named * * *                  → misuse in_flight
completed|omitted                    enqueue              * * other named * * *                  → misuse completed
unknown|on_hold                      enqueue              * * other named * * *                  → misuse unknown
pending|pending_told                 enqueue_in_another_mode * * * named * * *                   → misuse pending
in_flight                            enqueue_in_another_mode * * * named * * *                   → misuse in_flight
completed|omitted                    enqueue_in_another_mode * * * named * * *                   → misuse completed
unknown|on_hold                      enqueue_in_another_mode * * * named * * *                   → misuse unknown
tombstone                            enqueue|enqueue_in_another_mode * * * named * * *           → gone completed
cancelled                            enqueue|enqueue_in_another_mode * * same named * * *        → recorded pending
cancelled                            enqueue|enqueue_in_another_mode * * other named * * *       → recorded pending +1
by_hand                              enqueue|enqueue_in_another_mode * * * named * * *           → recorded pending +1

absent                               sign                 * * * * * * *                          → stale absent
pending|pending_told                 sign                 * * * * * * *                          → stale pending
completed|omitted|tombstone          sign                 * * * * * * *                          → stale completed
unknown|on_hold                      sign                 * * * * * * *                          → stale unknown
cancelled|by_hand                    sign                 * * * * * * *                          → stale cancelled
in_flight                            sign                 * stale * * * * *                      → stale in_flight
in_flight                            sign                 * current * * not * *                  → recorded in_flight
in_flight                            sign                 * current * * ran * *                  → error in_flight
`

// Every event has one expected end in every situation.
func TestNextInEverySituation(t *testing.T) {
	rows := readTransitions(t, transitions)
	wrong, seen := 0, 0
	report := func(format string, args ...any) {
		if wrong++; wrong <= 10 {
			t.Errorf(format, args...)
		}
	}
	for s := range everySituation() {
		seen++
		row, matches := transition{}, 0
		for i := range rows {
			if rows[i].covers(s) {
				row, matches = rows[i], matches+1
				rows[i].used = true
			}
		}
		if matches != 1 {
			report("%v: %d rows say what is expected", s, matches)
			continue
		}
		op, live, ev := s.build()
		next, decision, err := machine.Next(op, live, ev)
		got := transition{decision: decision.String(), state: next.State.String(), generation: next.Generation - op.Generation}
		if err != nil {
			got.decision = "error"
		}
		if op.State == journal.StateAbsent || next.State == journal.StateAbsent {
			got.generation = 0
		}
		if got.decision != row.decision || got.state != row.state || got.generation != row.generation {
			report("%v: got %s %s +%d, expected: %s", s, got.decision, got.state, got.generation, row.text)
		}
		if sample.Takes(seen, 20) {
			if broken := brokenLaws(op, live, ev); len(broken) > 0 {
				report("%v: breaks %q", s, broken)
			}
		}
	}
	product := 1
	for _, c := range situations {
		product *= len(c.values)
	}
	require.Equal(t, product, seen)
	for _, row := range rows {
		assert.True(t, row.used, "this row is about no situation: %s", row.text)
	}
	if wrong > 10 {
		t.Errorf("and %d more", wrong-10)
	}
}

func TestTheTableNamesEveryStateAndEvent(t *testing.T) {
	states, events := map[journal.State]bool{}, map[machine.EventKind]bool{}
	for s := range everySituation() {
		op, _, ev := s.build()
		states[op.State], events[ev.Kind] = true, true
	}
	for _, state := range append([]journal.State{journal.StateAbsent}, journal.States...) {
		assert.True(t, states[state], state)
	}
	for kind := machine.EventKind(1); !strings.HasPrefix(kind.String(), "EventKind("); kind++ {
		assert.True(t, events[kind], kind)
	}
}

// transition is a row of the table.
type transition struct {
	text            string
	when            []map[string]bool // one for each column; nil means all values
	decision, state string
	generation      int
	used            bool
}

func (r transition) covers(s situation) bool {
	for i, values := range r.when {
		if values != nil && !values[s[i]] {
			return false
		}
	}
	return true
}

func readTransitions(t *testing.T, table string) []transition {
	t.Helper()
	var rows []transition
	for line := range strings.Lines(table) {
		when, then, found := strings.Cut(line, "→")
		if !found {
			require.Empty(t, strings.TrimSpace(line))
			continue
		}
		row := transition{text: strings.TrimSpace(line)}
		fields := strings.Fields(when)
		require.Len(t, fields, len(situations), row.text)
		for i, field := range fields {
			row.when = append(row.when, nil)
			if field == "*" {
				continue
			}
			row.when[i] = map[string]bool{}
			for value := range strings.SplitSeq(field, "|") {
				require.Contains(t, situations[i].values, value, row.text)
				row.when[i][value] = true
			}
		}
		end := strings.Fields(then)
		require.GreaterOrEqual(t, len(end), 2, row.text)
		row.decision, row.state = end[0], end[1]
		if len(end) > 2 {
			require.Equal(t, []string{"+1"}, end[2:], row.text)
			row.generation = 1
		}
		rows = append(rows, row)
	}
	return rows
}

// situation has one value for each column of situations.
type situation [9]string

func everySituation() func(yield func(situation) bool) {
	return func(yield func(situation) bool) {
		var s situation
		var fill func(column int) bool
		fill = func(column int) bool {
			if column == len(s) {
				return yield(s)
			}
			for _, value := range situations[column].values {
				if s[column] = value; !fill(column + 1) {
					return false
				}
			}
			return true
		}
		fill(0)
	}
}

func (s situation) build() (op journal.Operation, live bool, ev machine.Event) {
	state, event, holder, claim, request, naming, ran, rule, outcome := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]
	terms := map[string]journal.Terms{"now": guarded, "later": slow, "never": {}}[rule]
	kind := map[string]journal.Naming{"named": journal.Named, "carried": journal.Carried, "generated": journal.Generated}[naming]

	op = operation(kind, terms)
	op.MayHaveRun = ran == "ran"
	switch state {
	case "absent":
		op = journal.Operation{}
	case "pending", "pending_told":
		op.State, op.Told = journal.StatePending, state == "pending_told"
		op.DueAt, op.WakeAt = noon.Add(-time.Minute), noon.Add(-time.Minute)
	case "in_flight":
		op.State, op.Holder = journal.StateInFlight, "A"
		op.Found = journal.Found{MayHaveRun: op.MayHaveRun, FirstSentAt: op.FirstSentAt}
		op.MayHaveRun = true
	case "completed", "omitted", "tombstone":
		op.State, op.MayHaveRun = journal.StateCompleted, true
		op.Answer, op.Tombstone = &journal.Answer{Generation: 1, Status: 201, Omitted: state == "omitted"}, state == "tombstone"
		if op.Tombstone {
			op.Answer, outcome = nil, "delivered"
		}
	case "unknown":
		op.State, op.MayHaveRun = journal.StateUnknown, true
	case "on_hold":
		op.State, op.Resolved = journal.StateUnknown, &journal.Resolved{Resolution: journal.Hold}
	case "cancelled", "by_hand":
		op.State, op.MayHaveRun, op.ByHand = journal.StateCancelled, false, state == "by_hand"
	}
	if op.State > journal.StateInFlight {
		op.SettledAt = noon.Add(-100 * 24 * time.Hour)
		op.Holder = "A"
		if outcome == "delivered" {
			op.Holder, op.Delivered = "", true
		}
	}

	ev = machine.Event{At: noon, Last: noon, Session: "A", Claim: 2, Generation: 1, Answer: &journal.Answer{Status: 200}}
	if claim == "stale" {
		ev.Claim = 1
	}
	switch event {
	case "begin", "begin_in_another_mode", "begin_in_another_form", "enqueue", "enqueue_in_another_mode":
		ev = begin(kind, terms)
		if strings.HasPrefix(event, "enqueue") {
			ev.Kind, ev.Session = machine.EventEnqueue, ""
		}
		if request == "other" {
			ev.Intent.Fingerprint = "another request"
		}
		switch event {
		case "begin_in_another_mode", "enqueue_in_another_mode":
			ev.Intent.Mode = "live"
		case "begin_in_another_form":
			ev.Intent.Form = "another header"
		}
	case "claim", "claim_named_only", "claim_others", "claim_in_another_form":
		ev.Kind, ev.Session, ev.NamedOnly = machine.EventClaim, "B", event == "claim_named_only"
		ev.From = []string{"", "stripe"}
		form := op.Form
		switch event {
		case "claim_others":
			ev.From = []string{"adyen"}
		case "claim_in_another_form":
			form = "another header"
		}
		ev.Today = func(op *journal.Operation) (machine.Today, bool) {
			return machine.Today{Terms: op.Terms, Form: form}, true
		}
	case "complete":
		ev.Kind = machine.EventComplete
	case "complete_earlier", "refused_earlier":
		ev.Kind, ev.Generation, ev.Answer.Refused = machine.EventComplete, 0, event == "refused_earlier"
	case "park", "park_told":
		ev.Kind, ev.Told = machine.EventPark, event == "park_told"
	case "doubt":
		ev.Kind = machine.EventMarkUnknown
	case "cancel":
		ev.Kind = machine.EventCancel
	case "cancel_unnumbered":
		ev.Kind, ev.Claim, ev.Asker = machine.EventCancel, 0, 9 // of its own Begin, whose claim it never learned
	case "resolve_executed", "resolve_replacing":
		ev.Kind, ev.Resolution, ev.Unrecognised = machine.EventResolve, journal.Executed, event == "resolve_replacing"
	case "resolve_not_executed":
		ev.Kind, ev.Resolution = machine.EventResolve, journal.NotExecuted
	case "resolve_send_again":
		ev.Kind, ev.Resolution, ev.Key = machine.EventResolve, journal.SendAgain, "its next key"
	case "hold":
		ev.Kind, ev.Resolution = machine.EventResolve, journal.Hold
	case "deliver":
		ev.Kind = machine.EventDeliver
	case "reap":
		ev.Kind, ev.Keep = machine.EventReap, 90*24*time.Hour
	case "reap_early":
		ev.Kind, ev.Keep = machine.EventReap, 101*24*time.Hour
	case "clock":
		ev.Kind = machine.EventClock
	case "adopt":
		ev.Kind = machine.EventAdopt
	case "look":
		ev.Kind, ev.Due = machine.EventLook, noon.Add(time.Minute)
	case "hint":
		ev.Kind = machine.EventHint
	case "took", "took_earlier", "refused_there", "absent_there", "inconclusive":
		ev.Kind, ev.Answer = machine.EventEvidence, nil
		ev.Evidence = &journal.Evidence{Source: journal.SourceLook, Basis: journal.BasisKey, Finding: map[string]journal.Finding{
			"took": journal.FindingTookEffect, "took_earlier": journal.FindingTookEffect, "refused_there": journal.FindingRefused,
			"absent_there": journal.FindingAbsent, "inconclusive": journal.FindingInconclusive,
		}[event]}
		switch event {
		case "took_earlier":
			ev.Generation, ev.Object = 0, "payment pay_0"
		case "took":
			ev.Object = "payment pay_1"
		case "absent_there":
			ev.Evidence.Source, ev.Absence = journal.SourceHook, &machine.Absence{}
		}
	case "withdraw":
		ev.Kind, ev.Resolution = machine.EventResolve, journal.Withdraw
	case "reinstate":
		ev.Kind, ev.Resolution = machine.EventResolve, journal.Reinstate
	case "sign":
		ev.Kind, ev.Credential, ev.Account = machine.EventSign, "another digest", "acct_2"
	}
	return op, holder == "live", ev
}

// operation is an operation in its second generation, with its second claim, first sent two hours before noon. The
// caller sets its state.
func operation(naming journal.Naming, terms journal.Terms) journal.Operation {
	return journal.Operation{
		Handle: 7, Ref: journal.Ref{ID: "invoice-991/charge"}, Naming: naming, Provider: "stripe", Endpoint: "POST /v1/charges",
		Key: "its key", KeyCarried: naming == journal.Carried, Generation: 1, Rounds: []journal.Round{{Key: "old key"}}, Fingerprint: "the request", Terms: terms,
		Request: journal.Request{Method: "POST", URL: "https://api.example.com/v1/charges", Body: []byte("amount=1")},
		Mode:    "test", Form: "header Idempotency-Key",
		Claim: 2, Asker: 9, FirstSentAt: noon.Add(-2 * time.Hour), LastEndedAt: noon.Add(-time.Minute),
		Attempts: 3, CreatedAt: noon.Add(-3 * time.Hour), UpdatedAt: noon.Add(-time.Minute),
	}
}

// begin is an event that asks at noon for what operation returns.
func begin(naming journal.Naming, terms journal.Terms) machine.Event {
	op := operation(naming, terms)
	return machine.Event{
		Kind: machine.EventBegin, Ref: op.Ref, At: noon, Last: noon, Session: "B",
		Intent: &machine.Intent{
			Naming: naming, Provider: op.Provider, Endpoint: op.Endpoint, Fingerprint: op.Fingerprint, Terms: terms, Request: op.Request,
			Key: op.Key, KeyCarried: op.KeyCarried, Mode: op.Mode, Form: op.Form,
		},
	}
}
