package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/onceward/onceward/journal"
)

// Enqueue records req's operation in the caller's own transaction of the journal's database, and sends nothing. Run
// sends it after the commit, in any live process. After a rollback it never existed. Make tx with the journal's
// package, such as sqlite.Tx of a *sql.Tx. Commit it soon, and use the journal for nothing else meanwhile.
//
// The operation needs a name (ErrNameNeeded), since a repeated transaction would otherwise enqueue a second payment.
// The same name with the same request returns the first operation as it stands, sent or not. With another request it
// is ErrKeyReused. A call by the name sends the operation at once if it is due. Wait waits for its outcome, and
// OnSettled receives it.
//
// Operation.Key is known at once. WithDue and WithNotAfter set when it is sent. If the provider scopes keys to
// credentials, Enqueue calls Config.Authorize, so configure this client like the one that sends.
//
// Enqueue reads and closes req's body and replaces it by one with the same bytes, so a repeated transaction may reuse
// req.
//
// The error is an Error. Nothing was recorded, and tx can go on unless the database ended it. Enqueue rejects:
//
//   - a request without an effect, with a key of its own, or with a secret body (ErrInvalidRequest)
//   - a request within a flow
//   - a request whose credential no attempt could add (ErrCredentialMissing)
//   - a name whose record is too small to compare with the request (ErrAnswerGone)
//   - an operation that another call is sending and may still cancel (ErrInFlight): repeat the transaction then
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
