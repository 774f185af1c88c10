package onceward

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/naming"
)

// WithOperation names the operation that the next mutating request under ctx is:
// "invoice-991/charge". The name is what finds the operation again after a crash,
// so it follows from the business and is the same on every run; it holds no
// personal data. One name is one effect: a second, different request under it is
// ErrKeyReused, the same one gets the recorded answer.
//
// It returns a context that names an operation for calls without an effect too
// (a look-up, a token refresh at an endpoint that its table marks NoEffect), which it
// leaves alone. A token refresh at any other endpoint would be the operation.
func WithOperation(ctx context.Context, id string) context.Context {
	n := naming.Of(ctx)
	n.ID, n.Named = id, true
	return naming.With(ctx, n)
}

// WithScope sets the namespace of the names under ctx, such as a tenant.
func WithScope(ctx context.Context, scope string) context.Context {
	n := naming.Of(ctx)
	n.Scope = scope
	return naming.With(ctx, n)
}

// WithAccount labels the requests under ctx with the account at the provider that they
// act for, where nothing but their credential tells: a seller, a sub-merchant, a tenant's
// own account. The label is any text that is the same whenever the account is; it is not
// sent, and no more of it than a digest is recorded. One name for two accounts is then
// ErrKeyReused and not one operation, without which a name that was begun for one seller
// would be sent on with another's token; one carried key for two accounts is two
// operations, as it is at the provider. A flow's function labels its own context, from its
// input: whoever runs it later has no other.
func WithAccount(ctx context.Context, label string) context.Context {
	n := naming.Of(ctx)
	n.Account = label
	return naming.With(ctx, n)
}

// WithParent makes the operations under ctx children of a key of one's own: an
// operation named "charge" under it gets the key parent.Child("charge"), the same
// on every run; within a scope, one that is that scope's own. The name is its step.
// Never pass a key that a stranger chose: see Client.Inbound for those. An empty key
// takes ctx out from under its parent. Below an inbound request (Client.Inbound) another
// parent stands in the scope of that request's tenant.
//
// The step of an unnamed operation is made up of its method, host and path, such as
// "POST api.stripe.com/v1/charges". The next alike one is "… #2" once the caller has
// the whole answer of the first. Until then, and with the same carried key, it is the
// first one asked again, so that a caller who retries makes no second effect. Alike
// ones that run at once are ErrNameNeeded. The count is that of the context which
// WithParent returned: make one for each run, and derive the others from it.
//
// An operation with a parent counts as named, the step made up or not: it is
// journaled and never passes straight through, whatever its host.
func WithParent(ctx context.Context, parent Key) context.Context {
	var p *naming.Parent
	if parent != "" {
		p = naming.OwnParent(string(parent))
		p.Invalid = parent.Validate()
	}
	return naming.With(ctx, naming.Of(ctx).Under(p))
}

// WithDue has an operation that is enqueued under ctx not be sent before t: who asks for it by its
// name before that gets ErrPending. It says nothing of a request that is sent at once. A time after the
// year 9999 is the end of that year.
func WithDue(ctx context.Context, t time.Time) context.Context {
	n := naming.Of(ctx)
	n.Due = recordable(t)
	return naming.With(ctx, n)
}

// WithNotAfter has the operation under ctx not be sent for the first time after t, by when an attempt gets its connection. It
// is cancelled then, which OnSettled is told, and who asks for it after that gets ErrNotSent. One that may have been sent before
// is not concerned: what became of it is to be found out. Who asks for what is pending, begun by others without such a time or
// with a later one, does not send it after t, and gets ErrPending: it stays as it was begun. What a person
// had sent again (SendAgain) is sent by whoever asks.
func WithNotAfter(ctx context.Context, t time.Time) context.Context {
	n := naming.Of(ctx)
	n.NotAfter = recordable(t)
	return naming.With(ctx, n)
}

// recordable is t, or what is closest to it of the times that a journal keeps and JSON can tell: whoever says
// "never" by the last second that there is would else have it turn round into the past.
func recordable(t time.Time) time.Time {
	last := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	switch second := t.Unix(); { // t itself may have turned round, and be before all others
	case t.IsZero():
		return t
	case second < 0:
		return time.Unix(0, 0)
	case second > last.Unix():
		return last
	}
	return t
}
