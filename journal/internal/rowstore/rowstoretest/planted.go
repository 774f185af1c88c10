package rowstoretest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// PlantedName is the name of one operation that Plant makes. Names are in clear.
const PlantedName = "completed-name"

// PlantedBoxes is how many boxes Plant makes: for five operations, their requests and two answers, for a flow, its
// input and two steps, for two receipts and their answers.
const PlantedBoxes = 20

// Planting is a journal that Plant fills.
type Planting interface {
	machine.Outbox
	machine.Receipts
	machine.Flows
	machine.Reconciler
}

// planter plants a word.
type planter struct {
	t       testing.TB
	j       Planting
	word    string
	session string
	asker   int64
}

// Plant leaves the word in each payload of a journal, and in no clear text.
func Plant(t testing.TB, j Planting, word string) {
	t.Helper()
	s, err := j.Join(t.Context())
	require.NoError(t, err)
	p := &planter{t: t, j: j, word: word, session: s.ID()}
	p.operations()
	p.receipts()
	p.flow()
	_, first, err := j.RecordEvent(t.Context(), machine.Heard{Provider: "ledger", ID: word}, []machine.Event{p.found("deferred")})
	require.NoError(t, err)
	require.True(t, first)
}

func (p *planter) header() http.Header { return http.Header{"X-" + p.word: {p.word}} }

func (p *planter) answer(body string) *journal.Answer {
	return &journal.Answer{Status: 201, Header: p.header(), Trailer: p.header(), Body: []byte(body), Pointer: p.word}
}

func (p *planter) begin(id string) machine.Event {
	p.asker++
	return machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{ID: id}, At: time.Now(), Session: p.session, Asker: p.asker,
		Intent: &machine.Intent{
			Provider: "ledger", Fingerprint: p.word, Key: "key-of-" + id, Compare: []journal.Field{{Name: p.word, Value: p.word}},
			Terms: journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true},
			Request: journal.Request{Method: "POST", URL: "https://" + p.word, Host: p.word, Header: p.header(), Body: []byte(p.word),
				WithheldHeaders: []string{p.word}, WithheldQuery: []string{p.word}},
		},
	}
}

func (p *planter) apply(ev machine.Event) journal.Operation {
	p.t.Helper()
	result, err := p.j.Apply(p.t.Context(), ev)
	require.NoError(p.t, err)
	return result.Operation
}

// of is an event for an operation that has just begun.
func (p *planter) of(kind machine.EventKind, id string) machine.Event {
	p.t.Helper()
	op := p.apply(p.begin(id))
	return machine.Event{Kind: kind, Ref: op.Ref, Handle: op.Handle, At: time.Now(), Session: p.session, Claim: op.Claim, Generation: op.Generation, Attempts: 1}
}

// found is evidence of an operation in flight. Its answer waits with it.
func (p *planter) found(id string) machine.Event {
	ev := p.of(machine.EventEvidence, id)
	ev.Session, ev.Answer, ev.Object = "", p.answer(p.word), "payment p1"
	ev.Evidence = &journal.Evidence{At: time.Now(), Finding: journal.FindingTookEffect, Basis: journal.BasisKey, Source: journal.SourceEvent, Digest: p.word}
	return ev
}

func (p *planter) operations() {
	p.t.Helper()
	done := p.of(machine.EventComplete, PlantedName)
	done.Answer, done.Delivered = p.answer(p.word), true
	p.apply(done)
	large := p.of(machine.EventComplete, "large")
	large.Answer, large.Delivered = p.answer(strings.Repeat(p.word+" ", 1000)), true
	p.apply(large)
	parked := p.of(machine.EventPark, "parked")
	parked.LastAnswer, parked.Open, parked.Due = p.answer(p.word), true, time.Now().Add(time.Hour)
	p.apply(parked)
	enqueued := p.begin("enqueued")
	enqueued.Kind, enqueued.Session, enqueued.Asker = machine.EventEnqueue, "", 0
	p.within(func(tx journal.Tx) error {
		_, err := p.j.EnqueueTx(p.t.Context(), tx, enqueued)
		return err
	})
}

func (p *planter) within(f func(tx journal.Tx) error) {
	p.t.Helper()
	tx, err := p.j.BeginTx(p.t.Context())
	require.NoError(p.t, err)
	require.NoError(p.t, f(tx))
	require.NoError(p.t, tx.Commit(p.t.Context()))
}

