package dbos_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
	"github.com/stretchr/testify/require"

	oncewarddbos "github.com/onceward/onceward/examples/with/engines/dbos"
	"github.com/onceward/onceward/examples/with/engines/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m, runOneWorkflow) }

// runOneWorkflow starts the workflow, or finds the one that a dead process began, and waits for its end.
func runOneWorkflow(ctx context.Context, p enginetest.Plan) error {
	client, end, err := p.Client()
	if err != nil {
		return err
	}
	defer end()
	engine, err := dbos.NewContext(ctx, dbos.Config{AppName: "shop", DatabaseURL: "sqlite:" + p.Engine, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	charging := func(ctx dbos.Context, _ string) (string, error) {
		return dbos.RunAsStep(ctx, func(ctx context.Context) (string, error) {
			named, err := oncewarddbos.Operation(ctx)
			if err != nil {
				return "", err
			}
			return p.Charge(named, client.HTTPClient())
		})
	}
	dbos.RegisterWorkflow(engine, charging, dbos.WithWorkflowName("charging"))
	if err := dbos.Launch(engine); err != nil {
		return err
	}
	defer dbos.Shutdown(engine, time.Minute)
	workflow, err := dbos.RunWorkflow(engine, charging, "invoice 991", dbos.WithWorkflowID("invoice-991"))
	if err != nil {
		return err
	}
	_, err = workflow.GetResult()
	return err
}

func TestStepKilledBeforeItsCheckpoint(t *testing.T) {
	dir := t.TempDir()
	enginetest.KilledBeforeItsAcknowledgement(t, enginetest.Box(t), enginetest.Plan{
		Journal: filepath.Join(dir, "journal.db"),
		Engine:  filepath.Join(dir, "dbos.db"),
	}, func() {})
}

func TestNoStep(t *testing.T) {
	_, err := oncewarddbos.Operation(t.Context())
	require.ErrorContains(t, err, "DBOS step")
}
