package rowstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/rowstore"
	"github.com/onceward/onceward/journal/internal/rowstore/faultdb"
)

// changing is a database in which rows change while they are read for the first time.
type changing struct{ rowstore.Driver }

func (c changing) Read(ctx context.Context, f func(rowstore.Reader) error) error {
	_ = c.Driver.Read(ctx, f)
	return c.Driver.Read(ctx, f)
}

var errToRead = errors.New("opened to read")

// A journal that only reads finds what another one writes. Rows that changed while they were read are read again.
func TestStoreThatOnlyReads(t *testing.T) {
	history(t, func(t *testing.T, db *faultdb.Database, p *process) {
		require.NoError(t, p.j.KeepHook(t.Context(), true))
		bookmark, err := p.j.SetBookmark(t.Context(), journal.Bookmark{Name: "feed", At: p.now})
		require.NoError(t, err)
		const many = 600 // more than two pages
		for n := range many {
			p.executed(fmt.Sprint("invoice-", n))
		}
		j, err := rowstore.OpenToRead(t.Context(), changing{db.Open()}, nil, errToRead)
		require.NoError(t, err)
		listed := 0
		for op, err := range j.List(t.Context(), journal.Filter{}) {
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint("invoice-", listed), op.ID)
			listed++
		}
		assert.Equal(t, many, listed)
		op, err := j.Get(t.Context(), ref("invoice-0"))
		require.NoError(t, err)
		found, err := j.FindBy(t.Context(), op.Provider, machine.ByKey, op.Key)
		require.NoError(t, err)
		assert.Len(t, found, 1)
		hook, err := j.HasHook(t.Context())
		require.NoError(t, err)
		assert.True(t, hook)
		read, err := j.Bookmark(t.Context(), "feed")
		require.NoError(t, err)
		assert.Equal(t, bookmark, read)
		stats, err := j.ReadStats(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, many, stats.InFlight)
		require.NoError(t, j.Close())
		_, err = j.Get(t.Context(), op.Ref)
		require.ErrorIs(t, err, journal.ErrClosed)
	})
}

// Each method that writes returns the given error, whatever it is called with.
func TestStoreThatOnlyReadsRefusesToWrite(t *testing.T) {
	j, err := rowstore.OpenToRead(t.Context(), faultdb.New().Open(), nil, errToRead)
	require.NoError(t, err)
	defer j.Close()
	ctx := t.Context()
	for name, write := range map[string]func() error{
		"Apply":        func() error { _, err := j.Apply(ctx, machine.Event{}); return err },
		"Claim":        func() error { _, err := j.Claim(ctx, machine.Event{}, 1); return err },
		"Reap":         func() error { _, err := j.Reap(ctx, machine.Event{}, 1); return err },
		"Join":         func() error { _, err := j.Join(ctx); return err },
		"ResetClock":   func() error { return j.ResetClock(ctx, time.Now()) },
		"Looks":        func() error { _, err := j.Looks(ctx, machine.Event{}, 1); return err },
		"RecordEvent":  func() error { _, _, err := j.RecordEvent(ctx, machine.Heard{}, nil); return err },
		"KeepHook":     func() error { return j.KeepHook(ctx, true) },
		"ApplyFlow":    func() error { _, err := j.ApplyFlow(ctx, machine.FlowEvent{}); return err },
		"ApplyFlowTx":  func() error { _, err := j.ApplyFlowTx(ctx, nil, machine.FlowEvent{}); return err },
		"ClaimFlows":   func() error { _, err := j.ClaimFlows(ctx, machine.FlowEvent{}, 1); return err },
		"ReapFlows":    func() error { _, err := j.ReapFlows(ctx, machine.FlowEvent{}, 1); return err },
		"BeginTx":      func() error { _, err := j.BeginTx(ctx); return err },
		"EnqueueTx":    func() error { _, err := j.EnqueueTx(ctx, nil, machine.Event{}); return err },
		"DeliverTx":    func() error { _, err := j.DeliverTx(ctx, machine.Event{}, nil); return err },
		"MakeReceipts": func() error { return j.MakeReceipts(ctx, "") },
		"ReceiveTx":    func() error { _, err := j.ReceiveTx(ctx, nil, machine.ReceiptEvent{}); return err },
		"AdvanceTx":    func() error { _, err := j.AdvanceTx(ctx, nil, "", "", 1); return err },
		"SetBookmark":  func() error { _, err := j.SetBookmark(ctx, journal.Bookmark{}); return err },
		"ReapReceipts": func() error { _, err := j.ReapReceipts(ctx, machine.ReceiptEvent{}, 1); return err },
	} {
		assert.ErrorIs(t, write(), errToRead, name)
	}
}
