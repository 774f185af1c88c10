package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/backoff"
	"github.com/onceward/onceward/flow"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/oncetest"
	"github.com/onceward/onceward/journal/memory"
	"github.com/onceward/onceward/server"
)

// leakyErrors are errors from an application whose text holds s3cret.
func leakyErrors() map[string]error {
	broken := fmt.Sprint("https://api.example/x?key=ab", "\n", "s3cret")
	_, lineBreak := url.Parse(broken)
	inner := errors.New("EOF")
	return map[string]error{
		"a URL with a line break": lineBreak,
		"a flattened error":       fmt.Errorf("charge: %v", &url.Error{Op: "Post", URL: "https://api.example/x?key=s3cret", Err: inner}),
		"a user name":             &url.Error{Op: "Post", URL: "https://s3cret@api.example/x", Err: inner},
		"a fragment":              &url.Error{Op: "Post", URL: "https://api.example/x#token=s3cret", Err: inner},
		"a header":                errors.New("sent Authorization: Bearer s3cret"),
		"an answer":               errors.New(`refused: {"client_secret":"s3cret"}`),
	}
}

// No flow record keeps the credentials in an error's text.
func TestErrorsAreRecordedWithoutSecrets(t *testing.T) {
	for name, leaky := range leakyErrors() {
		virtual(t, name, func(t *testing.T) {
			var log strings.Builder
			j := memory.New()
			p := startFlows(t, &line{}, onceward.Config{
				Journal: j,
				Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			}, flow.Config{Backoff: backoff.Policy{MaxAttempts: 1}})
			fails := func(ctx context.Context) error {
				_, err := flow.Step(ctx, "charge", func(context.Context) (int, error) { return 0, leaky })
				return err
			}
			for id, do := range map[string]func(context.Context) error{
				"fails":    fails,
				"gives up": func(ctx context.Context) error { return flow.GiveUp(fails(ctx)) },
				"copes":    func(ctx context.Context) error { _ = fails(ctx); return nil },
				"is given up by word": func(ctx context.Context) error {
					return errors.Join(p.undoable(ctx, "create"), leaky)
				},
				"fails to undo": func(ctx context.Context) error {
					_, err := flow.Step(ctx, "create", func(context.Context) (int, error) { return 1, nil },
						flow.WithUndo(func(context.Context, int) error { return leaky }))
					return errors.Join(err, flow.GiveUp(leaky))
				},
			} {
				err := p.Flow(t.Context(), id, nil, do)
				if err != nil {
					assert.NotContains(t, fmt.Sprintf("%v %+v", err, err), "s3cret", id)
				}
			}
			_, err := p.Flows.GiveUp(t.Context(), onceward.Ref{ID: "is given up by word"}, leaky.Error())
			require.NoError(t, err)
			for id := range map[string]bool{"fails": true, "gives up": true, "copes": true, "is given up by word": true, "fails to undo": true} {
				kept, err := machine.Flows(j).GetFlow(t.Context(), onceward.Ref{ID: id})
				require.NoError(t, err)
				for i := range kept.Steps {
					assert.NotContains(t, string(kept.Steps[i].Result), "s3cret")
				}
				text, err := json.Marshal(kept)
				require.NoError(t, err)
				assert.NotContains(t, string(text), "s3cret", id)
			}
			assert.NotContains(t, log.String(), "s3cret")
		})
	}
}

// The tenant's error is logged without credentials.
func TestTenantErrorsAreLoggedWithoutSecrets(t *testing.T) {
	for name, leaky := range leakyErrors() {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			p := oncetest.Start(t, &line{}, onceward.Config{Secret: testSecret, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			inbound, err := server.Inbound(p.Client, func(*http.Request) (string, error) { return "", leaky }, server.InboundOptions{})
			require.NoError(t, err)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/orders", nil)
			req.Header.Set("Idempotency-Key", "order-1")
			rec := httptest.NewRecorder()
			inbound(http.NotFoundHandler()).ServeHTTP(rec, req)
			assert.Equal(t, 500, rec.Code)
			assert.Contains(t, log.String(), "tenant")
			assert.NotContains(t, log.String(), "s3cret")
		})
	}
}
