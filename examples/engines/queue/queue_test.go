package queue_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/examples/engines/queue"
	"github.com/onceward/onceward/internal/enginetest"
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
