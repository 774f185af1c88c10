package request_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

func TestOutcomesOfAnswers(t *testing.T) {
	t.Parallel()
	cutFrozen := cuts(500, `{"error":{"type":"api_error"}}`, "Idempotent-Replayed", "true")
	for _, row := range []struct {
		name     string
		script   []reply
		requests int
		status   int   // of the response, or of the one in the error; 0: there is none
		kind     error // of the error; nil: the response is handed over
		state    onceward.State
		again    error // of a second ask at once; nil: an answer
	}{
		{"a success is final", nil, 1, 200, nil, onceward.StateCompleted, nil},
		{"an executed refusal is final", []reply{declined}, 1, 402, nil, onceward.StateCompleted, nil},
		{"a refusal after an ambiguous attempt that is marked as replayed is final", []reply{loses(), says(404, `{"error":{"type":"invalid_request_error"}}`, "Idempotent-Replayed", "true")}, 2, 404, nil, onceward.StateCompleted, nil},
		{"not executed: sent again with the same key", []reply{limited, limited}, 3, 200, nil, onceward.StateCompleted, nil},
		{"may have run: sent again with the same key", []reply{unavailable, loses(), cuts(200, paid)}, 4, 200, nil, onceward.StateCompleted, nil},
		{"in flight: waited for, and not counted", []reply{loses(), inUse, inUse, inUse, inUse, inUse, inUse, inUse}, 9, 200, nil, onceward.StateCompleted, nil},
		{"in flight on a first attempt", []reply{inUse}, 2, 200, nil, onceward.StateCompleted, nil},
		{"a frozen 500 is unknown", []reply{frozen}, 1, 500, onceward.ErrOutcomeUnknown, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"a frozen 500 after an ambiguous attempt too", []reply{loses(), frozen}, 2, 500, onceward.ErrOutcomeUnknown, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"a frozen 500 that breaks off may say more: sent again", []reply{cutFrozen}, 2, 200, nil, onceward.StateCompleted, nil},
		{"out of attempts whose answers break off: pending", []reply{cutFrozen, cutFrozen, cutFrozen, cutFrozen, cutFrozen}, 5, 500, onceward.ErrPending, onceward.StatePending, onceward.ErrPending},
		{"rejected on a first attempt: cancelled", []reply{wrongKey}, 1, 401, nil, onceward.StateCancelled, nil},
		{"a validation error is rejected", []reply{invalid}, 1, 400, nil, onceward.StateCancelled, nil},
		{"rejected after an ambiguous attempt: pending", []reply{loses(), wrongKey}, 2, 401, onceward.ErrPending, onceward.StatePending, onceward.ErrPending},
		{"rejected after one that was not executed: cancelled", []reply{limited, wrongKey}, 2, 401, nil, onceward.StateCancelled, nil},
		{"misuse of a random key: cancelled", []reply{misused}, 1, 400, onceward.ErrKeyReused, onceward.StateCancelled, nil},
		{"misuse after an ambiguous attempt: unknown", []reply{loses(), misused}, 2, 400, onceward.ErrOutcomeUnknown, onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"out of attempts without an answer: pending", []reply{loses(), loses(), loses(), loses(), loses()}, 5, 0, onceward.ErrPending, onceward.StatePending, onceward.ErrPending},
		{"out of attempts with an answer: pending", []reply{loses(), loses(), loses(), loses(), unavailable}, 5, 503, onceward.ErrPending, onceward.StatePending, onceward.ErrPending},
		{"out of attempts that did nothing: pending", []reply{limited, limited, limited, limited, limited}, 5, 429, onceward.ErrPending, onceward.StatePending, onceward.ErrPending},
		{"out of attempts that never left: pending", []reply{refuses(), refuses(), refuses(), refuses(), refuses()}, 0, 0, onceward.ErrPending, onceward.StatePending, onceward.ErrPending},
	} {
		each(t, row.name, func(t *testing.T, j machine.Store) {
			l := (&line{}).Then(row.script...)
			p := start(t, l, onceward.Config{Journal: j})
			ctx := named(t, "invoice-1/charge")
			out := p.Ask(ctx)
			if row.kind == nil {
				require.NoError(t, out.Err)
			} else {
				require.ErrorIs(t, out.Err, row.kind)
			}
			assert.Equal(t, row.status, out.Status)
			assert.Equal(t, row.state, out.Op.State)
			assert.Equal(t, row.state, p.Recorded(out.Op.Ref).State)
			require.Len(t, l.Sent(), row.requests)
			for _, key := range l.Keys() {
				assert.Equal(t, l.Keys()[0], key)
			}

			second := p.Ask(ctx)
			if row.again == nil {
				require.NoError(t, second.Err)
			} else {
				require.ErrorIs(t, second.Err, row.again)
				assert.Len(t, l.Sent(), row.requests, "nothing more was sent")
			}
			if row.state == onceward.StateCompleted {
				assert.Len(t, l.Sent(), row.requests)
				assert.Equal(t, out.Status, second.Status)
				assert.Equal(t, out.Body, second.Body)
				assert.True(t, second.Op.Replayed)
			}
		})
	}
}

