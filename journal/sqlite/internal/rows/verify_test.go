//go:build unix

package rows_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/sqlite/internal/rows"
)

// verify returns what Verify finds.
func verify(t *testing.T, j *rowstore.Store) (says []string) {
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
	assert.Empty(t, besides, "besides")
}

// everything leaves a closed journal with operations in all states, a tombstone, a flow, a receipt, a heard event and a bookmark.
// Their handles are: 1 tombstone, 2 pending, 3 unknown, 4 in flight, 5 undelivered, 6 cancelled, and 7 completed.
func everything(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.db")
	j, s := joined(t, path)
	apply := func(ev machine.Event) journal.Operation {
		t.Helper()
		result, err := j.Apply(t.Context(), ev)
		require.NoError(t, err)
		return result.Operation
	}
	now := time.Now()
	at := func(ev machine.Event, ago time.Duration) machine.Event { ev.At = now.Add(-ago); return ev }
	release := func(op journal.Operation, kind machine.EventKind) machine.Event {
		ev := complete(op, s)
		ev.Kind, ev.Answer = kind, nil
		ev.Unsent, ev.Open = kind != machine.EventMarkUnknown, kind == machine.EventMarkUnknown
		return ev
	}
	delivered := func(ev machine.Event) machine.Event { ev.Delivered = true; return ev }
	const long = 1000 * time.Hour
	apply(at(delivered(complete(apply(at(begin("tombstone", s), long)), s)), long))
	apply(at(release(apply(at(begin("pending", s), long)), machine.EventPark), long))
	apply(at(release(apply(at(begin("unknown", s), long)), machine.EventMarkUnknown), long))
	apply(at(begin("in flight", s), long))
	apply(at(complete(apply(at(begin("undelivered", s), long)), s), long))
	seen := machine.Event{Kind: machine.EventClock, At: now.Add(-machine.Confirmation)} // so that now is no jump
	apply(seen)
	n, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: now}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	apply(release(apply(begin("cancelled", s)), machine.EventCancel))
	apply(delivered(complete(apply(begin("completed", s)), s)))

	flow, err := j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "flow"}, At: now, Session: s.ID(),
		Function: journal.FlowFunction{Name: "f"}, InputDigest: "d"})
	require.NoError(t, err)
	_, err = j.ApplyFlow(t.Context(), machine.FlowEvent{Kind: machine.FlowEventPark, Handle: flow.Flow.Handle, At: now, Claim: 1,
		Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "charge", At: now}}})
	require.NoError(t, err)
	require.NoError(t, j.MakeReceipts(t.Context(), ""))
	receive(t, j, "request")
	_, first, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: "event"}, []machine.Event{{Kind: machine.EventHint, Ref: journal.Ref{ID: "unknown"}, At: now}})
	require.NoError(t, err)
	require.True(t, first)
	_, err = j.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: now, Note: []byte("evt_1")})
	require.NoError(t, err)
	require.Empty(t, verify(t, j), "in use")
	require.NoError(t, s.End(t.Context()))
	require.NoError(t, j.Close())
	require.Empty(t, verify(t, openToRead(t, path)), "at its end")
	return path
}

// receive reserves a key and records its answer.
func receive(t *testing.T, j *rowstore.Store, key string) {
	t.Helper()
	tx, err := j.BeginTx(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	ev := machine.ReceiptEvent{Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Scope: "shop", Key: key}, At: time.Now(), Place: "POST /orders", Fingerprint: "f", Keep: time.Hour,
		Same: func(*journal.Receipt) (bool, error) { return true, nil }}
	result, err := j.ReceiveTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.Equal(t, machine.Execute, result.Decision)
	ev.Kind, ev.Claim, ev.Answer = machine.ReceiptComplete, result.Receipt.Claim, &journal.Answer{Status: 201, Body: []byte("ordered")}
	_, err = j.ReceiveTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
}

