package onceward_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

// An Authorize that hangs before the operation is begun has the attempt's time.
func TestAuthorizeThatHangsBeforeBegin(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		l, hangs := &line{}, true
		p := start(t, l, onceward.Config{Providers: modes(), AttemptTimeout: 5 * time.Second, Authorize: func(r *http.Request) error {
			if hangs {
				hangs = false
				<-r.Context().Done()
				return r.Context().Err()
			}
			return nil
		}})
		began := time.Now()
		require.NoError(t, p.Ask(named(t, "invoice-1")).Err)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Len(t, l.Sent(), 1)
	})
}

// Who is not served is told whether it is sent all the same.
func TestWhoIsNotServedIsToldIfItIsSent(t *testing.T) {
	for name, row := range map[string]struct {
		first        reply
		options      []option
		kind         error
		inBackground bool
	}{
		"pending":                          {refuses(), nil, onceward.ErrPending, true},
		"pending, and only its caller can": {refuses(), []option{with("Authorization", "Bearer a")}, onceward.ErrPending, false},
		"unknown":                          {frozen, nil, onceward.ErrOutcomeUnknown, false},
	} {
		each(t, name, func(t *testing.T, j journal.Journal) {
			p := start(t, (&line{}).Then(row.first), onceward.Config{Journal: j, Backoff: once})
			require.Error(t, p.Ask(named(t, invoice), row.options...).Err)
			ctx, cancel := context.WithCancel(named(t, invoice))
			cancel()
			var e *onceward.Error
			require.ErrorAs(t, p.Ask(ctx, row.options...).Err, &e)
			require.ErrorIs(t, e, row.kind)
			assert.Equal(t, row.inBackground, e.InBackground)
		})
	}
}

// standing is a journal that a process stood still before: its session is lost when it goes on.
type standing struct {
	*memory.Journal
	stood bool
}

func (j *standing) Apply(ctx context.Context, ev journal.Event) (journal.Result, error) {
	if ev.Kind == journal.EventBegin && !j.stood {
		j.stood = true
		<-time.After(30 * time.Second)
		return journal.Result{}, journal.ErrSessionLost
	}
	return j.Journal.Apply(ctx, ev)
}

// A process that stood still until its session was lost begins by what the clock says then: else its clock would seem to
// be behind, and what others have begun meanwhile to be dated by one that is ahead.
func TestBeginAfterItStoodStill(t *testing.T) {
	virtual(t, "for half a minute", func(t *testing.T) {
		p := start(t, &line{}, onceward.Config{Journal: &standing{Journal: memory.New()}})
		require.NoError(t, p.Ask(named(t, invoice)).Err)
		assert.True(t, time.Now().Equal(p.Recorded(onceward.Ref{ID: invoice}).FirstSentAt))
	})
}