// An answer that is not the outcome is in the error intact.
func TestAnswerThatIsNotTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `{"error":{"type":"api_error","message":"try later"}}`
		l := (&line{}).Always(says(503, text, "X-Request-Id", "req_1", "Retry-After", "1"))
		p := start(t, l, onceward.Config{})
		out := p.Ask(named(t, "invoice-1/charge"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.Equal(t, 503, out.Status)
		assert.Equal(t, text, out.Body)
		assert.Equal(t, "req_1", out.Header.Get("X-Request-Id"))
		assert.Equal(t, 5, out.Op.Attempts)
		assert.True(t, out.Op.DueAt.After(time.Now()))
		assert.NotEmpty(t, out.Op.Cause)
	})
}

// An operation that may have taken effect, and whose repeat the provider calls a misuse of the key, is unknown for every
// asker. No error tells one to use another key.
func TestMisuseOfTheKeyAfterAnEffect(t *testing.T) {
	const secret = "sixteen bytes and more"
	unknown := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, onceward.ErrKeyReused)
		var e *onceward.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, onceward.ErrOutcomeUnknown, e.Kind)
	}
	virtual(t, "for its caller, for one that waits, and for the next", func(t *testing.T) {
		var ended error
		l := (&line{}).Then(loses(), takes(5*time.Second, misused))
		p := start(t, l, onceward.Config{Trace: &onceward.Trace{Ended: func(_ context.Context, _ onceward.Operation, err error) { ended = err }}})
		waits := make(chan error, 1)
		go func() {
			time.Sleep(3 * time.Second)
			waits <- p.Ask(named(t, invoice)).Err
		}()
		unknown(t, p.Ask(named(t, invoice)).Err)
		unknown(t, <-waits)
		unknown(t, p.Ask(named(t, invoice)).Err)
		require.ErrorIs(t, ended, onceward.ErrOutcomeUnknown)
		require.NotErrorIs(t, ended, onceward.ErrKeyReused)
		assert.Len(t, l.Sent(), 2)
	})
	virtual(t, "for Resume", func(t *testing.T) {
		l := (&line{}).Then(loses(), misused)
		p := start(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		unknown(t, report.Problems[0])
	})
	virtual(t, "for a first attempt under a key that another process may have sent", func(t *testing.T) {
		p := start(t, (&line{}).Then(misused), onceward.Config{Secret: []byte(secret)})
		unknown(t, p.Ask(named(t, invoice)).Err)
	})
	virtual(t, "for a flow", func(t *testing.T) {
		p := startFlows(t, (&line{}).Then(loses(), misused), onceward.Config{})
		err := p.Flow(t.Context(), "order-1", nil, p.Sequence("charge"))
		require.ErrorIs(t, err, onceward.ErrOutcomeUnknown)
		require.NotErrorIs(t, err, onceward.ErrKeyReused)
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
			l := (&line{}).Then(wrongKey)
			p := start(t, l, onceward.Config{})
			ctx, first := named(t, "invoice-1/charge"), []option{with("Authorization", "Bearer wrong")}
			unnamed := len(row.options) == 2
			if unnamed {
				ctx, first = t.Context(), append(first, row.options[0])
			}
			require.Equal(t, 401, p.Ask(ctx, first...).Status)
			out := p.Ask(ctx, append(row.options, with("Authorization", "Bearer right"))...)
			require.NoError(t, out.Err)
			require.Len(t, l.Sent(), 2)
			assert.Equal(t, "Bearer right", l.Sent()[1].Header.Get("Authorization"))
			assert.Equal(t, row.generation, out.Op.Generation)
			assert.Equal(t, row.generation == 0 || unnamed, l.Keys()[0] == l.Keys()[1])
			assert.Equal(t, onceward.StateCompleted, out.Op.State)
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
			l := (&line{}).Then(row.first)
			p := start(t, l, onceward.Config{})
			require.NoError(t, p.Ask(named(t, "invoice-1/charge")).Err)
			require.Len(t, l.Sent(), 2)
			waited := l.Sent()[1].At.Sub(l.Sent()[0].At)
			assert.GreaterOrEqual(t, waited, row.least)
			assert.LessOrEqual(t, waited, row.most)
		})
	}
}

