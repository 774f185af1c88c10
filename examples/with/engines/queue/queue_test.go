package queue_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/examples/with/engines/enginetest"
	"github.com/onceward/onceward/examples/with/engines/queue"
)

func TestMain(m *testing.M) {
	enginetest.Main(m, func(ctx context.Context, p enginetest.Plan) error {
		client, end, err := p.Client()
		if err != nil {
			return err
		}
		defer end()
		return queue.Consume(ctx, p.Engine, func(ctx context.Context, _ []byte) error {
			_, err := p.Charge(ctx, client.HTTPClient())
			return err
		})
	})
}

func TestConsumerKilledBeforeItsAcknowledgement(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "0001"), []byte("invoice 991"), 0o600))
	enginetest.KilledBeforeItsAcknowledgement(t, enginetest.Box(t), enginetest.Plan{
		Journal: filepath.Join(t.TempDir(), "journal.db"),
		Engine:  folder,
	}, func() {})
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left, "the message is acknowledged")
}

// A slash in a name makes no two messages one operation.
func TestNamesWithASlash(t *testing.T) {
	box := enginetest.Box(t)
	p := enginetest.Plan{Provider: box.URL, Journal: filepath.Join(t.TempDir(), "journal.db")}
	client, end, err := p.Client()
	require.NoError(t, err)
	t.Cleanup(end)
	for _, of := range [][2]string{{"eu/charges", "1"}, {"eu", "charges/1"}} {
		_, err := p.Charge(queue.Operation(t.Context(), of[0], of[1]), client.HTTPClient())
		require.NoError(t, err)
	}
	require.Len(t, box.Effects(), 2, "%s", box.Ledger())
}
