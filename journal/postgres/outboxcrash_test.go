package postgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/lifeline"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/till"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// sellerVariable names the provider's ledger to a child that sells one order, and is killed.
const sellerVariable = "ONCEWARD_TEST_SELLER"

// openTill opens a till whose application has its own connection to the journal's database.
func openTill(ctx context.Context, url, schema, ledger string, step func(string)) (*till.Till, *postgres.Journal, error) {
	opts := postgres.Options{Schema: schema, Deployment: "test", Failover: postgres.MayLose}
	postgres.Hasten(&opts)
	j, err := postgres.Open(ctx, url, opts)
	if err != nil {
		return nil, nil, err
	}
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, db.Close)
	s, err := j.Join(ctx)
	return &till.Till{
		Journal: j, Session: s, Ledger: ledger, Step: step,
		Begin: func(ctx context.Context) (journal.Tx, error) {
			tx, err := db.Begin(ctx)
			if err != nil {
				return nil, err
			}
			return postgres.Pgx(tx), nil
		},
		Insert: func(ctx context.Context, tx journal.Tx, into, id string) error {
			_, err := tx.Driver().(pgx.Tx).Exec(ctx, "INSERT INTO "+pgx.Identifier{schema, into}.Sanitize()+" VALUES ($1) ON CONFLICT DO NOTHING", id)
			return err
		},
	}, j, err
}

// sell is the code of the child.
func sell(ctx context.Context, ledger string) error {
	return till.Sell(func(step func(string)) (*till.Till, error) {
		s, _, err := openTill(ctx, os.Getenv(directVariable), os.Getenv(schemaVariable), ledger, step)
		return s, err
	})
}

// shop has its tills on one schema.
type shop struct {
	server         *postgrestest.Cluster
	schema, ledger string
}

func (s *shop) Child(t *testing.T) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), sellerVariable+"="+s.ledger, directVariable+"="+s.server.URL(), schemaVariable+"="+s.schema)
	require.NoError(t, lifeline.Tie(cmd))
	return cmd
}

func (s *shop) Open(t *testing.T) *till.Till {
	opened, j, err := openTill(t.Context(), s.server.URL(), s.schema, s.ledger, func(string) {})
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return opened
}

func (s *shop) Count(t *testing.T, table string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.server.URL()) // the test asks often, and the server has no connection for each call
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{s.schema, table}.Sanitize()).Scan(&n))
	return n
}

func (s *shop) Verify(t *testing.T, j machine.Outbox) (wrong []string) {
	t.Helper()
	found, err := j.(*postgres.Journal).Verify(t.Context())
	require.NoError(t, err)
	for _, v := range found {
		wrong = append(wrong, fmt.Sprint(v))
	}
	return wrong
}

// The application's transaction ends with its process, like the journal's own.
func TestKilledAtEachStepOfAnOutbox(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	till.KilledAtEachStep(t, func(t *testing.T) till.Shop {
		t.Parallel()
		opts := durable(t, server)
		require.NoError(t, postgres.Migrate(t.Context(), server.URL(), opts.Schema))
		server.Exec(t, "CREATE TABLE "+pgx.Identifier{opts.Schema, "orders"}.Sanitize()+" (id text PRIMARY KEY)")
		server.Exec(t, "CREATE TABLE "+pgx.Identifier{opts.Schema, "booked"}.Sanitize()+" (id text)")
		return &shop{server, opts.Schema, filepath.Join(t.TempDir(), "ledger")}
	})
}