// A caller that leaves during the provider's Retry-After leaves that delay in place. A delay of our own ends.
func TestCancelledCallerKeepsTheProvidersDelay(t *testing.T) {
	for _, row := range []struct {
		name    string
		answers []reply
		due     time.Duration
		own     bool
	}{
		{"of the provider's", []reply{says(429, "", "Retry-After", "30")}, 30 * time.Second, false},
		{"of our own", []reply{refuses()}, 0, true},
		{"of our own, after one of the provider's", []reply{says(429, "", "Retry-After", "30"), refuses()}, 30 * time.Second, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(append([]reply{refuses()}, row.answers...)...)
			was := start(t, l, onceward.Config{Backoff: once})
			require.ErrorIs(t, was.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(time.Hour)
			ctx, cancel := context.WithCancel(named(t, invoice))
			delays := 0
			p := start(t, l, onceward.Config{
				Journal: was.Journal.Store, Backoff: backoff.Policy{Initial: 20 * time.Second, Max: 20 * time.Second},
				Trace: &onceward.Trace{Delayed: func(context.Context, onceward.Operation, time.Duration) {
					if delays++; delays == len(row.answers) {
						cancel()
					}
				}},
			})
			began := time.Now()
			require.ErrorIs(t, p.Ask(ctx).Err, onceward.ErrPending)
			op := p.Recorded(onceward.Ref{ID: invoice})
			assert.Equal(t, began.Add(row.due).UTC(), op.DueAt.UTC())
			assert.Equal(t, row.own, op.DueOwn)
		})
	}
}

// In flight at the provider for more than a day is unknown.
func TestInFlightAtTheProviderForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&line{}).Always(says(409, "", "Retry-After", "3600"))
		p := start(t, l, onceward.Config{Providers: []providers.Provider{own()}})
		ctx, began := named(t, "order-1"), time.Now()
		out := p.Ask(ctx, to(http.MethodPost, ownURL))
		for out.Op.State == onceward.StatePending {
			pass(time.Until(out.Op.DueAt))
			out = p.Ask(ctx, to(http.MethodPost, ownURL))
		}
		assert.Equal(t, onceward.StateUnknown, out.Op.State)
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
		{"after an ambiguous attempt", []reply{loses(), answer}, onceward.StateCompleted},
		{"on a first attempt", []reply{answer}, onceward.StateCompleted},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.script...)
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(compares)}})
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			require.NoError(t, out.Err)
			assert.Equal(t, 409, out.Status)
			require.Equal(t, row.state, out.Op.State)
			recorded := p.Recorded(out.Op.Ref)
			assert.Equal(t, "order_7", recorded.Answer.Pointer)
			assert.False(t, recorded.Answer.Refused, "it took effect")
		})
	}
}

// A refusal that says that the key has taken effect completes an operation that may have run, and no other.
func TestARefusedRepeatCompletesWithoutAnAnswer(t *testing.T) {
	gone := func(e *providers.Endpoint) {
		e.Pattern, e.Object, e.ObjectID = "POST /orders", "order", "id"
		e.Rules = append([]providers.Rule{{Status: 409, Field: "code", Equals: "used", Verdict: providers.AnswerGone}}, e.Rules...)
	}
	finds := &onceward.Reconcile{Lookup: func(context.Context, onceward.Operation) (onceward.Finding, error) { return onceward.Finding{}, nil }}
	refusal := says(409, `{"code":"used","id":"err_7"}`)
	for _, row := range []struct {
		name   string
		script []reply
		key    string // carried
		state  onceward.State
		is     error
	}{
		{"after a lost answer", []reply{loses(), refusal}, "", onceward.StateCompleted, onceward.ErrAnswerGone},
		{"after a received failure", []reply{says(500, ""), refusal}, "", onceward.StateCompleted, onceward.ErrAnswerGone},
		{"after a lost answer, carried key", []reply{loses(), refusal}, "sdk-1", onceward.StateCompleted, onceward.ErrAnswerGone},
		{"on a first attempt", []reply{refusal}, "", onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"on a first attempt, carried key", []reply{refusal}, "sdk-1", onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"after an attempt that had no effect", []reply{says(429, ""), refusal}, "", onceward.StateUnknown, onceward.ErrOutcomeUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.script...).Always(refusal)
			p := start(t, l, onceward.Config{Providers: []providers.Provider{own(gone)}, Reconcile: finds})
			options := []option{to(http.MethodPost, ownURL)}
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			ctx := named(t, "order-1")
			for repeats := range 3 { // by the answer, and by the record
				out := p.Ask(ctx, options...)
				require.ErrorIs(t, out.Err, row.is)
				require.Equal(t, row.state, out.Op.State)
				if row.state == onceward.StateCompleted { // its answer is asked for once a minute
					repeats = min(repeats, 1)
				} else {
					repeats = 0
				}
				assert.Len(t, l.Sent(), len(row.script)+repeats)
			}
			recorded := p.Recorded(p.Ask(ctx, options...).Op.Ref)
			assert.Empty(t, recorded.Object, "an id in a refusal is not the object's")
			if row.state == onceward.StateCompleted {
				assert.Equal(t, &journal.Answer{Omitted: true}, recorded.Answer)
			}
		})
	}
}

