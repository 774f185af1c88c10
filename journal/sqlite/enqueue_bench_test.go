package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/sqlite"
)

// BenchmarkEnqueueTx measures transactions that enqueue a number of operations each. The time for one operation should
// be the same in all of them.
func BenchmarkEnqueueTx(b *testing.B) {
	for _, many := range []int{1000, 2000, 4000, 8000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			for round := range b.N {
				path := filepath.Join(b.TempDir(), fmt.Sprint(round, ".db"))
				j, err := sqlite.Open(path, sqlite.Options{Volatile: true})
				require.NoError(b, err)
				db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
				require.NoError(b, err)
				tx, err := db.Begin()
				require.NoError(b, err)
				for n := range many {
					_, err := j.EnqueueTx(b.Context(), sqlite.Tx(tx), enqueue(fmt.Sprint("order-", n)))
					require.NoError(b, err)
				}
				require.NoError(b, tx.Commit())
				require.NoError(b, db.Close())
				require.NoError(b, j.Close())
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*many), "µs/enqueue")
		})
	}
}
