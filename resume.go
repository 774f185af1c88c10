package onceward

import (
	"context"
	"errors"
	"fmt"
)

// Resume makes one pass over the journal: it takes over what dead processes held,
// sends what is due and the resend rule allows, oldest first, and offers outcomes
// that reached nobody to OnSettled; then it looks once for what is unknown and due for that
// (Config.Reconcile); then it runs the flows that were cut off or are
// due, where a flow.Runner knows their functions. It is for a program that ends by itself, such as a
// job, and wants the report. Any other starts Run instead, whose first pass is the same.
//
// Each provider has slots of its own, so that one that hangs holds up no other, and is
// passed over once its attempts fail one after another. What a process does not know
// the provider of, it leaves to those that do.
//
// What it can't finish is in the report, not in the error: the error is the
// journal's, ctx's, or ErrShutdown. After an error the report says what was done
// until then.
func (c *Client) Resume(ctx context.Context) (Report, error) {
	counts, err := c.worker.Resume(ctx)
	if err != nil {
		err = fmt.Errorf("onceward: resume: %w", err)
	}
	return reportOf(&counts), err
}

// Run repeats what Resume does at the times that operations and flows become due,
// looks for what is unknown when it is due for that (Config.Reconcile), notices other
// processes' deaths within seconds, and reaps what is past its keep. It
// returns nil once the client is shut down, ctx's error once ctx ends, or
// ErrJournalClosed; other errors of the journal are logged, and it goes on. What is
// being sent when it ends stays pending, for the next Run.
func (c *Client) Run(ctx context.Context) error {
	err := c.worker.Run(ctx)
	if errors.Is(err, ErrJournalClosed) {
		return fmt.Errorf("onceward: run: %w", err)
	}
	return err
}

// Wake has Run of this client look now for operations that are due. Call it after the commit of a transaction that enqueued an
// operation. Without it Run finds the operation within a second, or within five if the client has neither enqueued nor sent an
// enqueued one before. Wake waits for nothing, and a needless call does no harm.
func (c *Client) Wake() { c.core.Wake() }
