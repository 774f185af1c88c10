package rowstoretest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

func received(key string) machine.ReceiptEvent {
	return machine.ReceiptEvent{
		Kind: machine.ReceiptRecord, ReceiptKey: journal.ReceiptKey{Scope: "t acme", Key: key}, At: time.Now(), Place: "payments.create", Fingerprint: "a",
		Same: func(*journal.Receipt) (bool, error) { return true, nil }, Keep: time.Hour, Answer: &journal.Answer{Status: 201, Body: []byte(key)},
	}
}

func (p *process) receive(t *testing.T, tx journal.Tx, ev machine.ReceiptEvent, want machine.Decision) {
	t.Helper()
	result, err := p.ReceiveTx(t.Context(), tx, ev)
	require.NoError(t, err)
	require.Equal(t, want, result.Decision)
}

func damagedReceipt(t *testing.T, db Database) {
	p := db.join(t)
	tx := p.beginTx(t)
	for _, key := range []string{"damaged", "sound"} {
		p.receive(t, tx, received(key), machine.Recorded)
	}
	require.NoError(t, tx.Commit(t.Context()))
	damaged, err := p.GetReceipt(t.Context(), received("damaged").ReceiptKey)
	require.NoError(t, err)
	db.DamageReceipt(t, damaged.Handle)
	found, err := p.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, []journal.Violation{{Handle: damaged.Handle, Receipt: true, Invariant: "it is as it was written"}}, found)

	_, err = p.GetReceipt(t.Context(), damaged.ReceiptKey)
	require.ErrorIs(t, err, format.ErrDamaged)
	tx = p.beginTx(t)
	_, err = p.ReceiveTx(t.Context(), tx, received("damaged"))
	require.ErrorIs(t, err, format.ErrDamaged)
	p.receive(t, tx, received("sound"), machine.Replay)
	p.receive(t, tx, received("another"), machine.Recorded)
	require.NoError(t, tx.Commit(t.Context()))

	reap := machine.ReceiptEvent{Kind: machine.ReceiptReap, At: time.Now().Add(2 * time.Hour)}
	reaped, err := p.ReapReceipts(t.Context(), reap, 2)
	require.NoError(t, err)
	assert.Equal(t, 2, reaped)
	_, err = p.ReapReceipts(t.Context(), reap, 2)
	require.ErrorIs(t, err, format.ErrDamaged, "nothing else is left")
}

func heldReceipt(t *testing.T, db Database) {
	if db.Hold == nil {
		t.Skip("the database has one writer, and no locks of rows")
	}
	p := db.join(t)
	first := p.beginTx(t)
	reserve := received("key")
	reserve.Kind = machine.ReceiptReserve
	p.receive(t, first, reserve, machine.Execute)
	p.receive(t, p.beginTx(t), reserve, machine.Wait)
	p.receive(t, p.beginTx(t), received("another"), machine.Recorded)
	complete := received("key")
	complete.Kind, complete.Claim = machine.ReceiptComplete, 1
	p.receive(t, first, complete, machine.Recorded)
	require.NoError(t, first.Commit(t.Context()))
	p.receive(t, p.beginTx(t), reserve, machine.Replay)

	// A handler may commit the reservation alone. Then no other transaction completes it.
	reserve, complete = received("alone"), received("alone")
	reserve.Kind, complete.Kind, complete.Claim = machine.ReceiptReserve, machine.ReceiptComplete, 1
	tx := p.beginTx(t)
	p.receive(t, tx, reserve, machine.Execute)
	require.NoError(t, tx.Commit(t.Context()))
	_, err := p.ReceiveTx(t.Context(), p.beginTx(t), complete)
	require.ErrorContains(t, err, "the handler committed the transaction")
}
