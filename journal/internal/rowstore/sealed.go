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
	"github.com/onceward/onceward/seal"
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

// sealed is hasKey outside of a transaction.
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

// lastKey returns the key that a journal was sealed with last.
func lastKey(sealed string) string { return sealed[strings.LastIndexByte(sealed, ' ')+1:] }

// sealedWith returns Head.Sealed for a ring that is about to seal, or ErrSealed if the ring has no key of the journal.
func sealedWith(sealed string, ring *seal.Ring, existing bool) (string, error) {
	known := strings.Fields(sealed)
	ids := ring.IDs()
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
	return strings.Join(append(known, ids[0]), " "), nil
}

// mark returns the head, which has the ring's key before the first box.
func mark(ctx context.Context, d Driver, opts *Options) (head Head, err error) {
	for try := 0; ; try++ {
		head, err = tryMark(ctx, d, opts)
		if !isOfRow(err) || try == tries {
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
	sealed, err := sealedWith(head.Sealed, opts.Seal, opts.Existing)
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

// errHasClear is for a ring that would take all that a journal has for damaged.
var errHasClear = errors.New("journal: it has payloads in clear, and the ring reads sealed payloads only: open it with what Ring.ReadClear returns")

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
