package catchup_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/providers"
	"github.com/onceward/onceward/providers/providertest"
	"github.com/onceward/onceward/webhook"
)

// field requires that a CatchUp field was refused.
func field(t *testing.T, name string, err error) {
	t.Helper()
	var refused *onceward.CatchUpError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, name, refused.Field, err)
}

// An operation was left unknown, since its webhook was lost. The list has the event.
func TestCatchUpMakesALostWebhookGood(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		l.Loses("invoice-1", providertest.DropAfter())
		l.happens("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
		l.handle = func(_ http.ResponseWriter, r *http.Request, _ string) {
			about := onceward.OperationsOf(r.Context())
			require.Len(t, about, 1)
			assert.Equal(t, "invoice-1", about[0].ID)
			assert.Equal(t, http.MethodPost, r.Method)
			assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		}
		pass(time.Hour)
		result, got, err := l.catches(from)
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_1"}, got)
		assert.Equal(t, onceward.CaughtUp{Next: time.Now().Add(-20 * time.Minute), Read: 1, Handled: 1}, result)
		op := l.Stands("invoice-1")
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, "payment obj_1", op.Object)
		l.Truly()
	})
}

// Rule 1: an event that fails delays no other, and the next pass begins with it.
func TestCatchUpGoesOnAfterAnEventThatFails(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		for i := range 3 {
			l.news(fmt.Sprint("evt_", i), from.Add(time.Duration(i)*time.Minute))
		}
		pass(time.Hour)
		l.fails("evt_1")
		result, got, err := l.catches(from)
		require.ErrorContains(t, err, "CaughtUp.Failed, which has 1")
		assert.Equal(t, []string{"evt_0", "evt_1", "evt_2"}, got)
		failed := onceward.FailedEvent{ID: "evt_1", Type: "payment.succeeded", At: from.Add(time.Minute), Since: time.Now(), Err: "the handler answered 400"}
		require.Len(t, result.Failed, 1)
		assert.True(t, result.Failed[0].At.Equal(failed.At))
		failed.At = result.Failed[0].At
		assert.Equal(t, failed, result.Failed[0])
		assert.Equal(t, 3, result.Read)
		assert.Equal(t, 2, result.Handled)
		assert.WithinDuration(t, from.Add(time.Minute), result.Next, 0)

		l.handle = nil
		result, got, err = l.catches(result.Next, again(result.Failed))
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_1", "evt_2"}, got)
		assert.Empty(t, result.Failed)
	})
}

