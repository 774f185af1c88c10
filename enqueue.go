package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/onceward/onceward/journal"
)

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