// An answer can prove an earlier request under the key. It settles nothing if another program may have made that
// request, and the provider does not compare requests.
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
		{"compared, carried key", true, "sdk-1", nil, false, replayed, onceward.StateCompleted},
		{"compared, random key", true, "", nil, false, replayed, onceward.StateCompleted},
		{"not compared, random key", false, "", nil, false, replayed, onceward.StateCompleted},
		{"not compared, carried key", false, "sdk-1", nil, false, replayed, onceward.StateUnknown},
		{"not compared, derived key", false, "", secret, false, replayed, onceward.StateUnknown},
		{"not compared, child key", false, "", nil, true, replayed, onceward.StateUnknown},
		{"compared, random key, refused for its credential", true, "", nil, false, says(401, "", "Idempotent-Replayed", "true"), onceward.StatePending},
		{"not compared, carried key, in flight", false, "sdk-1", nil, false, says(409, ""), onceward.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.reply)
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
			out := p.Ask(ctx, options...)
			assert.Equal(t, row.state, out.Op.State)
			assert.Len(t, l.Sent(), 1)
			if row.state == onceward.StateUnknown {
				require.ErrorIs(t, p.Ask(ctx, options...).Err, onceward.ErrOutcomeUnknown)
				assert.Len(t, l.Sent(), 1)
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
		kind   error
	}{
		{"derived by a secret", []byte("0123456789abcdef"), "", "", onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"a child key", nil, "", "parent-1", onceward.StateUnknown, onceward.ErrOutcomeUnknown},
		{"carried", nil, "sdk-1", "", onceward.StateCancelled, onceward.ErrKeyReused},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(misused)
			p := start(t, l, onceward.Config{Secret: row.secret})
			ctx := named(t, "invoice-1/charge")
			if row.parent != "" {
				ctx = onceward.WithParent(ctx, row.parent)
			}
			var options []option
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			out := p.Ask(ctx, options...)
			require.ErrorIs(t, out.Err, row.kind)
			assert.Equal(t, row.state, out.Op.State)
		})
	}
}

// An operation that is out of attempts pauses for longer each time.
func TestPauseGrowsWhenAttemptsRunOut(t *testing.T) {
	for name, answer := range map[string]reply{"rejected": wrongKey, "unavailable": unavailable} {
		virtual(t, name, func(t *testing.T) { restsLonger(t, answer) })
	}
}

func restsLonger(t *testing.T, answer reply) {
	l := (&line{}).Then(loses()).Always(answer)
	p := start(t, l, onceward.Config{Backoff: backoff.Policy{MaxAttempts: 2}})
	ctx := named(t, "invoice-1/charge")
	var rests []time.Duration
	for range 4 {
		out := p.Ask(ctx)
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		require.NotZero(t, out.Status)
		rests = append(rests, time.Until(out.Op.DueAt))
		pass(time.Until(out.Op.DueAt))
	}
	assert.Greater(t, rests[0], 29*time.Second)
	assert.LessOrEqual(t, rests[0], time.Minute)
	assert.Greater(t, rests[3], rests[0])
	l.Always(says(200, paid))
	require.NoError(t, p.Ask(ctx).Err)
}

