package request_test

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/providers"
)

// A caller whose answer comes too late for its claim gets it if the record lacks one.
func TestAnswerTooLateForItsClaim(t *testing.T) {
	virtual(t, "resolved meanwhile, without an answer", func(t *testing.T) {
		l, j := &line{}, memory.New()
		p, other := start(t, l, onceward.Config{Journal: j}), start(t, l, onceward.Config{Journal: j})
		l.Then(doing(func() {
			j.Kill(p.Journal.Sessions()[0].ID())
			_, err := other.ResolveAs(onceward.Ref{ID: "a"}, onceward.Executed, nil)
			require.NoError(t, err)
		}, says(200, paid)))
		out := p.Ask(named(t, "a"))
		require.NoError(t, out.Err)
		assert.Equal(t, paid, out.Body)
		answer := p.Recorded(onceward.Ref{ID: "a"}).Answer
		assert.Equal(t, paid, string(answer.Body))
		assert.False(t, answer.ByHand)
		assert.Len(t, l.Sent(), 1)
	})
}

// A late answer of an earlier claim counts. A late answer of an earlier generation shows a second effect.
func TestALateAnswer(t *testing.T) {
	for _, row := range []struct {
		name     string
		meantime func(t *testing.T, p *process)
		state    onceward.State
		second   bool
		conflict int
	}{
		{"while it is pending completes it", func(t *testing.T, p *process) {
			report, err := p.Resume(t.Context()) // without the provider, so that no process sends it
			require.NoError(t, err)
			require.Equal(t, 1, report.PassedOver)
		}, onceward.StateCompleted, false, 0},
		{"after a resolution as not executed, and without a later call, completes it", func(t *testing.T, p *process) {
			_, err := p.ResolveAs(onceward.Ref{ID: "invoice-1/charge"}, onceward.NotExecuted, nil)
			require.NoError(t, err)
		}, onceward.StateCompleted, false, 0},
		{"beside the next generation's is reported as a second effect", func(t *testing.T, p *process) {
			_, err := p.ResolveAs(onceward.Ref{ID: "invoice-1/charge"}, onceward.NotExecuted, nil)
			require.NoError(t, err)
			other := start(t, (&line{}).Always(says(200, paid)), onceward.Config{Journal: p.Journal.Store})
			require.NoError(t, other.Ask(named(t, "invoice-1/charge")).Err)
		}, onceward.StateCompleted, true, 1},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := (&line{}).Then(takes(20*time.Second, says(201, `{"id":"late"}`)))
			conflicts := 0
			slow := start(t, l, onceward.Config{Trace: &onceward.Trace{
				Conflicted: func(_ context.Context, _ onceward.Operation, status int, second bool) {
					conflicts++
					assert.Equal(t, 201, status)
					assert.Equal(t, row.second, second)
				},
			}})
			caller := make(chan outcome, 1)
			go func() { caller <- slow.Ask(named(t, "invoice-1/charge")) }()
			synctest.Wait()
			// The process is taken for dead while it is only slow.
			require.NoError(t, slow.Journal.Sessions()[0].End(t.Context()))
			other := start(t, l, onceward.Config{Journal: slow.Journal.Store, Providers: []providers.Provider{own()}})
			row.meantime(t, other)
			out := <-caller
			require.NoError(t, out.Err)
			assert.Equal(t, row.conflict, conflicts)
			assert.Equal(t, row.state, slow.Recorded(onceward.Ref{ID: "invoice-1/charge"}).State)
			if row.second {
				assert.Equal(t, paid, out.Body, "the recorded answer is handed over")
				assert.Equal(t, 1, slow.Recorded(onceward.Ref{ID: "invoice-1/charge"}).SecondEffects)
			} else {
				assert.Equal(t, `{"id":"late"}`, out.Body)
			}
		})
	}
}

