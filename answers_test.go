package onceward_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
)

// Answers as Stripe gives them.
var (
	declined    = says(402, `{"error":{"type":"card_error","code":"card_declined"}}`)
	inUse       = says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, "Retry-After", "3")
	misused     = says(400, `{"error":{"type":"idempotency_error"}}`)
	wrongKey    = says(401, `{"error":{"type":"invalid_request_error"}}`)
	invalid     = says(400, `{"error":{"type":"invalid_request_error","code":"parameter_missing"}}`)
	frozen      = says(500, `{"error":{"type":"api_error"}}`, "Idempotent-Replayed", "true")
	limited     = says(429, `{"error":{"type":"rate_limit"}}`, "Retry-After", "7")
	unavailable = says(503, `{"error":{"type":"api_error"}}`)
)

func TestWhatAnswersLeadTo(t *testing.T) {
	for _, row := range []struct {
		name     string
		script   []reply
		requests int
		status   int   // of the response, or of the one in the error; 0: there is none
		kind     error // of the error; nil: the response is handed over
		state    onceward.State
		again    error // of a second ask at once; nil: an answer
	}{
		{"a success is final", nil, 1, 200, nil, onceward.Completed, nil},
		{"an executed refusal is final", []reply{declined}, 1, 402, nil, onceward.Completed, nil},
		{"a refusal after an ambiguous attempt that is marked as replayed is final", []reply{loses(), says(404, `{"error":{"type":"invalid_request_error"}}`, "Idempotent-Replayed", "true")}, 2, 404, nil, onceward.Completed, nil},
		{"not executed: sent again with the same key", []reply{limited, limited}, 3, 200, nil, onceward.Completed, nil},
		{"may have run: sent again with the same key", []reply{unavailable, loses(), cuts(200, paid)}, 4, 200, nil, onceward.Completed, nil},
		{"in flight: waited for, and not counted", []reply{loses(), inUse, inUse, inUse, inUse, inUse, inUse, inUse}, 9, 200, nil, onceward.Completed, nil},
		{"in flight on a first attempt", []reply{inUse}, 2, 200, nil, onceward.Completed, nil},
		{"a frozen 500 is unknown", []reply{frozen}, 1, 500, onceward.ErrOutcomeUnknown, onceward.Unknown, onceward.ErrOutcomeUnknown},
		{"a frozen 500 after an ambiguous attempt too", []reply{loses(), frozen}, 2, 500, onceward.ErrOutcomeUnknown, onceward.Unknown, onceward.ErrOutcomeUnknown},
		{"rejected on a first attempt: cancelled", []reply{wrongKey}, 1, 401, nil, onceward.Cancelled, nil},
		{"a validation error is rejected", []reply{invalid}, 1, 400, nil, onceward.Cancelled, nil},
		{"rejected after an ambiguous attempt: pending", []reply{loses(), wrongKey}, 2, 401, onceward.ErrPending, onceward.Pending, onceward.ErrPending},
		{"rejected after one that was not executed: cancelled", []reply{limited, wrongKey}, 2, 401, nil, onceward.Cancelled, nil},
		{"misuse of a random key: cancelled", []reply{misused}, 1, 400, onceward.ErrKeyReused, onceward.Cancelled, nil},
		{"misuse after an ambiguous attempt: unknown", []reply{loses(), misused}, 2, 400, onceward.ErrKeyReused, onceward.Unknown, onceward.ErrOutcomeUnknown},
		{"out of attempts without an answer: pending", []reply{loses(), loses(), loses(), loses(), loses()}, 5, 0, onceward.ErrPending, onceward.Pending, onceward.ErrPending},
		{"out of attempts with an answer: pending", []reply{loses(), loses(), loses(), loses(), unavailable}, 5, 503, onceward.ErrPending, onceward.Pending, onceward.ErrPending},
		{"out of attempts that did nothing: pending", []reply{limited, limited, limited, limited, limited}, 5, 429, onceward.ErrPending, onceward.Pending, onceward.ErrPending},
		{"out of attempts that never left: pending", []reply{refuses(), refuses(), refuses(), refuses(), refuses()}, 0, 0, onceward.ErrPending, onceward.Pending, onceward.ErrPending},
	} {
		each(t, row.name, func(t *testing.T, j journal.Journal) {
			l := (&line{}).then(row.script...)
			p := start(t, l, onceward.Config{Journal: j})
			ctx := named(t, "invoice-1/charge")
			out := p.ask(ctx)
			if row.kind == nil {
				require.NoError(t, out.err)
			} else {
				require.ErrorIs(t, out.err, row.kind)
			}
			assert.Equal(t, row.status, out.status)
			assert.Equal(t, row.state, out.op.State)
			assert.Equal(t, row.state, p.recorded(out.op.Ref).State)
			require.Len(t, l.sent(), row.requests)
			for _, key := range l.keys() {
				assert.Equal(t, l.keys()[0], key)
			}

			second := p.ask(ctx)
			if row.again == nil {
				require.NoError(t, second.err)
			} else {
				require.ErrorIs(t, second.err, row.again)
				assert.Len(t, l.sent(), row.requests, "nothing more was sent")
			}
			if row.state == onceward.Completed {
				assert.Len(t, l.sent(), row.requests)
				assert.Equal(t, out.status, second.status)
				assert.Equal(t, out.body, second.body)
				assert.True(t, second.op.Replayed)
			}
		})
	}
}

