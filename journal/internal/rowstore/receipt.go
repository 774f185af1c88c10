package rowstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// MakeReceipts implements machine.Receipts. The tables are there.
func (s *Store) MakeReceipts(ctx context.Context, naming string) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	return s.alone(ctx, &request{run: func(b *batch) error {
		switch is := b.head.Naming; {
		case naming == "" || is == naming:
		case is != "":
			return fmt.Errorf("the receipts of this journal were made with keys named %q, not %q; give the setting that they were made with", is, naming)
		default:
			b.keep, b.head.Naming = true, naming
		}
		return nil
	}})
}

// ReceiveTx implements machine.Receipts.
func (s *Store) ReceiveTx(ctx context.Context, tx journal.Tx, ev machine.ReceiptEvent) (result machine.ReceiptResult, err error) {
	if err := s.writable(ctx); err != nil {
		return result, err
	}
	if err := s.checkTime(ev.At); err != nil {
		return result, err
	}
	defer s.notes(ev.At)
	err = s.decideIn(ctx, tx, nil, func(b *batch) (err error) {
		written := false
		switch {
		case ev.Kind == machine.ReceiptComplete && ev.Reserved != nil && s.codec.Ring == nil: // no box is sealed twice alike
			result, written, err = b.completeUnread(&ev)
		case ev.Kind == machine.ReceiptReserve, ev.Kind == machine.ReceiptRecord:
			results, err := b.reserve([]machine.ReceiptEvent{ev})
			if err == nil {
				result = results[0]
			}
			return err
		}
		if err == nil && !written {
			result, err = b.receive(ev)
		}
		return err
	})
	return result, err
}

// ReserveTx implements machine.Receipts.
func (s *Store) ReserveTx(ctx context.Context, tx journal.Tx, evs []machine.ReceiptEvent) (results []machine.ReceiptResult, err error) {
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	for i := range evs {
		if err := s.checkTime(evs[i].At); err != nil {
			return nil, err
		}
	}
	defer s.notes(evs[0].At)
	err = s.decideIn(ctx, tx, nil, func(b *batch) (err error) {
		results, err = b.reserve(evs)
		return err
	})
	return results, err
}

// reserve applies ReceiptReserve or ReceiptRecord events, each for another key.
func (b *batch) reserve(evs []machine.ReceiptEvent) ([]machine.ReceiptResult, error) {
	results, written, err := b.reserveUnread(evs)
	for i := range evs {
		if err == nil && !(written != nil && written[i]) {
			results[i], err = b.receive(evs[i])
		}
	}
	return results, err
}

// reserveUnread applies events to new receipts, and says which were written.
func (b *batch) reserveUnread(evs []machine.ReceiptEvent) (results []machine.ReceiptResult, written []bool, err error) {
	results = make([]machine.ReceiptResult, len(evs))
	for i := range evs {
		b.clock.shows(&evs[i])
		results[i], err = machine.NextReceipt(journal.Receipt{}, evs[i])
		if err != nil || results[i].Decision != machine.Execute && results[i].Decision != machine.Recorded {
			return results, nil, err
		}
	}
	written, err = b.tx.ReserveReceipts(b.ctx, len(evs), func(i int, handle int64) *Receipt {
		results[i].Receipt.Handle = handle
		return b.encodeReceipt(nil, &results[i].Receipt)
	})
	if errors.Is(err, ErrMissed) { // the transaction can only be rolled back
		for i := range evs {
			if !written[i] {
				results[i], written[i] = machine.ReceiptResult{Decision: machine.Wait}, true
			}
		}
		err = nil
	}
	return results, written, b.fail(err)
}

// completeUnread applies an event to the receipt that the caller has reserved, and reports whether the store wrote the
// receipt.
func (b *batch) completeUnread(ev *machine.ReceiptEvent) (result machine.ReceiptResult, written bool, err error) {
	b.clock.shows(ev)
	result, err = machine.NextReceipt(*ev.Reserved, *ev)
	if err != nil || result.Decision != machine.Recorded {
		return result, false, err
	}
	result.Receipt.Handle = ev.Reserved.Handle
	written, err = b.tx.CompleteReceipt(b.ctx, b.encodeReceipt(nil, ev.Reserved), b.encodeReceipt(nil, &result.Receipt))
	return result, written, b.fail(err)
}

// errEndedBefore means that the handler has ended the transaction with the key's reservation.
var errEndedBefore = errors.New("receive a request: the handler committed the transaction that reserved the key, so its writes are not in one commit with the answer; the key stays reserved until an operator resolves it")

// receive runs NextReceipt on a key's receipt, and writes the result.
func (b *batch) receive(ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
	found, was, err := b.receipt(ev.ReceiptKey)
	if err != nil {
		return machine.ReceiptResult{}, err
	}
	return b.receiveOn(found, was, ev)
}

