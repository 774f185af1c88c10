package server

import (
	"context"
	"errors"

	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
)

// Resolution is a person's finding about a key whose outcome is unknown.
type Resolution struct {
	// Answer is given to callers who ask again. It has a status (0: 200), the headers that are kept, and a body. nil: the
	// request took no effect, and the key is free.
	Answer *journal.Answer

	By, Why string // the person who decides, and the reason; they are recorded with an Answer. One of the two is required.
}

// Resolve settles a key whose requests are answered by outcome-unknown, because its handler has committed the
// transaction by itself. Caller.Tenant and Key of k name the key and, with Options.KeysPerEndpoint, the first name of
// the endpoint does too. If the request took effect after all, a Resolution without an Answer lets it take effect
// twice.
//
// The error wraps journal.ErrInvalidEvent if the key's outcome is not unknown. journal.Receipts.ListReceipts lists
// such keys, by the state journal.ReceiptReserved.
func (s *Server) Resolve(ctx context.Context, k Key, r Resolution) error {
	ev := journal.ReceiptEvent{
		Kind: journal.ReceiptResolve, ReceiptKey: s.receiptKey(k.Caller.Tenant, k.Name, k.Key), At: s.now(),
		Resolution: journal.NotExecuted, By: r.By, Why: r.Why,
	}
	if r.Answer != nil {
		ev.Resolution, ev.Answer = journal.Executed, r.Answer
	}
	err := receipts.Resolve(ctx, s.receipts, s.opts.Begin, ev)
	if errors.Is(err, receipts.ErrBusy) {
		return &RefusedError{inFlight}
	}
	return err
}

// receiptKey names the receipt of a tenant's key. place is the first name of the endpoint.
func (s *Server) receiptKey(tenant, place, key string) journal.ReceiptKey {
	name := receipts.Name{Tenant: tenant, Key: key}
	if s.opts.KeysPerEndpoint {
		name.Endpoint = place
	}
	return name.Receipt()
}
