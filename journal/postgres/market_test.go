package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/market"
	"github.com/onceward/onceward/journal/postgres"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// openMarket opens a marketplace's database, whose name is a schema and a URL.
func openMarket(ctx context.Context, name string) (market.Database, error) {
	schema, url, _ := strings.Cut(name, " ")
	j, err := postgres.Open(ctx, url, postgres.Options{Schema: schema, Deployment: "test", Migrate: true, Unsafe: true})
	if err != nil {
		return market.Database{}, err
	}
	dialect := strings.NewReplacer("{", pgx.Identifier{schema}.Sanitize()+".", "}", "").Replace
	return market.Database{
		Journal: j,
		Exec: func(ctx context.Context, tx any, statement string, args ...any) error {
			_, err := tx.(pgx.Tx).Exec(ctx, dialect(statement), args...)
			return err
		},
		Texts: func(ctx context.Context, tx any, query string) ([]string, error) {
			rows, err := tx.(pgx.Tx).Query(ctx, dialect(query))
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[string])
		},
	}, nil
}

// Every order of a marketplace on PostgreSQL ends by itself, or needs attention, though its processes are killed.
func TestEveryOrderEndsOrNeedsAttention(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	var own *postgres.Journal
	market.EveryOrderEndsOrNeedsAttention(t, market.Store{
		Database: server.Schema(t) + " " + server.URL(),
		Open: func(ctx context.Context, name string) (market.Database, error) {
			db, err := openMarket(ctx, name)
			if err == nil {
				own = db.Journal.(*postgres.Journal)
				t.Cleanup(func() { require.NoError(t, own.Close()) })
			}
			return db, err
		},
		Buried: func(t *testing.T) { require.NoError(t, postgres.BuryOthers(t.Context(), own)) },
	})
}
