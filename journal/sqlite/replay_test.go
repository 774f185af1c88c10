package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
)

// FuzzReplay refuses or replays any bytes in the log's records.
func FuzzReplay(f *testing.F) {
	seed := &batch{writer: &writer{state: newState()}}
	for i := range int64(3) {
		op := journal.Operation{Handle: i + 1, Ref: journal.Ref{ID: "invoice-991/charge"}, Key: "k"}
		seed.record(&format.Record{Row: format.Row{Op: op}}, format.WithEverything)
		seed.record(&format.Record{Row: format.Row{Op: op}}, format.WithAnswer)
	}
	f.Add(seed.records)
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &writer{state: newState()}
		if _, err := w.replay(b); err != nil {
			require.ErrorIs(t, err, format.ErrDamaged)
		}
	})
}
