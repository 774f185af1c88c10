package request_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/memory"
)

func TestWaitReturnsAnOutcome(t *testing.T) {
	t.Parallel()
	ref := onceward.Ref{ID: "invoice-1/charge"}
	each(t, "of this process's operation", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: j})
		go p.Ask(named(t, ref.ID))
		synctest.Wait()
		op, err := p.Wait(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, onceward.StateCompleted, op.State)
		assert.Equal(t, paid, string(op.Answer.Body))
		again, err := p.Wait(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, op, again)
		assert.Len(t, l.Sent(), 1, "it sends nothing")
	})
	each(t, "of another process's later operation", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		other := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, other.Ask(named(t, ref.ID)).Err, onceward.ErrPending)
		p := start(t, l, onceward.Config{Journal: j})
		running, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = other.Run(running) }()
		op, err := p.Wait(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, 2, op.Attempts)
	})
	each(t, "that is no answer, by an error", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(frozen, wrongKey)
		p := start(t, l, onceward.Config{Journal: j})
		for _, row := range []struct {
			id    string
			state onceward.State
			is    error
		}{{"frozen", onceward.StateUnknown, onceward.ErrOutcomeUnknown}, {"wrong key", onceward.StateCancelled, onceward.ErrNotSent}} {
			p.Ask(named(t, row.id))
			op, err := p.Wait(t.Context(), onceward.Ref{ID: row.id})
			assert.Equal(t, row.state, op.State)
			require.ErrorIs(t, err, row.is)
		}
		_, err := p.Wait(t.Context(), onceward.Ref{ID: "nobody"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
	each(t, "until its time is up", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, ref.ID)).Err, onceward.ErrPending)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		op, err := p.Wait(ctx, ref)
		require.ErrorIs(t, err, onceward.ErrPending)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var e *onceward.Error
		require.True(t, errors.As(err, &e))
		assert.True(t, e.InBackground)
		assert.Equal(t, onceward.StatePending, op.State)

		done := make(chan error, 1)
		go func() {
			_, err := p.Wait(t.Context(), ref)
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
		require.ErrorIs(t, <-done, onceward.ErrShutdown)
	})
}

// Wait returns the error from a journal that can't be read, even if the next read would succeed.
func TestWaitWithoutAJournal(t *testing.T) {
	j := &unread{Store: memory.New()}
	p := start(t, &line{}, onceward.Config{Journal: j})
	require.NoError(t, p.Ask(named(t, invoice)).Err)
	j.times.Store(1)
	_, err := p.Wait(t.Context(), onceward.Ref{ID: invoice})
	require.ErrorIs(t, err, errDiskFull)
}

// Wait under an ended context returns the operation's state.
func TestWaitWithoutTime(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		p := start(t, (&line{}).Then(refuses()), onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.Ask(named(t, invoice)).Err, onceward.ErrPending)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		op, err := p.Wait(ctx, onceward.Ref{ID: invoice})
		require.ErrorIs(t, err, onceward.ErrPending)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "POST "+chargeURL)
		assert.Equal(t, onceward.StatePending, op.State)
	})
}

// An operation has its request's method and URL, without the query.
func TestOperationHasItsRequestsTarget(t *testing.T) {
	each(t, "", func(t *testing.T, j machine.Store) {
		l := (&line{}).Then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.Ask(named(t, "invoice-1"), to(http.MethodPost, chargeURL+"?expand=customer&api_key=k3y"))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		op, err := p.Operation(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		var listed []onceward.Operation
		for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			listed = append(listed, op)
		}
		require.Len(t, listed, 1)
		for _, op := range []onceward.Operation{out.Op, op, listed[0]} {
			assert.Equal(t, http.MethodPost, op.Method)
			assert.Equal(t, chargeURL, op.URL, "without its query")
			assert.Equal(t, "stripe", op.Provider)
		}
	})
}

func TestErrorsAndLogsNameScopeParentAndFlow(t *testing.T) {
	logging := func() (*bytes.Buffer, *slog.Logger) {
		var b bytes.Buffer
		return &b, slog.New(slog.NewTextHandler(&b, nil))
	}
	virtual(t, "scope and parent, whose key is shortened", func(t *testing.T) {
		logs, logger := logging()
		l := (&line{}).Always(loses())
		p := start(t, l, onceward.Config{Backoff: once, Logger: logger})
		parent := onceward.NewKey()
		out := p.Ask(onceward.WithParent(onceward.WithScope(named(t, "charge"), "tenant-42"), parent))
		require.ErrorIs(t, out.Err, onceward.ErrPending)
		assert.ErrorContains(t, out.Err, "(charge, scope tenant-42, parent "+string(parent[:8])+"…, generation 0, claim 1)")
		for _, part := range []string{"event=operation.pending", "operation.id=charge", `operation.request="POST https://api.stripe.com/v1/charges"`, "operation.scope=tenant-42",
			"operation.parent=" + string(parent[:8]), "operation.generation=0", "operation.claim=1"} {
			assert.Contains(t, logs.String(), part)
		}
		assert.NotContains(t, logs.String()+out.Err.Error(), string(parent))
	})
	virtual(t, "a flow that has a parent itself, by its name and handle", func(t *testing.T) {
		p := startFlows(t, (&line{}).Always(loses()), onceward.Config{Backoff: once})
		var told error
		_ = p.Flow(onceward.WithParent(t.Context(), onceward.NewKey()), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				told = p.Ask(ctx).Err
				return "", told
			})
			return err
		})
		e, ok := errors.AsType[*onceward.Error](told)
		require.True(t, ok)
		key := strings.TrimPrefix(e.Operation.Parent, "flow, key ")
		assert.ErrorContains(t, told, "(charge, flow order-991 #1, generation 0, claim 1)")
		assert.NotContains(t, told.Error(), key)
	})
	virtual(t, "a flow by its name", func(t *testing.T) {
		logs, logger := logging()
		l := (&line{}).Always(loses())
		p := startFlows(t, l, onceward.Config{Backoff: once, Logger: logger})
		var told error
		failed := p.Flow(onceward.WithScope(t.Context(), "tenant-42"), "order-991", nil, func(ctx context.Context) error {
			_, err := flow.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				told = p.Ask(ctx).Err
				return "", told
			})
			return err
		})
		assert.ErrorContains(t, told, "(charge, scope tenant-42, flow order-991, generation 0, claim 1)")
		assert.ErrorContains(t, failed, "flow order-991, scope tenant-42: step charge")
		assert.Contains(t, logs.String(), "flow=order-991")
	})
}

// Wait returns as soon as this process has the outcome.
func TestWaitReturnsWithTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, (&line{}).Then(takes(10*time.Second+300*time.Millisecond, says(200, paid))), onceward.Config{})
		go p.Ask(named(t, invoice))
		synctest.Wait()
		began := time.Now()
		_, err := p.Wait(t.Context(), onceward.Ref{ID: invoice})
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second+300*time.Millisecond, time.Since(began))
	})
}
