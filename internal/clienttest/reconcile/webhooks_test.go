package reconcile_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
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
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// signed returns a webhook with this body, signed under signingSecret.
func signed(t *testing.T, body []byte) *http.Request {
	t.Helper()
	const id = "msg_1"
	at := strconv.FormatInt(time.Now().Unix(), 10)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signingSecret, "whsec_"))
	require.NoError(t, err)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Webhook-Id", id)
	r.Header.Set("Webhook-Timestamp", at)
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return r
}

// A payout is paid, and fails days later. The journal keeps the outcome, and the application's handler gets the event
// with the operation.
func TestWebhookOfALateState(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		out := l.Pays("invoice-1")
		require.NoError(t, out.Err)
		v, err := webhook.StandardWebhooks(signingSecret)
		require.NoError(t, err)
		var about []onceward.Operation
		h := l.WebhookHandler("bank", v, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { about = onceward.OperationsOf(r.Context()) }))
		for i, kind := range []string{"payment.succeeded", "payment.failed"} {
			h.ServeHTTP(httptest.NewRecorder(), signed(t, l.Happened(fmt.Sprint("evt_", i), kind, out.Op.Key, "obj_1", time.Now()).Body))
			require.Len(t, about, 1, kind)
			assert.Equal(t, "invoice-1", about[0].ID)
			assert.Equal(t, onceward.StateCompleted, about[0].State, kind)
		}
		h.ServeHTTP(httptest.NewRecorder(), signed(t, l.Happened("evt_9", "payment.failed", "another-key", "obj_9", time.Now()).Body))
		assert.Empty(t, about)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
}

func TestWebhooksSettle(t *testing.T) {
	virtual(t, "an unknown operation", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		came := l.Hears(http.StatusAccepted)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Box.Advance(time.Minute)
		op := l.Stands("invoice-1")
		require.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment obj_1", op.Object)
		require.Len(t, op.Evidence, 1)
		assert.Equal(t, journal.SourceEvent, op.Evidence[0].Source)
		assert.Equal(t, "payment.succeeded", op.Evidence[0].Target)
		assert.EqualValues(t, 1, came.Load())
		require.Len(t, l.Box.Deliveries(), 1)
		assert.Equal(t, http.StatusAccepted, l.Box.Deliveries()[0].Status, "the application's answer")
		again := l.Pays("invoice-1")
		require.ErrorIs(t, again.Err, onceward.ErrAnswerGone)
		assert.Equal(t, "obj_1", again.Op.Answer.Pointer)
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	})
	virtual(t, "an operation that needs attention", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		l.Hears(200)
		l.Box.ScriptEvents(providertest.EventManner{Delay: 2 * time.Hour})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Runs(time.Hour)
		assert.Contains(t, l.Stands("invoice-1").Attention, "no look-up")
		require.Len(t, l.Told(), 1)
		l.Runs(2 * time.Hour)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Empty(t, l.Stands("invoice-1").Attention)
		l.Truly()
	})
	virtual(t, "wakes a waiting caller", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, func(p *providers.Provider) { p.Endpoints[0].Lookups[0].Path = "/elsewhere" })
		l.Hears(200)
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		go l.Box.Advance(time.Minute)
		_, err := l.Wait(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
	})
}

// An event comes before the answer. The caller gets its own answer.
func TestTrapEventBeforeTheAnswer(t *testing.T) {
	early := providertest.EventManner{BeforeResponse: true}
	virtual(t, "which comes", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		came := l.Hears(200)
		l.Box.ScriptEvents(early)
		out := l.Pays("invoice-1")
		require.NoError(t, out.Err)
		assert.Contains(t, out.Body, "obj_1")
		assert.False(t, out.Op.Replayed)
		assert.EqualValues(t, 1, came.Load())
		op := l.Stands("invoice-1")
		assert.False(t, op.Answer.Found)
		assert.Len(t, op.Evidence, 1)
		l.Truly()
	})
	virtual(t, "which is lost", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Hears(200)
		l.Box.ScriptEvents(early)
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.NoError(t, out.Err, "it was looked up")
		assert.Contains(t, out.Body, "obj_1")
		assert.True(t, l.Stands("invoice-1").Answer.Found)
		assert.Equal(t, 1, l.Effects())
		l.Truly()
	})
	virtual(t, "before its process is killed", func(t *testing.T) {
		j := memory.New()
		l := atBank(t, onceward.Config{Journal: j})
		second := another(t, l.Box, onceward.Config{Journal: j})
		second.Hears(200)
		l.Box.ScriptEvents(early)
		l.Box.Script(providertest.DelayAfter(time.Minute))
		go l.Pays("invoice-1")
		synctest.Wait()
		l.Crash()
		second.Runs(10 * time.Minute)
		assert.Equal(t, onceward.StateCompleted, second.Stands("invoice-1").State)
		assert.Equal(t, 1, l.Effects(), "nothing is sent again")
	})
}

