package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/sqlite"
)

// verify returns the findings of Verify in a sound or broken journal.
func verify(t *testing.T, j *sqlite.Journal) (says []string) {
	t.Helper()
	found, err := j.Verify(t.Context())
	require.NoError(t, err)
	for _, v := range found {
		says = append(says, v.String())
	}
	return says
}

// saysThat asserts that each wanted text is part of a finding, and that there are no other findings.
func saysThat(t *testing.T, says, want []string) {
	t.Helper()
	for _, want := range want {
		assert.True(t, slices.ContainsFunc(says, func(says string) bool { return strings.Contains(says, want) }), "it does not say that %s", want)
	}
	besides := slices.DeleteFunc(says, func(says string) bool {
		return slices.ContainsFunc(want, func(want string) bool { return strings.Contains(says, want) })
	})
	assert.Empty(t, besides[:min(len(besides), 3)], "besides")
}

// everything leaves a closed journal with operations in all states, in rows, blocks
// and the log, a sealed segment, a tombstone and a flow.
func everything(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	old := time.Now().Add(-1000 * time.Hour)
	apply := func(ev journal.Event) journal.Operation {
		t.Helper()
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return result.Operation
	}
	at := func(ev journal.Event) journal.Event { ev.At = old; return ev }
	release := func(op journal.Operation, kind journal.EventKind) journal.Event {
		ev := complete(op, s)
		ev.Kind, ev.Answer, ev.At = kind, nil, old
		ev.Unsent, ev.Open = kind != journal.EventDoubt, kind == journal.EventDoubt
		return ev
	}
	apply(at(complete(apply(at(begin("tombstone", s))), s)))
	apply(release(apply(at(begin("pending", s))), journal.EventPark))
	apply(release(apply(at(begin("unknown", s))), journal.EventDoubt))
	apply(at(begin("in flight", s)))
	undelivered := complete(apply(at(begin("undelivered", s))), s)
	undelivered.Delivered = false
	apply(at(undelivered))
	seenAt(t, j, time.Now().Add(-journal.Confirmation)) // so that now is no jump
	n, err := j.Reap(t.Context(), journal.Event{Kind: journal.EventReap, At: time.Now()}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	apply(release(apply(at(begin("cancelled", s))), journal.EventCancel))
	others(t, j, s, "generated")
	others(t, j, s, "more")
	require.Empty(t, verify(t, j), "in use")

	flow, err := j.ApplyFlow(t.Context(), journal.FlowEvent{Kind: journal.FlowEventBegin, Ref: journal.Ref{ID: "flow"}, At: time.Now(), Session: s.ID(),
		Function: journal.FlowFunction{Name: "f"}, InputDigest: "d"})
	require.NoError(t, err)
	_, err = j.ApplyFlow(t.Context(), journal.FlowEvent{Kind: journal.FlowEventPark, Handle: flow.Flow.Handle, At: time.Now(), Claim: 1,
		Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "charge", At: time.Now()}}})
	require.NoError(t, err)
	require.NoError(t, s.End(t.Context()))
	require.Empty(t, verify(t, j), "at its end")
	require.NoError(t, j.Close())
	j = open(t, path)
	require.Empty(t, verify(t, j), "opened again")
	require.NoError(t, j.Close())
	return path
}

