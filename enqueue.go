package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/naming"
	"github.com/onceward/onceward/journal"
)

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

// Enqueue records the operation that req is in the caller's own transaction, of the database that
// the journal lies in, and sends nothing: Run sends it once the transaction is committed, in
// whichever process is alive. Rolled back, it never was. tx is made by the journal's package, such
// as sqlite.Tx of a *sql.Tx.
//
// It has to be named by WithOperation (ErrNameNeeded): a transaction that is tried again, after
// a serialization failure or a commit of which nobody knows whether it landed, would else enqueue
// a second payment. By the same name and for the same request it is the first one again, which is
// returned as it stands, sent or not; for another request it is ErrKeyReused. A call by the name
// sends it at once, if it is due, and Wait waits for its outcome, which OnSettled gets.
//
// Operation.Key is known at once. WithDue and WithNotAfter say when it is sent. The client that
// enqueues is configured as the one that sends: its Config.Authorize is asked where the
// provider scopes keys to credentials.
//
// The body of req is read and closed, and another one with the same bytes put in its place, so that a
// transaction that is tried again may enqueue the same req.
//
// An error is an Error, after which nothing was recorded and tx can go on, unless the
// database has ended it. Refused are a request that has no effect, one that brings a key
// along, one whose body is a secret that is not kept or whose credential nobody could add
// (ErrCredentialMissing), one under the name of an operation of which too little is kept to tell
// whether it is the same (ErrAnswerGone), and one that another call is sending which may still cancel it
// (ErrInFlight): try the transaction again, then. No operation is enqueued in a flow.
//
// The transaction is the caller's, to be committed soon: nothing else is asked of the
// journal by whoever has it open.
func (c *Client) Enqueue(ctx context.Context, tx journal.Tx, req *http.Request) (Operation, error) {
	outbox, ok := c.core.Journal.(journal.Outbox)
	switch {
	case !ok:
		return Operation{}, fmt.Errorf("onceward: enqueue: the journal, a %T, can record nothing in a transaction of the caller's (journal.Outbox): "+
			"keep it in one that can, such as journal/sqlite", c.core.Journal)
	case tx == nil:
		return Operation{}, errors.New("onceward: enqueue: there is no transaction: make one by the journal's package, such as sqlite.Tx of a *sql.Tx")
	}
	op, err := c.engine.Enqueue(outbox, tx, req.WithContext(ctx), req)
	if err != nil {
		return Operation{}, err
	}
	c.worker.ExpectEnqueued()
	return operationOf(&op), nil
}

// Wake has Run of this client look now for what is due: after the commit of a transaction in which an operation was
// enqueued. Else it is found within a second, or within five by a client that has neither enqueued nor
// sent one before. It waits for nothing, and a needless one does no harm.
func (c *Client) Wake() { c.core.Wake() }