func TestVerifyNamesEachViolation(t *testing.T) {
	sound := everything(t)
	const (
		pending   = `operation 2 "pending": `
		unknown   = `operation 3 "unknown": `
		inFlight  = `operation 4 "in flight": `
		completed = `operation 7 "completed": `
		written   = "its row is as it was written"
		parts     = "its request and its answer are those that its row was written with"
		index     = "the file: integrity_check finds nothing, but: "
	)
	set := func(what string, handle int) string {
		return fmt.Sprint("UPDATE onceward_rows SET ", what, " WHERE handle = ", handle)
	}
	for name, row := range map[string]struct {
		statement string
		says      []string
	}{
		"another state":               {set("state = 5", 2), []string{pending + written}},
		"another holder":              {set("holder = 'S'", 2), []string{pending + written}},
		"another wake":                {set("wake_at = wake_at + 1", 3), []string{unknown + written}},
		"never woken":                 {set("wake_at = NULL", 2), []string{pending + written}},
		"another settlement":          {set("settled_at = 1", 7), []string{completed + written}},
		"undelivered":                 {set("told = 0", 7), []string{completed + written}},
		"made a tombstone":            {set("reaped = 1", 7), []string{completed + written}},
		"another provider":            {set("provider = 'another'", 2), []string{pending + written}},
		"a record that can't be read": {set("record = zeroblob(length(record))", 2), []string{`operation 2 "": it can be read`}},
		"a record of another":         {"UPDATE onceward_rows SET record = (SELECT record FROM onceward_rows WHERE handle = 3) WHERE handle = 2", []string{`operation 2 "": it can be read`}},
		"a row that is gone": {"DELETE FROM onceward_rows WHERE handle = 2", []string{
			`operation 2 "": its name is of an operation that is there`, `operation 2 "": its request and its answer are of an operation that is there`, `operation 2 "": its entries are of marks that it has`}},
		"a handle that was not given out": {"UPDATE onceward_head SET newest = newest - 1", []string{"the file: its head is as it was written", "it can be read"}},
		"an answer that is gone":          {"DELETE FROM onceward_answers WHERE handle = 7", []string{completed + parts}},
		"an answer too many":              {"INSERT INTO onceward_answers SELECT 2, head, body FROM onceward_answers WHERE handle = 7", []string{pending + parts}},
		"another's answer":                {"UPDATE onceward_answers SET (head, body) = (SELECT head, body FROM onceward_answers WHERE handle = 5) WHERE handle = 7", []string{completed + parts}},
		"an answer's other body":          {"UPDATE onceward_answers SET body = CAST('paid complete!' AS BLOB) WHERE handle = 7", []string{completed + "its request and its answer can be read"}},
		"an answer of nothing":            {"INSERT INTO onceward_answers SELECT 99, head, body FROM onceward_answers WHERE handle = 7", []string{`operation 99 "": its request and its answer are of an operation that is there`}},
		"a request that is gone":          {"DELETE FROM onceward_requests WHERE handle = 2", []string{pending + parts}},
		"a name that is gone":             {"DELETE FROM onceward_names WHERE handle = 7", []string{completed + "its name finds it"}},
		"a name of another":               {"UPDATE onceward_names SET handle = 2 WHERE handle = 7", []string{completed + "its name finds it", pending + "its entries are of names that it has"}},
		"a name that is not one":          {"UPDATE onceward_names SET digest = zeroblob(16) WHERE handle = 7", []string{completed + "its name finds it", completed + "its entries are of names that it has"}},
		"marks that are gone":             {"DELETE FROM onceward_marks WHERE handle = 3", []string{unknown + "its marks find it"}},
		"a mark of nothing":               {"INSERT INTO onceward_marks VALUES (12345, 99)", []string{`operation 99 "": its entries are of marks that it has`}},
		"a mark of another":               {"UPDATE onceward_marks SET handle = 2 WHERE handle = 3", []string{unknown + "its marks find it", `operation 2 "": its entries are of marks that it has`}},
		"a head with another time":        {"UPDATE onceward_head SET last_at = last_at + 1", []string{"the file: its head is as it was written", "it can be read"}},
		"another version of a flow":       {"UPDATE onceward_flows SET version = version + 1", []string{`flow 1 "flow": its rows are as they were written`}},
		"a flow's undefined flag":         {"UPDATE onceward_flows SET tombstone = 2", []string{`flow 1`}},
		"an undefined flag":               {set("told = 2", 7), []string{`operation 7 "": it can be read`}},
		"another name of a flow":          {"UPDATE onceward_flows SET name = zeroblob(16)", []string{`flow 1 "flow": its name finds it`}},
		"another result of a step":        {"UPDATE onceward_steps SET result = x'3332'", []string{`flow 1 "flow": its rows are as they were written`}},
		"a step of no flow":               {"UPDATE onceward_steps SET flow = 7", []string{`flow 7 "": its steps are of a flow that is there`}},
		"another place of a receipt":      {"UPDATE onceward_receipts SET place = 'GET /'", []string{"receipt 1: it is as it was written"}},
		"another answer of a receipt":     {"UPDATE onceward_receipts SET body = CAST('refused' AS BLOB)", []string{"receipt 1: it is as it was written"}},
		"another name of a bookmark":      {"UPDATE onceward_bookmarks SET name = 'other'", []string{`the file: the bookmark "other" is as it was written`}},
		"another record of a bookmark":    {"UPDATE onceward_bookmarks SET record = zeroblob(20)", []string{`the file: the bookmark "feed" is as it was written`}},
		"an event that was never heard":   {"INSERT INTO onceward_heard VALUES (x'0011223344556677', 5)", []string{"the file: an event that was heard is as it was written"}},
		"a session without its file":      {"INSERT INTO onceward_sessions VALUES ('S')", []string{"the file: session S has its file"}},
		"an index that is gone":           {"DROP INDEX onceward_flows_ended", []string{"the file: onceward_flows_ended is there"}},
		"another index": {"DROP INDEX onceward_flows_ended; CREATE INDEX onceward_flows_ended ON onceward_flows (ended_at)",
			[]string{"the file: the definition of onceward_flows_ended is as it was made"}},
		"a trigger": {"CREATE TRIGGER t AFTER INSERT ON onceward_rows BEGIN SELECT 1; END", []string{"the file: the table onceward_rows has t, which onceward did not create"}},
		"an index that lacks a row": {`PRAGMA writable_schema = ON; CREATE INDEX other ON onceward_rows (handle) WHERE state > 100;
			UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'other') WHERE name = 'onceward_rows_unanswered';
			DELETE FROM sqlite_schema WHERE name = 'other'; PRAGMA writable_schema = RESET`, []string{index}},
		"the application's tables are faulty": {"CREATE TABLE notes (n CHECK (n > 0)); PRAGMA ignore_check_constraints = ON; INSERT INTO notes VALUES (-1)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := copied(t, sound)
			execute(t, path, row.statement)
			saysThat(t, verifyFile(t, path), row.says)
		})
	}
}

