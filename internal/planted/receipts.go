package planted

import (
	"context"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/receipts"
	"github.com/onceward/onceward/journal"
)

// The receipts that PlantReceipts makes.
const (
	Tenant       = "acme"
	AnsweredKey  = "receipt-answered-0123456789abcdef" // of Tenant
	ReservedKey  = "receipt-reserved-0123456789abcdef" // likewise; its outcome is unknown
	Consumer     = "ledger"
	Source       = "stripe"
	DoneEvent    = "evt_done"
	UnknownEvent = "evt_unknown" // its outcome is unknown
)

// PlantReceipts makes five receipts: two for a tenant, one for a hostile tenant, and two for a consumer. Their answers
// are given for that long.
func PlantReceipts(ctx context.Context, j machine.Receipts, now time.Time, keep time.Duration) error {
	if err := j.MakeReceipts(ctx, "keys"); err != nil {
		return err
	}
	answer := &journal.Answer{Status: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(Answer)}
	for _, one := range []struct {
		receipts.Name
		place  string
		answer *journal.Answer
	}{
		{receipts.Name{Tenant: Tenant, Key: AnsweredKey}, "payments.create", answer},
		{receipts.Name{Tenant: Tenant, Key: ReservedKey}, "refunds.create", nil},
		{receipts.Name{Tenant: Hostile, Endpoint: "payments.create", Key: Hostile}, "payments.create", answer},
		{receipts.Name{Consumer: Consumer, Source: Source, Key: DoneEvent}, Consumer, &journal.Answer{}},
		{receipts.Name{Consumer: Consumer, Source: Source, Replay: "2026", Key: UnknownEvent}, Consumer, nil},
	} {
		ev := machine.ReceiptEvent{
			Kind: machine.ReceiptReserve, ReceiptKey: one.Receipt(), At: now, Place: one.place, Fingerprint: "f", Answer: one.answer,
			Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: keep, Refuse: 23 * 24 * time.Hour,
		}
		if ev.Answer != nil {
			ev.Kind = machine.ReceiptRecord
		}
		tx, err := j.BeginTx(ctx)
		if err != nil {
			return err
		}
		if _, err = j.ReceiveTx(ctx, tx, ev); err == nil {
			err = tx.Commit(ctx)
		}
		if err != nil {
			_ = tx.Rollback(ctx)
			return err
		}
		now = now.Add(time.Millisecond)
	}
	return nil
}