// A late answer of an earlier generation is no second effect if it shows the next one's object. The provider took both
// requests for one.
func TestLateAnswerWithTheSameObject(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		l := atBank(t, onceward.Config{Journal: j})
		other := another(t, l.Box, onceward.Config{Journal: j})
		made := answering(http.MethodPost, `{"id":"obj_1","status":"succeeded","amount":10,"external_id":"order-1"}`)
		l.Fakes(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				<-time.After(20 * time.Second)
			}
			return made(r)
		})
		other.Fakes(made)
		caller := make(chan outcome, 1)
		go func() { caller <- l.Asks("invoice-1", "/transfers", order1) }()
		pass(time.Second)
		require.NoError(t, l.Journal.Sessions()[0].End(t.Context())) // it is taken for dead
		_, err := other.ResolveAs(onceward.Ref{ID: "invoice-1"}, onceward.NotExecuted, nil)
		require.NoError(t, err)
		require.NoError(t, other.Asks("invoice-1", "/transfers", order1).Err)
		require.NoError(t, (<-caller).Err)
		op := l.Recorded(onceward.Ref{ID: "invoice-1"})
		assert.Equal(t, 1, op.Generation)
		assert.Equal(t, "transfer obj_1", op.Object)
		assert.Zero(t, op.SecondEffects)
		assert.NotContains(t, l.Log.String(), "a second answer came, and the recorded one counts; compare the two at the provider")
	})
}

// answering answers one method's requests.
func answering(method, text string) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.Method != method {
			return nil
		}
		return answers(http.StatusOK, text)
	}
}

// An answer that comes after its operation was reaped is reported as gone. It does not restore the operation.
func TestLateAnswerOfAReapedOne(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		told := 0
		slow := start(t, (&line{}).Then(takes(72*time.Hour, says(201, `{"id":"late"}`))), onceward.Config{Journal: j, AttemptTimeout: 100 * time.Hour, MaxWait: 100 * time.Hour,
			Trace: &onceward.Trace{Conflicted: func(context.Context, onceward.Operation, int, bool) { told++ }}})
		caller := make(chan outcome, 1)
		go func() { caller <- slow.Ask(named(t, invoice)) }()
		pass(time.Second)
		require.NoError(t, slow.Journal.Sessions()[0].End(t.Context())) // it is taken for dead
		other := start(t, &line{}, onceward.Config{Journal: j, Keep: time.Hour})
		require.NoError(t, other.Ask(named(t, invoice)).Err)
		other.PassInUse(50 * time.Hour)
		_, err := j.Reap(t.Context(), machine.Event{Kind: machine.EventReap, At: time.Now(), Keep: time.Hour}, 10)
		require.NoError(t, err)
		require.True(t, other.Recorded(onceward.Ref{ID: invoice}).Tombstone)
		require.ErrorIs(t, (<-caller).Err, onceward.ErrAnswerGone)
		assert.Equal(t, 1, told)
		op := other.Recorded(onceward.Ref{ID: invoice})
		assert.True(t, op.Tombstone)
		assert.Nil(t, op.Answer)
	})
}

// A late refusal settles nothing while another process sends the operation, if the provider does not remember refused
// keys.
func TestLateRefusalWhileItIsSent(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		api := []providers.Provider{own(func(e *providers.Endpoint) { e.Remembers = providers.SuccessesCleanFailures })}
		slow := start(t, (&line{}).Then(takes(20*time.Second, says(402, "{}"))), onceward.Config{Journal: j, Providers: api})
		caller := make(chan outcome, 1)
		go func() { caller <- slow.Ask(named(t, invoice), toOwn) }()
		pass(time.Second)
		require.NoError(t, slow.Journal.Sessions()[0].End(t.Context())) // it is taken for dead
		other := start(t, (&line{}).Then(takes(time.Minute, says(200, paid))), onceward.Config{Journal: j, Providers: api})
		sent := make(chan outcome, 1)
		go func() { sent <- other.Ask(named(t, invoice), toOwn) }()
		pass(30 * time.Second)
		assert.Equal(t, journal.StateInFlight, other.Recorded(onceward.Ref{ID: invoice}).State)
		require.NoError(t, (<-sent).Err)
		<-caller
		op := other.Recorded(onceward.Ref{ID: invoice})
		assert.Equal(t, journal.StateCompleted, op.State)
		assert.False(t, op.Answer.Refused)
	})
}

