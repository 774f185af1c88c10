package onceward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/reconcile"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/webhook"
)

// Event is one delivery of a provider's webhooks, direct or from a queue.
type Event struct {
	Body []byte // as signed

	// Evidence says that a signature scheme proved the body's author (webhook.Message.Evidence). Without Evidence the
	// client only looks for the event's operation.
	Evidence bool

	Header http.Header // the delivery's; only Content-Type is read. Nil means a JSON body
}

// RecordEvent records a provider's event about an operation in this journal, by the provider's table
// (providers.Provider.Events). Call RecordEvent for events from a queue or another host. Client.WebhookHandler records
// direct deliveries. A second delivery changes nothing. An event that precedes the response is applied when the attempt
// ends: the caller's own answer wins.
//
// WithScope and WithAccount on ctx say whose endpoint received the event. With a scope, the event is about the scope's
// operations only. With an account, the event belongs to the account, unless the event names another. The account is the
// provider's id, or the label in the operations' own WithAccount. A provider with KeysPerScope needs the scope. Without a
// scope, an event without an account settles and returns no scope's operation, unless the event shows a key or reference
// from the client.
//
// RecordEvent returns the event's operations in the present state. After an error nothing was recorded, and the event must
// be delivered again. An event about no operation in this journal is no error.
func (c *Client) RecordEvent(ctx context.Context, provider string, e Event) ([]Operation, error) {
	p := c.core.Called(provider)
	switch {
	case c.cfg.Reconcile == nil:
		return nil, errors.New("onceward: record an event: Config.Reconcile is nil, so no event is recorded: set it")
	case p == nil:
		return nil, fmt.Errorf("onceward: record an event: no provider in Config.Providers is called %q", provider)
	case seam.IsInTransaction(ctx): // the journal may wait for its end
		return nil, fmt.Errorf("onceward: record an event: %w", ErrOpenTransaction)
	}
	if err := c.core.Lifecycle.Enter(); err != nil {
		return nil, fmt.Errorf("onceward: record an event: %w", err)
	}
	defer c.core.Lifecycle.Leave()
	ops, err := c.finder.RecordEvent(ctx, p, provider, reconcile.Event(e))
	var about []Operation
	for i := range ops {
		about = append(about, operationOf(&ops[i]))
	}
	if err != nil {
		err = fmt.Errorf("onceward: record an event: %w", err)
	}
	return about, err
}

// WebhookHandler returns a handler for the webhooks of the named provider in Config.Providers. The handler verifies each
// request with v, records the event as RecordEvent does, then calls next with the body rewound. next receives every
// verified and recorded event, some more than once. OperationsOf returns the event's operations from the context of next's
// request. If each tenant has an endpoint, put a handler in front that sets WithScope or WithAccount on the request's
// context: see RecordEvent.
//
// next writes the answer. If the journal failed, or was restored and not adopted, next is not called. The answer is 503,
// and the provider delivers the event again. A nil next answers 204. For rejected requests and the limit of bodies see
// webhook.Handler.
//
// WebhookHandler panics if v is nil or verifies another provider's scheme, if there is no such provider, or if
// Config.Reconcile is nil.
func (c *Client) WebhookHandler(provider string, v *webhook.Verifier, next http.Handler) *webhook.Handler {
	if v == nil {
		panic("onceward: WebhookHandler: the verifier is nil: make one by a function of package webhook")
	}
	switch p := c.core.Called(provider); {
	case p == nil:
		panic(fmt.Sprintf("onceward: WebhookHandler: no provider in Config.Providers is called %q", provider))
	case len(p.WebhookSchemes) > 0 && !slices.Contains(p.WebhookSchemes, v.Scheme()):
		panic(fmt.Sprintf("onceward: WebhookHandler: provider %q signs its events by %s, and the verifier is for %q", provider, strings.Join(p.WebhookSchemes, " or "), v.Scheme()))
	}
	if c.cfg.Reconcile == nil {
		panic("onceward: WebhookHandler: Config.Reconcile is nil, so no event would be recorded: set it, or use webhook.Handler")
	}
	if next == nil {
		next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	}
	return &webhook.Handler{
		Verifier: v,
		Refused: func(r *http.Request, err error) {
			c.core.Say(r.Context(), slog.LevelWarn, core.LogWebhookBad, "a webhook was refused", "provider", provider, "error", err)
		},
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serveWebhook(w, r, provider, next) }),
	}
}

// serveWebhook serves a verified request.
func (c *Client) serveWebhook(w http.ResponseWriter, r *http.Request, provider string, next http.Handler) {
	var about []Operation
	body, err := io.ReadAll(r.Body) // from memory
	if err == nil {
		message, _ := webhook.MessageOf(r.Context())
		about, err = c.recordEvent(r.Context(), provider, Event{Body: body, Evidence: message.Evidence, Header: r.Header})
	}
	if err != nil {
		// next would handle the event without the operations, and might handle the event only once.
		c.core.Say(r.Context(), slog.LevelError, core.LogWebhookFailed, "a webhook could not be recorded; the provider is asked to send it again", "provider", provider, "error", err)
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return
	}
	if len(about) > 0 {
		r = r.WithContext(context.WithValue(r.Context(), heardKey, about))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
}

// recordEvent is RecordEvent, with a panic as an error, so that the provider delivers the event again.
func (c *Client) recordEvent(ctx context.Context, provider string, e Event) (about []Operation, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.core.Survived(v)
			err = errors.New("onceward: record an event: a hook or the journal panicked: see the log")
		}
	}()
	return c.RecordEvent(ctx, provider, e)
}

// OperationsOf returns a webhook's operations, in the state after Client.WebhookHandler recorded the event. ctx is the
// request's context in the next handler. A settled operation keeps the outcome whatever a later event says, so the handler
// compares the event with Operation.State, and books the difference.
func OperationsOf(ctx context.Context) []Operation {
	about, _ := ctx.Value(heardKey).([]Operation)
	return about
}

// LookOf reports in Config.Authorize whether a request only looks for an operation, and for which one.
func LookOf(ctx context.Context) (ref Ref, looks bool) { return reconcile.LookOf(ctx) }