// A conflict of unknown meaning for a key is a refusal if no other program can have sent the key. Otherwise the
// operation is unknown.
func TestConflictIfNoOtherOperationHasTheKey(t *testing.T) {
	conflict := says(409, `{"code":"insufficient_balance"}`)
	for _, row := range []struct {
		name   string
		key    string // carried
		secret []byte
		parent bool
		script []reply
		state  onceward.State
	}{
		{"a random key", "", nil, false, []reply{conflict}, onceward.StateCompleted},
		{"a carried key", "sdk-1", nil, false, []reply{conflict}, onceward.StateUnknown},
		{"a key derived from a secret", "", []byte("0123456789abcdef"), false, []reply{conflict}, onceward.StateUnknown},
		{"a child's key", "", nil, true, []reply{conflict}, onceward.StateUnknown},
		{"a random key, after an attempt that was lost", "", nil, false, []reply{loses(), conflict}, onceward.StateUnknown},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(row.script...)
			api := own(func(e *providers.Endpoint) {
				e.Rules = []providers.Rule{
					{Status: 409, Field: "code", On: providers.FirstAttemptOwnKey, Verdict: providers.Final},
					{Status: 409, Verdict: providers.Indeterminate},
				}
			})
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}, Secret: row.secret})
			ctx, options := named(t, "order-1"), []option{to(http.MethodPost, ownURL)}
			if row.parent {
				ctx = onceward.WithParent(ctx, onceward.NewKey())
			}
			if row.key != "" {
				options = append(options, carrying(row.key))
			}
			assert.Equal(t, row.state, p.Ask(ctx, options...).Op.State)
			assert.Len(t, l.Sent(), len(row.script))
		})
	}
}

// A request that the provider calls idempotent, without a name or key, is repeated while its caller waits, whatever its
// method.
func TestCalledIdempotentIsRepeated(t *testing.T) {
	for _, row := range []struct {
		name   string
		facts  providers.Endpoint
		method string
		named  bool
		sent   int
	}{
		{"a PATCH", providers.Endpoint{Pattern: "/", Idempotent: true}, http.MethodPatch, false, 2},
		{"a PATCH that is not declared idempotent", providers.Endpoint{Pattern: "/"}, http.MethodPatch, false, 1},
		{"a PUT", providers.Endpoint{Pattern: "/"}, http.MethodPut, false, 2},
		{"a PATCH with a name", providers.Endpoint{Pattern: "/", Idempotent: true}, http.MethodPatch, true, 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(loses())
			api := own()
			api.Endpoints = []providers.Endpoint{row.facts}
			p := start(t, l, onceward.Config{Providers: []providers.Provider{api}})
			ctx := t.Context()
			if row.named {
				ctx = named(t, "order-1")
			}
			p.Ask(ctx, to(row.method, ownURL))
			assert.Len(t, l.Sent(), row.sent)
		})
	}
}

// An exhausted retry budget parks the operation, and the error says that the reason was local.
func TestRetryBudgetThatIsExhaustedParks(t *testing.T) {
	virtual(t, "and a success, or time, gives retries back", func(t *testing.T) {
		l := (&line{}).Always(loses())
		p := start(t, l, onceward.Config{
			RetryBudget: backoff.Budget{Capacity: 3, Refill: 0.001, PerSuccess: 1, ProbeEvery: 24 * time.Hour},
			Providers:   []providers.Provider{own(), providers.Stripe()},
		})
		first := p.Ask(named(t, "a"), to("POST", ownURL))
		require.ErrorIs(t, first.Err, onceward.ErrPending)
		require.ErrorIs(t, first.Err, onceward.ErrRetryBudget)
		assert.Contains(t, first.Op.Cause, "retry budget")
		assert.Len(t, l.Sent(), 4, "one attempt and three retries")
		assert.True(t, first.Op.DueAt.After(time.Now()))

		second := p.Ask(named(t, "b"), to("POST", ownURL))
		require.ErrorIs(t, second.Err, onceward.ErrRetryBudget)
		assert.Len(t, l.Sent(), 5, "a first attempt is free, and what others used up is gone")

		third := p.Ask(named(t, "c"))
		require.ErrorIs(t, third.Err, onceward.ErrPending)
		assert.Len(t, l.Sent(), 9, "another provider has a budget of its own")

		l.Then(says(200, paid))
		require.NoError(t, p.Ask(named(t, "d"), to("POST", ownURL)).Err)
		require.ErrorIs(t, p.Ask(named(t, "e"), to("POST", ownURL)).Err, onceward.ErrRetryBudget)
		assert.Len(t, l.Sent(), 12, "the success gave one back")
	})
	virtual(t, "one probe is let through", func(t *testing.T) {
		l := (&line{}).Always(loses())
		p := start(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 1, Refill: 1e-9, PerSuccess: 1e-9, ProbeEvery: time.Minute}})
		require.ErrorIs(t, p.Ask(named(t, "a")).Err, onceward.ErrRetryBudget)
		assert.Len(t, l.Sent(), 2)
		pass(2 * time.Minute)
		require.ErrorIs(t, p.Ask(named(t, "b")).Err, onceward.ErrRetryBudget)
		assert.Len(t, l.Sent(), 4, "its first attempt and the probe")
	})
	virtual(t, "a response in hand is in the error", func(t *testing.T) {
		l := (&line{}).Always(unavailable)
		p := start(t, l, onceward.Config{RetryBudget: backoff.Budget{Capacity: 1, Refill: 1e-9, ProbeEvery: time.Hour}})
		out := p.Ask(named(t, "a"))
		require.ErrorIs(t, out.Err, onceward.ErrRetryBudget)
		assert.Equal(t, 503, out.Status)
		assert.Equal(t, onceward.StatePending, out.Op.State)
		assert.Contains(t, out.Op.Cause, "retry budget")
	})
}

