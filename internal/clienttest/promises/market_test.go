package promises_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/market"
	"github.com/onceward/onceward/journal/sqlite"
)

// serveMarketIfAsked serves a marketplace if this process was started for that, and then does not return.
func serveMarketIfAsked() {
	plan, is, err := market.Planned()
	if !is {
		return
	}
	if err == nil {
		var db market.Database
		if db, err = openMarket(context.Background(), plan.Database); err == nil {
			err = plan.Serve(context.Background(), db)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func openMarket(_ context.Context, path string) (market.Database, error) {
	j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
	if err != nil {
		return market.Database{}, err
	}
	dialect := strings.NewReplacer("$", "?", "{", "", "}", "").Replace
	return market.Database{
		Journal: j,
		Exec: func(ctx context.Context, tx any, statement string, args ...any) error {
			_, err := tx.(*sql.Tx).ExecContext(ctx, dialect(statement), args...)
			return err
		},
		Texts: func(ctx context.Context, tx any, query string) (all []string, err error) {
			rows, err := tx.(*sql.Tx).QueryContext(ctx, dialect(query))
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var text string
				if err := rows.Scan(&text); err != nil {
					return nil, err
				}
				all = append(all, text)
			}
			return all, rows.Err()
		},
	}, nil
}

// Every order in a marketplace on SQLite ends by itself, or needs attention, though its processes are killed.
func TestEveryOrderEndsOrNeedsAttention(t *testing.T) {
	t.Parallel()
	market.EveryOrderEndsOrNeedsAttention(t, market.Store{
		Database: filepath.Join(t.TempDir(), "market.db"),
		Open: func(ctx context.Context, path string) (market.Database, error) {
			db, err := openMarket(ctx, path)
			if err == nil {
				t.Cleanup(func() { require.NoError(t, db.Journal.(*sqlite.Journal).Close()) })
			}
			return db, err
		},
	})
}

// Both providers of a marketplace are away for minutes, and every order ends nevertheless.
func TestOutageOfBothProviders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := openMarket(t.Context(), filepath.Join(t.TempDir(), "market.db"))
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Journal.(*sqlite.Journal).Close()) }()
		market.OutageOfBothProviders(t, db)
	})
}