// A refusal comes after the operation was sent again and completed. It is not the outcome, and its caller gets the
// whole recorded answer.
func TestLateRefusalGetsTheOutcome(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		slow := start(t, (&line{}).Then(takes(20*time.Second, says(402, `{"error":{"type":"card_error"}}`))), onceward.Config{Journal: j})
		caller := make(chan outcome, 1)
		go func() { caller <- slow.Ask(named(t, invoice)) }()
		pass(time.Second)
		require.NoError(t, slow.Journal.Sessions()[0].End(t.Context())) // it is taken for dead
		other := start(t, (&line{}).Always(says(200, paid)), onceward.Config{Journal: j})
		_, err := other.ResolveAs(onceward.Ref{ID: invoice}, onceward.SendAgain, nil)
		require.NoError(t, err)
		require.NoError(t, other.Ask(named(t, invoice)).Err)
		out := <-caller
		require.NoError(t, out.Err)
		assert.Equal(t, 200, out.Status)
		assert.Equal(t, paid, out.Body)
		assert.True(t, out.Op.Replayed)
	})
}

// Trace.Ended gets a claim's result, with its cause.
func TestEndedReportsClaims(t *testing.T) {
	for _, row := range []struct {
		name  string
		first reply
		to    option
		kind  error
		cause error // nil: there is none besides
		sent  bool  // its window may have begun
	}{
		{"pending, not sent", refuses(), with("X-Nothing", "1"), onceward.ErrPending, syscall.ECONNREFUSED, false},
		{"pending, refused", says(429, "", "Retry-After", "3600"), with("X-Nothing", "1"), onceward.ErrPending, nil, false},
		{"pending, lost", loses(), with("X-Nothing", "1"), onceward.ErrPending, errReset, true},
		{"unknown, lost", loses(), to("POST", "https://elsewhere.example/"), onceward.ErrOutcomeUnknown, errReset, true},
		{"cancelled, misused", misused, with("X-Nothing", "1"), onceward.ErrKeyReused, nil, true},
	} {
		virtual(t, row.name, func(t *testing.T) {
			var ended error
			p := start(t, (&line{}).Then(row.first), onceward.Config{Backoff: once, Trace: &onceward.Trace{
				Ended: func(_ context.Context, _ onceward.Operation, err error) { ended = err },
			}})
			_ = p.Ask(named(t, "invoice-1"), row.to)
			require.ErrorIs(t, ended, row.kind)
			if row.cause != nil {
				require.ErrorIs(t, ended, row.cause)
			}
			assert.Equal(t, row.sent, !p.Recorded(onceward.Ref{ID: "invoice-1"}).FirstSentAt.IsZero())
		})
	}
}

// Trace.Ended gets the result for an operation that Run or Resume may no longer send.
func TestEndedReportsClaimsThatMayNotBeSent(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := &line{}
		dead := start(t, l, onceward.Config{})
		leavesInFlight(t, dead, l, func() { dead.Ask(named(t, invoice), to("POST", "https://elsewhere.example/")) })
		var ended error
		p := start(t, l, onceward.Config{Journal: dead.Journal.Store, Trace: &onceward.Trace{
			Ended: func(_ context.Context, _ onceward.Operation, err error) { ended = err },
		}})
		report, err := p.Resume(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, report.Unknown)
		assert.ErrorIs(t, ended, onceward.ErrOutcomeUnknown)
	})
}

// terse is a journal that omits the bodies of recorded operations, as its interface allows.
type terse struct{ machine.Store }

func (j terse) Apply(ctx context.Context, ev machine.Event) (machine.Result, error) {
	res, err := j.Store.Apply(ctx, ev)
	if res.Decision != machine.Recorded {
		return res, err
	}
	res.Operation.Request = journal.Request{}
	if a := res.Operation.Answer; a != nil {
		head := *a
		head.Body = nil
		res.Operation.Answer = &head
	}
	return res, err
}

// A caller that waits for another call gets its whole answer, whatever the journal returns of it.
func TestAnswerThatTheJournalDoesNotReturn(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := (&line{}).Then(takes(time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: terse{memory.New()}})
		outs := make(chan outcome, 3)
		for range cap(outs) {
			go func() { outs <- p.Ask(named(t, invoice)) }()
		}
		for range cap(outs) {
			out := <-outs
			require.NoError(t, out.Err)
			assert.Equal(t, paid, out.Body)
		}
		assert.Len(t, l.Sent(), 1)
	})
}

// timedOut is a network error that reports a timeout.
type timedOut struct{}

func (timedOut) Error() string { return "i/o timeout" }
func (timedOut) Timeout() bool { return true }