// An interrupted answer's status does not count if the rest might have changed the verdict. It refuses no
// credential, and another attempt is made if one is left.
func TestCutAnswerThatMayBeAnother(t *testing.T) {
	also := func(e *providers.Endpoint) {
		e.Rules = append([]providers.Rule{
			{Status: 401, Field: "code", Equals: "done", Verdict: providers.Final},
			{Status: 409, Field: "code", Equals: "done", Verdict: providers.Final},
		}, e.Rules...)
	}
	for _, row := range []struct {
		name     string
		status   int
		attempts int // that one call may make
		sent     int
	}{
		{"a credential that is refused: in the background too, it is sent again at once", 401, 2, 2},
		{"a credential that is refused, at the last attempt", 401, 1, 1},
		{"in flight, which is no attempt", 409, 1, 2},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(refuses())
			asked := start(t, l, onceward.Config{Backoff: once, Providers: []providers.Provider{own(also)}})
			require.ErrorIs(t, asked.Ask(named(t, invoice), to("POST", ownURL)).Err, onceward.ErrPending)
			pass(time.Hour)
			l.Then(cuts(row.status, `{"code":"other"}`))
			p := start(t, l, onceward.Config{
				Journal: asked.Journal.Store, Backoff: backoff.Policy{MaxAttempts: row.attempts}, Providers: []providers.Provider{own(also)},
			})
			report, err := p.Resume(t.Context())
			require.NoError(t, err)
			assert.Len(t, l.Sent(), row.sent)
			assert.Equal(t, row.sent-1, report.Completed)
			if row.sent == 1 {
				op := p.Recorded(onceward.Ref{ID: invoice})
				assert.Equal(t, journal.StatePending, op.State)
				assert.Contains(t, op.Cause, "body cut short")
			}
		})
	}
}

// A final answer is recorded as a refusal if its status is 400 or higher.
func TestAnswerThatRefuses(t *testing.T) {
	for status, refused := range map[int]bool{200: false, 400: true, 404: true} {
		virtual(t, fmt.Sprint(status), func(t *testing.T) {
			p := start(t, (&line{}).Then(says(status, `{"id":"order_7"}`)), onceward.Config{Providers: []providers.Provider{own()}})
			out := p.Ask(named(t, invoice), to("POST", ownURL))
			require.NoError(t, out.Err)
			assert.Equal(t, refused, p.Recorded(onceward.Ref{ID: invoice}).Answer.Refused)
		})
	}
}

