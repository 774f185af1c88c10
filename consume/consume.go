// Package consume runs a function once for each message, however often a broker delivers it.
//
// The function writes to the journal's database. The function's writes and the message's mark are one commit. A queue, such
// as SQS or RabbitMQ, acknowledges single messages: acknowledge a message if and only if [Consumer.Do] returned no error. A
// log, such as Kafka or Kinesis, commits an offset, which includes all earlier messages: use [Consumer.InOrder] there.
//
// The consumer remembers a message for Options.Keep. Keep has to be longer than the source may deliver the message again.
package consume

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/burst"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
)

// Options configure a Consumer. Journal, Name and Keep are required.
type Options struct {
	// Journal keeps the marks, in the database with the function's own tables. The journal must keep receipts, as one by
	// journal/sqlite, journal/postgres or journal/mysql does. The caller closes the journal.
	Journal journal.Journal

	// Name identifies the consumer for ever, by 1 to 64 characters from a-z, 0-9, '.', '_' and '-'. Two services that
	// consume one queue for different ends have two names.
	Name string

	// Keep is how long a message is remembered after the first delivery, at least a second.
	Keep time.Duration

	// Together is how many messages InOrder does in one transaction at most, from 1 to 100. Default: 1. Many are faster, and
	// hold the function's locks for longer. After an error, InOrder calls the function again for the messages before.
	Together int

	// Begin starts a transaction on the journal's database in the application's own way. Default: the journal's BeginTx.
	Begin func(context.Context) (journal.Tx, error)

	// Observe receives each delivery's outcome, concurrently, and must not block. Default: none.
	Observe func(context.Context, Outcome)

	// Logger receives errors from WebhookHandler and Run. Default: slog.Default().
	Logger *slog.Logger
}

// Outcome is the outcome for one delivery of a message, without the message's ID.
type Outcome struct {
	Consumer string // Options.Name
	Source   string // Message.Source
	Result   Result // empty if Err is not nil
	Err      error  // Do's error; ErrPanicked if the function did not return
}

// Message is one delivery of a message.
type Message struct {
	ID     string // unique in Source for ever, and not derived from the content
	Source string // topic, queue or provider

	// Fingerprint identifies the content. The same ID with another fingerprint is [ErrReused]. Empty means that contents
	// are not compared.
	Fingerprint []byte

	// Entity and Seq guard the order: a message is Stale unless its Seq is higher than each Seq done for the entity. If two
	// events have an equal Seq, such as a time in seconds, the second event is lost. An empty Entity guards no order.
	Entity string
	Seq    int64

	// Replay names a deliberate replay: the function runs once more for each message. The names of outgoing calls stay the
	// same. Empty means the first delivery.
	Replay string
}

// Result is the result for a delivery that can be acknowledged.
type Result string

// The results.
const (
	Done      Result = "done"      // the function has run, and the writes are committed
	Duplicate Result = "duplicate" // the function has run for the message before
	Stale     Result = "stale"     // a later message for the entity was done; the function was not called
)

var (
	// ErrBusy: another delivery of the message is being processed. Have the message delivered again.
	ErrBusy = errors.New("consume: another delivery of the message is being worked on: let it come again")

	// ErrReused: the ID was delivered before with another content. The producer is at fault: put the message aside.
	ErrReused = errors.New("consume: the message's ID was used for another content: put the message aside, and look at its producer")

	// ErrInTransaction: Do was called in an open transaction, and would wait for the transaction's end. Another Do, a
	// request to server.Atomic, a flow's LocalStep or Outcomes.HandleTx has the transaction.
	ErrInTransaction = errors.New("consume: Do was called in an open transaction: write in that transaction, or call Do before it is begun or after its commit")

	// ErrPanicked is an Outcome's error after the function panicked, or ended the goroutine. Do does not return ErrPanicked.
	ErrPanicked = errors.New("consume: the function panicked, and nothing of it is kept: the next delivery calls it again")

	// ErrUnknown: a function has committed the transaction by itself, and the function's work is not known. A person has to
	// look.
	ErrUnknown = errors.New("consume: it is not known whether the message took effect, since its function committed the transaction itself: an operator has to resolve its receipt")
)