// The journal keeps an error's nature, so that a person can judge whether something was sent.
func TestCauseOfALostResponse(t *testing.T) {
	fails := func(unsent bool, err error) reply {
		return reply{Unsent: unsent, Answer: func(*http.Request) (*http.Response, error) { return nil, err }}
	}
	for _, row := range []struct {
		reply reply
		cause string
	}{
		{fails(false, timedOut{}), "no answer: timed out"},
		{loses(), "no answer: the connection failed"},
		{fails(true, timedOut{}), "not sent: timed out connecting"},
		{refuses(), "not sent"},
		{fails(true, onceward.NotSent(timedOut{})), "refused locally, not sent"},
		{hangs(), "timed out"},
	} {
		virtual(t, row.cause, func(t *testing.T) {
			p := start(t, (&line{}).Then(row.reply), onceward.Config{Backoff: once})
			require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
			assert.Equal(t, "out of attempts: "+row.cause, p.Recorded(onceward.Ref{ID: invoice}).Cause)
		})
	}
}

// A caller does not get ErrNotSent if its session is lost before the cancel is recorded. Another process may have taken
// over the operation, and sends it.
func TestCancelThatALostSessionCanNotRecord(t *testing.T) {
	for name, lost := range map[string]bool{"it is lost": true, "it is ended by Shutdown": true, "it is not": false} {
		virtual(t, name, func(t *testing.T) {
			store := memory.New()
			j := &failing{Store: store}
			l := &line{}
			p, other := start(t, l, onceward.Config{Journal: j}), start(t, l, onceward.Config{Journal: store})
			l.Then(doing(func() {
				j.Fails(false, machine.EventCancel)
				switch name {
				case "it is lost":
					store.Kill(p.Journal.Sessions()[0].ID())
				case "it is ended by Shutdown":
					_ = p.Shutdown(cancelled())
				}
			}, wrongKey))
			out := p.Ask(named(t, invoice))
			if !lost {
				require.NoError(t, out.Err)
				assert.Equal(t, 401, out.Status)
				return
			}
			require.ErrorIs(t, out.Err, onceward.ErrInFlight)
			require.NotErrorIs(t, out.Err, onceward.ErrNotSent)
			report, err := other.Resume(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, report.Completed)
			if name == "it is ended by Shutdown" {
				return
			}
			j.Fails(false)
			pass(time.Minute)
			require.NoError(t, p.Ask(named(t, invoice)).Err, "it is told of what the other has done")
			assert.Len(t, l.Sent(), 2)
		})
	}
}

// OperationOf gives each caller an answer of its own. A caller that blanks it before it logs the operation changes no record,
// though the journal could not record the answer yet.
func TestAnswerOfOperationOfIsACopy(t *testing.T) {
	for name, blank := range map[string]func(*onceward.Answer){
		"its body is left out":    func(a *onceward.Answer) { a.Body, a.Header = nil, nil },
		"its body is overwritten": func(a *onceward.Answer) { clear(a.Body) },
		"its header is emptied":   func(a *onceward.Answer) { clear(a.Header) },
		"its status is another":   func(a *onceward.Answer) { a.Status = 402 },
	} {
		virtual(t, name, func(t *testing.T) {
			j, l := &failing{Store: memory.New()}, (&line{}).Then(says(200, paid))
			p := start(t, l, onceward.Config{Journal: j})
			j.Fails(false, machine.EventComplete)
			out := p.Ask(named(t, invoice))
			require.NoError(t, out.Err)
			blank(out.Op.Answer)
			j.Fails(false)
			pass(time.Minute)
			again := p.Ask(named(t, invoice))
			require.NoError(t, again.Err)
			assert.Equal(t, 200, again.Status)
			assert.Equal(t, paid, again.Body)
			assert.Equal(t, "application/json", again.Header.Get("Content-Type"))
			assert.Len(t, l.Sent(), 1)
		})
	}
}

// A response's operation names the generation that its answer is of, as the record does.
func TestAnswerNamesItsGeneration(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		p := start(t, (&line{}).Then(frozen), onceward.Config{})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrOutcomeUnknown)
		_, err := p.ResolveAs(onceward.Ref{ID: invoice}, onceward.NotExecuted, nil)
		require.NoError(t, err)
		out := p.Ask(named(t, invoice))
		require.NoError(t, out.Err)
		assert.Equal(t, 1, p.Recorded(onceward.Ref{ID: invoice}).Answer.Generation)
		assert.Equal(t, 1, out.Op.Answer.Generation)
	})
}