// receipts makes a receipt with an answer, and a mark of package consume.
func (p *planter) receipts() {
	p.t.Helper()
	require.NoError(p.t, p.j.MakeReceipts(p.t.Context(), ""))
	for key, answer := range map[journal.ReceiptKey]*journal.Answer{{Key: "inbound-key"}: p.answer(p.word), {Scope: "consume", Key: "message"}: {}} {
		p.within(func(tx journal.Tx) error {
			_, err := p.j.ReceiveTx(p.t.Context(), tx, machine.ReceiptEvent{Kind: machine.ReceiptRecord, ReceiptKey: key, Place: "rides", Fingerprint: p.word,
				At: time.Now(), Keep: time.Hour, Answer: answer, Same: func(*journal.Receipt) (bool, error) { return true, nil }})
			return err
		})
	}
}

func (p *planter) flow() {
	p.t.Helper()
	quoted := []byte(`"` + p.word + `"`)
	begun, err := p.j.ApplyFlow(p.t.Context(), machine.FlowEvent{Kind: machine.FlowEventBegin, Ref: journal.Ref{ID: "flow-name"}, At: time.Now(), Session: p.session,
		Function: journal.FlowFunction{Name: "f"}, InputDigest: p.word, Input: quoted})
	require.NoError(p.t, err)
	_, err = p.j.ApplyFlow(p.t.Context(), machine.FlowEvent{Kind: machine.FlowEventFail, Handle: begun.Flow.Handle, At: time.Now(), Claim: 1, Cause: p.word, Limit: 9,
		Steps: []journal.StepRecord{
			{Seq: 1, Kind: journal.StepDone, Name: "charge", Result: quoted, At: time.Now()},
			{Seq: 2, Kind: journal.StepUndone, Name: "charge", At: time.Now()},
		}})
	require.NoError(p.t, err)
	_, err = p.j.ApplyFlow(p.t.Context(), machine.FlowEvent{Kind: machine.FlowEventGiveUp, Handle: begun.Flow.Handle, At: time.Now(), Cause: p.word})
	require.NoError(p.t, err)
}

// RequirePlanted checks that a journal has each planted word.
func RequirePlanted(t testing.TB, j Planting, word string) {
	t.Helper()
	op, err := j.Get(t.Context(), journal.Ref{ID: PlantedName})
	require.NoError(t, err)
	require.Equal(t, word, string(op.Answer.Body))
	op, err = j.Get(t.Context(), journal.Ref{ID: "large"})
	require.NoError(t, err)
	require.Len(t, op.Answer.Body, 1000*len(word+" "))
	op, err = j.Get(t.Context(), journal.Ref{ID: "parked"})
	require.NoError(t, err)
	require.Equal(t, word, string(op.LastAnswer.Body))
	op, err = j.Get(t.Context(), journal.Ref{ID: "deferred"})
	require.NoError(t, err)
	require.Equal(t, word, op.Evidence[0].Digest)
	op, err = j.Get(t.Context(), journal.Ref{ID: "enqueued"})
	require.NoError(t, err)
	require.Equal(t, word, string(op.Request.Body))
	f, err := j.GetFlow(t.Context(), journal.Ref{ID: "flow-name"})
	require.NoError(t, err)
	require.Equal(t, `"`+word+`"`, string(f.Steps[0].Result))
	require.Equal(t, word, f.GivenUpFor)
	require.Equal(t, word, f.History[0].Error)
	r, err := j.GetReceipt(t.Context(), journal.ReceiptKey{Key: "inbound-key"})
	require.NoError(t, err)
	require.Equal(t, word, string(r.Answer.Body))
	require.Equal(t, word, r.Fingerprint)
}

// RequireSealed checks that a journal without the key names the key, shows no word, and decides nothing.
func RequireSealed(t testing.TB, j Planting, key, word string) {
	t.Helper()
	for op, err := range j.List(t.Context(), journal.Filter{}) {
		require.NoError(t, err)
		require.Equal(t, key, op.SealedBy)
		require.Empty(t, op.Request.URL)
	}
	op, err := j.Get(t.Context(), journal.Ref{ID: PlantedName})
	require.ErrorIs(t, err, journal.ErrSealed)
	require.ErrorContains(t, err, `"`+key+`"`)
	require.Equal(t, journal.StateCompleted, op.State)
	require.Equal(t, 201, op.Answer.Status)
	for f, err := range j.ListFlows(t.Context(), journal.FlowFilter{}) {
		require.NoError(t, err)
		require.Equal(t, key, f.SealedBy)
		require.NotContains(t, fmt.Sprintf("%+v", f), word)
	}
	for r, err := range j.ListReceipts(t.Context(), journal.ReceiptFilter{}) {
		require.NoError(t, err)
		require.Equal(t, key, r.SealedBy)
	}
	_, err = j.Join(t.Context())
	require.Error(t, err)
}
