package machine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

var receivedAt = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// reserve is a request under a key. Another body makes another request.
func reserve(at time.Time, body string) machine.ReceiptEvent {
	return machine.ReceiptEvent{
		Kind: machine.ReceiptReserve, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: "key-1"}, At: at, Last: at,
		Place: "payments.create", Fingerprint: body, Same: func(r *journal.Receipt) (bool, error) { return r.Fingerprint == body, nil },
		Keep: 24 * time.Hour, Refuse: 48 * time.Hour,
	}
}

var created = &journal.Answer{Status: 201, Body: []byte(`{"id":"p-1"}`)}

// applied is the receipt after events that each take place.
func applied(t *testing.T, evs ...machine.ReceiptEvent) (r journal.Receipt) {
	t.Helper()
	for _, ev := range evs {
		result, err := machine.NextReceipt(r, ev)
		require.NoError(t, err)
		require.Contains(t, []machine.Decision{machine.Execute, machine.Recorded}, result.Decision)
		if r = result.Receipt; r.State != journal.ReceiptAbsent {
			require.Empty(t, machine.ReceiptViolations(r))
		}
	}
	return r
}

// Each event in each state of a receipt leads to the decision of the table.
func TestNextReceipt(t *testing.T) {
	first := reserve(receivedAt, "a")
	complete := machine.ReceiptEvent{Kind: machine.ReceiptComplete, At: receivedAt, Claim: 1, Answer: created}
	record := first
	record.Kind, record.Answer = machine.ReceiptRecord, created
	reap := func(after time.Duration) machine.ReceiptEvent {
		return machine.ReceiptEvent{Kind: machine.ReceiptReap, At: receivedAt.Add(after), Last: receivedAt.Add(after)}
	}
	resolve := func(as journal.Resolution, answer *journal.Answer) machine.ReceiptEvent {
		return machine.ReceiptEvent{Kind: machine.ReceiptResolve, At: receivedAt, By: "ada", Why: "the ledger has it", Resolution: as, Answer: answer}
	}
	later := func(ev machine.ReceiptEvent, by time.Duration) machine.ReceiptEvent {
		ev.At, ev.Last = ev.At.Add(by), ev.Last.Add(by)
		return ev
	}
	other := reserve(receivedAt, "b")
	stale := complete
	stale.Claim = 2
	leapt := later(first, 100*time.Hour)
	leapt.Last, leapt.Unconfirmed = receivedAt, leapt.At.Add(time.Hour)
	incomparable := first
	incomparable.Same = func(*journal.Receipt) (bool, error) { return false, errors.New("of a newer release") }

	moved := resolve(journal.NotExecuted, nil)
	moved.Claim = 2
	seen, unsigned, unexplained := moved, resolve(journal.NotExecuted, nil), resolve(journal.NotExecuted, nil)
	seen.Claim, unsigned.By, unexplained.Why = 1, "", ""
	freed := resolve(journal.NotExecuted, nil)
	freed.Claim, freed.Handle = 1, 1

	absent, reserved := []machine.ReceiptEvent(nil), []machine.ReceiptEvent{first}
	completed := []machine.ReceiptEvent{first, complete}
	reaped := []machine.ReceiptEvent{first, complete, reap(24 * time.Hour)}
	for _, row := range []struct {
		name   string
		before []machine.ReceiptEvent
		ev     machine.ReceiptEvent
		want   machine.Decision
		state  journal.ReceiptState // afterwards
	}{
		{"a new key is reserved", absent, first, machine.Execute, journal.ReceiptReserved},
		{"an answer is recorded without a reservation", absent, record, machine.Recorded, journal.ReceiptCompleted},
		{"nothing is completed that was not reserved", absent, complete, machine.Stale, journal.ReceiptAbsent},
		{"nothing is reaped that is not there", absent, reap(1000 * time.Hour), machine.Ignored, journal.ReceiptAbsent},

		{"a reservation that was committed stops the next request", reserved, first, machine.Stop, journal.ReceiptReserved},
		{"and tells another request nothing", reserved, other, machine.Misuse, journal.ReceiptReserved},
		{"and lasts forever", reserved, later(first, 10000*time.Hour), machine.Stop, journal.ReceiptReserved},
		{"and stops a request without a reservation", reserved, record, machine.Stop, journal.ReceiptReserved},
		{"the reservation is completed", reserved, complete, machine.Recorded, journal.ReceiptCompleted},
		{"but by its own claim alone", reserved, stale, machine.Stale, journal.ReceiptReserved},
		{"a reservation is not reaped", reserved, reap(10000 * time.Hour), machine.Ignored, journal.ReceiptReserved},
		{"a person gives its answer", reserved, resolve(journal.Executed, created), machine.Recorded, journal.ReceiptCompleted},
		{"but not of a later life than the person has seen", reserved, moved, machine.Stale, journal.ReceiptReserved},
		{"nor of another receipt, of a key that was freed since", reserved, freed, machine.Stale, journal.ReceiptReserved},
		{"but of the very one", reserved, seen, machine.Recorded, journal.ReceiptAbsent},
		{"a person need not give a name", reserved, unsigned, machine.Recorded, journal.ReceiptAbsent},
		{"nor a reason, with a name", reserved, unexplained, machine.Recorded, journal.ReceiptAbsent},
		{"a request without an effect has no answer either", reserved, resolve(journal.NotExecuted, created), machine.Recorded, journal.ReceiptAbsent},
		{"whatever its status", reserved, resolve(journal.NotExecuted, &journal.Answer{Status: 99}), machine.Recorded, journal.ReceiptAbsent},
		{"a message's answer has no status", reserved, resolve(journal.Executed, &journal.Answer{}), machine.Recorded, journal.ReceiptCompleted},
		{"a person frees the key", reserved, resolve(journal.NotExecuted, nil), machine.Recorded, journal.ReceiptAbsent},

		{"the same request gets the answer", completed, first, machine.Replay, journal.ReceiptCompleted},
		{"and so does a request without a reservation", completed, record, machine.Replay, journal.ReceiptCompleted},
		{"another request is a misuse", completed, other, machine.Misuse, journal.ReceiptCompleted},
		{"an answer is recorded once", completed, complete, machine.Stale, journal.ReceiptCompleted},
		{"the answer is given until it expires", completed, later(first, 24*time.Hour-time.Millisecond), machine.Replay, journal.ReceiptCompleted},
		{"an expired key is refused", completed, later(first, 24*time.Hour), machine.Gone, journal.ReceiptCompleted},
		{"also once its answer was reaped", reaped, later(first, 25*time.Hour), machine.Gone, journal.ReceiptCompleted},
		{"also by a clock that is behind", reaped, later(first, time.Hour), machine.Gone, journal.ReceiptCompleted},
		{"a key that is not refused any more is new", completed, later(first, 72*time.Hour), machine.Execute, journal.ReceiptReserved},
		{"also for another request", completed, later(other, 72*time.Hour), machine.Execute, journal.ReceiptReserved},
		{"a clock that has leapt ahead ends nothing", completed, leapt, machine.Replay, journal.ReceiptCompleted},
		{"an answer is not reaped before it expires", completed, reap(24*time.Hour - time.Millisecond), machine.Ignored, journal.ReceiptCompleted},
		{"an expired answer is reaped", completed, reap(24 * time.Hour), machine.Recorded, journal.ReceiptCompleted},
		{"and no second time", reaped, reap(25 * time.Hour), machine.Ignored, journal.ReceiptCompleted},
		{"a key that is not refused any more is reaped", reaped, reap(72 * time.Hour), machine.Recorded, journal.ReceiptAbsent},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := applied(t, row.before...)
			result, err := machine.NextReceipt(before, row.ev)
			require.NoError(t, err)
			assert.Equal(t, row.want, result.Decision)
			assert.Equal(t, row.state, result.Receipt.State)
			if row.want != machine.Execute && row.want != machine.Recorded {
				assert.Equal(t, before, result.Receipt, "it is unchanged")
			}
		})
	}
	for name, ev := range map[string]machine.ReceiptEvent{
		"no kind":                     {},
		"no place":                    {Kind: machine.ReceiptReserve, Fingerprint: "a", Same: first.Same, Keep: time.Hour},
		"no time to keep it":          {Kind: machine.ReceiptReserve, Place: "p", Fingerprint: "a", Same: first.Same},
		"no fingerprint":              {Kind: machine.ReceiptReserve, Place: "p", Same: first.Same, Keep: time.Hour},
		"nothing that compares":       {Kind: machine.ReceiptReserve, Place: "p", Fingerprint: "a", Keep: time.Hour},
		"a refusal that ends before":  {Kind: machine.ReceiptReserve, Place: "p", Fingerprint: "a", Same: first.Same, Keep: time.Hour, Refuse: -1},
		"a record without an answer":  {Kind: machine.ReceiptRecord, Place: "p", Fingerprint: "a", Same: first.Same, Keep: time.Hour},
		"no answer":                   {Kind: machine.ReceiptComplete, Claim: 1},
		"an execution without answer": resolve(journal.Executed, nil),
		"a resolution that does not apply to receipts": resolve(journal.Hold, nil),
		"a status below the least":                     resolve(journal.Executed, &journal.Answer{Status: 199}),
		"a status above the most":                      resolve(journal.Executed, &journal.Answer{Status: 600}),
		"a decision without a name":                    {Kind: machine.ReceiptResolve, Resolution: journal.NotExecuted},
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			before := applied(t, reserved...)
			result, err := machine.NextReceipt(before, ev)
			require.ErrorIs(t, err, journal.ErrInvalidEvent)
			assert.Equal(t, before, result.Receipt)
		})
	}
	t.Run("a receipt that can't be compared is left alone", func(t *testing.T) {
		_, err := machine.NextReceipt(applied(t, completed...), incomparable)
		require.EqualError(t, err, "of a newer release")
	})
	t.Run("a new life differs from the first", func(t *testing.T) {
		result, err := machine.NextReceipt(applied(t, completed...), later(first, 72*time.Hour))
		require.NoError(t, err)
		assert.True(t, result.Again)
		assert.EqualValues(t, 2, result.Receipt.Claim)
		assert.Nil(t, result.Receipt.Answer)
		result, err = machine.NextReceipt(journal.Receipt{}, first)
		require.NoError(t, err)
		assert.False(t, result.Again)
	})
	t.Run("a clock that is behind makes no key expire early", func(t *testing.T) {
		behind := first
		behind.At = receivedAt.Add(-10 * time.Hour)
		assert.Equal(t, receivedAt.Add(24*time.Hour), applied(t, behind).ExpiresAt)
	})
}