func TestVerifyNamesEachViolation(t *testing.T) {
	t.Parallel()
	sound := everything(t)
	for name, row := range map[string]struct {
		statement string
		says      []string
	}{
		"an undefined state":                              {"UPDATE onceward_operations SET state = 9 WHERE id = 'pending'", []string{`operation 2 "pending": its state is one of the states`, `operation 2 "pending": its row is as it was written`, `operation 2 "pending": an outcome says when it came`, `operation 2 "pending": an outcome is not due`}},
		"an undefined naming":                             {"UPDATE onceward_operations SET naming = 7 WHERE id = 'pending'", []string{`operation 2 "pending": its naming is one of the namings`, `operation 2 "pending": its row is as it was written`}},
		"pending and held":                                {"UPDATE onceward_operations SET holder = 'S' WHERE id = 'pending'", []string{`operation 2 "pending": a pending operation has no holder`, `operation 2 "pending": its row is as it was written`}},
		"pending and never woken":                         {"UPDATE onceward_operations SET wake_at = NULL WHERE id = 'pending'", []string{`operation 2 "pending": a pending operation is due, and woken`, `operation 2 "pending": its row is as it was written`}},
		"pending and settled":                             {"UPDATE onceward_operations SET settled_at = 1 WHERE id = 'pending'", []string{`operation 2 "pending": an operation without an outcome is neither settled nor delivered`, `operation 2 "pending": its row is as it was written`}},
		"in flight without a holder":                      {"UPDATE onceward_operations SET holder = NULL WHERE id = 'in flight'", []string{`operation 4 "in flight": an operation in flight is held by a session`, `operation 4 "in flight": its row is as it was written`}},
		"in flight and due":                               {"UPDATE onceward_operations SET wake_at = 1 WHERE id = 'in flight'", []string{`operation 4 "in flight": an operation in flight is not due`, `operation 4 "in flight": its row is as it was written`}},
		"unknown made cancelled":                          {"UPDATE onceward_operations SET state = 5 WHERE id = 'unknown'", []string{`operation 3 "unknown": a cancelled operation has not run`, `operation 3 "unknown": its row is as it was written`, `operation 3 "unknown": an outcome is not due`}},
		"cancelled made unknown":                          {"UPDATE onceward_operations SET state = 4 WHERE id = 'cancelled'", []string{`operation 6 "cancelled": an unknown operation may have run`, `operation 6 "cancelled": its row is as it was written`}},
		"an outcome without its time":                     {"UPDATE onceward_operations SET settled_at = NULL WHERE id = 'unknown'", []string{`operation 3 "unknown": an outcome says when it came`, `operation 3 "unknown": its row is as it was written`}},
		"delivered and held":                              {"UPDATE onceward_operations SET delivered = 1 WHERE id = 'undelivered'", []string{`operation 5 "undelivered": a delivered outcome has no holder`, `operation 5 "undelivered": its row is as it was written`}},
		"completed and its answer lost":                   {"DELETE FROM onceward_answers WHERE handle = 5", []string{`operation 5 "undelivered": it has an answer if and only if`}},
		"an answer before the outcome":                    {"INSERT INTO onceward_answers SELECT 2, answer, body FROM onceward_answers WHERE handle = 5", []string{`operation 2 "pending": it has an answer if and only if`}},
		"an answer of nothing":                            {"INSERT INTO onceward_answers SELECT 999999, answer, body FROM onceward_answers WHERE handle = 5", []string{`operation 999999 "": its answer is of an operation that has a row`}},
		"an answer that can't be read":                    {"UPDATE onceward_answers SET answer = x'07' WHERE handle = 5", []string{`operation 5 "": it can be read`, `operation 5 "undelivered": its answer is the one that its row was written with`}},
		"facts that can't be read":                        {"UPDATE onceward_operations SET facts = x'01' WHERE id = 'pending'", []string{`operation 2 "": it can be read`, `operation 2 "": it is there, or was removed`, `operation 2 "": its index entries are of marks that it has`}},
		"a tombstone with a request":                      {"UPDATE onceward_operations SET request = (SELECT request FROM onceward_operations WHERE id = 'pending') WHERE id = 'tombstone'", []string{`operation 1 "tombstone": a tombstone is of`, `operation 1 "tombstone": its row is as it was written`}},
		"a tombstone of an operation that is not settled": {"UPDATE onceward_operations SET tombstone = 1 WHERE id = 'in flight'", []string{`operation 4 "in flight": a tombstone is of`, `operation 4 "in flight": its row is as it was written`, `operation 4 "in flight": a tombstone has no digest of a request`}},
		"two of one name": {`DELETE FROM onceward_operations WHERE id = 'cancelled'; INSERT INTO onceward_operations SELECT 6, scope, parent, id, naming, 0, provider, state, holder, wake_at,
			settled_at, delivered, tombstone, facts, request, request_body FROM onceward_operations WHERE id = 'pending'`, []string{`operation 6 "": no other operation has its name: operation 2`, `operation 6 "pending": its row is as it was written`, `operation 6 "pending": it is found by its name`, `operation 6 "pending": its segment finds it by its name`, `operation 6 "pending": its marks find it`, `operation 6 "": its index entries are of marks that it has`}},
		"another name":                    {"UPDATE onceward_operations SET id = 'another' WHERE id = 'unknown'", []string{`operation 3 "another": its row is as it was written`, `operation 3 "another": its segment finds it by its name`}},
		"another time to be woken":        {"UPDATE onceward_operations SET wake_at = wake_at + 1 WHERE id = 'pending'", []string{`operation 2 "pending": its row is as it was written`}},
		"another provider":                {"UPDATE onceward_operations SET provider = 'another' WHERE id = 'pending'", []string{`operation 2 "pending": its row is as it was written`, `operation 2 "pending": its segment knows its scope and its provider`}},
		"the request of another":          {"UPDATE onceward_operations SET request = (SELECT request FROM onceward_operations WHERE id = 'unknown') WHERE id = 'pending'", []string{`operation 2 "pending": its row is as it was written`, `operation 2 "": it can be read`}},
		"a flow that can't be read":       {"UPDATE onceward_flows SET tombstone = 2", []string{`flow 1 "": it can be read`}},
		"a flow of another version":       {"UPDATE onceward_flows SET version = version + 1", []string{`flow 1 "flow": its rows are as they were written`}},
		"a step with another result":      {"UPDATE onceward_flow_steps SET result = x'3332'", []string{`flow 1 "flow": its rows are as they were written`}},
		"a name that is not found":        {"UPDATE onceward_operations SET identified = 0 WHERE id = 'pending'", []string{`operation 2 "pending": it is found by its name`, `operation 2 "pending": its row is as it was written`}},
		"a handle that was not given out": {"UPDATE onceward_operations SET handle = 999999 WHERE id = 'pending'", []string{`operation 999999 "pending": an operation that is not folded is in the log alone`, `operation 2 "": it is there, or was removed`, `operation 2 "": its index entries are of marks that it has`, `operation 999999 "pending": its row is as it was written`, `operation 999999 "pending": its marks find it`}},
		"an operation in a row and a block": {`INSERT INTO onceward_operations SELECT (SELECT min(first) FROM onceward_blocks), scope, parent, id, naming, 0, provider, state, holder, wake_at,
			settled_at, delivered, tombstone, facts, request, request_body FROM onceward_operations WHERE id = 'unknown'`, []string{"it is in one place", `operation 7 "unknown": its row is as it was written`, `operation 7 "unknown": it is found by its name`, `operation 7 "": no other operation has its name: operation 3`}},
		"a block that is damaged":           {"UPDATE onceward_blocks SET data = x'0102' WHERE first = (SELECT min(first) FROM onceward_blocks)", []string{"the file: the block that begins with operation 7 can be read", "it is there, or was removed"}},
		"a block that is gone":              {"DELETE FROM onceward_blocks WHERE first = (SELECT min(first) FROM onceward_blocks)", []string{"it is there, or was removed"}},
		"a row that is gone":                {"DELETE FROM onceward_operations WHERE id = 'pending'", []string{`operation 2 "": it is there, or was removed`, `operation 2 "": its index entries are of marks that it has`}},
		"a block somewhere else":            {"UPDATE onceward_blocks SET first = first + 1 WHERE first = (SELECT min(first) FROM onceward_blocks)", []string{"the file: the block that begins with operation 8 can be read", "it is there, or was removed"}},
		"a segment without its hashes":      {"UPDATE onceward_segments SET hashes = sealed_segment(x'00000000', first, began_at, spent)", []string{"its segment finds it by its name"}},
		"a segment that is spent too early": {"UPDATE onceward_segments SET spent = 1, hashes = sealed_segment(hashes, first, began_at, 1)", []string{"it is reaped, as its segment is spent"}},
		"a segment that is gone":            {"DELETE FROM onceward_segments", []string{"it is in a segment that is there"}},
		"a segment that began later":        {"UPDATE onceward_segments SET began_at = (SELECT max(last_at) FROM onceward_log), hashes = sealed_segment(hashes, first, (SELECT max(last_at) FROM onceward_log), spent)", []string{"its segment knows the earliest creation"}},
		"a bit of a hash that flips":        {"UPDATE onceward_segments SET hashes = CAST(iif(hex(substr(hashes, 1, 1)) = '78', 'y', 'x') || substr(hashes, 2) AS BLOB)", []string{"the file: the segment that begins with operation 0 is as it was written", "it is in a segment that is there"}},
		"a segment to come":                 {"INSERT INTO onceward_segments VALUES (102400, 0, 0, sealed_segment(x'00000000', 102400, 0, 0))", []string{"the file: a segment is sealed once its last operation was begun: 102400"}},
		"a margin that is forgotten":        {"UPDATE onceward_log SET least_margin = 0, records = sealed_log(records, seq, last_at, jumped_at, 0, newest, folded, number)", []string{"the least margin is known"}},
		"a log that goes back":              {"INSERT INTO onceward_log SELECT seq + 1, last_at, jumped_at, least_margin, newest, folded, number - 1, sealed_log(x'00000000', seq + 1, last_at, jumped_at, least_margin, newest, folded, number - 1) FROM onceward_log ORDER BY seq DESC LIMIT 1", []string{"the file: the commit number never goes back", "the file: it has come as far as its sidecar says: it ends with commit"}},
		"a commit that is missing":          {"UPDATE onceward_log SET number = number - 1, records = sealed_log(records, seq, last_at, jumped_at, least_margin, newest, folded, number - 1)", []string{"the file: it has come as far as its sidecar says"}},
		"a session without its file":        {"INSERT INTO onceward_sessions VALUES ('S')", []string{"the file: session S has its file"}},
		"an index that is gone":             {"DROP INDEX onceward_flows_ended", []string{"the file: onceward_flows_ended is there"}},
		"a trigger that was added":          {"CREATE TRIGGER t AFTER INSERT ON onceward_log BEGIN SELECT 1; END", []string{"the file: the table onceward_log has t, which onceward did not create"}},
		"a flow that waits for nothing":     {"UPDATE onceward_flows SET due_at = NULL", []string{`flow 1 "flow": it is due at some time if and only if it waits`, `flow 1 "flow": its rows are as they were written`}},
		"a step of no flow":                 {"UPDATE onceward_flow_steps SET flow = 7", []string{`flow 7 "": its steps are of a flow that is there`}},
		"marks that are gone":               {"DELETE FROM onceward_marks", []string{"its marks find it"}},
		"a mark of nothing":                 {"INSERT INTO onceward_marks VALUES (0, 12345, 3)", []string{`operation 3 "": its index entries are of marks that it has`}},
		"an event that was never heard":     {"INSERT INTO onceward_heard VALUES (x'0011223344556677', 5)", []string{"the file: an event that was heard is as it was written"}},
		"another time of the next look-up":  {"UPDATE onceward_operations SET wake_at = wake_at + 1 WHERE id = 'unknown'", []string{`operation 3 "unknown": its row is as it was written`}},
		"dead, by its column alone":         {"UPDATE onceward_operations SET wake_at = 0 WHERE id = 'unknown'", []string{`operation 3 "unknown": its row is as it was written`}},
		"a step of an undefined kind":       {"UPDATE onceward_flow_steps SET kind = 99", []string{`flow 1 "flow": step 1 is of one of the kinds`, `flow 1 "flow": its rows are as they were written`}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			copyFile(t, sound, path)
			copyFile(t, sound+"-sidecar", path+"-sidecar")
			alter(t, path, row.statement)
			j, err := sqlite.Open(path, sqlite.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { _ = j.Close() })
			says := verify(t, j)
			looks, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
			require.NoError(t, err)
			assert.ElementsMatch(t, says, verify(t, looks), "to who only looks")
			require.NoError(t, looks.Close())
			saysThat(t, says, row.says)
		})
	}
}