func TestAnAnswerThatIsNotTheOutcomeIsInTheErrorIntact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `{"error":{"type":"api_error","message":"try later"}}`
		l := (&line{}).always(says(503, text, "X-Request-Id", "req_1", "Retry-After", "1"))
		p := start(t, l, onceward.Config{})
		out := p.ask(named(t, "invoice-1/charge"))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		assert.Equal(t, 503, out.status)
		assert.Equal(t, text, out.body)
		assert.Equal(t, "req_1", out.header.Get("X-Request-Id"))
		assert.Equal(t, 5, out.op.Attempts)
		assert.True(t, out.op.DueAt.After(time.Now()))
		assert.NotEmpty(t, out.op.Cause)
	})
}

func TestARejectedNameIsFreeAgain(t *testing.T) {
	for _, row := range []struct {
		name       string
		options    []option
		generation int
	}{
		{"for the same request: same generation, same key", nil, 0},
		{"for another body: the next generation, another key", []option{body("amount=200")}, 1},
		{"by its carried key for another body: the next generation, that key", []option{carrying("sdk-1"), body("amount=200")}, 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(wrongKey)
			p := start(t, l, onceward.Config{})
			ctx, first := named(t, "invoice-1/charge"), []option{with("Authorization", "Bearer wrong")}
			unnamed := len(row.options) == 2
			if unnamed {
				ctx, first = t.Context(), append(first, row.options[0])
			}
			require.Equal(t, 401, p.ask(ctx, first...).status)
			out := p.ask(ctx, append(row.options, with("Authorization", "Bearer right"))...)
			require.NoError(t, out.err)
			require.Len(t, l.sent(), 2)
			assert.Equal(t, "Bearer right", l.sent()[1].Header.Get("Authorization"))
			assert.Equal(t, row.generation, out.op.Generation)
			assert.Equal(t, row.generation == 0 || unnamed, l.keys()[0] == l.keys()[1])
			assert.Equal(t, onceward.Completed, out.op.State)
		})
	}
}

func TestTheProvidersDelayIsKept(t *testing.T) {
	for _, row := range []struct {
		name  string
		first reply
		least time.Duration
		most  time.Duration
	}{
		{"429 with Retry-After", limited, 7 * time.Second, 7 * time.Second},
		{"409 in flight with Retry-After", inUse, 3 * time.Second, 3 * time.Second},
		{"503 with Retry-After-Ms", says(503, "", "Retry-After-Ms", "1500"), 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"503 without any", unavailable, 10 * time.Millisecond, 500 * time.Millisecond},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.first)
			p := start(t, l, onceward.Config{})
			require.NoError(t, p.ask(named(t, "invoice-1/charge")).err)
			require.Len(t, l.sent(), 2)
			waited := l.sent()[1].At.Sub(l.sent()[0].At)
			assert.GreaterOrEqual(t, waited, row.least)
			assert.LessOrEqual(t, waited, row.most)
		})
	}
}

func TestInFlightAtTheProviderForMoreThanADayIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).always(says(409, "", "Retry-After", "3600"))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
		ctx, began := named(t, "order-1"), time.Now()
		out := p.ask(ctx, to(http.MethodPost, ownURL))
		for out.op.State == onceward.Pending {
			pass(time.Until(out.op.DueAt))
			out = p.ask(ctx, to(http.MethodPost, ownURL))
		}
		assert.Equal(t, onceward.Unknown, out.op.State)
		assert.Equal(t, 24*time.Hour, time.Since(began))
	})
}

