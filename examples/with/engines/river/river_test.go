package river_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/with/engines/enginetest"
	oncewardriver "github.com/onceward/onceward/examples/with/engines/river"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

type chargeArgs struct{}

func (chargeArgs) Kind() string { return "charge" }

type charger struct {
	river.WorkerDefaults[chargeArgs]
	plan   enginetest.Plan
	client *onceward.Client
}

func (c *charger) Work(ctx context.Context, job *river.Job[chargeArgs]) error {
	_, err := c.plan.Charge(oncewardriver.Operation(ctx, job.JobRow), c.client.HTTPClient())
	return err
}

func TestMain(m *testing.M) { enginetest.Main(m, workOneJob) }

// workOneJob works until one job is completed.
func workOneJob(ctx context.Context, p enginetest.Plan) error {
	client, end, err := p.Client()
	if err != nil {
		return err
	}
	defer end()
	pool, err := pgxpool.New(ctx, p.Engine)
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &charger{plan: p, client: client})
	worker, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:   map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		TestOnly: true, // its maintenance starts at once
		Workers:  workers,
	})
	if err != nil {
		return err
	}
	events, cancel := worker.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	defer cancel()
	if err := worker.Start(ctx); err != nil {
		return err
	}
	if event := <-events; event.Kind != river.EventKindJobCompleted {
		return errors.New(event.Job.Errors[len(event.Job.Errors)-1].Error)
	}
	return worker.Stop(ctx)
}

func TestJobKilledBeforeItsAcknowledgement(t *testing.T) {
	server := postgrestest.Start(t)
	pool, err := pgxpool.New(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	inserts, err := river.NewClient(driver, &river.Config{})
	require.NoError(t, err)
	_, err = inserts.Insert(t.Context(), chargeArgs{}, nil)
	require.NoError(t, err)

	enginetest.KilledBeforeItsAcknowledgement(t, enginetest.Box(t), enginetest.Plan{
		Journal: filepath.Join(t.TempDir(), "journal.db"),
		Engine:  server.URL(),
	}, func() {
		// Two hours pass: the dead worker's lease on leadership is over, and its job counts as stuck.
		server.Exec(t, "DELETE FROM river_leader")
		server.Exec(t, "UPDATE river_job SET attempted_at = attempted_at - interval '2 hours' WHERE state = 'running'")
	})
}

// An ID comes again in another database, and in a table that was truncated. That job is another charge.
func TestJobIDThatComesAgain(t *testing.T) {
	box := enginetest.Box(t)
	p := enginetest.Plan{Provider: box.URL, Journal: filepath.Join(t.TempDir(), "journal.db")}
	client, end, err := p.Client()
	require.NoError(t, err)
	t.Cleanup(end)
	created := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{created, created.In(time.FixedZone("CET", 3600)), created.Add(time.Microsecond)} {
		_, err := p.Charge(oncewardriver.Operation(t.Context(), &rivertype.JobRow{ID: 1, Kind: "charge", CreatedAt: at}), client.HTTPClient())
		require.NoError(t, err)
	}
	require.Len(t, box.Effects(), 2, "%s", box.Ledger())
}
