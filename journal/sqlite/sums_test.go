//go:build unix

package sqlite_test

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/onceward/onceward/journal/internal/format"
)

// rowsIn reads columns of a table.
func rowsIn(t *testing.T, path, columns, table string) (all [][]driver.Value) {
	t.Helper()
	rows, err := anotherProcess(t, path).QueryContext(t.Context(), "SELECT "+columns+" FROM "+table)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		v := make([]any, strings.Count(columns, ",")+1)
		into := make([]any, len(v))
		for i := range v {
			into[i] = &v[i]
		}
		require.NoError(t, rows.Scan(into...))
		row := make([]driver.Value, len(v))
		for i := range v {
			row[i] = v[i]
		}
		all = append(all, row)
	}
	require.NoError(t, rows.Err())
	return all
}

// otherValues returns values that a column might have instead of its own.
func otherValues(v driver.Value) (others []driver.Value) {
	switch v := v.(type) {
	case nil:
		return []driver.Value{int64(1), "x", []byte("x")}
	case int64:
		others = []driver.Value{v + 1, v - 1, 1 - v, v + 256}
	case string:
		others = []driver.Value{v + "x", "x" + v, strings.ToUpper(v)}
	case []byte:
		for i := 0; i < len(v); i += 1 + len(v)/50 {
			other := slices.Clone(v)
			other[i] ^= 1
			others = append(others, other)
		}
		others = append(others, v[:len(v)/2], []byte{})
	}
	return slices.DeleteFunc(others, func(other driver.Value) bool { return fmt.Sprint(other) == fmt.Sprint(v) })
}

// A row that records an outcome has a sum that detects any changed value.
func TestSumsOfRows(t *testing.T) {
	t.Parallel()
	everything := everything(t)
	scene := newScene(t)
	for name, row := range map[string]struct {
		table, columns string
		read           func(v []driver.Value) error
	}{
		"operations": {"onceward_operations", format.Columns, func(v []driver.Value) error {
			r, err := format.ReadRow(v)
			if err == nil {
				_, err = format.DecodeRequest(r.Request, nil) // the request has a sum of its own
			}
			return err
		}},
		"log":      {"onceward_log", format.LogColumns, func(v []driver.Value) error { _, _, err := format.ReadLogRow(v); return err }},
		"segments": {"onceward_segments", format.SegmentColumns, func(v []driver.Value) error { _, _, err := format.ReadSegment(v); return err }},
		"flows":    {"onceward_flows", format.FlowColumns, func(v []driver.Value) error { _, err := format.ReadFlow(v); return err }},
		"steps": {"onceward_flow_steps", "seq, kind, name, position, parallel, at, result, sum, flow", func(v []driver.Value) error {
			_, err := format.ReadStep(v[8].(int64), v)
			return err
		}},
		"blocks": {"onceward_blocks", "first, data", func(v []driver.Value) error {
			return format.EachOfBlock(v[0].(int64), v[1].([]byte), format.All, func(*format.Record) error { return nil })
		}},
		"removed": {"onceward_removed", "first, bits", func(v []driver.Value) error { _, err := format.DecodeRemoved(v[0].(int64), v[1].([]byte)); return err }},
		"contents": {"onceward_contents", "first, hashes", func(v []driver.Value) error {
			_, err := format.DecodeContents(v[0].(int64), v[1].([]byte))
			return err
		}},
		"epoch": {"onceward_journal", "identity, epoch", func(v []driver.Value) error { _, err := format.DecodeEpoch(v[0].(string), v[1].([]byte)); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			all := append(rowsIn(t, scene.path, row.columns, row.table+" LIMIT 20"), rowsIn(t, everything, row.columns, row.table+" LIMIT 20")...)
			if name != "removed" {
				require.NotEmpty(t, all)
			}
			for _, v := range all {
				require.NoError(t, row.read(v))
				for i := range v {
					for _, other := range otherValues(v[i]) {
						altered := slices.Clone(v)
						altered[i] = other
						err := tried(func() error { return row.read(altered) })
						assert.Error(t, err, "%s: %v instead of %v", strings.Split(row.columns, ", ")[i], other, v[i])
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// tried turns a panic about a column of another type into an error.
func tried(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return read()
}
