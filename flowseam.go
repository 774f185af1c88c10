package onceward

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/internal/tables"
	"github.com/onceward/onceward/journal"
)

func init() {
	seam.Of = func(c any) seam.Client { return &flowSeam{client: c.(*Client)} }
	seam.Core = func(c any) any { return c.(*Client).core }
}

// flowSeam gives package flow access to a client.
type flowSeam struct{ client *Client }

func (s *flowSeam) Journal() journal.Journal { return s.client.core.Journal }
func (s *flowSeam) Now() time.Time           { return s.client.core.Now() }
func (s *flowSeam) Log() *slog.Logger        { return s.client.core.Observer.Log }
func (s *flowSeam) Concurrency() int         { return s.client.core.Concurrency }

func (s *flowSeam) Enter() error             { return s.client.core.Lifecycle.Enter() }
func (s *flowSeam) Stay()                    { s.client.core.Lifecycle.Stay() }
func (s *flowSeam) Leave()                   { s.client.core.Lifecycle.Leave() }
func (s *flowSeam) Closing() <-chan struct{} { return s.client.core.Lifecycle.Closing() }
func (s *flowSeam) Life() context.Context    { return s.client.core.Lifecycle.Life() }
func (s *flowSeam) Survive()                 { s.client.core.Survived(recover()) }

func (s *flowSeam) PassFailed(ctx context.Context, err error) {
	s.client.core.PassFailed(ctx, "a pass over the flows failed; the next pass tries again", err)
}

func (s *flowSeam) Holds(session string) bool { return s.client.core.Session.Holds(session) }

func (s *flowSeam) InSession(ctx context.Context, do func(session string) error) error {
	return s.client.core.Session.Do(ctx, do)
}

func (s *flowSeam) EndOfWait(ctx context.Context) time.Time { return s.client.core.EndOfWait(ctx) }

func (s *flowSeam) Sleep(ctx context.Context, pause time.Duration, ends time.Time) bool {
	return s.client.core.Sleep(ctx, pause, ends)
}

func (s *flowSeam) Attach(b seam.Background) error {
	return s.client.core.Flows.Attach(b)
}

func (s *flowSeam) Name(ctx context.Context, id string) (ref Ref, key, inboundEndpoint string, err error) {
	n := naming.Of(ctx)
	n.ID, n.Named = id, true
	n, unsettled := n.BelowInbound()
	ref = Ref{Scope: n.Scope, ID: id}
	if err := cmp.Or(unsettled, n.Check()); err != nil {
		return ref, "", "", err
	}
	switch {
	case n.Parent != nil:
		ref.Parent, inboundEndpoint = n.Parent.Ref, n.Parent.Endpoint
		key = n.Parent.Derive(n.Scope, "flow\n"+id)
	case s.client.core.Secret != nil:
		key = naming.Derive(s.client.core.Secret, "flow", n.Scope, id)
	default:
		key = naming.NewKey()
	}
	return ref, key, inboundEndpoint, nil
}

func (s *flowSeam) Under(ctx context.Context, p seam.Parent) context.Context {
	return naming.With(ctx, naming.Naming{Scope: p.Scope, Account: naming.Of(ctx).Account, Parent: &naming.Parent{
		Ref: p.Ref, Flow: &p, Invalid: Key(p.Key).Validate(),
		Derive: func(scope, step string) string { return naming.Child(p.Key, scope, step) },
	}})
}

func (s *flowSeam) Unanswered(op *journal.Operation) error {
	return &Error{Operation: operationOf(op), Kind: core.KindOf(op.State), InBackground: op.State == journal.StatePending && s.client.core.InBackground(op, &op.Request)}
}

func (s *flowSeam) Kind(state State) error { return core.KindOf(state) }

func (s *flowSeam) TookEffect(op *journal.Operation) bool {
	a, u := op.Answer, core.Parsed(op.Request.URL)
	switch {
	case a == nil:
		return true
	case a.Refused:
		return false
	case a.Cut, a.Omitted, u == nil:
		return true
	}
	route := s.client.core.Router.Route(op.Request.Method, u)
	return !route.Listed || route.Provider.KeysUnder != op.Provider ||
		!tables.Declined(route.Provider, tables.Answer{Status: a.Status, Header: a.Header, Body: a.Body})
}
