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
	"github.com/onceward/onceward/webhook"
)

// Event is one delivery of a provider's webhooks, or what a queue has kept of one.
type Event struct {
	Body []byte // as it was signed

	// Evidence says that its signature was verified, by a scheme that proves who wrote the
	// body: webhook.Message.Evidence. Without it nothing is believed, and what it is
	// about is looked for.
	Evidence bool

	Header http.Header // of the delivery; only Content-Type is looked at. nil: the body is JSON
}

// Hear takes note of what a provider tells by a webhook of one of this journal's operations, by
// the provider's table (providers.Provider.Events). For those that don't come by
// Client.Webhooks: from a queue, or another host. What took effect, or was refused, is recorded with
// the evidence and the event's id in one commit; a second delivery of it changes nothing. What
// comes before the response is weighed when its attempt ends: the caller's own answer wins.
//
// It returns the operations that the event is about, as they stand then. An error wraps what the journal said:
// nothing is recorded, and the event has to be delivered again. A body that tells nothing, or of
// nothing in this journal, is no error.
func (c *Client) Hear(ctx context.Context, provider string, e Event) ([]Operation, error) {
	p := c.core.Called(provider)
	switch {
	case c.cfg.Reconcile == nil:
		return nil, errors.New("onceward: hear an event: Config.Reconcile is nil, so that nothing is taken note of: set it")
	case p == nil:
		return nil, fmt.Errorf("onceward: hear an event: no provider in Config.Providers is called %q", provider)
	}
	if err := c.core.Lifecycle.Enter(); err != nil {
		return nil, fmt.Errorf("onceward: hear an event: %w", err)
	}
	defer c.core.Lifecycle.Leave()
	ops, err := c.finder.Hear(ctx, p, provider, reconcile.Event(e))
	var about []Operation
	for i := range ops {
		about = append(about, operationOf(&ops[i]))
	}
	if err != nil {
		err = fmt.Errorf("onceward: hear an event: %w", err)
	}
	return about, err
}

// Webhooks returns a handler for the webhooks of a provider, one of Config.Providers by its
// name. It verifies each request by v (see webhook.Handler for what becomes of those that are
// refused), has Hear take note of it, and hands it to next, whatever it is about, with
// its body to be read again: what an application does about an event is next's, and next
// may get one more than once.
//
// next's answer is the answer, but for a 503 where the journal failed, or has been restored and not
// been adopted: the provider then sends the event again. A nil next answers 204.
// A body over a megabyte is refused, and lost to next too, unless the handler's MaxBody is set to more.
//
// What v verifies without evidence, since the scheme signs nothing, only has its operation
// looked for.
//
// The context of next's request has the operations that the event is about: see OperationsOf.
//
// Webhooks panics on a mistake in the program: v is nil or verifies another provider's scheme
// (providers.Provider.WebhookSchemes), there is no such provider, or Config.Reconcile is nil.
func (c *Client) Webhooks(provider string, v *webhook.Verifier, next http.Handler) *webhook.Handler {
	if v == nil {
		panic("onceward: Webhooks: the verifier is nil: make one by a function of package webhook")
	}
	switch p := c.core.Called(provider); {
	case p == nil:
		panic(fmt.Sprintf("onceward: Webhooks: no provider in Config.Providers is called %q", provider))
	case len(p.WebhookSchemes) > 0 && !slices.Contains(p.WebhookSchemes, v.Scheme()):
		panic(fmt.Sprintf("onceward: Webhooks: provider %q signs its events by %s, and the verifier is for %q", provider, strings.Join(p.WebhookSchemes, " or "), v.Scheme()))
	}
	if c.cfg.Reconcile == nil {
		panic("onceward: Webhooks: Config.Reconcile is nil, so that nothing is taken note of: set it, or use webhook.Handler")
	}
	if next == nil {
		next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	}
	return &webhook.Handler{
		Verifier: v,
		Refused: func(r *http.Request, err error) {
			c.core.Say(r.Context(), slog.LevelWarn, core.LogWebhookBad, "a webhook was refused", "provider", provider, "error", err)
		},
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.hearRequest(w, r, provider, next) }),
	}
}

// hearRequest is for a request that was verified.
func (c *Client) hearRequest(w http.ResponseWriter, r *http.Request, provider string, next http.Handler) {
	var about []Operation
	body, err := io.ReadAll(r.Body) // from memory
	if err == nil {
		message, _ := webhook.MessageOf(r.Context())
		about, err = c.heard(r.Context(), provider, Event{Body: body, Evidence: message.Evidence, Header: r.Header})
	}
	if len(about) > 0 {
		r = r.WithContext(context.WithValue(r.Context(), heardKey, about))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err == nil {
		next.ServeHTTP(w, r)
		return
	}
	// The application gets every delivery; the provider repeats this one.
	c.core.Say(r.Context(), slog.LevelError, core.LogWebhookFailed, "a webhook was not taken note of; the provider is asked to send it again", "provider", provider, "error", err)
	next.ServeHTTP(&unheard{header: http.Header{}}, r)
	http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
}

// heard is Hear for what the application gets whatever becomes of it here.
func (c *Client) heard(ctx context.Context, provider string, e Event) (about []Operation, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.core.Survived(v)
			err = errors.New("onceward: hear an event: a hook or the journal panicked: see the log")
		}
	}()
	return c.Hear(ctx, provider, e)
}

// OperationsOf returns the operations that a webhook is about, as they stood once Client.Webhooks had recorded the event.
// ctx is the context of the request that Client.Webhooks hands to its next handler. A settled operation keeps its outcome:
// an event that comes later, such as a payout that fails days after it was paid, changes nothing in the journal. The
// handler compares the event with Operation.State and books the difference. OperationsOf returns nil if the event is about
// no operation of the journal.
func OperationsOf(ctx context.Context) []Operation {
	about, _ := ctx.Value(heardKey).([]Operation)
	return about
}

// unheard is where an answer goes that the provider does not get.
type unheard struct{ header http.Header }

func (u *unheard) Header() http.Header            { return u.header }
func (u *unheard) Write(text []byte) (int, error) { return len(text), nil }
func (u *unheard) WriteHeader(int)                {}

// LookOf tells, in Config.Authorize, whether a request only looks for what became of an
// operation, and of which: whose credential it is that reads what that one has written.
func LookOf(ctx context.Context) (ref Ref, looks bool) { return reconcile.LookOf(ctx) }
