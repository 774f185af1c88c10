// Package receipts has the common parts for receivers of requests and of messages.
package receipts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/internal/fault"
	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

const (
	reapEvery = 10 * time.Minute

	// AtATime is how many receipts a transaction reaps.
	AtATime = 100
)

var (
	// ErrBusy means that another transaction works on the receipt.
	ErrBusy = errors.New("another transaction works on the receipt: try again")
	// ErrMoved means that the key has begun a new life since the person looked at it.
	ErrMoved = errors.New("the key has been used again since it was read: read it again")
)

// Resolve applies ev, of kind ReceiptResolve, in a transaction that begin starts. Its error is ErrBusy, ErrMoved,
// fault.ErrOpenTransaction within another one, or the journal's.
func Resolve(ctx context.Context, receipts machine.Receipts, begin func(context.Context) (journal.Tx, error), ev machine.ReceiptEvent) error {
	if seam.IsInTransaction(ctx) { // begin may wait for its end
		return fault.ErrOpenTransaction
	}
	tx, err := begin(ctx)
	if err != nil {
		return err
	}
	defer grace.Rollback(ctx, tx)
	result, err := receipts.ReceiveTx(ctx, tx, ev)
	switch {
	case err != nil:
		return err
	case result.Decision == machine.Stale:
		return ErrMoved
	case result.Decision != machine.Recorded:
		return ErrBusy
	}
	return tx.Commit(ctx)
}

// Run removes expired receipts, in small transactions, until ctx ends or the journal is closed. It returns the error
// of ctx, or journal.ErrClosed.
func Run(ctx context.Context, receipts machine.Receipts, now func() time.Time, log *slog.Logger) error {
	for {
		for {
			n, err := receipts.ReapReceipts(ctx, machine.ReceiptEvent{Kind: machine.ReceiptReap, At: now()}, AtATime)
			switch {
			case errors.Is(err, journal.ErrClosed):
				return err
			case err != nil && ctx.Err() == nil:
				log.ErrorContext(ctx, "onceward: receipts could not be reaped; the next pass tries again", "error", err)
			}
			if err != nil || n < AtATime {
				break
			}
		}
		timer := time.NewTimer(reapEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}
