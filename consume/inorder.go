package consume

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/onceward/onceward/internal/grace"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/seam"
	"github.com/onceward/onceward/journal"
)

// InOrder does messages as Do does, one after another, until one fails. done counts the messages from the first on whose
// result is Done, Duplicate or Stale. If all messages are done, err is nil. Otherwise err is the error for messages[done].
//
// On a log, such as a partition of Kafka or a shard of Kinesis, commit the position behind messages[done-1]. After an error,
// begin again at messages[done], never behind it. For a batch from an SQS FIFO queue, report messages[done:] as failed.
//
// do receives its message's index. With Options.Together, several messages share do's transaction. If one fails, the
// transaction is rolled back, and InOrder calls do again for the messages before it, in another transaction. If ctx ends,
// InOrder stops. A panic in do goes on to InOrder's caller and leaves nothing in the open transaction. Messages that were
// committed before are duplicates when they come again.
func (c *Consumer) InOrder(ctx context.Context, messages []Message, do func(ctx context.Context, tx journal.Tx, i int) error) (done int, err error) {
	results, err := c.pass(ctx, messages, do)
	return len(results), err
}

// pass is a call to Do or InOrder.
type pass struct {
	*Consumer
	messages []Message
	do       func(ctx context.Context, tx journal.Tx, i int) error
	results  []Result // of the messages that are done
	at       int      // the message at work
}

// pass returns the done messages' results, and the next one's error.
func (c *Consumer) pass(ctx context.Context, messages []Message, do func(ctx context.Context, tx journal.Tx, i int) error) (_ []Result, err error) {
	p := pass{Consumer: c, messages: messages, do: do}
	err = ErrPanicked
	defer func() {
		if err != nil {
			p.observe(ctx, p.at, "", err)
		}
	}()
	err = p.upTo(ctx, len(messages))
	p.at = len(p.results)
	return p.results, err
}

func (p *pass) observe(ctx context.Context, i int, result Result, err error) {
	p.opts.Observe(ctx, Outcome{Consumer: p.opts.Name, Source: p.messages[i].Source, Result: result, Err: err})
}

// done takes note of the next messages' results.
func (p *pass) done(ctx context.Context, results ...Result) {
	for _, result := range results {
		p.results = append(p.results, result)
		p.observe(ctx, len(p.results)-1, result, nil)
	}
}

// upTo does the messages before end.
func (p *pass) upTo(ctx context.Context, end int) error {
	for len(p.results) < end {
		passed, err := p.together(ctx, min(end, len(p.results)+p.opts.Together))
		if err != nil {
			return cmp.Or(p.upTo(ctx, passed), err) // without the message that failed
		}
	}
	return nil
}

// together does messages before end in one transaction: the next one, and maybe others. After an error nothing is kept. The
// messages before passed, which is then less than end, are not at fault.
func (p *pass) together(ctx context.Context, end int) (passed int, err error) {
	from := len(p.results)
	p.at = from
	evs, err := p.reserves(ctx, from, end)
	if err != nil {
		return from, err
	}
	if p.repeats.Load() {
		looked, err := p.receipts.LookReceipt(ctx, evs[0])
		if err != nil {
			return from, storeError{err}
		}
		if looked.Decision != machine.Execute {
			result, err := outcomeOf(looked.Decision)
			if err == nil {
				p.done(ctx, result)
			}
			return from, err
		}
	}
	tx, err := p.opts.Begin(ctx)
	if err != nil {
		return from, storeError{err}
	}
	defer grace.Rollback(ctx, tx)
	begun, err := p.receipts.ReserveTx(ctx, tx, evs)
	if err != nil {
		p.repeats.Store(true) // a restored journal refuses to reserve, and still knows a duplicate
		return from, storeError{err}
	}
	p.repeats.Store(begun[0].Decision != machine.Execute)
	results := make([]Result, len(evs))
	for k, is := range begun {
		if is.Decision != machine.Execute {
			if results[k], err = outcomeOf(is.Decision); err != nil {
				return from + k, err
			}
		}
	}
	ran := false
	for k, is := range begun {
		if is.Decision != machine.Execute {
			continue
		}
		if results[k], err = p.run(ctx, tx, from+k, evs[k], is.Receipt); err != nil {
			return from + k, err
		}
		ran = true
	}
	if ran {
		if err := tx.Commit(ctx); err != nil {
			return from + len(results)/2, storeError{err} // a smaller transaction shows which message is at fault
		}
	}
	p.done(ctx, results...)
	return from, nil
}

// reserves returns the events that reserve the next message and maybe others before end, each with another key.
func (p *pass) reserves(ctx context.Context, from, end int) (evs []machine.ReceiptEvent, err error) {
	if seam.IsInTransaction(ctx) {
		return nil, ErrInTransaction
	}
	seen := make(map[journal.ReceiptKey]bool, end-from)
	for i := from; i < end; i++ {
		ev, err := p.reserve(&p.messages[i])
		switch {
		case err != nil && i == from:
			return nil, err
		case err != nil || seen[ev.ReceiptKey]:
			return evs, nil
		}
		seen[ev.ReceiptKey] = true
		evs = append(evs, ev)
	}
	return evs, nil
}

// reserve returns the event that reserves a message.
func (c *Consumer) reserve(m *Message) (machine.ReceiptEvent, error) {
	switch {
	case m.ID == "" || m.Source == "":
		return machine.ReceiptEvent{}, errors.New("consume: Message.ID or Message.Source is empty: give the message's own identifier and the name of its source")
	case strings.Contains(m.Source, "\x00") || strings.Contains(m.Replay, "\x00"):
		return machine.ReceiptEvent{}, errors.New("consume: Message.Source or Message.Replay holds a zero byte")
	}
	print := "-"
	if len(m.Fingerprint) > 0 {
		sum := sha256.Sum256(m.Fingerprint)
		print = hex.EncodeToString(sum[:])
	}
	return machine.ReceiptEvent{
		Kind: machine.ReceiptReserve, ReceiptKey: c.receiptKey(m), At: c.now(),
		Place: c.opts.Name, Fingerprint: print, Keep: c.opts.Keep,
		Same: func(r *journal.Receipt) (bool, error) {
			return r.Fingerprint == print || r.Fingerprint == "-" || print == "-", nil // it was not compared then, or is not now
		},
	}, nil
}

// run calls do for a reserved message, unless a later message for the entity was done, and completes the message.
func (p *pass) run(ctx context.Context, tx journal.Tx, i int, ev machine.ReceiptEvent, reserved journal.Receipt) (Result, error) {
	p.at = i
	m, result := &p.messages[i], Done
	if m.Entity != "" {
		later, err := p.receipts.AdvanceTx(ctx, tx, p.opts.Name+"\x00"+m.Source, m.Entity, m.Seq)
		if err != nil {
			return "", storeError{err}
		}
		if !later {
			result = Stale
		}
	}
	if result == Done {
		if err := p.do(seam.InTransaction(ctx), tx, i); err != nil {
			return "", err
		}
	}
	ev.Kind, ev.Claim, ev.Reserved, ev.Answer = machine.ReceiptComplete, reserved.Claim, &reserved, &journal.Answer{}
	done, err := p.receipts.ReceiveTx(ctx, tx, ev)
	switch {
	case err != nil:
		return "", storeError{err}
	case done.Decision != machine.Recorded:
		return "", ErrUnknown
	}
	return result, nil
}
