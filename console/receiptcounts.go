package console

import (
	"context"
	"sync"
	"time"

	"github.com/onceward/onceward/journal"
)

// receiptCounts are the receipt counts. They are read again after ten seconds, or a hundred times what a reading took.
type receiptCounts struct {
	mu    sync.Mutex
	last  journal.ReceiptCounts
	until time.Time
}

// counted returns nil if there are no receipts.
func (c *console) counted(ctx context.Context) (*journal.ReceiptCounts, error) {
	if c.receipts == nil {
		return nil, nil
	}
	n := &c.receiptCounts
	n.mu.Lock()
	defer n.mu.Unlock()
	if began := time.Now(); !began.Before(n.until) {
		read, err := c.receipts.CountReceipts(ctx)
		if err != nil {
			return nil, err
		}
		n.last, n.until = read, began.Add(max(10*time.Second, 100*time.Since(began)))
	}
	if n.last.Completed+n.last.Reserved == 0 {
		return nil, nil
	}
	counts := n.last
	return &counts, nil
}

// changed has the counts read again.
func (n *receiptCounts) changed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until = time.Time{}
}