// Verify also reports faults of the log while the journal is open. With most of them it could not be opened.
func TestVerifyNamesDamageOfTheLog(t *testing.T) {
	t.Parallel()
	const last = "seq = (SELECT max(seq) FROM onceward_log)"
	for name, row := range map[string]struct {
		statement string
		says      []string
	}{
		"without a row":         {"DELETE FROM onceward_log", []string{"the file: the log has a row", "an operation that is not folded is in the log alone", "the least margin is known"}},
		"not as it was written": {"UPDATE onceward_log SET records = x'00000000' WHERE " + last, []string{"the file: it is as it was written: log row", "the file: it can be read: a stored value is damaged"}},
		"a row that is missing": {"DELETE FROM onceward_log WHERE seq = (SELECT max(seq) - 1 FROM onceward_log)", []string{"the file: a row of the log follows upon every other", "the file: it can be read: a stored value is damaged"}},
		"folded too far": {"UPDATE onceward_log SET folded = newest + 1, records = sealed_log(records, seq, last_at, jumped_at, least_margin, newest, newest + 1, number) WHERE " + last,
			[]string{"the file: no more is folded than was begun", `operation 21 "": it is there, or was removed`, `operation 22 "": it is there, or was removed`, `operation 23 "": it is there, or was removed`, `operation 24 "": it is there, or was removed`,
				"the file: the log has every operation that is not folded: 25"}},
		"the latest handle goes back": {"UPDATE onceward_log SET newest = newest - 2, records = sealed_log(records, seq, last_at, jumped_at, least_margin, newest - 2, folded, number) WHERE " + last,
			[]string{"the file: the latest handle never goes back", "the file: the log has every operation that is not folded: 24"}},
		"the fold position goes back": {"UPDATE onceward_log SET folded = folded - 1, records = sealed_log(records, seq, last_at, jumped_at, least_margin, newest, folded - 1, number) WHERE " + last,
			[]string{"the file: what is folded never goes back", `operation 20 "folded-`, "the file: the log has every operation that is not folded: 20"}},
		"a row that does not name an operation that was begun": {"UPDATE onceward_log SET records = sealed_log(x'00000000', seq, last_at, jumped_at, least_margin, newest, folded, number) WHERE seq = (SELECT max(seq) - 1 FROM onceward_log)",
			[]string{"the file: the log has every operation that is not folded: 22"}},
		"the last row does not name an operation that was begun": {"UPDATE onceward_log SET records = sealed_log(x'00000000', seq, last_at, jumped_at, least_margin, newest, folded, number) WHERE " + last,
			[]string{"the file: the log has every operation that is not folded: 23"}},
		"a margin that is forgotten": {"UPDATE onceward_log SET least_margin = 0, records = sealed_log(records, seq, last_at, jumped_at, 0, newest, folded, number) WHERE " + last,
			[]string{`operation 1 "folded-`, `operation 23 "op-2": the least margin is known`, "the least margin is known"}},
		"a margin that is too long": {"UPDATE onceward_log SET least_margin = 1000000000000000, records = sealed_log(records, seq, last_at, jumped_at, 1000000000000000, newest, folded, number) WHERE " + last,
			[]string{`operation 1 "folded-`, `operation 23 "op-2": the least margin is known`, "the least margin is known"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			j := open(t, path)
			s, err := j.Join(t.Context())
			require.NoError(t, err)
			sideBySide(20, func(i int) {
				begun, err := j.Apply(t.Context(), begin(fmt.Sprint("folded-", i), s))
				if assert.NoError(t, err) {
					_, err = j.Apply(t.Context(), complete(begun.Operation, s))
					assert.NoError(t, err)
				}
			})
			require.NoError(t, sqlite.Fold(j))
			for i := range 3 {
				_, err := j.Apply(t.Context(), begin(fmt.Sprint("op-", i), s))
				require.NoError(t, err)
			}
			require.Empty(t, verify(t, j))
			alter(t, path, row.statement)
			saysThat(t, verify(t, j), row.says)
		})
	}
}