// Rule 2: Next waits for an event for a day. Then the event is read by itself, until it is no longer listed.
func TestCatchUpNamesAnEventThatFailsForLong(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		began := time.Now()
		l.news("evt_1", began)
		l.fails("evt_1")
		pass(time.Hour)
		result, _, err := l.catches(began)
		require.Error(t, err)
		since := result.Failed[0].Since
		pass(23 * time.Hour)
		result, _, err = l.catches(result.Next, again(result.Failed))
		require.Error(t, err)
		assert.WithinDuration(t, began, result.Next, 0, "it waits")
		assert.NotContains(t, l.Log.String(), "level=ERROR")

		pass(time.Hour)
		result, _, err = l.catches(result.Next, again(result.Failed))
		require.Error(t, err)
		next := time.Now().Add(-20 * time.Minute)
		assert.Equal(t, next, result.Next, "it has moved on")
		assert.Contains(t, l.Log.String(), "level=ERROR")

		asked := len(l.requests)
		result, got, err := l.catches(result.Next, again(result.Failed))
		require.Error(t, err)
		assert.Equal(t, []string{"evt_1"}, got, "it is read with its second")
		assert.Len(t, l.requests, asked+2)
		assert.Equal(t, since, result.Failed[0].Since)
		assert.Equal(t, next, result.Next)

		pass(horizon)
		result, got, err = l.catches(time.Now().Add(-time.Hour), again(result.Failed))
		require.Error(t, err)
		assert.Empty(t, got)
		require.Len(t, result.Failed, 1)
		assert.Contains(t, result.Failed[0].Err, "does not list the event any more")
	})
	virtual(t, "an event that is about to be forgotten", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		began := time.Now()
		l.news("evt_1", began)
		l.fails("evt_1")
		pass(horizon - 23*time.Hour)
		_, _, err := l.catches(began)
		require.Error(t, err)
		assert.Contains(t, l.Log.String(), "level=ERROR")
	})
	virtual(t, "a gap", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		began := time.Now()
		l.news("evt_1", began)
		pass(horizon + day)
		l.news("evt_2", time.Now().Add(-time.Hour))
		result, got, err := l.catches(began)
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_2"}, got)
		assert.Equal(t, [2]time.Time{began, began.Add(day)}, result.Gap)
		assert.Contains(t, l.Log.String(), "event=feed.gap")
	})
	virtual(t, "an unpublished horizon", func(t *testing.T) {
		l := listing(t, onceward.Config{}, func(p *providers.Provider) { p.Feed.Horizon = 0 })
		result, _, err := l.catches(time.Now().Add(-time.Hour))
		require.NoError(t, err)
		assert.True(t, result.GapUnknown)
		assert.Zero(t, result.Gap)
	})
	virtual(t, "more than the result holds", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		for i := range 1100 {
			l.news(fmt.Sprint("evt_", i), from.Add(time.Duration(i)*time.Second))
		}
		pass(time.Hour)
		l.handle = func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusInternalServerError) }
		result, got, err := l.catches(from)
		require.ErrorContains(t, err, "not every event was handled")
		assert.Len(t, got, 1100)
		assert.Len(t, result.Failed, 1000)
		assert.WithinDuration(t, from, result.Next, 0)
	})
}

// Rule 3: the program names the types. The provider takes twenty in a request, and its filter is not trusted.
func TestCatchUpRequestsTheNamedTypes(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		types := make([]string, 25)
		for i := range types {
			types[i] = fmt.Sprint("type.", i)
			l.happens(fmt.Sprintf("evt_%02d", i), types[i], "none", "none", from.Add(time.Duration(i)*time.Second))
		}
		l.news("other", from)
		l.unsorted = true
		pass(time.Hour)
		_, got, err := l.catches(from, func(o *onceward.CatchUp) { o.Types = types })
		require.NoError(t, err)
		assert.Len(t, got, 25)
		assert.True(t, slices.IsSorted(got), got)
		require.Len(t, l.requests, 2)
		assert.Len(t, l.requests[0].URL.Query()["types"], 20)
		assert.Len(t, l.requests[1].URL.Query()["types"], 5)

		_, got, err = l.catches(from)
		require.NoError(t, err)
		assert.Len(t, got, 26)
		assert.False(t, l.requests[2].URL.Query().Has("types"))

		for _, types := range [][]string{nil, {""}, {"*", "a"}} {
			_, _, err = l.catches(from, func(o *onceward.CatchUp) { o.Types = types })
			field(t, "Types", err)
		}
	})
}

// consumer returns a handler that does each event once, and how many events it did.
func consumer(t *testing.T, j journal.Journal, keep time.Duration) (http.Handler, *int) {
	t.Helper()
	c, err := consume.New(t.Context(), consume.Options{Journal: j, Name: "bank", Keep: keep})
	require.NoError(t, err)
	did := new(int)
	return c.WebhookHandler(consume.Events("bank"), func(context.Context, journal.Tx, consume.Message, []byte) error {
		*did++
		return nil
	}), did
}