// verifyFile returns what Verify finds in a file that may have no head.
func verifyFile(t *testing.T, path string) (says []string) {
	t.Helper()
	d, err := rows.OpenReadOnly(path)
	require.NoError(t, err)
	j, err := rowstore.OpenToRead(t.Context(), d, nil, errToRead)
	if errors.Is(err, format.ErrDamaged) {
		require.NoError(t, d.Check(t.Context(), func(v journal.Violation) { says = append(says, v.String()) }))
		return append(says, "it can be read")
	}
	require.NoError(t, err)
	defer j.Close()
	return verify(t, j)
}

// rootOf returns the first page of a table or an index, and the size of pages.
func rootOf(t *testing.T, path, name string) (page, size int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.QueryRow("SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?", name).Scan(&page, &size))
	return page, size
}

// Verify finds a page that can't be read.
func TestVerifyReportsDamage(t *testing.T) {
	path := everything(t)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	page, size := rootOf(t, path, "onceward_requests")
	clear(content[(page-1)*size : page*size])
	require.NoError(t, os.WriteFile(path, content, 0o600))
	assert.NotEmpty(t, verify(t, open(t, path)))
}

// Verify of a journal in use finds nothing.
func TestVerifyOfAJournalInUseFindsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	looking := openToRead(t, path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 40 {
			paid(t, j, fmt.Sprint("invoice-", n))
		}
	}()
	for busy := true; busy; {
		select {
		case <-done:
			busy = false
		default:
		}
		assert.Empty(t, verify(t, looking))
		assert.Empty(t, verify(t, j))
	}
}

// Verify ends with its context, and does not call a file sound that was moved away.
func TestVerifyThatIsGivenUp(t *testing.T) {
	path := leave(t)
	j := open(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := j.Verify(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, os.Rename(path, path+".away"))
	_, err = j.Verify(t.Context())
	require.ErrorContains(t, err, path)
	require.NoError(t, os.Rename(path+".away", path))
	assert.Empty(t, verify(t, j))
	require.NoError(t, j.Close())
	_, err = j.Verify(t.Context())
	require.ErrorIs(t, err, journal.ErrClosed)
}