func TestEveryBrokenInvariantOfAReceiptIsNamed(t *testing.T) {
	complete := machine.ReceiptEvent{Kind: machine.ReceiptComplete, At: receivedAt, Claim: 1, Answer: created}
	reserved := applied(t, reserve(receivedAt, "a"))
	completed := applied(t, reserve(receivedAt, "a"), complete)
	for _, row := range []struct {
		of     journal.Receipt
		change func(r *journal.Receipt)
		says   string
	}{
		{completed, func(r *journal.Receipt) { r.State = journal.ReceiptAbsent }, "its state is one of the states"},
		{completed, func(r *journal.Receipt) { r.State = journal.ReceiptCompleted + 1 }, "its state is one of the states"},
		{completed, func(r *journal.Receipt) { r.Place = "" }, "it says where it was received, and which request"},
		{completed, func(r *journal.Receipt) { r.Fingerprint = "" }, "it says where it was received, and which request"},
		{completed, func(r *journal.Receipt) { r.Claim = 0 }, "it was reserved or recorded"},
		{completed, func(r *journal.Receipt) { r.CreatedAt = time.Time{} }, "it says when it was created"},
		{completed, func(r *journal.Receipt) { r.ExpiresAt = receivedAt.Add(-1) }, "it is created, then expires, and then is not refused any more"},
		{completed, func(r *journal.Receipt) { r.RefusedUntil = receivedAt }, "it is created, then expires, and then is not refused any more"},
		{completed, func(r *journal.Receipt) { r.SettledAt = time.Time{} }, "it says when its answer was recorded if and only if it is completed"},
		{reserved, func(r *journal.Receipt) { r.SettledAt = receivedAt }, "it says when its answer was recorded if and only if it is completed"},
		{reserved, func(r *journal.Receipt) { r.Answer = created }, "a reserved receipt has no answer, and was not resolved"},
		{reserved, func(r *journal.Receipt) { r.Cause = "by ada" }, "a reserved receipt has no answer, and was not resolved"},
	} {
		require.Empty(t, machine.ReceiptViolations(row.of))
		broken := row.of
		row.change(&broken)
		assert.Contains(t, machine.ReceiptViolations(broken), row.says)
	}
	assert.Empty(t, completed.NeedsAttention())
	assert.Contains(t, reserved.NeedsAttention(), "resolve it")
}