// A refusal that comes late never takes back an effect. A refusal that may be of a single attempt leaves the operation
// open.
func TestTrapRefusedEvent(t *testing.T) {
	virtual(t, "after a success", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		out := l.Pays("invoice-1")
		require.NoError(t, out.Err)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.failed", out.Op.Key, "obj_1", time.Now()))
		require.NoError(t, err)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.False(t, op.Answer.Refused)
	})
	virtual(t, "of an unknown operation with two attempts", func(t *testing.T) {
		l := atBank(t, onceward.Config{Backoff: quick}, func(p *providers.Provider) {
			e := &p.Endpoints[0]
			e.Retention, e.Remembers, e.InFlightGuard = 24*time.Hour, providers.SuccessesLostAnswers, true
		})
		l.Box.Script(providertest.DropBefore(), providertest.FailAfter(500))
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		due := l.Recorded(out.Op.Ref).LookAt
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.failed", out.Op.Key, "obj_9", time.Now()))
		require.NoError(t, err)
		op := l.Recorded(out.Op.Ref)
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Equal(t, due, op.LookAt, "it is looked for when it was to be")
	})
	virtual(t, "of an unknown operation with one attempt", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropBefore())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.failed", out.Op.Key, "obj_9", time.Now()))
		require.NoError(t, err)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.True(t, op.Answer.Refused)
	})
}

// hearsNot is a journal whose event commits fail for a while.
type hearsNot struct {
	*memory.Journal
	fails atomic.Int64
}

var errDisk = errors.New("the disk is full")

func (j *hearsNot) RecordEvent(ctx context.Context, h machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	if j.fails.Add(-1) >= 0 {
		return nil, false, errDisk
	}
	return j.Journal.RecordEvent(ctx, h, evs)
}

// An event comes five times, and one commit fails. The provider is asked to repeat that delivery, and the application
// gets every other one.
func TestTrapRepeatedEvents(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := &hearsNot{Journal: memory.New()}
		l := atBank(t, onceward.Config{Journal: j}, unlooked)
		came := l.Hears(200)
		j.fails.Store(1)
		l.Box.ScriptEvents(providertest.EventManner{Duplicates: 4})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Box.Advance(time.Hour)
		var statuses []int
		for _, d := range l.Box.Deliveries() {
			statuses = append(statuses, d.Status)
		}
		assert.Equal(t, []int{503, 200, 200, 200, 200, 200}, statuses)
		assert.EqualValues(t, 5, came.Load())
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Len(t, op.Evidence, 1, "it is taken note of once")
		l.Truly()
	})
}

// An event is about an operation that was resolved as not executed, by an operator or by Reconcile.Lookup.
func TestTrapLateEvent(t *testing.T) {
	t.Parallel()
	var conflicts []string
	prove := func(t *testing.T) (*teller, outcome) {
		l := atBank(t, onceward.Config{Reconcile: saysAbsent(), Trace: &onceward.Trace{Conflicted: func(_ context.Context, op onceward.Operation, _ int, second bool) {
			conflicts = append(conflicts, fmt.Sprint(op.ID, " ", second))
		}}})
		l.Box.Script(providertest.DropBefore())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		time.Sleep(3 * time.Minute)
		require.NoError(t, l.Pays("control").Err)
		l.Runs(3 * time.Hour)
		require.Equal(t, onceward.StateCancelled, l.Stands("invoice-1").State)
		return l, out
	}
	virtual(t, "nothing was sent since: it is completed", func(t *testing.T) {
		l, out := prove(t)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_9", "payment.succeeded", out.Op.Key, "obj_9", time.Now()))
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		assert.Empty(t, conflicts)
	})
	virtual(t, "the next generation took effect: both effects are reported", func(t *testing.T) {
		l, out := prove(t)
		require.NoError(t, l.Pays("invoice-1").Err)
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_9", "payment.succeeded", out.Op.Key, "obj_9", time.Now()))
		require.NoError(t, err)
		l.Runs(time.Minute)
		require.Len(t, l.Told(), 1)
		assert.Contains(t, l.Told()[0].Objects, "payment obj_9")
		assert.Contains(t, l.Log.String(), "it took effect twice")
		assert.Equal(t, []string{"invoice-1 true"}, conflicts)
	})
	virtual(t, "the next round may have: there may be two, and it is unknown still", func(t *testing.T) {
		l := atBank(t, onceward.Config{Journal: onDisk(t)}, unlooked)
		l.Box.Script(providertest.DropBefore(), providertest.DropBefore())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		_, err := l.ResolveAs(out.Op.Ref, onceward.NotExecuted, nil)
		require.NoError(t, err)
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		_, err = l.RecordEvent(t.Context(), "bank", l.Happened("evt_9", "payment.succeeded", out.Op.Key, "obj_9", time.Now()))
		require.NoError(t, err)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Equal(t, 1, l.Recorded(op.Ref).SecondEffects)
	})
}

