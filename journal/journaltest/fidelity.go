package journaltest

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/memory"
	"github.com/onceward/onceward/journal"
)

func keyNumber(i int) string { return "9f0c7d52-0000-4000-8000-" + strconv.Itoa(1_000_000+i) }

var everyByte = func() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}()

var fidelityTests = []test{
	{"a request comes back byte for byte", func(t *testing.T, h Harness) {
		for name, request := range map[string]journal.Request{
			"nothing": {},
			"empty and not nil": {Header: http.Header{}, Body: []byte{}, WithheldHeaders: []string{},
				WithheldQuery: []string{}},
			"every byte": {Method: "POST", URL: "https://a.example/?q=%00", Body: everyByte,
				Header: http.Header{"X-Raw": {string(everyByte[0x80:])}}},
			"headers with several values": {Header: http.Header{"Accept": {"a", "", "b"}, "Empty": {}, "Nil": nil, "X": {""}}},
			"withheld names": {Host: "other.example", WithheldHeaders: []string{"Authorization", "X-Api-Key"},
				WithheldQuery: []string{"token"}},
		} {
			t.Run(name, func(t *testing.T) {
				c := newCaller(t, h.Journal)
				ev := c.beginEvent(named(name))
				ev.Intent.Request = request
				c.decide(ev, machine.Execute)
				assert.Equal(t, request, c.get(named(name)).Request)
			})
		}
	}},
	{"an answer comes back byte for byte", func(t *testing.T, h Harness) {
		for name, answer := range map[string]journal.Answer{
			"nothing":           {},
			"empty and not nil": {Status: 204, Header: http.Header{}, Trailer: http.Header{}, Body: []byte{}},
			"everything": {Status: 299, Header: http.Header{"Link": {"a", "b"}}, Trailer: http.Header{"Digest": {"x"}}, Body: everyByte,
				Omitted: true, Cut: true, Refused: true, Pointer: "ch_1", ByHand: true},
		} {
			t.Run(name, func(t *testing.T) {
				c := newCaller(t, h.Journal)
				ev := c.completeEvent(c.begin(named(name)))
				ev.Answer = &answer
				c.decide(ev, machine.Recorded)
				assert.Equal(t, &answer, c.get(named(name)).Answer)
				assert.Equal(t, &answer, c.decide(c.beginEvent(named(name)), machine.Replay).Answer)
			})
		}
	}},
	{"changes to an event or a result do not change the record", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		ev := c.beginEvent(named("invoice-1"))
		op := c.decide(ev, machine.Execute)
		ev.Intent.Request.Body[0] = 'X'
		ev.Intent.Request.Header["Content-Type"][0] = "X"
		answer := c.completeEvent(op)
		c.decide(answer, machine.Recorded)
		answer.Answer.Body[0] = 'X'
		answer.Answer.Header.Set("Request-Id", "X")
		for range 2 {
			got := c.get(named("invoice-1"))
			assert.Equal(t, []byte(`{"amount":100}`), got.Request.Body)
			assert.Equal(t, "application/json", got.Request.Header.Get("Content-Type"))
			assert.Equal(t, []byte(`{"paid":true}`), got.Answer.Body)
			assert.Equal(t, "req_1", got.Answer.Header.Get("Request-Id"))
			got.Request.Body[0], got.Answer.Body[0] = 'Y', 'Y'
			got.Answer.Header.Set("Request-Id", "Y")
		}
	}},
	{"large bodies", func(t *testing.T, h Harness) {
		large := bytes.Repeat(everyByte, 4096) // 1 MiB
		c := newCaller(t, h.Journal)
		ev := c.beginEvent(named("large"))
		ev.Intent.Request.Body = large
		answer := c.completeEvent(c.decide(ev, machine.Execute))
		answer.Answer.Body = large[1:]
		c.decide(answer, machine.Recorded)
		got := c.get(named("large"))
		assert.True(t, bytes.Equal(large, got.Request.Body))
		assert.True(t, bytes.Equal(large[1:], got.Answer.Body))
	}},
	{"times are kept to the millisecond, in UTC", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		c.now = time.Date(2026, 3, 1, 12, 0, 0, 123_999_999, time.FixedZone("elsewhere", 3600))
		want := time.Date(2026, 3, 1, 11, 0, 0, 123_000_000, time.UTC)
		op := c.begin(named("invoice-1"))
		assert.Equal(t, want, op.CreatedAt)
		op = c.park(op, c.now.Add(time.Hour))
		got := c.get(named("invoice-1"))
		assert.Equal(t, want, got.CreatedAt)
		assert.Equal(t, want, got.FirstSentAt)
		assert.Equal(t, want.Add(time.Hour), got.DueAt)
		assert.Equal(t, want.Add(time.Hour), got.WakeAt)
		assert.True(t, got.SettledAt.IsZero())
		assert.True(t, got.BusySince.IsZero())
		assert.Equal(t, op.LastEndedAt, got.LastEndedAt)
	}},
	{"every field of an operation is kept", func(t *testing.T, h Harness) {
		c := newCaller(t, h.Journal)
		ev := c.beginEvent(journal.Ref{Scope: "tenant-42", Parent: "flow", ID: "step"})
		ev.Asker = 77
		ev.Intent.KeyCarried, ev.Intent.Credential = true, "salted digest"
		ev.Intent.Mode, ev.Intent.Form, ev.Intent.BodyWithheld = "test", "header Idempotency-Key", true
		ev.Intent.Alias = journal.Ref{Scope: "tenant-42", Parent: "\x00carried", ID: "their key"}
		ev.Intent.Terms = journal.Terms{Remembers: memory.SuccessesCleanFailures, Retention: 90*time.Minute + time.Nanosecond, Handling: 17 * time.Second}
		op := c.decide(ev, machine.Execute)
		park := c.of(machine.EventPark, op)
		park.Due, park.Cause, park.Attempts, park.Open, park.Busy, park.Told = noon.Add(time.Minute), "in flight there", 3, true, true, true
		park.Failed, park.DueOwn = true, true
		op = c.decide(park, machine.Recorded)
		want := journal.Operation{
			Handle: op.Handle, Ref: ev.Ref, Naming: journal.Named,
			Provider: "ledger", Endpoint: "POST /charges", Key: "key-of-step", KeyCarried: true, Credential: "salted digest", Fingerprint: "v1:step",
			Terms: ev.Intent.Terms, Request: ev.Intent.Request,
			Mode: "test", Form: "header Idempotency-Key", Alias: ev.Intent.Alias, BodyWithheld: true, Failed: true, DueOwn: true,
			State: journal.StatePending, Claim: 1, Asker: 77, MayHaveRun: true, FirstSentAt: noon, LastEndedAt: noon, BusySince: noon, ParkedSince: noon,
			Attempts: 3, CreatedAt: noon, UpdatedAt: noon, DueAt: noon.Add(time.Minute), WakeAt: noon.Add(90*time.Minute - 1350*time.Second), // the caller's window: only the caller has the body
			Cause: "in flight there", Told: true,
		}
		assert.Equal(t, want, c.get(ev.Ref))
		want.Request.Body = nil
		assert.Equal(t, []journal.Operation{want}, c.list(journal.Filter{}))
	}},
}