// receipt returns a key's receipt, or the zero receipt.
func (b *batch) receipt(key journal.ReceiptKey) (found FoundReceipt, is journal.Receipt, err error) {
	if found, err = b.tx.Receipt(b.ctx, key); err != nil {
		return found, is, b.fail(err)
	}
	if found.Receipt != nil {
		is, err = decodeReceipt(b.s.codec, found.Receipt)
	}
	return found, is, err
}

// receiveOn is receive for a known receipt.
func (b *batch) receiveOn(found FoundReceipt, was journal.Receipt, ev machine.ReceiptEvent) (machine.ReceiptResult, error) {
	if ev.Kind != machine.ReceiptReap && ev.Kind != machine.ReceiptResolve && was.SealedBy != "" {
		return machine.ReceiptResult{}, sealedReceipt(&was)
	}
	b.clock.shows(&ev)
	result, err := machine.NextReceipt(was, ev)
	switch {
	case err != nil || result.Decision != machine.Execute && result.Decision != machine.Recorded:
		return result, err
	case found.Held:
		return machine.ReceiptResult{Decision: machine.Wait}, nil
	case ev.Kind == machine.ReceiptComplete && !found.Receipt.Own:
		return machine.ReceiptResult{}, errEndedBefore
	case found.Receipt == nil:
		if result.Receipt.Handle, err = b.tx.ReceiptHandle(b.ctx); err != nil {
			return result, b.fail(err)
		}
		err = b.tx.InsertReceipt(b.ctx, b.encodeReceipt(nil, &result.Receipt))
	case result.Receipt.State == journal.ReceiptAbsent:
		err = b.tx.RemoveReceipt(b.ctx, was.Handle)
	default:
		result.Receipt.Handle = was.Handle
		err = b.tx.UpdateReceipt(b.ctx, b.encodeReceipt(boxOf(found.Receipt, &was, &result.Receipt), &result.Receipt))
	}
	if errors.Is(err, ErrMissed) {
		return machine.ReceiptResult{Decision: machine.Wait}, nil
	}
	return result, b.fail(err)
}

// shows notes a caller's clock, unless the clock has jumped, and tells the event the known facts about the clock.
func (c *clock) shows(ev *machine.ReceiptEvent) (passed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.is
	if due := seen.See(ev.At); !due && c.is.Jumped.IsZero() && seen.Jumped.IsZero() {
		c.is = seen
	}
	ev.Last, ev.Unconfirmed = seen.Last, seen.Unconfirmed(ev.At)
	return seen.Passed(ev.At)
}

func sealedReceipt(r *journal.Receipt) error {
	return fmt.Errorf("receipt %d: %w", r.Handle, format.Sealed(r.SealedBy))
}

// boxOf returns the box of a receipt's row, if the next receipt has the same fingerprint.
func boxOf(row *Receipt, was, next *journal.Receipt) []byte {
	if was.Fingerprint != next.Fingerprint {
		return nil
	}
	return row.box
}

// encodeReceipt returns a receipt's row, with the box of a fingerprint that stays. A reserved receipt is never to be
// reaped.
func (b *batch) encodeReceipt(box []byte, r *journal.Receipt) *Receipt {
	ends := format.ReceiptEnds(r).UnixMilli()
	if r.State == journal.ReceiptReserved {
		ends = math.MaxInt64
	}
	facts, answer, body := b.s.codec.EncodeReceipt(r, ends, box)
	return &Receipt{Handle: r.Handle, Key: r.ReceiptKey, Place: r.Place, State: uint8(r.State), Ends: ends, Facts: facts, Answer: answer, Body: body}
}

// decodeReceipt reads a receipt and the receipt's body.
func decodeReceipt(c format.Codec, row *Receipt) (journal.Receipt, error) {
	r, err := decodeReceiptLight(c, row)
	switch {
	case err != nil || row.Answer == nil:
	case format.Lacks(row.Answer, row.Body):
		err = fmt.Errorf("receipt %d lacks its body: %w", row.Handle, format.ErrDamaged)
	default:
		if err = c.DecodeReceiptAnswer(&r, row.Answer, row.Body); err != nil {
			err = fmt.Errorf("receipt %d: %w", row.Handle, err)
		}
	}
	return r, err
}

// decodeReceiptLight is decodeReceipt without the answer's body.
func decodeReceiptLight(c format.Codec, row *Receipt) (journal.Receipt, error) {
	r := journal.Receipt{Handle: row.Handle, ReceiptKey: row.Key, Place: row.Place, State: journal.ReceiptState(row.State)}
	var err error
	if row.box, err = c.DecodeReceipt(&r, row.Ends, row.Facts, row.Answer); err != nil {
		err = fmt.Errorf("receipt %d: %w", row.Handle, err)
	}
	return r, err
}

// AdvanceTx implements machine.Receipts.
func (s *Store) AdvanceTx(ctx context.Context, tx journal.Tx, source, entity string, seq int64) (later bool, err error) {
	if err := s.writable(ctx); err != nil {
		return false, err
	}
	err = s.decideIn(ctx, tx, nil, func(b *batch) error {
		later, err = b.tx.Advance(b.ctx, source, entity, seq)
		return b.fail(err)
	})
	return later, err
}
