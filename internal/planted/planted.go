// Package planted makes journals with an operation in every situation that a person may be shown, some with hostile
// names and bodies. Tests of code that shows journals use it.
package planted

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

// Card and Secret may stand only in bodies that a rendering shows by their shape alone.
const (
	Card   = "4242424242424242"
	Secret = "sk_live_canary51H8sX"
)

// Names of the operations that Plant makes.
const (
	Completed = "invoice-1/charge"
	Unknown   = "invoice-2/charge"
	Closing   = "invoice-3/charge" // pending, may have run, near the end of its window
	Unsent    = "invoice-4/charge" // pending, and nothing was ever sent
	Cancelled = "invoice-5/refund"
	Twice     = "invoice-6/charge" // completed, and a second effect is proven
	Held      = "invoice-7/charge" // in flight
	SetAside  = "order-17"         // a flow
	Waiting   = "order-18"         // likewise
)

// Hostile is a name that would run a script, turn the direction of writing and clear a terminal;
// Long one of 512 bytes.
var (
	Hostile = "<script>document.title='pwned'</script>\u202egnp.\u202c\u009b2J</td>"
	Long    = strings.Repeat("long-name-", 51) + "ab"
)

// Scope is the scope for some operations.
const Scope = "tenant-9"

var terms = journal.Terms{Remembers: memory.Everything, Retention: 24 * time.Hour, Guard: true}

// planter applies events, and keeps the first error.
type planter struct {
	ctx     context.Context
	j       machine.Store
	session string
	asker   int64
	err     error
}

func (p *planter) apply(ev machine.Event) journal.Operation {
	if p.err != nil {
		return journal.Operation{}
	}
	res, err := p.j.Apply(p.ctx, ev)
	if err == nil && (res.Decision == machine.Ignored || res.Decision == machine.Stale) {
		err = fmt.Errorf("planted: %s of %s is %s", ev.Kind, ev.Ref.ID, res.Decision)
	}
	p.err = err
	return res.Operation
}

func (p *planter) begin(at time.Time, scope, id string) journal.Operation {
	p.asker++
	key := fmt.Sprintf("key-%04d-0123456789abcdef", p.asker)
	return p.apply(machine.Event{
		Kind: machine.EventBegin, Ref: journal.Ref{Scope: scope, ID: id}, At: at, Session: p.session, Asker: p.asker,
		Intent: &machine.Intent{
			Provider: "stripe", Endpoint: "POST /v1/charges", Fingerprint: "f-" + key, Terms: terms, Key: key,
			NextKey: func(generation int) string { return fmt.Sprintf("%s-%d", key, generation) },
			Request: journal.Request{
				Method: http.MethodPost, URL: "https://api.stripe.com/v1/charges?expand=balance",
				Header:          http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
				Body:            []byte("amount=2000&currency=eur&card[number]=" + Card + "&card[cvc]=123&note=" + Secret),
				WithheldHeaders: []string{"Authorization"},
			},
		},
	})
}

func (p *planter) event(kind machine.EventKind, op journal.Operation, at time.Time, cause string) machine.Event {
	return machine.Event{
		Kind: kind, Ref: op.Ref, Handle: op.Handle, At: at, Session: p.session, Claim: op.Claim, Generation: op.Generation, Cause: cause, Attempts: 1,
	}
}

