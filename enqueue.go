package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
)

// Enqueue records req's operation in the caller's own transaction of the journal's database, and sends nothing. Run
// sends it after the commit, in any live process. Make tx with the journal's package, such as sqlite.Tx of a *sql.Tx.
// docs/start.md has an example.
//
// The operation needs a name, since a repeated transaction would otherwise enqueue a second payment. The same name with
// the same request returns the first operation as it stands. WithDue and WithNotAfter set when it is sent. If the
// provider scopes keys to credentials, Enqueue calls Config.Authorize. It closes req's body and replaces it by one
// with the same bytes, so a repeated transaction may reuse req.
//
// The error is an Error. Nothing was recorded then, and tx can go on unless the database ended it:
//
//   - ErrInvalidRequest: no effect, a key of its own, a secret body, or within a flow
//   - ErrNameNeeded: no name; ErrKeyReused: its name has another request, or an earlier request used the inbound key
//   - ErrAnswerGone: too little is left to compare
//   - ErrCredentialMissing: no attempt could add a credential
//   - ErrInFlight: another call is sending it and may still cancel it. Repeat the transaction
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
