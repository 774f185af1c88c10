package onceward

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/naming"
)

// WithOperation names the operation of the next mutating request under ctx, such as "invoice-991/charge". After a
// crash the name finds the operation again. So derive it from the business, the same on every run, without personal
// data. One name is one effect. The same request under it gets the recorded answer. A different request is
// ErrKeyReused.
//
// Calls without an effect under ctx stay unaffected: a read, or a token refresh at an endpoint that its table marks
// NoEffect. A token refresh at any other endpoint would become the operation.
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

// WithAccount labels the requests under ctx with their account at the provider, if only the credential shows it: a
// seller, a sub-merchant, a tenant's own account. Use any text that is the same for the same account. It is not sent,
// and the journal records only a digest.
//
// One name for two accounts is ErrKeyReused. Without the label, an operation begun for one seller could be sent with
// another's token. One carried key for two accounts is two operations, as at the provider. A flow's function must
// label its own context from its input, since a later run has no other.
func WithAccount(ctx context.Context, label string) context.Context {
	n := naming.Of(ctx)
	n.Account = label
	return naming.With(ctx, n)
}

// WithParent makes the operations under ctx children of parent, a key of your own. An operation named "charge" gets
// the key parent.Child("charge"), the same on every run. Within a scope it gets one that is specific to the scope.
// Never pass a key that a caller chose: see Client.Inbound for those. An empty key takes ctx out from under its
// parent. Below an inbound request another parent stays in the scope of that request's tenant.
//
// The step of an unnamed operation is made of its method, host and path, such as "POST api.stripe.com/v1/charges". The
// next alike one is "… #2" once the caller has read the whole answer of the first. Until then, or with the same
// carried key, it is a retry of the first. Alike ones that run at once are ErrNameNeeded. Each context that WithParent
// returns counts for itself: make one for each run, and derive the others from it.
//
// An operation with a parent counts as named: it is recorded and never passes through, whatever its host.
func WithParent(ctx context.Context, parent Key) context.Context {
	var p *naming.Parent
	if parent != "" {
		p = naming.OwnParent(string(parent))
		p.Invalid = parent.Validate()
	}
	return naming.With(ctx, naming.Of(ctx).Under(p))
}

// WithDue delays operations enqueued under ctx until t. A caller who asks by the name before that gets ErrPending. It
// does not affect other requests. A time after the year 9999 becomes the end of that year.
func WithDue(ctx context.Context, t time.Time) context.Context {
	n := naming.Of(ctx)
	n.Due = recordable(t)
	return naming.With(ctx, n)
}

// WithNotAfter forbids the first send of the operation under ctx after t. An attempt must have its connection by t.
// The operation is then cancelled, OnSettled receives it, and a later caller gets ErrNotSent. An operation that may
// have been sent before is not affected. A pending operation that another caller began without such a time, or with a
// later one, is not sent by this call after t. This call gets ErrPending, and the operation stays as it was. An
// operation that Resolve released by SendAgain is sent by every caller.
func WithNotAfter(ctx context.Context, t time.Time) context.Context {
	n := naming.Of(ctx)
	n.NotAfter = recordable(t)
	return naming.With(ctx, n)
}

// recordable returns the time closest to t that a journal keeps and JSON can express. Without it, the last possible
// time, meant as "never", would overflow into the past.
func recordable(t time.Time) time.Time {
	last := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	switch second := t.Unix(); { // t itself may have overflowed, and be before all others
	case t.IsZero():
		return t
	case second < 0:
		return time.Unix(0, 0)
	case second > last.Unix():
		return last
	}
	return t
}