func TestVerifyReportsDamage(t *testing.T) {
	t.Parallel()
	path := everything(t)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var page, pageSize int
	require.NoError(t, anotherProcess(t, path).QueryRowContext(t.Context(),
		"SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'onceward_blocks'").Scan(&page, &pageSize))
	clear(content[(page-1)*pageSize : page*pageSize])
	require.NoError(t, os.WriteFile(path, content, 0o600))
	assert.NotEmpty(t, verify(t, open(t, path)))
}

func TestVerifyOfAJournalInUseFindsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j, second := open(t, path), open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3 {
			others(t, j, s, fmt.Sprint("load-", i))
		}
	}()
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
		}
		require.Empty(t, verify(t, second))
	}
}

func TestVerifyNamesAThousandViolationsAtMost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	sideBySide(1100, func(i int) {
		_, err := j.Apply(t.Context(), begin(fmt.Sprint(i), s))
		assert.NoError(t, err)
	})
	require.NoError(t, sqlite.Fold(j))
	alter(t, path, "UPDATE onceward_operations SET identified = 0")
	assert.Len(t, verify(t, j), 1000)
}

// Verify does not believe an answer of another operation.
func TestVerifyNamesAnotherAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	for _, id := range []string{"a", "b"} {
		begun, err := j.Apply(t.Context(), begin(id, s))
		require.NoError(t, err)
		done := complete(begun.Operation, s)
		done.Delivered = false // so that it has a row
		_, err = j.Apply(t.Context(), done)
		require.NoError(t, err)
	}
	require.NoError(t, sqlite.Fold(j))
	require.Empty(t, verify(t, j))
	alter(t, path, "UPDATE onceward_answers SET answer = (SELECT answer FROM onceward_answers WHERE handle = 2), body = (SELECT body FROM onceward_answers WHERE handle = 2) WHERE handle = 1")
	says := verify(t, j)
	require.Len(t, says, 1)
	assert.Contains(t, says[0], `operation 1 "a": its answer is the one that its row was written with`)
	for ask, err := range map[string]error{
		"get": func() error { _, err := j.Get(t.Context(), journal.Ref{ID: "a"}); return err }(),
		"list": func() (err error) {
			for _, err = range j.List(t.Context(), journal.Filter{}) {
			}
			return err
		}(),
		"begin again": func() error { _, err := j.Apply(t.Context(), begin("a", s)); return err }(),
	} {
		assert.ErrorContains(t, err, "damaged", ask)
	}
}

func TestVerifyOfAJournalThatIsClosed(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	require.NoError(t, j.Close())
	_, err := j.Verify(t.Context())
	require.ErrorIs(t, err, journal.ErrClosed)
}

// An unreadable flow hides no fault of other flows. There are more flows than are read at once.
func TestVerifyOfManyFlows(t *testing.T) {
	path, j, s := joined(t)
	const flows = 203
	for n := range flows {
		recordStep(t, j, beginFlow(t, j, s, fmt.Sprint("flow-", n)), 1, "charge")
	}
	require.Empty(t, verify(t, j))
	alter(t, path, fmt.Sprintf(`UPDATE onceward_flows SET tombstone = 2 WHERE handle IN (100, %[1]d);
		UPDATE onceward_flow_steps SET result = x'3332' WHERE flow IN (1, 101, %[1]d - 1)`, flows))
	saysThat(t, verify(t, j), []string{
		`flow 100 "": it can be read`, `flow 203 "": it can be read`, `flow 1 "flow-0": its rows are as they were written`,
		`flow 101 "flow-100": its rows are as they were written`, `flow 202 "flow-201": its rows are as they were written`,
	})
}
