package onceward

import (
	"context"
	"errors"
	"fmt"
)

// Resume makes one pass over the journal, and returns its report. It is for programs that end by themselves, such as
// jobs. Other programs call Run, whose first pass is the same. A pass does this in order:
//
//   - It claims operations that dead processes left, and sends due operations, oldest first, if the resend rule
//     allows.
//   - It passes undelivered outcomes to OnSettled.
//   - It looks once for unknown operations whose look-up is due (Config.Reconcile).
//   - It runs interrupted and due flows, if a flow.Runner has their functions.
//
// Each provider has its own slots, so one that hangs delays no other. A provider whose attempts fail in a row is
// passed over. Operations of an unknown provider are left to other processes.
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

// Run repeats the pass of Resume whenever operations, flows or look-ups are due. It notices the death of other
// processes within seconds, and reaps answers past their keep. It returns nil once the client is shut down, ctx's
// error once ctx ends, and ErrJournalClosed. It logs other errors of the journal and goes on. Operations that it is
// sending when it ends stay pending for the next Run.
func (c *Client) Run(ctx context.Context) error {
	err := c.worker.Run(ctx)
	if errors.Is(err, ErrJournalClosed) {
		return fmt.Errorf("onceward: run: %w", err)
	}
	return err
}

// Wake makes Run of this client look now for due operations. Call it after the commit of a transaction that enqueued
// one. Without it Run finds the operation within a second, or within five if the client has neither enqueued nor sent
// an enqueued one before. It returns at once, and a needless call is harmless.
func (c *Client) Wake() { c.core.Wake() }