// Consumer runs functions for messages, and is safe for concurrent use.
type Consumer struct {
	opts     Options
	receipts machine.Receipts
	now      func() time.Time
	bursts   burst.Lines
	repeats  atomic.Bool // the latest message came before: look for the next one, before a transaction is begun for it
}

// storeError is an error from the journal.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

var consumerName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// New returns a Consumer, and makes missing tables for receipts. The error names the missing or wrong option, or wraps the
// journal's error.
func New(ctx context.Context, o Options) (*Consumer, error) {
	store, ok := o.Journal.(machine.Receipts)
	switch {
	case o.Journal == nil:
		return nil, errors.New("consume: Options.Journal is nil: open one, such as journal/sqlite's, on the database of your own tables")
	case !ok:
		return nil, fmt.Errorf("consume: Options.Journal, a %T, keeps no receipts: use one that does, such as journal/sqlite's", o.Journal)
	case !consumerName.MatchString(o.Name):
		return nil, fmt.Errorf("consume: Options.Name is %q: give 1 to 64 of a-z, 0-9, '.', '_' and '-'", o.Name)
	case o.Keep < time.Second: // a bare number, in nanoseconds
		return nil, fmt.Errorf("consume: Options.Keep is %v: give longer than the source can deliver a message again", o.Keep)
	}
	o.Together = cmp.Or(o.Together, 1)
	if o.Together < 1 || o.Together > maxTogether {
		return nil, fmt.Errorf("consume: Options.Together is %d: give 1 to %d messages, or leave it out", o.Together, maxTogether)
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Begin == nil {
		o.Begin = store.BeginTx
	}
	if o.Observe == nil {
		o.Observe = func(context.Context, Outcome) {}
	}
	if err := store.MakeReceipts(ctx, ""); err != nil {
		return nil, fmt.Errorf("consume: make the tables of receipts: %w", err)
	}
	c := &Consumer{opts: o, receipts: store, now: time.Now}
	if clock, ok := o.Journal.(machine.Clock); ok {
		c.now = clock.Now
	}
	return c, nil
}

// maxTogether limits a transaction's locks. PostgreSQL has room for 64 for each of its connections by default.
const maxTogether = 100

// Run removes marks older than Options.Keep, until ctx ends or the journal is closed. Run returns ctx's error, or
// journal.ErrClosed. Several processes may run Run. Package server's Server.Run on the same journal does the same.
func (c *Consumer) Run(ctx context.Context) error {
	return receipts.Run(ctx, c.receipts, c.now, c.opts.Logger)
}

// maxKey is the longest message key that is kept unchanged, in bytes.
const maxKey = 512

// receiptKey names the message's receipt.
func (c *Consumer) receiptKey(m *Message) journal.ReceiptKey {
	key := receipts.Name{Consumer: c.opts.Name, Source: m.Source, Replay: m.Replay, Key: m.ID}.Receipt()
	if len(key.Key) > maxKey {
		sum := sha256.Sum256([]byte(key.Key))
		key.Key = "sha256 " + hex.EncodeToString(sum[:])
	}
	return key
}

// Do calls do in a transaction, unless do has run for the message before, and commits do's writes with the message's mark.
// Acknowledge the message if and only if the error is nil. For a log, such as Kafka's partitions, use InOrder. After an
// error, a new delivery calls do again. Enqueue calls abroad in tx (onceward.Client.Enqueue). do neither commits nor rolls
// back. A panic in do leaves nothing, and goes on to Do's caller.
//
// The error is ErrBusy, ErrReused, ErrUnknown, ErrInTransaction, do's or the journal's. After the journal's error, the
// message may be done, and the next delivery shows whether.
func (c *Consumer) Do(ctx context.Context, m Message, do func(ctx context.Context, tx journal.Tx) error) (Result, error) {
	results, err := c.pass(ctx, []Message{m}, func(ctx context.Context, tx journal.Tx, _ int) error { return do(ctx, tx) })
	if err != nil {
		return "", err
	}
	return results[0], nil
}

// outcomeOf is what becomes of a delivery whose message is recorded.
func outcomeOf(d machine.Decision) (Result, error) {
	switch d {
	case machine.Replay, machine.Gone:
		return Duplicate, nil
	case machine.Misuse:
		return "", ErrReused
	case machine.Stop:
		return "", ErrUnknown
	}
	return "", ErrBusy
}