// Rule 4: no pass begins before the consumer's marks.
func TestCatchUpBeginsAfterTheConsumersMarks(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		l := listing(t, onceward.Config{Journal: j})
		h, did := consumer(t, j, 7*day)
		by := func(o *onceward.CatchUp) { o.Handler = h }
		l.news("evt_1", time.Now().Add(-time.Hour))
		for range 2 {
			_, _, err := l.catches(time.Now().Add(-6*day), by)
			require.NoError(t, err)
			assert.Equal(t, 1, *did)
		}
		_, _, err := l.catches(time.Now().Add(-6*day-time.Second), by)
		field(t, "From", err)
	})
}

// Rule 5: a pass reads nothing before From, which has no default.
func TestCatchUpReadsNothingBeforeFrom(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		from := time.Now()
		l.news("evt_1", from.Add(-time.Second))
		l.news("evt_2", from)
		pass(time.Hour)
		_, got, err := l.catches(from)
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_2"}, got)
		_, _, err = l.catches(time.Time{})
		field(t, "From", err)
		result, got, err := l.catches(time.Now())
		require.NoError(t, err)
		assert.Empty(t, got)
		assert.Equal(t, time.Now(), result.Next)
	})
}

// Rule 6: a consumer serves both only if a webhook signs the listed id.
func TestCatchUpRefusesAConsumerWithoutACommonID(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		j := onDisk(t)
		l := listing(t, onceward.Config{Journal: j}, func(p *providers.Provider) { p.Feed.SameID = false })
		h, _ := consumer(t, j, 7*day)
		from := time.Now().Add(-time.Hour)
		_, _, err := l.catches(from, func(o *onceward.CatchUp) { o.Handler = h })
		field(t, "Handler", err)
		_, _, err = l.catches(from, func(o *onceward.CatchUp) { o.Handler = nil })
		require.NoError(t, err)
	})
}

// Rule 7: a message says that it was listed.
func TestCatchUpSaysThatAnEventWasListed(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		var m webhook.Message
		l.handle = func(_ http.ResponseWriter, r *http.Request, _ string) { m, _ = webhook.MessageOf(r.Context()) }
		l.news("evt_1", time.Now().Add(-time.Hour))
		_, _, err := l.catches(time.Now().Add(-day))
		require.NoError(t, err)
		assert.Equal(t, webhook.Message{Evidence: true, Events: []string{"evt_1"}, Listed: true}, m)
	})
}

// Rule 8: the handler and the rules get the body that a webhook has.
func TestCatchUpRebuildsTheWebhooksBody(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		wrapped := func(p *providers.Provider) {
			p.Feed.As = `{"events":[{item}]}`
			for i := range p.Events {
				p.Events[i].Items = "events[]"
			}
		}
		l := listing(t, onceward.Config{}, wrapped)
		l.Loses("invoice-1", providertest.DropAfter())
		e := l.happens("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
		pass(time.Hour)
		_, _, err := l.catches(time.Now().Add(-day))
		require.NoError(t, err)
		assert.Equal(t, []string{`{"events":[` + e.body + `]}`}, l.bodies)
		assert.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
	})
}

// Rule 17: an event whose handler failed comes again, though its meaning is recorded.
func TestCatchUpSkipsNoRecordedEvent(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l := listing(t, onceward.Config{})
		l.Loses("invoice-1", providertest.DropAfter())
		l.happens("evt_1", "payment.succeeded", l.Stands("invoice-1").Key, "obj_1", time.Now())
		l.fails("evt_1")
		pass(time.Hour)
		from := time.Now().Add(-day)
		result, _, err := l.catches(from)
		require.Error(t, err)
		require.Equal(t, onceward.StateCompleted, l.Stands("invoice-1").State)
		l.handle = func(_ http.ResponseWriter, r *http.Request, _ string) {
			assert.Len(t, onceward.OperationsOf(r.Context()), 1)
		}
		result, got, err := l.catches(result.Next, again(result.Failed))
		require.NoError(t, err)
		assert.Equal(t, []string{"evt_1"}, got)
		assert.Equal(t, 1, result.Handled)
	})
}
