package receipt

import (
	"net/http"
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Answers of handlers.
const (
	created  = http.StatusCreated
	done     = http.StatusOK // without a row
	declined = http.StatusPaymentRequired
	invalid  = http.StatusBadRequest
	failed   = http.StatusInternalServerError
)

// final reports whether a caller is content with an answer.
func final(status uint16) bool { return status == created || status == done || status == declined }

// day is a step of the clock. An answer is given for one, and its key is refused for another one.
const day = 24 * time.Hour

// noon is now.
var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// record is a receipt, comparable. Its times are days from now on. One that every clock has passed does not go further.
type record struct {
	State     journal.ReceiptState
	Claim     int64
	Request   string
	Expires   int8
	Refused   int8
	HasAnswer bool
	Answer    uint8
	Status    uint16
	Resolved  bool
}

// past is so long ago that even a slow clock knows the time.
const past = -1

// row is the handle of the receipt's present row, and anotherRow the handle of any earlier row.
const row, anotherRow = 1, 2

func daysTo(t time.Time) int8 { return max(int8(t.Sub(noon)/day), past) }

func in(days int8) time.Time { return noon.Add(time.Duration(days) * day) }

func recordOf(r *journal.Receipt) record {
	if r.State == journal.ReceiptAbsent {
		return record{}
	}
	rec := record{
		State: r.State, Claim: r.Claim, Request: r.Fingerprint, Expires: daysTo(r.ExpiresAt), Refused: daysTo(r.RefusedUntil),
		HasAnswer: r.Answer != nil, Resolved: r.Cause != "",
	}
	if r.Answer != nil {
		n, _ := strconv.Atoi(string(r.Answer.Body))
		rec.Answer, rec.Status = uint8(n), uint16(r.Answer.Status)
	}
	return rec
}

func (r *record) receipt() journal.Receipt {
	if r.State == journal.ReceiptAbsent {
		return journal.Receipt{}
	}
	whole := journal.Receipt{
		Handle: row, ReceiptKey: key, Place: place, State: r.State, Claim: r.Claim, Fingerprint: r.Request,
		CreatedAt: in(r.Expires - 1), ExpiresAt: in(r.Expires), RefusedUntil: in(r.Refused),
	}
	if r.State == journal.ReceiptCompleted {
		whole.SettledAt = whole.CreatedAt
	}
	if r.HasAnswer {
		whole.Answer = answerOf(r.Answer, r.Status)
	}
	if r.Resolved {
		whole.Cause = "resolved"
	}
	return whole
}

// older returns the record a day later.
func (r record) older() record {
	if r.State != journal.ReceiptAbsent {
		r.Expires, r.Refused = max(r.Expires-1, past), max(r.Refused-1, past)
	}
	return r
}

func answerOf(number uint8, status uint16) *journal.Answer {
	return &journal.Answer{Status: int(status), Body: []byte(strconv.Itoa(int(number)))}
}

var key = journal.ReceiptKey{Scope: "t acme", Key: "key-1"}

const place = "payments.create"

// requests are the two that come under the key.
var requests = [...]string{"request 0", "request 1"}

// asked is one use of NextReceipt, comparable.
type asked struct {
	rec        uint16
	kind       machine.ReceiptEventKind
	request    uint8
	at         int8
	leapt      bool
	claim      int64
	answer     uint8
	status     uint16
	resolution journal.Resolution
	handle     int64
}

type outcome struct {
	rec      uint16
	decision machine.Decision
	unsound  bool // the receipt breaks machine.ReceiptViolations
	err      error
}

func (a *asked) event() machine.ReceiptEvent {
	ev := machine.ReceiptEvent{Kind: a.kind, ReceiptKey: key, At: in(a.at), Last: noon}
	if a.leapt {
		ev.Unconfirmed = ev.At.Add(machine.Confirmation)
	}
	switch a.kind {
	case machine.ReceiptReserve, machine.ReceiptRecord:
		request := requests[a.request]
		ev.Place, ev.Fingerprint, ev.Keep, ev.Refuse = place, request, day, day
		ev.Same = func(r *journal.Receipt) (bool, error) { return r.Fingerprint == request, nil }
	case machine.ReceiptComplete:
		ev.Claim = a.claim
	case machine.ReceiptResolve:
		ev.Handle, ev.Claim, ev.Resolution, ev.By = a.handle, a.claim, a.resolution, "ada"
	}
	if a.status != 0 {
		ev.Answer = answerOf(a.answer, a.status)
	}
	return ev
}