// The journal records whether the provider or our own policy set the due time. No caller goes ahead of the provider's.
func TestProvidersDelayIsRecorded(t *testing.T) {
	busy := says(429, "", "Retry-After", "15")
	for _, row := range []struct {
		name  string
		reply reply
		own   bool
	}{
		{"the provider's", busy, false},
		{"our own", refuses(), true},
	} {
		pending := func(t *testing.T, l *line, cfg onceward.Config) *process {
			asked := start(t, (&line{}).Always(refuses()), onceward.Config{Backoff: once})
			require.ErrorIs(t, asked.Ask(named(t, invoice)).Err, onceward.ErrPending)
			pass(time.Hour)
			cfg.Journal = asked.Journal.Store
			return start(t, l, cfg)
		}
		recorded := func(t *testing.T, p *process, cause string) {
			op := p.Recorded(onceward.Ref{ID: invoice})
			require.Equal(t, journal.StatePending, op.State)
			assert.Contains(t, op.Cause, cause)
			assert.Equal(t, row.own, op.DueOwn)
			assert.True(t, op.DueAt.After(time.Now()))
		}
		virtual(t, row.name+", too late for who asks", func(t *testing.T) {
			p := pending(t, (&line{}).Then(row.reply), onceward.Config{})
			// No delay of our own is shorter.
			require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(5*time.Millisecond))).Err, onceward.ErrPending)
			recorded(t, p, "it was not to be sent after")
		})
		virtual(t, row.name+", where the retry budget is used up", func(t *testing.T) {
			p := pending(t, (&line{}).Then(row.reply, row.reply), onceward.Config{RetryBudget: backoff.Budget{Capacity: 1, Refill: 1e-9, ProbeEvery: time.Hour}})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrRetryBudget)
			recorded(t, p, "the retry budget is used up")
		})
		virtual(t, row.name+", where attempts are made one by one", func(t *testing.T) {
			l := (&line{}).Always(row.reply)
			p, stop := waitingFor(t, l, 20, onceward.Config{Backoff: tenSeconds, Concurrency: 1})
			pass(time.Minute)
			stop()
			probed := 0
			for _, op := range p.Everything() {
				if strings.Contains(op.Cause, "attempts at the provider fail, and are made one at a time") {
					probed++
					assert.Equal(t, row.own, op.DueOwn)
					assert.Equal(t, journal.StatePending, op.State)
				}
			}
			assert.Positive(t, probed)
		})
	}
}

// The record for an attempt that was not sent says so.
func TestAttemptThatWasNotMade(t *testing.T) {
	virtual(t, "for want of a signature", func(t *testing.T) {
		l := &line{}
		p := start(t, l, onceward.Config{Authorize: func(*http.Request) error { return errReset }})
		out := p.Ask(named(t, invoice))
		require.ErrorIs(t, out.Err, onceward.ErrNotSent)
		assert.Contains(t, out.Op.Cause, "not sent")
		assert.Empty(t, l.Sent())
	})
	virtual(t, "since its caller's time is over: for others it pauses as after any attempt", func(t *testing.T) {
		l := (&line{}).Then(refuses())
		asked := start(t, l, onceward.Config{Backoff: once})
		require.ErrorIs(t, asked.Ask(named(t, invoice)).Err, onceward.ErrPending)
		pass(time.Hour)
		p := start(t, l, onceward.Config{Journal: asked.Journal.Store, Authorize: func(*http.Request) error {
			pass(time.Minute)
			return nil
		}})
		require.ErrorIs(t, p.Ask(onceward.WithNotAfter(named(t, invoice), time.Now().Add(10*time.Second))).Err, onceward.ErrPending)
		op := p.Recorded(onceward.Ref{ID: invoice})
		assert.True(t, op.DueAt.After(time.Now()))
		assert.True(t, op.DueOwn)
		assert.Empty(t, l.Sent())
	})
}

// An operation that is interrupted during a pause stays due at the pause's end.
func TestInterruptedPauseEndsWhenItWasTo(t *testing.T) {
	virtual(t, "by Shutdown", func(t *testing.T) {
		p := start(t, (&line{}).Then(says(429, "", "Retry-After", "60")), onceward.Config{})
		due, asked := time.Now().Add(time.Minute), make(chan outcome, 1)
		go func() { asked <- p.Ask(named(t, invoice)) }()
		pass(20 * time.Second)
		require.NoError(t, p.Shutdown(t.Context()))
		require.ErrorIs(t, (<-asked).Err, onceward.ErrPending)
		assert.True(t, due.Equal(p.Recorded(onceward.Ref{ID: invoice}).DueAt))
	})
}