func TestAlreadyDoneCompletesWithThePointer(t *testing.T) {
	exists := providers.Rule{Status: 409, Field: "code", Equals: "exists", Verdict: providers.AlreadyDone, Pointer: "id"}
	answer := says(409, `{"code":"exists","id":"order_7"}`)
	compares := func(e *providers.Endpoint) { e.Rules = append([]providers.Rule{exists}, e.Rules...) }
	for _, row := range []struct {
		name   string
		script []reply
		state  onceward.State
	}{
		{"after an ambiguous attempt", []reply{loses(), answer}, onceward.Completed},
		{"on a first attempt", []reply{answer}, onceward.Completed},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.script...)
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(compares)}})
			out := p.ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			require.NoError(t, out.err)
			assert.Equal(t, 409, out.status)
			require.Equal(t, row.state, out.op.State)
			recorded := p.recorded(out.op.Ref)
			assert.Equal(t, "order_7", recorded.Answer.Pointer)
			assert.False(t, recorded.Answer.Refused, "it took effect")
		})
	}
}

// An answer that proves an earlier request under a key says little where somebody
// else may have made that request, and the provider does not compare them.
func TestAProvenEarlierRequestOnAFirstAttempt(t *testing.T) {
	replayed := says(200, paid, "Idempotent-Replayed", "true")
	ignorant := func(e *providers.Endpoint) {
		e.Rules = []providers.Rule{{Status: 409, Verdict: providers.InFlight}}
	}
	secret := []byte("0123456789abcdef")
	for _, row := range []struct {
		name     string
		compares bool
		key      string // carried
		secret   []byte
		parent   bool
		reply    reply
		state    onceward.State
	}{
		{"compared, carried key", true, "sdk-1", nil, false, replayed, onceward.Completed},
		{"compared, random key", true, "", nil, false, replayed, onceward.Completed},
		{"not compared, random key", false, "", nil, false, replayed, onceward.Completed},
		{"not compared, carried key", false, "sdk-1", nil, false, replayed, onceward.Unknown},
		{"not compared, derived key", false, "", secret, false, replayed, onceward.Unknown},
		{"not compared, child key", false, "", nil, true, replayed, onceward.Unknown},
		{"not compared, carried key, in flight", false, "sdk-1", nil, false, says(409, ""), onceward.Unknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(row.reply)
			api := own()
			if !row.compares {
				api = own(ignorant)
			}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Secret: row.secret})
			ctx, options := named(t, "order-1"), []option{to(http.MethodPost, ownURL)}
			if row.parent {
				ctx = onceward.WithParent(ctx, onceward.NewKey())
			}
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			out := p.ask(ctx, options...)
			assert.Equal(t, row.state, out.op.State)
			assert.Len(t, l.sent(), 1)
			if row.state == onceward.Unknown {
				require.ErrorIs(t, p.ask(ctx, options...).err, onceward.ErrOutcomeUnknown)
				assert.Len(t, l.sent(), 1)
			}
		})
	}
}

func TestMisuseNeverCancelsADerivedKey(t *testing.T) {
	for _, row := range []struct {
		name   string
		secret []byte
		key    string
		parent onceward.Key
		state  onceward.State
	}{
		{"derived by a secret", []byte("0123456789abcdef"), "", "", onceward.Unknown},
		{"a child key", nil, "", "parent-1", onceward.Unknown},
		{"carried", nil, "sdk-1", "", onceward.Cancelled},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).then(misused)
			p := start(t, l, onceward.Config{Secret: row.secret})
			ctx := named(t, "invoice-1/charge")
			if row.parent != "" {
				ctx = onceward.WithParent(ctx, row.parent)
			}
			var options []option
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			out := p.ask(ctx, options...)
			require.ErrorIs(t, out.err, onceward.ErrKeyReused)
			assert.Equal(t, row.state, out.op.State)
		})
	}
}

func TestAnOperationThatIsOutOfAttemptsRestsForLongerAndLonger(t *testing.T) {
	for name, answer := range map[string]reply{"rejected": wrongKey, "unavailable": unavailable} {
		virtual(t, name, func(t *testing.T) { restsLonger(t, answer) })
	}
}

func restsLonger(t *testing.T, answer reply) {
	l := (&line{}).then(loses()).always(answer)
	p := start(t, l, onceward.Config{Backoff: backoff.Policy{MaxAttempts: 2}})
	ctx := named(t, "invoice-1/charge")
	var rests []time.Duration
	for range 4 {
		out := p.ask(ctx)
		require.ErrorIs(t, out.err, onceward.ErrPending)
		require.NotZero(t, out.status)
		rests = append(rests, time.Until(out.op.DueAt))
		pass(time.Until(out.op.DueAt))
	}
	assert.Greater(t, rests[0], 29*time.Second)
	assert.LessOrEqual(t, rests[0], time.Minute)
	assert.Greater(t, rests[3], rests[0])
	l.always(says(200, paid))
	require.NoError(t, p.ask(ctx).err)
}
