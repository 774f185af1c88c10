package onceward_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/journal"
)

func TestWaitReturnsAnOutcome(t *testing.T) {
	ref := onceward.Ref{ID: "invoice-1/charge"}
	each(t, "of what this process sends", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(takes(10*time.Second, says(200, paid)))
		p := start(t, l, onceward.Config{Journal: j})
		go p.ask(named(t, ref.ID))
		synctest.Wait()
		op, err := p.Wait(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, onceward.Completed, op.State)
		assert.Equal(t, paid, string(op.Answer.Body))
		again, err := p.Wait(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, op, again)
		assert.Len(t, l.sent(), 1, "it sends nothing")
	})
	each(t, "of what another process sends later", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		other := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, other.ask(named(t, ref.ID)).err, onceward.ErrPending)
		p := start(t, l, onceward.Config{Journal: j})
		running, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = other.Run(running) }()
		op, err := p.Wait(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, 2, op.Attempts)
	})
	each(t, "that is no answer, by an error", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(frozen, wrongKey)
		p := start(t, l, onceward.Config{Journal: j})
		for _, row := range []struct {
			id    string
			state onceward.State
			is    error
		}{{"frozen", onceward.Unknown, onceward.ErrOutcomeUnknown}, {"wrong key", onceward.Cancelled, onceward.ErrNotSent}} {
			p.ask(named(t, row.id))
			op, err := p.Wait(t.Context(), onceward.Ref{ID: row.id})
			assert.Equal(t, row.state, op.State)
			require.ErrorIs(t, err, row.is)
		}
		_, err := p.Wait(t.Context(), onceward.Ref{ID: "nobody"})
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
	each(t, "until its time is up", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		require.ErrorIs(t, p.ask(named(t, ref.ID)).err, onceward.ErrPending)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		op, err := p.Wait(ctx, ref)
		require.ErrorIs(t, err, onceward.ErrPending)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var e *onceward.Error
		require.True(t, errors.As(err, &e))
		assert.True(t, e.InBackground)
		assert.Equal(t, onceward.Pending, op.State)

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

func TestAnOperationSaysWhatWasAskedForAndOfWhom(t *testing.T) {
	each(t, "", func(t *testing.T, j journal.Journal) {
		l := (&line{}).then(loses())
		p := start(t, l, onceward.Config{Journal: j, Backoff: once})
		out := p.ask(named(t, "invoice-1"), to(http.MethodPost, chargeURL+"?expand=customer&api_key=k3y"))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		op, err := p.Lookup(t.Context(), onceward.Ref{ID: "invoice-1"})
		require.NoError(t, err)
		var listed []onceward.Operation
		for op, err := range p.Operations(t.Context(), onceward.Filter{}) {
			require.NoError(t, err)
			listed = append(listed, op)
		}
		require.Len(t, listed, 1)
		for _, op := range []onceward.Operation{out.op, op, listed[0]} {
			assert.Equal(t, http.MethodPost, op.Method)
			assert.Equal(t, chargeURL, op.URL, "without its query")
			assert.Equal(t, "stripe", op.Provider)
		}
	})
}

func TestErrorsAndLogsTellScopeParentAndFlow(t *testing.T) {
	logging := func() (*bytes.Buffer, *slog.Logger) {
		var b bytes.Buffer
		return &b, slog.New(slog.NewTextHandler(&b, nil))
	}
	virtual(t, "scope and parent, whose key is shortened", func(t *testing.T) {
		logs, logger := logging()
		l := (&line{}).always(loses())
		p := start(t, l, onceward.Config{Backoff: once, Logger: logger})
		parent := onceward.NewKey()
		out := p.ask(onceward.WithParent(onceward.WithScope(named(t, "charge"), "tenant-42"), parent))
		require.ErrorIs(t, out.err, onceward.ErrPending)
		assert.ErrorContains(t, out.err, "(charge, scope tenant-42, parent "+string(parent[:8])+"…, generation 0, claim 1)")
		for _, part := range []string{`operation="charge POST https://api.stripe.com/v1/charges"`, "scope=tenant-42", "parent=" + string(parent[:8]), "generation=0", "claim=1"} {
			assert.Contains(t, logs.String(), part)
		}
		assert.NotContains(t, logs.String()+out.err.Error(), string(parent))
	})
	virtual(t, "a flow by its name", func(t *testing.T) {
		logs, logger := logging()
		l := (&line{}).always(loses())
		p := startFlows(t, l, onceward.Config{Backoff: once, Logger: logger})
		var told error
		failed := p.Flow(onceward.WithScope(t.Context(), "tenant-42"), "order-991", nil, func(ctx context.Context) error {
			_, err := onceward.Step(ctx, "charge", func(ctx context.Context) (string, error) {
				told = p.ask(ctx).err
				return "", told
			})
			return err
		})
		assert.ErrorContains(t, told, "(charge, scope tenant-42, flow order-991, generation 0, claim 1)")
		assert.ErrorContains(t, failed, "flow order-991, scope tenant-42: step charge")
		assert.Contains(t, logs.String(), "flow=order-991")
	})
}
