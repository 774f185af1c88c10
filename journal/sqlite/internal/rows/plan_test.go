//go:build unix

package rows

import (
	"database/sql/driver"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/rowstore"
)

// No count, page or claim reads completed rows that it does not want: each goes by an index of what it selects.
func TestPlansReadIndexes(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	defer d.Close()
	plan := func(text string, args []any) (steps []string) {
		t.Helper()
		s, err := d.writer.Prepare("EXPLAIN QUERY PLAN " + text)
		require.NoError(t, err)
		require.NoError(t, s.Each(func(v []driver.Value) error {
			steps = append(steps, v[3].(string))
			return nil
		}, args...))
		return steps
	}
	reads := func(name, text string, args []any) {
		t.Helper()
		for _, step := range plan(text, args) {
			indexed := strings.Contains(step, "INDEX") || strings.Contains(step, "PRIMARY KEY") || strings.Contains(step, "VIRTUAL TABLE")
			small := step == "SCAN onceward_head" || step == "SCAN onceward_sessions" || step == "SCAN onceward_receipts_removed"
			assert.True(t, indexed || small || !strings.HasPrefix(step, "SCAN onceward_"), "%s: %s", name, step)
		}
	}
	for index := rowstore.Pending; index <= rowstore.Flagged; index++ {
		for _, providers := range [][]string{nil, {"ledger", "bank"}} {
			scan := rowstore.Scan{Index: index, By: math.MaxInt64, Holder: "S", Providers: providers, Limit: 10}
			text, args := selection(&scan)
			reads(fmt.Sprint("page of index ", index), text, args)
			where, args := condition(&scan)
			reads(fmt.Sprint("count of index ", index), "SELECT count(*), min(settled_at) FROM onceward_rows WHERE "+where, args)
		}
	}
	reads("count of flows", countFlows, []any{0})
	for _, statement := range []string{totals, nextReceipt, "SELECT handle FROM onceward_names WHERE digest = x''", "SELECT handle FROM onceward_marks WHERE mark = 1"} {
		reads("statement", statement, nil)
	}
}