func (p *planter) complete(op journal.Operation, at time.Time, body string) {
	ev := p.event(machine.EventComplete, op, at, "")
	ev.Delivered = true
	ev.Answer = &journal.Answer{Generation: op.Generation, Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
	p.apply(ev)
}

// Answer is the body that answers completed operations.
const Answer = `{"id":"ch_1","amount":2000,"card":{"number":"` + Card + `","cvc":"123","last4":"4242"},"client_secret":"` + Secret + `"}`

// Plant makes one of each, from the last 23 hours before now. The session holds what is in flight until the caller ends
// it.
func Plant(ctx context.Context, j machine.Store, now time.Time) (machine.Session, error) {
	session, err := j.Join(ctx)
	if err != nil {
		return nil, err
	}
	p := &planter{ctx: ctx, j: j, session: session.ID()}
	old, recent := now.Add(-22*time.Hour-30*time.Minute), now.Add(-40*time.Minute)

	op := p.begin(old, "", Closing)
	ev := p.event(machine.EventPark, op, old.Add(time.Second), "no answer within 30 s")
	ev.Open, ev.Due = true, now.Add(10*time.Minute)
	p.apply(ev)

	p.complete(p.begin(recent, "", Completed), recent.Add(time.Second), Answer)

	op = p.begin(recent, "", Unknown)
	ev = p.event(machine.EventMarkUnknown, op, recent.Add(2*time.Second), "the connection was cut after the request was sent")
	ev.Open = true
	p.apply(ev)
	ev = p.event(machine.EventEvidence, op, recent.Add(3*time.Second), "")
	ev.Evidence = &journal.Evidence{
		At: recent.Add(3 * time.Second), Source: journal.SourceLook, Actor: "worker-1", Target: "GET https://api.stripe.com/v1/charges", Status: 200, Pages: 1,
		Finding: journal.FindingInconclusive, Why: "two objects may be this one",
	}
	ev.Due = now.Add(time.Hour)
	p.apply(ev)

	op = p.begin(recent, Scope, Unsent)
	ev = p.event(machine.EventPark, op, recent.Add(time.Second), "the provider is down: connection refused")
	ev.Unsent, ev.Due = true, now.Add(5*time.Minute)
	p.apply(ev)

	op = p.begin(recent, "", Cancelled)
	ev = p.event(machine.EventCancel, op, recent.Add(time.Second), "the provider refused it: 400")
	ev.Unsent, ev.Delivered = true, true
	p.apply(ev)

	p.twice(recent)

	op = p.begin(recent, "tenant\u2066-x", Hostile)
	ev = p.event(machine.EventMarkUnknown, op, recent.Add(time.Second), "an answer with \x1b[31m in it")
	ev.Open = true
	p.apply(ev)
	op = p.begin(recent, "", Long)
	ev = p.event(machine.EventMarkUnknown, op, recent.Add(time.Second), "no answer")
	ev.Open = true
	p.apply(ev)

	if p.err == nil {
		if flows, keeps := j.(machine.Flows); keeps {
			p.err = p.flows(flows, recent)
		}
	}
	p.begin(now.Add(-3*time.Second), "", Held)
	return session, p.err
}

// twice makes an operation that was sent again after an operator's "no effect". Then the first answer came.
func (p *planter) twice(at time.Time) {
	first := p.begin(at, "", Twice)
	ev := p.event(machine.EventMarkUnknown, first, at.Add(time.Second), "no answer")
	ev.Open = true
	doubted := p.apply(ev)
	ev = p.event(machine.EventResolve, doubted, at.Add(2*time.Second), "the dashboard shows none")
	ev.Ref, ev.Handle = first.Ref, first.Handle
	ev.Resolution, ev.By, ev.Claim, ev.Generation = journal.SendAgain, "ann", first.Claim, first.Generation
	ev.Key = "key-again-0123456789abcdef"
	p.apply(ev)
	again := p.begin(at.Add(3*time.Second), "", Twice)
	if p.err == nil {
		again.Ref = first.Ref
	}
	p.complete(again, at.Add(4*time.Second), `{"id":"ch_3"}`)
	late := p.event(machine.EventComplete, first, at.Add(5*time.Second), "")
	late.Answer = &journal.Answer{Status: 200, Body: []byte(`{"id":"ch_2"}`)}
	p.apply(late)
}

func (p *planter) flows(j machine.Flows, at time.Time) error {
	for _, name := range []string{SetAside, Waiting} {
		ref := journal.Ref{ID: name}
		res, err := j.ApplyFlow(p.ctx, machine.FlowEvent{
			Kind: machine.FlowEventBegin, Ref: ref, At: at, Session: p.session, Function: journal.FlowFunction{Name: "fulfil", Version: 1},
			Key: "flow-key-0123456789", Input: []byte(`{"order":17,"token":"` + Secret + `"}`), InputDigest: "d-" + name,
		})
		if err != nil {
			return err
		}
		_, err = j.ApplyFlow(p.ctx, machine.FlowEvent{
			Kind: machine.FlowEventRecord, Ref: ref, At: at, Session: p.session, Claim: res.Flow.Claim,
			Steps: []journal.StepRecord{{Seq: 1, Kind: journal.StepDone, Name: "reserve", Position: 1, Result: []byte(`{"reservation":"r-1"}`), At: at}},
		})
		if err != nil {
			return err
		}
		limit := 9
		if name == SetAside {
			limit = 1
		}
		_, err = j.ApplyFlow(p.ctx, machine.FlowEvent{
			Kind: machine.FlowEventFail, Ref: ref, At: at.Add(time.Second), Session: p.session, Claim: res.Flow.Claim, Limit: limit,
			Cause: "step ship: no stock", Due: at.Add(24 * time.Hour),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
