package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/onceward/onceward/internal/core"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// checkSettling says what is wrong with who is told of outcomes.
func (cfg *Config) checkSettling() error {
	_, transactional := cfg.Journal.(journal.Outbox)
	switch {
	case cfg.OnSettled != nil && cfg.OnSettledTx != nil:
		return errors.New("onceward: Config has both OnSettled and OnSettledTx, and an outcome is delivered by one of them: leave one out")
	case cfg.OnSettledTx != nil && !transactional:
		return fmt.Errorf("onceward: Config.OnSettledTx needs a journal that records in a transaction of its database (journal.Outbox), and %T does not: "+
			"keep it in one that does, such as journal/sqlite, or use OnSettled", cfg.Journal)
	case cfg.SettleAll && cfg.OnSettled == nil && cfg.OnSettledTx == nil:
		return errors.New("onceward: Config.SettleAll needs OnSettled or OnSettledTx")
	}
	return nil
}

// settles tells whether there is somebody who takes outcomes.
func (c *Client) settles() bool { return c.cfg.OnSettled != nil || c.cfg.OnSettledTx != nil }

// settlesAlso tells whether they take an outcome that its caller has.
func (c *Client) settlesAlso(op *journal.Operation) bool {
	if c.cfg.OnSettledTx != nil {
		return c.cfg.SettleAll || !seam.IsOfFlow(op.Parent)
	}
	return c.cfg.SettleAll && op.Naming == journal.Named
}

// settleInTx gives an outcome to OnSettledTx, in the transaction by which it is delivered. One
// that was delivered meanwhile, or is not the operation's any more, is given to nobody.
func (c *Client) settleInTx(ctx context.Context, op *journal.Operation) error {
	if _, err := c.core.Backlog.CatchUp(ctx, op.Ref); err != nil {
		return fmt.Errorf("the outcome is not recorded yet: %w", err)
	}
	ev := delivery(op)
	ev.At, ev.Session = c.core.Now(), op.Holder
	_, err := c.core.Journal.(journal.Outbox).DeliverTx(ctx, ev, func(ctx context.Context, tx journal.Tx) error {
		return c.callOnSettledTx(seam.InTransaction(ctx), tx, operationOf(op))
	})
	return err
}

func (c *Client) callOnSettledTx(ctx context.Context, tx journal.Tx, op Operation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.core.Say(ctx, slog.LevelError, core.LogHookPanicked, "OnSettledTx panicked", "operation", op.printed(), "stack", string(debug.Stack()))
			err = fmt.Errorf("OnSettledTx panicked: %v", p)
		}
	}()
	return c.cfg.OnSettledTx(ctx, tx, op)
}
