package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/internal/secret"
	"github.com/onceward/onceward/journal"
)

// Resolution is a person's finding about a key whose outcome is unknown.
type Resolution struct {
	// Answer is given to callers who ask again. The answer has a status (0: 200), the kept headers, and a body. nil:
	// the request took no effect, and the key is free.
	Answer *journal.Answer

	By, Why string // the person who decides, and the reason; they are recorded with an Answer. One of the two is required.
}

// Resolve settles a key whose requests get outcome-unknown, because the handler has committed the transaction itself.
// seen is the receipt that the person looked at, from the journal's ListReceipts or GetReceipt: such keys have the
// state journal.ReceiptReserved. Only its ReceiptKey, Handle and Claim count. If the request took effect after all, a
// Resolution without an Answer lets it take effect twice.
//
// The error wraps journal.ErrInvalidEvent if the key's outcome is not unknown. The error wraps onceward.ErrMoved, and
// nothing is changed, if another person has freed the key meanwhile, and a later request has reserved the key.
func (s *Server) Resolve(ctx context.Context, seen journal.Receipt, r Resolution) error {
	if seen.Handle == 0 || seen.Claim == 0 {
		return fmt.Errorf("server: resolve: %w: the receipt has no Handle or no Claim: give the one that the journal returned", journal.ErrInvalidEvent)
	}
	ev := machine.ReceiptEvent{
		Kind: machine.ReceiptResolve, ReceiptKey: seen.ReceiptKey, Handle: seen.Handle, Claim: seen.Claim, At: s.now(),
		Resolution: journal.NotExecuted, By: secret.Recorded(r.By), Why: secret.Recorded(r.Why),
	}
	if r.Answer != nil {
		ev.Resolution, ev.Answer = journal.Executed, r.Answer
	}
	switch err := receipts.Resolve(ctx, s.receipts, s.opts.Begin, ev); {
	case errors.Is(err, receipts.ErrBusy):
		return &RefusedError{inFlight}
	case errors.Is(err, receipts.ErrMoved):
		return fmt.Errorf("server: resolve: %w: the key was freed and reserved again", onceward.ErrMoved)
	default:
		return err
	}
}

// receiptKey names the receipt of a tenant's key. place is the first name of the endpoint.
func (s *Server) receiptKey(tenant, place, key string) journal.ReceiptKey {
	name := receipts.Name{Tenant: tenant, Key: key}
	if s.opts.KeysPerEndpoint {
		name.Endpoint = place
	}
	return name.Receipt()
}
