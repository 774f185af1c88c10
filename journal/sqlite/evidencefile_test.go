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

// evidenceFile has a journal with evidence of every kind, of the schema's version 6. Each later release has to go on
// with it. A later file with more evidence gets another name: delete none.
//
//	go test ./journal/sqlite -run TestEvidenceFile -schemafile
const evidenceFile = "testdata/evidence.db"

// evident makes operations with evidence, and keeps the recorded results.
type evident struct {
	t  *testing.T
	j  *sqlite.Journal
	s  journal.Session
	at time.Time
}

func (e *evident) apply(ev journal.Event) journal.Operation {
	e.t.Helper()
	ev.At = e.at
	res, err := e.j.Apply(e.t.Context(), ev)
	require.NoError(e.t, err)
	return res.Operation
}

func (e *evident) get(id string) journal.Operation {
	e.t.Helper()
	op, err := e.j.Get(e.t.Context(), journal.Ref{ID: id})
	require.NoError(e.t, err)
	return op
}

func (e *evident) of(kind journal.EventKind, op journal.Operation) journal.Event {
	return journal.Event{Kind: kind, Ref: op.Ref, Handle: op.Handle, Session: e.s.ID(), Claim: op.Claim, Generation: op.Generation}
}

func (e *evident) begins(id, reference string, ours bool) journal.Operation {
	e.t.Helper()
	ev := begin(id, e.s)
	in := ev.Intent
	in.Terms.Handling = time.Minute
	in.Reference, in.ReferenceName, in.ReferenceOurs = reference, "form metadata[onceward]", ours
	in.Compare = []journal.Field{{Name: "request.amount", Value: "100"}}
	in.Account = "acct_1"
	return e.apply(ev)
}

// unknown leaves an operation unknown, with a client's reference.
func (e *evident) unknown(id string) journal.Operation {
	e.t.Helper()
	doubt := e.of(journal.EventDoubt, e.begins(id, "ref-of-"+id, true))
	doubt.Attempts, doubt.Open, doubt.Account, doubt.LookAfter = 1, true, "acct_1", 10*time.Minute
	return e.apply(doubt)
}

func (e *evident) shows(op journal.Operation, finding journal.Finding, basis journal.Basis, object string) journal.Operation {
	e.t.Helper()
	return e.apply(e.evidence(op, finding, basis, object))
}

func (e *evident) evidence(op journal.Operation, finding journal.Finding, basis journal.Basis, object string) journal.Event {
	ev := e.of(journal.EventEvidence, op)
	ev.Session, ev.Account, ev.Object, ev.Due = "", "acct_1", object, e.at.Add(time.Hour)
	ev.Evidence = &journal.Evidence{Source: journal.SourceLook, Finding: finding, Basis: basis, Status: 200, Pages: 1, Rule: "a source"}
	if finding == journal.FindingAbsent {
		ev.Absence = &journal.Absence{Began: e.at, Whole: true, ByRequest: true, Consistent: true, Handling: time.Minute, Control: e.at, Account: "acct_1"}
	}
	return ev
}

func (e *evident) resolves(op journal.Operation, resolution journal.Resolution, object string) (journal.Operation, error) {
	ev := e.of(journal.EventResolve, op)
	ev.At, ev.Resolution, ev.By, ev.Cause, ev.Object = e.at, resolution, "ann", "the dashboard", object
	res, err := e.j.Apply(e.t.Context(), ev)
	return res.Operation, err
}

func (e *evident) nothing(id string) journal.Operation {
	e.t.Helper()
	e.at = e.at.Add(2 * time.Hour)
	return e.shows(e.get(id), journal.FindingAbsent, journal.BasisNone, "")
}

func writeEvidenceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	e := &evident{t: t, j: open(t, path), at: schemaFileTime.Add(-24 * time.Hour)}
	var err error
	e.s, err = e.j.Join(t.Context())
	require.NoError(t, err)
	e.shows(e.unknown("candidates"), journal.FindingAmbiguous, journal.BasisFields, "charge ch_1, charge ch_2")
	e.shows(e.unknown("marked"), journal.FindingTookEffect, journal.BasisKey, "charge ch_3")
	e.shows(e.unknown("contradicted"), journal.FindingTookEffect, journal.BasisFields, "charge ch_4")
	e.unknown("absent twice")
	e.nothing("absent twice")
	e.nothing("absent twice")
	e.unknown("absent once")
	e.nothing("absent once")
	held := e.begins("held", "ref-of-held", true)
	park := e.of(journal.EventPark, held)
	park.Open, park.Attempts, park.Due, park.Account = true, 1, e.at.Add(time.Hour), "acct_1"
	held, err = e.resolves(e.apply(park), journal.Hold, "")
	require.NoError(t, err)
	e.shows(held, journal.FindingTookEffect, journal.BasisKey, "charge ch_5")
	unsent := e.of(journal.EventPark, e.begins("never left", "ref-of-never", true))
	unsent.Unsent, unsent.Due = true, e.at.Add(time.Hour)
	e.shows(e.apply(unsent), journal.FindingTookEffect, journal.BasisKey, "charge ch_6")
	op := e.of(journal.EventDoubt, e.begins("sole reference", "order-1", false))
	op.Open, op.Attempts, op.Account = true, 1, "acct_1"
	e.apply(op)
	for _, id := range []string{"shared reference", "shares it"} {
		op := e.of(journal.EventDoubt, e.begins(id, "order-2", false))
		op.Open, op.Attempts, op.Account = true, 1, "acct_1"
		e.apply(op)
	}
	require.NoError(t, sqlite.Fold(e.j))
	heard := e.evidence(e.begins("heard in flight", "ref-of-heard", true), journal.FindingTookEffect, journal.BasisKey, "charge ch_7")
	heard.Answer = &journal.Answer{Status: 200, Body: []byte(`{"id":"ch_7"}`)}
	e.apply(heard)
	packJournal(t, e.j, path, evidenceFile, evidenceIn(t, e.j))
}