// The clock may step between two attempts of one call. Its new time neither sends nor ends the operation.
func TestClockThatStepsBetweenAttempts(t *testing.T) {
	for _, row := range []struct {
		name    string
		earlier bool // an earlier call has sent it
		answer  reply
		step    time.Duration
		sent    int // by this call
	}{
		{"back", false, loses(), -2 * time.Hour, 1},
		{"by minutes", false, loses(), -2 * time.Minute, 2},
		{"ahead by two days, after an earlier call", true, loses(), 48 * time.Hour, 1},
		{"ahead by hours, after an earlier call", true, loses(), 12 * time.Hour, 2},
		{"not, while the provider has it wait, after an earlier call", true, says(503, "", "Retry-After", "46800"), 0, 2},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := &line{}
			first := start(t, l, onceward.Config{Backoff: once})
			if row.earlier {
				l.Then(loses())
				require.ErrorIs(t, first.Ask(named(t, invoice)).Err, onceward.ErrPending)
				pass(time.Hour)
			}
			before := len(l.Sent())
			l.Then(row.answer)
			var step time.Duration
			p := start(t, l, onceward.Config{
				Journal: first.Journal.Store, MaxWait: 100 * time.Hour, Backoff: backoff.Policy{MaxRetryAfter: 24 * time.Hour},
				Trace: &onceward.Trace{Delayed: func(context.Context, onceward.Operation, time.Duration) { step = row.step }},
			})
			setClock(p.Client, func() time.Time { return time.Now().Add(step) })
			out := p.Ask(named(t, invoice))
			assert.Len(t, l.Sent(), before+row.sent)
			if row.sent > 1 {
				require.NoError(t, out.Err)
			} else {
				require.ErrorIs(t, out.Err, onceward.ErrPending)
			}
		})
	}
}

// A caller that leaves after a refusal gets the refusal, unless a part of its body was discarded.
func TestCallerThatLeavesAfterARefusal(t *testing.T) {
	for limit, given := range map[int64]bool{10: false, 1000: true} {
		virtual(t, fmt.Sprint(given), func(t *testing.T) {
			l := (&line{}).Then(says(429, strings.Repeat("x", 100)))
			ctx, cancel := context.WithCancel(named(t, invoice))
			p := start(t, l, onceward.Config{MaxResponseBody: limit, Trace: &onceward.Trace{
				Delayed: func(context.Context, onceward.Operation, time.Duration) { cancel() },
			}})
			out := p.Ask(ctx)
			assert.Equal(t, onceward.StateCancelled, p.Recorded(onceward.Ref{ID: invoice}).State)
			if given {
				require.NoError(t, out.Err)
				assert.Equal(t, 429, out.Status)
				return
			}
			require.ErrorIs(t, out.Err, onceward.ErrNotSent)
			require.ErrorIs(t, out.Err, context.Canceled)
		})
	}
}

// A key in use at the provider proves an earlier request under it, which may have run. That holds even for the first
// attempt here.
func TestInFlightOnAFirstAttempt(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := start(t, (&line{}).Always(inUse), onceward.Config{Backoff: once})
		ctx, cancel := context.WithTimeout(named(t, invoice), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, p.Ask(ctx, carrying("k-1")).Err, onceward.ErrPending)
		op := p.Recorded(onceward.Ref{ID: invoice})
		assert.Equal(t, journal.StatePending, op.State)
		assert.True(t, op.MayHaveRun)
	})
}

// A retention that an answer declares shortens the resend window, and never widens it. It is recorded before the next
// attempt.
func TestADeclaredRetentionShortensTheWindow(t *testing.T) {
	for _, row := range []struct {
		name     string
		declared string
		parked   bool // by the first answer
		after    time.Duration
		sent     bool
	}{
		{"within it", "7200", true, time.Hour, true},
		{"after it", "7200", true, 3 * time.Hour, false},
		{"longer than the table's", "864000", false, 25 * time.Hour, false},
		{"a value that can't be read", "2h", true, time.Minute, false},
		{"two values that a proxy has joined", "7200, 7200", true, time.Minute, false},
		{"nothing is remembered", "0", true, time.Minute, false},
	} {
		virtual(t, row.name, func(t *testing.T) {
			j := memory.New()
			declares := own(func(e *providers.Endpoint) {
				e.Remembers, e.Declared = providers.SuccessesCleanFailures, providers.Declared{Header: "Key-Ttl"}
			})
			cfg := onceward.Config{Journal: j, Providers: []providers.Provider{declares}, Backoff: backoff.Policy{MaxAttempts: 2}}
			l := (&line{}).Then(says(503, "", "Key-Ttl", row.declared), says(503, "", "Key-Ttl", row.declared))
			p := start(t, l, cfg)
			out := p.Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			require.Error(t, out.Err)
			attempts := 2
			if row.parked {
				attempts = 1
			}
			assert.Len(t, l.Sent(), attempts)
			p.Crash()
			pass(row.after)
			next := (&line{}).Always(says(200, paid))
			out = start(t, next, cfg).Ask(named(t, "order-1"), to(http.MethodPost, ownURL))
			if row.sent {
				require.NoError(t, out.Err)
				return
			}
			require.Error(t, out.Err)
			assert.Empty(t, next.Sent())
		})
	}
}
