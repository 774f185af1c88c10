package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Enqueue records req's operation in the caller's own transaction on the journal's database, and sends nothing. After the
// commit, Run in any live process sends the operation. Make tx with the journal's package, such as sqlite.Tx with a
// *sql.Tx. docs/start.md has an example.
//
// The operation needs a name, since a repeated transaction would otherwise enqueue a second payment. The same name with
// the same request returns the first operation in the present state. WithDue and WithNotAfter limit the time of the first
// send. If the provider scopes keys to credentials, Enqueue calls Config.Authorize. Enqueue replaces req's body by a body
// with the same bytes, and closes the old body, so a repeated transaction may reuse req.
//
// The error is an Error. Nothing was recorded then, and tx can go on unless the database ended the transaction:
//
//   - ErrInvalidRequest: no effect, a key in the request, a secret body, or within a flow
//   - ErrNameNeeded: no name; ErrKeyReused: the name has another request, or an earlier request used the inbound key
//   - ErrAnswerGone: too little is left to compare
//   - ErrCredentialMissing: no attempt could add a credential
//   - ErrInFlight: another call is sending the operation, and may still cancel. Repeat the transaction
func (c *Client) Enqueue(ctx context.Context, tx journal.Tx, req *http.Request) (Operation, error) {
	outbox, ok := c.core.Journal.(machine.Outbox)
	switch {
	case !ok:
		return Operation{}, fmt.Errorf("onceward: enqueue: the journal, a %T, can record nothing in a transaction of the caller's: "+
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
