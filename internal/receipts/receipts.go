// Package receipts has what the receivers of requests and of messages share.
package receipts

import (
	"context"
	"log/slog"
	"time"

	"github.com/onceward/onceward/journal"
)

const (
	reapEvery   = 10 * time.Minute
	reapAtATime = 100
)

// Run removes expired receipts, in small transactions, until ctx ends. It returns the error of ctx.
func Run(ctx context.Context, receipts journal.Receipts, now func() time.Time, log *slog.Logger) error {
	for {
		for {
			n, err := receipts.ReapReceipts(ctx, journal.ReceiptEvent{Kind: journal.ReceiptReap, At: now()}, reapAtATime)
			if err != nil && ctx.Err() == nil {
				log.ErrorContext(ctx, "onceward: receipts could not be reaped; it is tried again", "error", err)
			}
			if err != nil || n < reapAtATime {
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
