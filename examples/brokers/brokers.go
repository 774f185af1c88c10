// Package brokers has a loop to copy for each of five brokers, and for SQS's FIFO queues. A loop does each message once, by package consume, and tells
// the broker so afterwards. The tests kill consumers and restart brokers.
//
// A producer publishes a message again if it does not know whether the first attempt arrived. So each message carries the
// producer's own ID. The ID that a broker assigns would be another one for each attempt.
package brokers

import (
	"context"

	"github.com/onceward/onceward/consume"
	"github.com/onceward/onceward/journal"
)

// Handler writes a message's effects by tx, and neither commits nor rolls back. After an error the message comes again.
type Handler func(ctx context.Context, tx journal.Tx, m consume.Message, body []byte) error
