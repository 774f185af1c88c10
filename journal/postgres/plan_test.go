package postgres_test

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/internal/soak"
	"github.com/onceward/onceward/journal/postgres/postgrestest"
)

// fill fills a schema with that many operations, nearly all of them settled, and others in every state.
const fill = `
SET synchronous_commit = off;
INSERT INTO %[1]s.operations (identity, scope, parent, id, naming, provider, state, holder, wake_at, settled_at, delivered, tombstone, facts)
SELECT CASE WHEN i %% 2 = 0 THEN sha256(i::text::bytea) END, '', '', ('order-' || i)::bytea, 0, 'ledger',
	s, CASE WHEN s = 2 OR s = 3 AND i %% 400 = 3 THEN 'session-' || i / 20 %% 10 END, CASE WHEN s IN (1, 4) THEN CASE WHEN i %% 5 = 0 THEN 0 ELSE i END END,
	CASE WHEN s > 2 THEN i END, s = 3 AND i %% 400 <> 3, i %% 3 = 0, decode(repeat('ab', 200), 'hex')
FROM (SELECT i, CASE WHEN i %% 100 < 96 THEN 3 WHEN i %% 100 = 96 THEN 1 WHEN i %% 100 = 97 THEN 2 WHEN i %% 100 = 98 THEN 4 ELSE 5 END AS s
	FROM generate_series(1, %[2]d) i) x;
INSERT INTO %[1]s.requests SELECT handle, decode(repeat('ab', 300), 'hex'), decode(repeat('ab', 300), 'hex') FROM %[1]s.operations;
INSERT INTO %[1]s.answers SELECT handle, decode(repeat('ab', 300), 'hex'), decode(repeat('ab', 300), 'hex') FROM %[1]s.operations WHERE state = 3;
INSERT INTO %[1]s.marks SELECT ('x' || substr(md5(handle::text), 1, 15))::bit(60)::bigint, handle FROM %[1]s.operations WHERE state <> 3;
INSERT INTO %[1]s.heard SELECT sha256(i::text::bytea), i FROM generate_series(1, %[2]d / 10) i;
INSERT INTO %[1]s.flows (identity, scope, parent, id, function, version, state, holder, claim, due_at, ended_at, tombstone, facts)
SELECT sha256(i::text::bytea), '', '', ('flow-' || i)::bytea, 'ride', 1, CASE WHEN i %% 50 = 0 THEN 1 WHEN i %% 50 = 1 THEN 2 ELSE 3 END,
	CASE WHEN i %% 50 = 0 THEN 'session-' || i %% 10 END, 1, CASE WHEN i %% 50 = 1 THEN i END, CASE WHEN i %% 50 > 1 THEN i END, i %% 50 > 1, '{}'
FROM generate_series(1, %[2]d / 10) i;
INSERT INTO %[1]s.flow_steps SELECT handle, seq, 1, 'create', seq, false, 1, '{}', 1 FROM %[1]s.flows, generate_series(1, 5) seq;
INSERT INTO %[1]s.receipts (identity, scope, key, place, state, ends_at, written_in, facts, answer)
SELECT sha256(i::text::bytea), 't acme', ('key-of-' || i)::bytea, 'orders.create', CASE WHEN i %% 100 = 0 THEN 1 ELSE 2 END, i, pg_current_xact_id(),
	decode(repeat('ab', 200), 'hex'), decode(repeat('ab', 300), 'hex') FROM generate_series(1, %[2]d / 10) i;
`

// No statement that runs again and again reads a whole table, whether the server plans it for its parameters or
// generically.
func TestPlansReadNoTableWhole(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t) // the test vacuums, and the transactions of other tests would keep pages from being marked all-visible
	opts := options(t, server)
	j := open(t, server, opts)
	many := soak.Times(100_000, 500_000)
	conn := server.Conn(t)
	_, err := conn.Exec(t.Context(), fmt.Sprintf(fill, `"`+opts.Schema+`"`, many))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "VACUUM ANALYZE")
	require.NoError(t, err)
	for name, s := range j.Planned(int64(many/50), "session-3") {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			_, err := conn.Exec(t.Context(), "SET plan_cache_mode = "+mode)
			require.NoError(t, err)
			_, err = conn.Exec(t.Context(), "PREPARE p AS "+s.SQL)
			require.NoError(t, err, name)
			execute := "p"
			if len(s.Args) > 0 {
				execute += "(" + literals(s.Args) + ")"
			}
			rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE "+execute)
			require.NoError(t, err, name)
			var plan strings.Builder
			for rows.Next() {
				var line string
				require.NoError(t, rows.Scan(&line))
				plan.WriteString(line + "\n")
			}
			require.NoError(t, rows.Err(), name)
			for _, table := range []string{"operations", "requests", "answers", "marks", "heard", "flows", "flow_steps", "receipts"} {
				assert.NotContains(t, plan.String(), "Seq Scan on "+table, "%s, %s", name, mode)
			}
			if strings.HasPrefix(name, "find by") {
				inFlight := setting(t, conn, `SELECT count(*)::text FROM "`+opts.Schema+`".operations WHERE holder IS NOT NULL`)
				assert.Contains(t, plan.String(), "operations_holder", "by an index of what is held: %s", mode)
				for _, removed := range regexp.MustCompile(`Rows Removed by Filter: (\d+)`).FindAllStringSubmatch(plan.String(), -1) {
					n, most := 0, 0
					_, err := fmt.Sscan(removed[1]+" "+inFlight, &n, &most)
					require.NoError(t, err)
					assert.LessOrEqual(t, n, most, "it looks at no more than is held: %s", mode)
				}
			}
			if strings.HasPrefix(name, "receipt by its key") {
				assert.Contains(t, plan.String(), "receipts_identity", "%s, %s", name, mode)
			}
			if testing.Verbose() {
				t.Logf("%s, %s:\n%s", name, mode, plan.String())
			}
			_, err = conn.Exec(t.Context(), "DEALLOCATE p")
			require.NoError(t, err)
		}
	}
}

// literals returns arguments as SQL literals.
func literals(args []any) string {
	var all []string
	for _, arg := range args {
		switch v := arg.(type) {
		case nil:
			all = append(all, "NULL")
		case string:
			all = append(all, "'"+v+"'")
		case []byte:
			all = append(all, `'\x`+hex.EncodeToString(v)+"'")
		case [][]byte:
			all = append(all, `ARRAY['\x`+hex.EncodeToString(v[0])+"'::bytea]")
		case []string:
			all = append(all, "ARRAY['"+v[0]+"']")
		case []int64:
			all = append(all, strings.Replace(strings.ReplaceAll(fmt.Sprintf("ARRAY%v", v), " ", ","), "ARRAY", "ARRAY", 1))
		default:
			all = append(all, fmt.Sprint(v))
		}
	}
	return strings.Join(all, ", ")
}
