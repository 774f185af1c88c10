package inbound_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/server"
)

// waiter is a service whose handler runs a flow for each request.
type waiter struct {
	*process
	handler http.Handler
	ran     int
}

func newWaiter(t *testing.T, l *line, j machine.Store) *waiter {
	t.Helper()
	w := &waiter{}
	serve := flow.Define("serve", 1, func(ctx context.Context, meal string) (string, error) {
		w.ran++
		for _, what := range []string{"cook", "charge"} {
			if err := w.Step(ctx, what); err != nil {
				return "", err
			}
		}
		return "served " + meal, nil
	})
	w.process = startFlows(t, l, onceward.Config{Journal: j, Secret: []byte("0123456789abcdef"), Backoff: once, MaxWait: 20 * time.Second},
		flow.Config{Definitions: []flow.Definition{serve}})
	inbound, err := server.Inbound(w.Client, ofTenant, server.InboundOptions{})
	require.NoError(t, err)
	w.handler = inbound(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		meal, _ := io.ReadAll(r.Body)
		served, err := serve.Run(r.Context(), w.Flows, "serve", string(meal))
		switch {
		case errors.Is(err, onceward.ErrKeyReused):
			rw.WriteHeader(http.StatusUnprocessableEntity)
		case err != nil:
			rw.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(rw, served)
		}
	}))
	return w
}

// asked returns the answer that a caller gets for a meal, under one key.
func (w *waiter) asked(ctx context.Context, meal string) (status int, served string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/meals", strings.NewReader(meal))
	r.Header.Set("Idempotency-Key", "k-1")
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// A flow in the handler of an inbound request runs once, however often the request comes, to which process and with
// which body.
func TestInboundHandlerThatRunsAFlow(t *testing.T) {
	t.Parallel()
	each(t, "delivered again while it runs, to two processes, with other content too", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(takes(2*time.Second, says(200, paid)))
		ws := []*waiter{newWaiter(t, l, j), newWaiter(t, l, j)}
		var asking sync.WaitGroup
		for i := range 6 {
			asking.Go(func() {
				status, served := ws[i%2].asked(t.Context(), "soup")
				assert.Equal(t, 200, status)
				assert.Equal(t, "served soup", served)
			})
			pass(500 * time.Millisecond)
			status, _ := ws[i%2].asked(t.Context(), "steak")
			assert.Equal(t, 422, status)
		}
		asking.Wait()
		assert.Equal(t, []string{"cook", "charge"}, l.Descriptions())
		assert.Equal(t, 1, ws[0].ran+ws[1].ran)
		for op, err := range ws[0].Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, onceward.Key("k-1"), op.InboundKey, "a hook can tell by whose key a step was made")
			assert.Equal(t, "serve", op.Flow.ID)
		}
	})
	each(t, "delivered again after a crash, beside Resume, and with other content before", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(says(200, paid), hangs())
		died := newWaiter(t, l, j)
		left, leave := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); died.asked(left, "soup") }()
		pass(time.Second)
		died.Crash()
		leave()
		<-over

		next := newWaiter(t, l.Always(takes(time.Second, says(200, paid))), j)
		status, _ := next.asked(t.Context(), "steak")
		assert.Equal(t, 422, status)
		assert.Len(t, l.Sent(), 2)
		var resuming sync.WaitGroup
		resuming.Go(func() {
			_, err := next.Resume(t.Context())
			assert.NoError(t, err)
		})
		pass(10 * time.Millisecond)
		status, served := next.asked(t.Context(), "soup")
		assert.Equal(t, 200, status)
		assert.Equal(t, "served soup", served)
		resuming.Wait()
		assert.Equal(t, []string{"cook", "charge", "charge"}, l.Descriptions())
		assert.Len(t, distinct(l.Keys()), 2)
	})
	each(t, "its caller goes away in each step", func(t *testing.T, j machine.Store) {
		l := (&line{}).Always(takes(5*time.Second, says(200, paid)))
		w := newWaiter(t, l, j)
		running, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.Run(running) }()
		for range 3 {
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			status, _ := w.asked(ctx, "soup")
			leave()
			assert.Equal(t, 503, status)
		}
		pass(time.Minute)
		status, served := w.asked(t.Context(), "soup")
		assert.Equal(t, 200, status)
		assert.Equal(t, "served soup", served)
		assert.Len(t, distinct(l.Keys()), 2)
		stop()
		<-ended
	})
}
