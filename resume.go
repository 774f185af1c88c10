package onceward

import (
	"context"
	"errors"
	"fmt"
)

// Resume makes one pass over the journal. It claims operations that dead processes left, and sends due operations,
// oldest first, if the resend rule allows. It passes undelivered outcomes to Outcomes.Handle, makes the look-ups that
// are due, and runs interrupted and due flows. It is for programs that end by themselves, such as jobs. Others call
// Run.
//
// The report has the operations that Resume could not finish. The error is the journal's, ctx's, or ErrShutdown. With
// an error the report says what was done until then.
func (c *Client) Resume(ctx context.Context) (Report, error) {
	counts, err := c.worker.Resume(ctx)
	if err != nil {
		err = fmt.Errorf("onceward: resume: %w", err)
	}
	return reportOf(&counts), err
}

// Run repeats the pass of Resume whenever something is due. It notices the death of other processes within seconds, and
// reaps answers past their keep. It returns nil once the client is shut down, ctx's error once ctx ends, and
// ErrJournalClosed. It logs other errors of the journal and goes on. Operations that it is sending when it ends stay
// pending. It reads the lists of events that Reconcile.Feeds names.
func (c *Client) Run(ctx context.Context) error {
	err := c.worker.Run(ctx)
	if errors.Is(err, ErrJournalClosed) {
		return fmt.Errorf("onceward: run: %w", err)
	}
	return err
}

// Wake makes Run of this client look now for due operations and flows. Call it after the commit of a transaction that
// enqueued one. Without it Run finds the operation or flow within five seconds. A needless call is harmless.
func (c *Client) Wake() {
	c.core.Wake()
	c.core.Flows.Wake()
}