// An effect under the key of an operation that was never sent is another program's. The operation needs attention.
func TestTrapEventOfAnUnsentOperation(t *testing.T) {
	t.Parallel()
	virtual(t, "", func(t *testing.T) {
		fails := true
		l := atBank(t, onceward.Config{Journal: onDisk(t), Authorize: func(r *http.Request) error {
			if fails {
				return errDisk
			}
			r.Header.Set("Authorization", tellerToken)
			return nil
		}}, unlooked)
		out := l.Pays("invoice-1")
		require.Error(t, out.Err)
		require.Zero(t, l.Box.Requests())
		fails = false
		_, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_9", "payment.succeeded", out.Op.Key, "obj_9", time.Now()))
		require.NoError(t, err)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateUnknown, op.State)
		assert.Contains(t, op.Attention, "nothing of it was sent")
	})
}

// An event that comes while a request is running is considered once its answer is lost.
func TestTrapWebhookDuringAnAttempt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		heard [][2]string // each event's kind and object
		state onceward.State
		dead  string
	}{
		{"that it was refused", [][2]string{{"payment.failed", "obj_1"}}, onceward.StateCompleted, ""},
		{"of two objects", [][2]string{{"payment.succeeded", "obj_1"}, {"payment.succeeded", "obj_2"}}, onceward.StateUnknown, "more than one object"},
	} {
		virtual(t, row.name, func(t *testing.T) {
			l := atBank(t, onceward.Config{Journal: onDisk(t)}, unlooked)
			l.Box.Script(providertest.DropBefore())
			l.Fakes(func(r *http.Request) *http.Response {
				if r.Method == http.MethodPost {
					<-time.After(10 * time.Second)
				}
				return nil
			})
			done := make(chan outcome, 1)
			go func() { done <- l.Pays("invoice-1") }()
			pass(time.Second)
			for i, is := range row.heard {
				_, err := l.RecordEvent(t.Context(), "bank", l.Happened(fmt.Sprint("evt_", i), is[0], l.Stands("invoice-1").Key, is[1], time.Now()))
				require.NoError(t, err)
			}
			assert.Equal(t, onceward.StateInFlight, l.Stands("invoice-1").State)
			<-done
			op := l.Stands("invoice-1")
			assert.Equal(t, row.state, op.State)
			assert.Contains(t, op.Attention, row.dead)
			if row.state == onceward.StateCompleted {
				assert.True(t, op.Answer.Refused)
				return
			}
			_, err := l.Resolve(t.Context(), op.Seen, onceward.NotExecuted, onceward.ResolveOptions{})
			require.ErrorIs(t, err, onceward.ErrInvalidEvent, "it took effect")
			resolved, err := l.Resolve(t.Context(), op.Seen, onceward.Executed, onceward.ResolveOptions{})
			require.NoError(t, err, "as one of them says")
			assert.Equal(t, onceward.StateCompleted, resolved.State)
		})
	}
}

// An event that is unsigned, or says that it belongs to another account, proves nothing. A hint causes a look-up.
func TestTrapEventsThatProveNothing(t *testing.T) {
	virtual(t, "a wrong signature", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked)
		came := l.Hears(200)
		l.Box.ScriptEvents(providertest.EventManner{Forged: true})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Box.Advance(time.Minute)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		assert.Empty(t, l.Stands("invoice-1").Evidence)
		assert.Zero(t, came.Load())
		assert.Equal(t, http.StatusForbidden, l.Box.Deliveries()[0].Status)
	})
	virtual(t, "the other mode", func(t *testing.T) {
		l := atBank(t, onceward.Config{}, unlooked, func(p *providers.Provider) {
			p.CredentialModes = []providers.CredentialMode{{Prefix: "t0", Mode: "live"}}
			for i := range p.Events {
				p.Events[i].Live = "livemode"
			}
		})
		l.Hears(200)
		l.Box.ScriptEvents(providertest.EventManner{OtherMode: true})
		l.Box.Script(providertest.DropAfter())
		require.ErrorIs(t, l.Pays("invoice-1").Err, onceward.ErrOutcomeUnknown)
		l.Box.Advance(time.Minute)
		assert.Empty(t, l.Stands("invoice-1").Evidence)
	})
	virtual(t, "not signed: it causes a look-up", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Visible(2 * time.Hour)
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		l.Runs(3*time.Hour + time.Minute)
		before := l.Stands("invoice-1")
		require.Equal(t, onceward.StateUnknown, before.State)
		l.Box.Visible(0)
		e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_7", time.Now())
		e.Evidence = false
		_, err := l.RecordEvent(t.Context(), "bank", e)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateUnknown, l.Stands("invoice-1").State)
		l.Runs(time.Minute)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment obj_1", op.Object, "what was looked up, and not what was said")
		assert.Equal(t, before.Looks+1, op.Looks)
		l.Truly()
	})
	virtual(t, "of another operation", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		ops, err := l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", "nobody's", "obj_1", time.Now()))
		require.NoError(t, err)
		assert.Empty(t, ops)
		_, err = l.RecordEvent(t.Context(), "bank", onceward.Event{Evidence: true, Body: []byte("<html>")})
		require.NoError(t, err)
		_, err = l.RecordEvent(t.Context(), "nobody", onceward.Event{})
		require.ErrorContains(t, err, "nobody")
	})
}

