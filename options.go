package onceward

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/naming"
)

// WithOperation names the operation of the next mutating request under ctx, such as "invoice-991/charge", in at most 512
// bytes. After a crash the name finds the operation again. So derive the name from the business, the same on every run,
// without personal data. The same request under the name gets the recorded answer. A different request is ErrKeyReused.
//
// Reads, and requests to endpoints marked NoEffect, are unaffected.
func WithOperation(ctx context.Context, id string) context.Context {
	n := naming.Of(ctx)
	n.ID, n.Named = id, true
	return naming.With(ctx, n)
}

// WithScope sets the namespace for the names under ctx, such as a tenant.
func WithScope(ctx context.Context, scope string) context.Context {
	n := naming.Of(ctx)
	n.Scope = scope
	return naming.With(ctx, n)
}

// WithAccount labels the requests under ctx with the account at the provider, if only the credential shows the account.
// Use any text, always the same for one account. The label is not sent, and the journal records only a digest. One name
// for two accounts is ErrKeyReused. One carried key for two accounts is two operations. A flow's function must label its
// own context from the input. At Client.RecordEvent the label says whose endpoint received the event.
func WithAccount(ctx context.Context, label string) context.Context {
	n := naming.Of(ctx)
	n.Account = label
	return naming.With(ctx, n)
}

// WithParent makes the operations under ctx children of parent, a key of your own. An operation named "charge" gets the
// key parent.Child("charge"), or a key specific to the scope, the same on every run. Every child counts as named, whatever
// the host. Never pass a key that a caller chose: use server.Inbound for such keys. With an empty key, ctx has no parent.
//
// An unnamed operation's step is made from method, host and path. The next alike operation is "… #2" once the caller has
// read the first answer to the end, and a retry of the first until then. Alike operations at the same time are
// ErrNameNeeded. Make one context by WithParent for each run, and derive the run's other contexts from this one.
func WithParent(ctx context.Context, parent Key) context.Context {
	var p *naming.Parent
	if parent != "" {
		p = naming.OwnParent(string(parent))
		p.Invalid = parent.Validate()
	}
	return naming.With(ctx, naming.Of(ctx).Under(p))
}

// WithDue delays operations enqueued under ctx until t. A caller who asks by the name before t gets ErrPending.
func WithDue(ctx context.Context, t time.Time) context.Context {
	n := naming.Of(ctx)
	n.Due = recordable(t)
	return naming.With(ctx, n)
}

// WithNotAfter forbids the operation's first send under ctx after t. An attempt must have a connection by t. The operation
// is then cancelled, Outcomes.Handle receives the operation, and a later caller gets ErrNotSent. An operation that may
// have been sent before is not affected. If another caller began a pending operation without such a time, the operation
// stays pending, with ErrPending.
func WithNotAfter(ctx context.Context, t time.Time) context.Context {
	n := naming.Of(ctx)
	n.NotAfter = recordable(t)
	return naming.With(ctx, n)
}

// recordable returns the time closest to t that a journal keeps and JSON can express. Without recordable, the last
// possible time, meant as "never", would overflow into the past.
func recordable(t time.Time) time.Time {
	last := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	switch second := t.Unix(); { // t itself may have overflowed into the past
	case t.IsZero():
		return t
	case second < 0:
		return time.Unix(0, 0)
	case second > last.Unix():
		return last
	}
	return t
}
