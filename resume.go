package onceward

import (
	"context"
	"errors"
	"fmt"
)

// Resume makes one pass over the journal. Resume claims operations that dead processes left, and sends due operations,
// oldest first, if the resend rule allows. Resume also passes undelivered outcomes to Outcomes.Handle, makes due look-ups,
// and runs interrupted and due flows. A program that ends by itself, such as a job, calls Resume. Any other calls Run.
//
// With journal/postgres and journal/mysql, a process is dead once its lease has ended and another process has watched it for a whole
// lease. If such a process holds an operation, Resume first waits for this, at most 24 seconds.
//
// The report has the operations that Resume could not finish. The error is the journal's, ctx's, or ErrShutdown. With an
// error the report covers the work before the error.
func (c *Client) Resume(ctx context.Context) (Report, error) {
	counts, err := c.worker.Resume(ctx)
	if err != nil {
		err = fmt.Errorf("onceward: resume: %w", err)
	}
	return reportOf(&counts), err
}

// Run repeats Resume's pass whenever something is due. Run notices the death of other processes within seconds, and reaps
// answers older than Config.Keep. Run also reads the event lists that Reconcile.Feeds names. Run returns nil once the
// client is shut down, ctx's error once ctx ends, and ErrJournalClosed. Run logs the journal's other errors and goes on.
// Operations that Run is sending at the end stay pending.
func (c *Client) Run(ctx context.Context) error {
	err := c.worker.Run(ctx)
	if errors.Is(err, ErrJournalClosed) {
		return fmt.Errorf("onceward: run: %w", err)
	}
	return err
}

// Wake makes this client's Run look now for due operations and flows. Call Wake after committing a transaction that
// enqueued an operation or flow. Without Wake, Run finds the operation or flow within five seconds. A needless call is
// harmless.
func (c *Client) Wake() {
	c.core.Wake()
	c.core.Flows.Wake()
}