// An operator resolves an operation as not executed while a look-up is running that finds it. The finding is not lost.
func TestTrapResolvedDuringALookup(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := atBank(t, onceward.Config{})
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		seen := l.Stands("invoice-1").Seen
		_, err := l.Resolve(t.Context(), seen, onceward.NotExecuted, onceward.ResolveOptions{By: "ada"})
		require.NoError(t, err)
		_, err = l.RecordEvent(t.Context(), "bank", l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now()))
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.Truly()
	})
}

func TestWebhooksChecksItsArguments(t *testing.T) {
	c, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}, Reconcile: plain()})
	require.NoError(t, err)
	v, err := webhook.StandardWebhooks(signingSecret)
	require.NoError(t, err)
	assert.Panics(t, func() { c.WebhookHandler("bank", nil, nil) })
	assert.Panics(t, func() { c.WebhookHandler("nobody", v, nil) })
	t.Run("a verifier of another provider is refused", func(t *testing.T) {
		adyen, err := webhook.Adyen("44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056")
		require.NoError(t, err)
		stripe, err := webhook.Stripe(signingSecret)
		require.NoError(t, err)
		renamed := providers.Stripe()
		renamed.Name, renamed.Hosts = "stripe-eu", []string{"eu.example.com"}
		c := start(t, &line{}, onceward.Config{Providers: []providers.Provider{providers.Stripe(), renamed}, Reconcile: &onceward.Reconcile{}})
		assert.PanicsWithValue(t, `onceward: WebhookHandler: provider "stripe" signs its events by stripe, and the verifier is for "adyen"`, func() { c.WebhookHandler("stripe", adyen, nil) })
		assert.Panics(t, func() { c.WebhookHandler("stripe", v, nil) })
		assert.Panics(t, func() { c.WebhookHandler("stripe-eu", adyen, nil) })
		assert.NotNil(t, c.WebhookHandler("stripe-eu", stripe, nil))
	})
	assert.NotNil(t, c.WebhookHandler("bank", v, nil))
	without, err := onceward.New(onceward.Config{Journal: memory.New(), Providers: []providers.Provider{bank()}})
	require.NoError(t, err)
	assert.Panics(t, func() { without.WebhookHandler("bank", v, nil) }, "each webhook would be a 503")
}

// A body over the limit is refused before it is read whole, and the limit can be raised.
func TestWebhooksOfALargeBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		panics := false
		l := atBank(t, onceward.Config{Trace: &onceward.Trace{Looked: func(context.Context, onceward.Operation, onceward.Evidence) {
			if panics {
				panic("a nil ledger")
			}
		}}}, unlooked)
		v, err := webhook.StandardWebhooks(signingSecret)
		require.NoError(t, err)
		came := 0
		h := l.WebhookHandler("bank", v, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { came++ }))
		l.Box.Script(providertest.DropAfter())
		out := l.Pays("invoice-1")
		require.ErrorIs(t, out.Err, onceward.ErrOutcomeUnknown)
		e := l.Happened("evt_1", "payment.succeeded", out.Op.Key, "obj_1", time.Now())
		large := fmt.Appendf(nil, `{"filler":%q,%s`, strings.Repeat("x", 2<<20), e.Body[1:])
		send := func() int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, signed(t, large))
			return w.Code
		}
		assert.Equal(t, http.StatusRequestEntityTooLarge, send())
		assert.Zero(t, came)
		h.MaxBody = 4 << 20
		assert.Equal(t, http.StatusOK, send())
		assert.Equal(t, 1, came)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		h = l.WebhookHandler("bank", v, nil)
		h.MaxBody = 4 << 20
		assert.Equal(t, http.StatusNoContent, send(), "where the application has no use for it")
		panics = true
		large = fmt.Appendf(nil, `{"filler":%q,%s`, "x", l.Happened("evt_2", "payment.succeeded", out.Op.Key, "obj_1", time.Now()).Body[1:])
		assert.Equal(t, http.StatusServiceUnavailable, send())
		assert.Contains(t, l.Log.String(), "a nil ledger")
	})
}
