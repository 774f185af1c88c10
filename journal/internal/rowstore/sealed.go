package rowstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/journal/internal/store"
)

// needsKey reports whether an event of this kind needs the whole operation. The event is refused before any decision if a
// key is missing.
func needsKey(kind machine.EventKind) bool {
	return store.NeedsTrust(kind) && kind != machine.EventResolve && kind != machine.EventReap
}

// skips reports whether an error is of one row, which other work passes over.
func skips(err error) bool {
	return errors.Is(err, format.ErrDamaged) || errors.Is(err, journal.ErrSealed)
}

// sealedOperation returns ErrSealed if a key of the operation is missing.
func sealedOperation(op *journal.Operation) error {
	if op.SealedBy == "" {
		return nil
	}
	return fmt.Errorf("operation %d: %w", op.Handle, format.Sealed(op.SealedBy))
}

// hasKey returns ErrSealed if a sealed journal is open without a key.
func (s *Store) hasKey(h *Head) error {
	if h.Sealed == "" || s.codec.Ring != nil {
		return nil
	}
	return format.Sealed(lastKey(h.Sealed))
}

// sealed is hasKey outside a transaction.
func (s *Store) sealed(ctx context.Context) error {
	if s.codec.Ring != nil {
		return nil
	}
	return s.source.Read(ctx, func(r Reader) error {
		head, err := r.Head(ctx)
		return cmp.Or(err, s.hasKey(&head))
	})
}

// maySend returns ErrRestored or ErrSealed if nothing may be sent, or decided by records.
func (b *batch) maySend() error { return cmp.Or(b.head.trusted(), b.s.hasKey(&b.head)) }

// keysOf returns the key IDs in Head.Sealed.
func keysOf(sealed string) (ids []string) {
	for _, mark := range strings.Fields(sealed) {
		ids = append(ids, format.MarkedKey(mark))
	}
	return ids
}

// lastKey returns the key that a journal was sealed with last.
func lastKey(sealed string) string {
	return format.MarkedKey(sealed[strings.LastIndexByte(sealed, ' ')+1:])
}

// checkMarks returns ErrSealed if the ring has another key under one of the journal's key IDs.
func checkMarks(sealed string, c format.Codec) error {
	for _, mark := range strings.Fields(sealed) {
		if err := c.CheckMark(mark); err != nil {
			return err
		}
	}
	return nil
}

// sealedWith returns Head.Sealed for a ring that is about to seal, or ErrSealed if the ring has no key of the journal.
func sealedWith(sealed string, c format.Codec, existing bool) (string, error) {
	if err := checkMarks(sealed, c); err != nil {
		return "", err
	}
	known := keysOf(sealed)
	ids := c.Ring.IDs()
	switch {
	case len(known) > 0 && len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(known, id) }):
		return "", format.Sealed(lastKey(sealed))
	case len(ids) == 0 && len(known) > 0 && !existing:
		return "", format.Sealed(lastKey(sealed))
	case len(ids) == 0 || slices.Contains(known, ids[0]):
		return sealed, nil
	case existing:
		return "", fmt.Errorf("journal: nothing was sealed with the key %q yet, and a journal of another program is not sealed: leave the keys out, or give the keys of the program", ids[0])
	}
	return strings.TrimSpace(sealed + " " + c.Mark()), nil
}

// mark returns the head, which has the ring's key before the first box.
func mark(ctx context.Context, d Driver, opts *Options) (head Head, err error) {
	for try := 0; ; try++ {
		head, err = tryMark(ctx, d, opts)
		switch {
		case errors.Is(err, errHasClear):
			return head, cmp.Or(lostMark(ctx, d, &head), err)
		case !isOfRow(err) || try == tries:
			return head, err
		}
	}
}

func tryMark(ctx context.Context, d Driver, opts *Options) (Head, error) {
	tx, head, _, err := d.Begin(ctx, Keys{})
	if err != nil {
		return head, err
	}
	defer tx.Rollback()
	sealed, err := sealedWith(head.Sealed, format.Codec{Ring: opts.Seal, Journal: head.Key}, opts.Existing)
	if err != nil || sealed == head.Sealed {
		return head, err
	}
	if head.Sealed == "" && !opts.Seal.ReadsClear() {
		if err := empty(ctx, tx); err != nil {
			return head, err
		}
	}
	head.Sealed = sealed
	return head, tx.Commit(ctx, head, nil)
}

// errHasClear is for a ring that would take the whole content of a journal for damaged.
var errHasClear = errors.New("journal: it has payloads in clear, and the ring reads sealed payloads only: open it with what Ring.ReadClear returns")

// errLostMark is for a journal whose boxes have no mark.
var errLostMark = fmt.Errorf("%w: the list of the keys that sealed it is gone, so that another program has changed the journal: restore a backup, and don't use Ring.ReadClear", format.ErrDamaged)

// lostMark returns errLostMark if a journal without a mark has boxes. An error that advises Ring.ReadClear would help the
// person who has removed the mark.
func lostMark(ctx context.Context, d Driver, head *Head) error {
	status, err := newStore(d, head, nil).SealStatus(ctx)
	if len(status.Boxes) > 0 {
		return errLostMark
	}
	if skips(err) {
		return nil
	}
	return err
}

// empty returns errHasClear unless a journal has no operation, no flow and no receipt.
func empty(ctx context.Context, tx Tx) error {
	places, err := tx.Scan(ctx, Scan{Index: ByHandle, Limit: 1})
	if err != nil {
		return err
	}
	flows, err := tx.Flows(ctx, FlowScan{Limit: 1})
	if err != nil {
		return err
	}
	receipts, err := tx.Receipts(ctx, ReceiptScan{Limit: 1})
	if err == nil && len(places)+len(flows)+len(receipts) > 0 {
		err = errHasClear
	}
	return err
}