// evidenceIn returns the journal's evidence, a line for each operation and each evidence.
func evidenceIn(t *testing.T, j *sqlite.Journal) string {
	t.Helper()
	var lines []string
	for _, op := range listed(t, j, journal.Filter{}) {
		line := fmt.Sprintf("%q: %s, generation %d, object %q, reference %q, ours %v, account %q, attention %q, looks %d, rounds %v",
			op.ID, op.State, op.Generation, op.Object, op.Reference, op.ReferenceOurs, op.Account, op.Attention, op.Looks, op.Rounds)
		if op.Resolved != nil {
			line += fmt.Sprintf(", %s by %q: %q", op.Resolved.Resolution, op.Resolved.By, op.Resolved.Why)
		}
		for _, e := range op.Evidence {
			line += fmt.Sprintf("\n  of generation %d: %s by %s, %q, %q", e.Generation, e.Finding, e.Basis, e.Object, e.Why)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// A journal with evidence of every kind, from an earlier release, is opened without a loss, and goes on.
func TestEvidenceFile(t *testing.T) {
	if _, err := os.Stat(evidenceFile + ".zst"); *makeSchemaFile && os.IsNotExist(err) {
		writeEvidenceFile(t)
	}
	path := unpacked(t, evidenceFile)
	e := &evident{t: t, j: open(t, path), at: schemaFileTime}
	want, err := os.ReadFile(evidenceFile + ".txt")
	require.NoError(t, err)
	require.Equal(t, string(want), evidenceIn(t, e.j))
	require.Empty(t, verify(t, e.j))
	e.s, err = e.j.Join(t.Context())
	require.NoError(t, err)

	// An object proves one operation. A person decides about a candidate.
	assert.Equal(t, journal.StateUnknown, e.shows(e.get("contradicted"), journal.FindingTookEffect, journal.BasisKey, "charge ch_3").State)
	_, err = e.resolves(e.get("candidates"), journal.Executed, "charge ch_3")
	require.ErrorIs(t, err, journal.ErrInvalidEvent)
	op, err := e.resolves(e.get("candidates"), journal.Executed, "charge ch_2")
	require.NoError(t, err)
	assert.Equal(t, "charge ch_2", op.Object)

	// A caller's reference is a mark if no other operation ever had it.
	for id, state := range map[string]journal.State{"sole reference": journal.StateCompleted, "shared reference": journal.StateUnknown} {
		ev := e.evidence(e.get(id), journal.FindingTookEffect, journal.BasisFields, "charge of "+id)
		ev.Reference = e.get(id).Reference
		assert.Equal(t, state, e.apply(ev).State, id)
	}

	// Evidence settles neither an operation on hold nor one that was never sent. Evidence that arrived in flight
	// settles its operation once the session is dead.
	assert.Equal(t, journal.StateUnknown, e.shows(e.get("held"), journal.FindingTookEffect, journal.BasisKey, "charge ch_5").State)
	assert.Equal(t, journal.StateUnknown, e.shows(e.get("never left"), journal.FindingTookEffect, journal.BasisKey, "charge ch_6").State)
	ev := claim(e.s)
	ev.At = e.at
	_, err = e.j.Claim(t.Context(), ev, 100)
	require.NoError(t, err)
	assert.Equal(t, "charge ch_7", e.get("heard in flight").Object)
	assert.Equal(t, journal.StateCompleted, e.get("heard in flight").State)

	// The second absence proves that it is absent. If the absent round turns out to have taken effect, that counts too.
	assert.Equal(t, journal.StateCancelled, e.nothing("absent once").State)
	late := e.evidence(e.get("absent twice"), journal.FindingTookEffect, journal.BasisKey, "charge ch_8")
	late.Generation = 0
	assert.Equal(t, journal.StateCompleted, e.apply(late).State)

	assert.Empty(t, verify(t, e.j))
	require.NoError(t, e.s.End(t.Context()))
	require.NoError(t, e.j.Close())
	assert.Empty(t, verify(t, open(t, path)))
}
